"""Random scripts on the cores of the Spark engine, with workers and attempts that fail."""

from __future__ import annotations

import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.random_scripts import TIMES, Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, on_oracle, run_on

from penstock.blocks import join_side
from penstock.engines.spark import state
from penstock.engines.spark.engine import Engine

SOME = settings(max_examples=max(60, settings().max_examples // 10))


def settled(engine: Engine) -> Engine:
    finish(engine)
    return engine


def on_cluster(
    steps: list[Step], sizes: list[int], times: str, seed: int, **options: Any
) -> tuple[dict[str, Any], ...]:
    cluster = Cluster(random.Random(seed))
    with connected(cluster, **options) as engine:
        return run_on(engine, steps, sizes, TIMES[times], settled)


@pytest.fixture(params=[1, 65_536], autouse=True)
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are merged, and ones that are not; windows are packed early."""
    monkeypatch.setattr(state, "FULL", request.param)
    monkeypatch.setattr(join_side, "WORTH_PACKING", 1)


@SOME
@given(
    st.booleans().flatmap(lambda derived: scripts(derived=derived)),
    SIZES,
    BATCHES,
    st.sampled_from(("int64", "int64", *sorted(TIMES))),
    st.integers(0, 1 << 30),
    st.integers(1, 3),
)
def test_rows_are_the_oracles_whatever_fails(
    steps: list[Step], sizes: list[int], batch_rows: int, times: str, seed: int, cores: int
) -> None:
    found = on_cluster(
        steps, sizes, times, seed, batch_rows=batch_rows, compile_predicates=False, cores=cores
    )
    check(steps, on_oracle(steps, TIMES[times]), found)


@SOME
@given(scripts(derived=True), SIZES, st.integers(0, 1 << 30))
def test_an_engine_that_is_killed_goes_on_from_its_checkpoint(
    steps: list[Step], sizes: list[int], seed: int
) -> None:
    cluster = Cluster(random.Random(seed))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        open_engines: list[Any] = []

        def start() -> Engine:
            context = connected(
                cluster, checkpoint=Path(folder) / "checkpoint", compile_predicates=False, cores=2
            )
            open_engines.append(context)
            return context.__enter__()

        def killed(engine: Any) -> Engine:
            """Whatever it has done so far, another engine goes on, with nothing but the folder."""
            if chance.random() < 0.5:
                engine._resident.batch()
            if chance.random() < 0.5:
                engine._checkpoint.close()  # a process that is killed holds no lock any more
                engine = start()
            finish(engine)
            return engine

        found = run_on(start(), steps, sizes, settle=killed)
        for context in reversed(open_engines):
            context.__exit__(None, None, None)
    check(steps, on_oracle(steps), found)


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
