"""Generated code for pushes into a join, tuple by tuple: evaluate, probe, store, expire.

It does for one tuple what a run does for many, on the same buffers and the same index. It checks
everything that can prevent the push before it changes anything; if it cannot do the push, it
returns a negative number instead of the number of partners, and nothing has changed. A small batch
is a loop of that, in one call; it ends at the first tuple that cannot be taken.

The search is in :mod:`penstock.kernels.probe.single_search`. Between two tuples everything that a
count window stores is live, so an entry that has not been dropped is a candidate. For time windows
the caller says from where to where the candidates are, and drops what has expired afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.predicate.scalar_source import ScalarSource, parameters
from penstock.kernels.probe.single_search import (
    HEADER,
    NO_ROOM,
    REFUSED,
    BufferTypes,
    ProbedWindow,
    indented,
    name_of,
    preamble,
)
from penstock.sql.expressions import TRUE, Expression


@dataclass(frozen=True)
class SingleShape:
    """What the source depends on besides the predicate.

    Parameters
    ----------
    side
        The side whose tuple arrives.
    schema
        The columns of that tuple.
    condition
        The condition without which it has no keys.
    columns
        Those of its columns that are stored in buffers.
    rows, keys
        The buffers of its own side: of those columns, and of its keys.
    other
        The buffers of the other side's keys.
    """

    side: int
    schema: pa.Schema
    condition: Expression
    columns: tuple[int, ...]
    rows: BufferTypes
    keys: BufferTypes
    other: BufferTypes


@dataclass(frozen=True)
class SingleSource:
    """The source of a kernel, and the layout of its state.

    It is ``kernel(state, segments, out, values…)`` for a tuple, and for a batch
    ``kernel(state, segments, out, names, columns, ranges, start, count)``.

    ``state`` has the header, then data, span and capacity of each buffer of the tuple's own side
    (rows, keys and, where there is a condition, sequence numbers), then data and span of the other
    side's, then the constants. ``bounds`` are numbers of keys, and where among the constants the
    caller puts the smallest and the largest value allowed and the address of those seen so far.
    """

    text: str
    first_constant: int
    constants: list[int | float]
    bounds: list[tuple[int, int]]


def generate_single(predicate: Predicate, shape: SingleShape) -> SingleSource:
    """The source for single tuples of one side.

    The kernel returns the number of partners, with their entry numbers in ``out`` in no order, and
    the number of candidates; or one of :data:`REFUSED` and its like.
    """
    return _generate(predicate, shape, _Writer.text_of_one)


def generate_batch(
    predicate: Predicate, shape: SingleShape, columns: Sequence[BatchColumn | None]
) -> SingleSource:
    """The source for small batches of one side.

    ``columns`` has of each column of the stream how it is stored; None: it is not read. The kernel
    reads ``count`` tuples from ``start`` on, from the addresses in its argument ``columns``. The
    candidates of tuple ``i`` are the entries ``ranges[0, i] .. ranges[1, i] - 1``, counted from the
    first that is stored; where there are no ranges, all. It returns how many tuples it is done
    with, the number of pairs, with their entry numbers in ``out`` and their tuples in ``names``,
    the number of candidates, and, as for single tuples, why it stopped.
    """

    def text(writer: _Writer, scalars: ScalarSource, passed: str, numbers: list[str]) -> str:
        return writer.text_of_many(scalars, passed, numbers, columns)

    return _generate(predicate, shape, text)


@dataclass(frozen=True)
class BatchColumn:
    """How a column of a batch is stored: its machine type, and whether two words make a value."""

    dtype: np.dtype[Any]
    two_words: bool = False


def _generate(
    predicate: Predicate,
    shape: SingleShape,
    text_of: Callable[[_Writer, ScalarSource, str, list[str]], str],
) -> SingleSource:
    own_buffers = [*shape.rows.buffers, *shape.keys.buffers]
    if shape.condition != TRUE:
        own_buffers.append(np.dtype(np.int64))
    own = OwnBuffers(own_buffers, shape.columns, len(HEADER))
    offset = own.end + 2 * len(shape.other.buffers)
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
    writer = _Writer(predicate, shape, own, bounds)
    text = text_of(writer, scalars, passed, numbers)
    return SingleSource(text, offset, scalars.constants, bounds)


@dataclass(frozen=True)
class OwnBuffers:
    """The buffers that a tuple is appended to: in ``state``, data, span and capacity of each.

    They begin at ``offset``. The first ones are those of the tuple's ``columns``.
    """

    dtypes: Sequence[np.dtype[Any]]
    columns: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """The first number in ``state`` behind them."""
        return self.offset + 3 * len(self.dtypes)

    def slot(self, number: int) -> int:
        """Where a buffer is in ``state``."""
        return self.offset + 3 * number

    def span(self, number: int) -> str:
        """The source of a buffer's span."""
        return f"at(state[{self.slot(number) + 1}], 2, np.int64)"

    def room(self) -> list[str]:
        """The lines that name the spans, and return if there is no room for a tuple."""
        lines = []
        for i in range(len(self.dtypes)):
            lines.append(f"span{i} = {self.span(i)}")
            lines.append(f"if span{i}[1] >= state[{self.slot(i) + 2}]:")
            lines.append(f"    return {NO_ROOM}, 0")
        return lines

    def append(self, number: int, value: str) -> list[str]:
        """The lines that append a value to a buffer."""
        dtype, slot = self.dtypes[number], self.slot(number)
        if dtype.itemsize == 16:
            column = self.columns[number]
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


