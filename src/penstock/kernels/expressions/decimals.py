"""Arithmetic on unscaled integers: int64 while the bounds allow it, Python integers beyond.

Nothing here can overflow: if 64 bits might not suffice, the result is an object array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.context import Context
from penstock.kernels.expressions.integers import holds
from penstock.kernels.expressions.vector import Mask, Numbers, Vector, bounds, physical_dtype

INT64 = np.dtype(np.int64)
HALF_RANGE = 2**62
"""Divisors up to this can be doubled in 64 bits."""


def scale_of(kind: pa.DataType) -> int:
    """The digits after the point; none for an integer."""
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def exact_sum(left: Numbers, right: Numbers) -> Numbers:
    """``left + right``."""
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    if holds(INT64, low + other_low, high + other_high) and _are_narrow(left, right):
        return narrow(left) + narrow(right)
    return np.asarray(wide(left) + wide(right))


def exact_product(left: Numbers, right: Numbers) -> Numbers:
    """``left * right``."""
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    corners = (low * other_low, low * other_high, high * other_low, high * other_high)
    if holds(INT64, min(corners), max(corners)) and _are_narrow(left, right):
        return narrow(left) * narrow(right)
    return np.asarray(wide(left) * wide(right))


def times_power(values: Numbers, power: int) -> Numbers:
    """``values * 10**power``."""
    if power == 0:
        return values
    low, high = bounds(values)
    if holds(INT64, low * 10**power, high * 10**power) and power <= 18 and _are_narrow(values):
        return narrow(values) * np.int64(10**power)
    return np.asarray(wide(values) * 10**power)


def wide(values: Numbers) -> Numbers:
    """As Python integers."""
    return values.astype(object, copy=False)


def narrow(values: Numbers) -> Numbers:
    """As int64; the bounds must show that they fit."""
    return values.astype(np.int64, copy=False)


def _are_narrow(*arrays: Numbers) -> bool:
    return all(holds(INT64, *bounds(array)) for array in arrays)


def magnitudes_and_signs(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers, Mask]:
    """``abs(left)``, ``abs(right)`` in one representation that can be doubled, and whether the
    signs differ.
    """
    differ = np.asarray((left < 0) != (right < 0), dtype=np.bool_)
    extremes = (*bounds(left), *bounds(right))
    if max(map(abs, extremes)) <= HALF_RANGE:
        return np.abs(narrow(left)), np.abs(narrow(right)), differ
    return np.abs(wide(left)), np.abs(wide(right)), differ


def divide_rounding(left: Numbers, right: Numbers) -> Numbers:
    """``left / right`` rounded to an integer, half away from zero. No divisor may be zero."""
    dividend, divisor, negative = magnitudes_and_signs(left, right)
    quotient = dividend // divisor
    upward: Mask = np.asarray(2 * (dividend - quotient * divisor) >= divisor)
    quotient = np.asarray(quotient + upward)
    return np.where(negative, -quotient, quotient)


def divide_truncating(left: Numbers, right: Numbers) -> Numbers:
    """``left / right`` rounded to an integer, toward zero. No divisor may be zero."""
    dividend, divisor, negative = magnitudes_and_signs(left, right)
    quotient = np.asarray(dividend // divisor)
    return np.where(negative, -quotient, quotient)


def power_array(power: int, length: int) -> Numbers:
    """``10**power``, repeated ``length`` times."""
    one = np.empty(1, object if power > 18 else np.int64)
    one[0] = 10**power
    return np.broadcast_to(one, (length,))


def rescaled(values: Numbers, scale: int, new_scale: int) -> Numbers:
    """The unscaled integers at another scale, half away from zero."""
    if new_scale >= scale:
        return times_power(values, new_scale - scale)
    return divide_rounding(values, power_array(scale - new_scale, len(values)))


def fit_decimals(values: Numbers, kind: Any, valid: Mask | None, context: Context) -> Vector:
    """A decimal vector of exact unscaled integers; those with too many digits fail."""
    limit = 10**kind.precision
    low, high = bounds(values)
    if low <= -limit or high >= limit:
        bad = np.asarray((values <= -limit) | (values >= limit), dtype=np.bool_)
        values = np.where(bad, 0, values)
        valid = context.fail(bad, valid)
    return Vector(values.astype(physical_dtype(kind), copy=False), valid, kind)
