"""Kernel ``wid``: window-aggregation modules, as in the circuit of Oge et al. 2013 §V-B.

Each module has one window at a time, in two registers, ``win_begin`` and ``win_end``. Every tuple
goes to all modules: those whose signal *eis* it asserts take it. A punctuation goes to all modules
too: where it asserts *eos*, the module gives its result to the union, begins anew, and takes the
window that is ``N_WIN`` slides later. So ``N_WIN`` modules serve all windows that can be open as
long as tuples keep to the slack (equations 1 and 2).

The circuit moves each module once per punctuation, hands out one result per cycle, and ignores
tuples that are ahead of all modules, or behind. Here modules move on until nothing is left to
close, the union hands out all that is closed, oldest first, and a tuple that is in an open window
that no module has gets a module for that window alone: nothing is lost. The tuple that moves the
promise is often such a one, since it counts before what it closes is closed.
"""

from __future__ import annotations

import numpy as np

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.numbered_rows import NumberedRows
from penstock.blocks.partials import Arrivals, Layout, Partials, cells_of_rows
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.survey import HIGHEST, LOWEST
from penstock.kernels.vector import Mask


class ControlModules:
    """The registers of all control modules (Algorithm 1), and the signals they make (Algorithm 2).

    >>> modules = ControlModules(count=3, start=0, slide=10, size=20)
    >>> modules.eis(np.array([5, 15, 25]), 1).tolist()
    [False, True, True]
    >>> modules.eos(31).tolist()
    [True, True, False]
    >>> modules.update(31)
    >>> modules.win_begin.tolist(), modules.win_end.tolist()
    ([30, 40, 20], [50, 60, 40])
    """

    def __init__(self, count: int, start: int, slide: int, size: int) -> None:
        self._turn = count * slide
        self.win_begin: Indices = start + np.arange(count) * slide
        self.win_end: Indices = self.win_begin + size

    def __len__(self) -> int:
        return len(self.win_begin)

    def eis(self, ticks: Indices, module: int) -> Mask:
        """Enable input: which tuples the module takes."""
        taken: Mask = (self.win_begin[module] <= ticks) & (ticks < self.win_end[module])
        return taken

    def eos(self, punctuation: int) -> Mask:
        """End of stream: which modules have a window that a punctuation closes."""
        closed: Mask = self.win_end <= punctuation
        return closed

    def update(self, punctuation: int) -> None:
        """Give every module whose window is closed its next one that is not."""
        behind = np.maximum(punctuation - self.win_end, -1)
        turns = behind // self._turn + 1
        self.win_begin = self.win_begin + turns * self._turn
        self.win_end = self.win_end + turns * self._turn


