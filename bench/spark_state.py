"""The memory of Spark's cores: of a join that they share, each stores its part of the windows.

The same tuples are pushed to resident processors of one, two and four cores: to an inner join of
two streams, of which every tuple is stored by one core (SplitJoin), and to a left join and a join
of three streams, where that is so of one stream and every core has the others. The windows are full
at the end, and all cores together make as many rows as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

WINDOW = 1 << 17
BATCH = 1 << 15
CORES = (1, 2, 4)
QUERIES = {
    "two streams": "SELECT r.x AS x, s.word FROM r [ROWS {0}] JOIN s [ROWS {0}] ON r.x = s.x",
    "left join": "SELECT r.x AS x, s.word FROM r [ROWS {0}] LEFT JOIN s [ROWS 1024] ON r.x = s.x",
    "three streams": (
        "SELECT r.x AS x, s.word FROM r [ROWS {0}] JOIN s [ROWS 1024] ON r.x = s.x "
        "JOIN u [ROWS 1024] ON s.x = u.x"
    ),
}


def run(window: int = WINDOW, batch: int = BATCH) -> dict[str, Any]:
    """What the cores hold of each join, by their number."""
    by_cores = {cores: held(window, batch, cores) for cores in CORES}
    found: dict[str, Any] = {"window": window, "batch": batch}
    for name in QUERIES:
        rows = {one[name].pop("rows") for one in by_cores.values()}
        assert len(rows) == 1, f"as many rows by any number of cores, not {rows}"
        found[name] = {"rows": rows.pop()} | {c: one[name] for c, one in by_cores.items()}
    return found


def held(window: int, batch: int, cores: int) -> dict[str, dict[str, Any]]:
    """The rows of each join, and what each core has of its windows after the last batch."""
    rng = np.random.default_rng(7)
    with ps.connect("spark", cores=cores) as engine:
        for name in "rsu":
            engine.sql(f"CREATE STREAM {name} (x BIGINT, word STRING)")
        queries = {name: engine.install(sql.format(window)) for name, sql in QUERIES.items()}
        for _ in range(2 * window // batch):
            for name in "rsu":
                keys = rng.integers(0, 1 << 22, batch)
                words = pa.array([f"word {key:024}" for key in keys.tolist()])
                rows = pa.RecordBatch.from_arrays([pa.array(keys), words], ["x", "word"])
                engine.push(name, rows)
            engine.wait()
        return {name: figures(query, cores) for name, query in queries.items()}


def figures(query: Any, cores: int) -> dict[str, Any]:
    """The number of rows, and the windows of each core."""
    metrics = query.metrics()
    return {
        "rows": query.rows().num_rows,
        "tuples of each core": [core["window"] for core in metrics["cores"]],
        "megabytes of a core": round(metrics["window_bytes"] / cores / 1e6, 1),
    }
