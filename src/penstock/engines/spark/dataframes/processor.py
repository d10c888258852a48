"""The stateful operator of a query over DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.engines.spark.core import open_store
from penstock.engines.spark.dataframes.direct import Direct
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import made_rows
from penstock.engines.spark.dataframes.worker import Packed, Worker, trigger
from penstock.engines.spark.host import HostOptions
from penstock.engines.spark.trigger import HostMemory
from penstock.engines.spark.workers import begin_task

MEMORY: HostMemory[Worker] = HostMemory(most=4)
"""Of this worker process; Spark gives an operator no other place to keep anything in."""


class JobCore(StatefulProcessor):
    """Takes the frames of a trigger through one core.

    ``core_of`` says which core a group is: the groups are numbers that Spark's hash puts in
    partitions of their own. With ``direct`` the rows of the result are rows of the operator.
    """

    def __init__(
        self,
        job: Job,
        options: HostOptions,
        core_of: dict[int, int],
        direct: Direct | None = None,
    ) -> None:
        self._job = job
        self._direct = direct
        self._options = options
        self._core_of = core_of

    def init(self, handle: StatefulProcessorHandle) -> None:
        begin_task()
        self._store = open_store(handle)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        options = replace(self._options, core=self._core_of[int(key[0])])
        outputs = trigger(self._job, options, _packed(rows), self._store, MEMORY)
        if self._direct is not None:
            yield from self._direct.frames(outputs)
            return
        for number, made in enumerate(outputs):
            yield pd.DataFrame(made_rows(number, made))

    def close(self) -> None:
        pass


def _packed(rows: Iterator[pd.DataFrame]) -> Iterator[Packed]:
    for part in rows:
        # Without the time of the trigger where nobody asks for it.
        times = part["at"] if "at" in part else repeat(0, len(part))
        columns = (part["lane"], times, part["payload"], part["mark"])
        for lane, at, payload, mark in zip(*columns, strict=True):
            yield Packed(int(lane), int(at), payload, bool(mark))
