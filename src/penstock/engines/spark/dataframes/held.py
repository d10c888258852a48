"""Tuples of one stream that wait for the punctuations of the others, in chunks.

A chunk is sorted by key and never changed: what has been released is known by the frontier alone,
so a trigger writes the tuples that are new, and deletes chunks of which nothing is left. A chunk
that is not larger than its successor is merged with it, the way a binary counter carries, so that a
stream which waits long does not pile up small ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engines.spark.chunk_store import ChunkStore
from penstock.engines.spark.dataframes.canonical import Keys, canonical_order
from penstock.engines.spark.frames import from_ipc, ipc, one_batch
from penstock.streams.batches import concat, take
from penstock.streams.order import OrderColumn

Part = tuple[pa.RecordBatch, Keys]


@dataclass
class _Chunk:
    """Tuples by key; those before ``first`` have been released."""

    number: int
    batch: pa.RecordBatch
    keys: Keys
    first: int = 0
    written: bool = False

    def rest(self) -> Part:
        return self.batch.slice(self.first), self.keys[self.first :]

    def __len__(self) -> int:
        return len(self.keys) - self.first


class Held:
    """The tuples of one stream that are held. ``name`` tells its chunks from other streams'."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: list[_Chunk] = []
        self._gone: list[int] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, batch: pa.RecordBatch, keys: Keys) -> None:
        """Hold tuples, in any order."""
        if not len(keys):
            return
        parts = [(batch, keys)]
        size = len(keys)
        while self._chunks and len(self._chunks[-1]) <= size:
            last = self._chunks.pop()
            parts.append(last.rest())
            size += len(last)
            self._forget(last)
        order = canonical_order(*(joined := join(parts)))
        self._chunks.append(_Chunk(self._next, take(joined[0], order), joined[1][order]))
        self._next += 1

    def release(self, frontier: Any) -> list[Part]:
        """The tuples below the frontier; None stands for all. They are held no longer."""
        released = []
        for chunk in self._chunks:
            end = len(chunk.keys)
            cut = end if frontier is None else int(np.searchsorted(chunk.keys, frontier, "left"))
            if cut > chunk.first:
                span = cut - chunk.first
                released.append(
                    (chunk.batch.slice(chunk.first, span), chunk.keys[chunk.first : cut])
                )
                chunk.first = cut
        for chunk in self._chunks:
            if not len(chunk):
                self._forget(chunk)
        self._chunks = [chunk for chunk in self._chunks if len(chunk)]
        return released

    def _forget(self, chunk: _Chunk) -> None:
        if chunk.written:
            self._gone.append(chunk.number)

    def save(self, store: ChunkStore) -> dict[str, Any]:
        """Write what is new, delete what is gone; returns what to know beside the chunks."""
        for number in self._gone:
            store.delete(self._key(number))
        self._gone = []
        for chunk in self._chunks:
            if not chunk.written:
                store.put(self._key(chunk.number), ipc(chunk.rest()[0]))
                chunk.written = True
        return {"next": self._next, "chunks": [chunk.number for chunk in self._chunks]}

    def load(
        self,
        saved: dict[str, Any],
        chunks: Mapping[str, bytes],
        column: OrderColumn,
        frontier: Any,
    ) -> None:
        """Hold what was held when it was saved; everything below the frontier was released."""
        self._next = saved["next"]
        for number in saved["chunks"]:
            batch = one_batch(from_ipc(chunks[self._key(number)]))
            keys = column.keys(batch)
            first = 0 if frontier is None else int(np.searchsorted(keys, frontier, "left"))
            self._chunks.append(_Chunk(number, batch, keys, first, written=True))

    def _key(self, number: int) -> str:
        return f"held/{self._name}/{number}"


def join(parts: list[Part]) -> Part:
    """Parts one after another as one."""
    parts = [part for part in parts if len(part[1])] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return concat([batch for batch, _ in parts]), np.concatenate([keys for _, keys in parts])
