"""VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP: from the exact sums of x and of x²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Part
from penstock.blocks.aggregate.functions.count import count_part
from penstock.blocks.aggregate.functions.exact import Sums, scale_of
from penstock.blocks.aggregate.functions.sum import sum_part
from penstock.sql.plan import Call


@dataclass(frozen=True)
class Variance:
    """The variance or its root, of the values themselves or as an estimate from a sample."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind = self.call.argument.type
        squares = Part("squares", self.call, lambda count: Sums(count, kind, squared=True))
        return sum_part(self.call), squares, count_part(self.call)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """NULL of no value, and of a sample of one."""
        sums, squares, counts = parts
        sample = self.call.name.endswith("samp")
        nothing = counts.counts <= (1 if sample else 0)
        scale = scale_of(self.call.argument)
        if self.call.name.startswith("stddev"):
            results = sums.deviations(squares, counts.counts, sample) / 10.0**scale
        else:
            results = sums.variances(squares, counts.counts, sample) / 100.0**scale
        return pa.array(results, pa.float64(), mask=nothing)
