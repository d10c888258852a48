"""The stateful operator of a Spark query: its state variables, and frames in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import SparkFiles
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import Host, HostOptions, Output
from penstock.engines.spark.store import SparkStore
from penstock.engines.spark.trigger import HostMemory, trigger
from penstock.engines.spark.workers import begin_task

OUTPUT_SCHEMA = (
    "core int, kind string, query long, position long, rows long, schema string, payload binary"
)


MEMORY: HostMemory[Host] = HostMemory(most=4)
"""Of this worker process; Spark gives an operator no other place to keep anything in."""


_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("data", BinaryType())])


def open_store(handle: StatefulProcessorHandle) -> SparkStore:
    """The state variable of the operator as a store, with copies where Spark keeps its files."""
    values = handle.getMapState("state", _KEY, _VALUE)
    # Spark also opens the store in a process without files, to look at its variables.
    return SparkStore(values, lambda: Path(SparkFiles.getRootDirectory()) / "penstock")


class Core(StatefulProcessor):
    """Takes the frames of a trigger, in the order of their positions, through the host's blocks.

    ``core_of`` says which core a group is: the groups are numbers that Spark's hash puts in
    partitions of their own.
    """

    def __init__(self, options: HostOptions, core_of: dict[int, int]) -> None:
        self._options = options
        self._core_of = core_of

    def init(self, handle: StatefulProcessorHandle) -> None:
        begin_task()
        self._store = open_store(handle)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        options = replace(self._options, core=self._core_of[int(key[0])])
        for output in trigger(options, _frames(rows), self._store, MEMORY):
            yield _frame_out(options.core, output)

    def close(self) -> None:
        pass


def _frames(rows: Iterator[pd.DataFrame]) -> Iterator[Frame]:
    for part in rows:
        for row in zip(
            part["first"], part["count"], part["kind"], part["header"], part["payload"], strict=True
        ):
            first, count, kind, header, payload = row
            yield Frame(int(first), int(count), kind, header, bytes(payload))


def _frame_out(core: int, output: Output) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "core": [core],
            "kind": [output.kind],
            "query": [output.query],
            "position": [output.position],
            "rows": [output.rows],
            "schema": [output.schema],
            "payload": [output.payload],
        }
    )
