"""Aggregates without a clock: over count windows, and over a whole bounded input."""

from __future__ import annotations

from itertools import islice
from typing import Protocol

from penstock.oracle.aggregate import Grouping, Record, concat_rows
from penstock.oracle.evaluate import Failures
from penstock.oracle.join import JoinRun
from penstock.oracle.multiway import MultiwayRun
from penstock.oracle.order import Ordering, Sides
from penstock.oracle.stream_state import StreamState
from penstock.oracle.values import Row, Value, ticks_of
from penstock.sql.expressions import TRUE, Column
from penstock.sql.plan import Aggregate, Join, Output, Scan, Select
from penstock.streams.windows import SlidingRows


class Input(Protocol):
    """The input of an aggregate or ORDER BY: tuples of a stream, or pairs of a join."""

    @property
    def ended(self) -> bool: ...

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Sides]:
        """The rows of one event, each with a row of every side."""


class ScanInput:
    """The tuples of a stream."""

    def __init__(self, source: StreamState) -> None:
        self.source = source

    @property
    def ended(self) -> bool:
        return self.source.ended

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Sides]:
        return [(row,) for row in arrivals.get(self.source.key, [])]


class JoinInput:
    """The rows of a join, before the select list."""

    def __init__(self, run: JoinRun | MultiwayRun) -> None:
        self.run = run

    @property
    def ended(self) -> bool:
        return self.run.ended

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Sides]:
        return [self._sides(row) for row in self.run.step(position, arrivals)]

    def change(self, join: Join) -> list[Sides]:
        """Change the program; returns the rows of tuples that a smaller window expires."""
        return [self._sides(row) for row in self.run.change(every_column(join))]

    def _sides(self, row: Row) -> Sides:
        return by_input(row, self.run.join)


def every_column(join: Join) -> Select:
    """A SELECT of all columns of all inputs of a join."""
    columns = [
        Output(field.name, Column(side, index, field.name, field.type))
        for side, scan in enumerate(join.inputs)
        for index, field in enumerate(scan.stream.schema)
    ]
    return Select(join, TRUE, tuple(columns))


def by_input(row: Row, join: Join) -> Sides:
    """A row of :func:`every_column`, as one row for each input."""
    rest = iter(row)
    return tuple(tuple(islice(rest, len(scan.stream.schema))) for scan in join.inputs)


class CountRun:
    """An aggregate over ``[ROWS w SLIDE d]``: every ``d`` tuples, over the last ``w`` of them."""

    def __init__(
        self, select: Select, source: StreamState, ordering: Ordering, failures: Failures
    ) -> None:
        self.source = source
        self.grouping = Grouping(select, ordering, failures)
        self.records: list[Record] = []
        self.count = 0

    @property
    def ended(self) -> bool:
        return self.source.ended

    @property
    def window(self) -> SlidingRows:
        window = self.grouping.aggregate.window
        assert isinstance(window, SlidingRows)
        return window

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event."""
        return concat_rows(self._arrive(row) for row in arrivals.get(self.source.key, []))

    def change(self, select: Select, ordering: Ordering) -> list[Row]:
        """Change the program; a smaller window drops at once the tuples it does not hold."""
        self.grouping.program(select, ordering, self.records)
        self._forget()
        return []

    def output_punctuations(self) -> list[Value]:
        return [None for _ in self.grouping.select.columns]

    def _arrive(self, row: Row) -> list[Row]:
        record = self.grouping.take((row,), self.count, time_of(self.grouping.aggregate, row))
        self.count += 1
        if record is not None:
            self.records.append(record)
        out: list[Row] = []
        if self.count % self.window.slide == 0:
            begin = max(0, self.count - self.window.size)
            inside = [record for record in self.records if record.number >= begin]
            shown = f"of the window [{begin}, {self.count}) "
            empty = self.grouping.aggregate.emit_empty
            out = self.grouping.rows(inside, (begin, self.count), shown, empty)
        self._forget()
        return out

    def _forget(self) -> None:
        """Drop the tuples that are too old for the next window, and so for all later ones."""
        following = (self.count // self.window.slide + 1) * self.window.slide
        oldest = following - self.window.size
        self.records = [record for record in self.records if record.number >= oldest]


class WholeRun:
    """An aggregate over the whole input, with the HAVING and the select list above it."""

    def __init__(
        self, select: Select, inputs: Input, ordering: Ordering, failures: Failures
    ) -> None:
        self.input = inputs
        self.grouping = Grouping(select, ordering, failures)
        self.records: list[Record] = []
        self.count = 0
        self.answered = False

    @property
    def ended(self) -> bool:
        return self.input.ended

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows, at the event that ends the input; nothing before."""
        self._take(self.input.step(position, arrivals))
        if not self.ended or self.answered:
            return []
        self.answered = True
        return self.grouping.rows(self.records, (), "", not self.grouping.aggregate.keys)

    def change(self, select: Select, ordering: Ordering) -> list[Row]:
        """Change the program."""
        self.grouping.program(select, ordering, self.records)
        source = self.grouping.aggregate.source
        if isinstance(self.input, JoinInput) and isinstance(source, Join):
            self._take(self.input.change(source))
        return []

    def output_punctuations(self) -> list[Value]:
        return [None for _ in self.grouping.select.columns]

    def _take(self, rows: list[Sides]) -> None:
        for sides in rows:
            time = time_of(self.grouping.aggregate, sides[0])
            record = self.grouping.take(sides, self.count, time)
            self.count += 1
            if record is not None:
                self.records.append(record)


def time_of(aggregate: Aggregate, row: Row) -> Value:
    """The time of a tuple, for FIRST and LAST; 0 if only arrival order matters."""
    time, scan = aggregate.time, aggregate.source
    if time is None or not isinstance(scan, Scan):
        return 0
    return ticks_of(row[time.column], scan.stream.schema.field(time.column).type, time.factor)
