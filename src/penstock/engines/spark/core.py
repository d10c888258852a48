"""The stateful operator of a Spark query: one host of blocks per core.

The state store is the truth. A worker keeps the host it has just used in memory, under a random
token that it wrote with the same state commit, and uses it again only if the state has that token.
A batch number would not do: an attempt that failed has one too. A host is taken out of the memory
while an attempt uses it, so that one that fails leaves nothing behind.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import Host, HostOptions, Output
from penstock.engines.spark.state import FORMAT
from penstock.errors import StateError

OUTPUT_SCHEMA = (
    "core int, kind string, query long, position long, rows long, schema string, payload binary"
)


class HostMemory:
    """The hosts that this process has used last, each with the token of the state it is at."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._hosts: OrderedDict[tuple[str, int, int], tuple[str, Host]] = OrderedDict()

    def take(self, options: HostOptions, token: str) -> Host | None:
        """The host if it is at that token; it is in the memory no longer either way."""
        known, host = self._hosts.pop(_place(options), ("", None))
        return host if known == token else None

    def put(self, options: HostOptions, token: str, host: Host) -> None:
        """Remember a host that is at that token."""
        self._hosts[_place(options)] = (token, host)
        while len(self._hosts) > self._most:
            self._hosts.popitem(last=False)


def _place(options: HostOptions) -> tuple[str, int, int]:
    return options.checkpoint, options.cores, options.core


MEMORY = HostMemory(most=4)
"""Of this worker process; Spark gives an operator no other place to keep anything in."""


class SparkStore:
    """The state variables of the operator as a store of chunks and texts."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState(
            "head", "format int, cores int, position long, token string"
        )
        self._texts = handle.getMapState("texts", "key string", "text string")
        self._chunks = handle.getMapState("chunks", "key string", "data binary")

    def head(self) -> tuple[int, int, int, str] | None:
        """Format, number of cores, next position and token of the state; None if it is empty."""
        return self._head.get() if self._head.exists() else None

    def set_head(self, cores: int, position: int, token: str) -> None:
        self._head.update((FORMAT, cores, position, token))

    def texts(self) -> dict[str, str]:
        return {key[0]: value[0] for key, value in self._texts.iterator()}

    def chunks(self) -> dict[str, bytes]:
        return {key[0]: bytes(value[0]) for key, value in self._chunks.iterator()}

    def put(self, key: str, data: bytes) -> None:
        self._chunks.updateValue((key,), (data,))

    def delete(self, key: str) -> None:
        self._chunks.removeKey((key,))

    def put_text(self, key: str, text: str) -> None:
        self._texts.updateValue((key,), (text,))

    def delete_text(self, key: str) -> None:
        self._texts.removeKey((key,))


class Core(StatefulProcessor):
    """Takes the frames of a trigger, in the order of their positions, through the host's blocks.

    ``core_of`` says which core a group is: the groups are numbers that Spark's hash puts in
    partitions of their own.
    """

    def __init__(self, options: HostOptions, core_of: dict[int, int]) -> None:
        self._options = options
        self._core_of = core_of

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = SparkStore(handle)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        options = replace(self._options, core=self._core_of[int(key[0])])
        frames = sorted(_frames(rows), key=lambda frame: frame.first)
        host = self._host(options)
        for output in host.take(frames):
            yield _frame_out(options.core, output)
        host.save(self._store)
        token = uuid.uuid4().hex
        self._store.set_head(options.cores, host.position, token)
        MEMORY.put(options, token, host)

    def _host(self, options: HostOptions) -> Host:
        """The host at the state of the store: from memory if it is that very one, else loaded."""
        head = self._store.head()
        if head is None:
            return Host(options)
        format_, cores, position, token = head
        if (format_, cores) != (FORMAT, options.cores):
            raise StateError(
                f"the checkpoint has state of format {format_} for {cores} cores; "
                f"this is format {FORMAT} with {options.cores} cores",
                f"Run it with cores={cores} and the version of Penstock that wrote it.",
            )
        host = MEMORY.take(options, token)
        if host is None:
            host = Host(options)
            host.load(position, self._store.texts(), self._store.chunks())
        return host

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
