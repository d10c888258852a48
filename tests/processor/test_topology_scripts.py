"""Random scripts on topologies: rows and positions are the oracle's, whatever stands where."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_topology import topology_scripts
from tests.steps import Step
from tests.test_random_scripts import check, on_oracle, run_on

import penstock as ps
from penstock.engines.local.engine import Engine

SIZES = st.lists(st.sampled_from((1, 1, 2, 3, 5, 50)), min_size=1, max_size=3)
BATCHES = st.sampled_from((1, 2, 7, 1000))
TOPOLOGIES = ("fqp:chain:6:40", "fqp:partial:2x5:40", "fqp:partial:3x6:32")


@pytest.mark.parametrize("topology", TOPOLOGIES)
@examples(60)
@given(topology_scripts(), SIZES, BATCHES)
def test_rows_are_the_oracles(
    topology: str, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    engine = Engine(topology=topology, batch_rows=batch_rows, compile_predicates=False)
    check(steps, on_oracle(steps), run_on(engine, steps, sizes))


@examples(40)
@given(topology_scripts(), SIZES)
def test_a_saved_engine_goes_on_with_its_queries_where_they_stood(
    steps: list[Step], sizes: list[int]
) -> None:
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

    engine = Engine(topology="fqp:chain:6:40", compile_predicates=False)
    check(steps, on_oracle(steps), run_on(engine, steps, sizes, settle=restored))
