"""The rows of windows, by group; and how all windows of many cells are made at once.

A cell is what a group has in a pane, or what it got late in one. It is in an interval of windows,
and so in an interval of the rows of its group. Every part computes the results of rows, given the
intervals of cells, at a cost of the cells and the rows, so that is the cost of all windows, however
many windows and groups there are. Where most groups are in most windows, running windows
(:mod:`penstock.blocks.aggregate.window_panes`) cost less: they read a cell only when it enters and
when it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.blocks.aggregate.functions.cells import Indices
from penstock.blocks.aggregate.partials import Partials
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.intervals import count_rows, rows_of_cells
from penstock.tuning import TUNING


@dataclass(frozen=True)
class Cells:
    """Cells of groups in rows (panes or windows), by row, then by group; all different."""

    rows: Indices
    groups: Indices
    partials: Partials

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: Indices) -> Cells:
        """Some of the cells, in their order."""
        partials = self.partials.of(self.partials.all.take(chosen))
        return Cells(self.rows[chosen], self.groups[chosen], partials)


def merged(one: Cells, other: Cells) -> Cells:
    """The cells of both, sorted; those of the same row and group become one."""
    rows = np.concatenate((one.rows, other.rows))
    groups = np.concatenate((one.groups, other.groups))
    order = np.lexsort((groups, rows))
    rows, groups = rows[order], groups[order]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (groups[1:] != groups[:-1])
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(fresh) - 1
    mine, theirs = places[: len(one)], places[len(one) :]
    made = one.partials.all.like(int(fresh.sum()))
    made.put(mine, one.partials.all)
    both = made.take(theirs)
    both.combine(other.partials.all)
    made.put(theirs, both)
    return Cells(rows[fresh], groups[fresh], one.partials.of(made))


def merged_pairwise(parts: Sequence[Cells]) -> Cells:
    """The cells of all parts, one at least; each is moved a logarithmic number of times."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[len(parts) & ~1 :]
        parts = [*(merged(one, other) for one, other in pairs), *rest]
    return parts[0]


@dataclass(frozen=True)
class WindowRows:
    """Rows in the order in which they come out: by window, then by the keys of the group.

    ``which`` is the window of each, counted from the first of those asked for. Without GROUP BY
    every window has a row, and ``groups`` is None.
    """

    which: Indices
    groups: Indices | None
    partials: Partials

    def only(self, chosen: Indices) -> WindowRows:
        """Some of the rows, in their order."""
        groups = None if self.groups is None else self.groups[chosen]
        partials = self.partials.of(self.partials.all.take(chosen))
        return WindowRows(self.which[chosen], groups, partials)


def rows_of_table(
    table: Partials, first: int, windows: int, width: int, groups: Groups | None
) -> WindowRows:
    """The rows of windows from ``first`` on, each of which has a row of ``width`` cells.

    A group has a row in the windows in which it has a tuple.
    """
    if groups is None:
        return WindowRows(np.arange(first, first + windows), None, table)
    order = groups.in_order()
    if len(order) > width:  # some are so new that nothing of theirs has been folded in
        order = order[order < width]
    cells = np.arange(windows)[:, None] * width + order
    present = table.rows.counts[cells] > 0
    chosen = cells[present]
    which = np.repeat(np.arange(windows), present.sum(axis=1))
    partials = table.of(table.all.take(chosen))
    return WindowRows(first + which, chosen - which * width, partials)


def rows_of_windows(windows: Indices, cells: Cells, groups: Groups | None) -> Iterator[WindowRows]:
    """The rows of windows, of which each has cells of its own."""
    which = np.searchsorted(windows, cells.rows)
    if groups is None:
        yield from rows_at_once(len(windows), cells, (which, which + 1), None)
        return
    order = np.lexsort((_ranks(cells.groups, groups), which))
    most = TUNING.cells_per_part
    for start in range(0, len(order), most):
        chosen = order[start : start + most]
        some = cells.take(chosen)
        yield WindowRows(which[chosen], some.groups, some.partials)


def rows_at_once(
    windows: int, cells: Cells, intervals: tuple[Indices, Indices], groups: Groups | None
) -> Iterator[WindowRows]:
    """The rows of as many windows, numbered from 0.

    ``intervals`` are the first window that each cell is in, which rises, and the first one after
    those that it is in.
    """
    firsts, stops = intervals
    if groups is None:
        made = cells.partials.all.of_intervals(firsts, stops, windows)
        yield WindowRows(np.arange(windows), None, cells.partials.of(made))
        return
    ranks = _ranks(cells.groups, groups)
    order = np.argsort(ranks, kind="stable")
    ranks, firsts, stops = ranks[order], firsts[order], stops[order]
    counts = np.zeros(windows, np.int64)
    count_rows(ranks, firsts, stops, counts)
    for start, stop in _parts(counts):
        inside = np.flatnonzero((stops > start) & (firsts < stop) & (firsts < stops))
        some = cells.take(order[inside])
        count = int(counts[start:stop].sum())
        which, cell_of = np.empty(count, np.int64), np.empty(count, np.int64)
        begins, ends = np.empty(len(inside), np.int64), np.empty(len(inside), np.int64)
        mine = firsts[inside], stops[inside]
        rows_of_cells(ranks[inside], mine, (start, stop), (which, cell_of), (begins, ends))
        made = some.partials.all.of_intervals(begins, ends, count)
        rows = WindowRows(which, some.groups[cell_of], some.partials.of(made))
        yield rows.only(np.argsort(which, kind="stable"))


def _parts(counts: Indices) -> list[tuple[int, int]]:
    """Windows, given by how many rows each has, in parts of a bounded size."""
    before = np.cumsum(counts) - counts
    cuts = np.flatnonzero(np.diff(before // TUNING.cells_per_part)) + 1
    borders = [0, *cuts.tolist(), len(counts)]
    return list(pairwise(borders))


def _ranks(found: Indices, groups: Groups) -> Indices:
    """Of the group of each cell, how many groups of the others come before it by their keys."""
    distinct, places = np.unique(found, return_inverse=True)
    ranks = np.empty(len(distinct), np.int64)
    ranks[groups.order(distinct)] = np.arange(len(distinct))
    return ranks[places]
