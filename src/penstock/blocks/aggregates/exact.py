"""Exact sums in cells, of integers, decimals and floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregates.cells import Columns, Indices, Lifting

_LOWEST = 1074
"""Every double is a multiple of ``2 ** -1074``."""


class Sums:
    """Exact sums, or sums of squares, of a number type.

    Floats that are no numbers are counted, so that they can be taken out again.
    """

    def __init__(self, count: int, kind: pa.DataType, squared: bool = False) -> None:
        self.kind = kind
        self.squared = squared
        self.floating = pa.types.is_floating(kind)
        self.values: npt.NDArray[Any] = np.zeros(count, object)
        self.special = np.zeros((count, 3), np.int64)

    def __len__(self) -> int:
        return len(self.values)

    def like(self, count: int) -> Sums:
        """As many cells with nothing in them."""
        return Sums(count, self.kind, self.squared)

    def lift(self, tuples: Lifting) -> None:
        """Add the arguments that are not NULL."""
        tuples = tuples.not_null()
        assert tuples.vector is not None
        values, cells = np.asarray(tuples.vector.values), tuples.cells
        if self.floating:
            values = values.astype(np.float64)
            for i, those in enumerate((np.isnan(values), values == np.inf, values == -np.inf)):
                if those.any():
                    np.add.at(self.special, (cells[those], i), 1)
            fine = np.isfinite(values)
            cells = cells[fine]
            mantissas, exponents = np.frexp(values[fine])
            whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
            numbers: Any = whole << (exponents.astype(object) + (_LOWEST + 0))
            numbers = numbers >> 53 if len(numbers) else numbers
        else:
            numbers = values.astype(object)
        np.add.at(self.values, cells, numbers * numbers if self.squared else numbers)

    def combine(self, other: Sums) -> None:
        """Add."""
        self.values = self.values + other.values
        self.special += other.special

    def invert(self, other: Sums) -> None:
        """Subtract."""
        self.values = self.values - other.values
        self.special -= other.special

    def take(self, cells: Indices) -> Sums:
        """Copies of these cells."""
        taken = self.like(0)
        taken.values, taken.special = self.values[cells], self.special[cells]
        return taken

    def put(self, cells: Indices, other: Sums) -> None:
        """Let these cells be the others."""
        self.values[cells], self.special[cells] = other.values, other.special

    def integers(self) -> Any:
        """The sums of integers, or of the unscaled integers of decimals."""
        return self.values

    def floats(self) -> npt.NDArray[np.float64]:
        """The sums of floats, rounded once."""
        return np.array([_rounded(v, 1 << _LOWEST, s) for v, s in self._pairs()], np.float64)

    def quotients(self, counts: Indices) -> npt.NDArray[np.float64]:
        """The sums divided by these numbers, rounded once; 0 where the number is 0."""
        unit = (1 << _LOWEST) if self.floating else 10 ** getattr(self.kind, "scale", 0)
        pairs = zip(self._pairs(), counts.tolist(), strict=True)
        return np.array([_rounded(v, unit * n, s) if n else 0.0 for (v, s), n in pairs], np.float64)

    def _pairs(self) -> Any:
        return zip(self.values.tolist(), self.special.tolist(), strict=True)

    def save(self) -> Columns:
        """The sums as bytes, each with its length."""
        texts = [str(value).encode() for value in self.values.tolist()]
        return {
            "length": np.array([len(text) for text in texts], np.int64),
            "digits": np.frombuffer(b"".join(texts), np.uint8),
            "special": self.special.reshape(-1),
        }

    def load(self, columns: Columns) -> None:
        """Be what was saved."""
        digits, ends = bytes(columns["digits"]), np.cumsum(columns["length"]).tolist()
        starts = [0, *ends[:-1]]
        self.values = np.empty(len(ends), object)
        self.values[:] = [int(digits[a:b]) for a, b in zip(starts, ends, strict=False)]
        self.special = np.array(columns["special"]).reshape(-1, 3)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.special.nbytes


def _rounded(value: int, unit: int, special: list[int]) -> float:
    """``value / unit`` as the nearest float."""
    nan, above, below = special
    if nan or (above and below):
        return float("nan")
    if above or below:
        return float("inf" if above else "-inf")
    try:
        return value / unit
    except OverflowError:
        return float("inf" if value > 0 else "-inf")


def variances(sums: Sums, squares: Sums, counts: Indices, sample: bool) -> npt.NDArray[np.float64]:
    """``(n Σx² - (Σx)²) / n²``, of a sample ``/ n (n - 1)``, rounded once."""
    found = []
    unit = (1 << _LOWEST) if sums.floating else 10 ** getattr(sums.kind, "scale", 0)
    columns = (sums.values, squares.values, counts, sums.special.sum(axis=1))
    for total, square, n, special in zip(*(c.tolist() for c in columns), strict=True):
        parts = n * (n - 1) if sample else n * n
        if special or not parts:
            found.append(math.nan)
            continue
        found.append(_rounded(n * square - total * total, parts * unit * unit, [0, 0, 0]))
    return np.array(found, np.float64)
