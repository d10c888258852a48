"""The bound query: what it computes, before any decision on how.

The oracle runs exactly this. Engines run the program that ``penstock.program`` compiles from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.sql.aggregates import AGGREGATES
from penstock.sql.expressions import TRUE, Expression
from penstock.streams.display import one_line
from penstock.streams.schema import Stream
from penstock.streams.windows import AggregateWindow, Sliding, TimeAttribute, Window

JOIN_KINDS = ("inner", "left", "right", "full", "semi", "anti")
ORDERS = ("none", "outer", "inner")
"""The values of EMIT ORDER."""


@dataclass(frozen=True)
class Argument:
    """An argument of a block of the user's own: a column of the stream, or a constant."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Through:
    """A block of the user's own that ``stream`` goes through.

    The rows that it gives have the columns of the stream. ``implementation`` is where its class is,
    ``module:Class``.
    """

    stream: Stream
    block: str
    implementation: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        given = (f"{one.name} => {one.value}" for one in self.arguments)
        return f"{self.block}({', '.join((self.stream.name, *given))})"


@dataclass(frozen=True)
class Scan:
    """A stream in FROM, with its window clause.

    ``window`` is None if there is no clause and none is needed (no join). ``time`` is set if the
    query needs the tuple's time: it or the other side of its join has a Range. With ``through``,
    ``stream`` is a derived stream without a declaration: the rows of that block.
    """

    stream: Stream
    alias: str
    window: Window | None = None
    time: TimeAttribute | None = None
    through: Through | None = None


MOST_INPUTS = 63
"""The largest number of inputs of a join: rank keys have six bits for the input."""


@dataclass(frozen=True)
class JoinStep:
    """A join of the combinations of what stands to the left of it with one more input.

    ``kind`` is one of JOIN_KINDS; ``on`` is over the inputs up to its own.
    """

    kind: str
    on: Expression

    @property
    def hides(self) -> bool:
        """Whether nothing after it can name its input."""
        return self.kind in ("semi", "anti")


