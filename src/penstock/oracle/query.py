"""Runs one query over its plan, one event at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from penstock.errors import InputError
from penstock.oracle.aggregate import QueryStopped, concat_rows
from penstock.oracle.count_windows import CountRun, JoinInput, ScanInput, WholeRun, every_column
from penstock.oracle.evaluate import Failures
from penstock.oracle.join import JoinRun, selected
from penstock.oracle.multiway import MultiwayRun
from penstock.oracle.order import Ordering
from penstock.oracle.order_by_at_end import OrderByAtEnd
from penstock.oracle.stream_state import StreamState
from penstock.oracle.time_windows import SlidingRun
from penstock.oracle.values import Row, Value, ticks_of
from penstock.sql.expressions import Column
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

Sources = dict[str, StreamState]

# The limit of integer ticks in both directions, so that no time plus a window overflows.
CLOCK_END = 2**62


class SelectRun:
    """A running selection and projection of a stream."""

    def __init__(self, select: Select, source: StreamState, failures: Failures) -> None:
        self.select = select
        self.source = source
        self.failures = failures

    @property
    def ended(self) -> bool:
        return self.source.ended

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event."""
        out: list[Row] = []
        for row in arrivals.get(self.source.key, []):
            out += selected(self.select.where, self.select.columns, (row,), self.failures)
        return out

    def change(self, select: Select) -> list[Row]:
        """Change the program."""
        self.select = select
        return []

    def output_punctuations(self) -> list[Value]:
        """The punctuation of each output that is just a column; None for other expressions."""
        names = self.source.stream.schema.names
        return [
            self.source.punctuation(names[column.expression.index])
            if isinstance(column.expression, Column)
            else None
            for column in self.select.columns
        ]


Branch = SelectRun | JoinRun | MultiwayRun | SlidingRun | CountRun | WholeRun


