"""The context of an evaluation: the input rows, and the count of failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.vector import Failures, Mask, Vector
from penstock.sql.expressions import Call, Expression


@dataclass(frozen=True)
class Context:
    """One evaluation of an expression.

    Parameters
    ----------
    inputs
        The batches, by side.
    length
        The number of rows.
    failures
        Counts failures.
    evaluate
        Evaluates an argument; operations call it through :meth:`vector`.
    active
        The rows whose values are needed, None for all: a row cannot fail in a branch of CASE that
        it does not take. In other rows the result is undefined.
    """

    inputs: Sequence[pa.RecordBatch]
    length: int
    failures: Failures
    evaluate: Callable[[Expression, Context], Vector]
    active: Mask | None = None

    def vector(self, expression: Expression) -> Vector:
        """The values of an argument."""
        return self.evaluate(expression, self)

    def among(self, rows: Mask) -> Context:
        """The same evaluation for these rows only."""
        return replace(self, active=rows if self.active is None else rows & self.active)

    def fail(self, bad: Mask, valid: Mask | None) -> Mask | None:
        """Count the rows that are ``bad`` though their arguments are ``valid``; the new mask."""
        if not bad.any():
            return valid
        if valid is not None:
            bad = bad & valid
        counted = bad if self.active is None else bad & self.active
        self.failures.count += int(np.count_nonzero(counted))
        return ~bad if valid is None else valid & ~bad


Operation: TypeAlias = Callable[[Call, Context], Vector]
"""The implementation of an operator: evaluates a call in a context."""
