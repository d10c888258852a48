"""A query as it was written: its clauses, each with its place in the text.

Expressions are sqlglot's nodes; :func:`penstock.sql.dialect.span` says where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from penstock.sql.dialect import Span


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

    ``kind`` is ROWS, RANGE, NOW or UNBOUNDED; ``start`` what stands after START AT.
    """

    kind: str
    at: Span
    size: Quantity | None = None
    slide: Quantity | None = None
    attribute: Name | None = None
    slack: Quantity | None = None
    start: exp.Expr | None = None


@dataclass(frozen=True)
class StreamReference:
    """``stream [window] AS alias``, as in FROM."""

    stream: Name
    window: WindowClause | None
    alias: Name

    @property
    def at(self) -> Span:
        """From the stream's name to the end of its window clause."""
        return (self.stream.at[0], self.window.at[1] if self.window else self.stream.at[1])


@dataclass(frozen=True)
class JoinClause:
    """``kind JOIN right ON on``. ``on`` is None where none was written, as in a cross join."""

    kind: str
    right: StreamReference
    on: exp.Expr | None
    at: Span


@dataclass(frozen=True)
class Item:
    """An expression of the select list, perhaps with a name."""

    value: exp.Expr
    alias: Name | None


@dataclass(frozen=True)
class SelectClause:
    """``SELECT items FROM left join WHERE where GROUP BY group HAVING having``.

    ``distinct`` is where SELECT DISTINCT stands, if it does.
    """

    items: tuple[Item, ...]
    left: StreamReference
    join: JoinClause | None
    where: exp.Expr | None
    at: Span
    group: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    distinct: Span | None = None


@dataclass(frozen=True)
class SortItem:
    """A key of ORDER BY; the first one's place begins with the words themselves."""

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
    """``EMIT ORDER order PRECISION precision``, and where EMIT EMPTY stands, if it does."""

    order: str = "none"
    precision: int = 1
    empty: Span | None = None


@dataclass(frozen=True)
class QueryClause:
    """One select, or several joined by UNION ALL, and what is done with their rows."""

    selects: tuple[SelectClause, ...]
    emit: Emit = Emit()
    sort: tuple[SortItem, ...] = ()
    limit: Limit | None = None
