"""CAST: which conversion goes from which type to which."""

from __future__ import annotations

import pyarrow as pa

from penstock.kernels import ops_cast_numbers, ops_cast_times, ops_format, ops_parse
from penstock.kernels.context import Context
from penstock.kernels.vector import Vector, null_vector


def cast_vector(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """The values converted to ``kind``; those that cannot be fail."""
    source = vector.type
    if source == kind:
        return vector
    if pa.types.is_null(source):
        return null_vector(kind, context.length)
    if pa.types.is_string(kind):
        return ops_format.to_string(vector, context)
    if pa.types.is_string(source):
        return ops_parse.from_string(vector, kind, context)
    if _is_time(source) or _is_time(kind):
        return ops_cast_times.cast_times(vector, kind, context)
    if _is_number(source) and _is_number(kind):
        return ops_cast_numbers.cast_numbers(vector, kind, context)
    raise ops_cast_times.no_cast(source, kind)


def _is_number(kind: pa.DataType) -> bool:
    return (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
