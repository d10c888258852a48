"""Casts from string: the inverse of how values are written; whatever else fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.clock import days_of_date, units_per_second, zone_of
from penstock.kernels.context import Context
from penstock.kernels.floats import to_singles
from penstock.kernels.ops_cast_numbers import half_away
from penstock.kernels.ops_cast_times import no_cast
from penstock.kernels.vector import Numbers, Vector, physical_dtype, text_vector
from penstock.kernels.zones import DAY

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)
DATE = r"([+-]?[0-9]{4,12})-([0-9]{2})-([0-9]{2})"
TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
OFFSET = r"Z|([+-])([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?"
DATE_TEXT = re.compile(DATE)
TIMESTAMP_TEXT = re.compile(f"{DATE}(?:[ T]{TIME}({OFFSET})?)?")
BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
MOST_DIGITS = 40
"""A power of ten that no integer and no decimal reaches."""

Parser = Callable[[str], Any]


def from_string(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """The values that the texts, without spaces around them, stand for."""
    if pa.types.is_binary(kind):
        return text_vector(vector.values.cast(pa.binary()))
    encoded = vector.values.dictionary_encode()
    texts = [text.strip(" ") for text in encoded.dictionary.to_pylist()]
    parse = _parser(kind)
    parsed = [parse(text) for text in texts]
    bad = np.array([value is None for value in parsed], np.bool_)
    values = np.zeros(len(parsed) + 1, physical_dtype(kind))
    for place, value in enumerate(parsed):
        if value is not None:
            values[place] = value
    if pa.types.is_float32(kind):
        values = _singles(texts, parsed)
    # NULLs have no code; the place behind the last is theirs.
    codes = np.asarray(encoded.indices.fill_null(len(parsed)))
    failed = np.append(bad, False)[codes]
    return Vector(values[codes], context.fail(failed, vector.valid), kind)


def _singles(texts: list[str], parsed: list[Any]) -> Numbers:
    doubles = np.array([0.0 if value is None else value for value in (*parsed, None)])
    return to_singles(doubles, lambda row: Fraction(Decimal(texts[row])))


def _parser(kind: pa.DataType) -> Parser:
    if pa.types.is_boolean(kind):
        return lambda text: BOOLEANS.get(text.lower())
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_integer(kind):
        limits = np.iinfo(physical_dtype(kind))
        return lambda text: _integer(text, int(limits.min), int(limits.max))
    if pa.types.is_decimal(kind):
        return lambda text: _unscaled(text, kind.precision, kind.scale)
    if pa.types.is_date32(kind):
        return _date
    if pa.types.is_timestamp(kind):
        units, zoned = units_per_second(kind), zone_of(kind) is not None
        return lambda text: _timestamp(text, units, zoned)
    raise no_cast(pa.string(), kind)


def _exact(text: str) -> Fraction | None:
    """A number; None if it is none, or larger than any integer or decimal. What is smaller than
    the last digit of any decimal is 0.
    """
    if NUMBER.fullmatch(text) is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        # The exponent has more digits than a number of this world.
        mantissa, _, exponent = text.lower().partition("e")
        return Fraction(0) if exponent.startswith("-") or Decimal(mantissa) == 0 else None
    if number == 0 or number.adjusted() < -MOST_DIGITS:
        return Fraction(0)
    return Fraction(number) if number.adjusted() < MOST_DIGITS else None


def _integer(text: str, low: int, high: int) -> int | None:
    number = _exact(text)
    if number is None:
        return None
    whole = int(number)
    return whole if low <= whole <= high else None


def _unscaled(text: str, precision: int, scale: int) -> int | None:
    number = _exact(text)
    if number is None:
        return None
    value = half_away(number * 10**scale)
    return value if abs(value) < 10**precision else None


def _float(text: str) -> float | None:
    if NUMBER.fullmatch(text) is None and NOT_FINITE.fullmatch(text) is None:
        return None
    return float(text)


def _date(text: str) -> int | None:
    match = DATE_TEXT.fullmatch(text)
    days = days_of_date(int(match[1]), int(match[2]), int(match[3])) if match else None
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _timestamp(text: str, units: int, zoned: bool) -> int | None:
    """Digits beyond the unit are cut off: the time of day never goes below zero."""
    match = TIMESTAMP_TEXT.fullmatch(text)
    if match is None or (match[8] is not None and not zoned):
        return None
    days = days_of_date(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    ahead_hour, ahead_minute, ahead_second = (int(part or 0) for part in match.group(10, 11, 12))
    if days is None or max(hour, ahead_hour) > 23:
        return None
    if max(minute, second, ahead_minute, ahead_second) > 59:
        return None
    ahead = ahead_hour * 3600 + ahead_minute * 60 + ahead_second
    reading = days * DAY + hour * 3600 + minute * 60 + second
    instant = reading + ahead if match[9] == "-" else reading - ahead
    width = len(str(units)) - 1
    fraction = int((match[7] or "")[:width].ljust(width, "0") or 0)
    value = instant * units + fraction
    return value if -(2**63) <= value < 2**63 else None
