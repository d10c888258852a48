"""The aggregates: name → what it takes and gives. Their meaning is in ``docs/semantics.md``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as arrow
from sqlglot import exp

from penstock.sql.arrow_types import DOUBLE, INT64, UINT64, digits_of, is_number
from penstock.sql.expressions import Expression, Literal
from penstock.sql.types import Argument, TypeProblem, convert, described

Typed = tuple[Expression | None, pa.DataType]
"""An aggregate's argument, converted where it must be, and the type of its result."""


@dataclass(frozen=True)
class Function:
    """An aggregate function.

    Parameters
    ----------
    name
        What a :class:`penstock.sql.plan.Call` calls it.
    bind
        From its SQL name and its argument to the argument as it is aggregated, and the result's
        type.
    invertible
        Whether what it has taken in can be taken out again, so that a window that moves on
        subtracts.
    """

    name: str
    bind: Callable[[str, Argument], Typed]
    invertible: bool = True


def counted(name: str, argument: Argument) -> Typed:
    """COUNT takes anything; a constant that is not NULL counts rows."""
    literal = argument.expression
    constant = isinstance(literal, Literal) and literal.value is not None
    return (None if constant else literal), INT64


def distinct(name: str, argument: Argument) -> Typed:
    """COUNT(DISTINCT) takes what can be compared."""
    return ordered(name, argument)[0], INT64


def total(name: str, argument: Argument) -> Typed:
    """SUM: integers give int64, floats double, decimals ten digits more, as in Spark."""
    value = number(name, argument)
    if value.type == UINT64:
        value = convert(value, pa.decimal128(20, 0))
    if arrow.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        return value, pa.decimal128(min(38, precision + 10), scale)
    return value, DOUBLE if arrow.is_floating(value.type) else INT64


def mean(name: str, argument: Argument) -> Typed:
    """AVG: decimals get four digits more, before and after the point together, as in Spark."""
    value = number(name, argument)
    if arrow.is_decimal(value.type):
        precision, scale = digits_of(value.type)
        precision = min(38, precision + 4)
        return value, pa.decimal128(precision, min(scale + 4, precision))
    return value, DOUBLE


def spread(name: str, argument: Argument) -> Typed:
    """Variances and deviations."""
    return number(name, argument), DOUBLE


def ordered(name: str, argument: Argument) -> Typed:
    """An aggregate that gives one of the values it has taken in."""
    if arrow.is_duration(argument.type):
        raise TypeProblem(
            f"{name} of an interval",
            f"Write {name}(CAST({argument.text} AS int64)) for its seconds.",
            0,
        )
    return argument.expression, argument.type


def number(name: str, argument: Argument) -> Expression:
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
    raise TypeProblem(f"{name} needs a number, but {argument.text} is {described(kind)}", remedy, 0)


AGGREGATES: dict[str, Function] = {
    "AVG": Function("avg", mean),
    "COUNT": Function("count", counted),
    "FIRST": Function("first", ordered, invertible=False),
    "LAST": Function("last", ordered, invertible=False),
    "MAX": Function("max", ordered, invertible=False),
    "MIN": Function("min", ordered, invertible=False),
    "STDDEV": Function("stddev_samp", spread),
    "STDDEV_POP": Function("stddev_pop", spread),
    "STDDEV_SAMP": Function("stddev_samp", spread),
    "SUM": Function("sum", total),
    "VARIANCE": Function("var_samp", spread),
    "VAR_POP": Function("var_pop", spread),
    "VAR_SAMP": Function("var_samp", spread),
}
"""By the name in SQL. VARIANCE and STDDEV are those of samples, as in Spark."""

INVERTIBLE = frozenset(function.name for function in AGGREGATES.values() if function.invertible)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is a call of an aggregate, perhaps with a FILTER."""
    if isinstance(node, exp.Filter):
        return is_aggregate(node.this)
    return isinstance(node, exp.Anonymous) and node.name.upper() in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Whether there is an aggregate in the expression."""
    return any(map(is_aggregate, node.find_all(exp.Anonymous)))
