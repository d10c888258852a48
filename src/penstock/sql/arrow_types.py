"""Arrow types under Penstock's names, and properties of them."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from pyarrow import types as arrow

BOOL = pa.bool_()
INT32 = pa.int32()
INT64 = pa.int64()
UINT64 = pa.uint64()
FLOAT = pa.float32()
DOUBLE = pa.float64()
STRING = pa.string()
BINARY = pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us")
INTERVAL = pa.duration("us")
NULL = pa.null()

TIME_UNITS = ("s", "ms", "us", "ns")
"""Units of timestamps, from coarse to fine."""


def is_number(kind: pa.DataType) -> bool:
    """Whether the type is an integer, a float or a decimal."""
    return bool(arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_decimal(kind))


def is_time(kind: pa.DataType) -> bool:
    """Whether the type is a date or a timestamp."""
    return bool(arrow.is_date(kind) or arrow.is_timestamp(kind))


def digits_of(kind: pa.DataType) -> tuple[int, int]:
    """The precision and scale of a decimal."""
    assert isinstance(kind, pa.Decimal128Type)
    return int(kind.precision), int(kind.scale)


def unit_of(kind: pa.DataType) -> str:
    """The unit of a timestamp."""
    assert isinstance(kind, pa.TimestampType)
    return str(kind.unit)


def zone_of(kind: pa.DataType) -> str | None:
    """The zone of a timestamp; None for other types and for timestamps without one."""
    return kind.tz if isinstance(kind, pa.TimestampType) else None


def timestamp_type(unit: str, zone: str | None = None) -> pa.DataType:
    """The timestamp type with this unit and zone."""
    return cast("pa.DataType", pa.timestamp(cast("Any", unit), zone))


def finer(one: str, other: str) -> str:
    """The finer of two units of timestamps."""
    return max(one, other, key=TIME_UNITS.index)
