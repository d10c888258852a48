"""Generated code that searches the partners of one tuple: in segments, and in the tail.

The index is used as it is: its segments one by one, each by the cells that the tuple's range
touches, then the entries behind the last segment: in chains those that are in chains
(:mod:`penstock.kernels.probe.chains`), and one by one the rest, which is the tail.

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
import pyarrow as pa

from penstock.kernels import addresses
from penstock.kernels.addresses import address_of
from penstock.kernels.predicate import keys
from penstock.kernels.predicate.generate import BLOCK, Names, Shape
from penstock.kernels.predicate.predicate import Key, Predicate
from penstock.kernels.probe import band_index, buckets
from penstock.kernels.probe.band_index import GridLayout
from penstock.kernels.probe.buckets import Segment
from penstock.kernels.probe.chains import Chains
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.hash_index import HashLayout
from penstock.tuning import TUNING

REFUSED, NO_ROOM, LONG_TAIL, MANY_PARTNERS = -1, -2, -3, -4
"""Why a single-tuple push was not done: it needs a batch, a buffer is full, the index is behind, or
the partners do not fit the result (the second number is then the room that is needed)."""

FEW_WASTED = 16
"""Steps along chains without a match that a probe may take, on average."""

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
    "progress",
    "more_slack",
    "chained",
    "heads",
    "head_count",
    "links",
    "link_count",
    "fewest_linked",
    "most_wasted",
    "scanned",
)
"""What comes first in ``state``.

The address of a number that is not 0 if the push is only tried; the size of the tuple's own window,
-1 for none; the addresses of the number of entries that either side has dropped, of the sequence
numbers that its own side holds, and of the span of the other side's entries; the first entry of the
other side that is in no segment, and the longest tail allowed; the addresses of two arrays for the
tuple's keys, as floats and as integers; of the other side's chains, the addresses of their progress
and slack, their first entry, the addresses and lengths of their heads and links, 0 if there are
none, and two tuning constants; and, written by the kernel, the entries that were in no segment and
no chain.
"""

DIMENSION = (
    "stored_key",
    "other_key",
    "slack",
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
then the addresses of the columns, then the number of hashed keys, and which these are, of the tuple
and of the stored side."""
SEGMENT_COLUMNS = len(SEGMENT) + 2 * len(DIMENSION)


