"""AVG: the exact sum divided by the count, rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Part
from penstock.blocks.aggregate.functions.exact import scale_of
from penstock.blocks.aggregate.functions.sum import summed, whole_numbers
from penstock.sql.plan import Call


@dataclass(frozen=True)
class Avg:
    """AVG, NULL if there was nothing to average; of decimals a decimal, rounded half up."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        return summed(self.call)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The quotients."""
        sums, counts = parts
        nothing = counts.counts == 0
        kind: Any = self.call.type
        if not pa.types.is_decimal(kind):
            return pa.array(sums.floats(counts.counts), pa.float64(), mask=nothing)
        unit = 10 ** (kind.scale - scale_of(self.call.argument))
        numerators = sums.integers().astype(object) * unit
        quotients = half_up(numerators, np.where(nothing, 1, counts.counts).astype(object))
        return whole_numbers(quotients, kind, nothing)


def half_up(numerators: Any, denominators: Any) -> Any:
    """Quotients rounded to the nearest integer, halves away from zero.

    >>> half_up(np.array([5, -5, 4], object), np.array([2, 2, 3], object)).tolist()
    [3, -3, 1]
    """
    rounded = (2 * abs(numerators) + denominators) // (2 * denominators)
    return np.where(numerators < 0, -rounded, rounded)
