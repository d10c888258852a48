"""Kernel ``panes``: a tuple is folded once, into its pane; windows are made of panes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.crew import Crew
from penstock.blocks.panes import Counted, Kept, PaneStore
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.partials import Arrivals, Bundle, Layout, Partials
from penstock.blocks.running import RunningWindows
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.counting import likely_extent
from penstock.kernels.survey import HIGHEST


class PaneWindows:
    """The windows of an aggregate, as panes. ``width`` is how many groups there is room for."""

    def __init__(self, layout: Layout, grid: WindowGrid, crew: Crew | None = None) -> None:
        self._grid = grid
        self._crew = crew
        self._store = PaneStore(layout, grid.panes_of_ticks)
        self._running = RunningWindows(self._store)

    def program(self, layout: Layout, grid: WindowGrid) -> None:
        """Take other calls or another size; panes are kept."""
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

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Fold arrivals, which missed no window, into their panes."""
        self._store.lift(ticks, groups, arrivals, self._crew)

    def count(
        self, ticks: Indices, extent: tuple[int, int] | None, kept: Callable[[int, int], Kept]
    ) -> Counted | None:
        """Count tuples by their panes; see :meth:`PaneStore.count`.

        Without an extent it is guessed, and may be too small.
        """
        if extent is None:
            extent = likely_extent(ticks, self._store.panes)
        return self._store.count(ticks, extent, kept, self._crew)

    def add(self, counted: Counted) -> None:
        """As :meth:`lift` of tuples that have been counted, where nothing else is asked."""
        self._store.add(counted)

    def lift_late(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Fold arrivals that missed windows which are closed by now."""
        self._store.lift(ticks, groups, arrivals)
        self._running.changed(ticks, groups, arrivals)

    def filled(self, first: int, stop: int) -> Indices:
        """The windows from ``first`` to before ``stop`` that have a tuple."""
        panes = self._store.rows.numbers
        if not len(panes):
            return panes
        if stop - first <= len(panes):
            windows = np.arange(first, stop)
            begins, ends = self._panes_of(windows)
            following = np.append(panes, HIGHEST)[np.searchsorted(panes, begins)]
            return windows[following < ends]
        low, high = self._grid.windows_of_panes(panes)
        low = np.maximum(low, first)
        low[1:] = np.maximum(low[1:], high[:-1] + 1)
        high = np.minimum(high, stop - 1)
        counts = np.maximum(high - low + 1, 0)
        before = np.cumsum(counts) - counts
        return np.repeat(low - before, counts) + np.arange(int(counts.sum()))

    def close(self, windows: Indices) -> Partials:
        """A row of cells for each of these windows, which rise and come after all before."""
        return self._running.windows(*self._panes_of(windows))

    def _panes_of(self, windows: Indices) -> tuple[Indices, Indices]:
        """The first pane of each window, and the first one after it."""
        begins = windows * self._grid.slide + self._grid.begin(0)
        return self._grid.pane_of(begins), self._grid.pane_of(begins + self._grid.size)

    def empty(self, windows: Indices) -> Partials:
        """A row of cells with nothing in them for each window."""
        store = self._store.rows
        return store.partials.of(store.partials.all.like(len(windows) * store.width))

    def forget(self, before: int) -> None:
        """No window before this one will be asked for any more."""
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

    def widen(self, width: int) -> None:
        """Have room for that many groups."""
        self._store.rows.widen(width)
        self._running.reset()

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some pane."""
        return self._store.rows.live_groups()

    def renumber(self, kept: Indices) -> None:
        """Let group ``kept[i]`` be number ``i`` from here on; nothing is of any other."""
        self._store.rows.renumber(kept, max(1, len(kept)))
        self._running.reset()

    @property
    def version(self) -> int:
        return self._store.rows.version

    def save(self) -> dict[str, Array]:
        """The panes; see :meth:`NumberedRows.save`."""
        return self._store.rows.save()

    def load(self, columns: dict[str, Array], version: int) -> None:
        """Be the panes that were saved; there is room for their groups."""
        self._store.rows.load(columns, version)

    # -- cells of other panes ---------------------------------------------------------------

    @property
    def cell_count(self) -> int:
        """How many cells there is room for."""
        return len(self._store.rows.partials)

    def cells(self) -> tuple[Indices, Indices, Bundle]:
        """Every cell that has a tuple: its pane, its group, and the cells themselves."""
        return self._store.rows.cells()

    def saved(self, cells: Bundle) -> dict[str, Array]:
        """Such cells as columns."""
        return self._store.rows.partials.of(cells).save()

    def peek(self, windows: Indices) -> Partials:
        """A row of cells for each of these windows, which rise, as they stand."""
        begins = self._grid.pane_of(windows * self._grid.slide + self._grid.begin(0))
        ends = self._grid.pane_of(windows * self._grid.slide + self._grid.end(0))
        return RunningWindows(self._store).windows(begins, ends)

    def merge(self, part: PartialBatch, groups: Indices, opened: int) -> None:
        """Add the cells of panes that belong to a window from ``opened`` on."""
        first, last = self._grid.windows_of_panes(part.panes)
        chosen = np.flatnonzero(last >= np.maximum(first, opened))
        if len(chosen):
            self._store.rows.merge(part, groups, chosen)
        if (first[chosen] < opened).any():
            self._running.reset()
