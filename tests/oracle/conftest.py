"""Feeds events to the oracle one by one and returns the rows of each."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

COLUMNS = pa.schema({"id": pa.int64(), "t": pa.int64()})
Rows = list[tuple[int, tuple[object, ...]]]


class Play:
    """Streams R and S of (id, t) take the positions 0 and 1, the query ``q`` takes 2."""

    def __init__(self, text: str, bounded: bool = False) -> None:
        self.oracle = Oracle()
        for name in ("R", "S"):
            self.oracle.create_stream(Stream.of(name, COLUMNS, bounded=bounded))
        self.oracle.install("q", text)
        self._shown = 0

    def new(self, query: str = "q") -> Rows:
        """The rows of ``q`` since the last look, each with its position."""
        rows = self.oracle.rows[query][self._shown :]
        self._shown += len(rows)
        return rows

    def push(self, stream: str, key: int | None, time: int | None) -> Rows:
        row = {"id": [key], "t": [time]}
        self.oracle.tuples(stream, pa.RecordBatch.from_pydict(row, COLUMNS))
        return self.new()

    def r(self, key: int | None, time: int | None = 0) -> Rows:
        return self.push("R", key, time)

    def s(self, key: int | None, time: int | None = 0) -> Rows:
        return self.push("S", key, time)

    def punctuate(self, stream: str, value: int) -> Rows:
        self.oracle.punctuate(stream, value)
        return self.new()

    def end(self, stream: str | None = None) -> Rows:
        self.oracle.end(stream)
        return self.new()

    def change(self, text: str) -> Rows:
        self.oracle.change("q", text)
        return self.new()


@pytest.fixture
def play() -> Callable[..., Play]:
    return Play
