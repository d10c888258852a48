"""Joins of three streaming DataFrames: Penstock on Spark, and stock Spark, in the same run.

The band join is that of :mod:`bench.spark_joins` with a third stream, U(c int32, d float32), beside
S: windows of the last 2^14 tuples, 1 M rows a trigger. Spark refuses it. The join of two of the
streams runs by turns with it; the processor's time of both, of the JVM and all workers over a whole
run, stands beside the time on the clock. The equi-join has one key
for all three streams (1 M keys), 1 ms between tuples of a stream, and windows of 60 seconds; for
Spark it is a chain of two joins with the same conditions on times.

All triggers read one Parquet file of each stream; the sink discards the rows. Their number is
compared with that of the embedded engine (band) or of Spark (equi-join).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark_joins import band_streams, breakdown, embedded_count, equal_streams
from bench.spark_runs import (
    CORES,
    Triggers,
    folder,
    median,
    processor_seconds,
    run_to_end,
    spark_session,
    stock_session,
    together,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.spark_runs import Stored

WINDOW = 1 << 14
NAMES = ("r", "s", "u")
TWO = (
    f"SELECT r.id, s.id FROM r [ROWS {WINDOW}] JOIN s [ROWS {WINDOW}] "
    "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
)
THREE = (
    f"{TWO.replace('s.id', 's.id, u.id')} JOIN u [ROWS {WINDOW}] "
    "ON s.a BETWEEN u.c - 10 AND u.c + 10 AND s.b BETWEEN u.d - 10 AND u.d + 10"
)
EQUAL = (
    "SELECT r.id, s.id, u.id FROM r [RANGE 60 SECONDS] "
    "JOIN s [RANGE 60 SECONDS] ON r.k = s.k JOIN u [RANGE 60 SECONDS] ON s.k = u.k"
)


def in_reach(left: str, right: str) -> str:
    """Spark's condition for equal keys and times that are less than a minute apart."""
    return (
        f"{left}.k = {right}.k AND {left}.at > {right}.at - INTERVAL 60 SECONDS "
        f"AND {left}.at < {right}.at + INTERVAL 60 SECONDS"
    )


