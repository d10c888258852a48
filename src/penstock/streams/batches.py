"""Operations on Arrow record batches that Arrow lacks or that must handle zero columns."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]


class _OpenedBatch:
    """As much of a record batch as a window takes; each column becomes an array object once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._columns: dict[int, Any] = {}
        self.num_rows = batch.num_rows
        self.num_columns = batch.num_columns

    def column(self, index: int) -> Any:
        """A column, the same object every time."""
        found = self._columns.get(index)
        if found is None:
            found = self._columns[index] = self._batch.column(index)
        return found

    def select(self, columns: list[int]) -> pa.RecordBatch:
        """Some of the columns."""
        return self._batch.select(columns)

    def take(self, indices: Indices) -> pa.RecordBatch:
        """Some of the rows."""
        return self._batch.take(indices)

    def slice(self, start: int, length: int) -> pa.RecordBatch:
        """Neighbouring rows, not copied."""
        return self._batch.slice(start, length)


class _TakenRows:
    """Rows of a batch, as much of them as expressions read; a column is taken when it is read."""

    def __init__(self, batch: pa.RecordBatch, indices: Indices) -> None:
        self._batch = batch
        self._indices = pa.array(indices)
        self._columns: dict[int, Any] = {}
        self.num_rows = len(indices)
        self.num_columns = batch.num_columns

    def column(self, index: int) -> Any:
        """A column, the same object every time."""
        found = self._columns.get(index)
        if found is None:
            compute: Any = pc
            column = self._batch.column(index)
            found = compute.take(column, self._indices, boundscheck=False)
            self._columns[index] = found
        return found


def read_rows(batch: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    """The rows of the batch at these indices, which are known to be there, to be read only."""
    return cast(pa.RecordBatch, _TakenRows(batch, indices))


def opened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, for its columns to be read several times: to make one costs microseconds."""
    return cast(pa.RecordBatch, _OpenedBatch(batch))


def take(batch: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    """The rows of the batch at these indices, in this order."""
    if batch.num_columns == 0:
        return without_columns(len(indices))
    return batch.take(indices)


def take_known(batch: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    """As :func:`take`, for indices that are known to be in the batch: they are not checked."""
    if batch.num_columns == 0:
        return without_columns(len(indices))
    compute: Any = pc
    taken: pa.RecordBatch = compute.take(batch, pa.array(indices), boundscheck=False)
    return taken


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all batches, one after another."""
    if batches[0].num_columns == 0:
        return without_columns(sum(batch.num_rows for batch in batches))
    if any(batch.schema != batches[0].schema for batch in batches):
        batches = [plain(batch) for batch in batches]
    arrow: Any = pa
    joined: pa.RecordBatch = arrow.concat_batches(list(batches))
    return joined


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its dictionary-encoded columns decoded.

    >>> coded = pa.record_batch({"x": pa.array(["a", "b", "a"]).dictionary_encode()})
    >>> plain(coded).column("x").type
    DataType(string)
    """
    if not any(pa.types.is_dictionary(field.type) for field in batch.schema):
        return batch
    given: list[Any] = batch.columns
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in given]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def without_columns(rows: int) -> pa.RecordBatch:
    """A batch with rows but no columns. Arrow can build one only in this way.

    >>> without_columns(3).num_rows
    3
    """
    structs: Any = pa.StructArray
    return pa.RecordBatch.from_struct_array(structs.from_buffers(pa.struct([]), rows, [None]))


@functools.lru_cache(maxsize=1024)
def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch with columns but no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def only(batch: pa.RecordBatch, columns: Sequence[int]) -> pa.RecordBatch:
    """The batch with only these columns."""
    if not columns:
        return without_columns(batch.num_rows)
    return batch.select(list(columns))
