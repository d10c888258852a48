"""The live range of a probe has every tuple that it may see and, in time order, no other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.blocks.window.live_ranges import Ranges, timed_ranges
from penstock.blocks.window.punctuator import Clock
from penstock.blocks.window.window import StoredWindow
from penstock.streams.windows import Range, Rows, Unbounded, Window

SMALL = st.integers(0, 9)


def stored(window: Window, batches: list[list[int]]) -> StoredWindow:
    """A side with tuples of these times, in batches."""
    side = StoredWindow(0, pa.schema([("t", pa.int64())]), Clock(False))
    side.window = window
    for times in batches:
        batch = pa.RecordBatch.from_arrays([pa.array(times, pa.int64())], ["t"])
        ticks = np.array(times, np.int64)
        side.append(batch, ticks, np.arange(len(times)))
    return side


def is_live(window: Window, number: int, seen: int, time: int, low: int, upper: int | None) -> bool:
    """The meaning, of one tuple: its number and time, and what its probe may see."""
    if number >= seen:
        return False
    if isinstance(window, Rows):
        return number >= seen - window.size
    if isinstance(window, Range):
        return time + window.size > low and (upper is None or time < upper)
    return True


@pytest.mark.parametrize("kind", ["rows", "time in order", "time out of order", "unbounded"])
@given(st.data())
def test_a_range_has_the_live_tuples(kind: str, data: st.DataObject) -> None:
    window: Window = Unbounded()
    if kind != "unbounded":
        size = data.draw(SMALL)
        window = Rows(size) if kind == "rows" else Range(size)
    old, new = data.draw(st.lists(SMALL, max_size=9)), data.draw(st.lists(SMALL, max_size=9))
    times = old + new
    if kind != "time out of order":
        times = sorted(times)
    side = stored(window, [times[: len(old)], times[len(old) :]])
    probes = data.draw(
        st.lists(st.tuples(st.integers(0, len(new)), SMALL, SMALL), min_size=1, max_size=5)
    )
    bounded = data.draw(st.booleans())
    seen, low, upper = (np.array(column, np.int64) for column in zip(*probes, strict=True))
    ranges = side.ranges(seen, lambda: (low, upper if bounded else None))
    assert (ranges.lower is None) == (side.in_order or not isinstance(window, Range))
    for i, (visible, after, before) in enumerate(probes):
        limit = before if bounded else None
        live = [
            number
            for number, time in enumerate(times)
            if is_live(window, number, len(old) + visible, time, after, limit)
        ]
        inside = range(int(ranges.lo[i]), int(ranges.hi[i]))
        assert set(live) <= set(inside)
        if ranges.lower is None:
            assert live == [*inside]


def test_without_a_reach_a_time_window_is_bounded_by_numbers_alone() -> None:
    side = stored(Range(5), [[1, 2], [3]])
    ranges = side.ranges(np.array([0, 1]), lambda: (None, None))
    assert (ranges.lo.tolist(), ranges.hi.tolist()) == ([0, 0], [2, 3])


def test_times_cut_a_range_of_numbers() -> None:
    expiry, times = np.array([3, 5, 5, 8]), np.array([1, 3, 3, 6])
    numbered = Ranges(np.array([0, 2]), np.array([4, 4]))
    reach = (np.array([3, 3]), np.array([6, 3]))
    ranges = timed_ranges(numbered, reach, (expiry, times), True)
    assert (ranges.lo.tolist(), ranges.hi.tolist()) == ([1, 2], [3, 2])
    loose = timed_ranges(numbered, reach, (expiry, times), False)
    assert (loose.lo.tolist(), loose.hi.tolist()) == ([0, 2], [4, 4])
    assert loose.lower is reach[0]
    assert loose.upper is reach[1]
