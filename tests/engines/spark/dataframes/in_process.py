"""Queries over DataFrames without Spark: triggers of the cores, driven step by step.

Only the JVM is replaced. Attempts can be made to fail and the memory of a worker to be lost, and
frames come in any order.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types
from tests.engines.spark.in_process import DictStore

from penstock.engines.spark.core.frames import from_ipc, ties_in
from penstock.engines.spark.core.trigger import CoreMemory, CoreOptions, Output, Stopwatch, trigger
from penstock.engines.spark.dataframes.arguments import Request
from penstock.engines.spark.dataframes.columns import WATERMARK, DataFrameStream
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import PLACE
from penstock.engines.spark.dataframes.partition import distribution, on_one_core
from penstock.engines.spark.dataframes.prepare import check
from penstock.engines.spark.dataframes.script import parse_script
from penstock.engines.spark.dataframes.sql import pack_of
from penstock.engines.spark.dataframes.task import JobTask
from penstock.engines.spark.dataframes.worker import PackedTuples, Worker

COLUMNS: dict[str, types.DataType] = {
    "ts": types.LongType(),
    "id": types.LongType(),
    "x": types.IntegerType(),
    "note": types.StringType(),
}
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("id", pa.int64()), ("x", pa.int32()), ("note", pa.string())]
)
NAMES = "rsuvw"
"""The names of streams with these columns."""
Row = tuple[Any, ...]
Trigger = list[tuple[int, list[Row]]]
"""Tuples as they come in one trigger: parts, each of one stream by its number."""


def source(
    name: str,
    columns: dict[str, types.DataType] = COLUMNS,
    bounded: bool = False,
    watermark: tuple[str, int] | None = None,
) -> DataFrameStream:
    """A DataFrame of these columns; ``watermark`` is a column and its delay in milliseconds."""
    fields = [types.StructField(column, kind) for column, kind in columns.items()]
    for field in fields:
        if watermark is not None and field.name == watermark[0]:
            field.metadata = {WATERMARK: watermark[1]}
    return DataFrameStream(name, types.StructType(fields), bounded, "UTC")


def job_of(sql: str, *sources: DataFrameStream, **options: Any) -> Job:
    """The job of a query; over such of the streams r to w as it reads, unless others are given."""
    named = [source(name) for name in NAMES if re.search(rf"(FROM|JOIN) {name}\b", sql)]
    return check(parse_script(sql), sources or named, Request(**options))[0]


def batch_of(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Cluster:
    """The cores of a query with their state; what the committed attempts made."""

    def __init__(
        self,
        job: Job,
        cores: int,
        chance: random.Random | None = None,
        schema: pa.Schema | Mapping[str, pa.Schema] = SCHEMA,
    ) -> None:
        """``schema``: of all streams, or of each by its name."""
        self.schema = schema
        if job.derived:
            cores = on_one_core([name for name, _ in job.derived]).cores
        else:
            shared = distribution(job.program, job.lanes, job.by_key, cores, job.letters)
            job = replace(job, keys=shared.keys, partial=shared.partial)
            cores = cores if shared.partial is None else shared.cores
        self.job = job
        self.cores = cores
        self.chance = chance
        self.stores = [DictStore() for _ in range(cores)]
        self.memory = CoreMemory(most=8)
        self.made: list[tuple[int, Output]] = []
        self.at = 0

    def forget(self) -> None:
        """Lose what the workers remember: all that is left is the state."""
        self.memory.clear()

    def _happens(self, probability: float) -> bool:
        return self.chance is not None and self.chance.random() < probability

    def trigger(self, parts: Trigger, at: int | None = None) -> list[Output]:
        """One trigger on all cores; what it made."""
        self.at = self.at + 1 if at is None else at
        packed = [frame for lane, rows in parts if rows for frame in self._pack(lane, rows)]
        made: list[tuple[int, Output]] = []
        for core, store in enumerate(self.stores):
            if self._happens(0.2):
                self.forget()
                if self._happens(0.5):
                    store.lose_copies()
            while self._happens(0.2):  # an attempt that fails, before or after its last row
                outputs = self._attempt(core, packed)
                for _ in range(self.chance.randrange(4) if self.chance else 0):
                    next(outputs, None)
                if self._happens(0.5):
                    list(outputs)
                store.roll_back()
            made += [(number, one) for number, one in enumerate(self._attempt(core, packed))]
            store.commit()
        self.made += made
        return [one for _, one in made]

    def _attempt(self, core: int, frames: list[tuple[int | None, PackedTuples]]) -> Any:
        packed = [frame for group, frame in frames if group in (None, core)]
        if self.chance is not None:
            packed = self.chance.sample(packed, len(packed))
        task = JobTask(self.job, self._options(core))
        return trigger(task, core, packed, self.stores[core], self.memory)

    def last(self, parts: Trigger) -> None:
        """All tuples of bounded streams, on one core, as static DataFrames are processed."""
        assert self.job.bounded and self.cores == 1
        packed = [frame for lane, rows in parts if rows for _, frame in self._pack(lane, rows)]
        worker = Worker(self.job, self._options(0))
        self.made += enumerate(worker.take(packed, Stopwatch(), last=True))

    def _options(self, core: int) -> CoreOptions:
        return CoreOptions(
            checkpoint="c",
            cores=self.cores,
            core=core,
            batch_rows=7,
            compile_predicates=False,
            divided=self.job.keys is not None or self.job.partial is not None,
        )

    def _pack(self, number: int, rows: list[Row]) -> Iterator[tuple[int | None, PackedTuples]]:
        """Frames, each with the core that it is for, if not for all."""
        stream = self.job.lanes[number].stream
        whole = self.schema if isinstance(self.schema, pa.Schema) else self.schema[stream.name]
        pack = pack_of(self.job, number, tuple(range(self.cores)))
        for batch in pack(iter([batch_of(rows, whole).select(stream.schema.names)])):
            for row in batch.to_pylist():
                yield row["core"], PackedTuples(number, self.at, row["payload"], row["mark"])

    def rows(self) -> list[Row]:
        """All rows so far, in the order that the cores together give them."""
        tables = [from_ipc(one.payload) for _, one in self.made if one.kind == "rows"]
        if not tables:
            return []
        rows = pa.concat_tables(tables).combine_chunks()
        position, tie = (rows.column(name) for name in PLACE)
        rows = rows.take(np.lexsort((ties_in(tie), position.to_numpy())))
        columns = [rows.column(i).to_pylist() for i in range(rows.num_columns - len(PLACE))]
        return list(zip(*columns, strict=True))

    def letters(self, kind: str) -> list[tuple[str, str, str]]:
        """Late tuples or dead letters: stream, text, reason."""
        found = [json.loads(one.payload) for _, one in self.made if one.kind == kind]
        return [tuple(letter) for letters in found for letter in letters]

    def written(self) -> int:
        return sum(store.written for store in self.stores)
