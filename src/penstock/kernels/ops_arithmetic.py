"""Arithmetic on integers, floats and intervals; that on decimals is in ``ops_decimal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels import integers, ops_decimal
from penstock.kernels.context import Context, Operation
from penstock.kernels.floats import as_doubles
from penstock.kernels.vector import (
    Mask,
    Numbers,
    Vector,
    both,
    bounds,
    is_constant,
)
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
        return ops_decimal.sum_or_product(call, left, right, context)
    valid = both(left.valid, right.valid)
    if pa.types.is_floating(call.type):
        return Vector(FLOAT[call.op](left.values, right.values), valid, call.type)
    values, bad = INTEGER[call.op](left.values, right.values)
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(values, valid, call.type)


def _zero(values: Numbers) -> Mask | None:
    """Where a divisor is zero; None if it nowhere is."""
    if is_constant(values) and len(values) and values[0] != 0:
        return None
    zero: Mask = values == 0
    return zero if zero.any() else None


def _divisors(right: Vector, valid: Mask | None, context: Context) -> tuple[Numbers, Mask | None]:
    """The divisors with ones for the zeros, which have failed."""
    zero = _zero(right.values)
    if zero is None:
        return right.values, valid
    one = right.values.dtype.type(1)
    return np.where(zero, one, right.values), context.fail(zero, valid)


def _div(call: Call, context: Context) -> Vector:
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(call.type):
        return ops_decimal.quotient(call, left, right, context)
    divisor = as_doubles(right)
    values, valid = _divisors(divisor, both(left.valid, right.valid), context)
    return Vector(np.divide(as_doubles(left).values, values), valid, call.type)


def _int_div(call: Call, context: Context) -> Vector:
    """Toward zero: NumPy's division rounds down, so that one is added where signs differ."""
    left, right = map(context.vector, call.args)
    if pa.types.is_decimal(left.type):
        return ops_decimal.whole_quotient(call, left, right, context)
    divisor, valid = _divisors(right, both(left.valid, right.valid), context)
    quotient, bad = _truncated(left.values, divisor)
    wide, too_large = integers.narrowed(quotient, np.dtype(np.int64))
    bad = integers.either(bad, too_large)
    if bad is not None:
        valid = context.fail(bad, valid)
    return Vector(wide, valid, call.type)


def _truncated(left: Numbers, right: Numbers) -> integers.Checked:
    """Only the smallest integer by -1 overflows, and only where there is no wider type."""
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
        return ops_decimal.remainder(call, left, right, context)
    divisor, valid = _divisors(right, both(left.valid, right.valid), context)
    low, high = bounds(divisor) if left.values.dtype.kind == "i" else (0, 0)
    if low <= -1 <= high:
        # A remainder by -1 is that by 1, and does not overflow on the way.
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


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(FLOAT, _sum_or_product),
    "div": _div,
    "int_div": _int_div,
    "mod": _mod,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
}
