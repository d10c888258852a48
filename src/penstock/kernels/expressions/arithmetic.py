"""Arithmetic on integers, floats, decimals and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions import decimals, integers
from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.decimals import fit_decimals, rescaled, scale_of, times_power
from penstock.kernels.expressions.floats import as_doubles
from penstock.kernels.expressions.vector import Mask, Numbers, Vector, both, bounds, is_constant
from penstock.sql.expressions import Call

FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
}
INTEGER: dict[str, Callable[[Numbers, Numbers], integers.Checked]] = {
    "add": integers.add,
    "sub": integers.subtract,
    "mul": integers.multiply,
}


def _sum_or_product(call: Call, context: Context) -> Vector:
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(call.type):
        return _decimal_sum_or_product(call, left, right, context)
    valid = both(left.valid, right.valid)
    if pa.types.is_floating(call.type):
        return Vector(FLOAT[call.op](left.values, right.values), valid, call.type)
    values, bad = INTEGER[call.op](left.values, right.values)
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(values, valid, call.type)


def _zero(values: Numbers) -> Mask | None:
    """The mask of zero divisors; None if there are none."""
    if is_constant(values) and len(values) and values[0] != 0:
        return None
    zero: Mask = values == 0
    return zero if zero.any() else None


def _divisors(right: Vector, valid: Mask | None, context: Context) -> tuple[Numbers, Mask | None]:
    """The divisors, with zeros replaced by ones and counted as failures."""
    zero = _zero(right.values)
    if zero is None:
        return right.values, valid
    one = right.values.dtype.type(1)
    return np.where(zero, one, right.values), context.fail(zero, valid)


def _div(call: Call, context: Context) -> Vector:
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(call.type):
        return _decimal_quotient(call, left, right, context)
    divisor = as_doubles(right)
    values, valid = _divisors(divisor, both(left.valid, right.valid), context)
    return Vector(np.divide(as_doubles(left).values, values), valid, call.type)


def _int_div(call: Call, context: Context) -> Vector:
    """Rounds toward zero: NumPy's division rounds down, so one is added where signs differ."""
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(left.type):
        return _decimal_whole_quotient(call, left, right, context)
    divisor, valid = _divisors(right, both(left.valid, right.valid), context)
    quotient, bad = _truncated(left.values, divisor)
    wide, too_large = integers.narrowed(quotient, np.dtype(np.int64))
    bad = integers.either(bad, too_large)
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(wide, valid, call.type)


def _truncated(left: Numbers, right: Numbers) -> integers.Checked:
    """The quotients toward zero. Only the smallest 64-bit integer divided by -1 overflows."""
    if left.dtype.kind == "u":
        return left // right, None
    left, right = left.astype(np.int64, copy=False), right.astype(np.int64, copy=False)
    smallest = int(np.iinfo(np.int64).min)
    bad: Mask | None = None
    if bounds(left)[0] == smallest and bounds(right)[0] <= -1 <= bounds(right)[1]:
        bad = (left == smallest) & (right == -1)
        left = np.where(bad, 0, left)
    quotient = left // right
    quotient += (quotient < 0) & (quotient * right != left)
    return quotient, bad


def _mod(call: Call, context: Context) -> Vector:
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(call.type):
        return _decimal_remainder(call, left, right, context)
    divisor, valid = _divisors(right, both(left.valid, right.valid), context)
    low, high = bounds(divisor) if left.values.dtype.kind == "i" else (0, 0)
    if low <= -1 <= high:
        # The remainder by -1 is that by 1, which cannot overflow.
        divisor = np.where(divisor == -1, divisor.dtype.type(1), divisor)
    return Vector(np.fmod(left.values, divisor), valid, call.type)


def _neg(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    if vector.values.dtype.kind in "fO" or pa.types.is_decimal(call.type):
        return Vector(np.negative(vector.values), vector.valid, call.type)
    zeros = integers.constant(0, context.length, vector.values.dtype)
    values, bad = integers.subtract(zeros, vector.values)
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


def _abs(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    values, valid = vector.values, vector.valid
    if values.dtype.kind == "i" and bounds(values)[0] == int(np.iinfo(values.dtype).min):
        valid = context.fail(values == np.iinfo(values.dtype).min, valid)
    return Vector(np.abs(values), valid, call.type)


def _sign(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    values = vector.values
    if values.dtype.kind == "f":
        # Adding 0.0 makes 0.0 of the sign of -0.0, which NumPy gives as -0.0.
        signs = np.sign(values).astype(np.float64) + 0.0
    else:
        signs = (values > 0).astype(np.float64) - (values < 0)
    return Vector(signs, vector.valid, call.type)


# -- decimals: exact, then rounded half away from zero to the scale of the result --------


def _decimal_sum_or_product(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
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
    return fit_decimals(rescaled(values, scale, scale_of(call.type)), call.type, valid, context)


def _aligned(left: Vector, right: Vector) -> tuple[int, Numbers, Numbers]:
    """The larger scale, and both operands at that scale."""
    scale = max(scale_of(left.type), scale_of(right.type))
    return (
        scale,
        times_power(left.values, scale - scale_of(left.type)),
        times_power(right.values, scale - scale_of(right.type)),
    )


def _without_zeros(
    divisor: Numbers, valid: Mask | None, context: Context
) -> tuple[Numbers, Mask | None]:
    """The divisors, with zeros replaced by ones and counted as failures."""
    zero = np.asarray(divisor == 0, dtype=np.bool_)
    if not zero.any():
        return divisor, valid
    return np.where(zero, 1, divisor), context.fail(zero, valid)


def _decimal_quotient(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``div``."""
    divisor, valid = _without_zeros(right.values, both(left.valid, right.valid), context)
    shift = scale_of(call.type) - scale_of(left.type) + scale_of(right.type)
    dividend = times_power(left.values, max(shift, 0))
    divisor = times_power(divisor, max(-shift, 0))
    return fit_decimals(decimals.divide_rounding(dividend, divisor), call.type, valid, context)


def _decimal_whole_quotient(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``int_div`` of 20-digit decimals, the common type of signed and unsigned integers."""
    _, dividend, divisor = _aligned(left, right)
    divisor, valid = _without_zeros(divisor, both(left.valid, right.valid), context)
    values, bad = integers.narrowed(
        decimals.divide_truncating(dividend, divisor), np.dtype(np.int64)
    )
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(values, valid, call.type)


def _decimal_remainder(call: Call, left: Vector, right: Vector, context: Context) -> Vector:
    """``mod``: the sign is that of the dividend."""
    scale, dividend, divisor = _aligned(left, right)
    divisor, valid = _without_zeros(divisor, both(left.valid, right.valid), context)
    size, modulus, _ = decimals.magnitudes_and_signs(dividend, divisor)
    rest = size % modulus
    values = np.where(dividend < 0, -rest, rest)
    return fit_decimals(rescaled(values, scale, scale_of(call.type)), call.type, valid, context)


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(FLOAT, _sum_or_product),
    "div": _div,
    "int_div": _int_div,
    "mod": _mod,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
}
