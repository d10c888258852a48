"""The stateful operator of a Spark query: its state variables, and rows of Spark in and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import SparkFiles
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.engines.spark.core.trigger import CoreMemory, Task, trigger
from penstock.engines.spark.core.workers import begin_task, errors_without_traceback
from penstock.engines.spark.state.store import SparkStore

MEMORY = CoreMemory(most=8)
"""The cache of this worker process; Spark gives an operator no other place for one."""


_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("data", BinaryType())])


class CoreOperator(StatefulProcessor):
    """Takes the rows of a trigger through a core, those of the resident processor and DataFrames.

    ``core_of`` says which core a group is: the groups are numbers that Spark's hash puts in
    partitions of their own.
    """

    def __init__(self, task: Task[Any], core_of: dict[int, int]) -> None:
        self._task = task
        self._core_of = core_of

    def init(self, handle: StatefulProcessorHandle) -> None:
        begin_task()
        values = handle.getMapState("state", _KEY, _VALUE)
        # Spark also opens the store in a process without files, to look at its variables.
        self._store = SparkStore(values, lambda: Path(SparkFiles.getRootDirectory()) / "penstock")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        core = self._core_of[int(key[0])]
        inputs = (one for part in rows for one in self._task.inputs(part))
        with errors_without_traceback():
            outputs = trigger(self._task, core, inputs, self._store, MEMORY)
            yield from self._task.rows(core, outputs)

    def close(self) -> None:
        pass
