"""Arrow arrays as plain Python values.

A value is None, bool, int, float, ``Decimal``, str or bytes. A date is the days since 1970-01-01, a
timestamp its units since then, an interval its microseconds: ``datetime`` has no nanoseconds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa

from penstock.streams.schema import Stream

Value = Any
Type = Any  # an Arrow type; its attributes (unit, scale, …) depend on the type
Row = tuple[Value, ...]


def column_values(column: Any, kind: Type) -> list[Value]:
    """The values of a column, read as ``kind``.

    >>> column_values(pa.array([1_000_000_001], pa.timestamp("ns")), pa.timestamp("ns"))
    [1000000001]
    """
    column = column.cast(kind)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def batch_rows(batch: pa.RecordBatch, stream: Stream) -> list[Row]:
    """The tuples of a batch of ``stream``."""
    columns = [
        column_values(batch.column(index), field.type) for index, field in enumerate(stream.schema)
    ]
    return [tuple(column[row] for column in columns) for row in range(batch.num_rows)]


def ticks_of(value: Value, kind: Type, factor: int | float) -> Value:
    """A value of a time attribute on the query's clock.

    A clock of floats (its factor is a float) shows the double nearest to the value. Any other
    counts the physical value: for a decimal, its unscaled integer.

    >>> from decimal import Decimal
    >>> ticks_of(Decimal("1.50"), pa.decimal128(5, 2), 2)
    300
    >>> ticks_of(Decimal("0.3"), pa.decimal128(2, 1), 0.1)
    0.3
    """
    if isinstance(factor, float):
        return float(value)
    if pa.types.is_decimal(kind):
        unscaled = Fraction(value) * 10**kind.scale
        value = unscaled.numerator if unscaled.denominator == 1 else unscaled
    return value * factor
