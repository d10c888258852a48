"""The stateful operator of a Spark query: its state variables, and frames in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import Host, HostOptions, Output
from penstock.engines.spark.trigger import Head, HostMemory, trigger

OUTPUT_SCHEMA = (
    "core int, kind string, query long, position long, rows long, schema string, payload binary"
)


MEMORY: HostMemory[Host] = HostMemory(most=4)
"""Of this worker process; Spark gives an operator no other place to keep anything in."""


class SparkStore:
    """The state variables of the operator as a store of chunks and texts."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState(
            "head", "format int, cores int, position long, token string"
        )
        self._texts = handle.getMapState("texts", "key string", "text string")
        self._chunks = handle.getMapState("chunks", "key string", "data binary")

    def head(self) -> Head | None:
        found = self._head.get()
        return None if found is None else Head(*found)

    def set_head(self, head: Head) -> None:
        self._head.update(tuple(head))

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
