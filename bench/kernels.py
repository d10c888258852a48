"""The kernels of a join core: nested loop, band, hash, sorted; and peers on the same work.

Indexes are measured twice, on one core: as a join core alone (:mod:`bench.join_core`: keys in,
index pairs out) and through the whole engine, from Arrow batches to result rows in order. t/s
counts arrivals of both streams. A run replaces the window at least once, so that it includes the
cost of building indexes. Each result is checked in the same run, against the nested loop or against
the peer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import penstock as ps
from bench.band_join import QUERY, arrivals, band_join
from bench.join_core import measure
from bench.measure import rate, repeat
from penstock.streams.events import Merged

BATCH = 65_536
Make = Callable[[np.random.Generator, int], Merged]


def steady(
    ddl: str, query: str, make: Make, window: int, rounds: int = 3, turn: int | None = None
) -> dict[str, Any]:
    """Tuples per second through the engine, with full windows.

    A round is ``turn`` batches; by default as many as replace the window once.
    """
    rng = np.random.default_rng(7)
    turn = max(4, 2 * window // BATCH) if turn is None else turn
    with ps.connect("local", buffer_rows=1 << 28) as engine:
        engine.sql(ddl)
        installed = engine.install(query + " AND 1 = 0")
        for _ in range(0, 2 * window, 1 << 20):
            engine.feed([make(rng, min(2 * window, 1 << 20))])
        installed.change(query)
        engine.feed([make(rng, BATCH), make(rng, BATCH)])
        installed.rows()
        batches = [make(rng, BATCH) for _ in range(turn)]
        rows = 0

        def work() -> None:
            nonlocal rows
            for batch in batches:
                engine.feed([batch])
                rows += installed.rows().num_rows

        seconds = repeat(work, rounds)
        metrics = installed.metrics()
    return {
        "window": window,
        "tuples_per_second": rate(BATCH * turn, seconds),
        "rows_per_arrival": rows / (BATCH * turn * rounds),
        "kernels": metrics["kernels"],
        "window_bytes": metrics["window_bytes"],
    }


def both_ways(ddl: str, query: str, make: Make, window: int) -> dict[str, Any]:
    """The join core alone, and through the engine."""
    found = steady(ddl, query, make, window)
    found["core_tuples_per_second"] = measure(ddl, query, make, window)["tuples_per_second"]
    return found


def agree(ddl: str, query: str, make: Make, count: int) -> int:
    """Check that the chosen kernel and the nested loop give the same rows; returns their number."""
    merged = make(np.random.default_rng(8), count)
    with ps.connect("local", buffer_rows=1 << 28) as engine:
        engine.sql(ddl)
        queries = [engine.install(query, kernel=kernel) for kernel in (None, "nested-loop")]
        engine.feed([merged])
        first, second = (q.rows() for q in queries)
    assert first.equals(second), query
    return int(first.num_rows)


DDL = "CREATE STREAM R (x INT, y FLOAT); CREATE STREAM S (a INT, b FLOAT)"


def band() -> list[dict[str, Any]]:
    """The papers' two-dimensional band join."""
    checked = agree(DDL, QUERY.format(window=5_000), arrivals, 40_000)
    found = [
        both_ways(DDL, QUERY.format(window=1 << bits), arrivals, 1 << bits) for bits in (14, 17, 20)
    ]
    found[0]["rows_checked"] = checked
    return found


def keyed(rng: np.random.Generator, count: int, distinct: int = 1_000_000) -> Merged:
    """Tuples of two streams with a 64-bit key each."""
    which = rng.integers(0, 2, count).astype(np.int8)
    left = int((which == 0).sum())
    batches = tuple(
        pa.RecordBatch.from_arrays([pa.array(rng.integers(0, distinct, n))], [name])
        for n, name in ((left, "k"), (count - left, "l"))
    )
    return Merged(("R", "S"), (batches[0], batches[1]), which)


KEYED = "CREATE STREAM R (k BIGINT); CREATE STREAM S (l BIGINT)"
EQUAL = "SELECT r.k FROM R [ROWS {w}] r JOIN S [ROWS {w}] s ON r.k = s.l"
LESS = "SELECT r.k FROM R [ROWS {w}] r JOIN S [ROWS {w}] s ON r.k < s.l"


def hashed() -> list[dict[str, Any]]:
    """Equality on a million distinct keys."""
    agree(KEYED, EQUAL.format(w=5_000), lambda rng, n: keyed(rng, n, 5_000), 40_000)
    return [both_ways(KEYED, EQUAL.format(w=w), keyed, w) for w in (1 << 14, 1 << 20)]


def ordered(window: int) -> Make:
    """Tuples for ``r.k < s.l`` with about one result per ten probes of such a window."""
    # Shifted so that the two ranges of keys overlap by as little.
    shift = int((1 << 40) * (1 - math.sqrt(2 * 0.1 / window)))

    def make(rng: np.random.Generator, count: int) -> Merged:
        merged = keyed(rng, count, 1 << 40)
        left = pa.array(merged.batches[0].column(0).to_numpy() + shift)
        shifted = pa.RecordBatch.from_arrays([left], ["k"])
        return Merged(merged.streams, (shifted, merged.batches[1]), merged.which)

    return make


