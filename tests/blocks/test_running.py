"""Windows made of panes are what folding every tuple into every window gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from penstock.blocks import numbered_rows, running
from penstock.blocks.panes import PaneStore
from penstock.blocks.partials import Arrivals, Layout
from penstock.blocks.running import RunningWindows
from penstock.blocks.window_grid import WindowGrid
from penstock.blocks.window_panes import PaneWindows
from penstock.kernels.vector import vector_of
from penstock.sql.expressions import Column
from penstock.sql.plan import Call
from penstock.streams.windows import Sliding

X = Column(0, 0, "x", pa.int64())
CALLS = (
    Call("count", None, pa.int64()),
    Call("sum", X, pa.int64()),
    Call("max", X, pa.int64()),
    Call("last", X, pa.int64()),
    Call("count", X, pa.int64(), distinct=True),
)
LATE_CALLS = (Call("sum", X, pa.int64()), Call("min", X, pa.int64()), Call("max", X, pa.int64()))
Tuple = tuple[int, int, int]
"""Tick, group and value."""


def arrivals(tuples: list[Tuple], start: int) -> tuple[Any, Any, Arrivals]:
    ticks, groups, values = (np.array(column, np.int64) for column in zip(*tuples, strict=True))
    vector = vector_of(pa.array(values))
    return ticks, groups, Arrivals(len(tuples), start, {X: vector}, {}, ticks)


def expected(tuples: list[Tuple], begin: int, end: int, group: int) -> list[Any] | None:
    """Count, sum, largest, last by tick and arrival, and number of different values."""
    inside = [(t, i, x) for i, (t, g, x) in enumerate(tuples) if g == group and begin <= t < end]
    values = [x for _, _, x in inside]
    if not values:
        return None
    return [len(values), sum(values), max(values), max(inside)[2], len(set(values))]


class Model:
    """Pane windows, and all tuples that they took."""

    def __init__(self, size: int, slide: int, calls: tuple[Call, ...], width: int) -> None:
        self.grid = WindowGrid.of(Sliding(size, slide))
        self.calls = calls
        self.windows = PaneWindows(Layout(calls, calls, [0] * len(calls)), self.grid)
        if width > 1:
            self.windows.widen(width)
        self.width = width
        self.taken: list[Tuple] = []

    def take(self, tuples: list[Tuple], late: bool) -> None:
        ticks, groups, arriving = arrivals(tuples, len(self.taken))
        lift = self.windows.lift_late if late else self.windows.lift
        lift(ticks, groups if self.width > 1 else None, arriving)
        self.taken += tuples if self.width > 1 else [(t, 0, x) for t, _, x in tuples]

    def check(self, first: int, stop: int) -> None:
        windows = self.windows.filled(first, stop)
        meant = {
            (k, g): expected(self.taken, self.grid.begin(k), self.grid.end(k), g)
            for k in range(first, stop)
            for g in range(self.width)
        }
        assert windows.tolist() == sorted({k for (k, _), found in meant.items() if found})
        if not len(windows):
            return
        partials = self.windows.close(windows)
        columns = [column.to_pylist() for column in partials.results()]
        which = [CALLS.index(call) for call in self.calls]
        for row, k in enumerate(windows.tolist()):
            for g in range(self.width):
                cell, wanted = row * self.width + g, meant[k, g]
                found = [column[cell] for column in columns]
                assert (partials.rows.counts[cell] > 0) == (wanted is not None)
                if wanted is not None:
                    assert found == [wanted[i] for i in which], (k, g)


TUPLES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=6
)


@settings(max_examples=max(150, settings().max_examples // 4))
@given(
    st.integers(1, 25),
    st.integers(1, 8),
    st.sampled_from((1, 3)),
    st.booleans(),
    st.lists(st.tuples(TUPLES, st.integers(0, 4), st.booleans()), max_size=8),
)
def test_windows_are_what_their_tuples_give(
    size: int, slide: int, width: int, packed: bool, steps: list[tuple[list[Tuple], int, bool]]
) -> None:
    """Tuples come at and after the first open window, some of them late, and windows close."""
    with pytest.MonkeyPatch.context() as patch:
        if packed:
            patch.setattr(numbered_rows, "NARROW", 1)
            patch.setattr(numbered_rows, "_PACKED", 1)
            patch.setattr(running, "NARROW", 1)
            patch.setattr(running, "MOST_STACKED", 0)
            patch.setattr(running, "MOST_GATHERED", 0)
        close_windows(size, slide, width, steps)


def close_windows(
    size: int, slide: int, width: int, steps: list[tuple[list[Tuple], int, bool]]
) -> None:
    model = Model(size, slide, CALLS, width)
    opened = -size
    for tuples, closing, late in steps:
        # Late tuples are before the end of the last window that closed, but in an open one.
        begin = model.grid.begin(opened) if late else model.grid.end(opened - 1)
        last = max(model.grid.end(opened - 1), begin + 1)
        some = [(begin + t % (last - begin) if late else begin + t, g, x) for t, g, x in tuples]
        some = [one for one in some if model.grid.last_of(np.array([one[0]]))[0] >= opened]
        if slide > size:
            some = [one for one in some if (one[0] - model.grid.origin) % slide < size]
        note((opened, late, some))
        if some:
            model.take(some, late)
        model.check(opened, opened + closing)
        opened += closing
        model.windows.forget(opened)


@settings(max_examples=max(100, settings().max_examples // 4))
@given(st.integers(5, 40), st.lists(st.tuples(TUPLES, st.integers(0, 2)), min_size=2, max_size=8))
def test_late_tuples_are_folded_into_windows_that_were_read(
    size: int, steps: list[tuple[list[Tuple], int]]
) -> None:
    """With many panes and groups a late tuple is folded into the stacks, not into panes alone."""
    calls = (CALLS[1], CALLS[2])
    model = Model(size, 1, calls, 3)
    model.take([(t, t % 3, t) for t in range(size + 20)], False)
    opened = 0
    for tuples, closing in steps:
        model.check(opened, opened + closing)
        opened += closing
        model.windows.forget(opened)
        end = max(model.grid.end(opened - 1), opened + 1)
        model.take([(opened + t % (end - opened), g, 50 * x) for t, g, x in tuples], True)
    model.check(opened, opened + 3)


def test_stacks_are_not_built_anew_for_every_late_tuple() -> None:
    grid = WindowGrid.of(Sliding(50, 1))
    store = PaneStore(Layout(LATE_CALLS, LATE_CALLS, [0] * 3), grid.panes_of_ticks)
    store.rows.widen(4)
    windows = RunningWindows(store)
    store.lift(*arrivals([(t, t % 4, t) for t in range(60)], 0))
    first = windows.windows(np.array([0]), np.array([50]))
    assert [column.to_pylist()[1] for column in first.results()] == [sum(range(1, 50, 4)), 1, 49]
    stacks = windows._stacks
    late = arrivals([(30, 1, -7)], 60)
    store.lift(*late)
    windows.changed(*late)
    assert windows._stacks is stacks
    second = windows.windows(np.array([1]), np.array([51]))
    found = [column.to_pylist()[1] for column in second.results()]
    assert found == [sum(range(1, 50, 4)) - 7, -7, 49]


def test_panes_in_which_few_groups_have_a_tuple_take_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand groups, of which each pane has one."""
    calls = (CALLS[1], CALLS[2])
    monkeypatch.setattr(running, "MOST_STACKED", 1 << 16)
    model = Model(100, 1, calls, 1000)
    for t in range(0, 300, 10):
        model.take([(t + i, (t + i) * 7 % 1000, t) for i in range(10)], False)
        if t >= 100:
            model.windows.filled(t - 100, t - 90)
            model.windows.close(np.arange(t - 100, t - 90))
            model.windows.forget(t - 90)
    assert len(model.windows) == 100
    cells = 100 * 1000 * 8
    assert model.windows.nbytes < cells
    model.take([(250, 1, 5), (251, 251 * 7 % 1000, 1)], True)
    model.check(200, 202)
