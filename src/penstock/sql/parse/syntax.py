"""The syntax tree of a query: its clauses, each with its place in the text.

Expressions are sqlglot's nodes; :func:`penstock.sql.parse.dialect.span` gives their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from penstock.sql.parse.dialect import Span


@dataclass(frozen=True)
class Name:
    """An identifier, without its quotes."""

    text: str
    at: Span


@dataclass(frozen=True)
class Quantity:
    """A number, perhaps with a unit: ``10 MINUTES``. The unit is in upper case, singular."""

    number: Decimal
    unit: str | None
    at: Span


@dataclass(frozen=True)
class WindowClause:
    """``[kind size SLIDE … START AT … WATTR … SLACK …]``.

    ``kind`` is ROWS, RANGE, NOW or UNBOUNDED; ``start`` is the value of START AT; ``inclusive`` is
    the place of INCLUSIVE, or None.
    """

    kind: str
    at: Span
    size: Quantity | None = None
    slide: Quantity | None = None
    attribute: Name | None = None
    slack: Quantity | None = None
    start: exp.Expr | None = None
    inclusive: Span | None = None


@dataclass(frozen=True)
class ThroughClause:
    """``block(stream, name => value, …)``: a stream through a block of the user's own."""

    block: Name
    arguments: tuple[tuple[Name, exp.Expr], ...]
    at: Span


@dataclass(frozen=True)
class StreamReference:
    """``stream [window] AS alias``, as in FROM, or ``block(stream, …) [window] AS alias``."""

    stream: Name
    window: WindowClause | None
    alias: Name
    through: ThroughClause | None = None

    @property
    def at(self) -> Span:
        """From the name of the stream or block to the end of its window clause."""
        start, end = self.stream.at if self.through is None else self.through.at
        return (start, self.window.at[1] if self.window else end)


@dataclass(frozen=True)
class JoinClause:
    """``kind JOIN right ON on``. ``on`` is None without ON, as in a cross join."""

    kind: str
    right: StreamReference
    on: exp.Expr | None
    at: Span


@dataclass(frozen=True)
class Item:
    """An expression of the select list, perhaps with an alias."""

    value: exp.Expr
    alias: Name | None


@dataclass(frozen=True)
class SelectClause:
    """``SELECT items FROM left joins WHERE where GROUP BY group HAVING having``.

    ``distinct`` is the place of DISTINCT, or None.
    """

    items: tuple[Item, ...]
    left: StreamReference
    joins: tuple[JoinClause, ...]
    where: exp.Expr | None
    at: Span
    group: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    distinct: Span | None = None

    @property
    def references(self) -> tuple[StreamReference, ...]:
        """The streams of FROM, in order."""
        return (self.left, *(join.right for join in self.joins))

    @property
    def names(self) -> frozenset[str]:
        """The aliases of the select list, in lower case."""
        return frozenset(item.alias.text.lower() for item in self.items if item.alias)


@dataclass(frozen=True)
class SortItem:
    """A key of ORDER BY; the place of the first one includes the words ORDER BY."""

    value: exp.Expr
    descending: bool
    nulls_first: bool
    at: Span


@dataclass(frozen=True)
class Limit:
    """``LIMIT rows``."""

    rows: int
    at: Span


@dataclass(frozen=True)
class Emit:
    """``EMIT ORDER order PRECISION precision``, and the place of EMIT EMPTY or None."""

    order: str = "none"
    precision: int = 1
    empty: Span | None = None


@dataclass(frozen=True)
class QueryClause:
    """One select, or several with UNION ALL, and the clauses after them."""

    selects: tuple[SelectClause, ...]
    emit: Emit = Emit()
    sort: tuple[SortItem, ...] = ()
    limit: Limit | None = None
