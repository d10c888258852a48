"""Evaluates an expression on one row, or on one pair of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.oracle.arithmetic import Failure
from penstock.oracle.casts import cast
from penstock.oracle.functions import FUNCTIONS, compare
from penstock.oracle.values import Row, Value
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal


@dataclass
class Failures:
    """Counts the operations that gave NULL because they failed."""

    count: int = 0


def evaluate(expression: Expression, rows: tuple[Row, ...], failures: Failures) -> Value:
    """The value of ``expression``, where ``rows[side]`` is the row of each input."""
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        return rows[expression.side][expression.index]
    if isinstance(expression, Call) and expression.op == "case":
        return _case(expression, rows, failures)
    if isinstance(expression, Call) and expression.op == "coalesce":
        return _coalesce(expression, rows, failures)
    try:
        if isinstance(expression, Cast):
            value = evaluate(expression.arg, rows, failures)
            return cast(value, expression.arg.type, expression.type)
        values = [evaluate(arg, rows, failures) for arg in expression.args]
        if expression.op in SPECIAL:
            return SPECIAL[expression.op](expression, values)
        if any(value is None for value in values):
            return None
        return FUNCTIONS[expression.op](expression, values)
    except Failure:
        failures.count += 1
        return None


def _case(call: Call, rows: tuple[Row, ...], failures: Failures) -> Value:
    """The value of the first branch whose condition is true; no other branch is evaluated."""
    *branches, otherwise = call.args
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        if evaluate(condition, rows, failures) is True:
            return evaluate(value, rows, failures)
    return evaluate(otherwise, rows, failures)


def _coalesce(call: Call, rows: tuple[Row, ...], failures: Failures) -> Value:
    """The first argument that is not NULL; none after it is evaluated."""
    for argument in call.args:
        value = evaluate(argument, rows, failures)
        if value is not None:
            return value
    return None


def _and(call: Call, values: list[Value]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def _or(call: Call, values: list[Value]) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def _is_null(call: Call, values: list[Value]) -> bool:
    return values[0] is None


def _in(call: Call, values: list[Value]) -> bool | None:
    found = [None if None in (values[0], v) else compare(values[0], v) == 0 for v in values[1:]]
    return _or(call, found)


def _least(call: Call, values: list[Value]) -> Value:
    best = None
    for value in values:
        if value is not None and (best is None or compare(value, best) < 0):
            best = value
    return best


def _greatest(call: Call, values: list[Value]) -> Value:
    best = None
    for value in values:
        if value is not None and (best is None or compare(value, best) > 0):
            best = value
    return best


def _null_if(call: Call, values: list[Value]) -> Value:
    first, second = values
    if first is None or second is None:
        return first
    return None if compare(first, second) == 0 else first


def _substring(call: Call, values: list[Value]) -> Value:
    """The substring. An omitted length is a NULL literal and means the rest of the string."""
    text, start, length = values
    to_the_end = isinstance(call.args[2], Literal) and length is None
    if text is None or start is None or (length is None and not to_the_end):
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if to_the_end else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


SPECIAL: dict[str, Callable[[Call, list[Value]], Value]] = {
    "and": _and,
    "or": _or,
    "is_null": _is_null,
    "in": _in,
    "least": _least,
    "greatest": _greatest,
    "null_if": _null_if,
    "substring": _substring,
}
"""The operations that handle NULLs themselves. For all others a NULL argument gives NULL."""
