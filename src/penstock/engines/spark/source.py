"""The streaming source that reads the log, by its one offset and with an admission limit."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.engines.shared.registry import Registry
from penstock.engines.shared.saved import load_registry
from penstock.engines.spark import log
from penstock.engines.spark.flow import decide_on_spark
from penstock.engines.spark.folding import Folds, folded, folds_in
from penstock.engines.spark.frames import SPARK_SCHEMA
from penstock.engines.spark.workers import begin_task
from penstock.program.blocks import Program
from penstock.program.flow_choice import ANY_FLOW, Flow, FlowChoice

REGISTRY = "registry.json"
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
        folds = known_folds(self._registry_text(), self._partitions)
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
        saved: dict[str, Any] = json.loads(self._registry_text())
        return saved

    def _registry_text(self) -> str:
        path = self._folder / REGISTRY
        return path.read_text() if path.exists() else "{}"


@dataclass
class _Noted:
    """A query as a reader of the log knows it."""

    name: str
    program: Program
    derived: bool
    decided: Flow
    order: str | None = None
    kernel: str | None = None
    flow: FlowChoice = ANY_FLOW

    @property
    def schema(self) -> pa.Schema:
        return self.program.schema


@functools.lru_cache(maxsize=4)
def known_folds(registry: str, cores: int) -> Folds:
    """The aggregates whose tuples may be folded, by what the driver wrote."""
    saved = json.loads(registry)
    if "windows_required" not in saved:
        return {}  # nothing has been written yet, or by a version that did not say
    known = Registry(
        saved["windows_required"],
        saved["order_column"],
        _Noted,
        lambda choice, program: decide_on_spark(choice, program, cores),
    )
    load_registry(known, saved)
    return folds_in(known)
