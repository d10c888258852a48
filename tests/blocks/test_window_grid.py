"""The grid of windows and panes, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.streams.windows import AggregateWindow, Sliding, SlidingRows

WINDOWS: st.SearchStrategy[AggregateWindow] = st.one_of(
    st.builds(
        Sliding, st.integers(1, 30), st.integers(1, 12), st.one_of(st.none(), st.integers(-9, 9))
    ),
    st.builds(SlidingRows, st.integers(1, 30), st.integers(1, 12)),
)
TICKS = st.integers(-40, 60)


@given(WINDOWS, TICKS)
def test_a_tick_is_in_the_windows_that_hold_it(window: AggregateWindow, tick: int) -> None:
    grid = WindowGrid.of(window)
    lowest = -100 if grid.first is None else grid.first
    meant = [k for k in range(lowest, 100) if grid.begin(k) <= tick < grid.end(k)]
    ticks = np.array([tick])
    found = range(int(grid.first_of(ticks)[0]), int(grid.last_of(ticks)[0]) + 1)
    assert list(found) == meant
    [pane] = grid.pane_of(ticks).tolist()
    assert [k for k in range(lowest, 100) if grid.panes(k)[0] <= pane < grid.panes(k)[1]] == meant
    first, last = grid.windows_of_panes(np.array([pane]))
    assert list(range(int(first[0]), int(last[0]) + 1)) == meant


@given(WINDOWS, TICKS)
def test_the_first_open_window_is_the_first_that_has_not_ended(
    window: AggregateWindow, punctuation: int
) -> None:
    grid = WindowGrid.of(window)
    lowest = -100 if grid.first is None else grid.first
    meant = next(k for k in range(lowest, 200) if grid.end(k) > punctuation)
    assert grid.closed(punctuation) == meant
    assert grid.closed_by(np.array([punctuation])).tolist() == [meant]


def test_windows_begin_where_the_clause_says() -> None:
    grid = WindowGrid.of(Sliding(size=10, slide=4, start=7))
    assert grid.first is not None
    assert [grid.begin(grid.first + i) for i in range(3)] == [7, 11, 15]
    rows = WindowGrid.of(SlidingRows(size=5, slide=3))
    assert [(rows.begin(k), rows.end(k)) for k in (1, 2)] == [(-2, 3), (1, 6)]


def test_a_smaller_window_keeps_the_panes() -> None:
    before = WindowGrid.of(Sliding(25, 10))
    after = WindowGrid.of(Sliding(10, 10), before.cut)
    assert (after.panes(2), before.panes(2)) == ((4, 6), (4, 9))


@pytest.mark.parametrize("tick", [-(2**62) + 1, 2**62 - 1])
def test_ticks_near_the_ends_of_the_clock_do_not_overflow(tick: int) -> None:
    grid = WindowGrid.of(Sliding(2**62, 2**61, start=2**61 + 5))
    ticks = np.array([tick])
    first, last = int(grid.first_of(ticks)[0]), int(grid.last_of(ticks)[0])
    windows = [k for k in range(-9, 9) if grid.begin(k) <= tick < grid.end(k)]
    assert grid.first is not None
    assert list(range(first, last + 1)) == [k for k in windows if k >= grid.first]
