"""Instructions for blocks: a query's program is a list of these.

Each is addressed to a block by number. Installing a query and changing it send the same
instructions; there is no other way to configure a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sql.expressions import TRUE, Expression
from penstock.sql.plan import Call, Output, SortKey
from penstock.streams.schema import Stream
from penstock.streams.windows import AggregateWindow, TimeAttribute, Window, as_written

SIDES = ("left", "right")


@dataclass(frozen=True)
class ScanStream:
    """Read a stream as named in FROM."""

    block: int
    stream: Stream

    def __str__(self) -> str:
        return f"#{self.block} scan {self.stream.name}"


@dataclass(frozen=True)
class SetWindow:
    """Give one side of a join block its window."""

    block: int
    side: int
    window: Window
    time: TimeAttribute | None

    def __str__(self) -> str:
        by = f", time {self.time.name}" if self.time else ""
        return f"#{self.block} window {SIDES[self.side]} {as_written(self.window)}{by}"


@dataclass(frozen=True)
class JoinStreams:
    """Join two inputs. The fields are those of :class:`penstock.sql.plan.Join`."""

    block: int
    inputs: tuple[int, int]
    schemas: tuple[pa.Schema, pa.Schema]
    kind: str
    filters: tuple[Expression, Expression]
    compiled: Expression
    residual: Expression
    columns: tuple[tuple[int, ...], tuple[int, ...]]
    float_clock: bool
    kernel: str
    reason: str
    kernel_is_forced: bool = False

    def __str__(self) -> str:
        lines = [f"#{self.block} join {self.kind} of #{self.inputs[0]} and #{self.inputs[1]}"]
        for name, condition in (
            (f"filter {SIDES[0]}", self.filters[0]),
            (f"filter {SIDES[1]}", self.filters[1]),
            ("compiled", self.compiled),
            ("residual", self.residual),
        ):
            if condition != TRUE:
                lines.append(f"     {name}: {condition}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SelectRows:
    """Keep the rows for which the condition is true.

    ``columns`` are those that anything after it reads, None for all; expressions after it count in
    them.
    """

    block: int
    input: int
    condition: Expression
    columns: tuple[int, ...] | None = None

    def __str__(self) -> str:
        every = self.condition == TRUE
        return (
            f"#{self.block} select from #{self.input}: {'every row' if every else self.condition}"
        )


@dataclass(frozen=True)
class ProjectColumns:
    """Compute the select list."""

    block: int
    input: int
    columns: tuple[Output, ...]

    def __str__(self) -> str:
        columns = ", ".join(f"{c.expression} AS {c.name}" for c in self.columns)
        return f"#{self.block} project #{self.input}: {columns}"


@dataclass(frozen=True)
class UnionRows:
    """Put the rows of several inputs into one, by position and then by input."""

    block: int
    inputs: tuple[int, ...]

    def __str__(self) -> str:
        return f"#{self.block} union of {', '.join(f'#{i}' for i in self.inputs)}"


@dataclass(frozen=True)
class AggregateRows:
    """Aggregate the rows of an input, by window and by group.

    The fields are those of :class:`penstock.sql.plan.Aggregate`; ``where`` is evaluated here, since
    the block's punctuator sees every tuple. ``schema`` is that of the result. ``kernel`` is
    ``panes`` or ``wid``.

    ``groups`` are the keys' expressions, and ``counted`` the calls, over the whole tuples of the
    streams. A join hands on the columns that are read, so that after a change the same call may
    read another column of its input; what tells that it is the same is that its ``counted`` is.
    """

    block: int
    input: int
    where: Expression
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    window: AggregateWindow | None
    time: TimeAttribute | None
    emit_empty: bool
    schema: pa.Schema
    kernel: str
    reason: str
    groups: tuple[Expression, ...] = ()
    counted: tuple[Call, ...] = ()

    def __str__(self) -> str:
        calls = ", ".join(map(str, self.calls)) or "groups"
        lines = [f"#{self.block} aggregate #{self.input}: {calls}"]
        if self.keys:
            lines.append(f"     group by: {', '.join(str(key.expression) for key in self.keys)}")
        if self.where != TRUE:
            lines.append(f"     where: {self.where}")
        if self.window is not None:
            by = f", time {self.time.name}" if self.time else ""
            lines.append(f"     window: {as_written(self.window)}{by}")
        return "\n".join(lines)


@dataclass(frozen=True)
class OrderRows:
    """Sort and cut the rows of each window of an aggregate, or all rows once the input has ended.

    It stands before the projection (of a union: after it). ``window_column`` is the input's column
    that tells windows apart; None: at the end.
    """

    block: int
    input: int
    sort: tuple[SortKey, ...]
    limit: int | None
    window_column: int | None

    def __str__(self) -> str:
        keys = ", ".join(map(str, self.sort))
        cut = "" if self.limit is None else f", the first {self.limit}"
        return f"#{self.block} order #{self.input}: {keys or 'as they come'}{cut}"


BlockInstruction = (
    ScanStream
    | SetWindow
    | JoinStreams
    | AggregateRows
    | SelectRows
    | ProjectColumns
    | UnionRows
    | OrderRows
)


@dataclass(frozen=True)
class Program:
    """A query as instructions, in an order in which every input comes before what reads it."""

    instructions: tuple[BlockInstruction, ...]
    schema: pa.Schema
    text: str
    order: str
    precision: int

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))

    @property
    def joins(self) -> tuple[JoinStreams, ...]:
        return tuple(i for i in self.instructions if isinstance(i, JoinStreams))

    @property
    def aggregates(self) -> tuple[AggregateRows, ...]:
        return tuple(i for i in self.instructions if isinstance(i, AggregateRows))

    @property
    def scans(self) -> tuple[ScanStream, ...]:
        return tuple(i for i in self.instructions if isinstance(i, ScanStream))
