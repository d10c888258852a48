"""AND, OR, NOT and IS NULL, in three-valued logic."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa

from penstock.kernels.context import Context, Operation
from penstock.kernels.vector import Vector
from penstock.sql.expressions import Call


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
    """Where it is true and where it is false."""
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


OPERATIONS: dict[str, Operation] = {"and": _and, "or": _or, "not": _not, "is_null": _is_null}
