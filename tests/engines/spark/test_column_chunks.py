"""The panes of an aggregate in chunks: what has changed is written, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import tuning
from penstock.engines.spark.state.column_chunks import (
    Column,
    ColumnChunks,
    unpacked_columns,
)
from penstock.tuning import TUNING


class Store:
    def __init__(self) -> None:
        self.chunks: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.deletes: list[str] = []

    def put(self, key: str, data: bytes) -> None:
        self.chunks[key] = data
        self.puts.append(key)

    def delete(self, key: str) -> None:
        del self.chunks[key]
        self.deletes.append(key)


def panes(versions: dict[int, int]) -> dict[str, Column]:
    return {
        f"row.{number}.{version}.{name}": np.array([number, version, len(name)])
        for number, version in versions.items()
        for name in ("groups", "0.count")
    }


@pytest.mark.parametrize("count", [1, 10, 100, 5000])
def test_what_is_saved_is_loaded_from_a_few_chunks(count: int) -> None:
    store, chunks = Store(), ColumnChunks("3/1")
    saved = {**panes({number - 7: 1 for number in range(count)}), "odd": np.array([1.5])}
    summary = chunks.save(saved, store)
    assert len(store.chunks) <= TUNING.most_column_chunks + 1
    again = ColumnChunks("3/1")
    found = again.load(summary, store.chunks)
    assert found.keys() == saved.keys()
    assert all(np.array_equal(found[key], saved[key]) for key in saved)
    assert again.save(saved, store) == summary
    assert len(store.puts) == len(store.chunks), "nothing has changed, so nothing is written"
    again.forget(store)
    assert store.chunks == {}


@tuning.given(smallest_column_chunk=1)
def test_chunks_of_panes_that_changed_are_written() -> None:
    store, chunks = Store(), ColumnChunks("0/0")
    versions = dict.fromkeys(range(20), 1)
    chunks.save(panes(versions), store)
    before = dict(store.chunks)
    store.puts.clear()
    versions[3] = 2
    del versions[0]
    chunks.save(panes(versions), store)
    [written], [deleted] = store.puts, store.deletes
    assert sorted(unpacked_columns(store.chunks[written])) == sorted(panes({3: 2}))
    assert sorted(unpacked_columns(before[deleted])) == sorted(panes({0: 1}))


@tuning.given(smallest_column_chunk=1)
def test_a_new_chunk_is_written_over_one_that_is_gone() -> None:
    store, chunks = Store(), ColumnChunks("0/0")
    chunks.save(panes(dict.fromkeys(range(20), 1)), store)
    keys = set(store.chunks)
    for first in range(1, 9):
        store.puts.clear()
        versions = dict.fromkeys(range(first, first + 20), 1)
        summary = chunks.save(panes(versions), store)
        assert len(store.puts) == 1 and set(store.chunks) == keys and not store.deletes
        if first % 2:
            chunks = ColumnChunks("0/0")
            assert chunks.load(summary, store.chunks).keys() == panes(versions).keys()


def test_small_panes_are_in_one_chunk_or_two() -> None:
    store, chunks = Store(), ColumnChunks("0/0")
    for first in range(0, 200, 7):
        chunks.save(panes(dict.fromkeys(range(first, first + 25), first)), store)
        assert len(store.chunks) <= 2
    assert len(store.puts) < 60


@tuning.given(smallest_column_chunk=1)
def test_panes_far_apart_take_no_more_chunks() -> None:
    store, chunks = Store(), ColumnChunks("0/0")
    versions = {number * 10**12: 1 for number in range(-50, 50)}
    summary = chunks.save(panes(versions), store)
    assert len(store.chunks) <= TUNING.most_column_chunks
    chunks.save(panes({0: 1, 1: 1}), store)
    assert len(store.chunks) == 2
    assert len(ColumnChunks("0/0").load(chunks.save(panes({0: 1}), store), store.chunks)) == 2
    assert summary["panes_per_chunk"] > 1
