"""Comparisons, IN, AND, OR, NOT and IS NULL, in three-valued logic.

NaN equals itself and is above every other number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.vector import (
    Mask,
    Numbers,
    Vector,
    boolean_vector,
    both,
    is_constant,
    is_text,
)
from penstock.sql.expressions import Call, Expression, Literal


def both_true(left: Vector, right: Vector) -> Vector:
    """``left AND right``: false if either is, else NULL if either is."""
    if left.valid is None and right.valid is None:
        return Vector(left.values & right.values, None, pa.bool_())
    left_true, left_false = _known(left)
    right_true, right_false = _known(right)
    true = left_true & right_true
    return Vector(true, true | left_false | right_false, pa.bool_())


def either_true(left: Vector, right: Vector) -> Vector:
    """``left OR right``: true if either is, else NULL if either is."""
    if left.valid is None and right.valid is None:
        return Vector(left.values | right.values, None, pa.bool_())
    left_true, left_false = _known(left)
    right_true, right_false = _known(right)
    true = left_true | right_true
    return Vector(true, true | (left_false & right_false), pa.bool_())


def _known(vector: Vector) -> tuple[np.ndarray, np.ndarray]:
    """The masks of true and of false rows."""
    if vector.valid is None:
        return vector.values, ~vector.values
    return vector.values & vector.valid, ~vector.values & vector.valid


def _and(call: Call, context: Context) -> Vector:
    return reduce(both_true, map(context.vector, call.args))


def _or(call: Call, context: Context) -> Vector:
    return reduce(either_true, map(context.vector, call.args))


def _not(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    return Vector(~vector.values, vector.valid, pa.bool_())


def _is_null(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    if vector.valid is None:
        return Vector(np.broadcast_to(np.False_, (context.length,)), None, pa.bool_())
    return Vector(~vector.valid, None, pa.bool_())


NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
FEW_VALUES = 4
"""IN lists up to this length are compared value by value, longer ones by a set lookup."""


def compare(op: str, left: Vector, right: Vector) -> Vector:
    """``left op right`` of two vectors of one type."""
    if is_text(left.type):
        return boolean_vector(ARROW[op](left.values, right.values))
    valid = both(left.valid, right.valid)
    if left.values.dtype.kind == "f":
        return Vector(_compare_floats(op, left.values, right.values), valid, pa.bool_())
    return Vector(NUMPY[op](left.values, right.values), valid, pa.bool_())


def has_nan(values: Numbers) -> bool:
    """Whether any float is NaN: the minimum is, then."""
    return len(values) > 0 and bool(np.isnan(values[0] if is_constant(values) else values.min()))


def _compare_floats(op: str, left: Numbers, right: Numbers) -> Mask:
    """Without NaN on the right, a NaN on the left is above all: ``>`` is the opposite of ``<=``."""
    if has_nan(right):
        if not has_nan(left):
            return _compare_floats(MIRRORED[op], right, left)
        return _compare_with_nans(op, left, right)
    if op in ("gt", "ge"):
        mask: Mask = NUMPY["le" if op == "gt" else "lt"](left, right)
        return np.logical_not(mask, out=mask)
    return np.asarray(NUMPY[op](left, right))


def _compare_with_nans(op: str, left: Numbers, right: Numbers) -> Mask:
    left_nan, right_nan = np.isnan(left), np.isnan(right)
    mask: Mask
    if op in ("gt", "ge"):
        return _compare_with_nans(MIRRORED[op], right, left)
    if op == "lt":
        mask = (left < right) | (right_nan & ~left_nan)
    elif op == "le":
        mask = (left <= right) | right_nan
    else:
        mask = (left == right) | (left_nan & right_nan)
        if op == "ne":
            mask = ~mask
    return mask


def _comparison(call: Call, context: Context) -> Vector:
    left, right = call.args
    if is_text(left.type) and _is_value(right):
        return boolean_vector(ARROW[call.op](context.vector(left).values, _scalar(right)))
    if is_text(left.type) and _is_value(left):
        op = MIRRORED[call.op]
        return boolean_vector(ARROW[op](context.vector(right).values, _scalar(left)))
    return compare(call.op, context.vector(left), context.vector(right))


def _is_value(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is not None


def _scalar(expression: Expression) -> Any:
    assert isinstance(expression, Literal)
    return pa.scalar(expression.value, expression.type)


def _in(call: Call, context: Context) -> Vector:
    needle, *choices = call.args
    values = [choice.value for choice in choices if isinstance(choice, Literal)]
    plain = pa.types.is_integer(needle.type) or pa.types.is_temporal(needle.type)
    if len(values) < len(choices) or None in values:
        return _in_one_by_one(call, context)
    if is_text(needle.type):
        vector = context.vector(needle)
        found = pc.is_in(vector.values, value_set=pa.array(values, needle.type))
        return Vector(boolean_vector(found).values, vector.valid, pa.bool_())
    if plain and len(choices) > FEW_VALUES:
        vector = context.vector(needle)
        found = np.isin(vector.values, np.array(values, vector.values.dtype))
        return Vector(found, vector.valid, pa.bool_())
    return _in_one_by_one(call, context)


def _in_one_by_one(call: Call, context: Context) -> Vector:
    needle = context.vector(call.args[0])
    tests = (compare("eq", needle, context.vector(choice)) for choice in call.args[1:])
    return reduce(either_true, tests)


OPERATIONS: dict[str, Operation] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": _is_null,
    **dict.fromkeys(NUMPY, _comparison),
    "in": _in,
}
