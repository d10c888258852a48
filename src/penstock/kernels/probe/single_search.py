"""Generated code that searches the partners of one tuple: in segments, and in the tail.

The index is used as it is: its segments one by one, each by the cells that the tuple's range
touches, and then all entries behind the last segment.

The generated lines read ``lo`` and ``hi``, between which an entry is live; ``indexed`` and
``tail``, the first entry of the tail and the length of the tail; the tuple's keys ``a0``, ``a1``,
…; and ``segments``, which :func:`describe_segments` makes. They count matches in ``found`` and
candidates in ``candidates``, and write entry numbers to ``out``. If these do not fit, they return
``MANY_PARTNERS`` and the room that is needed.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels import addresses
from penstock.kernels.addresses import address_of
from penstock.kernels.predicate import keys
from penstock.kernels.predicate.generate import BLOCK, Names, Shape
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe import band_index, buckets
from penstock.kernels.probe.band_index import GridLayout
from penstock.kernels.probe.buckets import Segment
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.hash_index import HashLayout

REFUSED, NO_ROOM, LONG_TAIL, MANY_PARTNERS = -1, -2, -3, -4
"""Why a single-tuple push was not done: it needs a batch, a buffer is full, the index is behind, or
the partners do not fit the result (the second number is then the room that is needed)."""

HEADER = (
    "asking",
    "window",
    "own_dropped",
    "own_rows",
    "other_dropped",
    "other_entries",
    "indexed",
    "longest_tail",
    "asked",
    "codes",
)
"""What comes first in ``state``.

