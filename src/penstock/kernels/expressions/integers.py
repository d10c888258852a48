"""Integer arithmetic that detects overflow.

The functions take arrays of NumPy integers and return the result, wrapped around where it does not
fit, and the mask of those rows, None if there are none. Mostly the bounds of the operands rule
overflow out, at the price of a scan; only otherwise are rows checked one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.kernels.expressions.vector import Mask, Numbers, bounds, is_constant

Checked = tuple[Numbers, Mask | None]
_LIMITS = {
    np.dtype(name).str: (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}


def holds(dtype: np.dtype[Any], low: int, high: int) -> bool:
    """Whether a type holds every integer from ``low`` to ``high``."""
    least, most = _LIMITS[dtype.str]
    return least <= low and high <= most


def add(left: Numbers, right: Numbers) -> Checked:
    """``left + right``, of one type."""
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    if holds(left.dtype, low + other_low, high + other_high):
        return left + right, None
    if left.dtype.itemsize < 8:
        return narrowed(left.astype(np.int64) + right, left.dtype)
    total = left + right
    if left.dtype.kind == "u":
        return total, total < left
    return total, ((left ^ total) & (right ^ total)) < 0


def subtract(left: Numbers, right: Numbers) -> Checked:
    """``left - right``, of one type."""
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    if holds(left.dtype, low - other_high, high - other_low):
        return left - right, None
    if left.dtype.itemsize < 8:
        return narrowed(left.astype(np.int64) - right, left.dtype)
    difference = left - right
    if left.dtype.kind == "u":
        return difference, left < right
    return difference, ((left ^ right) & (left ^ difference)) < 0


def multiply(left: Numbers, right: Numbers) -> Checked:
    """``left * right``, of one type."""
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    corners = (low * other_low, low * other_high, high * other_low, high * other_high)
    if holds(left.dtype, min(corners), max(corners)):
        return left * right, None
    if left.dtype.itemsize < 8:
        wide = np.uint64 if left.dtype.kind == "u" else np.int64
        return narrowed(left.astype(wide) * right.astype(wide), left.dtype)
    product = left * right
    # The float product is off by far less than its top bit: below 2**62 nothing overflows.
    suspect = np.abs(left.astype(np.float64) * right.astype(np.float64)) >= 2.0**62
    bad = np.zeros(len(left), np.bool_)
    rows = np.flatnonzero(suspect)
    exact = left[rows].astype(object) * right[rows].astype(object)
    limits = np.iinfo(left.dtype)
    bad[rows] = (exact < int(limits.min)) | (exact > int(limits.max))
    return product, bad


def scale_up(values: Numbers, factor: int) -> Checked:
    """``values * factor`` as int64, for a positive constant, from integers of any width."""
    wide, bad = narrowed(values, np.dtype(np.int64))
    if factor == 1:
        return wide, bad
    product, too_large = multiply(wide, constant(factor, len(wide)))
    return product, either(bad, too_large)


def narrowed(values: Numbers, dtype: np.dtype[Any]) -> Checked:
    """The same integers in another type."""
    if values.dtype == dtype:
        return values, None
    if values.dtype == object:
        limits = np.iinfo(dtype)
        bad = (values < int(limits.min)) | (values > int(limits.max))
        return np.where(bad, 0, values).astype(dtype), _if_any(np.asarray(bad, np.bool_))
    low, high = bounds(values)
    if is_constant(values) and holds(dtype, low, high):
        return constant(low, len(values), dtype), None
    result = values.astype(dtype)
    if holds(dtype, low, high):
        return result, None
    # Comparing the two would bring int64 and uint64 together as floats, so compare with limits.
    limits, own = np.iinfo(dtype), np.iinfo(values.dtype)
    bad = np.zeros(len(values), np.bool_)
    if int(own.min) < int(limits.min):
        bad |= values < values.dtype.type(int(limits.min))
    if int(own.max) > int(limits.max):
        bad |= values > values.dtype.type(int(limits.max))
    return result, bad


def from_floats(values: Numbers, dtype: np.dtype[Any]) -> Checked:
    """Whole floats as integers; NaN, infinities and what does not fit are bad."""
    limits = np.iinfo(dtype)
    doubles = values.astype(np.float64, copy=False)
    # Both are powers of two or zero and so exact, which the largest 64-bit integer is not.
    good: Mask = (doubles >= float(limits.min)) & (doubles < float(int(limits.max) + 1))
    if good.all():
        return doubles.astype(dtype), None
    return np.where(good, doubles, 0.0).astype(dtype), ~good


def constant(value: int, length: int, dtype: Any = np.int64) -> Numbers:
    """One integer, repeated without memory."""
    return np.broadcast_to(np.array(value, dtype), (length,))


def either(left: Mask | None, right: Mask | None) -> Mask | None:
    """Bad where either is."""
    if left is None:
        return right
    return left if right is None else left | right


def _if_any(bad: Mask) -> Mask | None:
    return bad if bad.any() else None
