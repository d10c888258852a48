"""An order of tuples that depends on what they hold and on nothing else.

Tuples are sorted by their key; those that have the same key, by the bits of their values, column by
column, NULL first. Two tuples that are still equal are the same tuple twice, and it makes no
difference which comes first. So any way of cutting the same tuples into batches sorts the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams.batches import take

Keys = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


def canonical_order(batch: pa.RecordBatch, keys: Keys) -> Indices:
    """The indices of the rows by key, and by content where keys are the same.

    >>> batch = pa.record_batch({"k": [2, 1, 1], "x": ["c", "b", "a"]})
    >>> canonical_order(batch, np.array([2, 1, 1])).tolist()
    [2, 1, 0]
    """
    order: Indices = np.argsort(keys, kind="stable").astype(np.int64, copy=False)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    # Few tuples tie as a rule, and only those are looked at any further.
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    group = np.cumsum(np.concatenate(([True], ~same)))[places]
    rows = take(batch, order[places])
    codes = [code for column in rows.columns for code in _codes(column)]
    order[places] = order[places][np.lexsort((*reversed(codes), group))]
    return order


def is_ordered(keys: Keys) -> bool:
    """Whether each key is above the one before, so that there is nothing to settle."""
    return bool((keys[1:] > keys[:-1]).all())


def _codes(column: Any) -> list[Keys]:
    """Arrays of numbers that compare as the values do: whether it is there, and what it is."""
    kind = column.type
    codes: list[Keys] = []
    if column.null_count:
        codes.append(column.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_null(kind):
        return codes
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind):
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return [*codes, ranks.to_numpy(zero_copy_only=False)]
    if pa.types.is_boolean(kind):
        return [*codes, column.fill_null(False).to_numpy(zero_copy_only=False)]
    if pa.types.is_primitive(kind):
        return [*codes, _bits(column)]
    # Nested values have no order in Arrow; their text is as good as any.
    texts = [repr(value) for value in column.to_pylist()]
    return [*codes, np.unique(np.array(texts, dtype=object), return_inverse=True)[1]]


def _bits(column: Any) -> Keys:
    """Fixed-width values as integers of their width: minus zero and zero differ, NaN is itself."""
    width = column.type.bit_width
    whole = column.view(getattr(pa, f"int{width}")())
    bits: Keys = whole.fill_null(0).to_numpy(zero_copy_only=False)
    return bits
