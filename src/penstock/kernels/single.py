"""The source of a function that takes one tuple into a join: evaluate, probe, store, expire.

It does for one tuple what a run does for many, on the same buffers and the same index. Everything
that can stand in the way is found out before anything is changed, and returned as a negative number
instead of the number of partners: then nothing has happened.

How partners are looked for is in :mod:`penstock.kernels.single_search`. What one stored side holds
is all live between two tuples, so an entry that has not been dropped is a candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.kernels.compiled import load
from penstock.kernels.predicate import Predicate
from penstock.kernels.scalar_source import ScalarSource, parameters
from penstock.kernels.single_layout import HEADER, LONG_TAIL, NO_ROOM, REFUSED, SingleShape
from penstock.kernels.single_search import Search, indented, name_of, preamble
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
        self._search = Search.of(predicate, shape.side, shape.keys.dtypes, shape.other)

    def text(self, scalars: ScalarSource, passed: str, numbers: list[str]) -> str:
        for i, literal in enumerate(self._predicate.constants):
            scalars.lines.append(f"k{i} = {scalars.value(literal)}")
        return f"""{preamble("Takes one tuple into a join")}

@nb.njit(nogil=True, cache=True, boundscheck=False)
def kernel(state, segments, out, {", ".join(parameters(self._shape.schema))}):
    real = state.view(np.float64)
    {indented(scalars.lines, 1)}
    passed = {passed}
    {indented(self._room(), 1)}
    found = 0
    met = 0
    if passed:
        lo = at(state[OTHER_DROPPED], 1, np.int64)[0]
        entries = at(state[OTHER_ENTRIES], 2, np.int64)
        hi = lo + entries[1] - entries[0]
        indexed = max(state[INDEXED], lo)
        if hi - indexed > state[LONGEST_TAIL]:
            return {LONG_TAIL}, 0
        {indented(self._segments(numbers), 2)}
        {indented(self._tail(), 2)}
    if at(state[ASKING], 1, np.int64)[0] != 0:
        return found, met
    {indented(self._store(), 1)}
    return found, met
"""

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
            f"at(state[{slot}], state[{slot + 2}], {name_of(dtype)})[span{number}[1]] = {value}",
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

    def _tail(self) -> list[str]:
        """All entries behind the last segment."""
        lines = ["tail = hi - indexed"]
        stored = zip(self._search.arrays, self._shape.other.buffers, strict=True)
        for number, (array, dtype) in enumerate(stored):
            slot = self._other + 2 * number
            start = f"(at(state[{slot + 1}], 2, np.int64)[0] + indexed - lo)"
            address = f"state[{slot}] + {dtype.itemsize} * {start}"
            lines.append(f"{array} = at({address}, tail, {name_of(dtype)})")
        return [*lines, *self._search.tail()]

    def _segments(self, numbers: list[str]) -> list[str]:
        count = len(numbers)
        scratch = [
            f"asked = at(state[ASKED], {count}, np.float64)",
            f"codes = at(state[CODES], {count + 1}, np.int64)",
            f"hashed = at(state[CODES] + {8 * count}, 1, np.uint64)",
        ]
        return self._search.segments(numbers, scratch)
