"""Kernel ``panes``: a tuple is folded once, into its pane; windows are made of panes.

Windows are made one after another, at a cost that does not depend on the panes of each. Invertible
parts are one running window: the panes that enter are added, those that leave are subtracted. The
other parts are two stacks: of the older panes, each combined with all later ones up to a border; of
the newer ones, all combined. A window is one entry of the former and the latter. When a window
begins past the border, the stacks are rebuilt at its end, so each pane is combined a constant
number of times. Where stacks would take too much memory, because there are many groups and each is
in few panes, the other parts are one running window too, and the groups of a pane that leaves are
rebuilt from the panes that stay.

Late tuples that come between windows that close in one run are held until all of these are closed,
as cells of their own: a late tuple is in an interval of windows, as a pane is, but in a shorter
one. Then those that are in an open window are folded into their panes, which all windows to come
have in common. So each turn of late tuples and closed windows costs what its tuples and rows do.

Running windows and stacks are not saved: they are made of the panes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.numbered_rows import NumberedRows
from penstock.blocks.aggregate.panes import PaneCounts, PaneStore, Selection
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.aggregate.partials import (
    Arrivals,
    Bundle,
    Layout,
    Partials,
    cells_of_rows,
    scan,
    stacked,
    total,
)
from penstock.blocks.aggregate.sparse_rows import SparseRows, distinct_cells
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.aggregate.window_rows import (
    Cells,
    WindowRows,
    rows_at_once,
    rows_of_table,
)
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.errors import ResultDoesNotFit
from penstock.kernels.aggregate.counting import likely_extent
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.survey import HIGHEST
from penstock.tuning import TUNING

MOST_WINDOWS = 100_000_000
"""More windows than one event brings out; each has a row or more."""
_AT_ONCE = 8
"""How many cells of a table take as long as a cell of windows that are made all at once."""
_TURN = 1 << 16
"""How many cells of a table take as long as building stacks of few, or closing a window."""


class PaneWindows:
    """The windows of an aggregate, as panes. ``width`` is how many groups there is room for."""

    def __init__(
        self, layout: Layout, grid: WindowGrid, threads: CoreThreads | None = None
    ) -> None:
        self._grid = grid
        self._threads = threads
        self._store = PaneStore(layout, grid.panes_of_ticks)
        self._running = RunningWindows(self._store)
        self._late: _LateTuples | None = None

    def program(self, layout: Layout, grid: WindowGrid) -> None:
        """Take other calls or another size; the panes stay."""
        self._grid = grid
        if grid.size < grid.slide:
            first, last = grid.windows_of_panes(self._store.rows.numbers)
            self._store.rows.remove(self._store.rows.numbers[first > last])
        self._store.panes = grid.panes_of_ticks
        self._store.rows.program(layout)
        self._running.reset()

    def __len__(self) -> int:
        return len(self._store.rows)

    @property
    def width(self) -> int:
        return self._store.rows.width

    @property
    def nbytes(self) -> int:
        return self._store.rows.nbytes + self._running.nbytes

    def measures(self, opened: int) -> dict[str, int]:
        """How many panes there are, and how many windows that have a tuple and are open.

        There are no modules.
        """
        return {
            "panes": len(self._store.rows),
            "modules": 0,
            "windows_open": self._count_open(opened),
        }

    def _count_open(self, opened: int) -> int:
        panes = self._store.rows.numbers
        if not len(panes):
            return 0
        low, high = self._grid.windows_of_panes(panes)
        low = np.maximum(low, opened)
        low[1:] = np.maximum(low[1:], high[:-1] + 1)
        return int(np.maximum(high - low + 1, 0).sum())

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals, count: int) -> None:
        """Fold arrivals, which missed no window, into their panes; there are ``count`` groups."""
        if self._store.lift(ticks, groups, arrivals, count, self._threads):
            self._running.reset()

    def count(
        self,
        ticks: Indices,
        extent: tuple[int, int] | None,
        selected: Callable[[int, int], Selection],
    ) -> PaneCounts | None:
        """Count tuples by their panes; see :meth:`PaneStore.count`.

        Without an extent it is guessed, and may be too small.
        """
        if extent is None:
            extent = likely_extent(ticks, self._store.panes)
        return self._store.count(ticks, extent, selected, self._threads)

    def add(self, counted: PaneCounts) -> None:
        """As :meth:`lift` for tuples that have been counted, where COUNT(*) is the only call."""
        self._store.add(counted)

    def lift_late(
        self, ticks: Indices, groups: Indices | None, arrivals: Arrivals, count: int
    ) -> None:
        """Fold arrivals that missed windows which are closed by now."""
        if self._store.lift(ticks, groups, arrivals, count):
            self._running.reset()
        self._running.changed(ticks, groups, arrivals)

    def should_hold(self, turns: int) -> bool:
        """Whether late tuples that come in as many turns should be held.

        That reads every cell once; else running windows read a row of cells in every turn.
        """
        rows = self._store.rows
        cells = rows.size if isinstance(rows, SparseRows) else len(rows) * rows.width
        many = turns >= TUNING.fewest_turns_held
        return many and _AT_ONCE * cells <= turns * (_TURN + rows.width)

    def hold_late(
        self,
        ticks: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
        count: int,
        opens: Indices,
    ) -> None:
        """Hold late arrivals until :meth:`forget`, while windows close that they came between.

        ``opens`` is the first window that was open when each came, in the order of their arrival.
        """
        panes = self._store.panes.numbers(ticks)
        model = self._store.rows.partials
        cells = _LateCells.of(panes, groups, arrivals, opens, model, count)
        self._late = _LateTuples(ticks, groups, arrivals, count, panes, cells)

    def _fold_held(self, opened: int) -> None:
        """Fold late tuples that were held into panes, if they are in an open window."""
        late, self._late = self._late, None
        if late is None:
            return
        last = self._grid.windows_of_panes(late.panes)[1]
        those = np.flatnonzero(last >= opened)
        if len(those):
            groups = None if late.groups is None else late.groups[those]
            arrivals = late.arrivals.only(those, late.arrivals.start)
            self.lift_late(late.ticks[those], groups, arrivals, late.count)

    def filled(self, first: int, stop: int) -> Indices:
        """The windows from ``first`` to before ``stop`` that have a tuple."""
        panes = self._store.rows.numbers
        if not len(panes) and self._late is None:
            return panes
        if stop - first <= len(panes) and self._late is None:
            windows = np.arange(first, stop)
            begins, ends = self._panes_of(windows)
            following = np.append(panes, HIGHEST)[np.searchsorted(panes, begins)]
            return windows[following < ends]
        low, high = self._grid.windows_of_panes(panes)
        if self._late is not None:
            cells = self._late.cells
            low = np.concatenate((low, cells.opens))
            high = np.concatenate((high, self._grid.windows_of_panes(cells.panes)[1]))
            order = np.argsort(low, kind="stable")
            low, high = low[order], np.maximum.accumulate(high[order])
        low = np.maximum(low, first)
        low[1:] = np.maximum(low[1:], high[:-1] + 1)
        high = np.minimum(high, stop - 1)
        counts = np.maximum(high - low + 1, 0)
        if counts.sum(dtype=np.float64) > MOST_WINDOWS:
            raise ResultDoesNotFit(
                f"its tuples are in {int(counts.sum(dtype=np.float64))} windows that close at "
                f"once; no more than {MOST_WINDOWS} can",
                "Give the query a shorter RANGE or a longer SLIDE.",
            )
        before = np.cumsum(counts) - counts
        return np.repeat(low - before, counts) + np.arange(int(counts.sum()))

    def close(self, windows: Indices, groups: Groups | None) -> Iterator[WindowRows]:
        """The rows of these windows, which rise and come after all before, in parts.

        ``groups`` orders the groups; None without GROUP BY.
        """
        begins, ends = self._panes_of(windows)
        if self._late is not None or self._running.costs_more(begins, ends):
            self._running.reset()
            cells = self._store.rows.cells_between(int(begins[0]), int(ends[-1]))
            intervals = _intervals(cells.rows, begins, ends)
            if self._late is not None:
                firsts, stops = _intervals(self._late.cells.panes, begins, ends)
                firsts = np.maximum(firsts, np.searchsorted(windows, self._late.cells.opens))
                cells, intervals = self._late.cells.beside(cells, intervals, (firsts, stops))
            yield from rows_at_once(len(windows), cells, intervals, groups)
        else:
            yield from self._one_by_one(self._running, begins, ends, groups)

    def _one_by_one(
        self, running: RunningWindows, begins: Indices, ends: Indices, groups: Groups | None
    ) -> Iterator[WindowRows]:
        most = max(1, TUNING.cells_per_part // self.width)
        for start in range(0, len(begins), most):
            some = slice(start, start + most)
            table = running.windows(begins[some], ends[some])
            yield rows_of_table(table, start, len(begins[some]), self.width, groups)

    def _panes_of(self, windows: Indices) -> tuple[Indices, Indices]:
        """The first pane of each window, and the first one after it."""
        begins = windows * self._grid.slide + self._grid.begin(0)
        return self._grid.pane_of(begins), self._grid.pane_of(begins + self._grid.size)

    def empty(self, windows: Indices) -> WindowRows:
        """An empty row for each window; without GROUP BY."""
        partials = self._store.rows.partials
        nothing = partials.of(partials.all.like(len(windows)))
        return WindowRows(np.arange(len(windows)), None, nothing)

    def forget(self, before: int) -> None:
        """Drop what only windows before this one need."""
        self._fold_held(before)
        if before > self._last():
            self._running.reset()
            self._store.rows.drop(HIGHEST)
        else:
            first = self._grid.border(self._grid.begin(before))
            self._running.pass_over(first)
            self._store.rows.drop(first)
            # What comes in time is in a window that is open, and after all that are closed.
            self._store.rows.pack(self._grid.border(self._grid.end(before - 1)))

    def _last(self) -> int:
        """The last window that has a tuple."""
        panes = self._store.rows.numbers[-1:]
        return int(self._grid.windows_of_panes(panes)[1][0]) if len(panes) else -1 << 63

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some pane."""
        return self._store.rows.live_groups()

    def renumber(self, remaining: Indices) -> None:
        """Renumber the groups: ``remaining[i]`` becomes ``i``; no other group has a tuple."""
        self._store.rows.renumber(remaining, max(1, len(remaining)))
        self._running.reset()

    @property
    def version(self) -> int:
        return self._store.rows.version

    def save(self) -> dict[str, Array]:
        """The panes; see :meth:`NumberedRows.save`."""
        return self._store.rows.save()

    def load(self, columns: dict[str, Array], version: int, groups: int) -> None:
        """Restore the panes from saved state, with that many groups."""
        self._store.load(columns, version, groups)

    # -- cells of other panes ---------------------------------------------------------------

    @property
    def cell_count(self) -> int:
        """How many cells there is room for."""
        return self._store.rows.size

    def cells(self) -> Cells:
        """Every cell that has a tuple."""
        return self._store.rows.every_cell()

    def peek(
        self, windows: Indices, changed: Indices | None, groups: Groups | None
    ) -> Iterator[WindowRows]:
        """The rows of these windows, which rise, as they stand; see :meth:`close`.

        ``changed`` are the groups, rising, of which they are wanted; None without GROUP BY.
        """
        begins, ends = self._panes_of(windows)
        cells = self._store.rows.cells_between(int(begins[0]), int(ends[-1]))
        if changed is not None:
            places = np.minimum(np.searchsorted(changed, cells.groups), len(changed) - 1)
            cells = cells.take(np.flatnonzero(changed[places] == cells.groups))
        intervals = _intervals(cells.rows, begins, ends)
        yield from rows_at_once(len(windows), cells, intervals, groups)

    def merge(self, part: PartialBatch, groups: Indices, count: int, opened: int) -> None:
        """Add the cells of panes that belong to a window from ``opened`` on.

        ``count`` is how many groups there are.
        """
        first, last = self._grid.windows_of_panes(part.panes)
        chosen = np.flatnonzero(last >= np.maximum(first, opened))
        if len(chosen):
            panes = part.panes[chosen]
            extent = int(panes.min()), int(panes.max())
            if self._store.prepare(count, extent, len(panes)):
                self._running.reset()
            self._store.rows.merge(part, groups, chosen)
        if (first[chosen] < opened).any():
            self._running.reset()


