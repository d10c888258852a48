"""The stored columns of a window: whole tuples, addressed by their sequence number.

A :class:`Buffer` is a growing array: append at the end, drop at the front, always contiguous.
:class:`FixedColumn` stores values of fixed width in buffers, :class:`BatchStore` strings and the
like in Arrow batches. :class:`RowStore` has the tuples of a window in both.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.expressions.vector import (
    PLAIN_TYPES,
    physical_dtype,
    valid_of,
    vector_of,
)
from penstock.kernels.probe.buckets import gathered
from penstock.streams.batches import concat, no_rows, only, take, without_columns
from penstock.tuning import TUNING

SMALLEST = 64
LARGE = 65_536
"""Elements from which on memory is given back when a buffer is emptied."""
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
DECIMAL = np.dtype("V16")
"""Decimals are copied and never computed with: sixteen bytes, as in Arrow."""
FULL = 32_768
"""Batches smaller than this are merged as more arrive, so that single tuples do not pile up."""
PIECE = 65_536
"""Rows per batch when all are read, so that columns computed from a batch stay small."""


class Buffer:
    """A column of a window.

    Appending and dropping cost O(1) per element, amortised: the array is moved to its front when
    the dropped part is at least as long as the rest, and doubled when it is full otherwise; a large
    array with few elements is replaced by a small one.

    >>> column = Buffer(np.dtype(np.int64))
    >>> column.append(np.arange(5)); column.drop(2); column.view().tolist()
    [2, 3, 4]
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._array: npt.NDArray[Any] = np.empty(SMALLEST, dtype)
        self.span: npt.NDArray[np.int64] = np.zeros(2, np.int64)
        """Where the elements start and end in the array; compiled code moves these too."""

    def __len__(self) -> int:
        start, end = self.span.tolist()
        return int(end - start)

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    @property
    def array(self) -> npt.NDArray[Any]:
        """The whole array, which compiled code appends to; replaced when it is full."""
        return self._array

    def view(self) -> npt.NDArray[Any]:
        """The elements, without copying; valid until the next append."""
        start, end = self.span.tolist()
        return self._array[start:end]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add elements at the end."""
        count = len(values)
        end = self.span.item(1)
        if end + count > len(self._array):
            self.make_room(count)
            end = self.span.item(1)
        self._array[end : end + count] = values
        self.span[1] = end + count

    def repeat(self, value: object, count: int) -> None:
        """Add one value several times."""
        self.make_room(count)
        end = int(self.span[1])
        self._array[end : end + count] = value
        self.span[1] = end + count

    def drop(self, count: int) -> None:
        """Drop the first ``count`` elements."""
        start, end = self.span.tolist()
        start += count
        if start == end:
            self.span[:] = 0
        else:
            self.span[0] = start

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Replace all elements by ``values``."""
        self._array = np.array(values, dtype=self._array.dtype)
        if not len(self._array):
            self._array = np.empty(SMALLEST, self._array.dtype)
        self.span[:] = 0, len(values)

    def cut(self, count: int) -> None:
        """Drop all but the first ``count`` elements."""
        self.span[1] = self.span[0] + count
        if not count and len(self._array) > LARGE:
            self._array = np.empty(SMALLEST, self._array.dtype)
            self.span[:] = 0

    def fit(self) -> None:
        """Give back memory, if the elements need little of it."""
        if len(self._array) > SMALLEST and 4 * len(self) < len(self._array):
            elements = self.view()
            self._array = np.empty(max(2 * len(elements), SMALLEST), elements.dtype)
            self._array[: len(elements)] = elements
            self.span[:] = 0, len(elements)

    def make_room(self, count: int) -> None:
        """Make room for ``count`` more elements, so that appending them keeps the array."""
        start, end = self.span.tolist()
        length, size = end - start, len(self._array)
        if end + count <= size:
            return
        if length > start or length + count > size or 8 * (length + count) < size:
            size = max(2 * length, length + count, SMALLEST)
        fresh = self._array if size == len(self._array) else np.empty(size, self._array.dtype)
        # The two parts overlap only if length > start, and then the array is a new one.
        fresh[:length] = self._array[start:end]
        self._array = fresh
        self.span[:] = 0, length


