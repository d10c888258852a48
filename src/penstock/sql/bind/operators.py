"""Operators: the types they take and give, and the conversions between."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types as arrow

from penstock.sql.arrow_types import (
    BOOL,
    DATE,
    DOUBLE,
    INT32,
    INT64,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    UINT64,
    digits_of,
    finer,
    is_number,
    is_time,
    timestamp_type,
    unit_of,
    zone_of,
)
from penstock.sql.bind.coercion import (
    Argument,
    TypeProblem,
    as_decimal,
    cast_remedy,
    castable,
    convert,
    decimal_type,
    reads_as,
    type_text,
    unify,
    unify_compared,
)
from penstock.sql.expressions import Call, Expression, Literal
from penstock.streams.schema import type_name


def compare(op: str, left: Argument, right: Argument) -> Expression:
    """``=``, ``<`` and the other comparisons."""
    return Call(op, unify_compared((left, right)), BOOL)


def boolean(argument: Argument, place: int | None = None) -> Expression:
    """An argument that must be a condition."""
    if arrow.is_null(argument.type):
        return Literal(None, BOOL)
    if not arrow.is_boolean(argument.type):
        raise TypeProblem(
            f"a condition is needed, but {argument.text} is {type_text(argument.type)}",
            f"Write a comparison, for instance {argument.text} <> 0."
            if is_number(argument.type)
            else f"Write a comparison, for instance {argument.text} IS NOT NULL.",
            place,
        )
    return argument.expression


def string(argument: Argument, place: int) -> Expression:
    """An argument that must be a string."""
    if arrow.is_string(argument.type) or arrow.is_null(argument.type):
        return convert(argument.expression, STRING)
    remedy = f"Write CAST({argument.text} AS string)."
    if not castable(argument.type, STRING):
        remedy = "Use a string."
    raise TypeProblem(
        f"a string is needed, but {argument.text} is {type_text(argument.type)}", remedy, place
    )


def arithmetic(op: str, symbol: str, left: Argument, right: Argument) -> Expression:
    """``+ - * / %``, on numbers, times and intervals."""
    if arrow.is_null(left.type) and arrow.is_null(right.type):
        left = Argument(Literal(None, INT32), left.text)
    a, b = null_operands(op, left, right)
    if is_number(a.type) and is_number(b.type):
        return number_arithmetic(op, a, b)
    special = TIME_ARITHMETIC.get(op)
    result = special(a, b) if special else None
    if result is None:
        raise TypeProblem(
            f"cannot compute {type_text(left.type)} {symbol} {type_text(right.type)}",
            arithmetic_remedy(op, left, right),
        )
    return result


def null_operands(op: str, left: Argument, right: Argument) -> tuple[Argument, Argument]:
    """Give an untyped NULL the type that fits the other operand."""

    def typed(one: Argument, other: Argument) -> Argument:
        if not arrow.is_null(one.type):
            return one
        kind = other.type
        if is_time(kind) and not (op == "sub" and one is left):
            kind = INTERVAL
        elif arrow.is_duration(kind) and op == "mul":
            kind = INT64
        return Argument(Literal(None, kind), one.text)

    return typed(left, right), typed(right, left)


def arithmetic_remedy(op: str, left: Argument, right: Argument) -> str:
    """The remedy for an operation that is not defined between these types."""
    if is_time(left.type) and arrow.is_integer(right.type) and op in ("add", "sub"):
        symbol = "+" if op == "add" else "-"
        days = f"INTERVAL 1 DAY * {right.text}"
        if isinstance(right.expression, Literal):
            days = f"INTERVAL {right.text} DAYS"
        return f"Write {left.text} {symbol} {days}, or another unit."
    if op == "add" and arrow.is_string(left.type) and arrow.is_string(right.type):
        return f"Write {left.text} || {right.text} to put strings together."
    for one, other in ((left, right), (right, left)):
        if arrow.is_string(one.type):
            target = other.type if is_number(other.type) else DOUBLE
            if not reads_as(one, target):
                target = DOUBLE
            if not reads_as(one, target):
                return f"{one.text} is no number; write one."
            return f"Write CAST({one.text} AS {type_name(target)})."
    return cast_remedy(left, right)


def number_arithmetic(op: str, left: Argument, right: Argument) -> Expression:
    """Arithmetic on two numbers."""
    a, b = left.expression, right.expression
    if arrow.is_floating(a.type) or arrow.is_floating(b.type):
        if op == "div":
            return Call(op, (convert(a, DOUBLE), convert(b, DOUBLE)), DOUBLE)
        args = unify((left, right), "compute", "with")
        return Call(op, args, args[0].type)
    if arrow.is_integer(a.type) and arrow.is_integer(b.type):
        if op == "div":
            return Call(op, (convert(a, DOUBLE), convert(b, DOUBLE)), DOUBLE)
        args = unify((left, right), "compute", "with")
        if arrow.is_integer(args[0].type):
            return Call(op, args, args[0].type)
    x, y = as_decimal(a), as_decimal(b)
    return Call(op, (convert(a, x), convert(b, y)), decimal_result(op, x, y))


def decimal_result(op: str, x: pa.DataType, y: pa.DataType) -> pa.DataType:
    """The result type of arithmetic on two decimals."""
    (p1, s1), (p2, s2) = digits_of(x), digits_of(y)
    if op == "mul":
        return decimal_type(p1 + p2 + 1, s1 + s2)
    if op == "div":
        scale = max(6, s1 + p2 + 1)
        return decimal_type(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if op == "mod":
        return decimal_type(min(p1 - s1, p2 - s2) + scale, scale)
    return decimal_type(max(p1 - s1, p2 - s2) + scale + 1, scale)


def integer_division(left: Argument, right: Argument) -> Expression:
    """``a DIV b``."""
    for place, argument in enumerate((left, right)):
        if not (arrow.is_integer(argument.type) or arrow.is_null(argument.type)):
            raise TypeProblem(
                f"DIV divides integers, but {argument.text} is {type_text(argument.type)}",
                f"Write CAST({argument.text} AS int64), or / for a fraction.",
                place,
            )
    args = unify_compared((left, right))
    if arrow.is_null(args[0].type):
        args = (Literal(None, INT64), Literal(None, INT64))
    if not arrow.is_integer(args[0].type):
        raise TypeProblem(
            f"cannot compute {type_text(left.type)} DIV {type_text(right.type)}",
            f"Write CAST({left.text} AS int64) DIV CAST({right.text} AS int64).",
        )
    return Call("int_div", args, INT64)


def negate(argument: Argument) -> Expression:
    """``-x``."""
    expression = argument.expression
    if arrow.is_null(argument.type):
        return Literal(None, INT32)
    if not is_number(argument.type) and not arrow.is_duration(argument.type):
        raise TypeProblem(
            f"cannot negate {type_text(argument.type)}", "Use a number or an interval."
        )
    known = expression.value if isinstance(expression, Literal) else None
    if isinstance(known, int) and arrow.is_duration(argument.type):
        return Literal(-known, INTERVAL)
    return Call("neg", (expression,), argument.type)


def add_times(left: Argument, right: Argument) -> Expression | None:
    """``time + interval`` in either order, ``interval + interval``."""
    if is_time(right.type) and arrow.is_duration(left.type):
        left, right = right, left
    if is_time(left.type) and arrow.is_duration(right.type):
        return shift(left.expression, right.expression)
    if arrow.is_duration(left.type) and arrow.is_duration(right.type):
        return Call("add", (left.expression, right.expression), INTERVAL)
    return None


def subtract_times(left: Argument, right: Argument) -> Expression | None:
    """``time - interval``, ``interval - interval``, ``time - time``."""
    if arrow.is_duration(right.type):
        if is_time(left.type):
            return shift(left.expression, negate(right))
        if arrow.is_duration(left.type):
            return Call("sub", (left.expression, right.expression), INTERVAL)
    if is_time(left.type) or is_time(right.type):
        texts = arrow.is_string(left.type) or arrow.is_string(right.type)
        if texts or (is_time(left.type) and is_time(right.type)):
            return Call("sub_times", unify((left, right), "compute", "-"), INTERVAL)
    return None


def multiply_times(left: Argument, right: Argument) -> Expression | None:
    """``interval * integer`` in either order."""
    if arrow.is_integer(left.type):
        left, right = right, left
    if arrow.is_duration(left.type) and arrow.is_integer(right.type):
        if right.type == UINT64:
            return None
        return Call("mul", (left.expression, convert(right.expression, INT64)), INTERVAL)
    return None


TIME_ARITHMETIC: dict[str, Callable[[Argument, Argument], Expression | None]] = {
    "add": add_times,
    "sub": subtract_times,
    "mul": multiply_times,
}


def shift(time: Expression, interval: Expression) -> Expression:
    """A date or timestamp plus an interval; a date becomes a timestamp."""
    kind = TIMESTAMP if arrow.is_date(time.type) else time.type
    kind = timestamp_type(finer(unit_of(kind), needed_unit(interval)), zone_of(kind))
    return Call("add_duration", (convert(time, kind), interval), kind)


def needed_unit(interval: Expression) -> str:
    """The coarsest unit that divides the interval; 1 µs if it is not constant."""
    if isinstance(interval, Literal) and isinstance(interval.value, int):
        for unit, length in (("s", 1_000_000), ("ms", 1_000)):
            if interval.value % length == 0:
                return unit
    return "us"


def shift_days(time: Argument, days: int) -> Expression:
    """A date plus whole days, which is a date."""
    return Call("add_days", (time.expression, Literal(days, INT32)), DATE)


def shift_months(time: Argument, months: int) -> Expression:
    """A date or timestamp plus months."""
    if not is_time(time.type):
        raise TypeProblem(
            f"months cannot be added to {type_text(time.type)}", "Use a date or a timestamp."
        )
    if arrow.is_timestamp(time.type) and zone_of(time.type) not in (None, "UTC"):
        raise TypeProblem(
            f"months cannot be added to {type_text(time.type)}",
            f"Write CAST({time.text} AS timestamp(6, 'UTC')) + INTERVAL n MONTHS.",
        )
    return Call("add_months", (time.expression, Literal(months, INT32)), time.type)


def cast(argument: Argument, kind: pa.DataType) -> Expression:
    """``CAST(x AS kind)``."""
    if not castable(argument.type, kind):
        remedy = "Use a column of that type."
        for via in (TIMESTAMP, INT64, STRING):
            if castable(argument.type, via) and castable(via, kind):
                between = f"CAST({argument.text} AS {type_name(via)})"
                remedy = f"Write CAST({between} AS {type_name(kind)})."
                break
        raise TypeProblem(
            f"no CAST leads from {type_text(argument.type)} to {type_text(kind)}", remedy
        )
    return convert(argument.expression, kind)


def null_free(expression: Expression, remedy: str) -> Expression:
    """The expression, unless it is an untyped NULL."""
    if expression.type == NULL:
        raise TypeProblem("NULL has no type here", remedy)
    return expression
