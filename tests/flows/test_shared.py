"""Threads that share a join's windows give the rows of one thread, in its order."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, compare
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.blocks.join import pair_search
from penstock.blocks.join.block import JoinBlock
from penstock.blocks.join.matcher import Matcher
from penstock.engines.local.engine import Engine
from penstock.flows.make import KINDS
from penstock.flows.network.threads import CoreFailed
from penstock.flows.shared import ThreadPool
from penstock.streams.events import Merged, Tuples


@contextmanager
def using(pool: ThreadPool, **constants: float) -> Iterator[None]:
    """Every inner join of an engine has the pool, with these tuning constants."""
    with pytest.MonkeyPatch.context() as patch, tuning.given(arrivals_to_share=0, **constants):
        patch.setitem(
            KINDS, "join", lambda number: JoinBlock(number, core_threads_of=lambda _: pool)
        )
        yield


@pytest.fixture(scope="module")
def three_threads() -> Iterator[None]:
    """Three cores, parts of single events, and small steps."""
    pool = ThreadPool(3)
    with using(pool, smallest_part=1, pairs_per_step=3):
        yield
    pool.close()


@pytest.fixture(scope="module", params=["index that stays", "index for one part"])
def three_threads_with_indexes(
    three_threads: None, request: pytest.FixtureRequest
) -> Iterator[None]:
    live = -1 if "stays" in request.param else 1e9
    with low_thresholds(most_live_per_arrival=live, swept_arrivals=2, swept_per_live=0):
        yield


SIZES = st.lists(st.sampled_from((1, 3, 7, 50)), min_size=1, max_size=3)
SCRIPTS = st.booleans().flatmap(lambda counted: scripts(count_windows=counted))
SOME = examples(100)


# -- compiled, against one thread ---------------------------------------------------------------

DDL = (
    "CREATE STREAM R (t BIGINT, k INT, v DOUBLE, w VARCHAR); "
    "CREATE STREAM S (t BIGINT, k INT, v DOUBLE, w VARCHAR)"
)
PREDICATES = {
    "equality": "r.k = s.k",
    "texts": "r.w = s.w AND r.k < s.k",
    "band": "r.k BETWEEN s.k - 3 AND s.k + 3 AND r.v BETWEEN s.v - 9 AND s.v + 9",
    "arithmetic": "r.k + s.k = 70 AND r.v < s.v",
    "residual": "r.k = s.k AND (r.k * 2.5) / (s.k - 40) < r.v",
    "nothing": "r.w LIKE s.w",
}
WINDOWS = {
    "none": "[ROWS 0]",
    "one": "[ROWS 1]",
    "rows": "[ROWS 300]",
    "range": "[RANGE 400 WATTR t]",
    "disorder": "[RANGE 400 WATTR t SLACK 60]",
}


def tuples(count: int, disorder: int, keys: int = 80) -> Merged:
    """Arrivals of both streams, with NULLs; times are out of order by less than ``disorder``."""
    rng = np.random.default_rng(3)
    which = rng.integers(0, 2, count).astype(np.int8)
    times = np.arange(count) + rng.integers(0, disorder + 1, count)
    k, v = rng.integers(0, keys, count), rng.random(count) * 100
    w = np.array(["a", "b", "ab", "%a"])[rng.integers(0, 4, count)]
    null = rng.random((3, count)) < 0.05
    table = pa.RecordBatch.from_arrays(
        [
            pa.array(times),
            pa.array(k, pa.int32(), mask=null[0]),
            pa.array(v, mask=null[1]),
            pa.array(w, pa.string(), mask=null[2]),
        ],
        ["t", "k", "v", "w"],
    )
    left, right = (table.take(np.flatnonzero(which == side)) for side in (0, 1))
    return Merged(("R", "S"), (left, right), which)


def joined(query: str, batch: int, given: Merged, change: str | None = None) -> tuple[Any, ...]:
    """Rows, positions, and what the query has counted."""
    with Engine(batch_rows=batch, buffer_rows=1 << 28) as engine:
        engine.sql(DDL)
        handle = engine.install(query)
        engine.feed([given])
        if change is not None:
            handle.change(change)
            engine.feed([given])
        engine.end()
        results, metrics = handle.drain(), handle.metrics()
    rows = pa.Table.from_batches([r.batch for r in results], handle.schema).combine_chunks()
    positions = [p for r in results for p in r.positions.tolist()]
    counted = {name: metrics[name] for name in ("expression_failures", "matches", "late")}
    return rows, positions, counted


def text(predicate: str, window: str) -> str:
    return (
        f"SELECT r.t, r.k, s.t AS st, s.v FROM R {window} AS r JOIN S {window} AS s ON {predicate}"
    )


def in_threads(cores: int, work: Callable[[], Any], **constants: float) -> tuple[Any, ThreadPool]:
    pool = ThreadPool(cores)
    low = {"smallest_part": 16, "most_live_per_arrival": 1.0, "longest_tail": 64}
    with using(pool, **(low | constants)):
        found = work()
    pool.close()
    return found, pool


@pytest.mark.product(3)
@pytest.mark.parametrize(
    ("predicate", "window"),
    [("band", window) for window in WINDOWS] + [("texts", "rows"), ("residual", "rows")],
)
def test_threads_give_the_rows_of_one(predicate: str, window: str) -> None:
    query = text(PREDICATES[predicate], WINDOWS[window])
    given = tuples(2_400, 50 if window == "disorder" else 0)
    expected = joined(query, 800, given)
    for cores, batch in ((2, 800), (5, 2_400), (3, 211)):
        found, _ = in_threads(cores, lambda batch=batch: joined(query, batch, given))
        assert found[0].equals(expected[0])
        assert found[1:] == expected[1:]
    assert window == "none" or expected[0].num_rows > 0


@pytest.mark.product(1, by="window")
@pytest.mark.parametrize("predicate", [*PREDICATES])
@pytest.mark.parametrize("window", [*WINDOWS])
@tuning.given(swept_arrivals=500, candidate_share=2.0)
def test_parts_with_an_index_of_their_own_give_the_rows_of_one(
    predicate: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept, sweep = [], Matcher.sweep

    def counted(self: Matcher, *given: Any) -> Any:
        found = sweep(self, *given)
        swept.append(found)
        return found

    monkeypatch.setattr(Matcher, "sweep", counted)
    query = text(PREDICATES[predicate], WINDOWS[window])
    given = tuples(2_400, 50 if window == "disorder" else 0)
    expected = joined(query, 800, given)
    found, _ = in_threads(2, lambda: joined(query, 1_200, given), most_live_per_arrival=1e6)
    assert found[0].equals(expected[0])
    assert found[1:] == expected[1:]
    # Times out of order are compared one by one; and one predicate offers nothing to index by.
    assert bool(swept) == (window != "disorder" and predicate != "nothing")


def test_threads_give_the_rows_of_one_for_single_tuples() -> None:
    query, given = text(PREDICATES["band"], "[ROWS 50]"), tuples(400, 0)
    expected = joined(query, 400, given)
    found, _ = in_threads(3, lambda: joined(query, 1, given), smallest_part=1)
    assert found[0].equals(expected[0])
    assert found[1:] == expected[1:]


def test_threads_take_another_predicate_and_window() -> None:
    before, after = text(PREDICATES["band"], "[ROWS 300]"), text("r.k = s.k", "[ROWS 1000]")
    given = tuples(2_400, 0)
    expected = joined(before, 1_200, given, after)
    found, _ = in_threads(2, lambda: joined(before, 1_200, given, after))
    assert found[0].equals(expected[0])
    assert found[1:] == expected[1:]


def test_a_run_has_no_more_pairs_than_a_step_may_have() -> None:
    query, given = text("r.k = s.k", "[ROWS 300]"), tuples(2_000, 0, keys=2)
    expected = joined(query, 2_000, given)
    sizes = []

    def work() -> Any:
        with Engine(batch_rows=2_000, buffer_rows=1 << 28) as engine:
            engine.sql(DDL)
            handle = engine.install(query)
            engine.feed([given])
            results = handle.drain()
        sizes.extend(r.batch.num_rows for r in results)
        return pa.Table.from_batches([r.batch for r in results]).combine_chunks()

    found, _ = in_threads(3, work, pairs_per_step=500)
    assert found.equals(expected[0])
    # Both sides may have found as many as a step may have.
    assert len(sizes) > 100 and max(sizes) <= 1_000


def test_cores_count_what_they_have_done() -> None:
    query, given = text("r.k = s.k", "[ROWS 300]"), tuples(6_000, 0)
    found, pool = in_threads(2, lambda: joined(query, 3_000, given))
    cores = pool.measures()["cores"]
    assert [core["core"] for core in cores] == [0, 1]
    # A tuple whose key is NULL probes too, and finds no partner.
    assert sum(sum(core["probed"]) for core in cores) == 6_000
    assert sum(core["matched"] for core in cores) == found[2]["matches"] == found[0].num_rows
    assert sum(core["comparisons"] for core in cores) > found[0].num_rows
    assert sum(core["busy"] for core in cores) > 0


# -- the threads themselves ---------------------------------------------------------------------


def together(pool: ThreadPool, tasks: int) -> list[int]:
    """The cores that take part when each waits for all others."""
    barrier = threading.Barrier(tasks)

    def work(core: int) -> int:
        barrier.wait(timeout=30)
        return core

    return pool.share([work] * tasks)


def test_every_core_takes_part() -> None:
    pool = ThreadPool(4)
    assert sorted(together(pool, 4)) == [0, 1, 2, 3]
    pool.close()


def test_results_are_in_the_order_of_tasks() -> None:
    pool = ThreadPool(3)
    for count in (0, 1, 2, 100):
        assert pool.share([lambda _, i=i: i for i in range(count)]) == list(range(count))
    pool.close()


def test_an_error_names_its_core() -> None:
    pool = ThreadPool(2)
    barrier = threading.Barrier(2)

    def work(core: int) -> None:
        barrier.wait(timeout=30)
        if core == 1:
            raise ValueError("no such bucket")

    with pytest.raises(CoreFailed) as error:
        pool.share([work, work])
    assert str(error.value) == (
        "core 1 failed: ValueError: no such bucket\n"
        "The query is stopped, since rows would be missing; install it again."
    )
    assert isinstance(error.value.__cause__, ValueError)
    assert sorted(together(pool, 2)) == [0, 1], "the pool goes on"
    pool.close()


def test_a_query_whose_core_fails_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool(2)

    def fail(*_: object) -> None:
        raise ValueError("no such bucket")

    monkeypatch.setattr(pair_search, "find_pairs", fail)
    with using(pool, smallest_part=512, pairs_per_step=1 << 20), Engine() as engine:
        engine.sql(DDL)
        engine.install(text("r.k = s.k", "[ROWS 3]"), name="q")
        with pytest.raises(Exception) as error:
            engine.feed([Tuples("R", tuples(8, 0).batches[0])])
    assert str(error.value) == (
        "query 'q' has failed and is stopped (CoreFailed: core 0 failed at tuples R 0..3: "
        "ValueError: no such bucket); every other query has taken the input\n"
        "Drop it, and install it again once its cause is mended; this is a defect of Penstock."
    )
    pool.close()


def threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("penstock core")}


def test_threads_end_when_the_pool_is_closed_or_gone() -> None:
    before = threads()
    pool = ThreadPool(3)
    assert {t.name for t in threads() - before} == {"penstock core 1", "penstock core 2"}
    together(pool, 3)
    pool.close()
    pool.close()
    assert threads() == before
    assert pool.share([lambda core: core] * 3) == [0, 0, 0]
    gone = ThreadPool(2)
    together(gone, 2)
    del gone
    gc.collect()
    for thread in threads() - before:
        thread.join(30)
    assert threads() == before


# -- against the oracle: last, since what they change stays changed until the end of the module --


@SOME
@given(SCRIPTS, SIZES, BATCHES)
def test_rows_are_the_oracles_by_the_nested_loop(
    three_threads: None, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@SOME
@given(SCRIPTS, SIZES, BATCHES)
def test_rows_are_the_oracles_by_indexes(
    three_threads_with_indexes: None, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)
