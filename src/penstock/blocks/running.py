"""Windows from panes, one after another, at a cost that does not depend on how many panes each has.

What can be subtracted is kept as one running window: the panes that enter are added, those that
leave are taken off. The rest is kept as two stacks: of the older panes, every pane combined with
all later ones up to a border, of the newer ones all combined; a window is one of the former and the
latter. When a window begins past the border, the stacks are built anew at its end, so each pane is
combined a constant number of times. Where stacks would take too much memory, because groups are
many and each is in few panes, the rest is one running window too, and the groups of a pane that
leaves are made anew from the panes that stay.

All work on many windows at once. None need be saved: they are made of the panes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.numbered_rows import NARROW, NumberedRows
from penstock.blocks.panes import PaneStore
from penstock.blocks.partials import (
    Arrivals,
    Bundle,
    Partials,
    cells_of_rows,
    scan,
    stacked,
    total,
)

MOST_STACKED = 1 << 24
"""Stacks have no more cells than this."""
MOST_GATHERED = 1 << 20
"""More cells than this are not gathered at once to be combined with a single row."""


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
        if store.width >= NARROW and int(last - first) * store.width > MOST_STACKED:
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
    def at(cls, pane: int, places: list[int], store: NumberedRows) -> _Row:
        """Of no pane as yet."""
        return cls(store.partials.all.only(places).like(store.width), places, pane, pane)

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in self.value.members)


class _Sums:
    """The invertible parts, as one row."""

    def __init__(self, row: _Row) -> None:
        self.row = row

    def windows(self, store: NumberedRows, begins: Indices, ends: Indices) -> Bundle:
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

    def move(self, store: NumberedRows, begin: int, end: int) -> None:
        """Be the panes of another window, which begins and ends no earlier."""
        for first, stop, inverted in ((self.row.end, end, False), (self.row.begin, begin, True)):
            numbers = store.between(first, stop)
            if len(numbers) * store.width <= MOST_GATHERED and numbers:
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

    def windows(self, store: NumberedRows, begins: Indices, ends: Indices) -> Bundle:
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
        self, store: NumberedRows, panes: Indices, groups: Indices | None, arrivals: Arrivals
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

    def _turn(self, store: NumberedRows, begin: int, end: int) -> None:
        """Make the older stack of the panes of a window; nothing is newer."""
        self._numbers, rows = store.gather(begin, end)
        rows = rows.only(self._places)
        count = len(self._numbers)
        scan(rows, count, store.width, backwards=True)
        nothing = rows.like((count + 1) * store.width)
        nothing.put(np.arange(count * store.width), rows)
        self._older, self._newer = nothing, rows.like(store.width)
        self._border = self.end = end

    def _some(self, store: NumberedRows, begins: Indices, ends: Indices) -> Bundle:
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

    def windows(self, store: NumberedRows, begins: Indices, ends: Indices) -> Bundle:
        width = store.width
        made = self.row.value.like(len(begins) * width)
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            self.move(store, begin, end)
            made.put(np.arange(i * width, (i + 1) * width), self.row.value)
        return made

    def move(self, store: NumberedRows, begin: int, end: int) -> None:
        """Be the panes of another window, which begins and ends no earlier."""
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
