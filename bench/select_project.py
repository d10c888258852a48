"""Selection and projection from Arrow memory, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.measure import rate, repeat

QUERIES = {
    "selection": "SELECT id, x FROM R WHERE x > 500",
    "projection": "SELECT id, x + 1 AS x FROM R",
    "both": "SELECT id, x + 1 AS x FROM R WHERE x > 500",
    "nothing selected": "SELECT id FROM R WHERE x > 5000",
    "string selection": "SELECT id FROM R WHERE s = 'b'",
}


def run(rows: int = 4_194_304, runs: int = 5) -> dict[str, Any]:
    """Tuples per second; half of them pass. The rows are checked against NumPy."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1_000, rows).astype(np.int32)
    words = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, rows)]
    table = pa.table({"id": np.arange(rows), "x": x, "s": pa.array(words)})
    results = {}
    for name, text in QUERIES.items():
        with ps.connect("local", buffer_rows=10 * rows) as engine:
            engine.sql("CREATE STREAM R (id BIGINT, x INT, s STRING)")
            query = engine.install(text)

            kept: list[int] = []

            def work(engine: Any = engine, query: Any = query, kept: Any = kept) -> None:
                engine.push("R", table)
                kept.append(query.rows().num_rows)

            engine.push("R", table.slice(0, 1000))
            query.rows()
            seconds = repeat(work, runs)
        expected = {
            "projection": rows,
            "nothing selected": 0,
            "string selection": int((words == "b").sum()),
        }.get(name, int((x > 500).sum()))
        assert set(kept) == {expected}, f"{name}: {kept} rows, expected {expected}"
        results[name] = {"query": text, "tuples_per_second": rate(rows, seconds), "rows": kept[0]}
    return results
