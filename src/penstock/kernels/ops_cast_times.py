"""Casts from and to dates, timestamps and intervals, strings apart."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernels import decimals, integers
from penstock.kernels.clock import readings, units_per_second
from penstock.kernels.context import Context
from penstock.kernels.floats import ratio, ratio_of_singles
from penstock.kernels.vector import Numbers, Vector, physical_dtype
from penstock.kernels.zones import DAY
from penstock.streams.schema import type_name

ROUNDING_ERROR = 1e-6


def no_cast(source: pa.DataType, kind: pa.DataType) -> PenstockError:
    """Two types between which there is no conversion."""
    return PenstockError(
        f"no cast from {type_name(source)} to {type_name(kind)}",
        "Convert the value another way; docs/expressions.md lists the casts there are.",
    )


def cast_times(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """One of the two types is a date, a timestamp or an interval."""
    if pa.types.is_timestamp(vector.type) and pa.types.is_floating(kind):
        return Vector(_seconds_as_floats(vector, kind), vector.valid, kind)
    if pa.types.is_timestamp(vector.type) and pa.types.is_decimal(kind):
        digits = len(str(units_per_second(vector.type))) - 1
        values = decimals.rescaled(vector.values, digits, kind.scale)
        return decimals.settle(values, kind, vector.valid, context)
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
        return _other_units(vector.values, units_per_second(source), units_per_second(kind))
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
        # Rounded down; one more where a fraction of a negative number was lost.
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


def _other_units(values: Numbers, units: int, new_units: int) -> integers.Checked:
    if new_units >= units:
        return integers.scale_up(values, new_units // units)
    return values // (units // new_units), None
