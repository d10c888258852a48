"""Aggregates over time windows: which tuples are in a window, and when its rows are emitted.

A tuple of time ``t`` is in window ``k`` if ``start(k) <= t < end(k)`` and ``k`` was open when the
tuple arrived. Window ``k`` closes when a punctuation reaches its end. Every tuple is kept while a
window that it is in is open, and a window's rows are computed from the list of its tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from penstock.oracle.aggregate import Grouping, QueryStopped, Record, concat_rows
from penstock.oracle.arithmetic import EXACT
from penstock.oracle.evaluate import Failures
from penstock.oracle.join import Side, later
from penstock.oracle.order import Ordering
from penstock.oracle.stream_state import StreamState
from penstock.oracle.values import Row, Type, Value
from penstock.sql.expressions import Column
from penstock.sql.plan import Aggregate, Output, Scan, Select
from penstock.streams.literals import format_value
from penstock.streams.schema import type_name
from penstock.streams.windows import Range, Sliding
from penstock.tuning import TUNING

FIRST_DAY, END_OF_DAYS = -719_162, 2_932_897
"""0001-01-01 and 10000-01-01, in days from 1970-01-01."""

Letter = Callable[[int, str, Row, str], None]


class SlidingRun:
    """A running aggregate over time windows, with the HAVING and the select list above it.

    ``late`` and ``dead`` are called for each letter with its position, stream, tuple and reason.

    Attributes
    ----------
    closed
        The number of the last closed window, with or without tuples; None before the first
        punctuation.
    first, last
        The first and the last window that had a tuple of the stream while it was open.
    due
        The window whose rows come next. With EMIT EMPTY, an empty window between two others has a
        row, and only after it has closed may a later window with a tuple show it lies between.
    """

    def __init__(
        self,
        select: Select,
        source: StreamState,
        ordering: Ordering,
        failures: Failures,
        late: Letter,
        dead: Letter,
    ) -> None:
        self.grouping = Grouping(select, ordering, failures)
        self.late, self.dead = late, dead
        self.records: list[tuple[Record, int | None]] = []
        self.count = 0
        self.closed: int | None = None
        self.first: int | None = None
        self.last: int | None = None
        self.due: int | None = None
        self.side = Side(_timed_scan(select), source)
        self.side.read_source()
        self._close()

    @property
    def ended(self) -> bool:
        return self.side.source.ended

    @property
    def window(self) -> Sliding:
        window = self.grouping.aggregate.window
        assert isinstance(window, Sliding)
        return window

    @property
    def punctuation(self) -> int | None:
        """The last tick that the punctuation has reached: no further tuple is before it."""
        punctuation = self.side.punctuation
        return None if punctuation is None else math.floor(punctuation)

    def start(self, window: int) -> int:
        return (self.window.start or 0) + window * self.window.slide

    def end(self, window: int) -> int:
        return self.start(window) + self.window.size

    def windows_at(self, tick: int) -> range:
        """The windows that a tuple of this time is in, open or not."""
        origin, slide = self.window.start or 0, self.window.slide
        first, last = (tick - origin - self.window.size) // slide + 1, (tick - origin) // slide
        return range(first if self.window.start is None else max(first, 0), last + 1)

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event: of its tuples first, then of its punctuations."""
        return concat_rows(self._parts(position, arrivals))

    def _parts(self, position: int, arrivals: dict[str, list[Row]]) -> Iterator[list[Row]]:
        for row in arrivals.get(self.side.source.key, []):
            yield self._arrive(position, row)
        self.side.read_source()
        yield self._close()

    def change(self, select: Select, ordering: Ordering) -> list[Row]:
        """Change the program; returns the rows of windows that close because they got smaller."""
        self.grouping.program(select, ordering, [record for record, _ in self.records])
        self.side.reprogram(_timed_scan(select))
        self.side.punctuate()
        return self._close()

    def output_punctuations(self) -> list[Value]:
        """For each output column its punctuation, or None."""
        return [self._output_punctuation(column) for column in self.grouping.select.columns]

    def _output_punctuation(self, column: Output) -> Value:
        reference = column.expression
        columns = len(self.grouping.aggregate.schema)
        if not isinstance(reference, Column) or reference.index < columns - 2:
            return None
        if self.closed is None:
            return None
        following = self.closed + 1
        if self.window.start is not None:
            following = max(following, 0)
        if self.grouping.aggregate.emit_empty and self.last is not None:
            # If another tuple comes, the windows after ``last`` lie between and get rows.
            following = min(following, self.last + 1)
        tick = self.start(following) if reference.index == columns - 2 else self.end(following)
        return self.side.value_at(tick)

    def _last_window_ending_by(self, punctuation: int) -> int:
        """The number of the last window that ends at this tick or before."""
        return (punctuation - (self.window.start or 0) - self.window.size) // self.window.slide

    def _arrive(self, position: int, row: Row) -> list[Row]:
        """Take a tuple: count it in its open windows, then close those that its time closes."""
        tick = self.side.time_of(row)
        if self.window.start is not None and tick < self.window.start:
            start = self._shown(self.window.start)
            reason = f"{self._time_is(tick)} is before START AT {start}"
            self.dead(position, self.side.scan.stream.name, row, reason)
            return []
        windows = self.windows_at(tick)
        unfit = self._unfit(windows)
        if unfit is not None:
            reason = f"{self._time_is(tick)} is in a window {unfit}"
            self.dead(position, self.side.scan.stream.name, row, reason)
            return []
        missed = [
            k for k in windows if self.punctuation is not None and self.end(k) <= self.punctuation
        ]
        if missed:
            reason = f"{self._time_is(tick)} is before {self._missed(missed)}"
            self.late(position, self.side.scan.stream.name, row, reason)
        still_open = [k for k in windows if self.closed is None or k > self.closed]
        if still_open:
            self.first = still_open[0] if self.first is None else min(self.first, still_open[0])
            self.last = still_open[-1] if self.last is None else max(self.last, still_open[-1])
            record = self.grouping.take((row,), self.count, tick)
            if record is not None:
                self.records.append((record, self.closed))
        self.count += 1
        self.side.latest = later(self.side.latest, tick)
        self.side.punctuate()
        return self._close()

    def _unfit(self, windows: range) -> str | None:
        """What is wrong with borders outside the years 1 to 9999 or the digits of a decimal."""
        kind: Type = self.grouping.aggregate.schema.types[-1]
        if windows and pa.types.is_decimal(kind):
            end = 10**kind.precision
            if self.end(windows[-1]) >= end:
                return f"whose end does not fit {type_name(kind)}"
            begins = self.start(windows[0])
            return f"whose start does not fit {type_name(kind)}" if begins <= -end else None
        if not windows or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return None
        units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
        per_day = 1 if pa.types.is_date(kind) else 86_400 * units[kind.unit]
        first, end = (days * per_day for days in (FIRST_DAY, END_OF_DAYS))
        if self.end(windows[-1]) >= end:
            return "that ends after the year 9999"
        return "that begins before the year 1" if self.start(windows[0]) < first else None

    def _close(self) -> list[Row]:
        """Close the windows that the punctuation has passed, and emit their rows, oldest first."""
        if self.side.ended:
            self.closed = later(self.closed, self.last)
        elif self.punctuation is not None:
            self.closed = later(self.closed, self._last_window_ending_by(self.punctuation))
        out = concat_rows(self._rows(window) for window in self._closed_windows())
        if self.closed is not None and self.last is not None:
            self.due = later(self.due, min(self.closed, self.last) + 1)
        self.records = [
            (record, since)
            for record, since in self.records
            if any(self.closed is None or k > self.closed for k in self.windows_at(record.time))
        ]
        return out

    def _closed_windows(self) -> list[int]:
        """The closed windows that may have rows to emit."""
        if self.closed is None or self.first is None or self.last is None:
            return []
        if self.grouping.aggregate.emit_empty:
            begin = self.first if self.due is None else max(self.first, self.due)
            return self._not_too_many(range(begin, min(self.closed, self.last) + 1))
        with_tuples = {k for record, _ in self.records for k in self.windows_at(record.time)}
        return sorted(
            k for k in with_tuples if k <= self.closed and (self.due is None or k >= self.due)
        )

    def _not_too_many(self, windows: range) -> list[int]:
        if len(windows) <= TUNING.most_empty_windows:
            return list(windows)
        first, last = self._window_shown(windows[0]), self._window_shown(windows[-1])
        raise QueryStopped(
            f"EMIT EMPTY would bring out {len(windows)} windows at once, {first} to {last}; no "
            f"more than {TUNING.most_empty_windows} are",
            "Leave EMIT EMPTY out, write a longer SLIDE, or keep tuples that are far ahead of the "
            "others out of the stream: derive one with a WHERE.",
        )

    def _rows(self, window: int) -> list[Row]:
        inside = [
            record
            for record, closed_before in self.records
            if self.start(window) <= record.time < self.end(window)
            and (closed_before is None or window > closed_before)
        ]
        borders = (self._border(self.start(window)), self._border(self.end(window)))
        shown = f"of the window {self._window_shown(window)} "
        return self.grouping.rows(inside, borders, shown, self.grouping.aggregate.emit_empty)

    def _border(self, tick: int) -> Value:
        """A tick as a value of the time attribute, which has the clock's units."""
        kind: Type = self.grouping.aggregate.schema.types[-1]
        return Decimal(tick).scaleb(-kind.scale, EXACT) if pa.types.is_decimal(kind) else tick

    def _shown(self, tick: int) -> str:
        return format_value(self._border(tick), self.grouping.aggregate.schema.types[-1])

    def _time_is(self, tick: int) -> str:
        assert self.side.scan.time is not None
        return f"{self.side.scan.time.name} = {self._shown(tick)}"

    def _window_shown(self, window: int) -> str:
        return f"[{self._shown(self.start(window))}, {self._shown(self.end(window))})"

    def _missed(self, windows: list[int]) -> str:
        assert self.punctuation is not None
        first, last = self._window_shown(windows[0]), self._window_shown(windows[-1])
        many = f"{len(windows)} windows, {first} to {last}"
        which = f"the window {first}" if len(windows) == 1 else many
        return f"the punctuation {self._shown(self.punctuation)}: it missed {which}"


def _timed_scan(select: Select) -> Scan:
    """The scan with a RANGE window of the same slack, for :class:`Side` to punctuate."""
    aggregate = select.source
    assert isinstance(aggregate, Aggregate)
    assert isinstance(aggregate.source, Scan) and isinstance(aggregate.window, Sliding)
    window = Range(aggregate.window.size, aggregate.window.slack)
    return replace(aggregate.source, window=window, time=aggregate.time)
