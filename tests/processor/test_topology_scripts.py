"""Random scripts on topologies: rows and positions are the oracle's, whatever stands where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_topology import blocks_to_span, fleet_scripts, topology_scripts
from tests.steps import Step
from tests.test_random_scripts import check, in_any_order, on_oracle, run_on

import penstock as ps
from penstock import Topology, tuning
from penstock.engines.local.engine import Engine

SIZES = st.lists(st.sampled_from((1, 1, 2, 3, 5, 50)), min_size=1, max_size=3)
BATCHES = st.sampled_from((1, 2, 7, 1000))
TOPOLOGIES = ("fqp:chain:6:40", "fqp:parallel:6:40", "fqp:partial:2x5:40", "fqp:partial:3x6:32")


def scripts_for(topology: str | Topology) -> st.SearchStrategy[list[Step]]:
    """Scripts whose queries fit a topology."""
    spanning = isinstance(topology, Topology)
    return topology_scripts(spanning, spanning or "parallel" not in topology)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@examples(60)
@given(st.data(), SIZES, BATCHES)
def test_rows_are_the_oracles(
    topology: str, data: st.DataObject, sizes: list[int], batch_rows: int
) -> None:
    steps = data.draw(scripts_for(topology))
    engine = Engine(topology=topology, batch_rows=batch_rows, compile_predicates=False)
    check(steps, on_oracle(steps), run_on(engine, steps, sizes))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@examples(80)
@given(fleet_scripts(), SIZES, BATCHES, st.sampled_from((1, 2, 4)))
def test_rows_of_many_queries_are_the_oracles(
    topology: str, steps: list[Step], sizes: list[int], batch_rows: int, fewest: int
) -> None:
    with tuning.given(fewest_shared_selections=fewest):
        engine = Engine(topology=topology, batch_rows=batch_rows, compile_predicates=False)
        check(steps, on_oracle(steps), run_on(engine, steps, sizes))


@pytest.mark.parametrize("branches", (1, 2))
@examples(60)
@given(topology_scripts(spanning=True), SIZES, BATCHES)
def test_joins_that_span_blocks_have_the_oracles_rows(
    branches: int, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    topology = blocks_to_span(branches)
    engine = Engine(topology=topology, batch_rows=batch_rows, compile_predicates=False)
    found = run_on(engine, steps, sizes, settle=spanning)
    check(steps, in_any_order(on_oracle(steps)), in_any_order(found))


def spanning(engine: Any) -> Any:
    """The engine, every join of which spans two blocks."""
    for query in engine.queries.values():
        if query.program.joins:
            assert len(query.program.flow.blocks) == 2
            assert query.pipeline.flow.name == "low-latency-handshake"
    return engine


@pytest.mark.parametrize("spans", (False, True))
@examples(25)
@given(st.data(), SIZES)
def test_a_saved_engine_goes_on_with_its_queries_where_they_stood(
    spans: bool, data: st.DataObject, sizes: list[int]
) -> None:
    steps = data.draw(topology_scripts(spanning=spans))

    def restored(engine: Any) -> Any:
        if engine.dropped:  # an engine is saved without what dropped queries have left
            return engine
        before = {name: query.program.flow.blocks for name, query in engine.queries.items()}
        with TemporaryDirectory() as folder:
            path = Path(folder, "engine")
            engine.save(path)
            engine = ps.restore(path)
        after = {name: query.program.flow.blocks for name, query in engine.queries.items()}
        assert after == before
        return engine

    topology = blocks_to_span(1) if spans else "fqp:chain:6:40"
    engine = Engine(topology=topology, compile_predicates=False)
    expected, found = on_oracle(steps), run_on(engine, steps, sizes, settle=restored)
    if spans:
        expected, found = in_any_order(expected), in_any_order(found)
    check(steps, expected, found)


@pytest.mark.parametrize("window", (4, 2), ids=("in one block", "spanning"))
def test_a_closed_engine_is_saved_with_its_windows(tmp_path: Path, window: int) -> None:
    text = "SELECT r.x FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.a"
    with Engine(topology=f"fqp:chain:3:{window}", compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
        engine.install(text, name="j")
        engine.push("R", [{"x": 1}, {"x": 2}])
    engine.save(tmp_path / "engine")
    with ps.restore(tmp_path / "engine") as again:
        again.push("S", [{"a": 2}])
        assert again.queries["j"].rows().to_pylist() == [{"x": 2}]


PLACED = "SELECT r.x FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x = s.a"


def saved_on(topology: Topology | str | None, path: Path) -> None:
    """Save an engine with tuples in the windows of three joins."""
    with Engine(topology=topology, compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
        for name in ("j", "k", "l"):
            engine.install(PLACED, name=name)
        engine.push("R", [{"x": 1}, {"x": 2}])
        engine.save(path)


@pytest.mark.parametrize("block", ("smaller", "same name"))
def test_an_engine_is_not_restored_on_another_topology(tmp_path: Path, block: str) -> None:
    path = tmp_path / "engine"
    saved_on("fqp:chain:3:16", path)
    other: Topology | str = "fqp:chain:2:16"
    if block == "same name":
        other = replace(ps.topology("fqp:chain:2:16"), name="fqp:chain:3:16")
    with pytest.raises(ps.StateError) as raised:
        ps.restore(path, topology=other)
    name = "another one of that name" if block == "same name" else "'fqp:chain:2:16'"
    assert str(raised.value) == (
        f"{path} was saved with the topology 'fqp:chain:3:16', on whose blocks its queries stand; "
        f"they cannot go on on {name}\n"
        "Leave topology= out to restore it on 'fqp:chain:3:16', or pass topology=None, which gives "
        "each query blocks of its own."
    )


def test_an_engine_without_a_topology_is_not_restored_on_one(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    saved_on(None, path)
    with pytest.raises(ps.StateError) as raised:
        ps.restore(path, topology="fqp:chain:3:16")
    assert str(raised.value) == (
        f"{path} was saved without a topology, and its queries have blocks of their own; they "
        "cannot go on on the topology 'fqp:chain:3:16'\n"
        "Leave topology= out to restore it as it was saved."
    )


@pytest.mark.parametrize("window", (4, 2), ids=("in one block", "spanning"))
@pytest.mark.parametrize("own", (False, True), ids=("the same topology", "blocks of their own"))
def test_what_a_refused_restore_advises(tmp_path: Path, window: int, own: bool) -> None:
    path, topology = tmp_path / "engine", f"fqp:chain:6:{window}"
    saved_on(topology, path)
    with ps.restore(path, topology=None if own else topology) as again:
        again.push("S", [{"a": 2}])
        again.change("l", PLACED.replace("=", "<="))
        again.push("S", [{"a": 1}])
        rows = {name: query.rows().to_pylist() for name, query in again.queries.items()}
        assert rows == {name: [{"x": 2}, {"x": 1}] for name in "jkl"}
        assert ("placement" in again.queries["j"].explain()) is not own


def test_an_engine_without_queries_is_restored_on_any_topology(tmp_path: Path) -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (a INT)")
        engine.save(tmp_path / "engine")
    with ps.restore(tmp_path / "engine", topology="fqp:chain:3:16") as again:
        assert again.install(PLACED, name="j").program.flow.blocks == (1,)