class QueryRun:
    """A running query: its rows, late tuples and dead letters, each with its position.

    ``reasons`` has the reason of each late tuple. ``failure`` is the error that stopped the query.
    """

    def __init__(self, name: str, plan: Plan, sources: Sources) -> None:
        self.name = name
        self.plan = plan
        self.sources = sources
        self.failures = Failures()
        self.failure: Exception | None = None
        self.rows: list[tuple[int, Row]] = []
        self.late: list[tuple[int, str, Row]] = []
        self.reasons: list[str] = []
        self.dead: list[tuple[int, str, str | Row, str]] = []
        self.order_by_at_end = OrderByAtEnd(plan) if OrderByAtEnd.is_for(plan) else None
        self.branches = [self._start(select) for select in self._selects]

    @property
    def _selects(self) -> tuple[Select, ...]:
        return self.plan.selects if self.order_by_at_end is None else self.order_by_at_end.selects

    @property
    def _ordering(self) -> Ordering:
        """The ORDER BY and LIMIT that aggregates apply to each window."""
        return Ordering() if self.order_by_at_end is not None else Ordering.of(self.plan)

    def _start(self, select: Select) -> Branch:
        source = select.source
        if isinstance(source, Scan):
            return SelectRun(select, self._source(source), self.failures)
        if isinstance(source, Join):
            return self._join(select, source)
        ordering = self._ordering
        if isinstance(source.window, Sliding | SlidingRows):
            assert isinstance(source.source, Scan)
            given = (select, self._source(source.source), ordering, self.failures)
            if isinstance(source.window, SlidingRows):
                return CountRun(*given)
            return SlidingRun(*given, self._late, self._dead)
        return WholeRun(select, self._input(source.source), ordering, self.failures)

    def _join(self, select: Select, join: Join) -> JoinRun | MultiwayRun:
        run = JoinRun if len(join.inputs) == 2 else MultiwayRun
        return run(select, tuple(map(self._source, join.inputs)), self.failures, self._late)

    def _input(self, source: Scan | Join) -> ScanInput | JoinInput:
        if isinstance(source, Scan):
            return ScanInput(self._source(source))
        return JoinInput(self._join(every_column(source), source))

    def _source(self, scan: Scan) -> StreamState:
        if scan.through is not None:
            raise InputError(
                f"the oracle does not know what {scan.through.block}() means: it is a block of "
                "your own",
                "Compare its rows with what you expect of it.",
            )
        return self.sources[scan.stream.name.lower()]

    def _late(self, position: int, stream: str, row: Row, reason: str) -> None:
        self.late.append((position, stream, row))
        self.reasons.append(reason)

    def _dead(self, position: int, stream: str, row: Row, reason: str) -> None:
        self.dead.append((position, stream, row, reason))

    @property
    def reads(self) -> set[str]:
        """The streams that the query reads directly, by key."""
        return {scan.stream.name.lower() for scan in self.plan.scans}

    @property
    def ended(self) -> bool:
        return all(branch.ended for branch in self.branches)

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event, those of earlier branches of a union first."""
        seen = {
            key: [row for row in rows if self._has_time(position, key, row)]
            for key, rows in arrivals.items()
            if key in self.reads
        }
        return self._give(position, (branch.step(position, seen) for branch in self.branches))

    def _give(self, position: int, parts: Iterable[list[Row]]) -> list[Row]:
        """Emit rows, or hold them until the end if their order is only known then."""
        try:
            out = concat_rows(parts)
        except QueryStopped as stopped:
            self.rows += [(position, row) for row in stopped.rows]
            raise
        if self.order_by_at_end is not None:
            out = self.order_by_at_end.take(out, self.ended, self.failures)
        self.rows += [(position, row) for row in out]
        return out

    def malformed(self, position: int, stream: str, text: str, reason: str) -> None:
        """Add a dead letter: a record that does not fit a stream that the query reads."""
        self.dead.append((position, stream, text, reason))

    def _has_time(self, position: int, key: str, row: Row) -> bool:
        """Whether the tuple has the time that the query needs; otherwise it is a dead letter."""
        for scan, time in _times(self.plan):
            if scan.stream.name.lower() != key:
                continue
            reason = _no_time(scan, time, row[time.column])
            if reason is not None:
                self.dead.append((position, scan.stream.name, row, reason))
                return False
        return True

    def change(self, position: int, plan: Plan) -> list[Row]:
        """Change the program from this position on; the windows stay."""
        self.plan = plan
        if self.order_by_at_end is not None:
            self.order_by_at_end.program(plan)
        return self._give(position, self._changed())

    def _changed(self) -> Iterator[list[Row]]:
        for branch, select in zip(self.branches, self._selects, strict=True):
            if isinstance(branch, SelectRun | JoinRun | MultiwayRun):
                yield branch.change(select)
            else:
                yield branch.change(select, self._ordering)

    def output_punctuations(self) -> list[Value]:
        """For each output column the smallest punctuation of all branches; None if one has none."""
        if self.order_by_at_end is not None:
            return [None for _ in self.plan.schema]
        branches = [
            [math.inf] * len(self.plan.schema) if branch.ended else branch.output_punctuations()
            for branch in self.branches
        ]
        smallest: list[Value] = []
        for column in zip(*branches, strict=True):
            least = None if None in column else min(column)
            smallest.append(None if least == math.inf else least)
        return smallest


def _times(plan: Plan) -> list[tuple[Scan, TimeAttribute]]:
    """The inputs whose time the query needs, with their time attributes."""
    found = [(scan, scan.time) for scan in plan.scans]
    for select in plan.selects:
        if isinstance(select.source, Aggregate) and isinstance(select.source.source, Scan):
            found.append((select.source.source, select.source.time))
    return [(scan, time) for scan, time in found if time is not None]


def _no_time(scan: Scan, time: TimeAttribute, value: Value) -> str | None:
    """Why a value is no valid time on the query's clock; None if it is valid."""
    if value is None:
        return f"NULL in time attribute {time.name}"
    if value != value:
        return f"NaN in time attribute {time.name}"
    if value in (math.inf, -math.inf):
        return f"{'-' if value < 0 else ''}Infinity in time attribute {time.name}"
    tick = ticks_of(value, scan.stream.schema.field(time.column).type, time.factor)
    if isinstance(time.factor, int) and not -CLOCK_END < tick < CLOCK_END:
        return f"{time.name} does not fit the query's clock"
    return None
