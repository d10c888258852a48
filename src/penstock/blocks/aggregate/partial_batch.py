"""Partial results of tuples that were folded elsewhere, by pane and group.

A part of a stream can be folded anywhere, without knowing the punctuation: tuples are folded into
panes, not windows, and all tuples of a pane belong to the same windows. The block that merges the
partial results knows which windows are closed, and so which tuples are late and in which windows
they still count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.expressions.vector import vector_of

_NOTHING: Indices = np.empty(0, np.int64)


@dataclass(frozen=True)
class PartialBatch:
    """Folded tuples.

    Parameters
    ----------
    tuples, dead
        How many took part, and how many could not: they have no time, or it is before the start.
    highest
        The highest tick of any; None if nothing took part.
    seen, counts
        The panes that tuples fell into before WHERE, and how many into each.
    panes, groups
        Of each cell, the pane and the number of its group among ``keys``.
    keys
        The keys of the groups; None without GROUP BY.
    cells
        The partial results, as :meth:`penstock.blocks.aggregate.partials.Partials.save` has them.
    """

    tuples: int = 0
    dead: int = 0
    highest: int | None = None
    seen: Indices = field(default_factory=lambda: _NOTHING)
    counts: Indices = field(default_factory=lambda: _NOTHING)
    panes: Indices = field(default_factory=lambda: _NOTHING)
    groups: Indices = field(default_factory=lambda: _NOTHING)
    keys: pa.RecordBatch | None = None
    cells: dict[str, Array] = field(default_factory=dict)

    def numbered(self, groups: Groups) -> Indices:
        """The number of the group of each cell, among all groups."""
        if self.keys is None or not self.keys.num_rows:
            return self.groups
        columns = [vector_of(column) for column in self.keys.columns]
        numbers: Indices = groups.numbers(columns, self.keys.num_rows).astype(np.int64)
        return numbers[self.groups]


class Changes:
    """Which groups have changed in which windows from ``opened`` on."""

    def __init__(self, grid: WindowGrid, opened: int) -> None:
        self._grid = grid
        self._opened = opened
        self._first, self._last, self._groups = _NOTHING, _NOTHING, _NOTHING

    def add(self, panes: Indices, groups: Indices) -> None:
        """Cells have changed."""
        first, last = self._grid.windows_of_panes(panes)
        first = np.maximum(first, self._opened)
        chosen = np.flatnonzero(first <= last)
        self._first = np.concatenate((self._first, first[chosen]))
        self._last = np.concatenate((self._last, last[chosen]))
        self._groups = np.concatenate((self._groups, groups[chosen]))

    def windows(self) -> Indices:
        """The windows in which anything has changed, rising."""
        if not len(self._first):
            return _NOTHING
        spans = np.unique(np.stack((self._first, self._last)), axis=1)
        # A span counts from where those before it have ended.
        ended = np.maximum.accumulate(np.concatenate((spans[0, :1], spans[1, :-1] + 1)))
        first = np.maximum(spans[0], ended)
        counts = np.maximum(spans[1] - first + 1, 0)
        before = np.cumsum(counts) - counts
        return np.repeat(first - before, counts) + np.arange(int(counts.sum()))

    def groups(self) -> Indices:
        """The groups in which anything has changed, rising."""
        return np.unique(self._groups)

    def among(self, windows: Indices, groups: Indices | None) -> Indices:
        """Which of some rows, of windows and groups in which something has changed, have changed.

        Without GROUP BY all of them have.
        """
        if groups is None:
            return np.arange(len(windows))
        order = np.lexsort((self._first, self._groups))
        mine, first = self._groups[order], self._first[order]
        # How far the spans of a group reach that begin no later than this one.
        low, high = int(first.min()), int(self._last.max())
        span = high - low + 2
        reach = np.maximum.accumulate(mine * span + self._last[order] - low)
        at = np.searchsorted(mine * span + first - low, groups * span + windows - low, "right")
        return np.flatnonzero((at > 0) & (reach[at - 1] >= groups * span + windows - low))
