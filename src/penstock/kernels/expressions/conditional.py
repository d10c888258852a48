"""CASE, COALESCE, NULLIF, LEAST and GREATEST: a value chosen row by row.

A branch is evaluated for the rows that take it; in other rows it cannot fail and is undefined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.logic import compare
from penstock.kernels.expressions.vector import (
    Mask,
    Vector,
    both,
    is_text,
    null_vector,
    text_vector,
)
from penstock.sql.expressions import Call


def choose(rows: Mask, chosen: Vector, other: Vector) -> Vector:
    """``chosen`` in these rows, ``other`` in the rest."""
    if is_text(other.type):
        return text_vector(pc.if_else(pa.array(rows), chosen.values, other.values))
    valid: Any = None
    if chosen.valid is not None or other.valid is not None:
        valid = np.where(rows, _mask(chosen), _mask(other))
    return Vector(np.where(rows, chosen.values, other.values), valid, other.type)


def _mask(vector: Vector) -> Any:
    return True if vector.valid is None else vector.valid


def _true(vector: Vector) -> Mask:
    mask: Mask = vector.values if vector.valid is None else vector.values & vector.valid
    return mask


def _typed(vector: Vector, kind: pa.DataType) -> Vector:
    """The vector; a NULL without a type gets ``kind``."""
    return null_vector(kind, len(vector)) if pa.types.is_null(vector.type) else vector


def _case(call: Call, context: Context) -> Vector:
    """The conditions in turn, each for the rows that satisfied none before it."""
    left = np.ones(context.length, np.bool_) if context.active is None else context.active
    branches: list[tuple[Mask, Vector]] = []
    for condition, value in zip(call.args[:-1:2], call.args[1::2], strict=True):
        rows = _true(context.among(left).vector(condition)) & left
        if rows.any():
            branches.append((rows, _typed(context.among(rows).vector(value), call.type)))
            left = left & ~rows
    if left.any():
        result = _typed(context.among(left).vector(call.args[-1]), call.type)
    else:
        result = null_vector(call.type, context.length)
    for rows, vector in reversed(branches):
        result = vector if rows.all() else choose(rows, vector, result)
    return Vector(result.values, result.valid, call.type)


def _coalesce(call: Call, context: Context) -> Vector:
    """Each argument for the rows where all before it are NULL."""
    result = _typed(context.vector(call.args[0]), call.type)
    for argument in call.args[1:]:
        if result.valid is None:
            break
        missing = ~result.valid
        if missing.any():
            vector = _typed(context.among(missing).vector(argument), call.type)
            result = choose(missing, vector, result)
    return Vector(result.values, result.valid, call.type)


def _null_if(call: Call, context: Context) -> Vector:
    value, other = map(context.vector, call.args)
    valid = both(value.valid, ~_true(compare("eq", value, other)))
    if is_text(value.type):
        return text_vector(value.values, valid)
    return Vector(value.values, valid, call.type)


def _extreme(call: Call, context: Context) -> Vector:
    """LEAST and GREATEST: of equal values the earlier argument, NULLs ignored."""
    op = "lt" if call.op == "least" else "gt"
    result = context.vector(call.args[0])
    for argument in call.args[1:]:
        vector = context.vector(argument)
        better = _true(compare(op, vector, result))
        if result.valid is not None:
            usable = ~result.valid if vector.valid is None else vector.valid & ~result.valid
            better = better | usable
        result = choose(better, vector, result)
    return Vector(result.values, result.valid, call.type)


OPERATIONS: dict[str, Operation] = {
    "case": _case,
    "coalesce": _coalesce,
    "null_if": _null_if,
    "least": _extreme,
    "greatest": _extreme,
}
