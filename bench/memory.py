"""Memory: windows plus one batch, independent of the length of the stream."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.streams.events import Merged


def run(batches: int = 200, rows: int = 65_536, window: int = 65_536) -> dict[str, Any]:
    """The resident memory after a tenth of the stream and at its end, with its windows full."""
    rng = np.random.default_rng(4)

    def batch(first: int, names: list[str]) -> pa.RecordBatch:
        keys = rng.integers(0, 1 << 40, rows // 2)
        words = pa.array([f"tuple {first + i}" for i in range(rows // 2)])
        return pa.RecordBatch.from_arrays([pa.array(keys), words], names)

    which = np.tile(np.array([0, 1], np.int8), rows // 2)
    peaks = []
    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (k BIGINT, s STRING); CREATE STREAM S (l BIGINT, n STRING)")
        query = engine.install(
            f"SELECT r.s, s.n FROM R [ROWS {window}] r LEFT JOIN S [ROWS 64] s "
            "ON r.k = s.l AND r.s = s.n"
        )
        for number in range(batches):
            merged = (batch(number * rows, ["k", "s"]), batch(number * rows, ["l", "n"]))
            engine.feed([Merged(("R", "S"), merged, which)])
            query.rows()
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        held = query.metrics()["window_bytes"]
    early, late = peaks[batches // 10], peaks[-1]
    return {
        "tuples": batches * rows,
        "window_bytes": held,
        "peak_bytes_after_a_tenth": early,
        "peak_bytes_at_the_end": late,
        "growth": late / early,
    }
