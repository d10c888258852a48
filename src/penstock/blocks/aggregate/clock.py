"""When the windows of an aggregate close: by time, by count, or at the end.

A window on a time attribute closes at the event that brings the punctuation to its end: a tuple
(which is judged by the punctuation before it, counts, and closes windows after that), a punctuation
of the source, or the end of the stream. Punctuations never go back, so a whole run can be judged at
once.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Indices
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.run import ColumnPunctuation, EndOfStream, Letters, Run
from penstock.blocks.window.punctuator import Clock, Punctuator
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST, Extents, survey
from penstock.kernels.expressions.vector import Vector, physical_dtype, vector_of
from penstock.kernels.predicate.keys import comparison_key
from penstock.program.isa.block_instructions import AggregateRows
from penstock.streams.batches import take
from penstock.streams.clock import DAY, UNITS_PER_SECOND
from penstock.streams.literals import format_array, format_value
from penstock.streams.schema import type_name
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

_FIRST_SECOND, _SECONDS_END = -62_135_596_800, 253_402_300_800
"""The seconds from the epoch to the year 1, and to the end of the year 9999."""
_LOWEST, _HIGHEST = (int(getattr(np.iinfo(np.int64), end)) for end in ("min", "max"))
NOTHING: Indices = np.empty(0, np.int64)
Glance = Callable[[Run, Indices], Extents | None]
"""Gets the tuples that take part, and their ticks; may return the extent of those."""


class Attribute:
    """A column with an order, measured in ticks: its physical value times ``factor``."""

    def __init__(self, time: TimeAttribute, kind: pa.DataType) -> None:
        self.column = time.column
        self.name = time.name
        self.factor = int(time.factor)
        self.kind: Any = kind

    def ticks(self, batch: pa.RecordBatch) -> Indices:
        """The tick of each tuple; all of them fit, see :mod:`penstock.blocks.screen`.

        Ticks of 32 bits stay so: code that computes with them makes them wider.
        """
        values = np.asarray(vector_of(batch.column(self.column)).values)
        if self.factor == 1 and values.dtype == np.int32:
            return values
        ticks = values.astype(np.int64, copy=False)
        return ticks * self.factor if self.factor != 1 else ticks

    @property
    def limits(self) -> tuple[int, int] | None:
        """The first and the last tick that a border of a window can be; None if all can.

        Of dates and timestamps, they are those of the years 1 to 9999: neither Python nor
        Spark has others. Of a decimal, those that its digits can show.
        """
        if pa.types.is_decimal(self.kind):
            most = (10**self.kind.precision - 1) * self.factor
            return -most, most
        if pa.types.is_date(self.kind):
            unit = Fraction(1, DAY)
        elif pa.types.is_timestamp(self.kind):
            unit = Fraction(UNITS_PER_SECOND[self.kind.unit])
        else:
            return None
        first, end = (int(second * unit) for second in (_FIRST_SECOND, _SECONDS_END))
        return first * self.factor, (end - 1) * self.factor

    def tick(self, value: object) -> int:
        """The last tick that is not after a physical value."""
        number: Any = value
        if isinstance(number, float) and math.isinf(number):
            return _HIGHEST if number > 0 else _LOWEST
        scale = 10**self.kind.scale if pa.types.is_decimal(self.kind) else 1
        ticks = math.floor(Fraction(number) * scale * self.factor)
        return max(_LOWEST, min(_HIGHEST, ticks))

    def physical(self, tick: int) -> object:
        """A tick that is a value of the attribute, as a physical value."""
        value = tick // self.factor
        if pa.types.is_decimal(self.kind):
            return decimal.Decimal(value).scaleb(-self.kind.scale)
        return value

    def array(self, ticks: Indices) -> Any:
        """Ticks that are values of the attribute as an Arrow array of its type."""
        values = ticks // self.factor if self.factor != 1 else ticks
        dtype = physical_dtype(self.kind)
        if dtype.kind in "iu" and dtype != np.int64 and len(values):
            limits = np.iinfo(dtype)
            for border in (int(values.min()), int(values.max())):
                if not limits.min <= border <= limits.max:
                    raise BorderDoesNotFit(border, self.kind)
        return Vector(values.astype(dtype), None, self.kind).to_arrow()

    def beyond(self, end: bool) -> str:
        """What is wrong with a window whose end, or else its start, is beyond the limits."""
        if pa.types.is_decimal(self.kind):
            return f"whose {'end' if end else 'start'} does not fit {type_name(self.kind)}"
        return "that ends after the year 9999" if end else "that begins before the year 1"

    def show(self, tick: int) -> str:
        """A tick as a reader writes it."""
        whole = -(-tick // self.factor)
        value: object = whole
        if pa.types.is_decimal(self.kind):
            return f"{decimal.Decimal(whole).scaleb(-self.kind.scale):f}"
        if pa.types.is_integer(self.kind):
            return str(whole)
        return format_value(value, self.kind)

    def show_punctuation(self, tick: int) -> str:
        """A punctuation as a reader writes it."""
        return "at its end" if tick == _HIGHEST else self.show(tick)

    def shown(self, batch: pa.RecordBatch) -> list[str]:
        """The attribute of each tuple as a reader writes it."""
        return format_array(batch.column(self.column))


class BorderDoesNotFit(Exception):
    """The border of a window that the type of the window attribute cannot hold."""

    def __init__(self, border: int, kind: pa.DataType) -> None:
        super().__init__(f"{border} is no {kind}")
        self.border = border
        self.kind = kind


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
class JudgedRun:
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
        The smallest and the largest tick, if they are known.
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


class WindowClock(Protocol):
    """Decides when the windows of an aggregate close."""

    grid: WindowGrid
    open: int
    """The first window that is open."""

    def program(self, instruction: AggregateRows) -> None: ...

    def settled(self) -> int:
        """The first window that is open under the program in force."""

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever the punctuation, and their ticks."""

    def judge(self, run: Run, glance: Glance | None = None) -> JudgedRun:
        """Judge every tuple, in order; ``glance`` gets all of them before that."""

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

    def judge(self, run: Run, glance: Glance | None = None) -> JudgedRun:
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
        return JudgedRun(run, ticks, times, first, closings, ended=ended)

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

    def judge(self, run: Run, glance: Glance | None = None) -> JudgedRun:
        """Nothing closes before the end."""
        times = None if self._time is None else _order_of(run, self._time.column)
        ticks = np.zeros(len(run), np.int64)
        ended = _end(run.controls)
        if ended is None:
            return JudgedRun(run, ticks, times, LOWEST)
        self.open = HIGHEST
        closings = Closings.one(ended, HIGHEST, len(run))
        return JudgedRun(run, ticks, times, LOWEST, closings, ended=ended)

    def save(self) -> dict[str, Any]:
        """Whether the end has come."""
        return {"open": self.open}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.open = saved["open"]


