"""The bound query: what is asked, before anything is decided about how to answer it.

The oracle runs exactly this. Engines run a program that ``penstock.program`` makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sql.expressions import TRUE, Expression
from penstock.streams.schema import Stream
from penstock.streams.windows import AggregateWindow, Sliding, TimeAttribute, Window


@dataclass(frozen=True)
class Scan:
    """A stream as named in FROM, with its window clause.

    ``window`` is None where the clause is missing and none is needed (no join). ``time`` is set
    when the query needs the tuple's time: when it or the other side of its join has a Range.
    """

    stream: Stream
    alias: str
    window: Window | None = None
    time: TimeAttribute | None = None


@dataclass(frozen=True)
class Join:
    """A two-way window join. ``kind``: inner, left, right, full, semi, anti (of the left side).

    ``on`` is a bool expression over sides 0 and 1. ``float_clock``: ticks are floats, not ints.

    The rest is filled in by the rewrite rules and means the same as ``on`` taken together:
    ``filters`` (what one side alone must satisfy to find partners at all), ``compiled`` (what a
    kernel evaluates) and ``residual`` (what is evaluated on the pairs that are left).
    ``columns`` are the columns of each side that anything after the join reads; expressions after
    the join count in them. None: all.
    """

    kind: str
    left: Scan
    right: Scan
    on: Expression
    float_clock: bool = False
    filters: tuple[Expression, Expression] = (TRUE, TRUE)
    compiled: Expression = TRUE
    residual: Expression = TRUE
    columns: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def border_type(kind: pa.DataType) -> pa.DataType:
    """The type of a window's borders, by that of its attribute.

    A border lies up to a window's length off any value: below 0 for an unsigned attribute, beyond
    the largest of a short one. So integers give int64, and decimals have 18 digits.

    >>> border_type(pa.uint8()), border_type(pa.decimal128(5, 2)), border_type(pa.timestamp("s"))
    (DataType(int64), Decimal128Type(decimal128(18, 2)), TimestampType(timestamp[s]))
    """
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.decimal128(18, kind.scale) if pa.types.is_decimal(kind) else kind


@dataclass(frozen=True)
class Call:
    """An aggregate of the rows of one group: ``name(argument) FILTER (WHERE condition)``.

    ``name`` is one of count, sum, avg, min, max, var_pop, var_samp, stddev_pop, stddev_samp, first,
    last. ``argument`` None is ``COUNT(*)``. ``distinct`` is for count alone.
    """

    name: str
    argument: Expression | None
    type: pa.DataType
    distinct: bool = False
    condition: Expression = TRUE

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        distinct = "DISTINCT " if self.distinct else ""
        kept = "" if self.condition == TRUE else f" FILTER (WHERE {self.condition})"
        return f"{self.name.upper()}({distinct}{inner}){kept}"


@dataclass(frozen=True)
class Aggregate:
    """The rows of a source for which ``where`` is true, by window and by group.

    ``window`` is None where the input is bounded and answered at its end. ``time`` is the window
    attribute of a :class:`Sliding`; a count window may have one too, for FIRST and LAST.

    Its columns are those of :attr:`schema`: the keys, the calls, and of a window where it begins
    and where it ends (of a count window, in tuples of the stream). A group is one row for a window
    in which it has a tuple; windows come oldest first, the groups of one by their keys, ascending,
    NULL first. Without keys a window in which nothing passed has no row unless ``emit_empty``; the
    whole of a bounded input has one always.
    """

    source: Scan | Join
    where: Expression
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    window: AggregateWindow | None
    time: TimeAttribute | None = None
    emit_empty: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        fields = [pa.field(key.name, key.type) for key in self.keys]
        fields += [pa.field(str(call), call.type) for call in self.calls]
        if self.window is not None:
            kind: pa.DataType = pa.int64()
            if isinstance(self.window, Sliding) and self.time is not None:
                assert isinstance(self.source, Scan)
                kind = border_type(self.source.stream.schema.field(self.time.column).type)
            fields += [pa.field("window_start", kind), pa.field("window_end", kind)]
        return pa.schema(fields)

    @property
    def window_column(self) -> int:
        """The column that tells windows apart: where they end. Count windows may begin alike."""
        assert self.window is not None
        return len(self.keys) + len(self.calls) + 1


@dataclass(frozen=True)
class SortKey:
    """A key of ORDER BY. NaN is the largest number.

    The expression is over what the select list is over (after a union: over its columns).
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        text = f"{self.expression}{' descending' if self.descending else ''}"
        if self.nulls_first == self.descending:  # not what it is by default
            text += f" NULL {'first' if self.nulls_first else 'last'}"
        return text


@dataclass(frozen=True)
class Output:
    """A column of the select list."""

    name: str
    expression: Expression

    @property
    def type(self) -> pa.DataType:
        return self.expression.type


@dataclass(frozen=True)
class Select:
    """``SELECT columns FROM source WHERE where``; over an aggregate, ``where`` is HAVING.

    Over a join, columns of the left stream are on side 0 and of the right one on side 1 (semi and
    anti joins have side 0 alone); over a scan or an aggregate everything is on side 0.

    ``kept`` is filled in by a rewrite rule: the columns of a scan that the select list reads, and
    counts in. None: all.
    """

    source: Scan | Join | Aggregate
    where: Expression
    columns: tuple[Output, ...]
    kept: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Union:
    """``UNION ALL``: at one position, rows of an earlier branch come first."""

    branches: tuple[Select, ...]


@dataclass(frozen=True)
class Plan:
    """A whole query. ``order`` is none, outer or inner; ``precision`` as in ``EMIT ORDER``.

    ``sort`` and ``limit`` (ORDER BY, LIMIT) apply to the rows of each window where the body is a
    windowed aggregate, else to all rows of a bounded input, at its end.
    """

    body: Select | Union
    text: str
    order: str = "none"
    precision: int = 1
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None

    @property
    def selects(self) -> tuple[Select, ...]:
        return self.body.branches if isinstance(self.body, Union) else (self.body,)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The inputs, in the order of the query's text."""
        found: list[Scan] = []
        for select in self.selects:
            source = select.source
            if isinstance(source, Aggregate):
                source = source.source
            found.extend((source,) if isinstance(source, Scan) else (source.left, source.right))
        return tuple(found)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result; names may repeat."""
        return pa.schema([pa.field(c.name, c.type) for c in self.selects[0].columns])
