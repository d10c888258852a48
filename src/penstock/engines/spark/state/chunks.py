"""The state of a core in chunks: a trigger writes what is new and deletes what has expired.

A window is kept as chunks of neighbouring tuples, each under a key of its own, beside a small
summary of everything that is not a tuple. Why a reload is exact: the spans of a window's chunks,
written with the same commit, cover every tuple it holds; a chunk holds the *last* tuples of its
span, since the front of the oldest one may have expired when it was written; and what a block
changes in place (matched tuples, tuples expired out of order) is compared with what was last
written and written again, column by column, as an *amendment* beside the chunk. Small chunks are
merged the way a binary counter carries, so a tuple is written a logarithmic number of times however
small the triggers are.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.state import BlockState
from penstock.engines.spark.core.frames import from_ipc, ipc, one_batch
from penstock.engines.spark.state.column_chunks import ChunkStore, ColumnChunks
from penstock.tuning import TUNING

FORMAT = 6
"""Of the state store and the log; a checkpoint of another format is refused."""
VERSIONS = {
    1: "0.1",
    2: "0.1",
    3: "0.2.0 before its release",
    4: "0.2.0 before its release",
    5: "0.3.0 before its release",
}
"""The versions of Penstock that wrote older formats."""


Column = npt.NDArray[Any]
Spans = list[list[int]]


@dataclass
class _StoredWindow:
    """The stored chunks of one window."""

    spans: Spans = field(default_factory=list)
    numbering: int = 0
    first: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    amended: set[tuple[str, int]] = field(default_factory=set)


class BlockChunks:
    """The state of one block in a store; writes the changes since the last time."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._windows: dict[str, _StoredWindow] = {}
        self._loose = ColumnChunks(prefix)

    def save(self, state: BlockState, store: ChunkStore) -> dict[str, Any]:
        """Write the changes to the store; returns the summary for beside the chunks."""
        for name in [name for name in self._windows if name not in state.rows]:
            window = self._windows.pop(name)
            self._delete(name, window, window.spans, store)
        for name, (schema, batches) in state.rows.items():
            window = self._windows.setdefault(name, _StoredWindow())
            self._save_window(name, window, state, schema, batches, store)
        return {
            "values": state.values,
            "spans": {name: window.spans for name, window in self._windows.items()},
            "columns": {
                key: str(column.dtype)
                for window in self._windows.values()
                for key, column in window.columns.items()
            },
            "loose": self._loose.save(_loose(state), store),
            "bare": {
                name: base64.b64encode(schema.serialize()).decode()
                for name, (schema, _) in state.rows.items()
                if not self._windows[name].spans
            },
        }

    def _save_window(
        self,
        name: str,
        window: _StoredWindow,
        state: BlockState,
        schema: pa.Schema,
        batches: list[pa.RecordBatch],
        store: ChunkStore,
    ) -> None:
        first = state.values[name]["first"]
        after = first + sum(batch.num_rows for batch in batches)
        columns = {
            key: column
            for key, column in state.columns.items()
            if key.startswith(f"{name}.") and len(column) == after - first
        }
        if window.numbering != state.values[name].get("numbering", 0):
            self._delete(name, window, window.spans, store)
            window.spans, window.columns = [], {}
            window.numbering = state.values[name]["numbering"]
        gone, fresh, spans = next_spans(window.spans, first, after)
        self._delete(name, window, gone, store)
        self._unamend(window, {start for start, _ in fresh}, store)
        table = pa.Table.from_batches(batches, schema)
        for start, stop in fresh:
            begin = max(start, first)
            parts = {"rows": ipc(table.slice(begin - first, stop - begin))}
            for key, column in columns.items():
                parts[key] = _column_bytes(column[begin - first : stop - first])
            store.put(self._key(name, start), _pack(parts))
        for start, stop in spans:
            if [start, stop] not in fresh:
                self._amend(window, columns, first, (start, stop), store)
        window.spans, window.first, window.columns = spans, first, columns

    def _amend(
        self,
        window: _StoredWindow,
        columns: dict[str, Column],
        first: int,
        span: tuple[int, int],
        store: ChunkStore,
    ) -> None:
        """Write the columns of an old chunk that have changed in place."""
        start, stop = span
        begin = max(start, first)
        for key, column in columns.items():
            part, before = column[begin - first : stop - first], window.columns.get(key)
            if before is not None and np.array_equal(
                part, before[begin - window.first : stop - window.first]
            ):
                continue
            store.put(self._key(key, start), _column_bytes(part))
            window.amended.add((key, start))

    def _delete(self, name: str, window: _StoredWindow, spans: Spans, store: ChunkStore) -> None:
        for start, _ in spans:
            store.delete(self._key(name, start))
        self._unamend(window, {start for start, _ in spans}, store)

    def _unamend(self, window: _StoredWindow, starts: set[int], store: ChunkStore) -> None:
        for key, start in [one for one in window.amended if one[1] in starts]:
            store.delete(self._key(key, start))
            window.amended.remove((key, start))

    def _key(self, name: str, start: int) -> str:
        return f"{self._prefix}/{name}/{start}"

    def load(
        self, empty: BlockState, summary: dict[str, Any], chunks: Mapping[str, bytes]
    ) -> BlockState:
        """The state that was saved. ``empty`` is that of a new block: which windows it has.

        A block may have windows beside those: an order holds rows only while it waits.
        """
        state = BlockState(summary["values"])
        if "loose" in summary:
            state.columns.update(self._loose.load(summary["loose"], chunks))
        for name in dict.fromkeys((*empty.rows, *summary["spans"])):
            spans: Spans = summary["spans"].get(name, [])
            first = state.values[name]["first"]
            numbering = state.values[name].get("numbering", 0)
            window = self._windows[name] = _StoredWindow(spans, numbering, first)
            parts = {start: _unpack(chunks[self._key(name, start)]) for start, _ in spans}
            for key, dtype in summary["columns"].items():
                if key.startswith(f"{name}."):
                    for start, _ in spans:
                        if self._key(key, start) in chunks:
                            window.amended.add((key, start))
                            parts[start][key] = memoryview(chunks[self._key(key, start)])
                    state.columns[key] = _column(key, np.dtype(dtype), spans, first, parts)
                    window.columns[key] = state.columns[key].copy()
            for key, column in empty.columns.items():
                state.columns.setdefault(key, column)
            batches = []
            for start, stop in spans:
                batch = one_batch(from_ipc(parts[start]["rows"]))
                begin = max(start, first)
                batches.append(batch.slice(batch.num_rows - (stop - begin)))
            if name in empty.rows:
                schema = empty.rows[name][0]
            elif batches:
                schema = batches[0].schema
            else:
                schema = _schema(summary["bare"][name])
            state.rows[name] = (schema, batches)
        return state

    def forget(self, store: ChunkStore) -> None:
        """Delete all chunks of a dropped block."""
        for name, window in self._windows.items():
            self._delete(name, window, window.spans, store)
        self._loose.forget(store)


