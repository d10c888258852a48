"""Panes: the stretches between two borders of windows, each with a partial result per group.

A tuple is folded into its pane, whatever the number of windows that the pane belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.crew import Crew
from penstock.blocks.numbered_rows import NumberedRows
from penstock.blocks.partials import Arrivals, Layout
from penstock.kernels.counting import count_in_panes
from penstock.kernels.panes import Panes, cells_of
from penstock.kernels.survey import STRETCH, Extents
from penstock.kernels.vector import Mask

Kept = tuple[Mask | None, tuple[Any, int] | None]
"""Which tuples count: a mask, and codes with the one that counts; None: all."""

_WORTH_SHARING = 1 << 17
_CELLS_PER_TUPLE = 4
_SPAN = 1 << 12
"""Panes that are no farther apart are told by a table, others by sorting."""


@dataclass(frozen=True)
class Counted:
    """How many tuples are in each pane from ``first`` on, and between which ticks they are."""

    first: int
    counts: Indices
    extents: Extents


class PaneStore:
    """Panes that have a tuple, as rows of cells. ``panes`` tells which pane a tick is in."""

    def __init__(self, layout: Layout, panes: Panes) -> None:
        self.panes = panes
        self.rows = NumberedRows(layout)

    def count(
        self,
        ticks: Indices,
        extent: tuple[int, int],
        kept: Callable[[int, int], Kept],
        crew: Crew | None,
    ) -> Counted | None:
        """Count tuples, one at least, by their panes, into which nothing is added yet.

        ``extent`` is that of the ticks, or larger; None if it is smaller, or too large for that.
        ``kept`` tells which of the tuples from one to before another count.
        """
        first, last = (self.panes.number(tick) for tick in extent)
        if last - first > max(_SPAN, len(ticks) // 16):
            return None
        extents = Extents.of(len(ticks))

        def counted(start: int, stop: int) -> Indices | None:
            counts = np.zeros(last - first + 1, np.int64)
            noted = extents.part(start, stop)
            given = ticks[start:stop], extent, self.panes, counts
            return counts if count_in_panes(*given, *kept(start, stop), noted) else None

        if crew is None or len(ticks) < _WORTH_SHARING:
            parts = [counted(0, len(ticks))]
        else:
            stretches = -(-len(ticks) // STRETCH)
            cuts = [STRETCH * (stretches * i // crew.cores) for i in range(crew.cores)]
            tasks = [lambda _, a=a, b=b: counted(a, b) for a, b in pairwise((*cuts, len(ticks)))]
            parts = crew.share(tasks)
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        return Counted(first, whole[0] if len(whole) == 1 else np.sum(whole, axis=0), extents)

    def add(self, counted: Counted) -> None:
        """Let the panes have what was counted."""
        found = np.flatnonzero(counted.counts)
        if len(found):
            self.rows.add_counts(found + counted.first, counted.counts[found])

    def _is_dense(self, panes: int, tuples: int) -> bool:
        """Whether cells for all panes of a stretch are no waste, if few of them get a tuple."""
        if self.rows.width == 1:
            return panes <= max(_SPAN, tuples)
        return panes * self.rows.width <= _CELLS_PER_TUPLE * tuples

    def lift(
        self,
        ticks: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
        crew: Crew | None = None,
    ) -> None:
        """Fold arrivals, one at least, into the panes of their ticks."""
        extent = int(ticks.min()), int(ticks.max())
        first, last = (self.panes.number(tick) for tick in extent)
        cells: Indices | int
        if last > first and not self._is_dense(last - first + 1, len(ticks)):
            numbers, places = np.unique(self.panes.numbers(ticks), return_inverse=True)
            cells = self.rows.starts(numbers)[places]
            cells = cells if groups is None else cells + groups
        else:
            numbers = np.arange(first, last + 1)
            starts = self.rows.starts(numbers)
            if first < last:
                cells = cells_of(ticks, extent, self.panes, starts, groups)
            else:
                cells = int(starts[0]) if groups is None else groups + np.int32(starts[0])
        self.rows.lift(cells, arrivals, numbers, crew)
