"""Random scripts on the cores of the Spark engine, with workers and attempts that fail."""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.networks import DRIVES
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.random_scripts import TIMES, Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, on_oracle, run_on
from tests.thresholds import low_thresholds

import penstock as ps
from penstock.engines.shared.pipeline import OwnNetwork
from penstock.engines.spark.core import host
from penstock.engines.spark.engine import Engine
from penstock.flows.network.network import Driver, Network

SOME = examples(60)


def settled(engine: Engine) -> Engine:
    finish(engine)
    return engine


def on_cluster(
    steps: list[Step], sizes: list[int], times: str, seed: int, **options: Any
) -> tuple[dict[str, Any], ...]:
    cluster = Cluster(random.Random(seed))
    with connected(cluster, **options) as engine:
        return run_on(engine, steps, sizes, TIMES[times], settled)


@pytest.fixture(scope="module", params=[1, 65_536], autouse=True)
def small_chunks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Chunks that are merged, and ones that are not; indexes and packed windows early."""
    with low_thresholds(full_chunk=request.param):
        yield


@pytest.mark.product(1)
@SOME
@given(
    st.booleans().flatmap(lambda derived: scripts(derived=derived)),
    SIZES,
    BATCHES,
    st.sampled_from(("int64", "int64", *sorted(TIMES))),
    st.integers(0, 1 << 30),
    st.integers(1, 3),
)
def test_rows_are_the_oracles_after_any_failure(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str, seed: int, cores: int
) -> None:
    found = on_cluster(
        steps, sizes, times, seed, batch_rows=batch_rows, compile_predicates=False, cores=cores
    )
    check(steps, on_oracle(steps, TIMES[times]), found)


@pytest.mark.product(1, by="driver")
@pytest.mark.parametrize("driver", DRIVES)
@examples(16)
@given(steps=scripts(derived=True), sizes=SIZES, seed=st.integers(0, 1 << 30), data=st.data())
def test_rows_are_the_oracles_by_every_driver(
    driver: str, steps: list[Step], sizes: list[int], seed: int, data: Any
) -> None:
    make, made = data.draw(DRIVES[driver]), []

    def drive(network: Network) -> Driver:
        made.append(make(network))
        return made[-1]

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "network_maker", lambda *_: partial(OwnNetwork, drive=drive))
            found = on_cluster(steps, sizes, "int64", seed, compile_predicates=False, cores=2)
    finally:
        for one in made:  # workers that are killed close nothing
            one.close()
    assert made
    check(steps, on_oracle(steps), found)


@pytest.mark.long
@pytest.mark.product(1)
@SOME
@given(
    scripts(derived=True),
    SIZES,
    st.integers(0, 1 << 30),
    st.sampled_from(("int64", "int64 with a lead")),
)
def test_an_engine_that_is_killed_goes_on_from_its_checkpoint(
    steps: list[Step], sizes: list[int], seed: int, times: str
) -> None:
    cluster = Cluster(random.Random(seed))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        open_engines: list[Any] = []
        dropped = 0

        def start() -> Engine:
            context = connected(
                cluster, checkpoint=Path(folder) / "checkpoint", compile_predicates=False, cores=2
            )
            open_engines.append(context)
            return context.__enter__()

        def killed(engine: Any) -> Engine:
            """Whatever it has done so far, another engine goes on, with nothing but the folder.

            Not right after a drop: what a dropped query had left is gone after a restart.
            """
            nonlocal dropped
            before, dropped = dropped, len(engine._registry.dropped)
            if chance.random() < 0.5:
                engine._resident.batch()
            if chance.random() < 0.5 and dropped == before:
                dropped = 0
                engine._checkpoint.close()  # a process that is killed holds no lock any more
                engine = start()
            finish(engine)
            return engine

        found = run_on(start(), steps, sizes, TIMES[times], settle=killed)
        for context in reversed(open_engines):
            context.__exit__(None, None, None)
    check(steps, on_oracle(steps, TIMES[times]), found)


def test_the_driver_warns_of_a_punctuation_that_goes_back_and_the_cores_ignore_it() -> None:
    with connected(Cluster(), cores=2) as engine:
        engine.sql("CREATE STREAM R (t BIGINT) TIMESTAMP BY t")
        n = engine.sql("SELECT COUNT(*) AS n, window_start FROM R [RANGE 10 SLIDE 10 WATTR t]")
        engine.punctuate("R", 10)
        with pytest.warns(UserWarning, match="stream R goes back, from 10 to 5, and is ignored"):
            engine.punctuate("R", 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.punctuate("R", 4)
            engine.punctuate("R", 10)
        engine.push("R", [{"t": 7}, {"t": 12}])
        engine.end()
        finish(engine)
        assert engine.ignored_punctuations == 2
        assert n.rows().to_pylist() == [{"n": 1, "window_start": 10}]
        assert n.metrics()["late"] == 1


def measured(engine: Any, kind: str) -> dict[str, Any]:
    """The metrics of a join with late tuples and expired ones."""
    engine.sql("CREATE STREAM R (x INT, t INT); CREATE STREAM S (x INT, t INT)")
    query = engine.install(
        "SELECT a.x FROM R [RANGE 30 WATTR t SLACK 0] AS a "
        f"{kind} JOIN S [ROWS 20] AS b ON a.x = b.x"
    )
    before = query.metrics()
    for i in range(0, 300, 10):
        r = [{"x": t % 7, "t": t - 20 * (t % 10 == 5)} for t in range(i, i + 10)]
        engine.push("R", r)
        engine.push("S", [{"x": t % 7, "t": t} for t in range(i, i + 10)])
    if isinstance(engine, Engine):
        finish(engine)
    found: dict[str, Any] = query.metrics()
    assert set(before) == set(found)
    return found


@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
def test_metrics_are_those_of_the_embedded_engine(kind: str) -> None:
    with ps.connect("local") as local:
        expected = measured(local, kind)
    assert (expected["expired_tuples"], expected["late"]) == ([0, 280], 30)
    same = ("tuples_in", "rows_out", "late", "matches", "window_tuples", "expired_tuples")
    for cores in (1, 2, 3):
        with connected(Cluster(random.Random(cores)), cores=cores) as engine:
            found = measured(engine, kind)
        assert [found[name] for name in same] == [expected[name] for name in same]
        assert set(found) == set(expected) - {"accounts"}, "which only the embedded engine tells"
        counts = [{k: m["latency"][k]["count"] for k in m["latency"]} for m in (found, expected)]
        assert counts[0] == counts[1]
        assert found["latency"]["processing"]["max"] > 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "SELECT a.x FROM R [ROWS 2] AS a FULL JOIN R [ROWS 2] AS b ON a.x = b.x",
            "a full join must know whom no core has matched",
        ),
        (
            "SELECT a.x FROM R [ROWS 2] AS a JOIN R [ROWS 2] AS b ON a.x = b.x "
            "ANTI JOIN R [ROWS 2] AS c ON b.x = c.x",
            "an anti join must know whom no core has matched",
        ),
        (
            "SELECT a.x FROM R [ROWS 2] AS a, R [ROWS 2] AS b, R [ROWS 2] AS c "
            "WHERE a.x = b.x AND b.x = c.x UNION ALL SELECT x FROM R",
            "a union with a join needs one order",
        ),
        (
            "SELECT a.x FROM R [ROWS 2] AS a JOIN R [ROWS 2] AS b ON a.x = b.x "
            "UNION ALL SELECT x FROM R",
            "a union with a join needs one order",
        ),
        (
            "SELECT COUNT(*) AS n FROM R [ROWS 2 SLIDE 2]",
            "an aggregate sees every tuple in its order",
        ),
    ],
)
def test_there_is_a_warning_for_a_query_that_can_use_only_one_core(text: str, why: str) -> None:
    with connected(Cluster(), cores=2) as engine:
        engine.sql("CREATE STREAM R (x INT)")
        with pytest.warns(UserWarning) as said:
            engine.install(text, name="q")
        assert [str(one.message) for one in said] == [f"query 'q' runs on one of 2 cores: {why}"]
        assert engine.explain(text).endswith(f"distribution: one core ({why})")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.install("SELECT x FROM R")
    with connected(Cluster(), cores=1) as engine, warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.sql("CREATE STREAM R (x INT)")
        engine.install(text)


def test_a_change_is_parsed_and_bound_on_the_driver_alone() -> None:
    rooms = ("parse", "bind", "rules")
    language = tuple(f"{Path(ps.__file__).parent}/sql/{room}/" for room in rooms)
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(language):
            calls.append(frame.f_code.co_qualname)

    def noted(step: Callable[[], object]) -> list[str]:
        calls.clear()
        sys.setprofile(note)
        try:
            step()
        finally:
            sys.setprofile(None)
        return list(calls)

    with connected(Cluster(), cores=2) as engine:
        engine.sql("CREATE STREAM R (x INT); CREATE STREAM S (x INT)")
        query = engine.install("SELECT r.x FROM R [ROWS 4] r JOIN S [ROWS 4] s ON r.x = s.x")
        engine.push("R", [{"x": 1}])
        finish(engine)
        changed = "SELECT r.x FROM R [ROWS 2] r JOIN S [ROWS 2] s ON r.x = s.x"
        assert noted(lambda: engine.explain(changed))  # so they would be noted
        query.change(changed)
        engine.push("S", [{"x": 1}])
        assert noted(lambda: finish(engine)) == []
        assert query.rows().to_pylist() == [{"x": 1}]
