"""CAST: the conversions between types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.kernels.expressions import decimals, integers
from penstock.kernels.expressions.calendar import (
    DAY,
    dates_of_days,
    days_of_date,
    in_units,
    offsets,
    readings,
    units_per_second,
    zone_of,
)
from penstock.kernels.expressions.context import Context
from penstock.kernels.expressions.decimals import fit_decimals, rescaled, scale_of
from penstock.kernels.expressions.floats import (
    clear_steps,
    ratio,
    ratio_of_singles,
    shortest_texts,
    to_singles,
)
from penstock.kernels.expressions.text import per_distinct
from penstock.kernels.expressions.vector import (
    Mask,
    Numbers,
    Vector,
    null_vector,
    physical_dtype,
    text_vector,
    valid_of,
)
from penstock.streams.schema import type_name


def cast_vector(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """The values converted to ``kind``; those that cannot be converted fail."""
    source = vector.type
    if source == kind:
        return vector
    if pa.types.is_null(source):
        return null_vector(kind, context.length)
    if pa.types.is_string(kind):
        return to_string(vector, context)
    if pa.types.is_string(source):
        return from_string(vector, kind, context)
    if _is_time(source) or _is_time(kind):
        return cast_times(vector, kind, context)
    if _is_number(source) and _is_number(kind):
        return cast_numbers(vector, kind, context)
    raise no_cast(source, kind)


def _is_number(kind: pa.DataType) -> bool:
    return (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


# -- numbers ----------------------------------------------------------------------------

MOST_DIGITS = 40
"""A power of ten that no integer and no decimal reaches."""


def cast_numbers(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """Any number or boolean to any other; values that do not fit fail."""
    if pa.types.is_boolean(kind):
        return Vector(np.asarray(vector.values != 0, np.bool_), vector.valid, kind)
    if pa.types.is_boolean(vector.type):
        vector = Vector(vector.values.astype(np.int8), vector.valid, pa.int8())
    if pa.types.is_floating(kind):
        return Vector(_to_floats(vector, kind), vector.valid, kind)
    if pa.types.is_decimal(kind):
        return _to_decimals(vector, kind, context)
    values, bad = _to_integers(vector, kind)
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, kind)


def _to_floats(vector: Vector, kind: pa.DataType) -> Numbers:
    if vector.values.dtype.kind == "f":
        return np.asarray(vector.values, physical_dtype(kind))
    power = 10 ** scale_of(vector.type)
    if pa.types.is_float32(kind):
        return ratio_of_singles(vector.values, power)
    return ratio(vector.values, power)


def _to_integers(vector: Vector, kind: pa.DataType) -> integers.Checked:
    dtype = physical_dtype(kind)
    if vector.values.dtype.kind == "f":
        return integers.from_floats(np.trunc(vector.values), dtype)
    values = vector.values
    if scale_of(vector.type):
        power = decimals.power_array(scale_of(vector.type), len(values))
        values = decimals.divide_truncating(values, power)
    return integers.narrowed(values, dtype)


def _to_decimals(vector: Vector, kind: Any, context: Context) -> Vector:
    if vector.values.dtype.kind != "f":
        values = rescaled(vector.values, scale_of(vector.type), scale_of(kind))
        return fit_decimals(values, kind, vector.valid, context)
    values, bad = _decimals_of_floats(vector.values, kind)
    return fit_decimals(values, kind, context.fail(bad, vector.valid), context)


def _decimals_of_floats(values: Numbers, kind: Any) -> tuple[Numbers, Mask]:
    """From the shortest text; NaN, infinities and values far too large are bad."""
    bad: Mask = ~(np.abs(values) < 10.0 ** (MOST_DIGITS - 2))
    values = np.where(bad, values.dtype.type(0), values)
    steps, clear = clear_steps(values, kind.scale)
    rows = np.flatnonzero(~clear)
    if len(rows):
        steps = steps.astype(object)
        for row, text in zip(rows, shortest_texts(values[rows]), strict=True):
            steps[row] = half_away(Fraction(text) * 10**kind.scale)
    return steps, bad


def half_away(number: Fraction) -> int:
    """Rounded to an integer, half away from zero.

    >>> half_away(Fraction("-2.5")), half_away(Fraction("2.4"))
    (-3, 2)
    """
    size = (2 * abs(number.numerator) + number.denominator) // (2 * number.denominator)
    return -size if number < 0 else size


# -- dates, timestamps and intervals -----------------------------------------------------

ROUNDING_ERROR = 1e-6


def no_cast(source: pa.DataType, kind: pa.DataType) -> PenstockError:
    """The error for two types without a conversion."""
    return PenstockError(
        f"no cast from {type_name(source)} to {type_name(kind)}",
        "Convert the value another way; docs/expressions.md lists the casts there are.",
    )


def cast_times(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """A cast from or to a date, a timestamp or an interval; strings are cast elsewhere."""
    if pa.types.is_timestamp(vector.type) and pa.types.is_floating(kind):
        return Vector(_seconds_as_floats(vector, kind), vector.valid, kind)
    if pa.types.is_timestamp(vector.type) and pa.types.is_decimal(kind):
        digits = len(str(units_per_second(vector.type))) - 1
        values = decimals.rescaled(vector.values, digits, kind.scale)
        return decimals.fit_decimals(values, kind, vector.valid, context)
    values, bad = _integers(vector, kind)
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, kind)


def _seconds_as_floats(vector: Vector, kind: pa.DataType) -> Numbers:
    units = units_per_second(vector.type)
    if pa.types.is_float32(kind):
        return ratio_of_singles(vector.values, units)
    return ratio(vector.values, units)


def _integers(vector: Vector, kind: pa.DataType) -> integers.Checked:
    source = vector.type
    if pa.types.is_timestamp(source) and pa.types.is_date32(kind):
        return integers.narrowed(readings(vector)[0], np.dtype(np.int32))
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(kind):
        return in_units(vector.values, units_per_second(source), units_per_second(kind))
    if pa.types.is_timestamp(source) and pa.types.is_integer(kind):
        return integers.narrowed(vector.values // units_per_second(source), physical_dtype(kind))
    if pa.types.is_date32(source) and pa.types.is_timestamp(kind):
        return integers.scale_up(vector.values, DAY * units_per_second(kind))
    if pa.types.is_integer(source) and pa.types.is_timestamp(kind):
        return integers.scale_up(vector.values, units_per_second(kind))
    if pa.types.is_floating(source) and pa.types.is_timestamp(kind):
        return _floats_as_units(vector.values.astype(np.float64), units_per_second(kind))
    if pa.types.is_duration(source) and pa.types.is_integer(kind):
        seconds = vector.values // units_per_second(source)
        # Toward zero: the division rounds down, so one is added to negative fractions.
        seconds = seconds + ((seconds < 0) & (vector.values % units_per_second(source) != 0))
        return integers.narrowed(seconds, physical_dtype(kind))
    raise no_cast(source, kind)


def _floats_as_units(seconds: Numbers, units: int) -> integers.Checked:
    """Exactly ``seconds * units``, rounded down.

    The whole seconds and the fraction, both of the sign of the number, are exact. The product of
    the fraction is not, by less than ROUNDING_ERROR; only close to a whole number does that matter.
    """
    whole, bad = integers.from_floats(np.trunc(seconds), np.dtype(np.int64))
    start, too_large = integers.scale_up(whole, units)
    fraction = np.where(np.isfinite(seconds), seconds - np.trunc(seconds), 0.0)
    product = fraction * units
    part = np.floor(product).astype(np.int64)
    close = (np.abs(product - np.rint(product)) < ROUNDING_ERROR) & (fraction != 0)
    for row in np.flatnonzero(close):
        part[row] = math.floor(Fraction(float(fraction[row])) * units)
    values, past_end = integers.add(start, part)
    return values, integers.either(integers.either(bad, too_large), past_end)


# -- to strings --------------------------------------------------------------------------


def to_string(vector: Vector, context: Context) -> Vector:
    """The text of every value; a binary that is not UTF-8 fails."""
    kind = vector.type
    if pa.types.is_binary(kind):
        return _decoded(vector, context)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return text_vector(pc.cast(vector.to_arrow(), pa.string()))
    if pa.types.is_floating(kind):
        texts = shortest_texts(vector.values)
    elif pa.types.is_decimal(kind):
        texts = [decimal_text(value, kind.scale) for value in vector.values.tolist()]
    elif pa.types.is_date32(kind):
        texts = date_texts(vector.values.astype(np.int64))
    elif pa.types.is_timestamp(kind):
        texts = _timestamp_texts(vector)
    else:
        raise no_cast(kind, pa.string())
    mask = None if vector.valid is None else ~vector.valid
    return text_vector(pa.array(texts, pa.string(), mask=mask))


def _decoded(vector: Vector, context: Context) -> Vector:
    try:
        return text_vector(vector.values.cast(pa.string()))
    except pa.ArrowInvalid:
        decoded = per_distinct(vector.values, _utf8, pa.string())
        valid = valid_of(decoded)
        assert valid is not None
        context.fail(~valid, vector.valid)
        return text_vector(decoded)


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def decimal_text(unscaled: int, scale: int) -> str:
    """A decimal with all the digits of its scale.

    >>> decimal_text(-5, 2), decimal_text(150, 2), decimal_text(7, 0)
    ('-0.05', '1.50', '7')
    """
    digits = str(abs(unscaled)).zfill(scale + 1)
    sign = "-" if unscaled < 0 else ""
    if scale == 0:
        return sign + digits
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def date_texts(days: Numbers) -> list[str]:
    """``2024-01-31``; years above 9999 and below 0 have their sign."""
    parts = zip(*(part.tolist() for part in dates_of_days(days)), strict=True)
    return [f"{_year_text(year)}-{month:02d}-{day:02d}" for year, month, day in parts]


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}"


def _timestamp_texts(vector: Vector) -> list[str]:
    units = units_per_second(vector.type)
    days, seconds = readings(vector)
    width = len(str(units)) - 1
    zone = zone_of(vector.type)
    ahead: list[str] = [""] * len(vector)
    if zone is not None:
        ahead = [offset_text(o) for o in offsets(vector.values // units, zone).tolist()]
    fractions = (vector.values % units).tolist()
    parts = zip(date_texts(days), seconds.tolist(), fractions, ahead, strict=True)
    return [
        f"{date} {_clock_text(second, fraction, width)}{offset}"
        for date, second, fraction, offset in parts
    ]


def _clock_text(second: int, fraction: int, width: int) -> str:
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{text}.{fraction:0{width}d}".rstrip("0") if fraction else text


def offset_text(seconds: int) -> str:
    """A UTC offset as text; with seconds only if there are any.

    >>> offset_text(7200), offset_text(-12600), offset_text(3208)
    ('+02:00', '-03:30', '+00:53:28')
    """
    size = abs(seconds)
    text = f"{'-' if seconds < 0 else '+'}{size // 3600:02d}:{size // 60 % 60:02d}"
    return f"{text}:{size % 60:02d}" if size % 60 else text


# -- from strings ------------------------------------------------------------------------

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
    # NULLs have no code; they get the place behind the last.
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
    """The number; None if the text is not one, or larger than any integer or decimal.

    Numbers smaller than the last digit of any decimal are 0.
    """
    if NUMBER.fullmatch(text) is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        # The exponent is out of range.
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
    """Digits beyond the unit are cut off."""
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
