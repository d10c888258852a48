"""The Spark engine without Spark: its log, cores, state and results, driven step by step.

Only the JVM is replaced. The state stores commit or roll back as Spark's do, attempts can be made
to fail, and the memory of a worker can be lost, so that what takes minutes on Spark takes none.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock import tuning
from penstock.engines.shared import checksums
from penstock.engines.spark import engine as engine_module
from penstock.engines.spark.core.frames import Frame
from penstock.engines.spark.core.host import HostTask
from penstock.engines.spark.core.trigger import CoreMemory, CoreOptions, Output, trigger
from penstock.engines.spark.engine import Engine
from penstock.engines.spark.resident.checkpoint import Checkpoint
from penstock.engines.spark.resident.log_source import LogReader
from penstock.engines.spark.state.store import SparkStore

Row = tuple[Any, ...]


class Transaction:
    """Stands in for Spark's map of a core: changes are seen once they are committed, as there."""

    def __init__(self) -> None:
        self._kept: dict[Row, Row] = {}
        self._changes: dict[Row, Row | None] = {}
        self.written = 0

    def commit(self) -> None:
        merged = {**self._kept, **self._changes}
        self._kept = {key: value for key, value in merged.items() if value is not None}
        self._changes = {}

    def roll_back(self) -> None:
        self._changes = {}

    def getValue(self, key: Row) -> Row | None:
        return self._kept.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        assert isinstance(value[0], bytes)
        self._changes[key] = value
        self.written += len(value[0])

    def removeKey(self, key: Row) -> None:
        assert key in self._kept or key in self._changes
        self._changes[key] = None


class DictStore(SparkStore):
    """A core's state; copies of chunks are in a folder that is gone with the store."""

    def __init__(self) -> None:
        self._map = Transaction()
        place = tempfile.mkdtemp()
        # A TemporaryDirectory would warn, in whichever test is running when the store is collected.
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._copies_folder = Path(place) / "copies"
        super().__init__(self._map, lambda: self._copies_folder)
        self.commit, self.roll_back = self._map.commit, self._map.roll_back

    @property
    def written(self) -> int:
        return self._map.written

    def lose_copies(self) -> None:
        """The core goes on on another machine."""
        shutil.rmtree(self._copies_folder, ignore_errors=True)


class Cluster:
    """What outlives an engine: Spark's checkpoint, and what can go wrong."""

    def __init__(self, chance: random.Random | None = None, eager: bool = False) -> None:
        self.eager = eager
        self.stores: dict[int, DictStore] = {}
        self.memory = CoreMemory(most=8)
        self.offset: dict[str, int] = {"position": 0}
        self.planned: dict[str, int] | None = None
        self.batch = 0
        self.version = "in process"
        self.chance = chance

    def happens(self, probability: float) -> bool:
        return self.chance is not None and self.chance.random() < probability


class InProcess:
    """Stands in for :class:`penstock.engines.spark.resident.streaming_query.Resident`."""

    def __init__(
        self,
        spark: Any,
        checkpoint: Checkpoint,
        options: CoreOptions,
        rows_per_trigger: int,
        deliver: Callable[[int, pa.Table], None],
    ) -> None:
        self.cluster: Cluster = spark
        self._reader = LogReader(checkpoint.log, rows_per_trigger, options.cores, patience=0)
        self._options = options
        self._deliver = deliver
        self.run_id = "in process"

    def failure(self) -> None:
        """Asked by whoever waits for the cores: they run then, if the cluster is eager."""
        if self.cluster.eager:
            self.run()

    def stop(self) -> None:
        pass

    def run(self) -> None:
        """Batches until the log is read."""
        while self.batch():
            pass

    def batch(self) -> bool:
        """One batch, with the failures that the cluster has in store; False if there is no input.

        A batch that was planned and not committed is done again with the same offsets.
        """
        cluster = self.cluster
        end = cluster.planned
        if end is None:
            end = self._reader.latestOffset(cluster.offset, self._reader.getDefaultReadLimit())
        if end == cluster.offset:
            return False
        cluster.planned = end
        frames = [
            Frame(**row)
            for partition in self._reader.partitions(cluster.offset, end)
            for batch in self._reader.read(partition)
            for row in batch.to_pylist()
        ]
        for store in cluster.stores.values():
            store.roll_back()  # what a killed process had not committed
        tables = [self._core(core, frames) for core in range(self._options.cores)]
        self._deliver(cluster.batch, pa.concat_tables(tables))
        if cluster.happens(0.1):
            self._deliver(cluster.batch, pa.concat_tables(tables))
        self.before_commit()
        for store in cluster.stores.values():
            store.commit()
        cluster.offset, cluster.planned = end, None
        cluster.batch += 1
        self._reader.commit(end)
        return True

    def before_commit(self) -> None:
        """Here a process can be killed: the batch is delivered, and will be once more."""

    def _core(self, core: int, frames: list[Frame]) -> pa.Table:
        cluster = self.cluster
        store = cluster.stores.setdefault(core, DictStore())
        task = HostTask(self._options)
        if cluster.happens(0.3):
            cluster.memory.clear()  # another worker
            if cluster.batch % 2:
                store.lose_copies()
        if cluster.chance is not None:
            cluster.chance.shuffle(frames)  # Spark promises no order inside a group
        if cluster.happens(0.2):  # an attempt that fails on its way, or is never committed
            attempt = trigger(task, core, frames, store, cluster.memory)
            for _ in range(cluster.chance.choice((0, 1, 1000)) if cluster.chance else 0):
                next(attempt, None)
            attempt.close()
            store.roll_back()
        return _table(core, list(trigger(task, core, frames, store, cluster.memory)))


def _table(core: int, outputs: list[Output]) -> pa.Table:
    columns: dict[str, list[Any]] = {"core": [core] * len(outputs)}
    for name in ("kind", "query", "position", "count", "schema", "payload"):
        columns[name] = [getattr(output, name) for output in outputs]
    columns = {"rows" if name == "count" else name: column for name, column in columns.items()}
    types = [pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.binary()]
    arrays = [pa.array(c, t) for c, t in zip(columns.values(), types, strict=True)]
    return pa.table(arrays, names=list(columns))


class _NoSession:
    def __init__(self, cluster: Cluster) -> None:
        self.spark = cluster
        self.version = cluster.version

    def close(self) -> None:
        pass


@contextmanager
def standing_in(cluster: Cluster) -> Iterator[None]:
    """Every engine that is connected is on a cluster in this process."""
    with (
        patch.object(checksums.os, "fsync", lambda file: None),  # nobody pulls the plug here
        patch.object(engine_module, "Resident", InProcess),
        patch.object(engine_module, "open_session", lambda *_: _NoSession(cluster)),
        tuning.given(alive_check_interval=0.0 if cluster.eager else 0.5),
    ):
        yield


@contextmanager
def connected(cluster: Cluster, **options: Any) -> Iterator[Engine]:
    """An engine on a cluster in this process."""
    with standing_in(cluster), Engine(**options) as engine:
        yield engine


def finish(engine: Engine) -> None:
    """Process all that was pushed."""
    resident: Any = engine._resident
    resident.run()
    engine.wait()
