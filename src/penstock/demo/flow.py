"""Feeding a query on Spark, with its progress on the screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.demo.data import Data, Size
from penstock.demo.screen import Screen
from penstock.streams.events import Merged

if TYPE_CHECKING:
    from penstock.engines.spark.engine import Engine

CHUNKS_PER_TRIGGER = 4
_LOOK_AGAIN = 0.2
"""Seconds between two looks at how far the cores are."""


class Flow:
    """Feeds both halves of the arrivals, never far ahead of the cores, and drains the rows."""

    def __init__(self, engine: Engine, query: Any, data: Data, size: Size, screen: Screen) -> None:
        self._engine = engine
        self._query = query
        self._size = size
        self._screen = screen
        self._chunks = list(data.chunks(size.chunk))
        self._rows: list[pa.Table] = []
        self._instructions = engine.position
        self._told = 0
        self._told_at = self._started = 0.0

    def start(self) -> None:
        """The first chunk, which compiles the query; the time counts from its end."""
        self._engine.feed(self._chunks[:1])
        self._engine.wait()
        self._drain()
        self._told = self._done()
        self._told_at = self._started = time.perf_counter()

    def first_half(self) -> None:
        """All chunks before the change; the last of them are still under way afterwards."""
        self._feed(self._chunks[1 : self._size.change // self._size.chunk])

    def second_half(self) -> pa.Table:
        """The rest, until all of it is processed; returns the rows of both halves."""
        self._feed(self._chunks[self._size.change // self._size.chunk :])
        self._watch(self._engine.position)
        seconds = time.perf_counter() - self._started
        first = len(self._chunks[0])
        tuples = self._size.arrivals - first
        self._screen.say(
            f"   The {tuples:,} tuples after the first {first:,} took {seconds:.1f} s: "
            f"{tuples / seconds:,.0f} tuples/s."
        )
        return pa.concat_tables(self._rows)

    def _feed(self, chunks: list[Merged]) -> None:
        ahead = 2 * CHUNKS_PER_TRIGGER * self._size.chunk
        for chunk in chunks:
            self._engine.feed([chunk])
            self._watch(self._engine.position - ahead)

    def _watch(self, position: int) -> None:
        """Drain and tell until everything before a position is processed."""
        waiting = True
        while waiting:
            waiting = not self._engine.wait_for(position, _LOOK_AGAIN)
            self._drain()
            self._tell()

    def _drain(self) -> None:
        self._rows.append(self._query.rows())

    def _done(self) -> int:
        done = self._engine.progress - self._instructions
        return done - 1 if done > self._size.change else done  # the change has a position too

    def _tell(self) -> None:
        """A line for every micro-batch, with the rate since the last one."""
        done, now = self._done(), time.perf_counter()
        if done <= self._told:
            return
        rows = sum(table.num_rows for table in self._rows)
        rate = (done - self._told) / (now - self._told_at)
        total = self._size.arrivals
        self._screen.move(
            f"   {done:>9,} of {total:,} tuples, {rows:>9,} rows, {rate:>7,.0f} tuples/s"
        )
        self._told, self._told_at = done, now
