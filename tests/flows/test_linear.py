"""Linear-MJ: what Int-buf is for, how large it is, and what the window access manager costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.flows.designs import DRIVERS, by_seed, using
from tests.flows.test_circular import ALL_LINKED, BUSY, WINDOWS, meant, query, run, tuples
from tests.thresholds import low_thresholds

from penstock.flows.linear import (
    ProcessingStage,
    SharedWindow,
    WindowAccessManager,
    linear_units,
)
from penstock.flows.network.network import Port, Sent


@pytest.fixture(autouse=True)
def single_tuples() -> Iterator[None]:
    with low_thresholds(ranks_per_set=1, pairs_per_message=1):
        yield


class NoIntBuf(ProcessingStage):
    """A stage that sees the windows alone."""

    def unstored(self, window: SharedWindow) -> list[Any]:
        return []


def test_without_int_buf_a_schedule_misses_tuples_that_are_not_stored_yet() -> None:
    text, events = query(WINDOWS["of one"]), tuples("BCA")
    assert meant(text, events) == [(2, 0, 1)]
    found = set()
    for seed in range(30):
        with using(linear_units(NoIntBuf), by_seed(seed, capacity=4)):
            found.add(tuple(run(text, events)))
    assert found == {(), ((2, 0, 1),)}


def test_int_buf_has_room_for_as_many_chunks_as_are_behind_the_stage() -> None:
    most: dict[int, int] = {}

    class Measured(ProcessingStage):
        def step(self, port: Port, message: Any) -> Iterable[Sent]:
            sent = list(super().step(port, message))
            before = len(self.int_buf) - 1  # without the chunk at hand
            most[self.number] = max(most.get(self.number, 0), before)
            return sent

    text, events = query(("ROWS 3",) * 3, ALL_LINKED), tuples(BUSY)
    for seed in range(20):
        with using(linear_units(Measured), by_seed(seed, capacity=4)):
            assert run(text, events) == meant(text, events)
    assert most == {1: 2, 2: 1}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_rows_are_the_oracles(windows: str, driver: str) -> None:
    text, events = query(WINDOWS[windows]), tuples(BUSY)
    for seed in range(5):
        with using(linear_units(), DRIVERS[driver](seed)):
            assert run(text, events) == meant(text, events)


class Taken:
    """A port that another unit has, until it is waited for."""

    def acquire(self, blocking: bool = True) -> bool:
        return blocking

    def release(self) -> None:
        pass


def test_the_window_access_manager_counts_who_waits_for_a_window() -> None:
    manager = WindowAccessManager(["A", "B"])  # type: ignore[list-item]
    with manager.access(0) as first, manager.access(1) as second:
        assert (first, second) == ("A", "B")
    assert manager.conflicts == [0, 0]
    manager._ports[1] = Taken()  # type: ignore[call-overload]
    with manager.access(1) as window:
        assert window == "B"
    assert manager.conflicts == [0, 1]


def test_what_is_found_in_int_buf_goes_on_by_rank() -> None:
    """A stage finds partners in the window, then in Int-buf; the next one needs them by rank."""
    text = query(("ROWS 3",) * 3, "ON a.k <= b.k JOIN C [{2}] AS c ON TRUE")
    events = tuples("CCCAABCACACBCA")
    with low_thresholds(ranks_per_set=5, pairs_per_message=9):
        for seed in range(20):
            with using(linear_units(), by_seed(seed, capacity=4)):
                assert run(text, events) == meant(text, events)
