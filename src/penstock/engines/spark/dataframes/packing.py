"""Rows into frames and frames into rows, for ``mapInArrow``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.run import Run
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.worker import Made, Packed, Worker
from penstock.engines.spark.frames import MOST_TUPLES, from_ipc, ipc, one_batch
from penstock.engines.spark.host import POSITION, HostOptions
from penstock.program.compile import compile_plan
from penstock.sql.bind import bind
from penstock.sql.catalog import Catalog
from penstock.sql.parse import parse_query

Batches = Iterator[pa.RecordBatch]

PACKED = "lane int, payload binary"
MADE = "kind string, count long, payload binary"
_PAYLOAD = pa.field("payload", pa.binary())
_MADE = pa.schema([pa.field("kind", pa.string()), pa.field("count", pa.int64()), _PAYLOAD])
_PACKED = pa.schema([pa.field("lane", pa.int32()), _PAYLOAD])

KIND, STREAM, TUPLE, REASON = TAGS = ("_kind", "_stream", "_tuple", "_reason")
"""The columns that tell rows, late tuples and dead letters apart."""


@dataclass(frozen=True)
class Pack:
    """Tuples of one stream into frames of at most 65,536."""

    lane: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for start in range(0, batch.num_rows, MOST_TUPLES):
                part = conformed(batch.slice(start, MOST_TUPLES), self.schema)
                row = [{"lane": self.lane, "payload": ipc(part)}]
                yield pa.RecordBatch.from_pylist(row, schema=_PACKED)


@dataclass(frozen=True)
class Process:
    """The frames of bounded streams, all of them, through one core, without any state store."""

    job: Job
    options: HostOptions
    core_of: dict[int, int]

    def __call__(self, batches: Batches) -> Batches:
        first = next(batches, None)
        if first is None or not first.num_rows:
            return  # a partition that no core was given
        core = self.core_of[first.column("core")[0].as_py()]
        worker = Worker(self.job, replace(self.options, core=core))
        for made in worker.take(_packed(chain([first], batches)), last=True):
            row = [{"kind": made.kind, "count": made.count, "payload": made.payload}]
            yield pa.RecordBatch.from_pylist(row, schema=_MADE)


def _packed(batches: Batches) -> Iterator[Packed]:
    for batch in batches:
        lanes: list[Any] = batch.column("lane").to_pylist()
        for lane, payload in zip(lanes, batch.column("payload"), strict=True):
            yield Packed(lane, 0, payload.as_buffer())


@dataclass(frozen=True)
class Unpack:
    """Frames that the cores made into the rows of the result.

    ``schema`` has the columns of the result as Spark expects them; behind them are the tags, if the
    job asks for letters.
    """

    job: Job
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for made in _made(batches):
            if made.kind == "rows":
                yield self._rows(one_batch(from_ipc(made.payload)))
            elif self.job.letters and made.kind in ("late", "dead"):
                yield self._letters(made)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(i) for i in range(batch.num_columns - 1)]
        if self.job.letters:
            nothing = pa.nulls(batch.num_rows, pa.string())
            columns += [pa.array(["row"] * batch.num_rows), nothing, nothing, nothing]
        return self._batch(columns)

    def _letters(self, made: Made) -> pa.RecordBatch:
        found = list(zip(*json.loads(made.payload), strict=True))
        fields = list(self.schema)[: -len(TAGS)]
        columns = [pa.nulls(made.count, field.type) for field in fields]
        kinds = pa.array([made.kind] * made.count)
        return self._batch([*columns, kinds, *(pa.array(column) for column in found)])

    def _batch(self, columns: Sequence[Any]) -> pa.RecordBatch:
        arrays = [_cast(a, f.type) for a, f in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class UnpackInOrder:
    """As :class:`Unpack`, for all frames of a trigger at once, in the order of their positions."""

    unpack: Unpack

    def __call__(self, batches: Batches) -> Batches:
        rows, rest = [], []
        for made in _made(batches):
            if made.kind == "rows":
                rows.append(from_ipc(made.payload))
            else:
                rest.append(made)
        if rows:
            table = one_batch(pa.concat_tables(rows))
            positions = table.column(table.num_columns - 1).to_numpy()
            order = np.argsort(positions, kind="stable")
            for start in range(0, len(order), MOST_TUPLES):
                yield self.unpack._rows(table.take(order[start : start + MOST_TUPLES]))
        for made in rest:
            if self.unpack.job.letters and made.kind in ("late", "dead"):
                yield self.unpack._letters(made)


def _made(batches: Batches) -> Iterator[Made]:
    for batch in batches:
        kinds: list[Any] = batch.column("kind").to_pylist()
        counts: list[Any] = batch.column("count").to_pylist()
        for kind, count, payload in zip(kinds, counts, batch.column("payload"), strict=True):
            yield Made(kind, count, payload.as_buffer())


@dataclass(frozen=True)
class Compute:
    """A query whose rows depend on one tuple each, over one of its streams: no order, no state."""

    job: Job
    lane: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        streams = [lane.stream for lane in self.job.lanes]
        stream = streams[self.lane]
        plan = bind(
            parse_query(self.job.text), Catalog(streams), order_column=self.job.order_column
        )
        pipeline = Pipeline(compile_plan(plan))
        unpack = Unpack(self.job, self.schema)
        for batch in batches:
            run = Run((conformed(batch, stream.schema),), np.arange(batch.num_rows))
            for made in pipeline.process({stream.name.lower(): run}):
                if len(made):
                    positions = pa.array(made.positions)
                    yield unpack._rows(made.inputs[0].append_column(POSITION, positions))


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the stream's own types, which may be others than Spark chose."""
    if batch.schema.equals(schema):
        return batch
    arrays = [_cast(a, f.type) for a, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: Any, kind: pa.DataType) -> Any:
    return array if array.type.equals(kind) else array.cast(kind, safe=False)
