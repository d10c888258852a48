"""Rows of the result straight from the cores, in the columns of their stateful operator.

Otherwise what a core makes goes through another Python process, which unpacks it: for a query whose
triggers are short that is a good part of the trigger. A timestamp travels as a number, since pandas
would have a say in its zone, and Spark makes a timestamp of it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engines.spark.dataframes.packing import PLACE, cast
from penstock.engines.spark.dataframes.worker import PARTS, Made
from penstock.engines.spark.frames import from_ipc, one_batch

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
"""What a row of the operator can be; it says so by its place here."""


@dataclass(frozen=True)
class Direct:
    """The columns of the result as the cores hand them on, behind those of counts."""

    schema: pa.Schema

    def frames(self, outputs: Iterable[Made]) -> Iterator[pd.DataFrame]:
        """What a core made, as rows of the operator; all counts of a trigger come at its end."""
        counts: list[Made] = []
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

    def _frame(self, rows: Sequence[Any], counts: Sequence[Made]) -> pd.DataFrame:
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
    """How the cores hand the result on; None if it has a column of another type."""
    if not all(isinstance(field.dataType, _CARRIED) for field in columns):
        return None
    fields = []
    for place, field in enumerate(to_arrow_schema(columns, timezone=zone)):
        kind = pa.int64() if pa.types.is_timestamp(field.type) else field.type
        fields.append(pa.field(f"c{place}", kind))
    return Direct(pa.schema(fields))


def code_of(kind: str) -> Any:
    """What the column ``kind`` has for what is of this kind."""
    return F.lit(_KINDS.index(kind)).cast("byte")


def selected(columns: spark_types.StructType) -> Iterator[Any]:
    """The columns of the result, of those that the cores hand on."""
    for place, field in enumerate(columns):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, spark_types.TimestampType):
            column = F.timestamp_micros(column)
        yield column.alias(field.name)
