"""Picking and joining Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Indices = npt.NDArray[np.int64]


def take(batch: pa.RecordBatch, indices: Indices) -> pa.RecordBatch:
    """The rows of the batch at these indices, in this order."""
    if batch.num_columns == 0:
        return without_columns(len(indices))
    return batch.take(indices)


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
    """A batch that has rows but no columns, which Arrow can make in this way alone.

    >>> without_columns(3).num_rows
    3
    """
    structs: Any = pa.StructArray
    return pa.RecordBatch.from_struct_array(structs.from_buffers(pa.struct([]), rows, [None]))


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch that has columns but no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def only(batch: pa.RecordBatch, columns: Sequence[int]) -> pa.RecordBatch:
    """The batch with these columns alone."""
    if not columns:
        return without_columns(batch.num_rows)
    return batch.select(list(columns))
