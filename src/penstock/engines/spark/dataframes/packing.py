"""Rows into frames and frames into rows, for ``mapInArrow``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.folding import Folding
from penstock.blocks.contract import ALONE, OUT
from penstock.blocks.run import Run
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.spark.core.frames import (
    MOST_TUPLES,
    cut,
    from_ipc,
    ipc,
    joined,
    one_batch,
    pack_partial,
    ties_in,
)
from penstock.engines.spark.core.host import POSITION, TIE
from penstock.engines.spark.core.trigger import CoreOptions, Output, Stopwatch
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.partition import KeyedLane
from penstock.engines.spark.dataframes.sequencer import keys_of
from penstock.engines.spark.dataframes.worker import LETTERS, PackedTuples, Worker
from penstock.program.isa.block_instructions import AggregateRows
from penstock.streams.batches import take
from penstock.streams.order import OrderColumn

Batches = Iterator[pa.RecordBatch]

PACKED = "lane int, core int, mark boolean, payload binary"
OUTPUT_SCHEMA = "number long, kind string, stream string, count long, payload binary"
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("number", pa.int64()),
    pa.field("kind", pa.string()),
    pa.field("stream", pa.string()),
    pa.field("count", pa.int64()),
    pa.field("payload", pa.binary()),
]
_MADE = pa.schema(_COLUMNS)
_PLACED: list[pa.Field[Any]] = [
    pa.field("lane", pa.int32()),
    pa.field("core", pa.int32()),
    pa.field("mark", pa.bool_()),
]
_PACKED = pa.schema([*_PLACED, _COLUMNS[-1]])

PLACE = (POSITION, TIE)
"""The last columns of unpacked rows: they order the rows of all cores."""

KIND, STREAM, TUPLE, REASON = TAGS = ("_kind", "_stream", "_tuple", "_reason")
"""The columns that tell rows, late tuples and dead letters apart."""


@dataclass(frozen=True)
class Pack:
    """Tuples of one stream into frames of at most 65,536, for any core."""

    lane: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for part in self._parts(batches):
            yield self._frame(part)

    def _parts(self, batches: Batches) -> Batches:
        for batch in batches:
            for start in range(0, batch.num_rows, MOST_TUPLES):
                yield conformed(batch.slice(start, MOST_TUPLES), self.schema)

    def _frame(
        self, part: pa.RecordBatch, group: int | None = None, mark: bool = False
    ) -> pa.RecordBatch:
        return self._rows(ipc(part), group, mark)

    def _rows(self, payload: bytes, group: int | None, mark: bool = False) -> pa.RecordBatch:
        payloads = list(cut(payload))
        placed = (self.lane, group, mark)
        columns = [
            pa.array([value] * len(payloads), field.type)
            for value, field in zip(placed, _PLACED, strict=True)
        ]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(payloads, pa.binary())], schema=_PACKED
        )


@dataclass(frozen=True)
class PackByKey(Pack):
    """As :class:`Pack`, each tuple for the core of its key; all cores get the highest time.

    ``groups`` has the group of every core.
    """

    column: OrderColumn | None
    key: KeyedLane
    groups: tuple[int, ...]

    def __call__(self, batches: Batches) -> Batches:
        latest: pa.RecordBatch | None = None
        for part in self._parts(batches):
            cores = self.key.cores(part, len(self.groups))
            for core, group in enumerate(self.groups):
                mine = np.flatnonzero(cores == core)
                if len(mine):
                    yield self._frame(take(part, mine), group)
            latest = self._latest(part, latest)
        if latest is not None:
            for group in self.groups:
                yield self._frame(latest, group, mark=True)

    def _latest(self, part: pa.RecordBatch, known: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """The tuple with the highest time, as a batch of one."""
        if self.column is None or self.key.delay is None:
            return None
        keys, missing = keys_of(part, self.column)
        near = (keys > -self.key.farthest) & (keys < self.key.farthest)
        there = np.flatnonzero(near if missing is None else near & ~missing)
        if not len(there):
            return known
        best = int(there[np.argmax(keys[there])])
        if known is not None and keys_of(known, self.column)[0][0] >= keys[best]:
            return known
        return part.slice(best, 1)


@dataclass(frozen=True)
class PackPartials(Pack):
    """The partial results of a partition by pane and group, for the cores of the groups."""

    stream: str
    aggregate: AggregateRows
    groups: tuple[int, ...]

    def __call__(self, batches: Batches) -> Batches:
        folding = Folding(self.aggregate, self.stream)
        tuples = 0
        for part in self._parts(batches):
            folding.take(part)
            tuples += part.num_rows
            if folding.is_full:
                yield from self._frames(folding)
                tuples = 0
        if tuples:
            yield from self._frames(folding)

    def _frames(self, folding: Folding) -> Batches:
        parts = folding.parts(len(self.groups))
        for group, part in zip(self.groups, parts, strict=True):
            yield self._rows(pack_partial(part), group)


@dataclass(frozen=True)
class Process:
    """All frames of bounded streams through one core, without a state store."""

    job: Job
    options: CoreOptions
    core_of: dict[int, int]

    def __call__(self, batches: Batches) -> Batches:
        first = next(batches, None)
        if first is None or not first.num_rows:
            return  # a partition that no core was given
        core = self.core_of[first.column("core")[0].as_py()]
        worker = Worker(self.job, replace(self.options, core=core))
        packed = _packed(chain([first], batches))
        for number, made in enumerate(worker.take(packed, Stopwatch(), last=True)):
            yield pa.RecordBatch.from_pylist(output_rows(number, made), schema=_MADE)


def _packed(batches: Batches) -> Iterator[PackedTuples]:
    for batch in batches:
        lanes: list[Any] = batch.column("lane").to_pylist()
        marks: list[Any] = batch.column("mark").to_pylist()
        for lane, mark, payload in zip(lanes, marks, batch.column("payload"), strict=True):
            yield PackedTuples(lane, 0, payload.as_buffer(), mark)


@dataclass(frozen=True)
class Unpack:
    """Unpack frames of the cores into the rows of the result.

    ``schema`` has the columns of the result as Spark expects them; behind them are the tags, if the
    job asks for letters.
    """

    job: Job
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for made in _made(batches):
            if made.kind == "rows":
                batch = one_batch(from_ipc(made.payload))
                yield self.rows(batch.columns[: -len(PLACE)], batch.num_rows)
            elif self.job.letters and made.kind in LETTERS:
                yield self.letter_rows(made)

    def rows(self, columns: Sequence[Any], count: int) -> pa.RecordBatch:
        """Rows of the query as rows of the result."""
        columns = list(columns)
        if self.job.letters:
            nothing = pa.nulls(count, pa.string())
            columns += [pa.array(["row"] * count), nothing, nothing, nothing]
        return self._batch(columns)

    def letter_rows(self, made: Output) -> pa.RecordBatch:
        """Late tuples or dead letters as rows of the result, without values."""
        found = list(zip(*json.loads(bytes(made.payload)), strict=True))
        fields = list(self.schema)[: -len(TAGS)]
        columns = [pa.nulls(made.count, field.type) for field in fields]
        kinds = pa.array([made.kind] * made.count)
        return self._batch([*columns, kinds, *(pa.array(column) for column in found)])

    def _batch(self, columns: Sequence[Any]) -> pa.RecordBatch:
        arrays = [cast(a, f.type) for a, f in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class UnpackInOrder:
    """As :class:`Unpack`, for all frames of a trigger at once, in the order of their positions."""

    unpack: Unpack

    def __call__(self, batches: Batches) -> Batches:
        frames = sorted(_numbered(batches), key=lambda one: one[0])
        tables = [from_ipc(made.payload) for _, made in frames if made.kind == "rows"]
        if tables:
            rows = one_batch(pa.concat_tables(tables))
            positions, ties = (rows.column(name) for name in PLACE)
            order = np.lexsort(
                (ties_in(ties), positions.to_numpy())
            )  # stable: rows of one core stay as they came
            for start in range(0, len(order), MOST_TUPLES):
                part = take(rows, order[start : start + MOST_TUPLES])
                yield self.unpack.rows(part.columns[: -len(PLACE)], part.num_rows)
        for _, made in frames:
            if self.unpack.job.letters and made.kind in LETTERS:
                yield self.unpack.letter_rows(made)


def _made(batches: Batches) -> Iterator[Output]:
    return (made for _, made in _numbered(batches))


def output_rows(number: int, made: Output) -> list[dict[str, Any]]:
    """The output of a core as rows of :data:`OUTPUT_SCHEMA`; the first has the count."""
    pieces = enumerate(cut(made.payload))
    said = {"number": number, "kind": made.kind, "stream": made.stream}
    return [{**said, "count": 0 if place else made.count, "payload": one} for place, one in pieces]


def _numbered(batches: Batches) -> Iterator[tuple[int, Output]]:
    """Frames, each with its number among those that its core made in the trigger."""
    for (number, kind, stream, count), payload in joined(_made_pieces(batches)):
        yield number, Output(kind, count, payload, stream)


def _made_pieces(batches: Batches) -> Iterator[tuple[tuple[int, str, str, int], memoryview]]:
    for batch in batches:
        columns: list[list[Any]] = [batch.column(i).to_pylist() for i in range(4)]
        for number, kind, stream, count, payload in zip(*columns, batch.column(4), strict=True):
            yield (number, kind, stream, count), memoryview(payload.as_buffer())


@dataclass(frozen=True)
class Compute:
    """A stateless query over one of its streams: each row depends on one tuple."""

    job: Job
    lane: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        stream = self.job.lanes[self.lane].stream
        pipeline = Pipeline(self.job.program, ALONE)
        unpack = Unpack(self.job, self.schema)
        for batch in batches:
            run = Run((conformed(batch, stream.schema),), np.arange(batch.num_rows))
            given = {stream.name.lower(): run}
            for port, message in pipeline.process(given, 0, batch.num_rows):
                if port == OUT and len(message.run):
                    yield unpack.rows(message.run.inputs[0].columns, len(message.run))


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the stream's own types, which may be others than Spark chose."""
    if batch.schema.equals(schema):
        return batch
    arrays = [cast(a, f.type) for a, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast(array: Any, kind: pa.DataType) -> Any:
    """The array in another type that Spark and Penstock take for the same."""
    return array if array.type.equals(kind) else array.cast(kind, safe=False)