def _end(controls: Iterable[object]) -> int | None:
    return next((c.position for c in controls if isinstance(c, EndOfStream)), None)


def _order_of(run: Run, column: int) -> Indices:
    """Keys that order tuples by an attribute."""
    vector = vector_of(run.inputs[0].column(column))
    if pa.types.is_decimal(vector.type):
        return np.asarray(vector.values).astype(np.int64)  # it fits the clock, or is a dead letter
    return comparison_key(vector).astype(np.int64)


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
        cut = None if before is None else self._rescaled(before)
        self.grid = WindowGrid.of(window, cut)
        self._ends = self.grid.ends
        self._start = window.start
        limits = self.attribute.limits
        self._limits = None if limits is None else self.grid.fitting(*limits)
        self.punctuator.program(window)

    def _rescaled(self, before: Attribute) -> int:
        """Where panes are cut, in the ticks of the new clock."""
        assert self.attribute is not None
        ratio = Fraction(self.attribute.factor, before.factor)
        if ratio != 1:
            self.punctuator.rescale(ratio)
        return int(self.grid.cut * ratio)

    def settled(self) -> int:
        """The first window that is open under the program in force."""
        if self.punctuator.punctuation == LOWEST:
            return self.open
        return max(self.open, self.grid.closed(int(self.punctuator.punctuation)))

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever the punctuation, and their ticks."""
        run, ticks, _ = self._fitting(run)
        return run, ticks

    def judge(self, run: Run, glance: Glance | None = None) -> JudgedRun:
        """Judge every tuple, in order, and advance the punctuation."""
        assert self.attribute is not None
        run, ticks, letters = self._fitting(run)
        extents = glance(run, ticks) if glance is not None and len(run) else None
        opened, events = self.open, _Events(self.open)
        behind: list[Indices] = []
        before: list[Indices] = []
        done, ended = 0, None
        for control in (*run.controls, None):
            stop = len(run)
            if control is not None:
                stop = int(np.searchsorted(run.positions, control.position, side="right"))
            if stop > done:
                known = extents if stop - done == len(run) else None
                late, punctuations = self._take(ticks[done:stop], run, done, events, known)
                behind.append(late)
                before.append(punctuations)
            done = stop
            if isinstance(control, EndOfStream):
                self.punctuator.end()
                ended = control.position
                events.add([ended], [HIGHEST], [done])
            elif control is not None and control.column in (None, self.attribute.column):
                events.rise(control.position, self._punctuated(control), done)
        self.open = events.open
        rows = _joined(behind)
        letters += self._late(run, ticks, rows, _joined(before))
        extent = None if extents is None else (extents.low, extents.high)
        closings = events.closings()
        return JudgedRun(run, ticks, ticks, opened, closings, rows, letters, ended, extent)

    def follow(self, closings: Closings, highest: int) -> Closings:
        """Take tuples, none of them late, that were judged without an earlier punctuation.

        ``closings`` are the windows they close there, ``highest`` is their highest tick; returns
        the windows they close here, those that were open until then.
        """
        if self.punctuator.slack is None:
            closings = Closings()  # the punctuation does not follow them
        mine = np.flatnonzero(closings.windows > self.open)
        if len(mine):
            self.open = int(closings.windows[mine[-1]])
        self.punctuator.pass_by(highest)
        return Closings(closings.positions[mine], closings.windows[mine], closings.arrived[mine])

    def _take(
        self, ticks: Indices, run: Run, start: int, events: _Events, extents: Extents | None
    ) -> tuple[Indices, Indices]:
        """Let tuples close windows; the rows behind a closed one, and the punctuation before each.

        The tuples are those of the run from row ``start`` on.
        """
        slack = self.punctuator.slack
        if events.open == LOWEST and self.grid.first is not None and slack is not None:
            events.add(run.positions_of(np.array([start])), [self.grid.first], [start + 1])
        border = LOWEST
        if events.open > (LOWEST if self.grid.first is None else self.grid.first):
            border = max(LOWEST, self.grid.end(events.open - 1))
        seen = int(self.punctuator.seen)
        behind = None if slack is None else int(slack)
        found = survey(ticks, seen, border, behind, self._ends, extents)
        if len(found.closings):
            windows = (found.borders - self.grid.end(0)) // self.grid.slide + 1
            rows = start + found.closings
            events.add(run.positions_of(rows), windows, rows + 1)
        late: Indices = found.late
        if self.grid.size < self.grid.slide and len(late):
            late = late[self.grid.first_of(ticks[late]) <= self.grid.last_of(ticks[late])]
        if not len(late):
            self.punctuator.pass_by(found.high)
            return late, late
        return start + late, self.punctuator.advance(ticks)[late]

    def _fitting(self, run: Run) -> tuple[Run, Indices, tuple[Letters, ...]]:
        """The tuples for which there are windows, their ticks, and letters for the others.

        Those are before the first window there is, or in one with a border that cannot be shown.
        """
        assert self.attribute is not None
        ticks = self.attribute.ticks(run.inputs[0])
        if not len(ticks) or (self._start is None and self._limits is None):
            return run, ticks, ()
        start = LOWEST if self._start is None else self._start
        low, stop = self._limits or (start, HIGHEST)
        low = max(low, start)
        if low <= int(ticks.min()) and int(ticks.max()) < stop:
            return run, ticks, ()
        out = (ticks < low) | (ticks >= stop)
        # Where windows leave gaps, such a tuple may be in none.
        out &= (ticks < start) | (self.grid.first_of(ticks) <= self.grid.last_of(ticks))
        gone, inside = np.flatnonzero(out), np.flatnonzero(~out)
        batch = take(run.inputs[0], gone)
        whys = [self._why_not(tick) for tick in ticks[gone].tolist()]
        shown = zip(self.attribute.shown(batch), whys, strict=True)
        reasons = [f"{self.attribute.name} = {value} is {why}" for value, why in shown]
        letters = (Letters("dead", self._stream, batch, run.positions[gone], reasons),)
        run = Run((take(run.inputs[0], inside),), run.positions[inside], run.controls)
        return run, ticks[inside], letters if len(gone) else ()

    def _why_not(self, tick: int) -> str:
        """Why there are no windows for a tick."""
        assert self.attribute is not None
        if self._start is not None and tick < self._start:
            return f"before START AT {self.attribute.show(self._start)}"
        assert self._limits is not None
        return f"in a window {self.attribute.beyond(tick >= self._limits[1])}"

    def _punctuated(self, control: ColumnPunctuation) -> int:
        assert self.attribute is not None
        self.punctuator.from_source(self.attribute.tick(control.value))
        punctuation = int(self.punctuator.punctuation)
        return self.grid.closed(punctuation) if punctuation != LOWEST else LOWEST

    def _late(
        self, run: Run, ticks: Indices, behind: Indices, before: Indices
    ) -> tuple[Letters, ...]:
        """Of the tuples behind, those that missed a window: it ended before the punctuation.

        Since the size may have been changed, a window may be closed that has not ended.
        """
        assert self.attribute is not None
        attribute, grid = self.attribute, self.grid
        if not len(behind):
            return ()
        first, after = grid.first_of(ticks[behind]), grid.closed_by(before)
        missed = np.flatnonzero(first < after)
        if not len(missed):
            return ()
        rows = behind[missed]
        batch = take(run.inputs[0], rows)
        last = np.minimum(grid.last_of(ticks[rows]), after[missed] - 1)
        columns = (first[missed].tolist(), last.tolist(), before[missed].tolist())
        # Tuples are many, but the windows that they missed and the punctuations are few.
        missing = cache(self._missed)
        show = cache(attribute.show_punctuation)
        reasons = [
            f"{attribute.name} = {value} is before the punctuation {show(punctuation)}: it missed "
            f"{missing(low, high)}"
            for value, low, high, punctuation in zip(attribute.shown(batch), *columns, strict=True)
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
        """The punctuation, and which windows are closed."""
        known = self.punctuator
        return {
            "open": self.open,
            "cut": self.grid.cut,
            "seen": known.seen,
            "punctuation": known.punctuation,
            "has_source": known.has_source,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.open = saved["open"]
        self.grid = self.grid.with_cut(saved["cut"])
        self._ends = self.grid.ends
        self.punctuator.seen, self.punctuator.punctuation = saved["seen"], saved["punctuation"]
        self.punctuator.has_source = saved["has_source"]


class _Events:
    """The events of a run that close windows; ``open`` is the first window that is open by now."""

    def __init__(self, window: int) -> None:
        self.open = window
        self._columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def add(self, *columns: Any) -> None:
        """Add events: their positions, the first open window and the count of tuples after each."""
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
        return Closings(*map(_joined, self._columns))


def _joined(parts: list[Indices]) -> Indices:
    """Numbers of several arrays, or of none, one after another."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else NOTHING