def one_sided() -> dict[str, Any]:
    """``r.k < s.l`` with about one result per ten probes."""
    window = 1 << 17
    agree(KEYED, LESS.format(w=5_000), ordered(5_000), 40_000)
    return both_ways(KEYED, LESS.format(w=window), ordered(window), window)


def tuple_at_a_time(count: int = 100_000) -> dict[str, Any]:
    """The band join through ``push`` of single tuples, as lists of one dict.

    ``push``: each call is measured until it returns. ``push_and_rows``: until ``rows()`` after it
    has returned. Both give the rows of the same tuples in one batch, and after every hundredth push
    all rows up to there are checked. The first thousand pushes are not measured: among them the
    engine compiles its function for single tuples.
    """
    rng = np.random.default_rng(9)
    window = 1 << 14
    filling, arriving = arrivals(rng, 2 * window), arrivals(rng, count)
    with full_windows(window, filling) as (engine, query):
        first = engine.position
        engine.feed([arriving])
        results = query.drain()
    expected = pa.Table.from_batches([result.batch for result in results])
    positions = np.concatenate([result.positions for result in results])
    made = np.searchsorted(positions, first + np.arange(count), side="right")
    singles = one_by_one(arriving)
    with full_windows(window, filling) as (engine, query):
        seconds = []
        for number, (stream, row) in enumerate(singles):
            start = time.perf_counter()
            engine.push(stream, row)
            seconds.append(time.perf_counter() - start)
            if number % 100 == 0:
                assert query.undrained == made[number], "rows are missing after a push"
        assert query.rows().equals(expected), "single tuples give other rows than a batch"
    with full_windows(window, filling) as (engine, query):
        both, parts = [], []
        for stream, row in singles:
            start = time.perf_counter()
            engine.push(stream, row)
            rows = query.rows()
            both.append(time.perf_counter() - start)
            parts.append(rows)
        found = pa.concat_tables(part for part in parts if part.num_rows)
        assert found.combine_chunks().equals(expected.combine_chunks())
    return {
        "window": window,
        "rows": expected.num_rows,
        "push": latencies(seconds[1_000:]),
        "push_and_rows": latencies(both[1_000:]),
    }


@contextmanager
def full_windows(window: int, filling: Merged) -> Iterator[tuple[Any, Any]]:
    """An engine with the band join, its windows full, its rows drained."""
    with ps.connect("local") as engine:
        engine.sql(DDL)
        query = engine.install(QUERY.format(window=window))
        engine.feed([filling])
        query.rows()
        yield engine, query


def one_by_one(merged: Merged) -> list[tuple[str, list[dict[str, Any]]]]:
    """The arrivals as lists of one dict each."""
    rows = [iter(batch.to_pylist()) for batch in merged.batches]
    return [(merged.streams[which], [next(rows[which])]) for which in merged.which.tolist()]


def latencies(seconds: list[float]) -> dict[str, float]:
    """Pushes per second, and their median and 99th percentile."""
    return {
        "tuples_per_second": len(seconds) / sum(seconds),
        "p50_microseconds": 1e6 * statistics.median(seconds),
        "p99_microseconds": 1e6 * float(np.quantile(seconds, 0.99)),
        "largest_microseconds": 1e6 * max(seconds),
    }


def bounded_band(rows: int = 131_072) -> dict[str, Any]:
    """One bounded band join of two tables, compared with Polars ``join_where``."""
    rng = np.random.default_rng(10)
    tables = [
        pa.table({a: rng.integers(1, 10_001, rows).astype(np.int32), b: rng.random(rows) * 9_999})
        for a, b in (("x", "y"), ("a", "b"))
    ]
    text = (
        "SELECT r.x, s.a FROM R JOIN S ON R.x BETWEEN S.a - 10 AND S.a + 10 "
        "AND R.y BETWEEN S.b - 10 AND S.b + 10"
    ).replace("r.x, s.a", "R.x, S.a")
    left, right = (pl.from_arrow(table) for table in tables)
    conditions = [
        pl.col("x") >= pl.col("a") - 10, pl.col("x") <= pl.col("a") + 10,
        pl.col("y") >= pl.col("b") - 10, pl.col("y") <= pl.col("b") + 10,
    ]  # fmt: skip
    counts: list[int] = []
    ours = repeat(lambda: counts.append(ps.sql(text, R=tables[0], S=tables[1]).num_rows), 4)[1:]
    theirs = repeat(lambda: counts.append(left.join_where(right, *conditions).height), 3)
    assert len(set(counts)) == 1, counts
    return compared(ours, theirs, counts[0])


