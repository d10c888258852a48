"""Kernel ``wid``: window-aggregation modules and a union, as in Oge et al. 2013 §V-B.

``N_WIN`` modules have one window each. A control module keeps where its window begins and ends
(Algorithm 1) and makes two signals (Algorithm 2): *eis*, which lets a tuple into the aggregation
module, and *eos*, at which that one gives its result to the union and begins anew, with the window
that is ``N_WIN`` slides later. In a circuit all modules look at a tuple in the same cycle. Here
tuples of a batch are folded in together, once for each of their windows, so a tuple costs as much
as it has windows.

Three things differ from the circuit, so that nothing is lost. It moves a module once per
punctuation and hands out one result per cycle; here modules move on until their windows are open,
and the union hands out all that was closed, oldest first. It ignores a tuple that is ahead of every
module; here a module is added for each such window. And it has a module take up its next window
only when the last one is closed; of a batch, tuples that come after a punctuation are folded in
before the window that it closes is handed out, which is the same, since they are not in that
window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.numbered_rows import NumberedRows
from penstock.blocks.aggregate.panes import PaneStore
from penstock.blocks.aggregate.partials import Arrivals, Layout
from penstock.blocks.aggregate.sparse_rows import SparseRows
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.aggregate.window_rows import WindowRows, rows_of_windows
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.panes import Panes
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST
from penstock.kernels.expressions.vector import Mask
from penstock.program.choose.aggregate_kernel import window_modules
from penstock.streams.windows import Sliding

_PAIRS = 1 << 16
"""Pairs of a tuple and a module that are folded at a time, in small batches."""
_ITSELF = Panes(0, 1, 0)


def modules_of(window: Sliding) -> int:
    """``N_WIN`` of a window clause."""
    return window_modules(window.size, window.slide, window.slack or 0)


class ControlModules:
    """The registers and signals of ``count`` control modules.

    ``windows`` has the number of each module's window, which says where it begins and ends even if
    that is beyond 64 bits; there are none before the first tuple, unless START AT says where to
    begin. No window before ``opened`` is open.

    >>> modules = ControlModules(3, WindowGrid.of(Sliding(size=20, slide=10, start=0)))
    >>> modules.win_begin.tolist(), modules.win_end.tolist()
    ([0, 10, 20], [20, 30, 40])
    >>> [windows.tolist() for windows in modules.eis(np.array([5, 25]))]
    [[0, 1], [0, 2]]
    >>> modules.punctuate(3)
    >>> modules.win_begin.tolist(), modules.win_end.tolist()
    ([30, 40, 50], [50, 60, 70])
    """

    def __init__(self, count: int, grid: WindowGrid) -> None:
        self.count = count
        self.grid = grid
        self.opened = LOWEST
        self.windows: Indices = np.empty(0, np.int64)
        if grid.first is not None:
            self.start(grid.first)

    def start(self, window: int) -> None:
        """Algorithm 1, initialization: one window after another, from this one on."""
        self.windows = np.arange(window, min(window, HIGHEST - self.count) + self.count)

    @property
    def win_begin(self) -> Indices:
        """The first tick of each module's window."""
        return self.windows * self.grid.slide + self.grid.begin(0)

    @property
    def win_end(self) -> Indices:
        """The first tick after each module's window."""
        return self.windows * self.grid.slide + self.grid.end(0)

    def eis(self, ticks: Indices) -> tuple[Indices, Indices]:
        """Algorithm 2, enable input stream: the first and the last window that takes each tuple.

        Those between take it too; if the last is before the first, none does. A window that no
        module has yet is among them: it gets one.
        """
        if not len(self.windows):
            self.start(int(self.grid.first_of(ticks[:1])[0]))
        return np.maximum(self.grid.first_of(ticks), self.opened), self.grid.last_of(ticks)

    def eos(self, opened: int) -> Mask:
        """Algorithm 2, end of stream: the modules whose windows are before the first open one."""
        ended: Mask = self.windows < opened
        return ended

    def punctuate(self, opened: int) -> None:
        """Algorithm 1, synchronous update, again and again until no module has a closed window."""
        self.opened = opened
        if opened > HIGHEST - 2 * self.count:
            return  # no tuple will come
        if not len(self.windows):
            self.start(opened)
        ended = self.eos(opened)
        if ended.any():
            turns = -((self.windows[ended] - opened) // self.count)
            self.windows[ended] += turns * self.count

    def resize(self, count: int) -> None:
        """Be another number of modules; the oldest window is the same."""
        self.count = count
        if len(self.windows):
            self.start(int(self.windows.min()))

    def added(self, windows: Indices) -> int:
        """How many of these windows, all different, no module has: a module is added for each."""
        if not len(self.windows):
            return len(windows)
        first = int(self.windows.min())
        return int(np.count_nonzero((windows < first) | (windows >= first + self.count)))


class AggregationModules:
    """The partial results of windows, one per call and group. A module has one window's.

    ``numbers`` counts what was folded in: a tuple has a number for each of its windows, by which
    FIRST and LAST order tuples of the same time. These have the same windows, so it is the order
    of their arrival.
    """

    def __init__(self, layout: Layout) -> None:
        self.store = PaneStore(layout, _ITSELF)
        self.numbers = 0

    def lift(
        self,
        enabled: tuple[Indices, Indices],
        groups: Indices | None,
        arrivals: Arrivals,
        count: int,
    ) -> None:
        """Fold each tuple into the windows, first and last, whose *eis* it asserts."""
        first, last = enabled
        counts = np.where(last < first, 0, last - first + 1)
        windows = int(counts.max())
        step = max(1, _PAIRS // len(counts))
        for done in range(0, windows, step):
            which = np.arange(done, min(done + step, windows))
            if len(which) == 1 and int(counts.min()) > done:
                self._fold(last - done, groups, replace(arrivals, start=self.numbers), count)
                continue
            back, rows = np.nonzero(counts > which[:, None])
            mine = None if groups is None else groups[rows]
            some = arrivals.only(rows, self.numbers)
            self._fold(last[rows] - which[back], mine, some, count)

    def _fold(
        self, windows: Indices, groups: Indices | None, arrivals: Arrivals, count: int
    ) -> None:
        self.numbers += arrivals.length
        self.store.lift(windows, groups, arrivals, count)


class Union:
    """Merges the results of modules into one stream, oldest window first."""

    def __init__(self, modules: AggregationModules) -> None:
        self._modules = modules

    def merge(self, windows: Indices, groups: Groups | None) -> Iterator[WindowRows]:
        """The rows of these windows, which rise and leave out none with a tuple."""
        store = self._modules.store.rows
        cells = store.cells_between(int(windows[0]), int(windows[-1]) + 1)
        yield from rows_of_windows(windows, cells, groups)


class WindowModules:
    """The windows of an aggregate, as modules. ``width`` is how many groups there is room for."""

    def __init__(self, layout: Layout, grid: WindowGrid, count: int) -> None:
        self.control = ControlModules(count, grid)
        self._aggregation = AggregationModules(layout)
        self._union = Union(self._aggregation)

    @property
    def _rows(self) -> NumberedRows | SparseRows:
        return self._aggregation.store.rows

    def program(self, layout: Layout, grid: WindowGrid) -> None:
        """Take other calls; the windows stay."""
        assert grid.size == self.control.grid.size
        self._rows.program(layout)

    def resize(self, count: int) -> None:
        """Be another number of modules, for another slack."""
        self.control.resize(count)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        return self._rows.width

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def measures(self, opened: int) -> dict[str, int]:
        """How many modules there are, and how many windows that have a tuple and are open.

        There are no panes.
        """
        windows = self.filled(opened, HIGHEST)
        return {
            "panes": 0,
            "modules": self.control.count + self.control.added(windows),
            "windows_open": len(windows),
        }

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals, count: int) -> None:
        """Fold arrivals, one at least, into the modules that take them; of ``count`` groups."""
        self._aggregation.lift(self.control.eis(ticks), groups, arrivals, count)

    def should_hold(self, turns: int) -> bool:
        """Whether late tuples should be folded in before the windows that they missed close.

        They always should: a window has cells of its own, so those that are closed ignore them.
        """
        return True

    def hold_late(
        self,
        ticks: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
        count: int,
        opens: Indices,
    ) -> None:
        """The same as :meth:`lift` for late arrivals.

        ``opens`` is the first window that was open when each came.
        """
        first, last = self.control.eis(ticks)
        self._aggregation.lift((np.maximum(first, opens), last), groups, arrivals, count)

    def filled(self, first: int, stop: int) -> Indices:
        """The windows from ``first`` to before ``stop`` that have a tuple."""
        start, end = np.searchsorted(self._rows.numbers, (first, stop))
        return self._rows.numbers[start:end]

    def close(self, windows: Indices, groups: Groups | None) -> Iterator[WindowRows]:
        """The rows of these windows, which rise and come after all before, in parts."""
        yield from self._union.merge(windows, groups)

    def empty(self, windows: Indices) -> WindowRows:
        """A row with nothing in it for each window; without GROUP BY."""
        nothing = self._rows.partials.of(self._rows.partials.all.like(len(windows)))
        return WindowRows(np.arange(len(windows)), None, nothing)

    def forget(self, before: int) -> None:
        """The windows before this one are out: their modules begin anew."""
        self._rows.drop(before)
        self.control.punctuate(before)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some window."""
        return self._rows.live_groups()

    def renumber(self, remaining: Indices) -> None:
        """Renumber the groups: ``remaining[i]`` becomes ``i``; no other group has a tuple."""
        self._rows.renumber(remaining, max(1, len(remaining)))

    @property
    def version(self) -> int:
        return self._rows.version

    def save(self) -> dict[str, Array]:
        """The registers, and the windows that have a tuple; see :meth:`NumberedRows.save`."""
        numbers = np.array([self._aggregation.numbers])
        return {"numbers": numbers, "windows": self.control.windows, **self._rows.save()}

    def load(self, columns: dict[str, Array], version: int, groups: int) -> None:
        """Be the modules that were saved, of that many groups.

        :meth:`forget` says which windows are closed.
        """
        [self._aggregation.numbers] = columns["numbers"].tolist()
        self.control.windows = np.array(columns["windows"], np.int64)
        self._aggregation.store.load(columns, version, groups)