def band(spark: SparkSession, rows_per_trigger: int, triggers: int, times: int) -> dict[str, Any]:
    """Our rates for three streams and for two, by turns; the first run of each warms up the JVM."""
    runs: dict[str, list[Measured]] = {TWO: [], THREE: []}
    with folder() as path:
        columns = (("x", "y"), ("a", "b"), ("c", "d"))
        streams = {
            text: band_streams(path / f"{n}", rows_per_trigger // n, triggers, columns[:n])
            for text, n in ((TWO, 2), (THREE, 3))
        }
        for number in range(times):
            for text, stored in streams.items():
                runs[text].append(
                    measured(spark, text, stored, path / f"run {len(stored)} {number}")
                )
        source = run_to_end(read_all(spark, streams[THREE]), path / "source")
        two, three = (together(run.made for run in found[1:]) for found in runs.values())
        pairs = zip(runs[TWO][1:], runs[THREE][1:], strict=True)
        return {
            "window": WINDOW,
            "rows": runs[THREE][0].made.total("rows_out"),
            "rows_per_second": three.rate(),
            "rows_per_second of two streams": two.rate(),
            "rows per second of the processor": {
                name: median(run.by_processor_time for run in runs[text][1:])
                for name, text in (("three", THREE), ("two", TWO))
            },
            "times two streams": median(
                b.made.rate()["median"] / a.made.rate()["median"] for a, b in pairs
            ),
            "seconds": breakdown(three, source),
        }


@dataclass(frozen=True)
class Measured:
    """A run to its end, and the rows of its input for each second of the processor."""

    made: Triggers
    by_processor_time: float


def measured(spark: SparkSession, text: str, stored: tuple[Stored, ...], path: Path) -> Measured:
    """A run of a band join; an error if the embedded engine has other rows."""
    import penstock.spark as pss

    streams = dict(zip(NAMES, stored, strict=False))
    frames = {name: stream.read(spark) for name, stream in streams.items()}
    start = processor_seconds()
    made = run_to_end(pss.sql(text, frames, order_by="ts", cores=CORES), path)
    spent = processor_seconds() - start
    rows, late = made.total("rows_out"), made.total("late")
    held = made.progress[-1]["observedMetrics"]["penstock"].held
    expected = embedded_count(streams, text, held)
    assert (rows, late) == (expected, 0), f"{rows} rows, but the embedded engine has {expected}"
    return Measured(made, sum(one["numInputRows"] for one in made.progress) / spent)


def read_all(spark: SparkSession, streams: tuple[Stored, ...]) -> DataFrame:
    """All tuples of the streams, as they come: what reading alone costs."""
    first, *others = (stream.read(spark) for stream in streams)
    for other in others:
        first = first.unionByName(other, True)
    return first


def stock_equal(spark: SparkSession, streams: tuple[Stored, ...]) -> DataFrame:
    """The equi-join as Spark's own chain of joins, with a count of its rows."""
    from pyspark.sql import functions as F

    r, s, u = (
        stream.read(spark).withWatermark("at", "1 second").alias(name)
        for name, stream in zip(NAMES, streams, strict=True)
    )
    # Spark takes one column with a watermark from each side: S's time goes on as a number.
    pairs = r.join(s, F.expr(in_reach("r", "s"))).select(
        "r.k", "r.at", "r.id", F.col("s.id").alias("s_id"), F.unix_micros("s.at").alias("s_at")
    )
    near = "abs(p.s_at - unix_micros(u.at)) < 60000000"
    triples = pairs.alias("p").join(u, F.expr(f"{in_reach('p', 'u')} AND {near}"))
    rows = triples.select("p.id", "p.s_id", F.col("u.id").alias("u_id"))
    return rows.observe("stock", F.count(F.lit(1)).alias("rows_out"))


def our_equal(spark: SparkSession, streams: tuple[Stored, ...]) -> DataFrame:
    """The equi-join in one operator."""
    import penstock.spark as pss

    read = (stream.read(spark).withWatermark("at", "1 second") for stream in streams)
    return pss.sql(EQUAL, dict(zip(NAMES, read, strict=True)), cores=CORES)


def equal(spark: SparkSession, rows_per_trigger: int, triggers: int, times: int) -> dict[str, Any]:
    """Both rates, alternating, and their ratio; the first run of each warms up the JVM."""
    stock_spark = stock_session(spark)
    ours: list[Triggers] = []
    stock: list[Triggers] = []
    with folder() as path:
        streams = equal_streams(path, rows_per_trigger // 3, triggers, NAMES)
        for number in range(times):
            stock.append(run_to_end(stock_equal(stock_spark, streams), path / f"stock-{number}"))
            ours.append(run_to_end(our_equal(spark, streams), path / f"ours-{number}"))
            found = ours[-1].total("rows_out"), stock[-1].total("rows_out", "stock")
            assert found[0] == found[1], f"{found[0]} rows, but Spark has {found[1]}"
        ours, stock = ours[1:], stock[1:]
        source = run_to_end(read_all(spark, streams), path / "source")
    runs = zip(ours, stock, strict=True)
    return {
        "rows": found[0],
        "penstock": together(ours).rate(),
        "stock": together(stock).rate(),
        "times stock": median(a.rate()["median"] / b.rate()["median"] for a, b in runs),
        "seconds": breakdown(together(ours), source),
    }


def run() -> dict[str, Any]:
    """The figures of both joins."""
    with spark_session() as spark:
        return {
            "band, 1 M rows a trigger": band(spark, 999_996, 6, 3),
            "equal, 600 K rows a trigger": equal(spark, 600_000, 6, 3),
        }
