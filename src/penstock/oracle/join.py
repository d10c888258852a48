"""A two-way window join, one tuple at a time.

At every event, :meth:`JoinRun._expired` is evaluated for every stored tuple and
:meth:`JoinRun._live` for every pair. These two definitions alone decide which rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.stream_state import StreamState
from penstock.oracle.values import Row, Value, ticks_of
from penstock.sql.expressions import Column, Expression
from penstock.sql.plan import Join, Output, Scan, Select
from penstock.streams.windows import Range, Rows, Unbounded, Window

Ticks = Value

# The sides whose tuples are emitted when they expire unmatched.
PADDED = {"inner": (), "left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}


@dataclass
class Record:
    """A stored tuple: ``seq`` numbers the tuples of its side, ``matched``: ON has held for it."""

    position: int
    side: int
    seq: int
    row: Row
    time: Ticks
    matched: bool = False


@dataclass
class Side:
    """One input of a join: its stored tuples and its punctuations."""

    scan: Scan
    source: StreamState
    records: list[Record] = field(default_factory=list)
    count: int = 0
    latest: Ticks = None
    source_punctuation: Ticks = None
    own_punctuation: Ticks = None
    ended: bool = False

    @property
    def window(self) -> Window:
        return Unbounded() if self.scan.window is None else self.scan.window

    @property
    def punctuation(self) -> Ticks:
        """The punctuation in ticks: no further tuple is below it. None before the first one."""
        return later(self.source_punctuation, self.own_punctuation)

    def time_of(self, row: Row) -> Ticks:
        """The tuple's time in ticks, if the query needs it."""
        return None if self.scan.time is None else self.ticks(row[self.scan.time.column])

    def ticks(self, value: Value) -> Ticks:
        """A value of the time attribute on the query's clock."""
        assert self.scan.time is not None
        kind = self.scan.stream.schema.field(self.scan.time.column).type
        return ticks_of(value, kind, self.scan.time.factor)

    def value_at(self, ticks: Ticks) -> Value:
        """The value of the time attribute at a tick, perhaps between two values."""
        assert self.scan.time is not None
        one = self.ticks(1)
        return ticks / (one if isinstance(ticks, float) else Fraction(one))

    def reprogram(self, scan: Scan) -> None:
        """Change the window clause. If the clock's unit changes, all times are rescaled."""
        if self.scan.time is not None and scan.time is not None:
            old, new = self.scan.time.factor, scan.time.factor
            ratio: Value = new / old if isinstance(new, float) else Fraction(new, int(old))
            for record in self.records:
                record.time *= ratio
            self.latest, self.source_punctuation, self.own_punctuation = (
                None if ticks is None else ticks * ratio
                for ticks in (self.latest, self.source_punctuation, self.own_punctuation)
            )
        self.scan = scan

    def punctuate(self) -> None:
        """Run the window's own punctuator: the latest time seen, minus the slack.

        A window without SLACK has slack 0 until the source sends its first punctuation. A derived
        stream punctuates from the start (from -∞), so the window has no punctuator.
        """
        window = self.window
        if not isinstance(window, Range) or self.latest is None:
            return
        if window.slack is not None:
            self.own_punctuation = later(self.own_punctuation, self.latest - window.slack)
        elif self.source_punctuation is None and not self.source.derived:
            self.own_punctuation = later(self.own_punctuation, self.latest)

    def admit(
        self, position: int, number: int, row: Row, late: Callable[[int, str, Row, str], None]
    ) -> Record | None:
        """The record of an arriving tuple of input ``number``; None if it is late."""
        time = self.time_of(row)
        late_by = self.punctuation if isinstance(self.window, Range) else None
        self.latest = later(self.latest, time)
        if late_by is not None and time < late_by:
            attribute = self.scan.time.name if self.scan.time else ""
            reason = f"{attribute} = {time} is before the punctuation {late_by}"
            late(position, self.scan.stream.name, row, reason)
            return None
        self.punctuate()
        record = Record(position, number, self.count, row, time)
        self.count += 1
        return record

    def read_source(self) -> None:
        """Take over the source's punctuations and its end."""
        if self.scan.time is not None:
            punctuation = self.source.punctuation(self.scan.time.name)
            if punctuation is not None:
                self.source_punctuation = self.ticks(punctuation)
        self.ended = self.source.ended


def later(first: Ticks, second: Ticks) -> Ticks:
    """The larger of two punctuations; None is smaller than all."""
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)


def within(time: Ticks, stored: Ticks, window: Range) -> bool:
    """Whether a tuple of this time finds a tuple stored in the window."""
    end = stored + window.size
    return bool(time <= end if window.inclusive else time < end)


def is_past(punctuation: Ticks, stored: Ticks, window: Range) -> bool:
    """Whether all tuples from a punctuation on are too late for a tuple stored in the window."""
    end = stored + window.size
    return bool(punctuation > end if window.inclusive else punctuation >= end)


