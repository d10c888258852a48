"""The resident processor: one Structured Streaming query that reads the log as long as it lives."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engines.spark.core.host import OUTPUT_SCHEMA, HostTask
from penstock.engines.spark.core.trigger import CoreOptions
from penstock.engines.spark.resident.checkpoint import Checkpoint
from penstock.errors import EngineFailure, PenstockError, StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CANDIDATES = 10_000


class Resident:
    """The Spark query of an engine: source, cores, and the way back to the driver.

    ``deliver`` is called with the number and the rows of every batch, in order; a batch is
    committed once it has returned. To be made and stopped by
    :mod:`penstock.engines.spark.uninterrupted`; everything else makes no call into the JVM.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        options: CoreOptions,
        rows_per_trigger: int,
        deliver: Callable[[int, pa.Table], None],
    ) -> None:
        from pyspark.sql import functions as F

        from penstock.engines.spark.core.operator import CoreOperator
        from penstock.engines.spark.resident.log_source import LogSource

        spark.dataSource.register(LogSource)
        frames = (
            spark.readStream.format(LogSource.name())
            .option("folder", str(checkpoint.log.folder))
            .option("owner", checkpoint.log.owner)
            .option("rowsPerTrigger", rows_per_trigger)
            .option("partitions", options.cores)
            .load()
        )
        core_of = core_ids(spark, options.cores)
        # Every core gets every frame: a core decides by itself whether it stores a tuple, and even
        # a core that stores none needs the punctuations and instructions.
        every = F.explode(F.array(*(F.lit(group) for group in core_of)))
        made = (
            frames.withColumn("core", every)
            .groupBy("core")
            .transformWithStateInPandas(
                CoreOperator(HostTask(options), core_of), OUTPUT_SCHEMA, "Append", "None"
            )
        )

        def hand_over(batch: DataFrame, number: int) -> None:
            deliver(number, batch.toArrow())

        self._query = (
            made.writeStream.foreachBatch(hand_over)
            .option("checkpointLocation", str(checkpoint.spark))
            .queryName(f"penstock {checkpoint.id[:8]}")
            .start()
        )
        self.run_id = str(self._query.runId)
        """Spark's name for this run; another one after every restart."""
        self._stopped: PenstockError | None = None
        threading.Thread(target=self._watch, name="penstock", daemon=True).start()

    def failure(self) -> PenstockError | None:
        """The error that has stopped the query; None if it runs."""
        return self._stopped

    def _watch(self) -> None:
        """Wait for the end of the query, in a thread whose calls nothing interrupts."""
        try:
            self._query.awaitTermination()
            self._stopped = _stopped("somebody stopped it")
        except Exception as error:
            self._stopped = failure_of(str(error))

    def stop(self) -> None:
        """End the query; the next engine repeats an unfinished batch."""
        self._query.stop()


def failure_of(text: str) -> PenstockError:
    """The error that has stopped a query, from Spark's exception.

    An error of ours comes back as it was raised.
    """
    ours = re.findall(r"penstock\.errors\.StateError: (.+)\n(.+)$", text, re.M)
    return StateError(*ours[-1]) if ours else _stopped(_cause(text))


def _stopped(why: str) -> EngineFailure:
    return EngineFailure(
        f"the Spark query of the engine has stopped ({why})",
        "What was pushed is in its log: connect again with the same checkpoint once the cause "
        "is mended.",
    )


def _cause(text: str) -> str:
    """The line of a Spark error that says what happened: the last Python or the last Java error."""
    names = r"(\w*(?:Error|Exception|Limit|Failure)): (.+)$"
    python = re.findall(rf"^(?:[\w.]+\.)?{names}", text, re.M)
    java = re.findall(rf"^Caused by: (?:[\w.$]+\.)?{names}", text, re.M)
    # Python says of an error in Java only that there was one.
    errors = [one for one in python if one[0] != "Py4JJavaError"] or java or python
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
