"""The overhead of Penstock on Spark without join work: rows in and out, and empty triggers.

Selection and projection: the same columns, condition and sink as Spark's own, over the same files,
one per core and trigger.
An empty trigger: the files of both streams have no rows, so it measures planning, starting tasks
and workers, and committing state; compared with the same join by Spark (four state stores per
task), and with a count by key (one).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.spark_joins import EQUAL, STOCK_EQUAL, equal_streams
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = "SELECT id, x * 2 + 1 AS x2, y / 3 AS y3, name FROM r WHERE x < 5000 AND y > 100"
BLOCKS = "SELECT id, abs(x) AS x2, y / 3 AS y3, upper(name) AS n FROM r WHERE x < 5000 AND y > 100"
"""Spark itself computes the first query; this one, with ABS and UPPER, the blocks compute."""


def rows(spark: SparkSession, query: str, triggers: int, times: int) -> dict[str, Any]:
    """Selection and projection of 1 M rows per trigger, with columns of four types."""
    import penstock.spark as pss

    stock_spark = stock_session(spark)
    rng = np.random.default_rng(3)
    ours, stock = [], []
    with folder() as path:
        stream = Stored(path / "r", files=CORES)
        size = 1_000_000 // CORES
        names = pa.array([f"name {i}" for i in range(1000)])
        for number in range(triggers * CORES):
            columns = {
                "id": np.arange(number * size, (number + 1) * size),
                "x": rng.integers(1, 10_001, size).astype(np.int32),
                "y": rng.random(size) * 9_999 + 1,
                "name": names.take(pa.array(rng.integers(0, 1000, size))),
            }
            stream.write(pa.table(columns))
        text, where = query.split(" FROM r WHERE ")
        for number in range(times):
            theirs = stream.read(stock_spark).where(where)
            theirs = theirs.selectExpr(*text.removeprefix("SELECT ").split(", "))
            stock.append(run_to_end(theirs, path / f"stock-{number}"))
            mine = pss.sql(query, r=stream.read(spark))
            ours.append(run_to_end(mine, path / f"ours-{number}"))
        same = _count(theirs, path / "a"), _count(mine, path / "b")
        assert same[0] == same[1], f"{same[1]} rows, but Spark has {same[0]}"
    return {
        "rows": same[0],
        "penstock": together(ours).rate(),
        "stock": together(stock).rate(),
        "times stock": _ratio(ours, stock),
    }


def _count(frame: Any, path: Path) -> int:
    run_to_end(frame, path / "checkpoint", "parquet", str(path / "rows"))
    return int(frame.sparkSession.read.parquet(str(path / "rows")).count())


def _ratio(ours: list[Triggers], stock: list[Triggers]) -> float:
    pairs = zip(ours, stock, strict=True)
    return median(mine.rate()["median"] / theirs.rate()["median"] for mine, theirs in pairs)


def empty(spark: SparkSession, triggers: int, times: int) -> dict[str, Any]:
    """Seconds of a trigger without rows, after some with rows."""
    from pyspark.sql import functions as F

    import penstock.spark as pss

    stock_spark = stock_session(spark)
    seconds: dict[str, list[list[float]]] = {"penstock": [], "stock join": [], "stock count": []}
    with folder() as path:
        streams = equal_streams(path, 1_000, 2)
        for stream in streams:
            for _ in range(triggers):
                stream.write(stream.tables[0].slice(0, 0))
        for number in range(times):

            def timed(on: SparkSession) -> tuple[Any, Any]:
                left, right = (x.read(on).withWatermark("at", "1 second") for x in streams)
                return left.alias("r"), right.alias("s")

            left, right = timed(stock_spark)
            frames = {
                "stock join": left.join(right, F.expr(STOCK_EQUAL)).select("r.id"),
                "stock count": left.groupBy(F.window("at", "10 seconds"), "k").count(),
            }
            left, right = timed(spark)
            frames["penstock"] = pss.sql(EQUAL, r=left, s=right, cores=CORES)
            for name, frame in frames.items():
                made = run_to_end(frame, path / f"{name} {number}")
                found = [one for one in made.progress if not one["numInputRows"]]
                spent = [one["durationMs"]["triggerExecution"] / 1000 for one in found]
                seconds[name].append(spent[2:])
    medians = {name: [median(run) for run in runs] for name, runs in seconds.items()}
    ours = medians["penstock"]
    return {
        "triggers": sum(map(len, seconds["penstock"])),
        "seconds": {name: median(values) for name, values in medians.items()},
        **{
            f"times {name}": median(a / b for a, b in zip(ours, medians[name], strict=True))
            for name in ("stock join", "stock count")
        },
    }


def run() -> dict[str, Any]:
    """The figures."""
    with spark_session() as spark:
        return {
            "selection and projection of plain numbers, 1 M rows a trigger": rows(
                spark, PLAIN, 6, 3
            ),
            "selection and projection by the blocks, 1 M rows a trigger": rows(spark, BLOCKS, 6, 3),
            "an empty trigger": empty(spark, 10, 3),
        }
