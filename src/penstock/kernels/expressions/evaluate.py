"""Bound expressions evaluated over Arrow batches, a whole column at a time.

``docs/expressions.md`` defines what each operation means. Columns without NULLs carry no mask and
pay for none. Overflow is ruled out by the smallest and the largest operand where possible, and
checked row by row otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernels.expressions import (
    arithmetic,
    conditional,
    logic,
    round,
    text,
    times,
)
from penstock.kernels.expressions.cast import cast_vector
from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.dictionary_encoded import by_entries
from penstock.kernels.expressions.vector import Failures, Mask, Vector, constant_vector, vector_of
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal

OPERATIONS: dict[str, Operation] = {
    **logic.OPERATIONS,
    **conditional.OPERATIONS,
    **arithmetic.OPERATIONS,
    **round.OPERATIONS,
    **text.OPERATIONS,
    **times.OPERATIONS,
}
"""Every operator and function of ``docs/expressions.md``, by its name there."""


def evaluate(
    expression: Expression, inputs: Sequence[pa.RecordBatch], failures: Failures
) -> Vector:
    """The value of an expression in every row.

    Parameters
    ----------
    expression
        A bound expression: every implicit conversion is explicit.
    inputs
        The batches of side 0 and, if the expression reads it, side 1; of equal length.
    failures
        Counts failures. A row counts only if its value is needed: not in a branch of CASE that the
        row does not take.

    >>> from penstock.sql.expressions import Call
    >>> batch = pa.record_batch({"x": pa.array([7, 1, None])})
    >>> x = Column(0, 0, "x", pa.int64())
    >>> remainder = Call("mod", (x, Literal(2, pa.int64())), pa.int64())
    >>> evaluate(remainder, [batch], Failures()).to_arrow().to_pylist()
    [1, 1, None]
    """
    if isinstance(expression, Column):
        return _column(expression, inputs)
    with np.errstate(all="ignore"):
        return _evaluate(expression, Context(inputs, inputs[0].num_rows, failures, _evaluate))


def evaluate_each(
    expressions: Sequence[Expression], inputs: Sequence[pa.RecordBatch], failures: Failures
) -> list[Vector]:
    """The values of several expressions, each as :func:`evaluate` gives them."""
    context = Context(inputs, inputs[0].num_rows, failures, _evaluate)
    with np.errstate(all="ignore"):
        return [_evaluate(expression, context) for expression in expressions]


def _column(expression: Column, inputs: Sequence[pa.RecordBatch]) -> Vector:
    """The values of a column of one of the inputs."""
    column: Any = inputs[expression.side].column(expression.index)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return vector_of(column, expression.type)


def select(
    inputs: pa.RecordBatch | Sequence[pa.RecordBatch],
    predicate: Expression,
    failures: Failures | None = None,
) -> Mask:
    """The mask of the rows for which a predicate is true, not NULL."""
    batches = [inputs] if isinstance(inputs, pa.RecordBatch) else inputs
    vector = evaluate(predicate, batches, failures if failures is not None else Failures())
    mask: Mask = vector.values if vector.valid is None else vector.values & vector.valid
    return mask


def _evaluate(expression: Expression, context: Context) -> Vector:
    if isinstance(expression, Column):
        return _column(expression, context.inputs)
    if isinstance(expression, (Cast, Call)):
        found = by_entries(expression, context)
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
