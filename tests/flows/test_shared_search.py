"""``shared`` for three and more streams: any number of cores gives the rows of one, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.flows.designs import searching
from tests.flows.test_random_designs import SCRIPTS, mjoin_on_large_batches, on_large_batches
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, compare, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.blocks.multiway.stretch_search import StretchSearch
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.flows.shared_search import SharedDictionary, SharedSearch

CORES = pytest.mark.parametrize("cores", [1, 2, 3, 5])
TEXT = """SELECT a.k FROM A [ROWS 2] AS a
    JOIN B [ROWS 2] AS b ON a.k = b.k JOIN C [ROWS 2] AS c ON b.k = c.k"""
TOGETHER = {"smallest_share": 1, "arrivals_to_store_together": 0}
"""Every batch is divided, however small."""


@pytest.fixture(params=[1, 3, 1000])
def few_pairs_in_a_step(request: pytest.FixtureRequest) -> Iterator[None]:
    with low_thresholds(pairs_per_step=request.param, **TOGETHER):
        yield


@CORES
@pytest.mark.product(6)
@pytest.mark.usefixtures("few_pairs_in_a_step")
@examples(24)
@given(SCRIPTS, SIZES, BATCHES)
def test_rows_are_the_oracles(
    cores: int, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    with searching(lambda: SharedSearch(cores)):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@pytest.mark.usefixtures("few_pairs_in_a_step")
@examples(16)
@given(scripts(multiway=True), SIZES)
def test_rows_are_the_oracles_if_the_number_of_cores_changes(
    steps: list[Step], sizes: list[int]
) -> None:
    """After every batch the query goes on with another number of cores."""
    steps = [step for step in steps if step.verb != "drop"]
    cores = iter([1, 3, 2, 5] * 10_000)

    def again(engine: Engine) -> Engine:
        return saved_and_restored(engine, compile_predicates=False)

    with searching(lambda: SharedSearch(next(cores))):
        found = run_on(Engine(compile_predicates=False), steps, sizes, settle=again)
    check(steps, on_oracle(steps), found)


@pytest.mark.long
@CORES
@pytest.mark.product(2)
def test_large_batches_give_the_rows_of_mjoin_in_order(cores: int) -> None:
    """With compiled predicates, strings as keys, and a batch in several steps."""
    expected, alone = mjoin_on_large_batches()
    assert len(expected) > 1000
    with tuning.given(pairs_per_step=2000, **TOGETHER), searching(lambda: SharedSearch(cores)):
        found, metrics = on_large_batches()
    assert found == expected
    figures = metrics["cores"]
    assert len(figures) == cores
    assert sum(core["matched"] for core in figures) == len(expected)
    assert metrics["comparisons"] == sum(core["comparisons"] for core in figures)
    assert metrics["comparisons"] >= alone["comparisons"] > 0
    probed = np.sum([core["probed"] for core in figures], axis=0)
    assert (probed >= 3000).all()
    assert all(core["comparisons"] > 0 and core["busy"] > 0 for core in figures)


def test_each_core_has_a_part_of_the_arrivals() -> None:
    """A batch of 12,000 arrivals in one step; what a stream's arrivals cost decides the parts."""
    with tuning.given(smallest_share=1000), searching(lambda: SharedSearch(3)):
        _, metrics = on_large_batches()
    probed = np.array([core["probed"] for core in metrics["cores"]])
    assert probed.sum(axis=0).tolist() == [3000] * 4
    assert (probed.sum(axis=1) > 500).all()


def test_small_batches_are_left_to_one_core() -> None:
    with tuning.given(smallest_share=1 << 30), searching(lambda: SharedSearch(3)):
        _, metrics = on_large_batches()
    probed = [core["probed"] for core in metrics["cores"]]
    assert probed == [[3000] * 4, [0] * 4, [0] * 4]


class BrokenSearch(StretchSearch):
    def of_origin(self, *given: Any) -> Any:
        if given[1] == 2:
            raise ZeroDivisionError("boom")
        return super().of_origin(*given)


def test_a_core_that_fails_stops_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.flows.shared_search.StretchSearch", BrokenSearch)
    schema = pa.schema({"k": pa.int64()})
    with searching(lambda: SharedSearch(1)), Engine(compile_predicates=False) as engine:
        for stream in "ABC":
            engine.stream(stream, schema)
        engine.install(TEXT, name="q")
        engine.push("A", pa.table({"k": [1]}))
        with pytest.raises(QueryFailed) as caught:
            engine.push("C", pa.table({"k": [1]}))
    assert str(caught.value) == (
        "query 'q' has failed and is stopped (CoreFailed: core 0 failed at the new tuples of "
        "origin 2, ranks 0..0: ZeroDivisionError: boom); every other query has taken the input\n"
        "Drop it, and install it again once its cause is mended; this is a defect of Penstock."
    )


def test_threads_end_with_the_query() -> None:
    before = set(threading.enumerate())
    with searching(lambda: SharedSearch(4)):
        with Engine(compile_predicates=False) as engine:
            for stream in "ABC":
                engine.stream(stream, pa.schema({"k": pa.int64()}))
            engine.install(TEXT)
            assert len(set(threading.enumerate()) - before) == 3
        assert set(threading.enumerate()) - before == set()


class Switching(dict[Any, int]):
    """Codes: whenever one is looked up, another thread goes on."""

    def get(self, word: Any, otherwise: Any = None) -> Any:
        found = super().get(word, otherwise)
        time.sleep(0)
        return found


def test_threads_give_equal_words_equal_codes() -> None:
    """All threads look up the same words at the same time."""
    words = [f"w{number}" for number in range(2000)]
    dictionary = SharedDictionary()
    dictionary._codes = Switching()
    found: list[dict[str, int]] = [{} for _ in range(4)]

    def look_up(thread: int) -> None:
        for start in range(0, len(words), 50):
            some = words[start : start + 50]
            codes = dictionary.encode(pa.array(some))
            found[thread] |= dict(zip(some, codes.tolist(), strict=True))

    threads = [threading.Thread(target=look_up, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == found[0] for one in found)
    assert sorted(found[0].values()) == list(range(2000))
