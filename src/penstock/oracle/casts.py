"""Conversions, one function for each kind of target type; see ``docs/expressions.md``."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.oracle.arithmetic import (
    Failure,
    decimal_in,
    exact,
    float_in,
    float_text,
    integer_in,
    read_float,
    read_number,
    single,
)
from penstock.oracle.times import (
    DAY,
    NANOSECONDS,
    SECOND,
    clock_of,
    date_text,
    read_date,
    read_timestamp,
    timestamp_text,
)
from penstock.oracle.values import Type, Value

BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def cast(value: Value, source: Type, target: Type) -> Value:
    """``value`` of type ``source`` as ``target``; NULL stays NULL, an invalid conversion fails."""
    if value is None or source == target:
        return value
    for is_target, convert in CONVERSIONS:
        if is_target(target):
            return convert(value, source, target)
    raise AssertionError(f"no cast from {source} to {target}")


def _to_string(value: Value, source: Type, target: Type) -> str:
    if pa.types.is_boolean(source):
        return "true" if value else "false"
    if pa.types.is_floating(source):
        return float_text(value, source)
    if pa.types.is_decimal(source):
        return f"{value:f}"
    if pa.types.is_date32(source):
        return date_text(value)
    if pa.types.is_timestamp(source):
        return timestamp_text(value, source)
    if pa.types.is_binary(source):
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise Failure from None
    return str(value)


def _to_binary(value: Value, source: Type, target: Type) -> bytes:
    return str(value).encode("utf-8")


def _to_boolean(value: Value, source: Type, target: Type) -> bool:
    if pa.types.is_string(source):
        word = value.strip(" ").lower()
        if word not in BOOLEANS:
            raise Failure
        return BOOLEANS[word]
    return bool(value != 0)


def _to_integer(value: Value, source: Type, target: Type) -> int:
    if pa.types.is_string(source):
        number: Value = read_number(value.strip(" "))
    elif pa.types.is_timestamp(source):
        number = value * NANOSECONDS[source.unit] // SECOND
    elif pa.types.is_duration(source):
        number = Fraction(value, 1_000_000)
    elif pa.types.is_floating(source) and not math.isfinite(value):
        raise Failure
    else:
        number = value
    return integer_in(math.trunc(Fraction(number)), target)


def _to_float(value: Value, source: Type, target: Type) -> float:
    if pa.types.is_string(source):
        return read_float(value.strip(" "), target)
    if pa.types.is_timestamp(source):
        return float_in(Fraction(value * NANOSECONDS[source.unit], SECOND), target)
    if pa.types.is_floating(source):
        return single(value) if pa.types.is_float32(target) else float(value)
    return float_in(Fraction(value), target)


def _to_decimal(value: Value, source: Type, target: Type) -> Decimal:
    if pa.types.is_string(source):
        return decimal_in(Fraction(read_number(value.strip(" "))), target)
    if pa.types.is_timestamp(source):
        return decimal_in(Fraction(value * NANOSECONDS[source.unit], SECOND), target)
    return decimal_in(exact(value, source), target)


def _to_date(value: Value, source: Type, target: Type) -> int:
    if pa.types.is_string(source):
        return integer_in(read_date(value.strip(" ")), target)
    return integer_in(clock_of(value, source) // DAY, target)


def _to_timestamp(value: Value, source: Type, target: Type) -> int:
    unit = NANOSECONDS[target.unit]
    if pa.types.is_string(source):
        return integer_in(read_timestamp(value.strip(" "), target), target)
    if pa.types.is_date32(source):
        return integer_in(value * DAY // unit, target)
    if pa.types.is_timestamp(source):
        # Zones do not matter here: both counts are UTC.
        return integer_in(value * NANOSECONDS[source.unit] // unit, target)
    if pa.types.is_floating(source) and not math.isfinite(value):
        raise Failure
    return integer_in(math.floor(Fraction(value) * SECOND / unit), target)


Conversion = Callable[[Value, Type, Type], Value]
CONVERSIONS: tuple[tuple[Callable[[Type], bool], Conversion], ...] = (
    (pa.types.is_string, _to_string),
    (pa.types.is_binary, _to_binary),
    (pa.types.is_boolean, _to_boolean),
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_float),
    (pa.types.is_decimal, _to_decimal),
    (pa.types.is_date32, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
)