def has_fixed_width(kind: pa.DataType) -> bool:
    """Whether values of this type have a fixed width, for :class:`FixedColumn`."""
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_decimal128(kind)
    )


class FixedColumn:
    """A stored column of fixed width: its values, and their validity once there has been a NULL."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._is_boolean = pa.types.is_boolean(kind)
        self._is_decimal = pa.types.is_decimal(kind)
        self.values = Buffer(DECIMAL if pa.types.is_decimal(kind) else physical_dtype(kind))
        self.valid: Buffer | None = None

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def append(self, array: pa.Array[Any]) -> None:
        """Add the values of an Arrow array."""
        valid = valid_of(array)
        if valid is not None or self.valid is not None:
            self._append_valid(valid, len(array))
        self.values.append(self._raw(array))

    def extend(self, source: FixedColumn, indices: Indices) -> None:
        """Add the values that a column of the same type has at these indices."""
        valid = None if source.valid is None else source.valid.view().take(indices)
        self._append_valid(valid, len(indices))
        self.values.append(source.values.view().take(indices))

    def repeat(self, value: object, count: int) -> None:
        """Add a physical value, which is not NULL, several times; a decimal is its unscaled int."""
        self._append_valid(None, count)
        if self._is_decimal and isinstance(value, int):
            self.values.append(np.frombuffer(value.to_bytes(16, "little", signed=True), DECIMAL))
            self.values.append(np.broadcast_to(self.values.view()[-1:], (count - 1,)))
        else:
            self.values.repeat(value, count)

    def _append_valid(self, valid: Mask | None, count: int) -> None:
        if valid is not None and self.valid is None:
            valid_before = Buffer(np.dtype(np.bool_))
            valid_before.append(np.ones(len(self.values), np.bool_))
            self.valid = valid_before
        if self.valid is not None:
            self.valid.append(valid if valid is not None else np.ones(count, np.bool_))

    def _raw(self, array: Any) -> npt.NDArray[Any]:
        if not self._is_decimal:
            values: npt.NDArray[Any] = vector_of(array).values
            return values
        return np.frombuffer(array.buffers()[1], DECIMAL, len(array), array.offset * 16)

    def drop(self, count: int) -> None:
        """Drop the first ``count`` values."""
        self.values.drop(count)
        if self.valid is not None:
            self.valid.drop(count)

    def fit(self) -> None:
        """Give back unused memory."""
        self.values.fit()
        if self.valid is not None:
            self.valid.fit()

    def take(self, indices: Indices, padding: Mask | None = None) -> pa.Array[Any]:
        """The values at these indices as a new Arrow array; NULL where there is ``padding``."""
        valid = None if self.valid is None else self.valid.view().take(indices)
        if padding is not None:
            valid = ~padding if valid is None else valid & ~padding
        return self._arrow(self._taken(indices), valid)

    def _taken(self, indices: Indices) -> npt.NDArray[Any]:
        if self._is_decimal:
            return self.values.view().take(indices)
        return gathered(self.values.view(), indices)

    def copy(self, count: int) -> pa.Array[Any]:
        """The first ``count`` values as a new Arrow array."""
        valid = None if self.valid is None else self.valid.view()[:count]
        return self._arrow(self.values.view()[:count].copy(), valid)

    def cut(self, count: int) -> None:
        """Drop all but the first ``count`` values."""
        self.values.cut(count)
        if self.valid is not None:
            self.valid.cut(count)

    def slice(self, start: int, stop: int) -> pa.Array[Any]:
        """A range of the values as an Arrow array that is valid until the next change."""
        valid = None if self.valid is None else self.valid.view()[start:stop]
        return self._arrow(self.values.view()[start:stop], valid)

    def _arrow(self, values: npt.NDArray[Any], valid: Mask | None) -> pa.Array[Any]:
        mask = None if valid is None or valid.all() else _bits(valid)
        data = _bits(values) if self._is_boolean else _bytes(values)
        return pa.Array.from_buffers(self.kind, len(values), [mask, data])


def _bytes(values: Any) -> pa.Buffer:
    return pa.py_buffer(values)


def _bits(values: Any) -> pa.Buffer:
    bits: Any = np.packbits(values, bitorder="little")
    return pa.py_buffer(bits)


def taken_rows(batch: pa.RecordBatch, columns: Sequence[int], indices: Indices) -> pa.RecordBatch:
    """The given columns of the rows at these indices."""
    if not columns:
        return without_columns(len(indices))
    arrays = [_taken(batch.column(column), indices) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [batch.schema.names[column] for column in columns])


def _taken(array: Any, indices: Indices) -> pa.Array[Any]:
    dtype = PLAIN_TYPES.get(array.type.id)
    if dtype is None or array.null_count:
        some: pa.Array[Any] = array.take(pa.array(indices))
        return some
    start = array.offset * dtype.itemsize
    values = np.frombuffer(array.buffers()[1], dtype, len(array), start)
    return pa.Array.from_buffers(array.type, len(indices), [None, _bytes(values[indices])])


class BatchStore:
    """Columns of variable width of the tuples ``first .. next - 1``.

    They are stored as Arrow batches, without copying. Small batches are merged the way a binary
    counter carries, so a tuple is copied a logarithmic number of times however it arrives. Tuples
    of single-tuple pushes wait as Python values until there are enough, or they are read.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.first = 0
        self.next = 0
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._loose: list[Sequence[str | bytes]] = []

    @property
    def nbytes(self) -> int:
        """The memory of the batches, and about that of tuples that are in none yet.

        Safe to call while another thread appends.
        """
        loose = sum(len(value) + 4 for row in tuple(self._loose) for value in row)
        return loose + sum(batch.nbytes for batch in self._batches)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add tuples; they get the next sequence numbers."""
        self._gather()
        if batch.num_rows:
            self._batches += [batch]
            self._starts += [self.next]
            self.next += batch.num_rows
            self._merge()

    def _merge(self) -> None:
        """Make one batch of the last two, until they are large enough."""
        while len(self._batches) > 1:
            last, before = self._batches[-1], self._batches[-2]
            if last.num_rows < before.num_rows or before.num_rows >= FULL:
                break
            merged = concat([before, last])
            # No call comes between these, so a signal does not either.
            self._batches[-2:] = [merged]
            self._starts[-1:] = []

    def append_apart(self, batch: pa.RecordBatch) -> None:
        """Add tuples as a batch that is merged with no other one, so that :meth:`cut` frees it."""
        self._gather()
        if batch.num_rows:
            self._batches += [batch]
            self._starts += [self.next]
            self.next += batch.num_rows

    def cut(self, seq: int) -> None:
        """Drop the batch that begins with ``seq``, the last one, if there is one."""
        if self._starts and self._starts[-1] == seq:
            del self._batches[-1:], self._starts[-1:]
            self.next = seq

    def append_row(self, values: Sequence[str | bytes]) -> None:
        """Add one tuple, without NULLs."""
        self._loose.append(values)

    @property
    def loose(self) -> int:
        """How many single tuples are in no batch yet."""
        return len(self._loose)

    def _gather(self) -> None:
        if self._loose:
            columns = zip(*self._loose, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            # No call comes between these, so a signal does not either: a tuple is in one place.
            self._batches += [batch]
            self._starts += [self.next]
            self.next += batch.num_rows
            self._loose = []
            self._merge()

    def values(self, seqs: npt.NDArray[np.int64], column: int) -> list[object]:
        """One column of the given tuples as Python values; cheaper than :meth:`take` for a few."""
        found = []
        for seq in seqs.tolist():
            if seq >= self.next:
                found.append(self._loose[seq - self.next][column])
            else:
                number = bisect.bisect_right(self._starts, seq) - 1
                scalar = self._batches[number].column(column)[seq - self._starts[number]]
                found.append(scalar.as_py())
        return found

    def drop_before(self, seq: int) -> None:
        """Drop tuples below ``seq``; memory is freed by whole batches."""
        self._gather()
        self.first = max(self.first, min(seq, self.next))
        gone = bisect.bisect_right(self._starts, self.first) - 1
        if self.first == self.next:
            gone = len(self._batches)
        if gone > 0:
            del self._batches[:gone], self._starts[:gone]

    def take(
        self, seqs: npt.NDArray[np.int64], columns: Sequence[int], padded: bool = False
    ) -> pa.RecordBatch:
        """The given columns of the given tuples. ``padded``: -1 stands for a row of NULLs."""
        schema = pa.schema([self.schema.field(c) for c in columns])
        if not columns:
            return without_columns(len(seqs))
        if not len(seqs):
            return no_rows(schema)
        self._gather()
        pieces, order = self._pieces(seqs, columns, schema, padded)
        if len(pieces) == 1 and order is None:
            return pieces[0]
        whole = concat(pieces)
        return take(whole, order) if order is not None else whole

    def _pieces(
        self,
        seqs: npt.NDArray[np.int64],
        columns: Sequence[int],
        schema: pa.Schema,
        padded: bool,
    ) -> tuple[list[pa.RecordBatch], npt.NDArray[np.int64] | None]:
        """What to take from each batch, and the permutation that restores the requested order."""
        starts = np.asarray(self._starts, dtype=np.int64)
        where = np.searchsorted(starts, seqs, side="right") - 1
        if padded:
            where = np.where(seqs < 0, -1, where)
        # A stable sort of small numbers is a radix sort, many times faster.
        small = where.astype(np.int16) if len(starts) < 32_768 else where
        order = np.argsort(small, kind="stable")
        sorted_where = where[order]
        cuts = np.flatnonzero(np.diff(sorted_where)) + 1
        pieces = []
        for part in np.split(order, cuts):
            number = int(where[part[0]])
            if number < 0:
                nulls = [pa.nulls(len(part), f.type) for f in schema]
                pieces.append(pa.RecordBatch.from_arrays(nulls, schema=schema))
                continue
            source = only(self._batches[number], columns)
            pieces.append(take(source, seqs[part] - self._starts[number]))
        if len(pieces) == 1:
            return pieces, None
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return pieces, inverse

    def batches(self) -> list[pa.RecordBatch]:
        """All tuples, oldest first."""
        self._gather()
        if not self._batches:
            return []
        head = self._batches[0].slice(self.first - self._starts[0])
        return [head, *self._batches[1:]]


class RowStore:
    """Whole tuples ``first .. next - 1`` of one stream.

    Columns of numbers and times are contiguous, so that tuples are gathered by one loop per
    column; strings and the like stay in the Arrow batches they came in.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.span: npt.NDArray[np.int64] = np.zeros(2, np.int64)
        """The first sequence number stored, and the next; compiled code moves these too."""
        self.fixed = {
            index: FixedColumn(field.type)
            for index, field in enumerate(schema)
            if has_fixed_width(field.type)
        }
        self._others = [index for index in range(len(schema)) if index not in self.fixed]
        self._places = {index: place for place, index in enumerate(self._others)}
        """The place of each of the others among them."""
        self._schemas: dict[tuple[int, ...], pa.Schema] = {}
        """The schemas of column lists that were read."""
        self._batches = BatchStore(pa.schema([schema.field(index) for index in self._others]))

    def __len__(self) -> int:
        # Both at once: metrics are read while another thread pushes single tuples.
        first, following = self.span.tolist()
        return int(following - first)

    @property
    def first(self) -> int:
        """The sequence number of the oldest tuple."""
        return int(self.span.item(0))

    @property
    def next(self) -> int:
        """The sequence number that the next tuple will have."""
        return int(self.span.item(1))

    @property
    def nbytes(self) -> int:
        return self._batches.nbytes + sum(column.nbytes for column in self.fixed.values())

    def start_at(self, seq: int) -> None:
        """Set the sequence number of the first tuple of an empty store."""
        self.span[:] = self._batches.first = self._batches.next = seq

    def append(self, batch: pa.RecordBatch) -> None:
        """Add tuples; they get the next sequence numbers."""
        for index, column in self.fixed.items():
            column.append(batch.column(index))
        if self._others:
            self._batches.append(only(batch, self._others))
        self.span[1] += batch.num_rows

    def add_guests(self, batch: pa.RecordBatch) -> None:
        """Let tuples be read that are not stored, by the numbers after the last stored one."""
        for index, column in self.fixed.items():
            column.append(batch.column(index))
        if self._others:
            self._batches.append_apart(only(batch, self._others))

    def drop_guests(self) -> None:
        """Drop the tuples of :meth:`add_guests`."""
        for column in self.fixed.values():
            column.cut(len(self))
        if self._others:
            self._batches.cut(self.next)

    @property
    def texts(self) -> Sequence[int]:
        """The columns that are not in :attr:`fixed`."""
        return self._others

    def append_texts(self, values: Sequence[Any]) -> None:
        """Add the texts of a tuple whose other columns compiled code has stored."""
        if self._batches.next + self._batches.loose < self.next:  # else it was interrupted
            self._batches.append_row([values[index] for index in self._others])
        if self._batches.loose >= TUNING.most_loose_texts:
            self._batches.drop_before(self.first)

    def append_text_batch(self, batch: pa.RecordBatch, count: int) -> None:
        """Add the texts of the first tuples of a batch; compiled code has stored the rest."""
        self._batches.append(only(batch.slice(0, count), self._others))
        self._batches.drop_before(self.first)

    def texts_at(self, indices: npt.NDArray[np.int64], column: int) -> list[object]:
        """A column of texts of the tuples at these places, as Python values."""
        return self._batches.values(indices + self.first, self._places[column])

    def drop_before(self, seq: int) -> None:
        """Drop tuples below ``seq``."""
        before, after = self.span.tolist()
        first = max(before, min(seq, after))
        for column in self.fixed.values():
            column.drop(first - before)
        if self._others:
            self._batches.drop_before(first)
        self.span[0] = first

    def fit(self) -> None:
        """Give back unused memory."""
        for column in self.fixed.values():
            column.fit()

    def take(
        self, seqs: npt.NDArray[np.int64], columns: Sequence[int], padded: bool = False
    ) -> pa.RecordBatch:
        """The given columns of the given tuples. ``padded``: -1 stands for a row of NULLs."""
        if not columns:
            return without_columns(len(seqs))
        schema = self._schema_of(tuple(columns))
        if not len(seqs):
            return no_rows(schema)
        padding = seqs < 0 if padded else None
        if padding is not None and padding.all():
            return _nulls(schema, len(seqs))
        indices = seqs - self.first
        if padding is not None:
            indices[padding] = 0
        others = [c for c in columns if c not in self.fixed]
        texts: Any = None
        if others:
            texts = self._batches.take(seqs, [self._places[c] for c in others], padded)
        rest = iter(texts.columns if others else ())
        arrays = [
            self.fixed[c].take(indices, padding) if c in self.fixed else next(rest) for c in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema_of(self, columns: tuple[int, ...]) -> pa.Schema:
        found = self._schemas.get(columns)
        if found is None:
            found = self._schemas[columns] = pa.schema([self.schema.field(c) for c in columns])
        return found

    def batches(self) -> list[pa.RecordBatch]:
        """All tuples, oldest first; valid until the next change."""
        if not len(self):
            return []
        if not self._others:
            return [self._piece(i, min(i + PIECE, len(self))) for i in range(0, len(self), PIECE)]
        self._batches.drop_before(self.first)
        made, start = [], 0
        for texts in self._batches.batches():
            made.append(self._piece(start, start + texts.num_rows, texts))
            start += texts.num_rows
        return made

    def _piece(self, start: int, stop: int, texts: pa.RecordBatch | None = None) -> pa.RecordBatch:
        arrays: list[Any] = [
            self.fixed[index].slice(start, stop)
            if texts is None or index in self.fixed
            else texts.column(self._places[index])
            for index in range(len(self.schema))
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)