@dataclass(frozen=True)
class Join:
    """A window join of two or more inputs. ``kind`` is one of JOIN_KINDS.

    Semi and anti joins are of the first input. With more than two inputs the kind is inner. ``on``
    is a bool expression in which side ``i`` is input ``i``. ``float_clock``: ticks are floats, not
    ints.

    A tree of three and more inputs that has an outer, semi or anti join is the inner join of its
    first inputs, perhaps of one, and then ``steps``, one for each further input, from the first
    join that is not inner on. ``on`` is the condition of the inner join alone.

    Rewrite rules fill in the rest, which together means the same as ``on``: ``filters`` (what a
    tuple of one input must satisfy to find partners at all), ``compiled`` (what kernels evaluate)
    and ``residual`` (what is evaluated on the remaining combinations). ``columns`` are the columns
    of each input that anything after the join reads; expressions after the join index into them.
    None: all.
    """

    kind: str
    inputs: tuple[Scan, ...]
    on: Expression
    float_clock: bool = False
    filters: tuple[Expression, ...] = ()
    compiled: Expression = TRUE
    residual: Expression = TRUE
    columns: tuple[tuple[int, ...], ...] | None = None
    steps: tuple[JoinStep, ...] = ()

    @property
    def core(self) -> int:
        """The number of inputs before the steps: those of the inner join."""
        return len(self.inputs) - len(self.steps)

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions of the join, those of its steps included."""
        return self.on, *(step.on for step in self.steps)


def border_type(kind: pa.DataType) -> pa.DataType:
    """The type of a window's borders, by the type of its attribute.

    A border lies up to a window's length away from any value: below 0 for an unsigned attribute,
    above the maximum for a short one. So integers give int64, and decimals have 18 digits.

    >>> border_type(pa.uint8()), border_type(pa.decimal128(5, 2)), border_type(pa.timestamp("s"))
    (DataType(int64), Decimal128Type(decimal128(18, 2)), TimestampType(timestamp[s]))
    """
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.decimal128(18, kind.scale) if pa.types.is_decimal(kind) else kind


@dataclass(frozen=True)
class Call:
    """An aggregate over the rows of one group: ``name(argument) FILTER (WHERE condition)``.

    ``name`` is a key of AGGREGATES. ``argument`` None is ``COUNT(*)``. ``distinct`` is for count
    only.
    """

    name: str
    argument: Expression | None
    type: pa.DataType
    distinct: bool = False
    condition: Expression = TRUE

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        distinct = "DISTINCT " if self.distinct else ""
        filtered = "" if self.condition == TRUE else f" FILTER (WHERE {self.condition})"
        return f"{self.name.upper()}({distinct}{inner}){filtered}"

    @property
    def by_arrival(self) -> bool:
        """Whether it depends on the order of arrival."""
        return AGGREGATES[self.name].by_arrival

    @property
    def is_invertible(self) -> bool:
        """Whether values can be subtracted from it when a window moves on."""
        return AGGREGATES[self.name].invertible


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over the rows of a source for which ``where`` is true, by window and by group.

    ``window`` is None if the input is bounded and answered at its end. ``time`` is the window
    attribute of a :class:`Sliding`; a count window may have one too, for FIRST and LAST.

    The columns are those of :attr:`schema`: the keys, the calls, and the start and end of the
    window (for a count window, in tuples of the stream). A group has one row for each window in
    which it has a tuple. Windows come oldest first, and groups within a window in ascending order
    of their keys, NULL first. Without keys, a window without tuples has a row only with
    ``emit_empty``; a whole bounded input always has one.
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
        """The column that identifies a window: its end. Count windows may have equal starts."""
        assert self.window is not None
        return len(self.keys) + len(self.calls) + 1


@dataclass(frozen=True)
class SortKey:
    """A key of ORDER BY. NaN is the largest number.

    The expression has the same inputs as the select list (after a union: the union's columns).
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        text = f"{self.expression}{' descending' if self.descending else ''}"
        if self.nulls_first == self.descending:  # not the default
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

    Over a join, columns of input ``i`` are on side ``i`` (semi and anti joins have side 0 only);
    over a scan or an aggregate everything is on side 0.

    ``columns_read`` is filled in by a rewrite rule: the columns of a scan that the select list
    reads and indexes into. None: all.
    """

    source: Scan | Join | Aggregate
    where: Expression
    columns: tuple[Output, ...]
    columns_read: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Union:
    """``UNION ALL``: at one position, rows of earlier branches come first."""

    branches: tuple[Select, ...]


@dataclass(frozen=True)
class Plan:
    """A whole query. ``order`` is none, outer or inner; ``precision`` as in ``EMIT ORDER``.

    ``sort`` and ``limit`` (ORDER BY, LIMIT) apply to the rows of each window if the body is a
    windowed aggregate, else to all rows of a bounded input, at its end.
    """

    body: Select | Union
    text: str
    order: str = "none"
    precision: int = 1
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None

    def __repr__(self) -> str:
        return f"<Plan: {one_line(self.text)}>"

    @property
    def selects(self) -> tuple[Select, ...]:
        return self.body.branches if isinstance(self.body, Union) else (self.body,)

    def map_selects(self, function: Callable[[Select], Select]) -> Plan:
        """The plan with ``function`` applied to the SELECT, or to each branch of the union."""
        if isinstance(self.body, Union):
            return replace(self, body=Union(tuple(map(function, self.body.branches))))
        return replace(self, body=function(self.body))

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The inputs, in the order of the query's text."""
        found: list[Scan] = []
        for select in self.selects:
            source = select.source
            if isinstance(source, Aggregate):
                source = source.source
            found.extend((source,) if isinstance(source, Scan) else source.inputs)
        return tuple(found)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result, all with distinct names."""
        return pa.schema([pa.field(c.name, c.type) for c in self.selects[0].columns])
