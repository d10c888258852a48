"""Indexes by bucket: `hash` for equality, `band` for ranges in one or two dimensions, `sorted` for
one-sided inequalities. They differ in how a key becomes a bucket, and in nothing else.

Entries are held in *segments*, each a copy of the keys in bucket order, so that the candidates of a
probe are contiguous. Segments cover the window from old to young, their sizes at least halving, and
a short tail at the end is in none and met by the nested loop. When the tail has grown it becomes a
segment, with the younger ones that are not larger: each entry is copied a logarithmic number of
times. Nothing is ever removed: a probe's live range says which entries count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels import buckets
from penstock.kernels.constraints import Dimension
from penstock.kernels.predicate import Key

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Extent = tuple[float, float, int]

CELLS = 2
MOST_CELLS = 1 << 22
REGIONS = 1 << 14
LONG_ROWS = 1024
"""Cells per row from which on probes are told apart along their rows, too."""
SAMPLE = 1024
COARSE = 128
NO_BOUNDS: Array = np.empty(0, np.float64)


def numbers(key: Key, values: Array) -> Array:
    """A key column as floats that order as its values do; NaN stays NaN."""
    kind = key.expression.type
    if key.kind == "compare" and pa.types.is_floating(kind):
        floating = np.float32 if values.dtype == np.int32 else np.float64
        bits, out = np.empty_like(values), np.empty(len(values), np.float64)
        top = values.dtype.type(np.iinfo(values.dtype).max)
        buckets.turn_back(values, top, bits, bits.view(floating), out)
        return out
    if key.kind == "compare" and pa.types.is_uint64(kind):
        return (values ^ np.iinfo(np.int64).min).view(np.uint64).astype(np.float64)
    return values.astype(np.float64)


class Numbers:
    """The keys of some tuples of one side; as floats, too, each column when it is asked for."""

    def __init__(self, kinds: Sequence[Key], keys: Sequence[Array]) -> None:
        self._kinds = kinds
        self.keys = keys
        self._known: dict[int, Array] = {}
        self._hashed: dict[tuple[int, ...], Array] = {}

    def __len__(self) -> int:
        return len(self.keys[0])

    def __getitem__(self, number: int) -> Array:
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = numbers(self._kinds[number], self.keys[number])
        return found

    def hashed(self, columns: tuple[int, ...]) -> Array:
        """A 64-bit hash of the given keys of each tuple."""
        found = self._hashed.get(columns)
        if found is None:
            found = self._hashed[columns] = np.empty(len(self), np.uint64)
            for i, number in enumerate(columns):
                bits = 64 if i == len(columns) - 1 else 0
                buckets.hash_cells(self.keys[number], bits, found, i == 0)
        return found


@dataclass(frozen=True)
class Scale:
    """How numbers of one dimension become cells."""

    base: float
    scale: float
    count: int
    bounds: Array

    @classmethod
    def of(cls, values: Array, known: Extent, count: int) -> Scale:
        """Cells of equal width or, where those would be filled too unevenly, of equal content."""
        low, high, finite_count = known
        if not finite_count or count <= 1:
            return cls(0.0, 0.0, 1, NO_BOUNDS)
        spread = high - low
        sample = values[:: max(1, len(values) // SAMPLE)]
        finite = sample[np.isfinite(sample)]
        scale = count / spread if spread > 0 and math.isfinite(spread) else 0.0
        if scale > 0 and math.isfinite(scale):
            even = cls(low, scale, count, NO_BOUNDS)
            # Uneven if an eighth of the range holds most of it, as far as a sample can tell.
            coarse = cls(low, COARSE / spread, COARSE, NO_BOUNDS)
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
        buckets.cells(values, self.base, self.scale, self.count, self.bounds, out)
        return out


@dataclass(frozen=True)
class Ranges:
    """The cells that each probe must look into: rows ``x0 .. x1``, in each ``y0 .. y1``."""

    x0: Array
    x1: Array
    y0: Array
    y1: Array


class Grid:
    """Buckets of one or two dimensions, for range conditions."""

    def __init__(self, dims: Sequence[Dimension], stored: Numbers, widths: list[float]) -> None:
        """``widths``: how wide a range probes ask for, in each dimension."""
        self._dims = dims
        count = len(stored)
        self._slack = [slack_of(dim, stored) for dim in dims]
        extents = [buckets.extent(stored[dim.stored]) for dim in dims]
        rows = max(1, min(count // 2, MOST_CELLS))
        if len(dims) == 2:
            low, high, finite_count = extents[0]
            spread = high - low if finite_count else 0.0
            wanted = spread / max(widths[0], spread * 1e-6, 1e-300) if spread > 0 else 1
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
        self._has_long_rows = self.columns > LONG_ROWS and self._scales[0].count < REGIONS

    def place(self, stored: Numbers) -> Array:
        """The bucket of each entry."""
        values = [stored[dim.stored] for dim in self._dims]
        out = self._scales[0].cells(values[0])
        if len(values) == 2:
            buckets.add_cells(values[1], *self._scales[1].parameters, out)
        return out

    def ranges(self, probe: Numbers) -> Ranges:
        """Where the probes must look."""
        if len(self._dims) == 2 and self._even:
            return self._rectangles(probe)
        rows = self._first(0, probe), self._last(0, probe)
        if len(self._dims) == 1:
            nothing = np.zeros(len(probe), np.int32)
            return Ranges(*rows, nothing, nothing)
        return Ranges(*rows, self._first(1, probe), self._last(1, probe))

    def _rectangles(self, probe: Numbers) -> Ranges:
        """The same in one go, for the usual case: ranges on both sides, cells of equal widths."""
        out = np.empty((4, len(probe)), np.int32)
        given: list[Any] = []
        for dim, scale, slack in zip(self._dims, self._scales, self._slack, strict=True):
            assert dim.lower is not None and dim.upper is not None
            given.append((probe[dim.lower.probe], probe[dim.upper.probe]))
            given.append((dim.lower.low - slack, dim.upper.high))
            given.append((scale.base, scale.scale, scale.count))
        ranges = Ranges(out[0], out[1], out[2], out[3])
        x, x_offsets, x_scale, y, y_offsets, y_scale = given
        cells = ranges.x0, ranges.x1, ranges.y0, ranges.y1
        buckets.rectangles(x, x_offsets, x_scale, y, y_offsets, y_scale, cells)
        return ranges

    def regions(self, probe: Numbers) -> tuple[Array, int]:
        """The region in which each probe begins to look, and how many there are."""
        where, rows = self._first(0, probe), self._scales[0].count
        if not self._has_long_rows:
            return _coarser(where, rows)
        per_row = REGIONS // rows
        step = np.int32(-(-self.columns // per_row))
        where *= np.int32(per_row)
        where += self._first(1, probe) // step
        return where, rows * per_row

    def _first(self, number: int, probe: Numbers) -> Array:
        dim, scale = self._dims[number], self._scales[number]
        offset = dim.lower.low - self._slack[number] if dim.lower is not None else -math.inf
        if dim.lower is None or not math.isfinite(offset):
            return np.zeros(len(probe), np.int32)
        out = np.empty(len(probe), np.int32)
        buckets.limit_cells(probe[dim.lower.probe], offset, -1.0, *scale.parameters, out)
        return out

    def _last(self, number: int, probe: Numbers) -> Array:
        dim, scale = self._dims[number], self._scales[number]
        if dim.upper is None:
            return np.full(len(probe), scale.count - 1, np.int32)
        out = np.empty(len(probe), np.int32)
        values = probe[dim.upper.probe]
        buckets.limit_cells(values, dim.upper.high, 1.0, *scale.parameters, out)
        return out


def slack_of(dim: Dimension, stored: Numbers) -> float:
    """How far below the key that is bounded from below the indexed key may be."""
    if dim.other is None:
        return 0.0
    return float(buckets.largest_gap(stored[dim.other], stored[dim.stored]))


def limits(dim: Dimension, probe: Numbers, slack: float) -> tuple[Array | None, Array | None]:
    """The least and the largest number that the indexed key may have, for each probe."""

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


class Hash:
    """Buckets by a hash of the keys that an equality compares."""

    columns = 1

    def __init__(self, stored: Sequence[int], probe: Sequence[int], count: int) -> None:
        self._stored, self._probe = tuple(stored), tuple(probe)
        self._bits = max(1, min(22, count.bit_length() - 1))
        self.buckets = 1 << self._bits

    def _cells(self, columns: tuple[int, ...], tuples: Numbers) -> Array:
        out = np.empty(len(tuples), np.int32)
        buckets.top_bits(tuples.hashed(columns), self._bits, out)
        return out

    def place(self, stored: Numbers) -> Array:
        """The bucket of each entry."""
        return self._cells(self._stored, stored)

    def ranges(self, probe: Numbers) -> Ranges:
        """Where the probes must look: one bucket each."""
        cells = self._cells(self._probe, probe)
        nothing = np.zeros(len(cells), np.int32)
        return Ranges(cells, cells, nothing, nothing)

    def regions(self, probe: Numbers) -> tuple[Array, int]:
        """The region in which each probe looks, and how many there are."""
        return _coarser(self._cells(self._probe, probe), self.buckets)


def _coarser(where: Array, count: int) -> tuple[Array, int]:
    step = -(-count // REGIONS)
    return (where // np.int32(step) if step > 1 else where), -(-count // step)


@dataclass(frozen=True)
class Segment:
    """Entries ``first .. last - 1`` in bucket order: their numbers less ``first``, and columns."""

    first: int
    last: int
    layout: Grid | Hash
    offsets: Array
    order: Array
    columns: list[Array]

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.order.nbytes + sum(c.nbytes for c in self.columns))


def make_segment(
    first: int,
    layout: Grid | Hash,
    stored: Numbers,
    unknown: Array | None,
    columns: Sequence[Array],
) -> Segment:
    """Put entries into buckets. ``unknown`` are those with a NULL key, which nothing can match."""
    count = len(columns[0])
    where = layout.place(stored)
    if unknown is not None:
        where[unknown] = -1
    offsets = np.empty(layout.buckets + 2, np.uint32)
    # One element more than there are entries: kernels look before they know whether there is one.
    order = np.empty(count + 1, np.int32)
    buckets.group(where, offsets, order)
    order = order[: int(offsets[-1]) + 1]
    order[-1] = 0
    copies = [buckets.gathered(column, order) for column in columns]
    return Segment(first, first + count, layout, offsets, order, copies)
