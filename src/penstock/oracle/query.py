"""One query, run one event at a time over its plan."""

from __future__ import annotations

import math

from penstock.errors import PenstockError
from penstock.oracle.evaluate import Failures
from penstock.oracle.join import JoinRun, selected
from penstock.oracle.source import Source
from penstock.oracle.values import Row, Value, ticks_of
from penstock.sql.expressions import Column
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.streams.windows import TimeAttribute

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


class QueryRun:
    """A query, running: its rows, late tuples and dead letters, each with its position."""

    def __init__(self, name: str, plan: Plan, sources: Sources) -> None:
        self.name = name
        self.plan = plan
        self.sources = sources
        self.failures = Failures()
        self.rows: list[tuple[int, Row]] = []
        self.late: list[tuple[int, str, Row]] = []
        self.dead: list[tuple[int, str, str | Row, str]] = []
        self.branches = [self._start(select) for select in plan.selects]

    def _start(self, select: Select) -> SelectRun | JoinRun:
        if isinstance(select.source, Scan):
            return SelectRun(select, self._source(select.source), self.failures)
        assert isinstance(select.source, Join)
        inputs = (self._source(select.source.left), self._source(select.source.right))
        return JoinRun(select, inputs, self.failures, self._late)

    def _source(self, scan: Scan) -> Source:
        return self.sources[scan.stream.name.lower()]

    def _late(self, position: int, stream: str, row: Row, reason: str) -> None:
        self.late.append((position, stream, row))

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
        out = [row for branch in self.branches for row in branch.step(position, seen)]
        self.rows += [(position, row) for row in out]
        return out

    def malformed(self, position: int, stream: str, text: str, reason: str) -> None:
        """Note a record that is no tuple of a stream it reads."""
        self.dead.append((position, stream, text, reason))

    def _has_time(self, position: int, key: str, row: Row) -> bool:
        """Whether the query sees the tuple: without a time that it needs, it is a dead letter."""
        for scan in self.plan.scans:
            if scan.time is None or scan.stream.name.lower() != key:
                continue
            reason = _no_time(scan, scan.time, row[scan.time.column])
            if reason is not None:
                self.dead.append((position, scan.stream.name, row, reason))
                return False
        return True

    def change(self, position: int, plan: Plan) -> list[Row]:
        """Another program from this position on, with the windows kept."""
        self.plan = plan
        changes = zip(self.branches, plan.selects, strict=True)
        out = [row for branch, select in changes for row in branch.change(select)]
        self.rows += [(position, row) for row in out]
        return out

    def promises(self) -> list[Value]:
        """For each output column the smallest promise of all branches; None if one has none."""
        branches = [
            [math.inf] * len(self.plan.schema) if branch.ended else branch.promises()
            for branch in self.branches
        ]
        smallest: list[Value] = []
        for column in zip(*branches, strict=True):
            least = None if None in column else min(column)
            smallest.append(None if least == math.inf else least)
        return smallest


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


def check_change(name: str, old: Plan, new: Plan) -> None:
    """Refuse what a change cannot be: other streams, another kind of join, window or time."""
    if _shape(old) != _shape(new):
        raise PenstockError(
            f"query {name!r} cannot be changed to other streams, another kind of join, or another "
            "kind of window or time attribute",
            "Install it as a new query and drop this one.",
        )


def _shape(plan: Plan) -> list[object]:
    """What of a plan no change may touch."""
    shape: list[object] = []
    for select in plan.selects:
        source = select.source
        assert not isinstance(source, Aggregate)
        shape.append(source.kind if isinstance(source, Join) else "select")
        for scan in (source.left, source.right) if isinstance(source, Join) else (source,):
            shape.append(scan.stream.name.lower())
            if isinstance(source, Join):
                shape.append((type(scan.window), scan.time and scan.time.column))
    return shape
