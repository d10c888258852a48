"""The kernels inside a join core: nested loop, band, hash, sorted; and peers on the same work.

Everything is measured through the engine, from Arrow batches to result rows, on one core unless it
says otherwise. t/s counts arrivals of both streams. Each result is checked in the same run: against
the nested loop, or against the peer.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import penstock as ps
from bench.band_join import QUERY, arrivals, band_join
from bench.measure import rate, repeat
from penstock.streams.events import Merged

BATCH = 65_536


def steady(
    ddl: str, query: str, make: Any, fill: int, runs: int, kernel: str | None = None
) -> dict[str, Any]:
    """Tuples per second with windows that have been filled by ``fill`` tuples before."""
    rng = np.random.default_rng(7)
    with ps.connect("local", buffer_rows=1 << 28) as engine:
        engine.sql(ddl)
        installed = engine.install(query + " AND 1 = 0", kernel=kernel)
        engine.feed([make(rng, fill)])
        installed.change(query)
        engine.feed([make(rng, BATCH), make(rng, BATCH)])
        installed.rows()
        parts = iter([make(rng, BATCH) for _ in range(runs)])
        seconds = repeat(lambda: engine.feed([next(parts)]), runs)
        metrics = installed.metrics()
        rows = installed.rows().num_rows
    return {
        "tuples_per_second": rate(BATCH, seconds),
        "rows": rows,
        "kernels": metrics["kernels"],
        "window_bytes": metrics["window_bytes"],
    }


def agree(ddl: str, query: str, make: Any, count: int) -> int:
    """The chosen kernel and the nested loop give the same rows; how many."""
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
    found = []
    for bits in (14, 17, 20):
        query = QUERY.format(window=1 << bits)
        found.append({"window": 1 << bits, **steady(DDL, query, arrivals, 2 << bits, 7)})
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


def hashed() -> list[dict[str, Any]]:
    """Equality on a million distinct keys."""
    ddl = "CREATE STREAM R (k BIGINT); CREATE STREAM S (l BIGINT)"
    text = "SELECT r.k FROM R [ROWS {w}] r JOIN S [ROWS {w}] s ON r.k = s.l"
    agree(ddl, text.format(w=5_000), lambda rng, n: keyed(rng, n, 5_000), 40_000)
    return [
        {"window": w, **steady(ddl, text.format(w=w), keyed, 2 * w, 7)} for w in (1 << 14, 1 << 20)
    ]


def one_sided() -> dict[str, Any]:
    """``r.x < s.a`` with about one result for ten probes."""
    window = 1 << 17
    ddl = "CREATE STREAM R (x BIGINT); CREATE STREAM S (a BIGINT)"

    def make(rng: np.random.Generator, count: int) -> Merged:
        merged = keyed(rng, count, 1 << 40)
        x, a = (batch.column(0).to_numpy() for batch in merged.batches)
        # Shifted so that of a window of pairs one in ten windows has one.
        shift = int((1 << 40) * (1 - np.sqrt(2 * 0.1 / window**1)))
        batches = (
            pa.RecordBatch.from_arrays([pa.array(x + shift)], ["x"]),
            pa.RecordBatch.from_arrays([pa.array(a)], ["a"]),
        )
        return Merged(merged.streams, batches, merged.which)

    text = "SELECT r.x FROM R [ROWS {w}] r JOIN S [ROWS {w}] s ON r.x < s.a"
    agree(ddl, text.format(w=5_000), make, 40_000)
    return {"window": window, **steady(ddl, text.format(w=window), make, 2 * window, 7)}


def tuple_at_a_time(count: int = 4_000) -> dict[str, Any]:
    """The band join through ``push`` of single tuples, as lists of one dict."""
    rng = np.random.default_rng(9)
    window = 1 << 14
    with ps.connect("local") as engine:
        engine.sql(DDL)
        query = engine.install(QUERY.format(window=window))
        engine.feed([arrivals(rng, 2 * window)])
        rows = [
            ("R", [{"x": int(x), "y": float(y)}])
            if i % 2
            else ("S", [{"a": int(x), "b": float(y)}])
            for i, (x, y) in enumerate(
                zip(rng.integers(1, 10_001, count), rng.random(count) * 1e4, strict=True)
            )
        ]
        for stream, row in rows[:200]:
            engine.push(stream, row)
        seconds = []
        for stream, row in rows[200:]:
            start = time.perf_counter()
            engine.push(stream, row)
            seconds.append(time.perf_counter() - start)
        query.rows()
    return {
        "tuples_per_second": len(seconds) / sum(seconds),
        "p50_microseconds": 1e6 * statistics.median(seconds),
        "p99_microseconds": 1e6 * float(np.quantile(seconds, 0.99)),
    }


def bounded_band(rows: int = 131_072) -> dict[str, Any]:
    """One bounded band join of two tables, beside Polars ``join_where``."""
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
    """An equi-join of two tables of a million rows, beside Polars ``join``."""
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
    """Both medians, and how many times the peer's ours is."""
    mine, peer = statistics.median(ours), statistics.median(theirs)
    return {"seconds": mine, "polars_seconds": peer, "times_polars": mine / peer, "rows": rows}


def growth() -> list[dict[str, Any]]:
    """Throughput of the band join as the window grows."""
    return [
        {"window": 1 << b, **steady(DDL, QUERY.format(window=1 << b), arrivals, 2 << b, 5)}
        for b in range(14, 23, 2)
    ]


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
        "growth": growth(),
    }
