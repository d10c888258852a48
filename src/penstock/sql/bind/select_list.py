"""Binds the select list: expressions to the columns of the result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count

from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql.bind.expression import bind_expression
from penstock.sql.bind.scope import RESULTS, Names, Scope
from penstock.sql.expressions import Column, Expression
from penstock.sql.parse.dialect import span
from penstock.sql.parse.literals import whole_number
from penstock.sql.parse.syntax import Item
from penstock.sql.plan import Output


def bind_items(items: Sequence[Item], scope: Scope) -> list[tuple[exp.Expr, list[Output]]]:
    """The columns of the select list, item by item, all with distinct names.

    A name given with AS stays. Any other name that repeats, without regard to case, gets the name
    of its stream as a prefix (``r_id``) if there is a join, and a number as a suffix if that is not
    enough.
    """
    found = [(item, bind_item(item, scope)) for item in items]
    joined = len(scope.inputs) > 1
    counts = Counter(output.name.lower() for _, outputs in found for output in outputs)
    used: set[str] = set()
    for item, outputs in found:
        if item.alias is not None and item.alias.text.lower() in used:
            raise scope.fail(
                item.alias.at,
                f"two columns of the result are named '{item.alias.text}'",
                "Give one of them another name.",
            )
        if item.alias is not None:
            used.add(item.alias.text.lower())
        used |= {o.name.lower() for o in outputs if counts[o.name.lower()] == 1}
    return [
        (
            item.value,
            outputs
            if item.alias is not None
            else [
                _distinct(output, used, joined) if counts[output.name.lower()] > 1 else output
                for output in outputs
            ],
        )
        for item, outputs in found
    ]


def _distinct(output: Output, used: set[str], joined: bool) -> Output:
    """The column under a name that is not in ``used``, which is then added."""
    alias = output.expression.alias if isinstance(output.expression, Column) else ""
    base = f"{alias}_{output.name}" if alias and joined else output.name
    numbered = (f"{base}_{number}" for number in count(2))
    name = next(name for name in chain((base,), numbered) if name.lower() not in used)
    used.add(name.lower())
    return Output(name, output.expression)


def bind_item(item: Item, scope: Scope) -> list[Output]:
    """The columns of one item of the select list."""
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
    """A column's own name; for other expressions and aggregates, their text."""
    is_call = isinstance(bound, Column) and bound.side == RESULTS and bound.index >= 0
    if isinstance(bound, Column) and not is_call:
        return bound.name
    return " ".join(scope.text(node).lower().split())


def position(node: exp.Expr, outputs: Sequence[Output], scope: Scope) -> Output | None:
    """The column of the result that a bare whole number in GROUP BY or ORDER BY refers to."""
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.args.get("is_string"):
        return None
    text = scope.text(node)
    if not re.fullmatch("[0-9]+", str(number.this)):
        return None
    place = whole_number(str(number.this))
    if isinstance(node, exp.Neg) or place is None or not 1 <= place <= len(outputs):
        raise scope.fail(
            span(node),
            f"there is no column {text} in the select list",
            "Write 1, or an expression."
            if len(outputs) == 1
            else f"Write a number from 1 to {len(outputs)}, or an expression.",
        )
    return outputs[place - 1]


def names_of(outputs: Sequence[Output]) -> Names:
    """The meanings of the select list's names."""
    names: dict[str, tuple[Expression, ...]] = {}
    for output in outputs:
        known = names.get(output.name.lower(), ())
        if output.expression not in known:
            names[output.name.lower()] = (*known, output.expression)
    return names