class _Writer:
    """Writes the source of the kernel."""

    def __init__(
        self,
        predicate: Predicate,
        shape: SingleShape,
        own: OwnBuffers,
        bounds: list[tuple[int, int]],
    ) -> None:
        self._predicate = predicate
        self._shape = shape
        self._own = own
        self._bounds = bounds
        self._other = ProbedWindow(predicate, shape.side, shape.keys.dtypes, shape.other, own.end)

    def text_of_one(self, scalars: ScalarSource, passed: str, numbers: list[str]) -> str:
        """A kernel that takes the values of a tuple."""
        return f"""{preamble("Takes one tuple into a join")}
{self._other.link()}

@nb.njit(nogil=True, boundscheck=False)
def kernel(state, segments, out, {", ".join(parameters(self._shape.schema))}):
    lo = at(state[OTHER_DROPPED], 1, np.int64)[0]
    entries = at(state[OTHER_ENTRIES], 2, np.int64)
    hi = lo + entries[1] - entries[0]
    {indented(self._own.room(), 1)}
    link(state, segments)
    {self._body(scalars, passed, numbers, self._store())}
"""

    def text_of_many(
        self,
        scalars: ScalarSource,
        passed: str,
        numbers: list[str],
        columns: Sequence[BatchColumn | None],
    ) -> str:
        """A kernel that takes the tuples of a batch."""
        names = parameters(self._shape.schema)
        arrays, values = _batch_columns(columns)
        return f"""{preamble("Takes a batch into a join, tuple by tuple")}
{self._other.link()}


@register_jitable
def one(state, segments, out, lo, hi, entries, sequence, {", ".join(names)}):
    {self._body(scalars, passed, numbers, self._store_keys())}


@nb.njit(nogil=True, boundscheck=False)
def kernel(state_array, segment_array, out, names, columns, ranges, start, count):
    # Arrays by their addresses are not counted as references, tuple by tuple.
    state = at(state_array.ctypes.data, state_array.size, np.int64)
    segments = at(segment_array.ctypes.data, segment_array.size, np.int64)
    segments = segments.reshape(segment_array.shape)
    {indented(arrays, 1)}
    {indented(self._room_of_many(), 1)}
    link(state, segments)
    held = at(state[OWN_ROWS], 2, np.int64)
    first = at(state[OTHER_DROPPED], 1, np.int64)[0]
    others = at(state[OTHER_ENTRIES], 2, np.int64)
    lo, hi = first, first + others[1] - others[0]
    entries = np.zeros(1, np.int64)
    filled, candidates, done, why, needed = 0, 0, start, 0, 0
    while done < count:
        i = done
        if ranges.shape[1] > 0:
            lo, hi = first + ranges[0, i], first + ranges[1, i]
        sequence = held[1] + i - start
        part = at(out.ctypes.data + 8 * filled, out.shape[0] - filled, np.int64)
        found, compared = one(
            state, segments, part, lo, hi, entries, sequence, {", ".join(values)}
        )
        if found < 0:
            why, needed = found, compared
            break
        if found > 1:
            put_in_order(part[:found])
        for j in range(filled, filled + found):
            names[j] = i
        filled += found
        candidates += compared
        done += 1
    {indented(self._store_many(columns), 1)}
    return done, filled, candidates, why, needed
"""

    def _body(
        self, scalars: ScalarSource, passed: str, numbers: list[str], store: list[str]
    ) -> str:
        """What is done with a tuple, with the candidates ``lo .. hi - 1``: search, then store."""
        for i, literal in enumerate(self._predicate.constants):
            scalars.lines.append(f"k{i} = {scalars.value(literal)}")
        return f"""real = state.view(np.float64)
    {indented(scalars.lines, 1)}
    passed = {passed}
    found = 0
    candidates = 0
    if passed:
        {indented(self._other.search(numbers), 2)}
    {indented(store, 1)}
    return found, candidates"""

    # -- the tuple's own side ---------------------------------------------------------------

    def _store(self) -> list[str]:
        """Append the tuple, and drop the oldest where the window is full."""
        rows, keys = self._shape.rows, self._shape.keys
        row_values = [f"value{i}" for i in self._shape.columns] + ["True"] * sum(rows.nulls)
        key_values = [f"a{i}" for i in range(len(keys.dtypes))] + ["True"] * sum(keys.nulls)
        lines = [
            "if at(state[ASKING], 1, np.int64)[0] != 0:",
            "    return found, candidates",
            "held = at(state[OWN_ROWS], 2, np.int64)",
        ]
        for i, value in enumerate(row_values):
            lines += self._own.append(i, value)
        lines.append("if passed:")
        first = len(row_values)
        values = [*key_values, "held[1]"] if self._filtered else key_values
        for i, value in enumerate(values):
            lines += [f"    {line}" for line in self._own.append(first + i, value)]
        lines += [f"    {line}" for line in self._widen()]
        if not values:
            lines.append("    pass")
        lines.append("held[1] += 1")
        lines.append("if state[WINDOW] >= 0 and held[1] - held[0] > state[WINDOW]:")
        lines.append("    held[0] += 1")
        lines += [f"    drop_one(span{i})" for i in range(first)]
        entry = "    "
        if self._filtered:
            seqs = len(self._own.dtypes) - 1
            slot = self._own.slot(seqs)
            oldest = f"at(state[{slot}], state[{slot + 2}], np.int64)[span{seqs}[0]]"
            lines.append(f"    if span{seqs}[1] > span{seqs}[0] and {oldest} < held[0]:")
            entry = "        "
        lines += [f"{entry}drop_one(span{i})" for i in range(first, len(self._own.dtypes))]
        lines.append(f"{entry}at(state[OWN_DROPPED], 1, np.int64)[0] += 1")
        return lines

    # -- a batch of its own side ------------------------------------------------------------

    def _room_of_many(self) -> list[str]:
        lines = []
        for i in range(len(self._own.dtypes)):
            lines.append(f"span{i} = {self._own.span(i)}")
            lines.append(f"if span{i}[1] + count - start > state[{self._own.slot(i) + 2}]:")
            lines.append(f"    return start, 0, 0, {NO_ROOM}, 0")
        return lines

    def _key_values(self) -> list[str]:
        keys = self._shape.keys
        values = [f"a{i}" for i in range(len(keys.dtypes))] + ["True"] * sum(keys.nulls)
        return [*values, "sequence"] if self._filtered else values

    def _store_keys(self) -> list[str]:
        """Write the keys of a tuple behind those of the ``entries`` before it in the batch."""
        lines = ["if passed:"]
        for i, value in enumerate(self._key_values(), self._rows):
            slot = self._own.slot(i)
            buffer = f"at(state[{slot}], state[{slot + 2}], {name_of(self._own.dtypes[i])})"
            lines.append(f"    {buffer}[{self._own.span(i)}[1] + entries[0]] = {value}")
        lines += [f"    {line}" for line in self._widen()]
        return [*lines, "    entries[0] += 1"]

    def _store_many(self, columns: Sequence[BatchColumn | None]) -> list[str]:
        """Append the tuples that are done, column by column, and drop the oldest."""
        lines = ["fresh = done - start"]
        given = [(index, columns[index]) for index in self._shape.columns]
        for i in range(self._rows):
            slot = self._own.slot(i)
            if i >= len(given):
                buffer = f"at(state[{slot}], state[{slot + 2}], np.bool_)"
                lines.append(f"{buffer}[span{i}[1]:span{i}[1] + fresh] = True")
            else:
                lines += self._copy(i, *given[i])
            lines.append(f"span{i}[1] += fresh")
        last = len(self._own.dtypes)
        lines += [f"span{i}[1] += entries[0]" for i in range(self._rows, last)]
        lines += [
            "held[1] += fresh",
            "gone = held[1] - held[0] - state[WINDOW]",
            "if state[WINDOW] >= 0 and gone > 0:",
            "    held[0] += gone",
            *(f"    drop(span{i}, gone)" for i in range(self._rows)),
        ]
        if self._filtered:
            slot = self._own.slot(last - 1)
            lines += [
                f"    numbers = at(state[{slot}], state[{slot + 2}], np.int64)",
                f"    numbers = numbers[span{last - 1}[0]:span{last - 1}[1]]",
                "    gone = np.searchsorted(numbers, held[0])",
            ]
        lines += [f"    drop(span{i}, gone)" for i in range(self._rows, last)]
        return [*lines, "    at(state[OWN_DROPPED], 1, np.int64)[0] += gone"]

    def _copy(self, number: int, index: int, column: BatchColumn | None) -> list[str]:
        """Append a column of a batch to its buffer."""
        assert column is not None, "texts are not in buffers"
        slot, words = self._own.slot(number), 2 if column.two_words else 1
        dtype = column.dtype if column.two_words else self._own.dtypes[number]
        size, end = f"{words} * state[{slot + 2}]", f"{words} * span{number}[1]"
        return [
            f"target = at(state[{slot}], {size}, {name_of(dtype)})",
            f"for i in range({words} * fresh):",
            f"    target[{end} + i] = c{index}[{words} * start + i]",
        ]

    @property
    def _rows(self) -> int:
        """The number of buffers for columns; those for keys follow."""
        return len(self._shape.rows.buffers)

    def _widen(self) -> list[str]:
        """Widen the bounds of the keys."""
        lines = []
        for number, slot in self._bounds:
            lines += [
                f"bounds{number} = at(state[{slot + 2}], 2, np.int64)",
                f"bounds{number}[0] = min(bounds{number}[0], a{number})",
                f"bounds{number}[1] = max(bounds{number}[1], a{number})",
            ]
        return lines

    @property
    def _filtered(self) -> bool:
        return self._shape.condition != TRUE


def _batch_columns(columns: Sequence[BatchColumn | None]) -> tuple[list[str], list[str]]:
    """The lines that find the columns of a batch, and the values of its ``i``-th tuple."""
    arrays: list[str] = []
    values: list[str] = []
    for index, column in enumerate(columns):
        if column is None:
            values.append("np.int64(0)")
            continue
        count = "2 * count" if column.two_words else "count"
        arrays.append(f"c{index} = at(columns[{index}], {count}, {name_of(column.dtype)})")
        if column.two_words:
            values += [f"c{index}[2 * i]", f"c{index}[2 * i + 1]"]
        else:
            wide = "float64" if column.dtype.kind == "f" else "int64"
            values.append(f"np.{wide}(c{index}[i])")
    return arrays, values