@dataclass(frozen=True)
class BufferTypes:
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
    stored: BufferTypes

    @classmethod
    def of(
        cls,
        predicate: Predicate,
        side: int,
        keys: tuple[np.dtype[Any], ...],
        stored: BufferTypes,
    ) -> Search:
        """For tuples of ``side``, whose keys are not NULL."""
        nothing = (False,) * len(predicate.keys[side])
        nulls = (nothing, stored.nulls) if side == 0 else (stored.nulls, nothing)
        names = Names(predicate, Shape(side, nulls), direct=True)
        condition = f"({names.condition(predicate.condition)})"
        arrays = tuple(array for _, array in names.stored_columns)
        return cls(condition, arrays, keys, stored)

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
            "x0, x1, y0, y1, columns = 0, 0, 0, 0, 1",
            "for g in range(segments.shape[0]):",
        ]
        columns = [
            f"{array} = at(segments[g, {SEGMENT_COLUMNS} + {i}], segments[g, ORDER_COUNT], "
            f"{name_of(dtype)})"
            for i, (array, dtype) in enumerate(zip(self.arrays, self.stored.buffers, strict=True))
        ]
        body = [
            "beside = segments[g, LAST] <= lo or segments[g, FIRST] >= hi",
            # The last one's cells are those of the chains.
            "if beside and g < segments.shape[0] - 1:",
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
            "if beside:",
            "    continue",
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

    def chains(self) -> list[str]:
        """The lines that search the chains, in the cells of the last segment, if that pays.

        The columns are slices that begin at the entry ``stored``. Then ``indexed`` is the first
        entry that is in no chain.
        """
        if not self.arrays or not self.keys:
            return []
        return [
            "until = min(progress[0], hi)",
            "spread = (x1 - x0 + 1) * (y1 - y0 + 1)",
            "if progress[2] == 0 and spread < until - indexed:",
            "    heads = at(state[HEADS], state[HEAD_COUNT], np.int32)",
            "    links = at(state[LINKS], state[LINK_COUNT], np.int32)",
            "    low = indexed - state[CHAINED]",
            "    high = until - state[CHAINED]",
            "    shift = state[CHAINED] - stored",
            "    before, walked = found, 0",
            "    for x in range(x0, x1 + 1):",
            "        for y in range(y0, y1 + 1):",
            "            place = np.int64(heads[x * columns + y])",
            "            while place >= low:",
            "                walked += 1",
            "                j = place + shift",
            f"                if place < high and {self.condition}:",
            "                    if found == out.shape[0]:",
            f"                        return {MANY_PARTNERS}, 2 * found + 1",
            "                    out[found] = state[CHAINED] + place",
            "                    found += 1",
            "                place = np.int64(links[place])",
            "    candidates += walked",
            f"    wasted = spread + walked - 2 * (found - before) - {FEW_WASTED}",
            "    progress[1] = max(progress[1] + wasted, 0)",
            "    if progress[1] > state[MOST_WASTED]:",
            "        progress[2] = 1",
            "    indexed = until",
            # Many cells: what follows scans the entries instead, which must not become many.
            "elif progress[2] == 0 and until - indexed > state[LONGEST_TAIL]:",
            "    progress[2] = 1",
        ]

    def link(self, numbers: Sequence[Sequence[str]]) -> list[str]:
        """The lines that link all stored entries which are in no chain yet.

        The columns are slices that begin at the entry ``start``. The lines of ``numbers`` compute,
        for each of the stored keys, the floats ``numbers`` that a grid places it by.
        """
        if not self.arrays or not self.keys:
            return []
        at_keys = SEGMENT_COLUMNS + len(self.arrays)
        count = f"segments[g, {at_keys}]"
        hashing, placing = [], []
        for i, (dtype, lines) in enumerate(zip(self.stored.dtypes, numbers, strict=True)):
            if dtype.kind == "i":
                hashing += [
                    f"    if k == {i}:",
                    f"        hash_cells({self.arrays[i]}, bits, hashed, i == 0)",
                ]
            placing += [f"    if k == {i}:", *(f"        {line}" for line in lines)]
        grids = [
            line
            for number in (0, 1)
            for base in [len(SEGMENT) + number * len(DIMENSION)]
            for line in [
                f"k = segments[g, {base} + OTHER_KEY]",
                "if k >= 0:",
                *placing,
                "    above[:] = numbers",
                f"k = segments[g, {base} + STORED_KEY]",
                "if k >= 0:",
                *placing,
                f"    if segments[g, {base} + OTHER_KEY] >= 0:",
                "        gap = largest_number_gap(above, numbers)",
                f"        more = gap - limits[g, {base} + SLACK]",
                f"        if more > more_slack[{number}]:",
                f"            more_slack[{number}] = more",
                f"    bounds = at(segments[g, {base} + BOUNDS], "
                f"segments[g, {base} + BOUND_COUNT], np.float64)",
                f"    count = segments[g, {base} + COUNT]",
                f"    low, scale = limits[g, {base} + BASE], limits[g, {base} + SCALE]",
                "    for i in range(fresh):",
                "        place = np.int64(cell(numbers[i], low, scale, count, bounds))",
                "        where[i] = where[i] * count + place",
            ]
        ]
        return [
            "g = segments.shape[0] - 1",
            "limits = segments.view(np.float64)",
            "where = np.zeros(fresh, np.int64)",
            "numbers = np.empty(fresh, np.float64)",
            "above = np.empty(fresh, np.float64)",
            "hashed = np.empty(fresh, np.uint64)",
            "if segments[g, BITS] > 0:",
            f"    for i in range({count}):",
            f"        bits = segments[g, BITS] if i == {count} - 1 else 0",
            f"        k = segments[g, {at_keys + 1} + {count} + i]",
            *(f"    {line}" for line in hashing),
            "    for i in range(fresh):",
            "        where[i] = np.int64(hashed[i])",
            "else:",
            *(f"    {line}" for line in grids),
            "if not more_slack[0] + more_slack[1] < np.inf:",
            "    progress[2] = 1",
            "heads = at(state[HEADS], state[HEAD_COUNT], np.int32)",
            "links = at(state[LINKS], state[LINK_COUNT], np.int32)",
            "for i in range(fresh):",
            "    place = start + i - state[CHAINED]",
            "    links[place] = heads[where[i]]",
            "    heads[where[i]] = place",
        ]

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


class ProbedWindow:
    """Writes the search of a window: in ``state``, data and span of each of its key buffers.

    They begin at ``offset``; the header says the rest. The lines read ``lo`` and ``hi``, between
    which an entry is live.
    """

    def __init__(
        self,
        predicate: Predicate,
        side: int,
        keys: tuple[np.dtype[Any], ...],
        stored: BufferTypes,
        offset: int,
    ) -> None:
        """For probes of ``side``, whose keys have these types."""
        self._constants = len(predicate.constants)
        self._keys = keys
        self._stored_keys = predicate.keys[1 - side]
        self._stored = stored
        self._offset = offset
        self._search = Search.of(predicate, side, keys, stored)

    def search(self, numbers: Sequence[str]) -> list[str]:
        """The lines that find the partners; ``numbers`` are the probe's keys as floats."""
        return [
            "stored = at(state[OTHER_DROPPED], 1, np.int64)[0]",
            "indexed = max(state[INDEXED], lo)",
            "progress = at(state[PROGRESS], 3, np.int64)",
            "more_slack = at(state[MORE_SLACK], 2, np.float64)",
            "if hi - max(indexed, progress[0] if progress[2] == 0 else 0) > state[LONGEST_TAIL]:",
            f"    return {LONG_TAIL}, 0",
            *self._segments(numbers),
            *self._chains(),
            *self._tail(),
        ]

    def _from(self, entry: str, count: str) -> list[str]:
        """The columns from an entry on; ``stored`` is the first that is stored."""
        lines = []
        stored = zip(self._search.arrays, self._stored.buffers, strict=True)
        for number, (array, dtype) in enumerate(stored):
            slot = self._offset + 2 * number
            start = f"(at(state[{slot + 1}], 2, np.int64)[0] + {entry} - stored)"
            address = f"state[{slot}] + {dtype.itemsize} * {start}"
            lines.append(f"{array} = at({address}, {count}, {name_of(dtype)})")
        return lines

    def _chains(self) -> list[str]:
        """The entries behind the last segment that are in chains."""
        return [*self._from("stored", "max(hi - stored, 0)"), *self._search.chains()]

    def _tail(self) -> list[str]:
        """The entries behind those."""
        lines = ["tail = max(hi - indexed, 0)", "state[SCANNED] = tail"]
        lines += self._from("indexed", "tail")
        return [*lines, *self._search.tail()]

    def function(self, name: str) -> str:
        """A function that links entries, and finds the partners among ``lo .. hi - 1``.

        It takes the probe's keys, these as floats, and the constants.
        """
        numbers = [f"number{i}" for i in range(len(self._keys))]
        arguments = [*(f"a{i}" for i in range(len(self._keys))), *numbers]
        arguments += [f"k{i}" for i in range(self._constants)]
        return f"""{self.link(f"link_{name}")}

@register_jitable
def {name}(state, segments, out, lo, hi, {", ".join(arguments)}):
    link_{name}(state, segments)
    found = 0
    candidates = 0
    {indented(self.search(numbers), 1)}
    return found, candidates
"""

    def link(self, name: str = "link") -> str:
        """A function that links all entries that are in no chain yet, unless they are few."""
        numbers = [
            numbers_of(key, array, dtype)
            for key, array, dtype in zip(
                self._stored_keys, self._search.arrays, self._stored.dtypes, strict=False
            )
        ]
        return f"""
@register_jitable
def {name}(state, segments):
    progress = at(state[PROGRESS], 3, np.int64)
    more_slack = at(state[MORE_SLACK], 2, np.float64)
    stored = at(state[OTHER_DROPPED], 1, np.int64)[0]
    entries = at(state[OTHER_ENTRIES], 2, np.int64)
    stop = min(stored + entries[1] - entries[0], state[CHAINED] + state[LINK_COUNT])
    start = max(progress[0], stored)
    fresh = stop - start
    if progress[2] != 0 or fresh < state[FEWEST_LINKED]:
        return
    {indented(self._from("start", "fresh"), 1)}
    {indented(self._search.link(numbers), 1)}
    progress[0] = stop
"""

    def _segments(self, numbers: Sequence[str]) -> list[str]:
        count = len(numbers)
        scratch = [
            f"asked = at(state[ASKED], {count}, np.float64)",
            f"codes = at(state[CODES], {count + 1}, np.int64)",
            f"hashed = at(state[CODES] + {8 * count}, 1, np.uint64)",
        ]
        return self._search.segments(numbers, scratch)


def _grid_cells(number: int, first: str, last: str) -> list[str]:
    """As :func:`penstock.kernels.probe.band_index.limit_cells`, for both ends."""
    # It widens the range in the last segment, whose cells are those of the chains.
    slack = f" - (more_slack[{number}] if g == segments.shape[0] - 1 else 0.0)"
    base = len(SEGMENT) + number * len(DIMENSION)
    scale = (
        f"limits[g, {base} + BASE], limits[g, {base} + SCALE], segments[g, {base} + COUNT], bounds"
    )

    def end(key: str, offset: str, sign: str, cell_name: str, more: str = "") -> list[str]:
        return [
            f"if segments[g, {base} + {key}] >= 0:",
            f"    number = asked[segments[g, {base} + {key}]]",
            f"    offset = limits[g, {base} + {offset}]{more}",
            "    reach = (abs(number) + abs(offset)) * 2.0**-50",
            f"    {cell_name} = np.int64(cell(number + offset {sign} reach, {scale}))",
        ]

    return [
        f"bounds = at(segments[g, {base} + BOUNDS], segments[g, {base} + BOUND_COUNT], np.float64)",
        f"{last} = segments[g, {base} + COUNT] - 1",
        *end("LOW_KEY", "LOW", "-", first, slack),
        *end("HIGH_KEY", "HIGH", "+", last),
    ]


def generate_probe(
    predicate: Predicate, side: int, dtypes: tuple[np.dtype[Any], ...], stored: BufferTypes
) -> str:
    """The source of ``kernel(state, segments, out, lo, hi, keys…, constants…)``: a search alone.

    It is for probes of ``side`` with keys of these types, none of them NULL, among the entries
    ``lo .. hi - 1``. After the header, ``state`` has data and span of each stored buffer. The
    kernel returns the number of partners, with their entry numbers in ``out`` in no order, and the
    number of candidates; or one of :data:`LONG_TAIL` and its like.
    """
    ours = predicate.keys[side]
    window = ProbedWindow(predicate, side, dtypes, stored, len(HEADER))
    given = [f"g{i}" for i in range(len(ours))]
    constants = [f"k{i}" for i in range(len(predicate.constants))]
    numbers: list[str] = []
    for i, (key, dtype) in enumerate(zip(ours, dtypes, strict=True)):
        numbers += [f"key{i} = np.empty(1, {name_of(dtype)})", f"key{i}[0] = g{i}"]
        numbers += [*numbers_of(key, f"key{i}", dtype), f"number{i} = numbers[0]"]
    keys = [f"key{i}[0]" for i in range(len(ours))] + [f"number{i}" for i in range(len(ours))]
    return f"""{preamble("Looks for the partners of one tuple")}
{window.function("search")}

@nb.njit(nogil=True, boundscheck=False)
def kernel(state, segments, out, lo, hi, {", ".join([*given, *constants])}):
    fresh = 1
    numbers = np.empty(fresh, np.float64)
    {indented(numbers, 1)}
    return search(state, segments, out, lo, hi, {", ".join([*keys, *constants])})
"""


def numbers_of(key: Key, array: str, dtype: np.dtype[Any]) -> list[str]:
    """The lines that compute ``numbers`` of a key column, as :func:`buckets.numbers` does."""
    kind = key.expression.type
    if key.kind == "compare" and pa.types.is_floating(kind):
        floating = "np.float32" if dtype == np.int32 else "np.float64"
        raw = f"raw{array}"
        return [
            f"{raw} = np.empty(fresh, {name_of(dtype)})",
            f"floats_of_keys({array}, {name_of(dtype)}({np.iinfo(dtype).max}), {raw}, "
            f"{raw}.view({floating}), numbers)",
        ]
    value = f"{array}[i]"
    if key.kind == "compare" and pa.types.is_uint64(kind):
        value = f"np.uint64({value}) ^ np.uint64(1 << 63)"
    return ["for i in range(fresh):", f"    numbers[i] = np.float64({value})"]


def preamble(what: str) -> str:
    """The first lines of the source of a kernel for single tuples."""
    names = [(name, i) for group in (HEADER, SEGMENT, DIMENSION) for i, name in enumerate(group)]
    constants = "\n".join(f"{name.upper()} = {i}" for name, i in names)
    return f'''"""{what}, generated by Penstock on {_foundations()}."""
import numba as nb
import numpy as np
from numba.extending import register_jitable

from penstock.kernels.addresses import at, drop, drop_one
from penstock.kernels.predicate.keys import floats_of_keys
from penstock.kernels.probe.band_index import cell, largest_number_gap
from penstock.kernels.probe.buckets import hash_cells, put_in_order

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
NO_PROGRESS: npt.NDArray[np.int64] = np.array([0, 0, 1], np.int64)
NO_SLACK: npt.NDArray[np.float64] = np.zeros(2, np.float64)
"""The progress and the slack of chains that are not used."""


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


def describe_chains(chains: Chains | None) -> list[int]:
    """What the header has of chains, as the kernel reads it."""
    if chains is None:
        return [address_of(NO_PROGRESS), address_of(NO_SLACK), *[0] * 7]
    heads, links = chains.heads, chains.links
    return [
        address_of(chains.progress),
        address_of(chains.slack),
        chains.first,
        address_of(heads),
        len(heads),
        address_of(links),
        len(links),
        TUNING.fewest_linked,
        TUNING.most_wasted,
    ]


def describe_segments(segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
    """The description of each segment, a row of numbers, as the kernel reads it."""
    rows = list(map(_describe, segments))
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = numbers
    return table


def _describe(segment: Segment) -> npt.NDArray[np.int64]:
    layout = segment.layout
    hashed, placed = (layout._probe, layout._stored) if isinstance(layout, HashLayout) else ((), ())
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
            *placed,
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
    for name in ("stored_key", "other_key", "low_key", "high_key"):
        whole[:, field[name]] = NO_KEY
    whole[:, field["count"]] = 1
    layers = zip(layout._dims, layout._scales, layout._slack, strict=True)
    for number, (dim, scale, slack) in enumerate(layers):
        numbers, floats = whole[number], reals[number]
        numbers[field["stored_key"]] = dim.stored
        numbers[field["other_key"]] = NO_KEY if dim.other is None else dim.other
        floats[field["slack"]] = slack
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
