"""Casts between booleans, integers, floats and decimals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels import decimals, integers
from penstock.kernels.context import Context
from penstock.kernels.decimals import rescaled, scale_of, settle
from penstock.kernels.floats import clear_steps, ratio, ratio_of_singles, shortest_texts
from penstock.kernels.vector import Mask, Numbers, Vector, physical_dtype

MOST_DIGITS = 40
"""A power of ten that no decimal reaches."""


def cast_numbers(vector: Vector, kind: pa.DataType, context: Context) -> Vector:
    """Any number or boolean to any other; what does not fit fails."""
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
        return settle(values, kind, vector.valid, context)
    values, bad = _decimals_of_floats(vector.values, kind)
    return settle(values, kind, context.fail(bad, vector.valid), context)


def _decimals_of_floats(values: Numbers, kind: Any) -> tuple[Numbers, Mask]:
    """From the shortest text; NaN, infinities and what is far too large are bad."""
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
