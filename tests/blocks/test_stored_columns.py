"""The store of whole tuples, against a plain list of rows."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.blocks.window.stored_columns import SMALLEST, Buffer, RowStore

SCHEMA = pa.schema(
    {
        "small": pa.int8(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "price": pa.decimal128(20, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
        "ratio": pa.float32(),
        "large": pa.uint64(),
    }
)
ROWS = st.tuples(
    st.none() | st.integers(-128, 127),
    st.none() | st.text(max_size=3),
    st.none() | st.booleans(),
    st.none() | st.integers(-(10**18), 10**18).map(lambda n: Decimal(n).scaleb(-2)),
    st.none() | st.dates(),
    st.none() | st.datetimes().map(lambda t: t.replace(tzinfo=datetime.UTC)),
    st.none() | st.binary(max_size=3),
    st.none() | st.floats(width=32, allow_nan=False),
    st.none() | st.integers(0, 2**64 - 1),
)


def _batch(rows: list[tuple[object, ...]], offset: int = 0) -> pa.RecordBatch:
    """The rows as a batch, as a slice of a longer one where ``offset`` says so."""
    padded = [rows[0]] * offset + rows if rows else rows
    columns = zip(*padded, strict=True) if padded else [()] * len(SCHEMA)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return batch.slice(offset) if rows else batch


def _rows(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist()]


@given(st.lists(st.tuples(st.lists(ROWS, max_size=6), st.integers(0, 3), st.integers(0, 8))))
def test_what_is_taken_is_what_was_stored(
    steps: list[tuple[list[tuple[object, ...]], int, int]],
) -> None:
    store = RowStore(SCHEMA)
    store.start_at(5)
    stored: dict[int, tuple[object, ...]] = {}
    for rows, offset, dropped in steps:
        stored |= {store.next + i: row for i, row in enumerate(rows)}
        store.append(_batch(rows, offset))
        store.drop_before(store.first + dropped)
        stored = {seq: row for seq, row in stored.items() if seq >= store.first}
        assert (len(store), store.next - store.first) == (len(stored), len(stored))
        assert [row for batch in store.batches() for row in _rows(batch)] == list(stored.values())
        seqs = np.array([*reversed(stored), -1, *stored], np.int64)
        expected = [stored.get(seq, (None,) * len(SCHEMA)) for seq in seqs.tolist()]
        assert _rows(store.take(seqs, range(len(SCHEMA)), padded=True)) == expected
        some = store.take(seqs[seqs >= 0], [3, 1])
        assert _rows(some) == [(stored[s][3], stored[s][1]) for s in seqs.tolist() if s >= 0]
        assert some.validate(full=True) is None


def test_padding_of_an_empty_store_is_null() -> None:
    batch = RowStore(SCHEMA).take(np.array([-1, -1]), [0, 1], padded=True)
    assert _rows(batch) == [(None, None)] * 2


def test_what_was_taken_outlives_the_store() -> None:
    store = RowStore(pa.schema({"x": pa.int64()}))
    store.append(pa.record_batch({"x": pa.array(range(40))}))
    taken = store.take(np.arange(40), [0])
    store.drop_before(39)
    for _ in range(50):
        store.append(pa.record_batch({"x": pa.array([-1] * 20)}))
        store.drop_before(store.next - 1)
    assert taken.column(0).to_pylist() == list(range(40))


@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_buffer_gives_memory_back(count: int) -> None:
    buffer = Buffer(np.dtype(np.int64))
    buffer.append(np.arange(10_000))
    buffer.drop(10_000 - count)
    buffer.fit()
    assert buffer.nbytes == 8 * max(2 * count, SMALLEST)
    assert buffer.view().tolist() == list(range(10_000 - count, 10_000))


def test_a_buffer_that_holds_little_becomes_small_as_it_goes_on() -> None:
    buffer = Buffer(np.dtype(np.int64))
    buffer.append(np.arange(10_000))
    buffer.drop(9_999)
    for i in range(10_000):
        buffer.append(np.array([i]))
        buffer.drop(1)
    assert buffer.nbytes <= 8 * SMALLEST
    assert buffer.view().tolist() == [9_999]
