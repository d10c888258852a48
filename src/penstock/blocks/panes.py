"""Panes: the stretches between two borders of windows, each with a partial result per group.

A tuple is folded into its pane, whatever the number of windows that the pane belongs to.
"""

from __future__ import annotations

import numpy as np

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.numbered_rows import NumberedRows
from penstock.blocks.partials import Arrivals, Layout
from penstock.kernels.panes import Panes, cells_of

_SPAN = 1 << 12
"""Panes that are no farther apart are told by a table, others by sorting."""


class PaneStore:
    """Panes that have a tuple, as rows of cells. ``panes`` tells which pane a tick is in."""

    def __init__(self, layout: Layout, panes: Panes) -> None:
        self.panes = panes
        self.rows = NumberedRows(layout)

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Fold arrivals, one at least, into the panes of their ticks."""
        extent = int(ticks.min()), int(ticks.max())
        first, last = (self.panes.number(tick) for tick in extent)
        cells: Indices | int
        if last - first > max(_SPAN, len(ticks)):
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
        self.rows.lift(cells, arrivals, numbers)
