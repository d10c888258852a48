"""Operators and functions on arguments that are not NULL; see ``docs/expressions.md``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.oracle.arithmetic import (
    Failure,
    decimal_in,
    exact,
    float_in,
    half_away,
    integer_in,
    single,
)
from penstock.oracle.times import (
    DAY,
    NANOSECONDS,
    SECOND,
    civil,
    clock_of,
    date_trunc,
    days_of,
    last_day,
)
from penstock.oracle.values import Type, Value
from penstock.sql.expressions import Call

Function = Callable[[Call, list[Value]], Value]


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. NaN equals NaN and is larger than every other number.

    >>> compare(float("nan"), float("inf")), compare(-0.0, 0.0), compare(False, True)
    (1, 0, -1)
    """
    left_nan, right_nan = left != left, right != right
    if left_nan or right_nan:
        return int(left_nan) - int(right_nan)
    return int(left > right) - int(left < right)


def _comparison(holds: Callable[[int], bool]) -> Function:
    return lambda call, values: holds(compare(values[0], values[1]))


def _in_type(number: Value, kind: Type) -> Value:
    """The result of an operation in its type: rounded if that is a decimal or float."""
    if pa.types.is_decimal(kind):
        return decimal_in(Fraction(number), kind)
    if pa.types.is_float32(kind):
        return single(number)
    if pa.types.is_floating(kind):
        return float(number)
    return integer_in(number, kind)


def _operands(values: list[Value]) -> list[Value]:
    """Decimals as fractions, so that results are exact until they are rounded once."""
    return [Fraction(v) if isinstance(v, Decimal) else v for v in values]


def _arithmetic(operation: Callable[[Value, Value], Value]) -> Function:
    def function(call: Call, values: list[Value]) -> Value:
        return _in_type(operation(*_operands(values)), call.type)

    return function


def _div(call: Call, values: list[Value]) -> Value:
    if values[1] == 0:
        raise Failure
    if pa.types.is_decimal(call.type):
        return decimal_in(Fraction(values[0]) / Fraction(values[1]), call.type)
    return _in_type(float(values[0]) / float(values[1]), call.type)


def _toward_zero(dividend: Value, divisor: Value) -> int:
    if divisor == 0:
        raise Failure
    return math.trunc(Fraction(dividend) / Fraction(divisor))


def _int_div(call: Call, values: list[Value]) -> int:
    return integer_in(_toward_zero(*values), call.type)


def _mod(call: Call, values: list[Value]) -> Value:
    dividend, divisor = _operands(values)
    if divisor == 0:
        raise Failure
    if not pa.types.is_floating(call.type):
        return _in_type(dividend - divisor * _toward_zero(dividend, divisor), call.type)
    if math.isnan(dividend) or math.isnan(divisor) or math.isinf(dividend):
        return math.nan
    return math.fmod(dividend, divisor)


def _neg(call: Call, values: list[Value]) -> Value:
    return _in_type(-_operands(values)[0], call.type)


def _abs(call: Call, values: list[Value]) -> Value:
    return _in_type(abs(_operands(values)[0]), call.type)


def _sign(call: Call, values: list[Value]) -> float:
    number = values[0]
    return math.nan if number != number else float((number > 0) - (number < 0))


def _whole(rounding: Callable[[Fraction], int]) -> Function:
    def function(call: Call, values: list[Value]) -> Value:
        if isinstance(values[0], float) and not math.isfinite(values[0]):
            raise Failure
        return _in_type(rounding(Fraction(values[0])), call.type)

    return function


def _round(call: Call, values: list[Value]) -> Value:
    number, digits = values
    # No number has digits farther out, and a larger power of ten would not fit in memory.
    digits = max(-400, min(1200, digits))
    if isinstance(number, float) and not math.isfinite(number):
        return number
    step = Fraction(10) ** -digits
    rounded = half_away(exact(number, call.args[0].type) / step) * step
    if pa.types.is_floating(call.type):
        return float_in(rounded, call.type)
    return _in_type(int(rounded) if pa.types.is_integer(call.type) else rounded, call.type)


def _sqrt(call: Call, values: list[Value]) -> float:
    number = float(values[0])
    return math.nan if number < 0 else math.sqrt(number)