def bounded_equality(rows: int = 1_000_000) -> dict[str, Any]:
    """An equi-join of two tables of a million rows, compared with Polars ``join``."""
    rng = np.random.default_rng(11)
    tables = [
        pa.table({"k": rng.integers(0, rows, rows), name: np.arange(rows)}) for name in ("i", "j")
    ]
    left, right = (pl.from_arrow(table) for table in tables)
    text = "SELECT R.i, S.j FROM R [UNBOUNDED] JOIN S [UNBOUNDED] ON R.k = S.k"
    counts: list[int] = []
    ours = repeat(lambda: counts.append(ps.sql(text, R=tables[0], S=tables[1]).num_rows), 4)[1:]
    theirs = repeat(lambda: counts.append(left.join(right, on="k").height), 3)
    assert len(set(counts)) == 1, counts
    return compared(ours, theirs, counts[0])


def compared(ours: list[float], theirs: list[float], rows: int) -> dict[str, Any]:
    """Both medians, and the ratio of ours to the peer's."""
    mine, peer = statistics.median(ours), statistics.median(theirs)
    return {"seconds": mine, "polars_seconds": peer, "times_polars": mine / peer, "rows": rows}


def spread_out(window: int) -> Make:
    """Arrivals of the band join over a range that grows with the window, for constant rows."""
    side = 10_000 * math.sqrt(window / (1 << 17))

    def make(rng: np.random.Generator, count: int) -> Merged:
        which = rng.integers(0, 2, count).astype(np.int8)
        left = int((which == 0).sum())
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.array((rng.random(n) * side).astype(kind)) for kind in (np.int32, np.float32)],
                names,
            )
            for n, names in ((left, ["x", "y"]), (count - left, ["a", "b"]))
        ]
        return Merged(("R", "S"), (batches[0], batches[1]), which)

    return make


def growth(largest: int = 24) -> list[dict[str, Any]]:
    """Throughput and memory as the window grows, at a constant number of rows per arrival."""
    found = []
    for bits in range(14, largest + 1, 2):
        w = 1 << bits
        works = {
            "band": (DDL, QUERY.format(window=w), spread_out(w)),
            "hash": (KEYED, EQUAL.format(w=w), lambda rng, n, w=w: keyed(rng, n, w)),
            "sorted": (KEYED, LESS.format(w=w), ordered(w)),
        }
        for kernel, (ddl, query, make) in works.items():
            entry = steady(ddl, query, make, w, turn=max(4, min(32, 2 * w // BATCH)))
            assert entry["kernels"] == [(kernel, kernel)], entry
            found.append({"kernel": kernel, **entry})
    return found


def hostile(window: int = 1 << 14, count: int = 1 << 14) -> dict[str, Any]:
    """Data that is bad for an index: the chosen kernel, compared with the nested loop.

    At least half of a band's pairs are candidates, and none is a result.
    """
    ddl = "CREATE STREAM R (k BIGINT); CREATE STREAM S (l BIGINT)"
    text = (
        f"SELECT r.k FROM R [ROWS {window}] r JOIN S [ROWS {window}] s "
        "ON r.k BETWEEN s.l - 1 AND s.l + 1 AND r.k * 2 - s.l * 2 = 1"
    )
    shapes: dict[str, Callable[[np.random.Generator, int], Any]] = {
        "equal": lambda rng, n: np.full(n, 7),
        "zipf": lambda rng, n: np.minimum(rng.zipf(1.3, n), 1 << 40),
        "even": lambda rng, n: rng.integers(0, 1 << 20, n),
    }
    found = {}
    for name, shape in shapes.items():
        rng = np.random.default_rng(3)

        def make(shape: Any = shape, rng: np.random.Generator = rng) -> Merged:
            which = np.tile(np.array([0, 1], np.int8), count // 2)
            batches = tuple(
                pa.RecordBatch.from_arrays([pa.array(shape(rng, count // 2))], [column])
                for column in "kl"
            )
            return Merged(("R", "S"), (batches[0], batches[1]), which)

        batches = [make() for _ in range(6)]
        seconds = {}
        for kernel in (None, "nested-loop"):
            with ps.connect("local") as engine:
                engine.sql(ddl)
                query = engine.install(text, kernel=kernel)
                engine.feed(batches[:3])
                parts = iter(batches[3:])
                taken = repeat(lambda: engine.feed([next(parts)]), 3)  # noqa: B023
                seconds[kernel] = statistics.median(taken)
                assert query.rows().num_rows == 0
                if kernel is None:
                    chosen = query.metrics()["kernels"]
        found[name] = {
            "chosen": chosen,
            "times_nested_loop": seconds[None] / seconds["nested-loop"],
        }
    return found


def run() -> dict[str, Any]:
    """All of it."""
    return {
        "nested_loop": [
            band_join(1 << bits, count, 5)
            for bits, count in ((12, 131_072), (14, 131_072), (17, 16_384), (20, 4_096))
        ],
        "band": band(),
        "hash": hashed(),
        "sorted": one_sided(),
        "tuple_at_a_time": tuple_at_a_time(),
        "bounded_band": bounded_band(),
        "bounded_equality": bounded_equality(),
        "hostile": hostile(),
        "growth": growth(),
    }
