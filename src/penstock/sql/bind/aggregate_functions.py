"""The aggregate functions: how their arguments are converted, and which types they give.

``penstock.sql.aggregates`` has the table of functions, ``docs/semantics.md`` their meaning.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql import aggregates
from penstock.sql.arrow_types import DOUBLE, INT64, UINT64, digits_of, is_number
from penstock.sql.bind.coercion import Argument, TypeProblem, convert, type_text
from penstock.sql.expressions import Expression, Literal
from penstock.sql.plan import Call

TypedArgument = tuple[Expression | None, pa.DataType]
"""An aggregate's argument, converted where necessary, and the type of its result."""


def count_argument(name: str, argument: Argument) -> TypedArgument:
    """COUNT takes any type; a constant that is not NULL counts rows."""
    literal = argument.expression
    constant = isinstance(literal, Literal) and literal.value is not None
    return (None if constant else literal), INT64


def distinct_argument(name: str, argument: Argument) -> TypedArgument:
    """COUNT(DISTINCT) takes types that can be compared."""
    return comparable_argument(name, argument)[0], INT64


def sum_argument(name: str, argument: Argument) -> TypedArgument:
    """SUM: integers give int64, floats double, decimals ten digits more, as in Spark."""
    value = number_argument(name, argument)
    if value.type == UINT64:
        value = convert(value, pa.decimal128(20, 0))
    if arrow.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        return value, pa.decimal128(min(38, precision + 10), scale)
    return value, DOUBLE if arrow.is_floating(value.type) else INT64


def avg_argument(name: str, argument: Argument) -> TypedArgument:
    """AVG: decimals get four digits more, before and after the point together, as in Spark."""
    value = number_argument(name, argument)
    if arrow.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        precision = min(38, precision + 4)
        return value, pa.decimal128(precision, min(scale + 4, precision))
    return value, DOUBLE


def variance_argument(name: str, argument: Argument) -> TypedArgument:
    """Variances and standard deviations take numbers and give doubles."""
    return number_argument(name, argument), DOUBLE


def comparable_argument(name: str, argument: Argument) -> TypedArgument:
    """FIRST, LAST, MIN and MAX give one of their values, so they keep its type."""
    if arrow.is_duration(argument.type):
        raise TypeProblem(
            f"{name} of an interval",
            f"Write {name}(CAST({argument.text} AS int64)) for its seconds.",
            0,
        )
    return argument.expression, argument.type


def number_argument(name: str, argument: Argument) -> Expression:
    """An argument that must be a number."""
    kind = argument.type
    if is_number(kind):
        return argument.expression
    target = "int64" if arrow.is_boolean(kind) or arrow.is_duration(kind) else "double"
    castable = arrow.is_boolean(kind) or arrow.is_duration(kind) or arrow.is_string(kind)
    castable = castable or arrow.is_timestamp(kind)
    remedy = (
        f"Write {name}(CAST({argument.text} AS {target}))."
        if castable
        else f"Use a number, or COUNT, MIN, MAX, FIRST or LAST of {argument.text}."
    )
    raise TypeProblem(f"{name} needs a number, but {argument.text} is {type_text(kind)}", remedy, 0)


BINDERS: dict[str, Callable[[str, Argument], TypedArgument]] = {
    "any": count_argument,
    "sum": sum_argument,
    "average": avg_argument,
    "variance": variance_argument,
    "comparable": comparable_argument,
}
"""By the name in the table of aggregates: what converts the argument of a SQL function and gives
its type."""

AGGREGATES: dict[str, str] = {
    function: name for name, one in aggregates.AGGREGATES.items() for function in one.functions
}
"""By SQL name: the name of the call."""


def bound_call(name: str, argument: Argument, distinct: bool, condition: Expression) -> Call:
    """The call of an aggregate by its SQL name; ``condition`` is that of FILTER."""
    call = AGGREGATES[name]
    bind = distinct_argument if distinct else BINDERS[aggregates.AGGREGATES[call].argument]
    typed, kind = bind(name, argument)
    return Call(call, typed, kind, distinct, condition)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is a call of an aggregate, perhaps with a FILTER."""
    if isinstance(node, exp.Filter):
        return is_aggregate(node.this)
    return isinstance(node, exp.Anonymous) and node.name.upper() in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Whether the expression contains an aggregate."""
    return any(map(is_aggregate, node.find_all(exp.Anonymous)))
