"""The Spark engine without Spark: its log, cores, state and results, driven step by step.

Only the JVM is replaced. The state stores commit or roll back as Spark's do, attempts can be made
to fail, and the memory of a worker can be lost, so that what takes minutes on Spark takes none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.engines.spark import engine as engine_module
from penstock.engines.spark import log
from penstock.engines.spark.checkpoint import Checkpoint
from penstock.engines.spark.engine import Engine
from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import HostOptions, Output
from penstock.engines.spark.source import LogReader
from penstock.engines.spark.trigger import Head, HostMemory, trigger


class DictStore:
    """A core's state in dicts; counts what is written."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self._changes: dict[str, Any] = {}
        self.written = 0

    def commit(self) -> None:
        self.kept = {k: v for k, v in {**self.kept, **self._changes}.items() if v is not None}
        self._changes = {}

    def roll_back(self) -> None:
        self._changes = {}

    def head(self) -> Head | None:
        return self.kept.get("head")

    def set_head(self, head: Head) -> None:
        self._changes["head"] = head

    def texts(self) -> dict[str, str]:
        return {k[5:]: v for k, v in self.kept.items() if k.startswith("text ")}

    def chunks(self) -> dict[str, bytes]:
        return {k[6:]: v for k, v in self.kept.items() if k.startswith("chunk ")}

    def put(self, key: str, data: bytes) -> None:
        self._changes[f"chunk {key}"] = data
        self.written += len(data)

    def delete(self, key: str) -> None:
        self._changes[f"chunk {key}"] = None

    def put_text(self, key: str, text: str) -> None:
        self._changes[f"text {key}"] = text

    def delete_text(self, key: str) -> None:
        self._changes[f"text {key}"] = None


class Cluster:
    """What outlives an engine: Spark's checkpoint, and what can go wrong."""

    def __init__(self, chance: random.Random | None = None, eager: bool = False) -> None:
        self.eager = eager
        self.stores: dict[int, DictStore] = {}
        self.memory = HostMemory(most=8)
        self.offset: dict[str, int] = {"position": 0}
        self.planned: dict[str, int] | None = None
        self.batch = 0
        self.version = "in process"
        self.chance = chance

    def happens(self, probability: float) -> bool:
        return self.chance is not None and self.chance.random() < probability


class InProcess:
    """Stands in for :class:`penstock.engines.spark.resident.Resident`."""

    def __init__(
        self,
        spark: Any,
        checkpoint: Checkpoint,
        options: HostOptions,
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
        options = replace(self._options, core=core)
        if cluster.happens(0.3):
            cluster.memory = HostMemory(most=8)  # another worker
        if cluster.chance is not None:
            cluster.chance.shuffle(frames)  # Spark promises no order inside a group
        if cluster.happens(0.2):  # an attempt that fails on its way, or is never committed
            attempt = trigger(options, frames, store, cluster.memory)
            for _ in range(cluster.chance.choice((0, 1, 1000)) if cluster.chance else 0):
                next(attempt, None)
            attempt.close()
            store.roll_back()
        return _table(core, list(trigger(options, frames, store, cluster.memory)))


def _table(core: int, outputs: list[Output]) -> pa.Table:
    columns: dict[str, list[Any]] = {"core": [core] * len(outputs)}
    for name in ("kind", "query", "position", "rows", "schema", "payload"):
        columns[name] = [getattr(output, name) for output in outputs]
    types = [pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.binary()]
    arrays = [pa.array(c, t) for c, t in zip(columns.values(), types, strict=True)]
    return pa.table(arrays, names=list(columns))


class _NoSession:
    def __init__(self, cluster: Cluster) -> None:
        self.spark = cluster

    def close(self) -> None:
        pass


@contextmanager
def standing_in(cluster: Cluster) -> Iterator[None]:
    """Every engine that is connected is on a cluster in this process."""
    with (
        patch.object(log.os, "fsync", lambda file: None),  # nobody pulls the plug here
        patch.object(engine_module, "Resident", InProcess),
        patch.object(engine_module, "open_session", lambda *_: _NoSession(cluster)),
        patch.object(engine_module, "_LOOK_AGAIN", 0.0 if cluster.eager else 0.5),
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
