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
    arrow: Any = pa
    joined: pa.RecordBatch = arrow.concat_batches(list(batches))
    return joined


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
