"""What an aggregate knows of its input's time: which windows close when, and who missed them.

A window closes at the event that brings the promise to its end: the tuple that moves the promise (a
tuple is judged by the promise before it, counts, and closes windows after that), a punctuation, or
the end of the stream. Promises never go back, so a whole run can be judged at once: the first open
window before a tuple is that after the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.attribute import Attribute
from penstock.blocks.punctuator import Clock, Punctuator
from penstock.blocks.run import Ended, Letters, Promise, Run
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.keys import comparison_key
from penstock.kernels.survey import survey
from penstock.kernels.vector import vector_of
from penstock.program.blocks import AggregateRows
from penstock.streams.batches import take
from penstock.streams.windows import Sliding, SlidingRows

LOWEST = int(np.iinfo(np.int64).min)
HIGHEST = int(np.iinfo(np.int64).max)
_NOTHING: Indices = np.empty(0, np.int64)


@dataclass(frozen=True)
class Closings:
    """The events that close windows.

    Their positions, the first window that is open after each, and how many tuples of the run have
    come by then. After the end of the stream, window :data:`HIGHEST` is the first that is open.
    """

    positions: Indices = field(default_factory=lambda: _NOTHING)
    windows: Indices = field(default_factory=lambda: _NOTHING)
    arrived: Indices = field(default_factory=lambda: _NOTHING)

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
    """

    run: Run
    ticks: Indices
    times: Indices | None
    opened: int
    closings: Closings = field(default_factory=Closings)
    behind: Indices = field(default_factory=lambda: _NOTHING)
    letters: tuple[Letters, ...] = ()
    ended: int | None = None

    def open_at(self, rows: Indices) -> Indices:
        """The first window that is open when each of these rows comes."""
        events = np.searchsorted(self.closings.arrived, rows, side="right")
        opens: Indices = np.concatenate((np.array([self.opened]), self.closings.windows))[events]
        return opens


