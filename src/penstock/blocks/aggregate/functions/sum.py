"""SUM: exact, whatever the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import DoesNotFit, Part
from penstock.blocks.aggregate.functions.count import count_part
from penstock.blocks.aggregate.functions.exact import Sums
from penstock.kernels.expressions.vector import Mask, Vector, physical_dtype
from penstock.sql.plan import Call


def sum_part(call: Call) -> Part:
    """The exact sum of the arguments that are not NULL."""
    assert call.argument is not None
    kind = call.argument.type
    return Part("sum", call, lambda count: Sums(count, kind))


def summed(call: Call) -> tuple[Part, ...]:
    """The exact sum, and how many were added: of none, nothing is known."""
    return sum_part(call), count_part(call)


@dataclass(frozen=True)
class Sum:
    """SUM, NULL if there was nothing to add."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        return summed(self.call)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The sums, rounded once if they are floats."""
        sums, counts = parts
        nothing = counts.counts == 0
        if pa.types.is_floating(self.call.type):
            return pa.array(sums.floats(), pa.float64(), mask=nothing)
        return whole_numbers(sums.integers(), self.call.type, nothing)


def whole_numbers(values: Any, kind: Any, nothing: Mask) -> Any:
    """An array of int64, or of a decimal by its unscaled integers; :class:`DoesNotFit` if not."""
    wide = pa.types.is_decimal(kind)
    limit = 10**kind.precision if wide else 1 << 63
    if values.dtype == object or limit < 1 << 63:
        far = (values >= limit) | (values <= -limit if wide else values < -limit)
        far = far.astype(np.bool_) & ~nothing
        if far.any():
            cell = int(np.flatnonzero(far)[0])
            raise DoesNotFit(cell, shown(int(values[cell]), kind.scale if wide else 0))
    values = np.where(nothing, 0, values).astype(physical_dtype(kind))
    return Vector(values, ~nothing if nothing.any() else None, kind).to_arrow()


def shown(unscaled: int, scale: int) -> str:
    """A decimal by its unscaled integer, as it is written.

    >>> shown(-1205, 2), shown(7, 0)
    ('-12.05', '7')
    """
    if scale <= 0:
        return str(unscaled * 10**-scale)
    sign = "-" if unscaled < 0 else ""
    whole, rest = divmod(abs(unscaled), 10**scale)
    return f"{sign}{whole}.{rest:0{scale}d}"
