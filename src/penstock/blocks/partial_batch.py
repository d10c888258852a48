"""Tuples that were folded elsewhere: what they add to every pane and group.

A part of a stream can be folded by whoever has it, without knowing what was promised: panes, not
windows, are what tuples are folded into, and all tuples of a pane belong to the same windows. Who
merges the partial results knows which windows are closed, and so which tuples are late and what
they still count in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.groups import Groups
from penstock.kernels.vector import vector_of

PARTIAL_CALLS = frozenset(
    ("count", "sum", "avg", "min", "max", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
)
"""FIRST and LAST go by arrival where times are equal, which parts of a stream do not know."""

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
        The partial results, as :meth:`penstock.blocks.partials.Partials.save` has them.
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
        spans = np.unique(np.stack((self._first, self._last)), axis=1).T.tolist()
        return np.unique(np.concatenate([_NOTHING, *(np.arange(a, b + 1) for a, b in spans)]))

    def among(self, windows: Indices, width: int) -> npt.NDArray[np.bool_]:
        """Of rows of ``width`` groups, one for each of these windows, those that have changed."""
        counts = np.zeros((len(windows) + 1, width), np.int32)
        np.add.at(counts, (np.searchsorted(windows, self._first), self._groups), 1)
        after = np.searchsorted(windows, self._last, side="right")
        np.subtract.at(counts, (after, self._groups), 1)
        changed: npt.NDArray[np.bool_] = np.cumsum(counts[:-1], axis=0).reshape(-1) > 0
        return changed
