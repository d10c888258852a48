"""Aggregates on the cores of the Spark engine: any cut into micro-batches, any failure."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.spark.batched import feed_all, lines_of, recorded
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.random_aggregates import TIMES, aggregate_scripts
from tests.random_scripts import Step
from tests.test_random_aggregates import check, of_one_size, on_oracle, run_on

from penstock import tuning
from penstock.engines.spark.core import fold_at_source
from penstock.engines.spark.engine import Engine

FOLDER = Path(__file__).parents[2] / "conformance"
SCRIPTS = sorted(FOLDER.glob("aggregate-*.flow"))


@pytest.mark.long
@pytest.mark.product(1)
@pytest.mark.parametrize(("cores", "most"), [(1, 2), (3, 65_536)], ids=["small", "large"])
def test_every_script_meets_its_expectations(
    cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tuning.given(full_chunk=most, most_column_chunks=most, fewest_to_fold=1):
        monkeypatch.setattr(fold_at_source, "_is_smaller", lambda *_: True)
        expected = {path.stem: recorded(path.read_text(encoding="utf-8")) for path in SCRIPTS}
        for seed, (name, (events, lines)) in enumerate(expected.items()):
            cluster = Cluster(random.Random(seed), eager=True)
            options = {"cores": cores, "rows_per_trigger": 3, "compile_predicates": False}
            with connected(cluster, **options) as engine:
                [fed] = feed_all(engine, [events], sizes=[1, 3, 2])
                assert lines_of(fed) == lines, name


def test_explain_says_that_groups_are_shared_and_an_aggregate_without_is_not() -> None:
    with connected(Cluster(), cores=3) as engine:
        engine.sql("CREATE STREAM r (t int64, x int64)")
        counted = engine.explain("SELECT COUNT(*) FROM r [RANGE 10 SLIDE 5 WATTR t]")
        assert counted.endswith(
            "distribution: one core (an aggregate without GROUP BY has one group)"
        )
        grouped = engine.explain("SELECT COUNT(*) FROM r [RANGE 10 SLIDE 5 WATTR t] GROUP BY x, t")
        assert grouped.endswith("distribution: groups divided among 3 cores by x, t")


def test_metrics_tell_what_an_aggregate_holds() -> None:
    with connected(Cluster(eager=True), cores=2) as engine:
        engine.sql("CREATE STREAM r (t int64, x int64)")
        query = engine.sql("SELECT x, COUNT(*) FROM r [RANGE 10 SLIDE 5 WATTR t] GROUP BY x")
        engine.push("r", [{"t": t, "x": t % 3} for t in range(20)])
        engine.wait()
        found = query.metrics()
        assert [found[name] for name in ("groups", "panes", "windows_open")] == [[3], [2], [2]]


@examples(25)
@given(
    st.booleans().flatmap(lambda derived: aggregate_scripts(derived=derived)),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.sampled_from(("int64", *sorted(TIMES))),
    st.sampled_from((None, "panes", "wid")),
    st.booleans(),
    st.integers(0, 1 << 30),
    st.integers(1, 3),
    st.sampled_from((1, 3, 1024)),
)
def test_rows_are_the_oracles_after_any_failure(
    steps: list[Step],
    sizes: list[int],
    times: str,
    kernel: str | None,
    encoded: bool,
    seed: int,
    cores: int,
    fewest: int,
) -> None:
    def settled(engine: Engine) -> Engine:
        finish(engine)
        return engine

    steps = of_one_size(steps) if kernel == "wid" else steps
    options = {"cores": cores, "batch_rows": 5, "compile_predicates": False}
    with (
        tuning.given(fewest_to_fold=fewest),
        patch.object(fold_at_source, "_is_smaller", lambda *_: True),
        connected(Cluster(random.Random(seed)), **options) as engine,
    ):
        found = run_on(engine, steps, sizes, TIMES[times], settled, kernel, encoded)
    check(steps, on_oracle(steps, TIMES[times]), found)