def _like(call: Call, values: list[Value]) -> bool:
    """LIKE. An escaped character stands for itself, and so does an escape that ends the pattern."""
    text, pattern, escape = values
    parts: list[str] = []
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            parts.append(re.escape(next(rest, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _by_character(change: Callable[[str], str]) -> Function:
    """A function that changes each character on its own, where it changes into one character."""

    def function(call: Call, values: list[Value]) -> str:
        changed = ((character, change(character)) for character in values[0])
        return "".join(new if len(new) == 1 else old for old, new in changed)

    return function


def _left(call: Call, values: list[Value]) -> Value:
    text, count = values
    return text[: max(count, 0)]


def _right(call: Call, values: list[Value]) -> Value:
    text, count = values
    return text[max(len(text) - max(count, 0), 0) :]


def _replace(call: Call, values: list[Value]) -> Value:
    text, old, new = values
    return text.replace(old, new) if old else text


def _clock_part(part: Callable[[int], int]) -> Function:
    """A part of the clock reading of a date or timestamp."""

    def function(call: Call, values: list[Value]) -> int:
        return integer_in(part(clock_of(values[0], call.args[0].type)), call.type)

    return function


def _date_trunc(call: Call, values: list[Value]) -> int:
    unit, time = values
    result: Type = call.type
    start = date_trunc(time, call.args[1].type, unit.lower())
    return integer_in(start // NANOSECONDS[result.unit], result)


def _add_duration(call: Call, values: list[Value]) -> int:
    time, interval = values
    given: Type = call.args[0].type
    result: Type = call.type
    instant = time * NANOSECONDS[given.unit] + interval * NANOSECONDS["us"]
    return integer_in(instant // NANOSECONDS[result.unit], result)


def _add_days(call: Call, values: list[Value]) -> int:
    return integer_in(values[0] + values[1], call.type)


def _add_months(call: Call, values: list[Value]) -> int:
    time, months = values
    result: Type = call.type
    per_day = 1 if pa.types.is_date32(result) else DAY // NANOSECONDS[result.unit]
    days, time_of_day = divmod(time, per_day)
    year, month, day = civil(days)
    years, month_index = divmod(month - 1 + months, 12)
    year, month = year + years, month_index + 1
    moved = days_of(year, month, min(day, last_day(year, month)))
    return integer_in(moved * per_day + time_of_day, call.type)


def _sub_times(call: Call, values: list[Value]) -> int:
    kind: Type = call.args[0].type
    unit = DAY if pa.types.is_date32(kind) else NANOSECONDS[kind.unit]
    return integer_in((values[0] - values[1]) * unit // NANOSECONDS["us"], call.type)


FUNCTIONS: dict[str, Function] = {
    "eq": _comparison(lambda order: order == 0),
    "ne": _comparison(lambda order: order != 0),
    "lt": _comparison(lambda order: order < 0),
    "le": _comparison(lambda order: order <= 0),
    "gt": _comparison(lambda order: order > 0),
    "ge": _comparison(lambda order: order >= 0),
    "not": lambda call, values: not values[0],
    "like": _like,
    "add": _arithmetic(lambda a, b: a + b),
    "sub": _arithmetic(lambda a, b: a - b),
    "mul": _arithmetic(lambda a, b: a * b),
    "div": _div,
    "int_div": _int_div,
    "mod": _mod,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _round,
    "sqrt": _sqrt,
    "concat": lambda call, values: "".join(values),
    "upper": _by_character(str.upper),
    "lower": _by_character(str.lower),
    "length": lambda call, values: len(values[0]),
    "left": _left,
    "right": _right,
    "trim": lambda call, values: values[0].strip(" "),
    "ltrim": lambda call, values: values[0].lstrip(" "),
    "rtrim": lambda call, values: values[0].rstrip(" "),
    "replace": _replace,
    "starts_with": lambda call, values: values[0].startswith(values[1]),
    "ends_with": lambda call, values: values[0].endswith(values[1]),
    "contains": lambda call, values: values[1] in values[0],
    "year": _clock_part(lambda clock: civil(clock // DAY)[0]),
    "month": _clock_part(lambda clock: civil(clock // DAY)[1]),
    "day": _clock_part(lambda clock: civil(clock // DAY)[2]),
    "hour": _clock_part(lambda clock: clock % DAY // (3600 * SECOND)),
    "minute": _clock_part(lambda clock: clock % DAY // (60 * SECOND) % 60),
    "second": _clock_part(lambda clock: clock % DAY // SECOND % 60),
    # 1970-01-01 was a Thursday, the fifth day of a week that begins with Sunday.
    "day_of_week": _clock_part(lambda clock: (clock // DAY + 4) % 7 + 1),
    "date_trunc": _date_trunc,
    "add_duration": _add_duration,
    "add_days": _add_days,
    "add_months": _add_months,
    "sub_times": _sub_times,
}
