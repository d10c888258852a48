"""Aggregates of DataFrames on Spark."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.engines.spark.dataframes.files import Folder, rows, run

import penstock.spark as pss
from penstock.engines.spark.session import Session

SUMS = (
    "SELECT k, COUNT(*) AS n, SUM(x) AS total, AVG(y) AS mean, window_start, window_end "
    "FROM r [RANGE 20 SECONDS SLIDE 5 SECONDS WATTR ts] GROUP BY k"
)


@pytest.fixture(scope="module")
def spark(session: Session) -> SparkSession:
    return session.spark.newSession()


def table(size: int, late: int) -> pa.Table:
    chance = np.random.default_rng(5)
    ts = np.arange(size) * 100 - chance.integers(0, late, size)
    columns = {
        "ts": pa.array(ts * 1000, pa.timestamp("us", "UTC")),
        "k": pa.array([f"k{i}" for i in chance.integers(0, 9, size)]),
        "x": pa.array(chance.integers(0, 50, size), pa.int32()),
        "y": pa.array(chance.integers(0, 8, size) / 4),
    }
    return pa.table(columns)


def test_the_rows_are_those_of_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    whole = table(1200, 3000)
    folder = Folder(tmp_path / "r")
    counts = []
    for half in (0, 600):  # the second query goes on from the checkpoint of the first
        folder.add(*(whole.slice(i, 150) for i in range(half, half + 600, 150)))
        frame = folder.stream(spark, 2).withWatermark("ts", "3 seconds")
        query = run(pss.sql(SUMS, r=frame, cores=2), tmp_path)
        counts += [one["observedMetrics"]["penstock"] for one in query.recentProgress]
    assert sum(one.tuples_in for one in counts) == 1200
    assert sum(one.late for one in counts) == 0
    window = F.window("ts", "20 seconds", "5 seconds")
    theirs = (
        folder.table(spark)
        .coalesce(1)
        .groupBy("k", window)
        .agg(F.count("*").alias("n"), F.sum("x").alias("total"), F.avg("y").alias("mean"))
    )
    theirs = theirs.select("k", "n", "total", "mean", "window.start", "window.end")
    every = sorted(map(tuple, theirs.collect()), key=str)
    last = max(whole["ts"].to_pylist()) - datetime.timedelta(seconds=3)
    closed = [row for row in every if row[-1].astimezone(datetime.UTC) <= last]
    assert len(every) > len(closed) > 100
    assert rows(spark, tmp_path) == closed
    static = pss.sql(SUMS, r=folder.table(spark), cores=2)
    assert sorted(map(tuple, static.collect()), key=str) == every


def test_an_update_brings_rows_before_their_windows_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = table(300, 1)
    folder = Folder(tmp_path / "r").add(whole.slice(0, 150), whole.slice(150))
    frame = folder.stream(spark).withWatermark("ts", "1 minute")
    sql = "SELECT COUNT(*) AS n, window_end FROM r [RANGE 20 SECONDS SLIDE 20 SECONDS]"
    changed: list[Any] = []

    def take(batch: Any, number: int) -> None:
        changed.append(sorted((row.n, row.window_end.second) for row in batch.collect()))

    result = pss.sql(sql, r=frame, output="update")
    query = result.writeStream.foreachBatch(take).trigger(availableNow=True).start()
    query.awaitTermination()
    assert changed == [[(150, 20)], [(100, 40), (200, 20)]]


def test_an_aggregate_of_nothing_is_a_row(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], "k string, x int")
    assert pss.sql("SELECT COUNT(*), SUM(x) FROM r", r=nothing).collect() == [(0, None)]
    found = pss.sql("SELECT COUNT(*), LAST(x) FROM r", r=nothing, letters=True).collect()
    assert [tuple(row) for row in found] == [(0, None, "row", None, None, None)]
