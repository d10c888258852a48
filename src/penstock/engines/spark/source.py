"""The streaming source that reads the log, by its one offset and with an admission limit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.engines.spark import log
from penstock.engines.spark.folding import folded, folds_in
from penstock.engines.spark.frames import SPARK_SCHEMA
from penstock.engines.spark.workers import begin_task

REGISTRY = "registry.json"
FOLDS = "folds"
"""Where it has the aggregates whose tuples may be folded."""
_PATIENCE, _LOOK = 0.25, 0.005
"""How many seconds an idle source waits for a segment, and how often it looks meanwhile."""


class LogSource(DataSource):
    """Options: ``folder``, ``rowsPerTrigger`` (tuples, not frames), ``partitions``."""

    @classmethod
    def name(cls) -> str:
        return "penstock-log"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return LogReader(
            Path(self.options["folder"]),
            int(self.options["rowsPerTrigger"]),
            int(self.options["partitions"]),
        )


class LogPartition(InputPartition):
    """Neighbouring segments, read by one task."""

    def __init__(self, names: list[log.Segment]) -> None:
        super().__init__(names)


class LogReader(DataSourceStreamReader):
    """Offsets are ``{"position": n}``: everything before position n has been read."""

    def __init__(
        self, folder: Path, rows_per_trigger: int, partitions: int, patience: float = _PATIENCE
    ) -> None:
        self._folder = folder
        self._rows = rows_per_trigger
        self._partitions = partitions
        self._patience = patience

    def initialOffset(self) -> dict[str, int]:
        return {"position": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """As many segments as the limit lets in, but one at least.

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
        for segment in log.segments(self._folder):
            if segment.next <= position:
                continue
            tuples += segment.tuples
            if most is not None and tuples > most and position > start:
                break
            position = segment.next
        return position

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        asked = [
            segment
            for segment in log.segments(self._folder)
            if start["position"] <= segment.first and segment.next <= end["position"]
        ]
        count = min(self._partitions, len(asked))
        cuts = [len(asked) * i // count for i in range(count + 1)] if count else []
        return [LogPartition(asked[begin:stop]) for begin, stop in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The frames; tuples that aggregates alone read may be folded, see ``folding.py``."""
        begin_task()
        folds = folds_in(self._registry().get(FOLDS, {}))
        if folds:
            yield from folded(self._folder, partition.value, folds, self._partitions)
            return
        for segment in partition.value:
            yield from log.read(self._folder, segment)

    def commit(self, end: dict[str, int]) -> None:
        """Spark will never ask for anything before ``end`` again."""
        log.forget(self._folder, end["position"], self._registry().get("position", 0))

    def _registry(self) -> dict[str, Any]:
        """What the driver last said of streams and queries."""
        path = self._folder / REGISTRY
        saved: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return saved
