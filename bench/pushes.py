"""The cost of a push, by its number of tuples: ``python -m bench pushes [--quick]``.

A push has a fixed cost, and streams arrive in small batches. Two-way joins with a band and with an
equality, a three-way join with equalities, over count and over time windows, and sliding
aggregates, ungrouped and by a key, get tuples in pushes of 1 to 10,000, from Arrow and as lists of
dicts. The windows are full and every kernel is compiled before the first measured push. A figure is
the time of ``engine.push`` alone; tuples per second include draining the rows. The rows of a small
input must not depend on the size of a push, which is checked in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

WINDOW = 10_000
"""Tuples of each window of a join, and of one slide of an aggregate."""
KEYS = 10_000
"""Groups of an aggregate, and values of the keys of a join."""
SIZES = (1, 10, 100, 1_000, 10_000)
DRAINED = 50
"""After this many pushes the rows are drained."""
STREAMS = "CREATE STREAM {name} (t BIGINT, id BIGINT, x INT, y FLOAT, k BIGINT, v DOUBLE)"
BAND = "r.x BETWEEN s.x - 10 AND s.x + 10 AND r.y BETWEEN s.y - 10 AND s.y + 10"


def joined(on: str, clause: str) -> str:
    """A join of two streams with the same window clause."""
    clause = clause.format(window=WINDOW)
    return f"SELECT r.id AS r, s.id AS s FROM R {clause} AS r JOIN S {clause} AS s ON {on}"


def chained(clause: str) -> str:
    """A join of three streams with the same window clause."""
    r, s, q = (f"{name} {clause.format(window=WINDOW)} AS {name.lower()}" for name in "RSQ")
    on = "JOIN {0} ON r.k = s.k JOIN {1} ON s.k = q.k"
    return f"SELECT r.id AS r, s.id AS s, q.id AS q FROM {r} {on.format(s, q)}"


def folded(call: str, by: str = "") -> str:
    """A sliding aggregate; six windows are open at any time."""
    clause = f"[RANGE {6 * WINDOW} SLIDE {WINDOW} WATTR t]"
    group = f" GROUP BY {by}" if by else ""
    return f"SELECT window_start, {by or 0} AS k, {call} AS a FROM R {clause}{group}"


QUERIES = {
    "band join, count windows": joined(BAND, "[ROWS {window}]"),
    "band join, time windows": joined(BAND, "[RANGE {window} WATTR t]"),
    "equi-join, count windows": joined("r.k = s.k", "[ROWS {window}]"),
    "equi-join, time windows": joined("r.k = s.k", "[RANGE {window} WATTR t]"),
    "3-way equi-join, count windows": chained("[ROWS {window}]"),
    "3-way equi-join, time windows": chained("[RANGE {window} WATTR t]"),
    "count": folded("COUNT(*)"),
    "sum": folded("SUM(v)"),
    "count by key": folded("COUNT(*)", "k"),
    "sum by key": folded("SUM(v)", "k"),
}


@dataclass(frozen=True)
class Effort:
    """The amount of work: pushes of each size, their maximum of tuples, tuples before the first."""

    pushes: int = 1_000
    tuples: int = 300_000
    before: int = 3 * WINDOW

    def pushes_of(self, size: int) -> int:
        """The number of measured pushes of that size."""
        return max(2, min(self.pushes, self.tuples // size))


WHOLE = Effort()
QUICK = Effort(pushes=4, tuples=4_000, before=400)
"""Enough to show that everything runs."""


class Arrivals:
    """An endless source, one tuple of each stream at every tick."""

    def __init__(self, names: tuple[str, ...], as_dicts: bool) -> None:
        self._names = names
        self._as_dicts = as_dicts
        self._rng = np.random.default_rng(1)
        self._tick = 0

    def take(self, size: int, pushes: int) -> Iterator[tuple[str, Any]]:
        """The next pushes, streams alternating."""
        for number in range(pushes):
            name = self._names[number % len(self._names)]
            batch = self._batch(size)
            if name == self._names[-1]:
                self._tick += size
            yield name, batch.to_pylist() if self._as_dicts else batch

    def _batch(self, size: int) -> pa.RecordBatch:
        rng, ticks = self._rng, np.arange(self._tick, self._tick + size)
        columns = {
            "t": ticks,
            "id": ticks,
            "x": rng.integers(1, 10_001, size).astype(np.int32),
            "y": (rng.random(size) * 9_999 + 1).astype(np.float32),
            "k": rng.integers(0, KEYS, size),
            "v": rng.integers(0, 1_000_000, size) / 100,
        }
        return pa.RecordBatch.from_pydict({name: pa.array(v) for name, v in columns.items()})


class Contestant:
    """An engine with one query."""

    def __init__(self, text: str, as_dicts: bool) -> None:
        self.engine = ps.connect("local")
        names = ("R", "S", "Q")[: 1 + text.count("JOIN")]
        for name in names:
            self.engine.sql(STREAMS.format(name=name))
        self.query = self.engine.install(text)
        self.arrivals = Arrivals(names, as_dicts)

    def timed(self, size: int, pushes: int) -> tuple[list[float], float]:
        """The seconds of each push, and those of draining the rows."""
        given = list(self.arrivals.take(size, pushes))
        push, clock = self.engine.push, time.perf_counter
        seconds, taking = [], 0.0
        for number, (name, data) in enumerate(given):
            start = clock()
            push(name, data)
            stop = clock()
            seconds.append(stop - start)
            if number % DRAINED == DRAINED - 1:
                self.query.rows()
                taking += clock() - stop
        start = clock()
        self.query.rows()
        return seconds, taking + clock() - start


def figures(seconds: list[float], taking: float, size: int) -> dict[str, float]:
    """Microseconds per push, and tuples per second."""
    half, most = np.percentile(seconds, [50, 99]) * 1e6
    rate = size * len(seconds) / (sum(seconds) + taking)
    return {"p50_us": float(half), "p99_us": float(most), "tuples_per_second": rate}


def measure(
    name: str, effort: Effort, sizes: tuple[int, ...], as_dicts: bool
) -> list[dict[str, Any]]:
    """A query with full windows, for every size of a push."""
    found = []
    for size in sizes:
        one = Contestant(QUERIES[name], as_dicts)
        step = min(size, 1_000)
        with one.engine:
            one.timed(1_000, effort.before // 1_000 * 2 or 2)
            # Single-tuple pushes have functions of their own, which are compiled after a while.
            one.timed(size, max(4, min(effort.before, 2_000) // step))
            pushes = effort.pushes_of(size)
            measured = figures(*one.timed(size, pushes), size)
        given = "dicts" if as_dicts else "arrow"
        found.append({"query": name, "input": given, "size": size, "pushes": pushes, **measured})
    return found


def rows_of(text: str, turn: int, turns: int, size: int, as_dicts: bool) -> list[dict[str, Any]]:
    """All rows of a small input, streams alternating, in pushes of that size."""
    one = Contestant(text, False)
    with one.engine:
        for name, batch in one.arrivals.take(turn, turns):
            for start in range(0, turn, size):
                part = batch.slice(start, size)
                one.engine.push(name, part.to_pylist() if as_dicts else part)
        one.engine.end()
        return one.query.rows().to_pylist()


def check(name: str, turn: int = 1_000, turns: int = 12) -> int:
    """The number of rows of a small input; an error if rows depend on the size of pushes."""
    expected = rows_of(QUERIES[name], turn, turns, turn, False)
    for size in (size for size in SIZES if size < turn):
        found = rows_of(QUERIES[name], turn, turns, size, size <= 10)
        assert found == expected, f"{name}: other rows by pushes of {size} than of {turn}"
    return len(expected)


def run(quick: bool = False) -> dict[str, Any]:
    """The figures of every query, with Arrow and with lists of dicts."""
    effort = QUICK if quick else WHOLE
    sizes = tuple(size for size in SIZES if size <= effort.tuples)
    turn = 100 if quick else 1_000
    return {
        "queries": QUERIES,
        "rows_checked": {name: check(name, turn) for name in QUERIES},
        "pushes": [
            entry
            for name in QUERIES
            for as_dicts in (False, True)
            for entry in measure(name, effort, sizes, as_dicts)
        ],
    }
