"""Compiled loops over the cells of windows, where every cell is in an interval of windows.

A pane is in an interval of windows, and so is a tuple that missed the first of them. A row is a
group in a window. Cells are sorted by group and, within a group, by the first window of theirs. The
rows of a group are numbered as its windows rise, and a group has a row in every window that one of
its cells is in. So the rows of a cell are an interval too, and intervals begin in the order of the
cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]
Word = Any


@njit()
def count_rows(groups: Array, firsts: Array, stops: Array, out: Array) -> None:
    """Add to ``out`` the number of groups that have a cell in each window.

    ``firsts`` and ``stops`` are the first window that each cell is in, and the first one after
    them.
    """
    group, after = np.int64(-1), np.int64(0)
    for i in range(groups.shape[0]):
        if groups[i] != group:
            group, after = np.int64(groups[i]), np.int64(0)
        for window in range(max(firsts[i], after), stops[i]):
            out[window] += 1
        after = max(after, stops[i])


@njit()
def rows_of_cells(
    groups: Array,
    windows: tuple[Array, Array],
    span: tuple[Word, Word],
    rows: tuple[Array, Array],
    intervals: tuple[Array, Array],
) -> None:
    """A row for every group and window of a span in which the group has a cell.

    ``windows`` are the first window that each cell is in and the first one after them, ``span`` is
    the first window and one past the last; each cell is in one of them. ``rows`` gets the window
    of each row and one of its cells, ``intervals`` the first row of each cell and the first one
    after its rows.
    """
    firsts, stops = windows
    start, stop = span
    window_of, cell_of = rows
    begins, ends = intervals
    count = 0
    group, after = np.int64(-1), np.int64(start)
    for i in range(groups.shape[0]):
        if groups[i] != group:
            group, after = np.int64(groups[i]), np.int64(start)
        first, last = max(firsts[i], start), min(stops[i], stop)
        after = max(after, first)
        # The windows from the first to ``after`` have the latest rows.
        begins[i] = count - (after - first)
        ends[i] = begins[i] + (last - first)
        while after < last:
            window_of[count], cell_of[count] = after, i
            count += 1
            after += 1


@njit()
def first_of_intervals(
    cells: tuple[Array, Array, Array], begins: Array, ends: Array, out: Array
) -> None:
    """For each row the first cell, by key, of those in whose intervals it is; -1 if there is none.

    ``cells`` are their keys, what orders those of equal keys, and 1 where a cell has a value. The
    interval of a cell is the rows from its ``begins``, which rise, to before its ``ends``.
    """
    keys, ties, has = cells
    # A heap: no cell comes before the one at half its place. One whose interval has ended stays
    # until it is the first.
    heap = np.empty(keys.shape[0] + 1, np.int64)
    size, entered = 0, 0
    for row in range(out.shape[0]):
        while entered < begins.shape[0] and begins[entered] <= row:
            if has[entered] and ends[entered] > row:
                size += 1
                at = size
                while at > 1 and _is_before(keys, ties, entered, heap[at >> 1]):
                    heap[at] = heap[at >> 1]
                    at >>= 1
                heap[at] = entered
            entered += 1
        while size > 0 and ends[heap[1]] <= row:
            last = heap[size]
            size -= 1
            at, child = 1, 2
            while child <= size:
                if child < size and _is_before(keys, ties, heap[child + 1], heap[child]):
                    child += 1
                if not _is_before(keys, ties, heap[child], last):
                    break
                heap[at] = heap[child]
                at, child = child, 2 * child
            heap[at] = last
        out[row] = heap[1] if size > 0 else -1


@njit(inline="always")
def _is_before(keys: Array, ties: Array, one: Word, other: Word) -> Any:
    return keys[one] < keys[other] or (keys[one] == keys[other] and ties[one] < ties[other])
