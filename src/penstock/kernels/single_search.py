"""The lines of a kernel that look for the partners of one tuple: in segments, and in the tail.

An index is met as it is: its segments one by one, each by the cells that the tuple's range touches,
and the entries behind the last segment all together.

The lines read ``lo`` and ``hi``, between which an entry is live; ``indexed`` and ``tail``, the
first entry of the tail and how many there are; the tuple's keys ``a0``, ``a1``, …; and
``segments``, see :mod:`penstock.kernels.single_layout`. They add to ``found`` and ``met``, and
write entry numbers to ``out``. If there is no room for them they return ``MANY_PARTNERS`` and how
many there may be.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.kernels import buckets, memory
from penstock.kernels.generate import BLOCK, Names, Shape
from penstock.kernels.predicate import Predicate
from penstock.kernels.single_layout import (
    DIMENSION,
    HEADER,
    MANY_PARTNERS,
    SEGMENT,
    SEGMENT_COLUMNS,
    Stored,
)


@dataclass(frozen=True)
class Search:
    """Where a tuple of one side looks; ``keys`` are the types of its own keys.

    ``arrays`` are the names of the stored columns; the lines of the tail find it in them.
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
        """All live entries from ``indexed`` on, once the columns are slices that begin there."""
        whole = [f"w{array} = {array}" for array in self.arrays]
        parts = [f"    {array} = w{array}[block:stop]" for array in self.arrays]
        return [
            "met += tail",
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
        """The entries in the cells that the tuple's range touches.

        ``numbers`` are its keys as floats; the lines of ``asked`` make the arrays for them,
        ``asked`` and ``codes`` and, for a hash, ``hashed``.
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
            "    met += e - s",
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
    """As :func:`penstock.kernels.buckets.limit_cells`, for both ends."""
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
    """How the source of such a kernel begins."""
    names = [(name, i) for group in (HEADER, SEGMENT, DIMENSION) for i, name in enumerate(group)]
    constants = "\n".join(f"{name.upper()} = {i}" for name, i in names)
    return f'''"""{what}, generated by Penstock on {_foundations()}."""
import numba as nb
import numpy as np

from penstock.kernels.buckets import cell, hash_cells, turn_back
from penstock.kernels.memory import at, drop_one

{constants}
'''


def name_of(dtype: np.dtype[Any]) -> str:
    """A type as the source writes it."""
    return "np.bool_" if dtype == np.bool_ else f"np.{dtype.name}"


def indented(lines: Sequence[str], depth: int) -> str:
    """Lines of a body, so many levels deep, after the indentation of the first."""
    return ("\n" + "    " * depth).join(lines) if lines else "pass"


@functools.cache
def _foundations() -> str:
    """A digest of the code that becomes part of a compiled kernel, and of its cached form."""
    files = (Path(module.__file__ or "").read_bytes() for module in (buckets, memory))
    return hashlib.sha256(b"".join(files)).hexdigest()[:16]
