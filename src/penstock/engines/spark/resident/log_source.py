"""The streaming source that reads the log, with one offset and an admission limit."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.engines.shared.saved_registry import saved_instructions
from penstock.engines.spark.core.fold_at_source import Folds, folded, folds_in
from penstock.engines.spark.core.frames import SPARK_SCHEMA, to_batch
from penstock.engines.spark.core.workers import begin_task, errors_without_traceback
from penstock.engines.spark.resident.log import Log, Segment

_PATIENCE, _LOOK = 0.25, 0.005
"""The seconds that an idle source waits for a segment, and between two checks."""


class LogSource(DataSource):
    """Options: ``folder``, ``owner``, ``rowsPerTrigger`` (tuples, not frames), ``partitions``."""

    @classmethod
    def name(cls) -> str:
        return "penstock-log"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return LogReader(
            Log(Path(self.options["folder"]), self.options["owner"]),
            int(self.options["rowsPerTrigger"]),
            int(self.options["partitions"]),
        )


class LogPartition(InputPartition):
    """Neighbouring segments, read by one task."""

    def __init__(self, names: list[Segment]) -> None:
        super().__init__(names)


class LogReader(DataSourceStreamReader):
    """Offsets are ``{"position": n}``: everything before position n has been read."""

    def __init__(
        self, log: Log, rows_per_trigger: int, partitions: int, patience: float = _PATIENCE
    ) -> None:
        self._log = log
        self._rows = rows_per_trigger
        self._partitions = partitions
        self._patience = patience

    def initialOffset(self) -> dict[str, int]:
        return {"position": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The offset after as many segments as the limit admits, at least one.

        If there is none, it waits a while for one: Spark would ask again a hundred times a second,
        which costs an idle query half a core.
        """
        most = None if isinstance(limit, ReadAllAvailable) else self._rows
        until = time.monotonic() + self._patience
        while (end := self._end(start["position"], most)) == start["position"]:
            if time.monotonic() >= until:
                break
            time.sleep(_LOOK)
        return {"position": end}

    def _end(self, start: int, most: int | None) -> int:
        position, tuples = start, 0
        for segment in self._log.segments():
            if segment.next <= position:
                continue
            tuples += segment.tuples
            if most is not None and tuples > most and position > start:
                break
            position = segment.next
        return position

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        asked = self._log.between(start["position"], end["position"])
        folds = known_folds(self._log.registry_text())
        count = min(self._partitions if folds else 1, len(asked))
        cuts = [len(asked) * i // count for i in range(count + 1)] if count else []
        return [LogPartition(asked[begin:stop]) for begin, stop in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Frames that stand for segments, which the cores read themselves.

        So tuples do not pass through the JVM, where every core's copy would be shuffled and sorted.
        Tuples that only aggregates read may be folded instead, see ``fold_at_source.py``.
        """
        begin_task()
        with errors_without_traceback():
            folds = known_folds(self._log.registry_text())
            if folds:
                yield from folded(self._log, partition.value, folds, self._partitions)
            elif partition.value:
                yield to_batch([self._log.reference(segment) for segment in partition.value])

    def commit(self, end: dict[str, int]) -> None:
        """Delete the segments before ``end``, which Spark will not read again."""
        self._log.forget(end["position"])


@functools.lru_cache(maxsize=4)
def known_folds(registry: str) -> Folds:
    """The programs whose tuples may be folded, from the registry that the driver wrote."""
    saved = json.loads(registry)
    return folds_in(saved_instructions(saved)) if saved else {}  # nothing has been written yet
