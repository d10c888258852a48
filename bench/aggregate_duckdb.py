"""The grouped sliding windows over one bounded batch, compared with DuckDB on the same tuples.

DuckDB has no sliding windows of a group-by, so it runs two queries: one that copies each tuple into
every window it is in, as is usually written, and one that first aggregates by minute and copies
only that. Neither engine is limited in cores, and both give the same rows.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

import penstock as ps
from bench.aggregate_runs import SUMMED, Work
from bench.measure import rate, repeat
from bench.trades import DDL, Trades

WORK = Work(calls=SUMMED, value="volumes", only=False, key="symbols")
COPIED = """
SELECT w AS window_start, Symbol::VARCHAR AS k, count(*) AS n, sum(Volume)::BIGINT AS s
FROM (SELECT Symbol, Volume,
        unnest(range(Time // {slide} * {slide} - {last}, Time + 1, {slide})) AS w FROM trades)
GROUP BY w, Symbol ORDER BY w, k"""
BY_MINUTE = """
WITH minutes AS (SELECT Time // {slide} * {slide} AS minute, Symbol, count(*) AS n, sum(Volume) AS s
                 FROM trades GROUP BY minute, Symbol),
     copied AS (SELECT Symbol, n, s, unnest(range(minute - {last}, minute + 1, {slide})) AS w
                FROM minutes)
SELECT w AS window_start, Symbol::VARCHAR AS k, sum(n)::BIGINT AS n, sum(s)::BIGINT AS s
FROM copied GROUP BY w, Symbol ORDER BY w, k"""
KEYS = [("window_start", "ascending"), ("k", "ascending")]


def one_batch(trades: Trades, batches: int, runs: int) -> dict[str, Any]:
    """Tuples per second of each, over ``batches`` batches as one table."""
    table = pa.Table.from_batches([batch for _, batch in trades.take(batches)])
    found: dict[str, Any] = {"tuples": table.num_rows, "groups": trades.shape.symbols}
    ours(table.slice(0, 1_000))  # compiles
    answers: dict[str, pa.Table] = {}

    def timed(name: str, work: Any) -> None:
        def once() -> None:
            answers[name] = work()

        found[name] = {"tuples_per_second": rate(table.num_rows, repeat(once, runs))}

    timed("penstock", lambda: ours(table))
    numbers = {"slide": WORK.slide, "last": WORK.size - WORK.slide}
    with duckdb.connect() as connection:
        connection.register("trades", table)
        for name, text in (("duckdb, copied", COPIED), ("duckdb, by minute", BY_MINUTE)):
            query = text.format(**numbers)
            timed(name, lambda query=query: connection.sql(query).to_arrow_table())
    first = answers.pop("penstock").sort_by(KEYS)
    for name, answer in answers.items():
        assert answer.cast(first.schema).sort_by(KEYS).equals(first), f"{name} gives other rows"
    return {**found, "rows": first.num_rows, "duckdb_version": duckdb.__version__}


def ours(table: pa.Table) -> pa.Table:
    """All rows of the query over a bounded stream."""
    with ps.connect("local", batch_rows=1 << 20, buffer_rows=1 << 28) as engine:
        engine.sql(DDL)
        query = engine.install(WORK.sql)
        engine.push("Trades", table)
        engine.end()
        return query.rows().combine_chunks()
