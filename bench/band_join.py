"""The papers' two-dimensional band join with the nested-loop kernel, on one core.

R(x int32, y float32) and S(a int32, b float32), keys uniform in 1–10,000, ±10 on both, count
windows. Published: 0.44 G comparisons per second and core (handshake join, Teubner & Mueller 2011),
0.39 (SplitJoin, Najafi 2019). The windows are filled without probing; then the whole engine is
measured, from Arrow batches to result rows, at full windows. The number of rows is checked in the
same run against NumPy, which counts the pairs by the definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.measure import rate, repeat
from penstock.streams.events import Merged

QUERY = (
    "SELECT r.x, r.y, s.a, s.b FROM R [ROWS {window}] AS r JOIN S [ROWS {window}] AS s "
    "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
)


def arrivals(rng: np.random.Generator, count: int) -> Merged:
    """Tuples of both streams, interleaved at random."""
    which = rng.integers(0, 2, count).astype(np.int8)
    left = int((which == 0).sum())

    def batch(names: tuple[str, str], rows: int) -> pa.RecordBatch:
        keys = rng.integers(1, 10_001, rows).astype(np.int32)
        values = (rng.random(rows) * 9_999 + 1).astype(np.float32)
        return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], list(names))

    return Merged(("R", "S"), (batch(("x", "y"), left), batch(("a", "b"), count - left)), which)


def band_join(window: int, count: int, runs: int) -> dict[str, Any]:
    """Comparisons and tuples per second at full windows."""
    rng = np.random.default_rng(1)
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (x INT, y FLOAT); CREATE STREAM S (a INT, b FLOAT)")
        # The window is filled while the predicate is FALSE, which costs no comparisons.
        text = QUERY.format(window=window)
        query = engine.install(text + " AND 1 = 0", kernel="nested-loop")
        filling = arrivals(rng, 2 * window + 4096)
        engine.feed([filling])
        query.change(text)
        engine.feed([arrivals(rng, 16)])  # compiles
        query.rows()
        before = query.metrics()["comparisons"]
        parts = [arrivals(rng, count) for _ in range(runs)]
        remaining = iter(parts)
        seconds = repeat(lambda: engine.feed([next(remaining)]), runs)
        compared = (query.metrics()["comparisons"] - before) / runs
        rows = query.rows().num_rows
        window_bytes = query.metrics()["window_bytes"]
    return {
        "window": window,
        "window_bytes": window_bytes,
        "comparisons_per_second": rate(compared, seconds),
        "tuples_per_second": rate(count, seconds),
        "rows": rows,
    }


def check(window: int = 2_000, count: int = 6_000) -> int:
    """The same query on a small window; its rows are counted by the definition."""
    rng = np.random.default_rng(2)
    merged = arrivals(rng, count)
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (x INT, y FLOAT); CREATE STREAM S (a INT, b FLOAT)")
        query = engine.install(QUERY.format(window=window))
        engine.feed([merged])
        found = query.rows().num_rows
    positions = [np.flatnonzero(merged.which == side) for side in (0, 1)]
    columns = [[c.to_numpy() for c in batch.columns] for batch in merged.batches]
    close = np.abs(columns[0][0][:, None] - columns[1][0]) <= 10
    low, high = columns[1][1] - np.float32(10), columns[1][1] + np.float32(10)
    close &= (columns[0][1][:, None] >= low) & (columns[0][1][:, None] <= high)
    later = positions[0][:, None] > positions[1]
    before_left = np.searchsorted(positions[1], positions[0])[:, None]
    before_right = np.searchsorted(positions[0], positions[1])
    live_right = np.arange(len(positions[1])) >= before_left - window
    live_left = np.arange(len(positions[0]))[:, None] >= before_right - window
    expected = int((close & np.where(later, live_right, live_left)).sum())
    assert found == expected, f"{found} rows, but the definition gives {expected}"
    return found


def run() -> dict[str, Any]:
    """The figure: windows of 2^14, 2^17 and 2^20."""
    return {
        "rows_checked": check(),
        "windows": [
            band_join(1 << 14, 131_072, 5),
            band_join(1 << 17, 16_384, 5),
            band_join(1 << 20, 4_096, 5),
        ],
    }
