"""The resident processor: one Structured Streaming query that reads the log as long as it lives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engines.spark.checkpoint import Checkpoint
from penstock.engines.spark.host import HostOptions
from penstock.errors import EngineFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CANDIDATES = 10_000


class Resident:
    """The Spark query of an engine: source, cores, and the way back to the driver.

    ``deliver`` is called with the number and the rows of every batch, in order; a batch is
    committed once it has returned.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        options: HostOptions,
        rows_per_trigger: int,
        deliver: Callable[[int, pa.Table], None],
    ) -> None:
        from pyspark.sql import functions as F

        from penstock.engines.spark.core import OUTPUT_SCHEMA, Core
        from penstock.engines.spark.source import LogSource

        spark.dataSource.register(LogSource)
        frames = (
            spark.readStream.format(LogSource.name())
            .option("folder", str(checkpoint.log))
            .option("rowsPerTrigger", rows_per_trigger)
            .option("partitions", options.cores)
            .load()
        )
        core_of = core_ids(spark, options.cores)
        # Every core gets every frame: who stores a tuple is the core's own affair, and a core
        # for which there is nothing to do must still learn of promises and instructions.
        every = F.explode(F.array(*(F.lit(group) for group in core_of)))
        made = (
            frames.withColumn("core", every)
            .groupBy("core")
            .transformWithStateInPandas(Core(options, core_of), OUTPUT_SCHEMA, "Append", "None")
        )

        def hand_over(batch: DataFrame, number: int) -> None:
            deliver(number, batch.toArrow())

        self._query = (
            made.writeStream.foreachBatch(hand_over)
            .option("checkpointLocation", str(checkpoint.spark))
            .queryName(f"penstock {checkpoint.id[:8]}")
            .start()
        )

    @property
    def run_id(self) -> str:
        """Spark's name for this run; another one after every restart."""
        return str(self._query.runId)

    @property
    def query(self) -> Any:
        """Spark's own handle, with its progress."""
        return self._query

    def failure(self) -> EngineFailure | None:
        """Why the query has stopped by itself; None if it runs."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        why = _cause(str(error)) if error is not None else "somebody stopped it"
        return EngineFailure(
            f"the Spark query of the engine has stopped ({why})",
            "What was pushed is in its log: connect again with the same checkpoint once the cause "
            "is mended.",
        )

    def stop(self) -> None:
        """End the query; a batch under way is done again by whoever continues."""
        self._query.stop()


def _cause(text: str) -> str:
    """The line of a Spark error that says what happened: the last Python error in it."""
    errors = re.findall(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Limit|Failure)): (.+)$", text, re.M)
    if errors:
        return f"{errors[-1][0]}: {errors[-1][1]}"
    return text.strip().splitlines()[0] if text.strip() else "unknown cause"


def core_ids(spark: SparkSession, cores: int) -> dict[int, int]:
    """Group numbers, each with its core, that Spark's hash puts in partitions of their own."""
    if cores == 1:
        return {0: 0}
    row = spark.sql(
        f"SELECT transform(sequence(0, {_CANDIDATES}), i -> pmod(hash(i), {cores})) AS partition"
    ).first()
    assert row is not None
    groups: dict[int, int] = {}
    for group, partition in enumerate(row["partition"]):
        groups.setdefault(partition, group)
    return {groups[core]: core for core in range(cores)}
