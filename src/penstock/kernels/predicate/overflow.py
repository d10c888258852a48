"""Whether sums and products inside a kernel can overflow, given the bounds of the keys.

A kernel computes integers in 64 bits without checks. That is correct as long as the bounds of the
keys show that every result fits its SQL type. Otherwise the conjunct is evaluated on pairs, where
an overflow gives NULL and is counted.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.kernels.predicate.predicate import (
    Both,
    Comparison,
    ComputedNumber,
    Condition,
    Constant,
    Either,
    KeyOperand,
    Operand,
)
from penstock.sql.expressions import Literal

Bounds = tuple[int, int]
BITS: dict[pa.DataType, int] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32}


def stays_in_range(
    condition: Condition,
    constants: list[Literal],
    bounds_of: Callable[[KeyOperand], Bounds | None],
) -> bool:
    """Whether no computation in the condition can overflow.

    ``bounds_of`` gives the smallest and largest value of a native integer key, or None for floats.
    """
    if isinstance(condition, Both | Either):
        return all(stays_in_range(term, constants, bounds_of) for term in condition.terms)
    if isinstance(condition, Comparison):
        try:
            for operand in (condition.left, condition.right):
                if not condition.floating and isinstance(operand, ComputedNumber):
                    _bounds(operand, constants, bounds_of)
        except OverflowError:
            return False
    return True


def _bounds(
    operand: Operand, constants: list[Literal], bounds_of: Callable[[KeyOperand], Bounds | None]
) -> Bounds:
    if isinstance(operand, Constant):
        value = constants[operand.index].value
        if not isinstance(value, int):
            raise OverflowError
        return value, value
    if isinstance(operand, KeyOperand):
        return bounds_of(operand) or (0, 0)
    args = [_bounds(arg, constants, bounds_of) for arg in operand.args]
    low, high = _combine(operand.op, args)
    limit = 1 << (BITS.get(operand.type, 64) - 1)
    if low < -limit or high >= limit:
        raise OverflowError
    return low, high


def _combine(op: str, args: list[Bounds]) -> Bounds:
    (low, high), *rest = args
    if op == "widen":
        return low, high
    if op == "neg":
        return -high, -low
    if op == "abs":
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    other_low, other_high = rest[0]
    if op == "add":
        return low + other_low, high + other_high
    if op == "sub":
        return low - other_high, high - other_low
    products = [x * y for x in (low, high) for y in (other_low, other_high)]
    return min(products), max(products)
