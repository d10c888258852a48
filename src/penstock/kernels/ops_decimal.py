"""Decimal arithmetic: exact, then rounded half away from zero to the scale of the result."""

from __future__ import annotations

import numpy as np

from penstock.kernels import decimals, integers
from penstock.kernels.context import Context
from penstock.kernels.decimals import rescaled, scale_of, settle, times_power
from penstock.kernels.vector import Mask, Numbers, Vector, both
from penstock.sql.expressions import Call


def sum_or_product(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``add``, ``sub`` and ``mul``."""
    valid = both(left.valid, right.valid)
    if call.op == "mul":
        scale = scale_of(left.type) + scale_of(right.type)
        values = decimals.exact_product(left.values, right.values)
    else:
        scale, first, second = _aligned(left, right)
        if call.op == "sub":
            second = -decimals.wide(second) if second.dtype.kind == "u" else np.negative(second)
        values = decimals.exact_sum(first, second)
    return settle(rescaled(values, scale, scale_of(call.type)), call.type, valid, context)


def _aligned(left: Vector, right: Vector) -> tuple[int, Numbers, Numbers]:
    """Both at the larger of their scales."""
    scale = max(scale_of(left.type), scale_of(right.type))
    return (
        scale,
        times_power(left.values, scale - scale_of(left.type)),
        times_power(right.values, scale - scale_of(right.type)),
    )


def _without_zeros(
    divisor: Numbers, valid: Mask | None, context: Context
) -> tuple[Numbers, Mask | None]:
    """The divisors with ones for the zeros, which have failed."""
    zero = np.asarray(divisor == 0, dtype=np.bool_)
    if not zero.any():
        return divisor, valid
    return np.where(zero, 1, divisor), context.fail(zero, valid)


def quotient(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``div``."""
    divisor, valid = _without_zeros(right.values, both(left.valid, right.valid), context)
    shift = scale_of(call.type) - scale_of(left.type) + scale_of(right.type)
    dividend = times_power(left.values, max(shift, 0))
    divisor = times_power(divisor, max(-shift, 0))
    return settle(decimals.divide_rounding(dividend, divisor), call.type, valid, context)


def whole_quotient(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``int_div``, of the 20-digit decimals that unsigned and signed integers meet in."""
    _, dividend, divisor = _aligned(left, right)
    divisor, valid = _without_zeros(divisor, both(left.valid, right.valid), context)
    values, bad = integers.narrowed(
        decimals.divide_truncating(dividend, divisor), np.dtype(np.int64)
    )
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(values, valid, call.type)


def remainder(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``mod``: the sign is that of the dividend."""
    scale, dividend, divisor = _aligned(left, right)
    divisor, valid = _without_zeros(divisor, both(left.valid, right.valid), context)
    size, modulus, _ = decimals.magnitudes_and_signs(dividend, divisor)
    rest = size % modulus
    values = np.where(dividend < 0, -rest, rest)
    return settle(rescaled(values, scale, scale_of(call.type)), call.type, valid, context)