class WindowClock(Protocol):
    """Tells the windows of an aggregate when to close."""

    grid: WindowGrid
    open: int
    """The first window that is open."""

    def program(self, instruction: AggregateRows) -> None: ...

    def settled(self) -> int:
        """The first window that is open under the program in force."""

    def judge(self, run: Run) -> Judged: ...

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever was promised, and their ticks."""

    def save(self) -> dict[str, Any]: ...

    def load(self, saved: dict[str, Any]) -> None: ...


def clock_of(instruction: AggregateRows, stream: str) -> WindowClock:
    """The clock of an aggregate, by its window."""
    if isinstance(instruction.window, Sliding):
        return TimeClock(instruction, stream)
    if isinstance(instruction.window, SlidingRows):
        return CountClock(instruction)
    return EndClock(instruction)


class TimeClock:
    """The windows of a :class:`Sliding`: time is an attribute of the tuples."""

    def __init__(self, instruction: AggregateRows, stream: str) -> None:
        self._stream = stream
        self._clock = Clock(False)
        self.punctuator = Punctuator(self._clock)
        self.open = LOWEST
        self.attribute: Attribute | None = None
        self.program(instruction)

    def program(self, instruction: AggregateRows) -> None:
        """Take another size or slack; windows that have been closed stay so."""
        window, time = instruction.window, instruction.time
        assert isinstance(window, Sliding) and time is not None
        kind = instruction.schema.field(len(instruction.schema) - 1).type
        before, self.attribute = self.attribute, Attribute(time, kind)
        kept = None if before is None else self._rescaled(before)
        self.grid = WindowGrid.of(window, kept)
        self._start = window.start
        self.punctuator.program(window)

    def _rescaled(self, before: Attribute) -> int:
        """Where panes are cut, on a clock that may tick otherwise than it did."""
        assert self.attribute is not None
        ratio = Fraction(self.attribute.factor, before.factor)
        if ratio != 1:
            self.punctuator.rescale(ratio)
        return int(self.grid.cut * ratio)

    def settled(self) -> int:
        """The first window that is open under the program in force."""
        if self.punctuator.promise == LOWEST:
            return self.open
        return max(self.open, self.grid.closed(int(self.punctuator.promise)))

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever was promised, and their ticks."""
        run, ticks, _ = self._started(run)
        return run, ticks

    def judge(self, run: Run) -> Judged:
        """Judge every tuple, in order, and move the promise along."""
        assert self.attribute is not None
        run, ticks, letters = self._started(run)
        opened, events = self.open, _Events(self.open)
        behind: list[Indices] = [_NOTHING]
        promised: list[Indices] = [_NOTHING]
        done, ended = 0, None
        for control in (*run.controls, None):
            stop = len(run)
            if control is not None:
                stop = int(np.searchsorted(run.positions, control.position, side="right"))
            if stop > done:
                late, promises = self._take(ticks[done:stop], run.positions, done, events)
                behind.append(late)
                promised.append(promises)
            done = stop
            if isinstance(control, Ended):
                self.punctuator.end()
                ended = control.position
                events.add([ended], [HIGHEST], [done])
            elif control is not None and control.column in (None, self.attribute.column):
                events.rise(control.position, self._punctuated(control), done)
        self.open = events.open
        rows = np.concatenate(behind)
        letters += self._late(run, ticks, rows, np.concatenate(promised))
        return Judged(run, ticks, ticks, opened, events.closings(), rows, letters, ended)

    def _take(
        self, ticks: Indices, positions: Indices, start: int, events: _Events
    ) -> tuple[Indices, Indices]:
        """Let tuples close windows; rows that belong to a closed one, and what was promised then.

        The tuples are those of the run from row ``start`` on.
        """
        slack = self.punctuator.slack
        if events.open == LOWEST and self.grid.first is not None and slack is not None:
            events.add(positions[start : start + 1], [self.grid.first], [start + 1])
        border = LOWEST
        if events.open > (LOWEST if self.grid.first is None else self.grid.first):
            border = max(LOWEST, self.grid.end(events.open - 1))
        seen = int(self.punctuator.seen)
        found = survey(ticks, seen, border, None if slack is None else int(slack), self.grid.ends)
        windows = (found.borders - self.grid.end(0)) // self.grid.slide + 1
        rows = start + found.closings
        events.add(positions[rows], windows, rows + 1)
        late: Indices = found.late
        if self.grid.size < self.grid.slide and len(late):
            late = late[self.grid.first_of(ticks[late]) <= self.grid.last_of(ticks[late])]
        if not len(late):
            self.punctuator.pass_by(found.high)
            return late, late
        return start + late, self.punctuator.advance(ticks)[late]

    def _started(self, run: Run) -> tuple[Run, Indices, tuple[Letters, ...]]:
        """The tuples that do not come before the first window there is, and their ticks."""
        assert self.attribute is not None
        ticks = self.attribute.ticks(run.inputs[0])
        if self._start is None or not len(ticks) or int(ticks.min()) >= self._start:
            return run, ticks, ()
        gone, kept = np.flatnonzero(ticks < self._start), np.flatnonzero(ticks >= self._start)
        batch = take(run.inputs[0], gone)
        start = self.attribute.show(self._start)
        name, shown = self.attribute.name, self.attribute.shown(batch)
        reasons = [f"{name} = {value} is before START AT {start}" for value in shown]
        letters = Letters("dead", self._stream, batch, run.positions[gone], reasons)
        run = Run((take(run.inputs[0], kept),), run.positions[kept], run.controls, run.letters)
        return run, ticks[kept], (letters,)

    def _punctuated(self, control: Promise) -> int:
        assert self.attribute is not None
        self.punctuator.from_source(self.attribute.tick(control.value))
        promise = int(self.punctuator.promise)
        return self.grid.closed(promise) if promise != LOWEST else LOWEST

    def _late(
        self, run: Run, ticks: Indices, behind: Indices, promised: Indices
    ) -> tuple[Letters, ...]:
        """Of the tuples behind, those that missed a window: it ended before what was promised.

        Since the size may have been changed, a window may be closed that has not ended.
        """
        assert self.attribute is not None
        attribute, grid = self.attribute, self.grid
        if not len(behind):
            return ()
        first, after = grid.first_of(ticks[behind]), grid.closed_by(promised)
        missed = np.flatnonzero(first < after)
        if not len(missed):
            return ()
        rows = behind[missed]
        batch = take(run.inputs[0], rows)
        last = np.minimum(grid.last_of(ticks[rows]), after[missed] - 1)
        columns = (first[missed].tolist(), last.tolist(), promised[missed].tolist())
        reasons = [
            f"{attribute.name} = {value} is before the punctuation "
            f"{attribute.show_promise(promise)}: it missed {self._missed(low, high)}"
            for value, low, high, promise in zip(attribute.shown(batch), *columns, strict=True)
        ]
        return (Letters("late", self._stream, batch, run.positions[rows], reasons),)

    def _missed(self, first: int, last: int) -> str:
        low, high = self.show(first), self.show(last)
        return (
            f"the window {low}" if first == last else f"{last - first + 1} windows, {low} to {high}"
        )

    def show(self, window: int) -> str:
        """A window as a reader writes it."""
        assert self.attribute is not None
        begin, end = self.grid.begin(window), self.grid.end(window)
        return f"[{self.attribute.show(begin)}, {self.attribute.show(end)})"

    def save(self) -> dict[str, Any]:
        """What was promised and which windows are closed."""
        known = self.punctuator
        return {
            "open": self.open,
            "cut": self.grid.cut,
            "seen": known.seen,
            "promise": known.promise,
            "has_source": known.has_source,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.open = saved["open"]
        self.grid = self.grid.with_cut(saved["cut"])
        self.punctuator.seen, self.punctuator.promise = saved["seen"], saved["promise"]
        self.punctuator.has_source = saved["has_source"]


class _Events:
    """The events of a run that close windows; ``open`` is the first window that is open by now."""

    def __init__(self, window: int) -> None:
        self.open = window
        self._columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def add(self, *columns: Any) -> None:
        """Events at positions, after which these windows are open, of so many tuples."""
        for known, new in zip(self._columns, columns, strict=True):
            known.append(np.asarray(new, np.int64))
        if len(columns[1]):
            self.open = int(columns[1][-1])

    def rise(self, position: int, window: int, arrived: int) -> None:
        """An event that may close windows."""
        if window > self.open:
            self.add([position], [window], [arrived])

    def closings(self) -> Closings:
        """All events."""
        return Closings(*(np.concatenate([_NOTHING, *column]) for column in self._columns))


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

    def judge(self, run: Run) -> Judged:
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
        self.open = 0
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

    def judge(self, run: Run) -> Judged:
        """Nothing closes before the end."""
        times = None if self._time is None else _order_of(run, self._time.column)
        ticks = np.zeros(len(run), np.int64)
        ended = _end(run.controls)
        if ended is None:
            return Judged(run, ticks, times, 0)
        self.open = HIGHEST
        closings = Closings.one(ended, HIGHEST, len(run))
        return Judged(run, ticks, times, 0, closings, ended=ended)

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