def _intervals(panes: Indices, begins: Indices, ends: Indices) -> tuple[Indices, Indices]:
    """The first window that each pane is in, and the first one after those that it is in.

    Windows are given by their first panes and the first ones after them, and numbered from 0.
    """
    stops = np.searchsorted(begins, panes, side="right")
    return np.searchsorted(ends, panes, side="right"), stops


@dataclass(frozen=True)
class _LateCells:
    """What groups got late in panes, each in windows from its ``opens`` on."""

    panes: Indices
    groups: Indices
    opens: Indices
    partials: Partials

    @classmethod
    def of(
        cls,
        panes: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
        opens: Indices,
        model: Partials,
        count: int,
    ) -> _LateCells:
        """Fold late tuples, each with its pane and group, into as few cells as there can be."""
        turns = np.cumsum(np.diff(opens, prepend=opens[:1]) > 0)
        distinct, places = np.unique(panes, return_inverse=True)
        rows = turns * len(distinct) + places
        mine = np.zeros(len(panes), np.int64) if groups is None else groups
        (rows, known), cells = distinct_cells(rows, mine, max(1, count))
        made = model.of(model.all.like(len(rows)))
        made.lift(cells, arrivals)
        turns, places = np.divmod(rows, len(distinct))
        starts = np.flatnonzero(np.diff(opens, prepend=opens[0] - 1))
        return cls(distinct[places], known, opens[starts][turns], made)

    def beside(
        self,
        cells: Cells,
        intervals: tuple[Indices, Indices],
        mine: tuple[Indices, Indices],
    ) -> tuple[Cells, tuple[Indices, Indices]]:
        """These cells and others, sorted by the first window that each is in.

        Both have the intervals of windows that they are in; some of these have none.
        """
        chosen = np.flatnonzero(mine[0] < mine[1])
        firsts = np.concatenate((intervals[0], mine[0][chosen]))
        stops = np.concatenate((intervals[1], mine[1][chosen]))
        order = np.argsort(firsts, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        made = cells.partials.all.like(len(order))
        made.put(places[: len(cells)], cells.partials.all)
        made.put(places[len(cells) :], self.partials.all.take(chosen))
        rows = np.concatenate((cells.rows, self.panes[chosen]))[order]
        groups = np.concatenate((cells.groups, self.groups[chosen]))[order]
        return Cells(rows, groups, cells.partials.of(made)), (firsts[order], stops[order])


@dataclass(frozen=True)
class _LateTuples:
    """Late tuples that are held, as :meth:`PaneWindows.hold_late` takes them, and their cells."""

    ticks: Indices
    groups: Indices | None
    arrivals: Arrivals
    count: int
    panes: Indices
    cells: _LateCells


class RunningWindows:
    """The windows of a pane store, asked for in rising order."""

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self.reset()

    def reset(self) -> None:
        """Forget the panes seen so far; they are read again from the store."""
        self._sums: _Sums | None = None
        self._stacks: _Stacks | None = None
        self._anew: _Anew | None = None

    @property
    def nbytes(self) -> int:
        rows = sum(running.row.nbytes for running in self._running())
        return rows + (0 if self._stacks is None else self._stacks.nbytes)

    def _running(self) -> list[_Sums | _Anew]:
        return [running for running in (self._sums, self._anew) if running is not None]

    def costs_more(self, begins: Indices, ends: Indices) -> bool:
        """Whether windows, one after another, cost more than all of them at once.

        That reads the cells of all their panes; this has a cell for every group in every window,
        and builds stacks as often as windows have gone by.
        """
        store = self._store.rows
        stacks = len(store.partials.invertible) < len(store.partials.all.members)
        first, stop = int(begins[0]), int(ends[-1])
        turns = (int(begins[-1]) - first) // max(1, int(ends[0]) - first) if stacks else 0
        start, last, end = np.searchsorted(store.numbers, (first, int(ends[0]), stop)).tolist()
        rows = end - start if self._is_behind(first) else end - last
        here = (len(begins) + rows) * store.width + turns * _TURN
        if isinstance(store, SparseRows):
            cells = store.count_between(first, stop)
        else:
            several = len(begins) > 1 and store.partials.costs_per_value
            if not (turns or several):
                return False
            cells = (end - start) * store.width
            here += cells * len(begins) if several else 0
        return bool(here > _AT_ONCE * cells)

    def _is_behind(self, pane: int) -> bool:
        """Whether no window has been read that shares panes with one that begins there."""
        running = (self._sums, self._anew, self._stacks)
        return all(one is None or pane >= one.end for one in running)

    def windows(self, begins: Indices, ends: Indices) -> Partials:
        """A row of cells for each window, given by its first pane and the first one after it."""
        store = self._store.rows
        places = store.partials.invertible
        rest = [i for i in range(len(store.partials.all.members)) if i not in places]
        members = dict(zip(places, self._added(begins, ends, places).members, strict=True))
        if rest:
            members.update(zip(rest, self._stacked(begins, ends, rest).members, strict=True))
        return store.partials.of(Bundle(members[i] for i in sorted(members)))

    def _added(self, begins: Indices, ends: Indices, places: list[int]) -> Bundle:
        first = int(begins[0])
        if self._sums is None or first >= self._sums.row.end:
            self._sums = _Sums(_Row.at(first, places, self._store.rows))
        return self._sums.windows(self._store.rows, begins, ends)

    def _stacked(self, begins: Indices, ends: Indices, places: list[int]) -> Bundle:
        store = self._store.rows
        first, last = np.searchsorted(store.numbers, (begins[0], ends[0]))
        cells = int(last - first) * store.width
        if store.width >= TUNING.narrow_row and cells > TUNING.most_stacked:
            self._stacks = None
            if self._anew is None or int(begins[0]) >= self._anew.row.end:
                self._anew = _Anew(_Row.at(int(begins[0]), places, store))
            return self._anew.windows(store, begins, ends)
        self._anew = None
        if self._stacks is None:
            self._stacks = _Stacks(places)
        return self._stacks.windows(store, begins, ends)

    def pass_over(self, first: int) -> None:
        """The panes before this one are about to go."""
        if self._sums is not None and first >= self._sums.row.end:
            self._sums = None
        if self._anew is not None and first >= self._anew.row.end:
            self._anew = None
        for running in self._running():
            row = running.row
            running.move(self._store.rows, max(first, row.begin), row.end)

    def changed(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Late tuples have been folded into panes; some of these may have been read before."""
        panes = self._store.panes.numbers(ticks)
        for running in self._running():
            row = running.row
            inside = np.flatnonzero((panes >= row.begin) & (panes < row.end))
            if len(inside):
                cells: Indices | int = 0 if groups is None else groups[inside]
                those = arrivals.only(inside, arrivals.start)
                self._store.rows.partials.lift_into(row.value, row.places, cells, those)
        stacks = self._stacks
        if stacks is not None:
            inside = np.flatnonzero(panes < stacks.end)
            mine = None if groups is None else groups[inside]
            those = arrivals.only(inside, arrivals.start)
            if len(inside) and not stacks.changed(self._store.rows, panes[inside], mine, those):
                self._stacks = None


@dataclass
class _Row:
    """Some parts of the panes from ``begin`` to before ``end``, as one row."""

    value: Bundle
    places: list[int]
    begin: int
    end: int

    @classmethod
    def at(cls, pane: int, places: list[int], store: NumberedRows | SparseRows) -> _Row:
        """Of no pane as yet."""
        return cls(store.partials.all.only(places).like(store.width), places, pane, pane)

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in self.value.members)


class _Sums:
    """The invertible parts, as one row."""

    def __init__(self, row: _Row) -> None:
        self.row = row

    @property
    def end(self) -> int:
        """The first pane that has not been read."""
        return self.row.end

    def windows(self, store: NumberedRows | SparseRows, begins: Indices, ends: Indices) -> Bundle:
        width = store.width
        self.move(store, int(begins[0]), int(ends[0]))
        if len(begins) == 1:
            return self.row.value.take(np.arange(width))
        entering, added = store.gather(self.row.end, int(ends[-1]))
        leaving, taken = store.gather(self.row.begin, int(begins[-1]))
        self.row.begin, self.row.end = int(begins[-1]), int(ends[-1])
        added = stacked(self.row.value, added.only(self.row.places), len(entering), width)
        scan(added, len(entering) + 1, width)
        windows = added.take(cells_of_rows(np.searchsorted(entering, ends), width))
        if len(leaving):
            nothing = self.row.value.like(width)
            taken = stacked(nothing, taken.only(self.row.places), len(leaving), width)
            scan(taken, len(leaving) + 1, width)
            windows.invert(taken.take(cells_of_rows(np.searchsorted(leaving, begins), width)))
        last = (len(begins) - 1) * width
        self.row.value = windows.take(np.arange(last, last + width))
        return windows

    def move(self, store: NumberedRows | SparseRows, begin: int, end: int) -> None:
        """Move to another window, which begins and ends no earlier."""
        for first, stop, inverted in ((self.row.end, end, False), (self.row.begin, begin, True)):
            numbers = store.between(first, stop)
            if len(numbers) * store.width <= TUNING.most_gathered and numbers:
                rows = store.gather(first, stop)[1].only(self.row.places)
                row = total(rows, len(numbers), store.width)
                self.row.value.invert(row) if inverted else self.row.value.combine(row)
                continue
            for number in numbers:
                groups, cells = store.packed(number)
                mine = self.row.value.take(groups)
                cells = cells.only(self.row.places)
                mine.invert(cells) if inverted else mine.combine(cells)
                self.row.value.put(groups, mine)
        self.row.begin, self.row.end = begin, end


class _Stacks:
    """The other parts: every older pane with all later ones up to ``_border``, and the newer ones
    up to ``end`` as one row.
    """

    def __init__(self, places: list[int]) -> None:
        self._places = places
        self._older: Bundle | None = None
        self._numbers: Indices = np.empty(0, np.int64)
        self._border = 0
        self._newer: Bundle | None = None
        self.end = 0

    @property
    def nbytes(self) -> int:
        stacks = (stack for stack in (self._older, self._newer) if stack is not None)
        return sum(cells.nbytes for stack in stacks for cells in stack.members)

    def windows(self, store: NumberedRows | SparseRows, begins: Indices, ends: Indices) -> Bundle:
        width = store.width
        made = store.partials.all.only(self._places).like(len(begins) * width)
        done = 0
        while done < len(begins):
            if self._older is None or begins[done] >= self._border:
                self._turn(store, int(begins[done]), int(ends[done]))
            stop = int(np.searchsorted(begins, self._border))
            part = self._some(store, begins[done:stop], ends[done:stop])
            if stop - done == len(begins):
                return part
            made.put(np.arange(done * width, stop * width), part)
            done = stop
        return made

    def changed(
        self,
        store: NumberedRows | SparseRows,
        panes: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
    ) -> bool:
        """Fold tuples of panes that have been read into both stacks; False if that takes longer
        than building them anew, or there is no other way.
        """
        older, newer, width = self._older, self._newer, store.width
        if older is None or newer is None:
            return False
        # Only what does not go by arrival may take the same tuple as if it were several.
        if not all(hasattr(cells, "accumulate") for cells in older.members):
            return False
        rows = np.searchsorted(self._numbers, panes)
        early = panes < self._border
        known = np.append(self._numbers, self._border)[rows] == panes
        first = int(np.searchsorted(self._numbers, store.numbers[0]))
        lengths = np.where(early, rows + 1 - first, 1)
        if not known[early].all() or 2 * int(lengths.sum()) > (len(self._numbers) + 1) * width:
            return False
        cells = np.zeros(len(panes), np.int64) if groups is None else groups.astype(np.int64)
        lift = store.partials.lift_into
        late = np.flatnonzero(~early)
        if len(late):
            lift(newer, self._places, cells[late], arrivals.only(late, 0))
        early_ones = np.flatnonzero(early)
        if len(early_ones):
            # A pane is part of its own row of the older stack, and of all before it.
            counts = lengths[early_ones]
            which = np.repeat(early_ones, counts)
            row = first + np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
            lift(older, self._places, row * width + cells[which], arrivals.only(which, 0))
        return True

    def _turn(self, store: NumberedRows | SparseRows, begin: int, end: int) -> None:
        """Make the older stack of the panes of a window; nothing is newer."""
        self._numbers, rows = store.gather(begin, end)
        rows = rows.only(self._places)
        count = len(self._numbers)
        scan(rows, count, store.width, backwards=True)
        nothing = rows.like((count + 1) * store.width)
        nothing.put(np.arange(count * store.width), rows)
        self._older, self._newer = nothing, rows.like(store.width)
        self._border = self.end = end

    def _some(self, store: NumberedRows | SparseRows, begins: Indices, ends: Indices) -> Bundle:
        """The windows that begin before the border."""
        width = store.width
        assert self._older is not None and self._newer is not None
        made = self._older.take(cells_of_rows(np.searchsorted(self._numbers, begins), width))
        entering, rows = store.gather(self.end, int(ends[-1]))
        newer = stacked(self._newer, rows.only(self._places), len(entering), width)
        scan(newer, len(entering) + 1, width)
        made.combine(newer.take(cells_of_rows(np.searchsorted(entering, ends), width)))
        last = len(entering) * width
        self._newer = newer.take(np.arange(last, last + width))
        self.end = max(self.end, int(ends[-1]))
        return made


class _Anew:
    """The other parts, as one row."""

    def __init__(self, row: _Row) -> None:
        self.row = row

    @property
    def end(self) -> int:
        """The first pane that has not been read."""
        return self.row.end

    def windows(self, store: NumberedRows | SparseRows, begins: Indices, ends: Indices) -> Bundle:
        width = store.width
        made = self.row.value.like(len(begins) * width)
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            self.move(store, begin, end)
            made.put(np.arange(i * width, (i + 1) * width), self.row.value)
        return made

    def move(self, store: NumberedRows | SparseRows, begin: int, end: int) -> None:
        """Move to another window, which begins and ends no earlier."""
        leaving = store.groups_in(self.row.begin, begin)
        if len(leaving):
            self.row.value.put(leaving, self.row.value.like(len(leaving)))
            for number in store.between(begin, min(self.row.end, end)):
                groups, cells = store.packed(number)
                chosen = np.flatnonzero(np.isin(groups, leaving, assume_unique=True))
                if len(chosen):
                    self._combine(groups[chosen], cells.take(chosen))
        for number in store.between(max(self.row.end, begin), end):
            self._combine(*store.packed(number))
        self.row.begin, self.row.end = begin, end

    def _combine(self, groups: Indices, cells: Bundle) -> None:
        mine = self.row.value.take(groups)
        mine.combine(cells.only(self.row.places))
        self.row.value.put(groups, mine)
