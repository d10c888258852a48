"""Bound expressions evaluated over Arrow batches, a whole column at a time.

What each operation means is in ``docs/expressions.md``; here is only how to get there quickly.
Columns without NULLs carry no mask and pay for none. Overflow is first ruled out by the smallest
and the largest operand, and looked for row by row only where that does not settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernels import (
    ops_arithmetic,
    ops_compare,
    ops_conditional,
    ops_interval,
    ops_like,
    ops_logic,
    ops_rounding,
    ops_text,
    ops_time,
)
from penstock.kernels.context import Context, Operation
from penstock.kernels.ops_cast import cast_vector
from penstock.kernels.vector import Failures, Mask, Vector, constant_vector, vector_of
from penstock.kernels.words import by_words
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal

OPERATIONS: dict[str, Operation] = {
    **ops_compare.OPERATIONS,
    **ops_logic.OPERATIONS,
    **ops_conditional.OPERATIONS,
    **ops_arithmetic.OPERATIONS,
    **ops_rounding.OPERATIONS,
    **ops_text.OPERATIONS,
    **ops_like.OPERATIONS,
    **ops_time.OPERATIONS,
    **ops_interval.OPERATIONS,
}
"""Every operator and function of ``docs/expressions.md``, by its name there."""


def evaluate(
    expression: Expression, inputs: Sequence[pa.RecordBatch], failures: Failures
) -> Vector:
    """The value of an expression in every row.

    Parameters
    ----------
    expression
        Bound: every implicit conversion has been made explicit.
    inputs
        The batches of side 0 and, if the expression reads it, side 1; of equal length.
    failures
        Where failures are counted. A row counts only if somebody asks for its value: not in a
        branch of CASE that is not taken.

    >>> from penstock.sql.expressions import Call
    >>> batch = pa.record_batch({"x": pa.array([7, 1, None])})
    >>> x = Column(0, 0, "x", pa.int64())
    >>> remainder = Call("mod", (x, Literal(2, pa.int64())), pa.int64())
    >>> evaluate(remainder, [batch], Failures()).to_arrow().to_pylist()
    [1, 1, None]
    """
    with np.errstate(all="ignore"):
        return _evaluate(expression, Context(inputs, inputs[0].num_rows, failures, _evaluate))


def select(
    inputs: pa.RecordBatch | Sequence[pa.RecordBatch],
    predicate: Expression,
    failures: Failures | None = None,
) -> Mask:
    """Which rows satisfy a predicate: it is true there, not NULL."""
    batches = [inputs] if isinstance(inputs, pa.RecordBatch) else inputs
    vector = evaluate(predicate, batches, failures if failures is not None else Failures())
    mask: Mask = vector.values if vector.valid is None else vector.values & vector.valid
    return mask


def _evaluate(expression: Expression, context: Context) -> Vector:
    if isinstance(expression, Column):
        column: Any = context.inputs[expression.side].column(expression.index)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return vector_of(column, expression.type)
    if isinstance(expression, Cast | Call):
        found = by_words(expression, context)
        if found is not None:
            return found
    if isinstance(expression, Literal):
        return constant_vector(expression.value, expression.type, context.length)
    if isinstance(expression, Cast):
        return cast_vector(context.vector(expression.arg), expression.type, context)
    operation = OPERATIONS.get(expression.op)
    if operation is None:
        raise PenstockError(
            f"no operation {expression.op!r} in the expression {expression}",
            f"Use one of: {', '.join(sorted(OPERATIONS))}.",
        )
    return operation(expression, context)