class WindowModules:
    """The windows of an aggregate, each in a module. Tuples come, and windows close, in order.

    ``added`` counts the modules that were added for single windows.
    """

    in_order = True

    def __init__(self, layout: Layout, grid: WindowGrid, count: int) -> None:
        self._grid = grid
        self._count = count
        self._rows = NumberedRows(layout)
        self._control: ControlModules | None = None
        self._oldest = LOWEST
        self.added = 0

    def program(self, layout: Layout, grid: WindowGrid) -> None:
        """Take other calls; the windows are as they were."""
        assert grid == self._grid
        if layout.keys != self._rows.partials.layout.keys:
            self._rows.touch(self._rows.numbers)
        self._rows.partials.program(layout)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        return self._rows.width

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    @property
    def version(self) -> int:
        return self._rows.version

    def measures(self, opened: int) -> dict[str, int]:
        """How many modules there are, and how many windows that have a tuple and are open."""
        modules = 0 if self._control is None else len(self._control)
        windows = len(self.filled(opened, HIGHEST))
        return {"modules": modules, "modules_added": self.added, "windows_open": windows}

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Show tuples to all modules; those that are in an open window of none get one."""
        control = self._control
        if control is None:
            first = int(self._grid.first_of(ticks[:1])[0])
            begin = self._grid.begin(first)
            control = ControlModules(self._count, begin, self._grid.slide, self._grid.size)
            self._control = control
        for module in range(len(control)):
            taken = np.flatnonzero(control.eis(ticks, module))
            if len(taken):
                window = self._window(int(control.win_begin[module]))
                self._take(window, taken, groups, arrivals)
        self._take_others(control, ticks, groups, arrivals)

    lift_late = lift

    def _window(self, begin: int) -> int:
        return (begin - self._grid.begin(0)) // self._grid.slide

    def _take(
        self, window: int, taken: Indices, groups: Indices | None, arrivals: Arrivals
    ) -> None:
        """Let the module of a window fold tuples into its result."""
        numbers = np.array([window])
        start = int(self._rows.starts(numbers)[0])
        cells = start if groups is None else groups[taken] + np.int32(start)
        some = arrivals if len(taken) == arrivals.length else arrivals.only(taken, arrivals.start)
        self._rows.lift(cells, some, numbers)

    def _take_others(
        self,
        control: ControlModules,
        ticks: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
    ) -> None:
        """Fold tuples into open windows that no module has."""
        low = self._window(int(control.win_begin.min()))
        high = self._window(int(control.win_begin.max()))
        first = np.maximum(self._grid.first_of(ticks), self._oldest)
        last = self._grid.last_of(ticks)
        outside = np.flatnonzero((first <= last) & ((first < low) | (last > high)))
        windows: set[int] = set()
        for begin, end in set(zip(first[outside].tolist(), last[outside].tolist(), strict=True)):
            windows.update(range(begin, min(low, end + 1)), range(max(begin, high + 1), end + 1))
        for window in sorted(windows):
            self.added += window not in self._rows.numbers
            taken = np.flatnonzero((first <= window) & (window <= last))
            self._take(window, taken, groups, arrivals)

    def filled(self, first: int, stop: int) -> Indices:
        """The windows from ``first`` to before ``stop`` that have a tuple."""
        start, end = np.searchsorted(self._rows.numbers, (first, stop))
        return self._rows.numbers[start:end]

    def close(self, windows: Indices) -> Partials:
        """The union: a row of cells for each of these windows, oldest first."""
        known = np.flatnonzero(np.isin(windows, self._rows.numbers))
        made = self.empty(windows)
        if len(known):
            rows = self._rows.only(windows[known])
            made.all.put(cells_of_rows(known, self.width), rows)
        return made

    def empty(self, windows: Indices) -> Partials:
        """A row of cells with nothing in them for each window."""
        partials = self._rows.partials
        return partials.of(partials.all.like(len(windows) * self.width))

    def forget(self, before: int) -> None:
        """No window before this one will be asked for any more: modules take later ones."""
        self._oldest = before
        self._rows.drop(before)
        if self._control is not None and before < HIGHEST:
            punctuation = self._grid.end(before - 1)
            if self._control.eos(punctuation).any():
                self._control.update(punctuation)

    def widen(self, width: int) -> None:
        """Have room for that many groups."""
        self._rows.widen(width)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some window."""
        return self._rows.live_groups()

    def renumber(self, kept: Indices) -> None:
        """Let group ``kept[i]`` be number ``i`` from here on; nothing is of any other."""
        self._rows.renumber(kept, max(1, len(kept)))

    def save(self) -> dict[str, Array]:
        """The windows that have a tuple; see :meth:`NumberedRows.save`."""
        registers = np.empty(0, np.int64)
        if self._control is not None:
            registers = self._control.win_begin
        return {"win_begin": registers, **self._rows.save()}

    def load(self, columns: dict[str, Array], version: int) -> None:
        """Be the windows that were saved; there is room for their groups."""
        self._rows.load(columns, version)
        begins = np.array(columns["win_begin"], np.int64)
        if len(begins):
            slide, size = self._grid.slide, self._grid.size
            self._control = ControlModules(self._count, 0, slide, size)
            self._control.win_begin, self._control.win_end = begins, begins + size
