"""One query, run one event at a time over its plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from penstock.oracle.aggregate import Stopped, gathered
from penstock.oracle.counted import CountRun, JoinInput, ScanInput, WholeRun, every_column
from penstock.oracle.evaluate import Failures
from penstock.oracle.held import Held
from penstock.oracle.join import JoinRun, selected
from penstock.oracle.order import Ordering
from penstock.oracle.sliding import SlidingRun
from penstock.oracle.source import Source
from penstock.oracle.values import Row, Value, ticks_of
from penstock.sql.expressions import Column
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

Sources = dict[str, Source]

# A clock of integers shows less than this either way, so that no time plus a window overflows.
CLOCK_END = 2**62


class SelectRun:
    """Selection and projection of a stream, running."""

    def __init__(self, select: Select, source: Source, failures: Failures) -> None:
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
        """Another program from here on."""
        self.select = select
        return []

    def promises(self) -> list[Value]:
        """What is promised of a column is promised of an output that is nothing but that column."""
        names = self.source.stream.schema.names
        return [
            self.source.promise(names[column.expression.index])
            if isinstance(column.expression, Column)
            else None
            for column in self.select.columns
        ]


Branch = SelectRun | JoinRun | SlidingRun | CountRun | WholeRun


class QueryRun:
    """A query, running: its rows, late tuples and dead letters, each with its position.

    ``reasons`` says of each late tuple why it is. ``failure`` is what has stopped the query.
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
        self.held = Held(plan) if Held.is_for(plan) else None
        self.branches = [self._start(select) for select in self._selects]

    @property
    def _selects(self) -> tuple[Select, ...]:
        return self.plan.selects if self.held is None else self.held.selects

    @property
    def _ordering(self) -> Ordering:
        """What is left to the aggregates to put in order."""
        return Ordering() if self.held is not None else Ordering.of(self.plan)

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

    def _join(self, select: Select, join: Join) -> JoinRun:
        inputs = (self._source(join.left), self._source(join.right))
        return JoinRun(select, inputs, self.failures, self._late)

    def _input(self, source: Scan | Join) -> ScanInput | JoinInput:
        if isinstance(source, Scan):
            return ScanInput(self._source(source))
        return JoinInput(self._join(every_column(source), source))

    def _source(self, scan: Scan) -> Source:
        return self.sources[scan.stream.name.lower()]

    def _late(self, position: int, stream: str, row: Row, reason: str) -> None:
        self.late.append((position, stream, row))
        self.reasons.append(reason)

    def _dead(self, position: int, stream: str, row: Row, reason: str) -> None:
        self.dead.append((position, stream, row, reason))

    @property
    def reads(self) -> set[str]:
        """The streams it reads itself, by key."""
        return {scan.stream.name.lower() for scan in self.plan.scans}

    @property
    def ended(self) -> bool:
        return all(branch.ended for branch in self.branches)

    def step(self, position: int, arrivals: dict[str, list[Row]]) -> list[Row]:
        """The rows of one event, those of an earlier branch of a union first."""
        seen = {
            key: [row for row in rows if self._has_time(position, key, row)]
            for key, rows in arrivals.items()
            if key in self.reads
        }
        return self._give(position, (branch.step(position, seen) for branch in self.branches))

    def _give(self, position: int, parts: Iterable[list[Row]]) -> list[Row]:
        """Give rows, or hold them until the end if only then their order is known."""
        try:
            out = gathered(parts)
        except Stopped as stopped:
            self.rows += [(position, row) for row in stopped.rows]
            raise
        if self.held is not None:
            out = self.held.take(out, self.ended, self.failures)
        self.rows += [(position, row) for row in out]
        return out

    def malformed(self, position: int, stream: str, text: str, reason: str) -> None:
        """Note a record that is no tuple of a stream it reads."""
        self.dead.append((position, stream, text, reason))

    def _has_time(self, position: int, key: str, row: Row) -> bool:
        """Whether the query sees the tuple: without a time that it needs, it is a dead letter."""
        for scan, time in _times(self.plan):
            if scan.stream.name.lower() != key:
                continue
            reason = _no_time(scan, time, row[time.column])
            if reason is not None:
                self.dead.append((position, scan.stream.name, row, reason))
                return False
        return True

    def change(self, position: int, plan: Plan) -> list[Row]:
        """Another program from this position on, with the windows kept."""
        self.plan = plan
        if self.held is not None:
            self.held.program(plan)
        return self._give(position, self._changed())

    def _changed(self) -> Iterator[list[Row]]:
        for branch, select in zip(self.branches, self._selects, strict=True):
            if isinstance(branch, SelectRun | JoinRun):
                yield branch.change(select)
            else:
                yield branch.change(select, self._ordering)

    def promises(self) -> list[Value]:
        """For each output column the smallest promise of all branches; None if one has none."""
        if self.held is not None:
            return [None for _ in self.plan.schema]
        branches = [
            [math.inf] * len(self.plan.schema) if branch.ended else branch.promises()
            for branch in self.branches
        ]
        smallest: list[Value] = []
        for column in zip(*branches, strict=True):
            least = None if None in column else min(column)
            smallest.append(None if least == math.inf else least)
        return smallest


def _times(plan: Plan) -> list[tuple[Scan, TimeAttribute]]:
    """The inputs whose time the query needs, with where it is."""
    found = [(scan, scan.time) for scan in plan.scans]
    for select in plan.selects:
        if isinstance(select.source, Aggregate) and isinstance(select.source.source, Scan):
            found.append((select.source.source, select.source.time))
    return [(scan, time) for scan, time in found if time is not None]


def _no_time(scan: Scan, time: TimeAttribute, value: Value) -> str | None:
    """Why a value is no time on the query's clock; None if it is one."""
    if value is None:
        return f"NULL in time attribute {time.name}"
    if value != value:
        return f"NaN in time attribute {time.name}"
    tick = ticks_of(value, scan.stream.schema.field(time.column).type, time.factor)
    if isinstance(time.factor, int) and not -CLOCK_END < tick < CLOCK_END:
        return f"{time.name} does not fit the query's clock"
    return None
