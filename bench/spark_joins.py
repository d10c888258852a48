"""Joins of streaming DataFrames: Penstock on Spark, and stock Spark, in the same run.

The band join is the papers': R(x int32, y float32), S(a int32, b float32), keys uniform in 1 to
10,000, ±10 on both, windows of the last 2^17 tuples. Spark refuses it; the result has its error,
and its rate for the nearest query that it accepts: an equality on a constant column, and windows of
±15 seconds. The equi-join has 1 M keys, 1 ms between tuples of a stream, and windows of ±60
seconds, which Spark accepts.

All triggers read one Parquet file of each stream; the sink discards the rows. Their number is
compared with that of the embedded engine (band) or of Spark (equi-join).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.spark_runs import (
    CORES,
    Stored,
    Triggers,
    folder,
    median,
    run_to_end,
    spark_session,
    stock_session,
    together,
)
from penstock.streams.events import Merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = 1 << 17
BAND = (
    "SELECT r.id, s.id FROM r [ROWS {window}] JOIN s [ROWS {window}] "
    "ON r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10"
)
EQUAL = "SELECT r.id, s.id FROM r [RANGE 60 SECONDS] JOIN s [RANGE 60 SECONDS] ON r.k = s.k"
STOCK_EQUAL = (
    "r.k = s.k AND r.at > s.at - INTERVAL 60 SECONDS AND r.at < s.at + INTERVAL 60 SECONDS"
)
KEYS = 1_000_000
PARTS = ("input", "ordering", "blocks", "state")
"""The parts of a core's time, as in the metrics of the query's progress."""


def band_streams(
    path: Path, rows: int, files: int, names: Sequence[tuple[str, str]] = (("x", "y"), ("a", "b"))
) -> tuple[Stored, ...]:
    """A stream for each pair of columns, ``rows`` tuples of it to a file, interleaved one by one.

    The first of its columns is an integer, the second a float.
    """
    rng = np.random.default_rng(1)
    streams = tuple(Stored(path / whole) for whole, _ in names)
    for number in range(files):
        ids = np.arange(number * rows, (number + 1) * rows)
        for stream, (whole, real) in zip(streams, names, strict=True):
            columns = {
                "ts": ids,
                "id": ids,
                whole: rng.integers(1, 10_001, rows).astype(np.int32),
                real: (rng.random(rows) * 9_999 + 1).astype(np.float32),
            }
            stream.write(pa.table(columns))
    return streams


def band(spark: SparkSession, rows_per_trigger: int, triggers: int) -> dict[str, Any]:
    """Our rate, and the breakdown of a trigger's time."""
    import penstock.spark as pss

    with folder() as path:
        r, s = band_streams(path, rows_per_trigger // 2, triggers)
        frames = {"r": r.read(spark), "s": s.read(spark)}
        text = BAND.format(window=WINDOW)
        pairs = pss.sql(text, frames, order_by="ts", cores=CORES)
        made = run_to_end(pairs, path / "checkpoint")
        rows, late = made.total("rows_out"), made.total("late")
        held = made.progress[-1]["observedMetrics"]["penstock"].held
        expected = embedded_count({"r": r, "s": s}, text, held)
        assert (rows, late) == (expected, 0), f"{rows} rows, but the embedded engine has {expected}"
        source = run_to_end(r.read(spark).unionByName(s.read(spark), True), path / "source")
        return {
            "window": WINDOW,
            "rows": rows,
            "rows_per_second": made.rate(),
            "seconds": breakdown(made, source),
        }


def embedded_count(streams: Mapping[str, Stored], text: str, held: int) -> int:
    """The number of rows that the embedded engine makes of the tuples that were not held."""
    with ps.connect("local", buffer_rows=1 << 24) as engine:
        for name, stored in streams.items():
            engine.stream(name, stored.tables[0].schema)
        query = engine.install(text)
        count, inputs = 0, range(len(streams))
        triggers = list(zip(*(stored.tables for stored in streams.values()), strict=True))
        for tables in triggers:
            batches = tuple(table.combine_chunks().to_batches()[0] for table in tables)
            which = np.tile(np.array(inputs, np.int8), batches[0].num_rows)
            if tables is triggers[-1]:
                which = which[: len(which) - held]
                sizes = [int((which == input).sum()) for input in inputs]
                batches = tuple(b.slice(0, n) for b, n in zip(batches, sizes, strict=True))
            engine.feed([Merged(tuple(streams), batches, which)])
            count += query.rows().num_rows
    return count


def breakdown(made: Triggers, source: Triggers) -> dict[str, float]:
    """Median seconds of a trigger: the parts of the slowest core, and the rest.

    "Between JVM and Python" is the rest of the two stages: rows become Arrow, cross over as frames,
    are shuffled, and come back.
    """
    whole, work = median(made.seconds()), median(made.seconds("addBatch"))
    parts = {part: made.median(f"{part}_ms") / 1000 for part in PARTS}
    read = median(source.seconds("addBatch"))
    return {
        "trigger": whole,
        "planning, offsets and logs": whole - work,
        "source": read,
        "between JVM and Python": work - read - sum(parts.values()),
        **parts,
        "loads": made.median("loads"),
    }


def stock_band(spark: SparkSession) -> dict[str, Any]:
    """Spark's error for the band join, and its rate for the nearest one it accepts."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    stock_spark = stock_session(spark)
    rows = 1_500
    with folder() as path:
        r, s = band_streams(path, rows, 4)

        def timed(stored: Stored) -> DataFrame:
            # A tuple every 10 ms, so that ±15 seconds are 1,500 tuples of each stream.
            at = F.timestamp_millis(F.col("ts") * 10)
            return stored.read(stock_spark).withColumn("at", at).withWatermark("at", "1 second")

        left, right = timed(r).alias("r"), timed(s).alias("s")
        near = F.expr(
            "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10 AND "
            "r.at BETWEEN s.at - INTERVAL 15 SECONDS AND s.at + INTERVAL 15 SECONDS"
        )
        try:
            run_to_end(left.join(right, near).select("r.id"), path / "refused")
        except PySparkException as refusal:
            said = re.search(r"Stream-stream join [^.]*\.", str(refusal))
            assert said is not None, refusal
        else:
            raise AssertionError("Spark takes the band join; compare with that instead")
        same = F.lit(1)
        one = left.withColumn("one", same).alias("r")
        other = right.withColumn("one", same).alias("s")
        joined = one.join(other, F.expr("r.one = s.one") & near).select("r.id")
        made = run_to_end(joined, path / "dummy")
        return {"says": said[0], "rows_per_second with a dummy key, ±15 s": made.rate()}


def equal_streams(
    path: Path, rows: int, files: int, names: Sequence[str] = ("r", "s")
) -> tuple[Stored, ...]:
    """Tuples with a time, a key and an id; 1 ms between tuples of a stream."""
    rng = np.random.default_rng(2)
    streams = tuple(Stored(path / name) for name in names)
    for number in range(files):
        ids = np.arange(number * rows, (number + 1) * rows)
        for stream in streams:
            at = pa.array((ids * 1000).astype("datetime64[us]"), pa.timestamp("us", tz="UTC"))
            keys = pa.array(rng.integers(0, KEYS, rows))
            stream.write(pa.table({"at": at, "k": keys, "id": pa.array(ids)}))
    return streams


def equal(spark: SparkSession, rows_per_trigger: int, triggers: int, times: int) -> dict[str, Any]:
    """Both rates, alternating, and their ratio; the first run of each warms up the JVM."""
    from pyspark.sql import functions as F

    import penstock.spark as pss

    stock_spark = stock_session(spark)
    ours, stock = [], []
    with folder() as path:
        streams = equal_streams(path, rows_per_trigger // 2, triggers)
        for number in range(times):
            left, right = (x.read(stock_spark).withWatermark("at", "1 second") for x in streams)
            joined = left.alias("r").join(right.alias("s"), F.expr(STOCK_EQUAL))
            counted = joined.select("r.id", F.col("s.id").alias("s_id"))
            counted = counted.observe("stock", F.count(F.lit(1)).alias("rows_out"))
            stock.append(run_to_end(counted, path / f"stock-{number}"))
            left, right = (x.read(spark).withWatermark("at", "1 second") for x in streams)
            pairs = pss.sql(EQUAL, r=left, s=right, cores=CORES)
            ours.append(run_to_end(pairs, path / f"ours-{number}"))
            found = ours[-1].total("rows_out"), stock[-1].total("rows_out", "stock")
            assert found[0] == found[1], f"{found[0]} rows, but Spark has {found[1]}"
        ours, stock = ours[1:], stock[1:]  # the JVM compiles during the first triggers
        read = streams[0].read(spark).unionByName(streams[1].read(spark))
        source = run_to_end(read, path / "source")
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
            "band, 2 M rows a trigger": band(spark, 2_000_000, 8),
            "band, 400 K rows a trigger": band(spark, 400_000, 10),
            "band, Spark itself": stock_band(spark),
            "equal, 400 K rows a trigger": equal(spark, 400_000, 8, 3),
        }
