"""Windows made of panes are what folding every tuple into every window gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st
from tests.effort import examples

from penstock import tuning
from penstock.blocks.aggregate.panes import PaneStore
from penstock.blocks.aggregate.partials import Arrivals, Layout
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.aggregate.window_panes import PaneWindows, RunningWindows
from penstock.blocks.aggregate.window_rows import WindowRows
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.survey import LOWEST
from penstock.kernels.expressions.vector import vector_of
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
        self.width = width
        self.groups = Groups([pa.int64()])
        self.groups.numbers([vector_of(pa.array(range(width)))], width)
        self.taken: list[Tuple] = []
        self.opens: list[int] = []
        """The first window that was open when each came; the same for all that are not held."""

    def take(self, tuples: list[Tuple], late: bool) -> None:
        ticks, groups, arriving = arrivals(tuples, len(self.taken))
        lift = self.windows.lift_late if late else self.windows.lift
        lift(ticks, groups if self.width > 1 else None, arriving, self.width)
        self._note(tuples, [LOWEST] * len(tuples))

    def hold(self, tuples: list[Tuple], opens: list[int]) -> None:
        ticks, groups, arriving = arrivals(tuples, len(self.taken))
        mine = groups if self.width > 1 else None
        self.windows.hold_late(ticks, mine, arriving, self.width, np.array(opens))
        self._note(tuples, opens)

    def _note(self, tuples: list[Tuple], opens: list[int]) -> None:
        self.taken += tuples if self.width > 1 else [(t, 0, x) for t, _, x in tuples]
        self.opens += opens

    def within(self, tuples: list[Tuple], opened: int) -> list[Tuple]:
        """Those that are in a window that is open."""
        ticks = np.array([t for t, _, _ in tuples], np.int64)
        first, last = self.grid.first_of(ticks), self.grid.last_of(ticks)
        chosen = np.flatnonzero(last >= np.maximum(first, opened))
        return [tuples[i] for i in chosen.tolist()]

    def _expected(self, window: int, group: int) -> list[Any] | None:
        known = zip(self.taken, self.opens, strict=True)
        tuples = [one for one, opened in known if window >= opened]
        return expected(tuples, self.grid.begin(window), self.grid.end(window), group)

    def check(self, first: int, stop: int) -> None:
        windows = self.windows.filled(first, stop)
        meant = {
            (k, g): self._expected(k, g) for k in range(first, stop) for g in range(self.width)
        }
        assert windows.tolist() == sorted({k for (k, _), found in meant.items() if found})
        if not len(windows):
            return
        found = {}
        for rows in self.windows.close(windows, self.groups if self.width > 1 else None):
            columns = [column.to_pylist() for column in rows.partials.results()]
            keys = zip(windows[rows.which].tolist(), self.groups_of(rows), strict=True)
            found.update(zip(keys, zip(*columns, strict=True), strict=True))
        which = [CALLS.index(call) for call in self.calls]
        wanted = {key: tuple(row[i] for i in which) for key, row in meant.items() if row}
        assert found == wanted

    def groups_of(self, rows: WindowRows) -> list[int]:
        return [0] * len(rows.which) if rows.groups is None else rows.groups.tolist()


TUPLES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=6
)


STORAGE: dict[str, dict[str, int]] = {
    "table": {},
    "packed": {"narrow_row": 1, "packed_share": 1, "most_stacked": 0, "most_gathered": 0},
    "sparse": {"few_cells": 0, "sparse_factor": 0, "dense_factor": 0},
}
"""The tuning constants with which rows are stored in each way."""


@examples(150)
@given(
    st.integers(1, 25),
    st.integers(1, 8),
    st.sampled_from((1, 3)),
    st.sampled_from(tuple(STORAGE)),
    st.lists(st.tuples(TUPLES, st.integers(0, 4), st.booleans()), max_size=8),
)
def test_windows_are_what_their_tuples_give(
    size: int, slide: int, width: int, storage: str, steps: list[tuple[list[Tuple], int, bool]]
) -> None:
    """Tuples come at and after the first open window, some of them late, and windows close."""
    with tuning.given(**STORAGE[storage]):
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
        some = model.within(some, opened)
        note((opened, late, some))
        if some:
            model.take(some, late)
        model.check(opened, opened + closing)
        opened += closing
        model.windows.forget(opened)


@examples(100)
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


@examples(150)
@given(
    st.integers(1, 25),
    st.integers(1, 8),
    st.sampled_from((1, 3)),
    st.sampled_from(tuple(STORAGE)),
    TUPLES,
    st.lists(st.tuples(TUPLES, st.integers(0, 4)), min_size=1, max_size=6),
)
def test_late_tuples_that_are_held_count_in_windows_that_are_open_when_they_come(
    size: int,
    slide: int,
    width: int,
    storage: str,
    in_time: list[Tuple],
    turns: list[tuple[list[Tuple], int]],
) -> None:
    """They come in turns with windows that close; the windows are read after all turns."""
    with tuning.given(**STORAGE[storage]):
        model = Model(size, slide, CALLS, width)
        start = model.grid.end(-1)
        some = model.within([(start + t, g, x) for t, g, x in in_time], 0)
        if some:
            model.take(some, False)
        held, opens, opened = [], [], 0
        for tuples, closing in turns:
            begin = model.grid.begin(opened)
            length = max(1, model.grid.end(opened - 1) - begin)
            late = model.within([(begin + t % length, g, x) for t, g, x in tuples], opened)
            held += late
            opens += [opened] * len(late)
            opened += closing
        note((some, list(zip(held, opens, strict=True)), opened))
        if held:
            model.hold(held, opens)
        model.check(0, opened)
        model.windows.forget(opened)
        model.check(opened, opened + size)


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


@tuning.given(most_stacked=1 << 16)
def test_panes_in_which_few_groups_have_a_tuple_take_little_memory() -> None:
    """A thousand groups, of which each pane has one."""
    calls = (CALLS[1], CALLS[2])
    model = Model(100, 1, calls, 1000)
    for t in range(0, 300, 10):
        model.take([(t + i, (t + i) * 7 % 1000, t) for i in range(10)], False)
        if t >= 100:
            model.windows.filled(t - 100, t - 90)
            list(model.windows.close(np.arange(t - 100, t - 90), model.groups))
            model.windows.forget(t - 90)
    assert len(model.windows) == 100
    cells = 100 * 1000 * 8
    assert model.windows.nbytes < cells
    model.take([(250, 1, 5), (251, 251 * 7 % 1000, 1)], True)
    model.check(200, 202)
