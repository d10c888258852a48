"""The panes of an aggregate in chunks: a trigger writes those that it changed.

A pane (of the kernel ``wid``: a window) is a few small columns, ``row.<number>.<version>.<name>``,
and one with the same number and version is the same. Neighbouring panes are in one chunk, so that
there are a few chunks however many panes there are, and none is tiny: each costs a round trip to
Spark. A chunk is written if a pane of it is new, has another version or is gone. Since to delete
one costs a round trip too, a new chunk is written over one whose panes are all gone, if there is
one. Columns of other names are in one more chunk.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.tuning import TUNING

Column = npt.NDArray[Any]
_REST = "rest"


class ChunkStore(Protocol):
    """Bytes by key."""

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


class ColumnChunks:
    """The chunks of columns that belong to no window. ``prefix`` is that of their keys."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._panes_per_chunk = 1
        self._written: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def save(self, columns: Mapping[str, Column], store: ChunkStore) -> dict[str, Any]:
        """Write the changes to the store; returns the summary for beside the chunks."""
        numbers = {int(key.split(".", 2)[1]) for key in columns if key.startswith("row.")}
        size = sum(c.nbytes for key, c in columns.items() if key.startswith("row."))
        self._fit(numbers, size)
        members: dict[str, dict[str, Column]] = {}
        for key, column in columns.items():
            members.setdefault(self._chunk_of(key), {})[key] = column
        gone = [place for place in self._written if place not in members]
        for place in gone:
            del self._written[place]
        free = [self._names.pop(place) for place in gone]
        for place, held in members.items():
            # Versions tell panes apart; of other columns only their content does.
            mark: Any = sorted(held) if place != _REST else packed_columns(held)
            if self._written.get(place) != mark:
                if place not in self._names:
                    self._names[place] = free.pop() if free else self._new_name()
                data = mark if place == _REST else packed_columns(held)
                store.put(self._key(self._names[place]), data)
                self._written[place] = mark
        for name in free:
            store.delete(self._key(name))
        return {"panes_per_chunk": self._panes_per_chunk, "chunks": sorted(self._names.values())}

    def _new_name(self) -> str:
        taken = set(self._names.values())
        return next(name for name in map(str, itertools.count()) if name not in taken)

    def _fit(self, numbers: set[int], nbytes: int) -> None:
        """Choose the width of chunks, so that there are neither too many nor too few."""
        span = max(numbers) - min(numbers) + 1 if numbers else 1
        most = min(TUNING.most_column_chunks - 2, nbytes // TUNING.smallest_column_chunk)
        size = self._panes_per_chunk
        while span // size > most and size <= span:
            size *= 2
        while size > 1 and 8 * (span // size) < most:
            size //= 2
        self._panes_per_chunk = size

    def _chunk_of(self, key: str) -> str:
        """The key of a column's chunk, for this width."""
        if not key.startswith("row."):
            return _REST
        size = self._panes_per_chunk
        return f"rows/{size}/{int(key.split('.', 2)[1]) // size}"

    def load(self, summary: Mapping[str, Any], chunks: Mapping[str, bytes]) -> dict[str, Column]:
        """Restore the columns from saved state."""
        self._panes_per_chunk = summary["panes_per_chunk"]
        columns: dict[str, Column] = {}
        for name in summary["chunks"]:
            data = chunks[self._key(name)]
            held = unpacked_columns(data)
            place = self._chunk_of(next(iter(held)))
            self._written[place] = sorted(held) if place != _REST else bytes(data)
            self._names[place] = name
            columns.update(held)
        return columns

    def forget(self, store: ChunkStore) -> None:
        """Delete all chunks of a dropped block."""
        for name in self._names.values():
            store.delete(self._key(name))
        self._written, self._names = {}, {}

    def _key(self, name: str) -> str:
        return f"{self._prefix}/columns/{name}"


def packed_columns(columns: Mapping[str, Column]) -> bytes:
    """Arrays of numbers as bytes.

    >>> found = unpacked_columns(packed_columns({"a": np.arange(2), "b": np.array([True])}))
    >>> {name: column.tolist() for name, column in found.items()}
    {'a': [0, 1], 'b': [True]}
    """
    arrays = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    header = json.dumps([[name, a.dtype.str, len(a)] for name, a in arrays.items()]).encode()
    pieces = [len(header).to_bytes(8, "little"), header]
    size = 8 + len(header)
    for array in arrays.values():
        assert array.ndim == 1 and array.dtype != object, "a column is an array of numbers"
        gap = -size % 8
        pieces += [b"\0" * gap, array.tobytes()]
        size += gap + array.nbytes
    return b"".join(pieces)


def unpacked_columns(data: bytes | memoryview) -> dict[str, Column]:
    """The arrays of :func:`packed_columns`, as views of the bytes."""
    view = memoryview(data)
    at = 8 + int.from_bytes(view[:8], "little")
    columns: dict[str, Column] = {}
    for name, kind, count in json.loads(bytes(view[8:at])):
        at += -at % 8
        dtype = np.dtype(kind)
        columns[name] = np.frombuffer(view, dtype, count, at)
        at += count * dtype.itemsize
    return columns