The address of a number that is not 0 if the push is only tried; the size of the tuple's own window,
-1 for none; the addresses of the number of entries that either side has dropped, of the sequence
numbers that its own side holds, and of the span of the other side's entries; the first entry of the
other side that is not indexed, and the longest tail allowed; the addresses of two arrays for the
tuple's keys, as floats and as integers.
"""

DIMENSION = (
    "low_key",
    "low",
    "high_key",
    "high",
    "base",
    "scale",
    "count",
    "bounds",
    "bound_count",
)
SEGMENT = ("first", "last", "offsets", "offset_count", "order", "order_count", "cells", "bits")
"""What comes first in a segment's description; ``bits`` is 0 for a grid. Two dimensions follow,
then the addresses of the columns, then the number of hashed keys, and which these are."""
SEGMENT_COLUMNS = len(SEGMENT) + 2 * len(DIMENSION)


@dataclass(frozen=True)
class Stored:
    """Buffers that tuples are appended to: their types, and which of them have a validity."""

    dtypes: tuple[np.dtype[Any], ...]
    nulls: tuple[bool, ...]

    @property
    def buffers(self) -> list[np.dtype[Any]]:
        """The types of all buffers: first those of values, then those of validities."""
        return [*self.dtypes, *(np.dtype(np.bool_) for null in self.nulls if null)]


# -- the search --------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """The search of a tuple of one side; ``keys`` are the types of its own keys.

    ``arrays`` are the names that the stored columns have in the generated lines.
    """

    condition: str
    arrays: tuple[str, ...]
    keys: tuple[np.dtype[Any], ...]
    stored: Stored

    @classmethod
    def of(
        cls, predicate: Predicate, side: int, keys: tuple[np.dtype[Any], ...], stored: Stored
    ) -> Search:
        """For tuples of ``side``, whose keys are not NULL."""
        nothing = (False,) * len(predicate.keys[side])
        nulls = (nothing, stored.nulls) if side == 0 else (stored.nulls, nothing)
        names = Names(predicate, Shape(side, nulls), direct=True)
        condition = f"({names.condition(predicate.condition)})"
        return cls(condition, tuple(array for _, array in names.stored_columns), keys, stored)

    def tail(self) -> list[str]:
        """The lines that search the tail; the columns are slices that begin at ``indexed``."""
        whole = [f"w{array} = {array}" for array in self.arrays]
        parts = [f"    {array} = w{array}[block:stop]" for array in self.arrays]
        return [
            "candidates += tail",
            *whole,
            f"for block in range(0, tail, {BLOCK}):",
            f"    stop = min(tail, block + {BLOCK})",
            *parts,
            "    hits = np.int32(0)",
            "    for j in range(stop - block):",
            f"        hits = np.int32(hits + np.int32({self.condition}))",
            "    if hits == 0:",
            "        continue",
            "    if found + hits > out.shape[0]:",
            f"        return {MANY_PARTNERS}, found + hits",
            "    for j in range(stop - block):",
            f"        if {self.condition}:",
            "            out[found] = indexed + block + j",
            "            found += 1",
        ]

    def segments(self, numbers: Sequence[str], asked: Sequence[str]) -> list[str]:
        """The lines that search the segments, by the cells that the tuple's range touches.

        ``numbers`` are its keys as floats; the lines of ``asked`` make the arrays ``asked`` and
        ``codes`` for them and, for a hash, ``hashed``.
        """
        if not self.arrays or not numbers:
            return []
        lines = [
            *asked,
            *(f"asked[{i}] = {number}" for i, number in enumerate(numbers)),
            *(f"codes[{i}] = a{i}" for i, dtype in enumerate(self.keys) if dtype.kind == "i"),
            "limits = segments.view(np.float64)",
            "for g in range(segments.shape[0]):",
        ]
        columns = [
            f"{array} = at(segments[g, {SEGMENT_COLUMNS} + {i}], segments[g, ORDER_COUNT], "
            f"{name_of(dtype)})"
            for i, (array, dtype) in enumerate(zip(self.arrays, self.stored.buffers, strict=True))
        ]
        body = [
            "if segments[g, LAST] <= lo or segments[g, FIRST] >= hi:",
            "    continue",
            "low = lo - segments[g, FIRST]",
            "high = hi - segments[g, FIRST]",
            "x0, x1, y0, y1 = 0, 0, 0, 0",
            "if segments[g, BITS] > 0:",
            *(f"    {line}" for line in self._hash_cell()),
            "else:",
            *(f"    {line}" for line in _grid_cells(0, "x0", "x1")),
            *(f"    {line}" for line in _grid_cells(1, "y0", "y1")),
            "columns = segments[g, CELLS]",
            "offsets = at(segments[g, OFFSETS], segments[g, OFFSET_COUNT], np.uint32)",
            "order = at(segments[g, ORDER], segments[g, ORDER_COUNT], np.int32)",
            *columns,
            "for x in range(x0, x1 + 1):",
            "    s = np.int64(offsets[x * columns + y0])",
            "    e = np.int64(offsets[x * columns + y1 + 1])",
            "    candidates += e - s",
            "    if found + (e - s) > out.shape[0]:",
            f"        return {MANY_PARTNERS}, found + (e - s)",
            "    for j in range(s, e):",
            "        out[found] = segments[g, FIRST] + order[j]",
            f"        found += np.int64((order[j] >= low) & (order[j] < high) & {self.condition})",
        ]
        return [*lines, *(f"    {line}" for line in body)]

    def _hash_cell(self) -> list[str]:
        at_keys = SEGMENT_COLUMNS + len(self.arrays)
        return [
            f"for i in range(segments[g, {at_keys}]):",
            f"    last = i == segments[g, {at_keys}] - 1",
            f"    k = segments[g, {at_keys + 1} + i]",
            "    hash_cells(codes[k:k + 1], segments[g, BITS] if last else 0, hashed, i == 0)",
            "x0 = np.int64(hashed[0])",
            "x1 = x0",
        ]


def _grid_cells(number: int, first: str, last: str) -> list[str]:
    """As :func:`penstock.kernels.probe.band_index.limit_cells`, for both ends."""
    base = len(SEGMENT) + number * len(DIMENSION)
    scale = (
        f"limits[g, {base} + BASE], limits[g, {base} + SCALE], segments[g, {base} + COUNT], bounds"
    )

    def end(key: str, offset: str, sign: str, cell_name: str) -> list[str]:
        return [
            f"if segments[g, {base} + {key}] >= 0:",
            f"    number = asked[segments[g, {base} + {key}]]",
            f"    offset = limits[g, {base} + {offset}]",
            "    reach = (abs(number) + abs(offset)) * 2.0**-50",
            f"    {cell_name} = np.int64(cell(number + offset {sign} reach, {scale}))",
        ]

    return [
        f"bounds = at(segments[g, {base} + BOUNDS], segments[g, {base} + BOUND_COUNT], np.float64)",
        f"{last} = segments[g, {base} + COUNT] - 1",
        *end("LOW_KEY", "LOW", "-", first),
        *end("HIGH_KEY", "HIGH", "+", last),
    ]


def preamble(what: str) -> str:
    """The first lines of the source of a kernel for single tuples."""
    names = [(name, i) for group in (HEADER, SEGMENT, DIMENSION) for i, name in enumerate(group)]
    constants = "\n".join(f"{name.upper()} = {i}" for name, i in names)
    return f'''"""{what}, generated by Penstock on {_foundations()}."""
import numba as nb
import numpy as np

from penstock.kernels.addresses import at, drop, drop_one
from penstock.kernels.predicate.keys import floats_of_keys
from penstock.kernels.probe.band_index import cell
from penstock.kernels.probe.buckets import hash_cells

{constants}
'''


def name_of(dtype: np.dtype[Any]) -> str:
    """A type as the source writes it."""
    return "np.bool_" if dtype == np.bool_ else f"np.{dtype.name}"


def indented(lines: Sequence[str], depth: int) -> str:
    """Lines of a body, indented by ``depth`` levels except for the first."""
    return ("\n" + "    " * depth).join(lines) if lines else "pass"


_IMPORTED = (addresses, keys, band_index, buckets)
"""The modules that generated code imports, as :func:`preamble` writes it."""


@functools.cache
def _foundations() -> str:
    """A digest of the code that a compiled kernel includes, so that its cache depends on it."""
    files = (Path(module.__file__ or "").read_bytes() for module in _IMPORTED)
    return hashlib.sha256(b"".join(files)).hexdigest()[:16]


# -- segments ----------------------------------------------------------------------------

NO_KEY = -1


def segments_of(index: EntryIndex | None, columns: int) -> tuple[Segment, ...]:
    """The segments of a side's index, oldest first; the side stores ``columns`` columns of keys.

    The first NULL of a key adds a column, which makes all earlier segments useless.
    """
    if index is None:
        return ()
    if any(len(segment.columns) != columns for segment in index.segments):
        index.clear()
    return index.segments


def indexed_up_to(segments: Sequence[Segment]) -> int:
    """The first entry that is in no segment."""
    return segments[-1].last if segments else 0


def describe_segments(segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
    """The description of each segment, a row of numbers, as the kernel reads it."""
    rows = list(map(_describe, segments))
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = numbers
    return table


def _describe(segment: Segment) -> npt.NDArray[np.int64]:
    layout = segment.layout
    hashed = layout._probe if isinstance(layout, HashLayout) else ()
    row = np.array(
        [
            segment.first,
            segment.last,
            address_of(segment.offsets),
            len(segment.offsets),
            address_of(segment.order),
            len(segment.order),
            layout.columns,
            layout._bits if isinstance(layout, HashLayout) else 0,
            *[0] * (SEGMENT_COLUMNS - len(SEGMENT)),
            *map(address_of, segment.columns),
            len(hashed),
            *hashed,
        ],
        np.int64,
    )
    if isinstance(layout, GridLayout):
        _describe_grid(layout, row[len(SEGMENT) : SEGMENT_COLUMNS])
    return row


def _describe_grid(layout: GridLayout, row: npt.NDArray[np.int64]) -> None:
    """The scales of a grid, and the offsets of its ranges from the probe's keys."""
    whole: Any = row.reshape(2, len(DIMENSION))
    reals: Any = row.view(np.float64).reshape(2, len(DIMENSION))
    field = {name: place for place, name in enumerate(DIMENSION)}
    whole[:, field["low_key"]] = whole[:, field["high_key"]] = NO_KEY
    whole[:, field["count"]] = 1
    layers = zip(layout._dims, layout._scales, layout._slack, strict=True)
    for number, (dim, scale, slack) in enumerate(layers):
        numbers, floats = whole[number], reals[number]
        if dim.lower is not None and math.isfinite(dim.lower.low - slack):
            numbers[field["low_key"]] = dim.lower.probe
            floats[field["low"]] = dim.lower.low - slack
        if dim.upper is not None:
            numbers[field["high_key"]] = dim.upper.probe
            floats[field["high"]] = dim.upper.high
        base, factor, count, bounds = scale.parameters
        floats[field["base"]], floats[field["scale"]] = base, factor
        numbers[field["count"]] = count
        numbers[field["bounds"]] = address_of(bounds)
        numbers[field["bound_count"]] = len(bounds)
