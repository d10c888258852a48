"""From the columns of the streams to the columns of an aggregate over them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.aggregates import is_aggregate
from penstock.sql.bind_expression import bind
from penstock.sql.dialect import Span, span
from penstock.sql.expressions import Column, Expression, rebuild
from penstock.sql.plan import Output
from penstock.sql.scope import PSEUDO_COLUMNS, RESULTS, Scope


class Ungrouped(Exception):
    """A column of a stream that is not grouped by."""

    def __init__(self, column: Column) -> None:
        super().__init__(column.name)
        self.column = column


@dataclass(frozen=True)
class Regrouping:
    """Renumbers expressions over streams, and aggregates on side RESULTS, to those of an aggregate.

    Its columns are the keys, as many results as ``calls`` says, and the borders of its window.
    ``scope`` is that of the streams.
    """

    scope: Scope
    keys: tuple[Output, ...]
    calls: int

    def of(self, expression: Expression, node: exp.Expr) -> Expression:
        """The expression that ``node`` was bound to, over the aggregate's columns."""
        try:
            return self._renumber(expression)
        except Ungrouped as problem:
            raise self._error(problem.column, node) from None

    def _renumber(self, expression: Expression) -> Expression:
        for place, key in enumerate(self.keys):
            if expression == key.expression:
                return Column(0, place, key.name, key.type)
        if not isinstance(expression, Column):
            return rebuild(expression, self._renumber)
        if expression.side != RESULTS:
            raise Ungrouped(expression)
        place = expression.index
        if place < 0:  # a border of the window: they come after all results
            place += self.calls + len(PSEUDO_COLUMNS)
        return Column(0, len(self.keys) + place, expression.name, expression.type)

    def _error(self, column: Column, node: exp.Expr) -> SqlError:
        known = [k.expression if isinstance(k.expression, Column) else k.name for k in self.keys]
        keys = ", ".join(map(str, [*known, column]))
        return self.scope.fail(
            self._place(column, node),
            f"{column} is neither in GROUP BY nor in an aggregate",
            f"Write GROUP BY {keys}; or aggregate it, for instance FIRST({column}).",
        )

    def _place(self, column: Column, node: exp.Expr) -> Span:
        """Where the column is named outside of an aggregate and of an expression grouped by."""
        for found in node.find_all(exp.Column):
            if (
                not found.is_star
                and self._bound(found) == column
                and not any(map(self._is_settled, enclosing(found, node)))
            ):
                return span(found)
        return span(node)

    def _is_settled(self, node: exp.Expr) -> bool:
        """Whether nothing in the node needs to be grouped by."""
        return is_aggregate(node) or self._bound(node) in [key.expression for key in self.keys]

    def _bound(self, node: exp.Expr) -> Expression | None:
        try:
            return bind(node, self.scope)
        except SqlError:
            return None


def enclosing(node: exp.Expr, outermost: exp.Expr) -> list[exp.Expr]:
    """The node and what it stands in, up to the outermost."""
    found = [node]
    while found[-1] is not outermost and found[-1].parent is not None:
        found.append(found[-1].parent)
    return found
