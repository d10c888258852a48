"""The `band` and the `sorted` index, for ranges: a grid of cells in one or two dimensions.

A probe searches the cells that its range touches. An index is called `band` if the range has two
ends in at least one dimension, and `sorted` if a one-sided inequality bounds it at one end only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.machine_code import njit
from penstock.kernels.predicate.constraints import Dimension
from penstock.kernels.probe.buckets import REGIONS, CellRanges, KeyColumns, coarser

Array = npt.NDArray[Any]
Extent = tuple[float, float, int]

CELLS = 2
"""Cells per entry, in two dimensions."""
MOST_CELLS = 1 << 22
LONG_ROWS = 1024
"""With more cells per row than this, a row is several regions."""
SAMPLE = 1024
COARSE = 128
"""Sampled entries, and the cells that they are counted in, to detect skew."""
NO_BOUNDS: Array = np.empty(0, np.float64)


@dataclass(frozen=True)
class Scale:
    """The mapping of one dimension's numbers to cells."""

    base: float
    scale: float
    count: int
    bounds: Array

    @classmethod
    def of(cls, values: Array, known: Extent, count: int) -> Scale:
        """Cells of equal width or, if the values are skewed, of equal content."""
        low, high, finite_count = known
        if not finite_count or count <= 1:
            return cls(0.0, 0.0, 1, NO_BOUNDS)
        width = high - low
        sample = values[:: max(1, len(values) // SAMPLE)]
        finite = sample[np.isfinite(sample)]
        scale = count / width if width > 0 and math.isfinite(width) else 0.0
        if scale > 0 and math.isfinite(scale):
            even = cls(low, scale, count, NO_BOUNDS)
            # Skewed if an eighth of the range holds most of the sample.
            coarse = cls(low, COARSE / width, COARSE, NO_BOUNDS)
            filled = np.sort(np.bincount(coarse.cells(finite), minlength=COARSE))[::-1]
            if filled[: COARSE // 8].sum() <= 0.75 * len(finite) or len(finite) < COARSE:
                return even
        finite = np.sort(values[np.isfinite(values)][:: max(1, finite_count // (4 * count))])
        bounds = np.unique(finite[np.linspace(0, len(finite) - 1, count).astype(np.int64)][1:])
        return cls(0.0, 0.0, len(bounds) + 1, bounds)

    @property
    def parameters(self) -> tuple[float, float, int, Array]:
        """As compiled loops take them."""
        return self.base, self.scale, self.count, self.bounds

    def cells(self, values: Array) -> Array:
        """The cell of each number."""
        out = np.empty(len(values), np.int32)
        cells(values, self.base, self.scale, self.count, self.bounds, out)
        return out


class GridLayout:
    """Buckets in one or two dimensions, for range conditions."""

    one_region = False

    def __init__(
        self, dims: Sequence[Dimension], stored: KeyColumns, widths: Sequence[float]
    ) -> None:
        """``widths`` are those of the probes' ranges, in each dimension."""
        self._dims = dims
        count = len(stored)
        self._slack = [slack_of(dim, stored) for dim in dims]
        extents = [extent(stored[dim.stored]) for dim in dims]
        rows = max(1, min(count // 2, MOST_CELLS))
        if len(dims) == 2:
            low, high, finite_count = extents[0]
            width = high - low if finite_count else 0.0
            wanted = width / max(widths[0], width * 1e-6, 1e-300) if width > 0 else 1
            rows = int(max(1, min(wanted, 4 * math.isqrt(count) + 1, 65_536)))
        self._scales = [Scale.of(stored[dims[0].stored], extents[0], rows)]
        self.columns = 1
        if len(dims) == 2:
            per_row = max(1, min(CELLS * count // max(1, rows), MOST_CELLS // max(1, rows)))
            self._scales.append(Scale.of(stored[dims[1].stored], extents[1], per_row))
            self.columns = self._scales[1].count
        self.buckets = self._scales[0].count * self.columns
        self._even = all(
            dim.lower is not None
            and dim.upper is not None
            and math.isfinite(dim.lower.low - slack)
            and not len(scale.bounds)
            for dim, scale, slack in zip(dims, self._scales, self._slack, strict=True)
        )
        self._rectangle = self._rectangle_of() if len(dims) == 2 and self._even else None
        self._has_long_rows = self.columns > LONG_ROWS and self._scales[0].count < REGIONS

    def _rectangle_of(self) -> list[Any]:
        """What compiled loops take to find rectangles: of each dimension keys, offsets, scale."""
        given: list[Any] = []
        for dim, scale, slack in zip(self._dims, self._scales, self._slack, strict=True):
            assert dim.lower is not None and dim.upper is not None
            given.append((dim.lower.probe, dim.upper.probe))
            given.append((dim.lower.low - slack, dim.upper.high))
            given.append((scale.base, scale.scale, scale.count))
        return given

    def place(self, stored: KeyColumns) -> Array:
        """The bucket of each entry."""
        values = [stored[dim.stored] for dim in self._dims]
        out = self._scales[0].cells(values[0])
        if len(values) == 2:
            add_cells(values[1], *self._scales[1].parameters, out)
        return out

    def ranges(self, probe: KeyColumns) -> CellRanges:
        """The cells that each probe must search."""
        if self._rectangle is not None:
            return self._rectangles(probe, *self._rectangle)
        rows = self._first(0, probe), self._last(0, probe)
        if len(self._dims) == 1:
            nothing = np.zeros(len(probe), np.int32)
            return CellRanges(*rows, nothing, nothing)
        return CellRanges(*rows, self._first(1, probe), self._last(1, probe))

    @staticmethod
    def _rectangles(
        probe: KeyColumns,
        x: Any,
        x_offsets: Any,
        x_scale: Any,
        y: Any,
        y_offsets: Any,
        y_scale: Any,
    ) -> CellRanges:
        """The same in one call, for the usual case: two-sided ranges, cells of equal widths."""
        out = np.empty((4, len(probe)), np.int32)
        cells = out[0], out[1], out[2], out[3]
        of_x, of_y = (probe[x[0]], probe[x[1]]), (probe[y[0]], probe[y[1]])
        rectangles(of_x, x_offsets, x_scale, of_y, y_offsets, y_scale, cells)
        return CellRanges(*cells)

    def regions(self, probe: KeyColumns) -> tuple[Array, int]:
        """The region where each probe starts to search, and the number of regions."""
        where, rows = self._first(0, probe), self._scales[0].count
        if not self._has_long_rows:
            return coarser(where, rows)
        per_row = REGIONS // rows
        step = np.int32(-(-self.columns // per_row))
        where *= np.int32(per_row)
        where += self._first(1, probe) // step
        return where, rows * per_row

    def _first(self, number: int, probe: KeyColumns) -> Array:
        dim, scale = self._dims[number], self._scales[number]
        offset = dim.lower.low - self._slack[number] if dim.lower is not None else -math.inf
        if dim.lower is None or not math.isfinite(offset):
            return np.zeros(len(probe), np.int32)
        out = np.empty(len(probe), np.int32)
        limit_cells(probe[dim.lower.probe], offset, -1.0, *scale.parameters, out)
        return out

    def _last(self, number: int, probe: KeyColumns) -> Array:
        dim, scale = self._dims[number], self._scales[number]
        if dim.upper is None:
            return np.full(len(probe), scale.count - 1, np.int32)
        out = np.empty(len(probe), np.int32)
        values = probe[dim.upper.probe]
        limit_cells(values, dim.upper.high, 1.0, *scale.parameters, out)
        return out


def slack_of(dim: Dimension, stored: KeyColumns) -> float:
    """How far below the key that is bounded from below the indexed key may be."""
    if dim.other is None:
        return 0.0
    return float(largest_gap(stored[dim.other], stored[dim.stored]))


def limits(dim: Dimension, probe: KeyColumns, slack: float) -> tuple[Array | None, Array | None]:
    """The smallest and the largest number that the indexed key may have, for each probe."""

    def at(number: int, offset: float, sign: float) -> Array:
        values = probe[number]
        # Conversions to floats and the sum are rounded; the limit is moved out by more than that.
        with np.errstate(invalid="ignore", over="ignore"):
            return values + offset + sign * (np.abs(values) + abs(offset)) * 2.0**-50

    low = None
    if dim.lower is not None:
        offset = dim.lower.low - slack
        low = at(dim.lower.probe, offset, -1.0) if math.isfinite(offset) else None
    high = None if dim.upper is None else at(dim.upper.probe, dim.upper.high, 1.0)
    return low, high


# -- compiled loops ----------------------------------------------------------------------


@njit(inline="always")
def even_cell(value: float, base: float, scale: float, count: int) -> Any:
    """The cell of a number, of ``count`` of equal widths from ``base`` on.

    It never falls as the number grows; NaN is above everything. Without branches, so that loops
    over it vectorise.
    """
    place = (value - base) * scale
    place = place if place < count else count - 1.0
    return np.int32(place if place > 0.0 else 0.0)


@njit()
def bounded_cell(value: float, bounds: Array) -> int:
    """How many of the bounds are not above the number; NaN is above everything."""
    low, high = 0, len(bounds)
    if value != value:
        return high
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit()
def cell(value: float, base: float, scale: float, count: int, bounds: Array) -> Any:
    """The cell of one number: by the bounds if there are any, else of equal widths."""
    if bounds.shape[0] > 0:
        return bounded_cell(value, bounds)
    return even_cell(value, base, scale, count)


@njit()
def cells(values: Array, base: float, scale: float, count: int, bounds: Array, out: Array) -> None:
    """The cell of each number: by the bounds if there are any, else of equal widths."""
    if bounds.shape[0] > 0:
        for i in range(values.shape[0]):
            out[i] = bounded_cell(values[i], bounds)
    else:
        for i in range(values.shape[0]):
            out[i] = even_cell(values[i], base, scale, count)


@njit()
def add_cells(
    values: Array, base: float, scale: float, count: int, bounds: Array, out: Array
) -> None:
    """From the row of each point to its bucket, rows having ``count`` cells."""
    if bounds.shape[0] > 0:
        for i in range(values.shape[0]):
            out[i] = out[i] * count + bounded_cell(values[i], bounds)
    else:
        for i in range(values.shape[0]):
            out[i] = out[i] * np.int32(count) + even_cell(values[i], base, scale, count)


@njit()
def even_limits(
    values: Array, offset: float, sign: float, base: float, scale: float, count: int, out: Array
) -> None:
    """As :func:`limit_cells`, for cells of equal widths."""
    margin = sign * 2.0**-50
    for i in range(values.shape[0]):
        value = values[i] + offset + margin * (abs(values[i]) + abs(offset))
        out[i] = even_cell(value, base, scale, count)


@njit()
def limit_cells(
    values: Array,
    offset: float,
    sign: float,
    base: float,
    scale: float,
    count: int,
    bounds: Array,
    out: Array,
) -> None:
    """The cell of each number plus an offset, moved out by more than the sum may be rounded."""
    if bounds.shape[0] > 0:
        margin = sign * 2.0**-50
        for i in range(values.shape[0]):
            value = values[i] + offset + margin * (abs(values[i]) + abs(offset))
            out[i] = bounded_cell(value, bounds)
    else:
        even_limits(values, offset, sign, base, scale, count, out)


@njit()
def finite_extent(values: Array) -> tuple[float, float, int]:
    """The smallest and the largest finite number, and how many are finite."""
    low, high, count = np.inf, -np.inf, 0
    for i in range(values.shape[0]):
        value = values[i]
        if value - value == 0.0:
            count += 1
            low = min(low, value)
            high = max(high, value)
    return low, high, count


def extent(values: Array) -> tuple[float, float, int]:
    """As :func:`finite_extent`, and faster where all numbers are finite."""
    if len(values):
        low, high = float(values.min()), float(values.max())
        if math.isfinite(low) and math.isfinite(high):
            return low, high, len(values)
    return finite_extent(values)


@njit()
def largest_number_gap(above: Array, below: Array) -> float:
    """The largest difference; 0 if there is none.

    NaN is infinitely far above every number. Between two infinities or two NaNs there is nothing:
    a probe that matches both is in their cell.
    """
    largest = -np.inf
    for i in range(above.shape[0]):
        gap = above[i] - below[i]
        if above[i] != above[i] and below[i] == below[i]:
            gap = np.inf
        if gap > largest:
            largest = gap
    return largest if largest > -np.inf else 0.0


def largest_gap(above: Array, below: Array) -> float:
    """As :func:`largest_number_gap`, and faster where all differences are finite."""
    if len(above):
        with np.errstate(invalid="ignore", over="ignore"):
            largest = float(np.subtract(above, below).max())
        if math.isfinite(largest):
            return largest
    return float(largest_number_gap(above, below))


@njit()
def rectangles(
    x: tuple[Array, Array],
    x_offsets: tuple[float, float],
    x_scale: tuple[float, float, int],
    y: tuple[Array, Array],
    y_offsets: tuple[float, float],
    y_scale: tuple[float, float, int],
    out: tuple[Array, Array, Array, Array],
) -> None:
    """As :func:`limit_cells`, for both limits of two dimensions whose cells are of equal widths."""
    even_limits(x[0], x_offsets[0], -1.0, *x_scale, out[0])
    even_limits(x[1], x_offsets[1], 1.0, *x_scale, out[1])
    even_limits(y[0], y_offsets[0], -1.0, *y_scale, out[2])
    even_limits(y[1], y_offsets[1], 1.0, *y_scale, out[3])
