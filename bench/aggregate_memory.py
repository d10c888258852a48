"""The memory of window aggregates: panes and groups, independent of the length of the stream."""

from __future__ import annotations

from typing import Any

import penstock as ps
from bench.aggregate_runs import ALL, SUMMED, Work
from bench.soak import resident_bytes
from bench.trades import DDL, Trades

SAMPLES = 50
CHURN = (
    "SELECT window_start, Time * 100 + Price % 100 AS k, COUNT(*) AS n FROM Trades "
    "[RANGE 600 SECONDS SLIDE 60 SECONDS WATTR Time SLACK 60 SECONDS] "
    "WHERE Volume <= 100 GROUP BY Time * 100 + Price % 100"
)
"""A hundred new groups per second, none of which comes again."""


def flat(trades: Trades, tuples: int) -> dict[str, Any]:
    """The resident memory after each part of the stream, with four queries over it.

    They are Query Q3, sums over an hour, five aggregates of constant groups, and groups that come
    and go.
    """
    works = {"q3": Work().sql, "grouped": Work(calls=ALL, only=False, key="symbols").sql}
    works |= {"summed": Work(3_600, calls=SUMMED, only=False).sql, "churn": CHURN}
    batches = max(SAMPLES, tuples // trades.shape.rows)
    samples: list[dict[str, int]] = []
    rows = dict.fromkeys(works, 0)
    with ps.connect("local", batch_rows=trades.shape.rows, buffer_rows=1 << 28) as engine:
        engine.sql(DDL)
        queries = {name: engine.install(text, name=name) for name, text in works.items()}
        for number in range(batches):
            ((_, batch),) = trades.take(1)
            engine.push("Trades", batch)
            for name, query in queries.items():
                rows[name] += query.rows().num_rows
            if number * SAMPLES // batches < (number + 1) * SAMPLES // batches:
                done = (number + 1) * trades.shape.rows
                samples.append({"tuples": done, "bytes": resident_bytes()})
        held = {name: state(query.metrics()) for name, query in queries.items()}
        late = sum(query.metrics()["late"] for query in queries.values())
    assert not late, f"{late} tuples are late, but none should be"
    # A tenth of the stream is enough for every array to have its size.
    early, after = samples[: SAMPLES // 10], samples[SAMPLES // 10 :]
    most = max(sample["bytes"] for sample in after)
    return {
        "tuples": batches * trades.shape.rows,
        "rows": rows,
        "held": held,
        "samples": samples,
        "growth": most / early[-1]["bytes"],
    }


def state(metrics: dict[str, Any]) -> dict[str, Any]:
    """The state of a query at the end."""
    return {name: metrics[name] for name in ("window_bytes", "groups", "panes", "windows_open")}