class JoinRun:
    """A running join with the WHERE and the select list above it.

    ``late`` is called for each late tuple with its position, stream, row and reason.
    """

    def __init__(
        self,
        select: Select,
        sources: tuple[StreamState, ...],
        failures: Failures,
        late: Callable[[int, str, Row, str], None],
    ) -> None:
        assert isinstance(select.source, Join)
        self.select = select
        self.join = select.source
        self.failures = failures
        self.late = late
        self.sides = (
            Side(self.join.inputs[0], sources[0]),
            Side(self.join.inputs[1], sources[1]),
        )
        for side in self.sides:
            side.read_source()

    @property
    def ended(self) -> bool:
        return all(side.source.ended for side in self.sides)

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event: of its tuples, left before right, then of its punctuations."""
        out: list[Row] = []
        for number, side in enumerate(self.sides):
            for row in arrivals.get(side.source.key, []):
                out += self._arrive(position, number, row)
        for side in self.sides:
            side.read_source()
        return out + self._expire()

    def change(self, select: Select) -> list[Row]:
        """Change the program; returns the rows of tuples that a smaller window expires."""
        assert isinstance(select.source, Join)
        self.select, self.join = select, select.source
        for side, scan in zip(self.sides, self.join.inputs, strict=True):
            side.reprogram(scan)
            side.punctuate()
        return self._expire()

    def output_punctuations(self) -> list[Value]:
        """For each output column its punctuation, or None."""
        return [self._output_punctuation(column) for column in self.select.columns]

    def _output_punctuation(self, column: Output) -> Value:
        reference = column.expression
        if not isinstance(reference, Column):
            return None
        side, other = self.sides[reference.side], self.sides[1 - reference.side]
        time, window = side.scan.time, side.window
        if time is None or time.column != reference.index or not isinstance(window, Range):
            return None
        # The end of a stream is a punctuation of infinity.
        here = math.inf if side.ended else side.punctuation
        there = math.inf if other.ended else other.punctuation
        if here is None or there is None:
            return None
        if window.inclusive and isinstance(there, float) and math.isfinite(there):
            # A sum of floats may be rounded up to the punctuation: the float below it is safe.
            there = math.nextafter(there, -math.inf)
        punctuation = min(here, there - window.size)
        if punctuation == math.inf:
            return None
        # On a clock that ticks between two values, round up to the later one.
        step = time.factor
        return side.value_at(
            punctuation if isinstance(step, float) else -(-punctuation // step) * step
        )

    def _arrive(self, position: int, number: int, row: Row) -> list[Row]:
        """Take a tuple: expire others, emit its pairs, and its own row if it expires at once."""
        side, other = self.sides[number], self.sides[1 - number]
        record = side.admit(position, number, row, self.late)
        if record is None:
            return []
        out = self._expire()
        for partner in list(other.records):
            if self._live(partner, record) and self._on(record, partner):
                out += self._matched(record, partner)
        side.records.append(record)
        return out + self._expire()

    def _live(self, stored: Record, probe: Record) -> bool:
        """Whether a stored tuple that has not expired may join one that arrives now."""
        side = self.sides[stored.side]
        window, probe_window = side.window, self.sides[probe.side].window
        if isinstance(window, Rows):
            return stored.seq >= side.count - window.size
        if isinstance(window, Unbounded):
            return True
        return within(probe.time, stored.time, window) and (
            probe.time >= stored.time
            or not isinstance(probe_window, Range)
            or within(stored.time, probe.time, probe_window)
        )

    def _expired(self, record: Record) -> bool:
        """Whether no further tuple can join a stored tuple."""
        side, other = self.sides[record.side], self.sides[1 - record.side]
        if other.ended:
            return True
        if isinstance(side.window, Rows):
            return record.seq < side.count - side.window.size
        if isinstance(side.window, Range) and other.punctuation is not None:
            return is_past(other.punctuation, record.time, side.window)
        return False

    def _expire(self) -> list[Row]:
        """Drop expired tuples, and emit the rows of the unmatched ones, oldest first."""
        expired = [r for side in self.sides for r in side.records if self._expired(r)]
        for side in self.sides:
            side.records = [record for record in side.records if not self._expired(record)]
        expired.sort(key=lambda record: (record.position, record.side, record.seq))
        out: list[Row] = []
        for record in expired:
            if not record.matched and record.side in PADDED[self.join.kind]:
                out += self._rows(record, None)
        return out

    def _on(self, probe: Record, stored: Record) -> bool:
        left, right = (probe, stored) if probe.side == 0 else (stored, probe)
        return evaluate(self.join.on, (left.row, right.row), self.failures) is True

    def _matched(self, probe: Record, stored: Record) -> list[Row]:
        """The rows of a pair for which ON holds."""
        left = probe if probe.side == 0 else stored
        first = not left.matched
        probe.matched = stored.matched = True
        if self.join.kind == "anti" or (self.join.kind == "semi" and not first):
            return []
        return self._rows(left, None) if self.join.kind == "semi" else self._rows(probe, stored)

    def _rows(self, one: Record, other: Record | None) -> list[Row]:
        """The row of a pair, or of a tuple padded with NULLs, if it passes WHERE."""
        sides = [tuple([None] * len(side.scan.stream.schema)) for side in self.sides]
        for record in (one, other):
            if record is not None:
                sides[record.side] = record.row
        return selected(self.select.where, self.select.columns, tuple(sides), self.failures)


def selected(
    where: Expression, columns: tuple[Output, ...], sides: tuple[Row, ...], failures: Failures
) -> list[Row]:
    """The select list on one row, if WHERE is true on it; else no row."""
    if evaluate(where, sides, failures) is not True:
        return []
    return [tuple(evaluate(column.expression, sides, failures) for column in columns)]
