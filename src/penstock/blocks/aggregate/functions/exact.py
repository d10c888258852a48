"""Exact sums in cells, of integers, decimals and floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Columns, Indices, Lifting
from penstock.kernels.aggregate.exact_sum import ExactSums
from penstock.kernels.aggregate.variance import variances
from penstock.sql.expressions import Expression

_SMALL = 1e-280
"""Variances below this have lost digits."""
Floats = npt.NDArray[np.float64]


class Sums:
    """Exact sums, or sums of squares, of a number type."""

    can_share = True

    def __init__(self, count: int, kind: Any, squared: bool = False) -> None:
        self.kind = kind
        self.squared = squared
        self.sums = ExactSums(count)

    def __len__(self) -> int:
        return len(self.sums)

    def _of(self, sums: ExactSums) -> Sums:
        made = Sums(0, self.kind, self.squared)
        made.sums = sums
        return made

    def like(self, count: int) -> Sums:
        """As many empty cells."""
        return self._of(self.sums.like(count))

    def lift(self, tuples: Lifting) -> None:
        """Add the arguments that are not NULL."""
        assert tuples.vector is not None
        values = np.asarray(tuples.vector.values)
        if self.squared:
            self.sums.add_squares(tuples.every_cell(), values, tuples.valid)
        elif isinstance(tuples.cells, int):
            self.sums.add_at(tuples.cells, values, tuples.valid)
        else:
            self.sums.add(tuples.cells, values, tuples.valid)

    def combine(self, other: Sums) -> None:
        """Add."""
        self.sums.merge_row(0, other.sums, 0, len(self))

    def invert(self, other: Sums) -> None:
        """Subtract."""
        self.sums.merge_row(0, other.sums, 0, len(self), -1)

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Let every row of cells be the sum of all up to it, or from it on."""
        self.sums.accumulate(rows, backwards)

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Sums:
        """The sums of the cells in whose intervals each row is."""
        return self._of(self.sums.of_intervals(begins, ends, count))

    def take(self, cells: Indices) -> Sums:
        """Copies of these cells."""
        return self._of(self.sums.taken(cells))

    def put(self, cells: Indices, other: Sums) -> None:
        """Let these cells be the others."""
        self.sums.put(cells, other.sums)

    def floats(self, counts: Indices | None = None) -> Floats:
        """The sums, divided by counts if there are any, as the nearest floats."""
        floats: Floats = self.sums.as_floats(np.arange(len(self), dtype=np.int32), counts)
        return floats

    def integers(self) -> Any:
        """The sums of integers, or of the unscaled integers of decimals: int64 if they fit."""
        every = np.arange(len(self), dtype=np.int32)
        values, fits = self.sums.as_int64(every)
        if fits.all():
            return values
        wide = np.empty(len(self), object)
        wide[:] = self.sums.as_integers(every)
        return wide

    def variances(self, squares: Sums, counts: Indices, sample: bool) -> Floats:
        """The variances of values whose sums these are."""
        every = np.arange(len(self), dtype=np.int32)
        found: Floats = variances(self.sums, squares.sums, counts, every, sample)
        return found

    def deviations(self, squares: Sums, counts: Indices, sample: bool) -> Floats:
        """The roots of the variances."""
        found = self.variances(squares, counts, sample)
        # A variance may be too large or too small for a float when its root is not.
        odd = ~np.isfinite(found) | (found < _SMALL)
        odd &= self.sums.is_finite(np.arange(len(self), dtype=np.int32)) & (counts > sample)
        roots = np.sqrt(found)
        for cell in np.flatnonzero(odd).tolist():
            roots[cell] = self._deviation(squares, int(counts[cell]), sample, cell)
        return roots

    def _deviation(self, squares: Sums, count: int, sample: bool, cell: int) -> float:
        where = np.array([cell], np.int32)
        (total,), (square,) = self.sums.as_integers(where), squares.sums.as_integers(where)
        spread = count * square * Fraction(2) ** squares.sums.exponent
        spread -= total * total * Fraction(4) ** self.sums.exponent
        return _root(spread / (count * (count - sample)))

    def save(self) -> Columns:
        """The sums as the kernel keeps them."""
        return self.sums.state()

    def load(self, columns: Columns) -> None:
        """Restore from saved state."""
        self.sums.load(columns)

    @property
    def nbytes(self) -> int:
        return self.sums.nbytes


def _root(value: Fraction) -> float:
    """The square root, right to within the last digit of a float."""
    shift = 256 - value.numerator.bit_length() + value.denominator.bit_length()
    shift += shift % 2
    digits = math.isqrt(int(value * Fraction(2) ** shift))
    return math.ldexp(digits >> 64, 64 - shift // 2) if digits else 0.0


def scale_of(argument: Expression | None) -> int:
    """The digits after the point of an argument."""
    kind: Any = None if argument is None else argument.type
    return int(kind.scale) if kind is not None and pa.types.is_decimal(kind) else 0
