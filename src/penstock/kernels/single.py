"""The source of a function that takes one tuple into a join: evaluate, probe, store, expire.

It does for one tuple what a run does for many, on the same buffers and the same index. Everything
that can stand in the way is found out before anything is changed, and returned as a negative number
instead of the number of partners: then nothing has happened.

An index is met as it is: its segments one by one, each by the cells that the tuple's range touches,
and the entries behind the last segment all together. What one stored side holds is all live between
two tuples, so an entry that has not been dropped is a candidate.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.kernels import buckets, memory
from penstock.kernels.compiled import load
from penstock.kernels.generate import Names, Shape
from penstock.kernels.predicate import Predicate
from penstock.kernels.scalar_source import ScalarSource, parameters
from penstock.kernels.single_layout import (
    DIMENSION,
    HEADER,
    LONG_TAIL,
    MANY_PARTNERS,
    NO_ROOM,
    REFUSED,
    SEGMENT,
    SEGMENT_COLUMNS,
    SingleShape,
)
from penstock.sql.expressions import TRUE


@dataclass(frozen=True)
class SingleSource:
    """The source of ``kernel(state, segments, out, values…)`` and where its state has what.

    ``state`` has the header, then data, span and capacity of each buffer of the tuple's own side
    (rows, keys and, where there is a condition, sequence numbers), then data and span of the other
    side's, then the constants. ``bounds`` says of which keys, and where among those, the least and
    the largest value that may come must be put, and the address of those that have come.
    """

    text: str
    own: int
    other: int
    first_constant: int
    constants: list[int | float]
    bounds: list[tuple[int, int]]


def generate_single(predicate: Predicate, shape: SingleShape) -> SingleSource:
    """The source for tuples of one side.

    It returns the number of partners, with their entry numbers in ``out`` in no order, and how many
    candidates were met; or one of the negative numbers above.
    """
    own_buffers = [*shape.rows.buffers, *shape.keys.buffers]
    if shape.condition != TRUE:
        own_buffers.append(np.dtype(np.int64))
    own = len(HEADER)
    other = own + 3 * len(own_buffers)
    offset = other + 2 * len(shape.other.buffers)
    scalars = ScalarSource(shape.schema, f"return {REFUSED}, 0", offset)
    passed = "True" if shape.condition == TRUE else scalars.value(shape.condition)
    ours = predicate.keys[shape.side]
    bounds: list[tuple[int, int]] = []
    for number, (key, dtype) in enumerate(zip(ours, shape.keys.dtypes, strict=True)):
        source = scalars.key(key, dtype)
        scalars.lines.append(f"a{number} = {source}")
        if key.kind == "native" and dtype.kind == "i":
            # Beyond some bounds, sums inside the predicate might overflow.
            bounds.append((number, offset + len(scalars.constants)))
            low, high = scalars.constant(0), scalars.constant(0)
            scalars.constant(0)
            scalars.lines.append(f"if a{number} < {low} or a{number} > {high}:")
            scalars.lines.append(f"    return {REFUSED}, 0")
    numbers = [scalars.number(key) for key in ours]
    writer = _Writer(predicate, shape, own, other, own_buffers, bounds)
    text = writer.text(scalars, passed, numbers)
    return SingleSource(text, own, other, offset, scalars.constants, bounds)


def kernel_of(source: SingleSource) -> Callable[..., tuple[int, int]]:
    """The compiled function."""
    return load(source.text)


class _Writer:
    """Puts the function together."""

    def __init__(
        self,
        predicate: Predicate,
        shape: SingleShape,
        own: int,
        other: int,
        own_buffers: list[np.dtype[Any]],
        bounds: list[tuple[int, int]],
    ) -> None:
        self._predicate = predicate
        self._shape = shape
        self._own, self._other = own, other
        self._own_buffers = own_buffers
        self._bounds = bounds
        theirs = tuple(shape.other.nulls)
        nothing = (False,) * len(predicate.keys[shape.side])
        nulls = (nothing, theirs) if shape.side == 0 else (theirs, nothing)
        names = Names(predicate, Shape(shape.side, nulls), direct=True)
        self._condition = f"({names.condition(predicate.condition)})"
        self._arrays = [array for _, array in names.stored_columns]

    def text(self, scalars: ScalarSource, passed: str, numbers: list[str]) -> str:
        header = "\n".join(f"{name.upper()} = {i}" for i, name in enumerate(HEADER))
        fields = "\n".join(f"{name.upper()} = {i}" for i, name in enumerate(SEGMENT))
        dimension = "\n".join(f"{name.upper()} = {i}" for i, name in enumerate(DIMENSION))
        for i, literal in enumerate(self._predicate.constants):
            scalars.lines.append(f"k{i} = {scalars.value(literal)}")
        return f'''"""Takes one tuple into a join, generated by Penstock on {_foundations()}."""
import numba as nb
import numpy as np

from penstock.kernels.buckets import cell, hash_cells
from penstock.kernels.memory import at, drop_one

{header}

{fields}

{dimension}


@nb.njit(nogil=True, cache=True, boundscheck=False)
def kernel(state, segments, out, {", ".join(parameters(self._shape.schema))}):
    real = state.view(np.float64)
    {_indented(scalars.lines, 1)}
    passed = {passed}
    {_indented(self._room(), 1)}
    found = 0
    met = 0
    if passed:
        first = at(state[OTHER_DROPPED], 1, np.int64)[0]
        entries = at(state[OTHER_ENTRIES], 2, np.int64)
        following = first + entries[1] - entries[0]
        indexed = max(state[INDEXED], first)
        if following - indexed > state[LONGEST_TAIL]:
            return {LONG_TAIL}, 0
        {_indented(self._segments(numbers), 2)}
        {_indented(self._tail(), 2)}
    if at(state[ASKING], 1, np.int64)[0] != 0:
        return found, met
    {_indented(self._store(), 1)}
    return found, met
'''

    # -- the tuple's own side ---------------------------------------------------------------

    def _span(self, number: int) -> str:
        return f"at(state[{self._own + 3 * number + 1}], 2, np.int64)"

    def _room(self) -> list[str]:
        lines = []
        for i in range(len(self._own_buffers)):
            lines.append(f"span{i} = {self._span(i)}")
            lines.append(f"if span{i}[1] >= state[{self._own + 3 * i + 2}]:")
            lines.append(f"    return {NO_ROOM}, 0")
        return lines

    def _append(self, number: int, value: str) -> list[str]:
        dtype, slot = self._own_buffers[number], self._own + 3 * number
        if dtype.itemsize == 16:
            column = self._shape.columns[number]
            return [
                f"words = at(state[{slot}], 2 * state[{slot + 2}], np.int64)",
                f"words[2 * span{number}[1]] = v{column}",
                f"words[2 * span{number}[1] + 1] = w{column}",
                f"span{number}[1] += 1",
            ]
        return [
            f"at(state[{slot}], state[{slot + 2}], {_name(dtype)})[span{number}[1]] = {value}",
            f"span{number}[1] += 1",
        ]

    def _store(self) -> list[str]:
        """Append the tuple, and drop the oldest where the window is full."""
        rows, keys = self._shape.rows, self._shape.keys
        row_values = [f"value{i}" for i in self._shape.columns] + ["True"] * sum(rows.nulls)
        key_values = [f"a{i}" for i in range(len(keys.dtypes))] + ["True"] * sum(keys.nulls)
        lines = ["held = at(state[OWN_ROWS], 2, np.int64)"]
        for i, value in enumerate(row_values):
            lines += self._append(i, value)
        lines.append("if passed:")
        first = len(row_values)
        values = [*key_values, "held[1]"] if self._filtered else key_values
        for i, value in enumerate(values):
            lines += [f"    {line}" for line in self._append(first + i, value)]
        for number, slot in self._bounds:
            lines += [
                f"    bounds{number} = at(state[{slot + 2}], 2, np.int64)",
                f"    bounds{number}[0] = min(bounds{number}[0], a{number})",
                f"    bounds{number}[1] = max(bounds{number}[1], a{number})",
            ]
        if not values:
            lines.append("    pass")
        lines.append("held[1] += 1")
        lines.append("if state[WINDOW] >= 0 and held[1] - held[0] > state[WINDOW]:")
        lines.append("    held[0] += 1")
        lines += [f"    drop_one(span{i})" for i in range(first)]
        entry = "    "
        if self._filtered:
            seqs = len(self._own_buffers) - 1
            slot = self._own + 3 * seqs
            oldest = f"at(state[{slot}], state[{slot + 2}], np.int64)[span{seqs}[0]]"
            lines.append(f"    if span{seqs}[1] > span{seqs}[0] and {oldest} < held[0]:")
            entry = "        "
        lines += [f"{entry}drop_one(span{i})" for i in range(first, len(self._own_buffers))]
        lines.append(f"{entry}at(state[OWN_DROPPED], 1, np.int64)[0] += 1")
        return lines

    @property
    def _filtered(self) -> bool:
        return self._shape.condition != TRUE

    # -- the other side ---------------------------------------------------------------------

    def _columns(self, address: str, count: str) -> list[str]:
        """The stored columns, at addresses to be filled in: of a segment, or of the tail."""
        return [
            f"{array} = at({address.format(i=i, size=dtype.itemsize)}, {count}, {_name(dtype)})"
            for i, (array, dtype) in enumerate(
                zip(self._arrays, self._shape.other.buffers, strict=True)
            )
        ]

    def _tail(self) -> list[str]:
        """All entries behind the last segment."""
        slots = [self._other + 2 * i for i in range(len(self._shape.other.buffers))]
        lines = [
            "tail = following - indexed",
            "met += tail",
        ]
        for array, dtype, slot in zip(self._arrays, self._shape.other.buffers, slots, strict=True):
            start = f"(at(state[{slot + 1}], 2, np.int64)[0] + indexed - first)"
            address = f"state[{slot}] + {dtype.itemsize} * {start}"
            lines.append(f"{array} = at({address}, tail, {_name(dtype)})")
        return [
            *lines,
            "hits = np.int32(0)",
            "for j in range(tail):",
            f"    hits = np.int32(hits + np.int32({self._condition}))",
            "if hits > 0:",
            "    if found + hits > out.shape[0]:",
            f"        return {MANY_PARTNERS}, found + hits",
            "    for j in range(tail):",
            f"        if {self._condition}:",
            "            out[found] = indexed + j",
            "            found += 1",
        ]

    def _segments(self, numbers: list[str]) -> list[str]:
        """The entries in the cells that the tuple's range touches."""
        if not self._arrays or not numbers:
            return []
        count = len(numbers)
        keys = self._shape.keys.dtypes
        lines = [
            f"asked = at(state[ASKED], {count}, np.float64)",
            f"codes = at(state[CODES], {count + 1}, np.int64)",
            f"hashed = at(state[CODES] + {8 * count}, 1, np.uint64)",
            *(f"asked[{i}] = {number}" for i, number in enumerate(numbers)),
            *(f"codes[{i}] = a{i}" for i, dtype in enumerate(keys) if dtype.kind == "i"),
            "limits = segments.view(np.float64)",
            "for g in range(segments.shape[0]):",
        ]
        columns = f"segments[g, {SEGMENT_COLUMNS} + {{i}}]"
        body = [
            "if segments[g, LAST] <= first:",
            "    continue",
            "low = first - segments[g, FIRST]",
            "x0, x1, y0, y1 = 0, 0, 0, 0",
            "if segments[g, BITS] > 0:",
            *(f"    {line}" for line in self._hash_cell()),
            "else:",
            *(f"    {line}" for line in self._grid_cells(0, "x0", "x1")),
            *(f"    {line}" for line in self._grid_cells(1, "y0", "y1")),
            "columns = segments[g, CELLS]",
            "offsets = at(segments[g, OFFSETS], segments[g, OFFSET_COUNT], np.uint32)",
            "order = at(segments[g, ORDER], segments[g, ORDER_COUNT], np.int32)",
            *self._columns(columns, "segments[g, ORDER_COUNT]"),
            "for x in range(x0, x1 + 1):",
            "    s = np.int64(offsets[x * columns + y0])",
            "    e = np.int64(offsets[x * columns + y1 + 1])",
            "    met += e - s",
            "    if found + (e - s) > out.shape[0]:",
            f"        return {MANY_PARTNERS}, found + (e - s)",
            "    for j in range(s, e):",
            "        out[found] = segments[g, FIRST] + order[j]",
            f"        found += np.int64((order[j] >= low) & {self._condition})",
        ]
        return [*lines, *(f"    {line}" for line in body)]

    def _hash_cell(self) -> list[str]:
        at_keys = SEGMENT_COLUMNS + len(self._arrays)
        return [
            f"for i in range(segments[g, {at_keys}]):",
            f"    last = i == segments[g, {at_keys}] - 1",
            f"    k = segments[g, {at_keys + 1} + i]",
            "    hash_cells(codes[k:k + 1], segments[g, BITS] if last else 0, hashed, i == 0)",
            "x0 = np.int64(hashed[0])",
            "x1 = x0",
        ]

    def _grid_cells(self, number: int, first: str, last: str) -> list[str]:
        """As :func:`penstock.kernels.buckets.limit_cells`, for both ends."""
        base = len(SEGMENT) + number * len(DIMENSION)
        scale = (
            f"limits[g, {base} + BASE], limits[g, {base} + SCALE], "
            f"segments[g, {base} + COUNT], bounds"
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
            f"bounds = at(segments[g, {base} + BOUNDS], segments[g, {base} + BOUND_COUNT], "
            "np.float64)",
            f"{last} = segments[g, {base} + COUNT] - 1",
            *end("LOW_KEY", "LOW", "-", first),
            *end("HIGH_KEY", "HIGH", "+", last),
        ]


def _name(dtype: np.dtype[Any]) -> str:
    return "np.bool_" if dtype == np.bool_ else f"np.{dtype.name}"


def _indented(lines: list[str], depth: int) -> str:
    return ("\n" + "    " * depth).join(lines) if lines else "pass"


@functools.cache
def _foundations() -> str:
    """A digest of the code that becomes part of a compiled kernel, and of its cached form."""
    files = (Path(module.__file__ or "").read_bytes() for module in (buckets, memory))
    return hashlib.sha256(b"".join(files)).hexdigest()[:16]
