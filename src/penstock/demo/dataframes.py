"""Streaming DataFrames: their join as Spark answers it, and as ``penstock.spark`` does."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.demo.data import BAND, CONDITION, SELECT, Data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "R": "x INT, y FLOAT, z STRING, ts TIMESTAMP",
    "S": "a INT, b FLOAT, c DOUBLE, d BOOLEAN, ts TIMESTAMP",
}

# Spark has no count windows; the query uses what Spark has, watermarks and a bound on time.
STOCK = f"""\
{SELECT}
FROM r JOIN s
{CONDITION.format(band=BAND)}
  AND r.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts + INTERVAL 1 MINUTE"""

CODE = '''\
import penstock.spark as pss
pairs = pss.sql(
    """{select}
       FROM r [ROWS {window}] JOIN s [ROWS {window}]
       {condition}""",
    r=left_df, s=right_df, order_by="ts")
query = pairs.writeStream.trigger(availableNow=True).start(
    f"{{folder}}/pairs", checkpointLocation=f"{{folder}}/checkpoint")'''


@dataclass(frozen=True)
class Streams:
    """Two streaming DataFrames over files, with one arrival per millisecond."""

    left: DataFrame
    right: DataFrame
    folder: Path


def write_streams(spark: SparkSession, data: Data, folder: Path) -> Streams:
    """Write files with the arrivals, and return the DataFrames that read them."""
    frames: list[DataFrame] = []
    for name, table in data.tables().items():
        ts = pc.cast(table["pos"], pa.timestamp("ms", "UTC"))
        (folder / name).mkdir()
        pq.write_table(
            table.drop_columns(["pos"]).append_column("ts", ts), folder / name / "0.parquet"
        )
        frames.append(spark.readStream.schema(COLUMNS[name]).parquet(str(folder / name)))
    return Streams(frames[0], frames[1], folder)


def ask_spark(spark: SparkSession, streams: Streams, statement: str) -> str | None:
    """Start Spark's own join of the streams, and return why it refuses; None if it runs."""
    from pyspark.errors import StreamingQueryException

    streams.left.withWatermark("ts", "1 minute").createOrReplaceTempView("r")
    streams.right.withWatermark("ts", "1 minute").createOrReplaceTempView("s")
    started = (
        spark.sql(statement)
        .writeStream.format("noop")
        .outputMode("append")
        .trigger(availableNow=True)
        .start(checkpointLocation=tempfile.mkdtemp(dir=streams.folder))
    )
    try:
        started.awaitTermination()
    except StreamingQueryException as error:
        message = (error.getMessageParameters() or {}).get("message") or str(error)
        return message.splitlines()[0].rstrip(";")
    return None


def code(window: int) -> str:
    """The lines that a user of ``penstock.spark`` writes."""
    return CODE.format(select=SELECT, window=window, condition=CONDITION.format(band=BAND))


def run_code(text: str, streams: Streams) -> pa.Table:
    """Run the lines as they are printed, and return their output."""
    names: dict[str, Any] = {
        "left_df": streams.left,
        "right_df": streams.right,
        "folder": streams.folder,
    }
    exec(text, names)  # the very text that is printed, so that it is known to work
    names["query"].awaitTermination()
    return pq.read_table(streams.folder / "pairs")


def merged_arrivals(data: Data) -> Data:
    """The arrivals that a query by order takes: those before the last one of each stream.

    A tuple is held until all streams have passed it.
    """
    return data.first(min(int(np.flatnonzero(data.which == index)[-1]) for index in (0, 1)))
