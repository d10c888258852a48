"""Rows of the result straight from the cores, in the columns of their stateful operator.

Otherwise what a core makes goes through another Python process, which unpacks it: for a query whose
triggers are short that is a good part of the trigger. A timestamp travels as a number, since pandas
would have a say in its zone, and Spark makes a timestamp of it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engines.spark.dataframes.packing import PLACE, cast
from penstock.engines.spark.dataframes.worker import Made
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
_COUNTED: dict[str, pa.DataType] = {
    "number": pa.int64(),
    "kind": pa.string(),
    "count": pa.int64(),
}


@dataclass(frozen=True)
class Direct:
    """The columns of the result as the cores hand them on, behind those of counts."""

    schema: pa.Schema

    def frame(self, number: int, made: Made) -> pd.DataFrame:
        """What a core made, as rows of the operator: each row of the result, or one count."""
        columns = [pa.nulls(1, field.type) for field in self.schema]
        count, length = made.count, 1
        if made.kind == "rows":
            batch = one_batch(from_ipc(made.payload))
            given = batch.columns[: -len(PLACE)]
            columns = [cast(a, f.type) for a, f in zip(given, self.schema, strict=True)]
            count, length = 1, batch.num_rows
        counted = [np.full(length, number), pa.repeat(made.kind, length), np.full(length, count)]
        arrays: list[Any] = [*counted, *columns]
        names = [*_COUNTED, *self.schema.names]
        types = [*_COUNTED.values(), *(field.type for field in self.schema)]
        return pd.DataFrame(
            {
                name: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(array, kind)))
                for name, kind, array in zip(names, types, arrays, strict=True)
            }
        )

    @property
    def spark_schema(self) -> str:
        """The columns of the operator."""
        kinds = [f"{f.name} {_KINDS[f.type]}" for f in self.schema]
        return ", ".join(["number long, kind string, count long", *kinds])


_KINDS: dict[Any, str] = {
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


def selected(columns: spark_types.StructType) -> Iterator[Any]:
    """The columns of the result, of those that the cores hand on."""
    for place, field in enumerate(columns):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, spark_types.TimestampType):
            column = F.timestamp_micros(column)
        yield column.alias(field.name)
