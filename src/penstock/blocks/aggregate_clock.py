"""When the windows of an aggregate close, for those who are told: by count, and at the end.

The clock of windows on a time attribute is in ``time_clock.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.run import Ended, Letters, Run
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.keys import comparison_key
from penstock.kernels.survey import HIGHEST, LOWEST, Extents
from penstock.kernels.vector import vector_of
from penstock.program.blocks import AggregateRows
from penstock.streams.windows import SlidingRows

NOTHING: Indices = np.empty(0, np.int64)


@dataclass(frozen=True)
class Closings:
    """The events that close windows.

    Their positions, the first window that is open after each, and how many tuples of the run have
    come by then. After the end of the stream, window :data:`HIGHEST` is the first that is open.
    """

    positions: Indices = field(default_factory=lambda: NOTHING)
    windows: Indices = field(default_factory=lambda: NOTHING)
    arrived: Indices = field(default_factory=lambda: NOTHING)

    @classmethod
    def one(cls, position: int, window: int, arrived: int) -> Closings:
        """A single event."""
        return cls(*(np.array([e], np.int64) for e in (position, window, arrived)))

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True)
class Judged:
    """A run as the windows see it.

    Parameters
    ----------
    run
        The tuples that take part.
    ticks
        The place of each on the windows' clock.
    times
        What orders them for FIRST and LAST; None: their arrival alone.
    opened
        The first window that is open before the run.
    closings
        The events that close windows.
    behind
        The rows of tuples that belong to a window which is closed.
    letters
        The tuples that missed a window, and those that do not take part, for the user.
    ended
        Where the stream ended, if it did.
    extent
        The smallest and the largest tick, if somebody has looked.
    """

    run: Run
    ticks: Indices
    times: Indices | None
    opened: int
    closings: Closings = field(default_factory=Closings)
    behind: Indices = field(default_factory=lambda: NOTHING)
    letters: tuple[Letters, ...] = ()
    ended: int | None = None
    extent: tuple[int, int] | None = None

    def open_at(self, rows: Indices) -> Indices:
        """The first window that is open when each of these rows comes."""
        events = np.searchsorted(self.closings.arrived, rows, side="right")
        opens: Indices = np.concatenate((np.array([self.opened]), self.closings.windows))[events]
        return opens


Glance = Callable[[Run, Indices], Extents | None]
"""Sees the tuples that take part, and their ticks; may tell how far apart those are."""


class WindowClock(Protocol):
    """Tells the windows of an aggregate when to close."""

    grid: WindowGrid
    open: int
    """The first window that is open."""

    def program(self, instruction: AggregateRows) -> None: ...

    def settled(self) -> int:
        """The first window that is open under the program in force."""

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever was promised, and their ticks."""

    def judge(self, run: Run, glance: Glance | None = None) -> Judged:
        """Judge every tuple, in order; ``glance`` may look at all of them before that."""

    def save(self) -> dict[str, Any]: ...

    def load(self, saved: dict[str, Any]) -> None: ...


class CountClock:
    """The windows of a :class:`SlidingRows`: the clock counts tuples."""

    def __init__(self, instruction: AggregateRows) -> None:
        self._count = 0
        self.open = 1
        self._cut: int | None = None
        self.program(instruction)

    def program(self, instruction: AggregateRows) -> None:
        """Take another size."""
        assert isinstance(instruction.window, SlidingRows)
        self.grid = WindowGrid.of(instruction.window, self._cut)
        self._cut = self.grid.cut
        self._time = instruction.time

    def settled(self) -> int:
        """The first window that is open: sizes do not matter to where windows end."""
        return self.open

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """A tuple's place is its number among all of the stream."""
        ticks = np.arange(self._count, self._count + len(run))
        self._count += len(run)
        return run, ticks

    def judge(self, run: Run, glance: Glance | None = None) -> Judged:
        """Every ``slide`` tuples a window closes."""
        slide, first = self.grid.slide, self.open
        ticks = np.arange(self._count, self._count + len(run))
        self._count += len(run)
        self.open = self._count // slide + 1
        ends = np.arange(first, self.open)
        arrived = ends * slide - (self._count - len(run))
        times = None if self._time is None else _order_of(run, self._time.column)
        ended = _end(run.controls)
        closings = Closings(run.positions[arrived - 1], ends + 1, arrived)
        return Judged(run, ticks, times, first, closings, ended=ended)

    def save(self) -> dict[str, Any]:
        """How many tuples have come."""
        return {"count": self._count, "open": self.open, "cut": self.grid.cut}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._count, self.open = saved["count"], saved["open"]
        self._cut = saved["cut"]
        self.grid = self.grid.with_cut(saved["cut"])


class EndClock:
    """One window, the whole input, which the end closes."""

    def __init__(self, instruction: AggregateRows) -> None:
        self.grid = WindowGrid(0, 1, 1, 0, 0, None)
        self.open = LOWEST
        self.program(instruction)

    def program(self, instruction: AggregateRows) -> None:
        """The end is where it is."""
        self._time = instruction.time

    def settled(self) -> int:
        """The first window that is open."""
        return self.open

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """All are in one place."""
        return run, np.zeros(len(run), np.int64)

    def judge(self, run: Run, glance: Glance | None = None) -> Judged:
        """Nothing closes before the end."""
        times = None if self._time is None else _order_of(run, self._time.column)
        ticks = np.zeros(len(run), np.int64)
        ended = _end(run.controls)
        if ended is None:
            return Judged(run, ticks, times, LOWEST)
        self.open = HIGHEST
        closings = Closings.one(ended, HIGHEST, len(run))
        return Judged(run, ticks, times, LOWEST, closings, ended=ended)

    def save(self) -> dict[str, Any]:
        """Whether the end has come."""
        return {"open": self.open}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.open = saved["open"]


def _end(controls: Iterable[object]) -> int | None:
    return next((c.position for c in controls if isinstance(c, Ended)), None)


def _order_of(run: Run, column: int) -> Indices:
    """Keys that order tuples by an attribute."""
    vector = vector_of(run.inputs[0].column(column))
    if pa.types.is_decimal(vector.type):
        return np.asarray(vector.values).astype(np.int64)  # it fits the clock, or is a dead letter
    return comparison_key(vector).astype(np.int64)
