"""The bound query: what is asked, before anything is decided about how to answer it.

The oracle runs exactly this. Engines run a program that ``penstock.program`` makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.sql.expressions import TRUE, Expression
from penstock.streams.schema import Stream
from penstock.streams.windows import TimeAttribute, Window


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
    """``SELECT columns FROM source WHERE where``.

    Over a join, columns of the left stream are on side 0 and of the right one on side 1 (semi and
    anti joins have side 0 alone); over a scan everything is on side 0.

    ``kept`` is filled in by a rewrite rule: the columns of a scan that the select list reads, and
    counts in. None: all.
    """

    source: Scan | Join
    where: Expression
    columns: tuple[Output, ...]
    kept: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Union:
    """``UNION ALL``: at one position, rows of an earlier branch come first."""

    branches: tuple[Select, ...]


@dataclass(frozen=True)
class Plan:
    """A whole query. ``order`` is none, outer or inner; ``precision`` as in ``EMIT ORDER``."""

    body: Select | Union
    text: str
    order: str = "none"
    precision: int = 1

    @property
    def selects(self) -> tuple[Select, ...]:
        return self.body.branches if isinstance(self.body, Union) else (self.body,)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The inputs, in the order of the query's text."""
        found: list[Scan] = []
        for select in self.selects:
            source = select.source
            found.extend((source,) if isinstance(source, Scan) else (source.left, source.right))
        return tuple(found)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result; names may repeat."""
        return pa.schema([pa.field(c.name, c.type) for c in self.selects[0].columns])