def _loose(state: BlockState) -> dict[str, Column]:
    """The columns that belong to no window."""
    return {k: c for k, c in state.columns.items() if k.split(".", 1)[0] not in state.rows}


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def next_spans(spans: Spans, first: int, after: int) -> tuple[Spans, Spans, Spans]:
    """Spans to delete, spans to write, and all spans once the window is ``first .. after - 1``.

    >>> next_spans([[0, 8], [8, 10]], 9, 11)
    ([[0, 8]], [[10, 11]], [[8, 10], [10, 11]])
    >>> next_spans([[0, 8], [8, 10], [10, 11]], 2, 13)
    ([[10, 11]], [[8, 13]], [[0, 8], [8, 13]])
    """
    gone = [span for span in spans if span[1] <= first]
    kept = [span for span in spans if span[1] > first]
    known = kept[-1][1] if kept else max(first, spans[-1][1] if spans else first)
    fresh: Spans = []
    if after > known:
        start, stop, full = known, after, TUNING.full_chunk
        while kept and kept[-1][1] - kept[-1][0] <= min(stop - start, full - 1):
            start = kept[-1][0]
            gone.append(kept.pop())
        fresh = [[cut, min(cut + full, stop)] for cut in range(start, stop, full)]
        # What is written under the key of a part that was merged is not to be deleted.
        starts = {span[0] for span in fresh}
        gone = [span for span in gone if span[0] not in starts]
    return gone, fresh, kept + fresh


def _column(
    key: str,
    dtype: np.dtype[Any],
    spans: Spans,
    first: int,
    parts: Mapping[int, Mapping[str, memoryview]],
) -> Column:
    """A column of a window, from the parts of its chunks."""
    found: list[Column] = [np.empty(0, dtype)]
    for start, stop in spans:
        part = _bytes_column(parts[start][key], dtype)
        found.append(part[len(part) - (stop - max(start, first)) :])
    return np.concatenate(found)


def _pack(parts: Mapping[str, bytes]) -> bytes:
    """Several parts as one value of the store, since each value costs a round trip.

    >>> {name: bytes(part) for name, part in _unpack(_pack({"rows": b"abc", "times": b""})).items()}
    {'rows': b'abc', 'times': b''}
    """
    header = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    pieces = [len(header).to_bytes(8, "little"), header]
    for part in parts.values():
        pieces += [b"\0" * (-sum(map(len, pieces)) % 64), part]
    return b"".join(pieces)


def _unpack(data: bytes) -> dict[str, memoryview]:
    view = memoryview(data)
    at = 8 + int.from_bytes(view[:8], "little")
    parts: dict[str, memoryview] = {}
    for name, size in json.loads(bytes(view[8:at])).items():
        at += -at % 64
        parts[name] = view[at : at + size]
        at += size
    return parts


def _column_bytes(column: Column) -> bytes:
    """Booleans are eight to a byte, behind the number of them that the last byte has."""
    if column.dtype != np.bool_:
        return column.tobytes()
    return bytes([len(column) % 8]) + np.packbits(column).tobytes()


def _bytes_column(data: memoryview, dtype: np.dtype[Any]) -> Column:
    if dtype != np.bool_:
        return np.frombuffer(data, dtype)
    count = (len(data) - 1) * 8 - (8 - data[0]) % 8
    return np.unpackbits(np.frombuffer(data, np.uint8, offset=1), count=count).astype(np.bool_)
