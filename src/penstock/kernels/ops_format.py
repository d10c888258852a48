"""Casts to string: values as their literals are written, without quotes and type words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.clock import dates_of_days, readings, units_per_second, zone_of
from penstock.kernels.context import Context
from penstock.kernels.floats import shortest_texts
from penstock.kernels.ops_cast_times import no_cast
from penstock.kernels.ops_text import per_distinct
from penstock.kernels.vector import Numbers, Vector, text_vector, valid_of
from penstock.kernels.zones import offsets


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
    """How far a clock is ahead of UTC; with seconds only if there are any.

    >>> offset_text(7200), offset_text(-12600), offset_text(3208)
    ('+02:00', '-03:30', '+00:53:28')
    """
    size = abs(seconds)
    text = f"{'-' if seconds < 0 else '+'}{size // 3600:02d}:{size // 60 % 60:02d}"
    return f"{text}:{size % 60:02d}" if size % 60 else text
