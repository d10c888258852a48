"""GROUP BY: the keys, over the columns of the streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql.bind_expression import bind_expression
from penstock.sql.bind_item import name_of, names_of, position
from penstock.sql.dialect import span
from penstock.sql.expressions import Column, Expression, walk
from penstock.sql.plan import Output
from penstock.sql.scope import RESULTS, Names, Scope


def bind_keys(
    group: Sequence[exp.Expr], outputs: Sequence[Output], plain: Scope, borders: Names
) -> tuple[Output, ...]:
    """The keys, each once. Rows are by window anyway, so that a border is none of them."""
    scope = replace(plain, clause="in GROUP BY", last={**names_of(outputs), **borders})
    keys: dict[Expression, Output] = {}
    for node in group:
        key = bind_key(node, outputs, scope, borders)
        if (key.expression,) not in borders.values():
            keys.setdefault(key.expression, key)
    return tuple(keys.values())


def bind_key(node: exp.Expr, outputs: Sequence[Output], scope: Scope, borders: Names) -> Output:
    """One expression of GROUP BY: over columns, or a name or position of the select list."""
    check_border(node, scope, borders)
    chosen = position(node, outputs, scope)
    bound = bind_expression(node, scope) if chosen is None else chosen.expression
    results = results_in(bound)
    if results and (bound,) not in borders.values():
        is_call = any(result.index >= 0 for result in results)
        raise scope.fail(
            span(node),
            f"GROUP BY {scope.text(node)}, which is "
            + ("an aggregate" if is_call else "known only when the window closes"),
            "Group by expressions of columns alone.",
        )
    if arrow.is_duration(bound.type):
        raise scope.fail(
            span(node),
            "rows cannot be grouped by an interval",
            f"Write CAST({scope.text(node)} AS int64) for its seconds.",
        )
    return Output(name_of(node, bound, scope) if chosen is None else chosen.name, bound)


def check_border(node: exp.Expr, scope: Scope, borders: Names) -> None:
    """A stream may have a column with the name of a border."""
    if not isinstance(node, exp.Column) or node.table or node.name.lower() not in borders:
        return
    owner = next((i for i in scope.inputs if i.stream.index_of(node.name) is not None), None)
    if owner is not None:
        raise scope.fail(
            span(node),
            f"ambiguous name '{node.name}': a column of {owner.alias}, and a border of the window",
            f"Write {owner.alias}.{node.name} for the column; leave it out for the border, since "
            "rows are by window anyway.",
        )


def distinct_keys(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """SELECT DISTINCT groups by the whole select list, but for what is the same in all its rows."""
    keys: dict[Expression, Output] = {}
    for output in outputs:
        if not results_in(output.expression):
            keys.setdefault(output.expression, output)
    return tuple(keys.values())


def results_in(expression: Expression) -> list[Column]:
    """The aggregates, and the borders of windows, that the expression reads."""
    return [n for n in walk(expression) if isinstance(n, Column) and n.side == RESULTS]
