"""Streams as folders of Parquet files, which Spark reads in the order they are given here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


class Folder:
    """A stream that grows by files."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path = path
        self._count = 0

    def add(self, *tables: pa.Table) -> Folder:
        """Add a file for each table. Spark takes older files first, so each gets a time."""
        for table in tables:
            path = self.path / f"{self._count:04d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + self._count,) * 2)
            self._count += 1
        return self

    def stream(self, spark: SparkSession, files: int = 1) -> DataFrame:
        """A streaming DataFrame that takes so many files in a trigger."""
        schema = self.table(spark).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.path))

    def table(self, spark: SparkSession) -> DataFrame:
        """All of it, as a static DataFrame."""
        return spark.read.parquet(str(self.path))


def cut(table: pa.Table, *sizes: int) -> list[pa.Table]:
    """The table in pieces of these sizes, and one for the rest."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(table.slice(start, size))
        start += size
    return [*pieces, table.slice(start)]


def start(out: DataFrame, folder: Path, **options: Any) -> Any:
    """Start to run a streaming DataFrame into Parquet files until its input is read."""
    return (
        out.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )


def run(out: DataFrame, folder: Path, **options: Any) -> Any:
    """Run a streaming DataFrame into Parquet files until its input is read; returns the query."""
    query = start(out, folder, **options)
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return query


def rows(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    """What a query has written, read through Spark."""
    return sorted(map(tuple, spark.read.parquet(str(folder / "rows")).collect()), key=str)
