"""The select list: from expressions to the columns of the result."""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql.bind_expression import bind_expression
from penstock.sql.dialect import span
from penstock.sql.expressions import Column, Expression
from penstock.sql.plan import Output
from penstock.sql.scope import RESULTS, Names, Scope
from penstock.sql.syntax import Item


def bind_item(item: Item, scope: Scope) -> list[Output]:
    """The columns that an expression of the select list gives."""
    node = item.value
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and node.is_star):
        if item.alias is not None:
            raise scope.fail(
                item.alias.at, "* stands for several columns", "Leave the name after it out."
            )
        return [Output(column.name, column) for column in scope.star(node)]
    bound = bind_expression(node, scope)
    if arrow.is_duration(bound.type):
        raise scope.fail(
            span(node),
            "an interval cannot be a column of the result",
            f"Write CAST({scope.text(node)} AS int64) for its seconds.",
        )
    return [Output(item.alias.text if item.alias else name_of(node, bound, scope), bound)]


def name_of(node: exp.Expr, bound: Expression, scope: Scope) -> str:
    """A column's own name; for anything else, aggregates among it, its text."""
    is_call = isinstance(bound, Column) and bound.side == RESULTS and bound.index >= 0
    if isinstance(bound, Column) and not is_call:
        return bound.name
    return " ".join(scope.text(node).lower().split())


def position(node: exp.Expr, outputs: Sequence[Output], scope: Scope) -> Output | None:
    """The column of the result that a bare whole number stands for, in GROUP BY and ORDER BY."""
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.args.get("is_string"):
        return None
    text = scope.text(node)
    if not str(number.this).isdigit():
        return None
    if isinstance(node, exp.Neg) or not 1 <= int(str(number.this)) <= len(outputs):
        raise scope.fail(
            span(node),
            f"there is no column {text} in the select list",
            "Write 1, or an expression."
            if len(outputs) == 1
            else f"Write a number from 1 to {len(outputs)}, or an expression.",
        )
    return outputs[int(str(number.this)) - 1]


def names_of(outputs: Sequence[Output]) -> Names:
    """What the names of the select list stand for."""
    names: dict[str, tuple[Expression, ...]] = {}
    for output in outputs:
        known = names.get(output.name.lower(), ())
        if output.expression not in known:
            names[output.name.lower()] = (*known, output.expression)
    return names
