"""The task of the cores of a query over DataFrames: packed tuples in, rows and counts out.

The operator outputs frames, or the rows of the result themselves (*direct*). Frames go through
another Python process, which unpacks them: for a query with short triggers that is a large part of
the trigger. A direct timestamp travels as a number, since pandas would change its zone, and Spark
converts it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engines.spark.core.frames import from_ipc, one_batch
from penstock.engines.spark.core.trigger import PARTS, CoreOptions, Output, Stopwatch
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import PLACE, cast, output_rows
from penstock.engines.spark.dataframes.worker import PackedTuples, Worker
from penstock.errors import StateError

_CARRIED = (
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.StringType,
    spark_types.BinaryType,
    spark_types.TimestampType,
)
_COUNTED = ("kind", "count")
_KINDS = ("rows", "taken", "held", "late", "dead", "loads", *PARTS)
"""The kinds of rows of the operator; a row has the index of its kind."""


@dataclass(frozen=True)
class Direct:
    """The columns of the result as the operator outputs them, after those of counts."""

    schema: pa.Schema

    def frames(self, outputs: Iterable[Output]) -> Iterator[pd.DataFrame]:
        """The output of a core as rows of the operator; all counts of a trigger come at its end."""
        counts: list[Output] = []
        last: list[Any] | None = None
        for made in outputs:
            if made.kind != "rows":
                counts.append(made)
                continue
            if last is not None:
                yield self._frame(last, [])
            batch = one_batch(from_ipc(made.payload))
            given = batch.columns[: -len(PLACE)]
            last = [cast(a, f.type) for a, f in zip(given, self.schema, strict=True)]
        # One frame less: each takes Spark milliseconds, however small it is.
        yield self._frame(last or [pa.nulls(0, f.type) for f in self.schema], counts)

    def _frame(self, rows: Sequence[Any], counts: Sequence[Output]) -> pd.DataFrame:
        length = len(rows[0])
        kinds = np.zeros(length + len(counts), np.int8)
        kinds[length:] = [_KINDS.index(made.kind) for made in counts]
        numbers = np.ones(length + len(counts), np.int64)
        numbers[length:] = [made.count for made in counts]
        columns = [pa.concat_arrays([a, pa.nulls(len(counts), a.type)]) for a in rows]
        arrays = dict(zip((*_COUNTED, *self.schema.names), (kinds, numbers, *columns), strict=True))
        return pd.DataFrame(
            {
                name: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(array)))
                for name, array in arrays.items()
            },
            copy=False,
        )

    @property
    def spark_schema(self) -> str:
        """The columns of the operator."""
        columns = [f"{f.name} {_TYPES[f.type]}" for f in self.schema]
        return ", ".join([f"{_COUNTED[0]} byte, {_COUNTED[1]} long", *columns])


_TYPES: dict[Any, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
}


def direct_of(columns: spark_types.StructType, zone: str) -> Direct | None:
    """The operator columns of a result; None if it has a column of another type."""
    if not all(isinstance(field.dataType, _CARRIED) for field in columns):
        return None
    fields = []
    for place, field in enumerate(to_arrow_schema(columns, timezone=zone)):
        kind = pa.int64() if pa.types.is_timestamp(field.type) else field.type
        fields.append(pa.field(f"c{place}", kind))
    return Direct(pa.schema(fields))


def code_of(kind: str) -> Any:
    """The value of the column ``kind`` for this kind of output."""
    return F.lit(_KINDS.index(kind)).cast("byte")


def selected(columns: spark_types.StructType) -> Iterator[Any]:
    """The columns of the result, from those of the operator."""
    for place, field in enumerate(columns):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, spark_types.TimestampType):
            column = F.timestamp_micros(column)
        yield column.alias(field.name)


@dataclass(frozen=True)
class JobTask:
    """A job and its cores. With ``direct`` the rows of the result are rows of the operator."""

    job: Job
    options: CoreOptions
    direct: Direct | None = None

    state_place = "checkpointLocation"

    def start(self, options: CoreOptions) -> Worker:
        """A new worker."""
        return Worker(self.job, options)

    def refuse_cores(self, cores: int) -> StateError:
        """The error for state that another number of cores has written."""
        return StateError(
            f"the checkpoint was written with cores={cores}, and its windows are divided "
            f"among so many; cores={self.options.cores} cannot read them",
            f"Pass cores={cores}, or start with an empty checkpointLocation.",
        )

    def inputs(self, rows: pd.DataFrame) -> Iterator[PackedTuples]:
        """Packed tuples; without the time of the trigger where the job does not ask for it."""
        times = rows["at"] if "at" in rows else repeat(0, len(rows))
        columns = (rows["lane"], times, rows["payload"], rows["mark"])
        for lane, at, payload, mark in zip(*columns, strict=True):
            yield PackedTuples(int(lane), int(at), payload, bool(mark))

    def rows(self, core: int, outputs: Iterator[Output]) -> Iterator[pd.DataFrame]:
        """Rows of the result and counts, or numbered outputs for another process to unpack."""
        if self.direct is not None:
            yield from self.direct.frames(outputs)
            return
        for number, output in enumerate(outputs):
            yield pd.DataFrame(output_rows(number, output))

    def report(self, watch: Stopwatch, was_loaded: bool) -> Iterator[Output]:
        """Where the time has gone, and whether state was loaded."""
        yield from watch.outputs()
        yield Output("loads", int(was_loaded))
