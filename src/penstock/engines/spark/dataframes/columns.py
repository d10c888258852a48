"""Columns of DataFrames as columns of streams, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from penstock.errors import InputError
from penstock.sql.expressions import Column
from penstock.sql.plan import Join, Output, Plan, Select
from penstock.streams.schema import Stream, normal_type

WATERMARK = "spark.watermarkDelayMs"
"""Where the schema of a DataFrame has the delay of ``withWatermark``."""

_UNSIGNED: dict[Any, spark_types.DataType] = {
    pa.uint8(): spark_types.ShortType(),
    pa.uint16(): spark_types.IntegerType(),
    pa.uint32(): spark_types.LongType(),
    pa.uint64(): spark_types.DecimalType(20, 0),
}


@dataclass(frozen=True)
class Source:
    """A DataFrame as a stream: its name in the query, its columns, whether it has an end.

    ``zone`` is the session's, in which Spark shows its timestamps.
    """

    name: str
    fields: spark_types.StructType
    bounded: bool
    zone: str
    opaque: frozenset[str] = field(init=False)
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        arrow = [pa.field(f.name, _arrow_type(f.dataType, self.zone)) for f in self.fields]
        kinds = [normal_type(f.type) for f in arrow]
        # A type that Penstock lacks passes for bytes while names and zones are checked.
        known = [
            pa.field(f.name, kind or pa.binary()) for f, kind in zip(arrow, kinds, strict=True)
        ]
        Stream.of(self.name, pa.schema(known))
        schema = pa.schema(
            [pa.field(f.name, kind or f.type) for f, kind in zip(arrow, kinds, strict=True)]
        )
        opaque = frozenset(f.name for f, kind in zip(arrow, kinds, strict=True) if kind is None)
        time, slack = _watermark(self.fields)
        stream = Stream(self.name, schema, time, self.bounded, slack=slack)
        object.__setattr__(self, "opaque", opaque)
        object.__setattr__(self, "stream", stream)

    def type_of(self, column: str) -> spark_types.DataType:
        """Spark's type of a column."""
        return self.fields[column].dataType


def _arrow_type(kind: spark_types.DataType, zone: str) -> pa.DataType:
    """The Arrow type of a column; null for one that Arrow has no type for."""
    try:
        return to_arrow_type(kind, timezone=zone)
    except PySparkException:
        return pa.null()


def _watermark(fields: spark_types.StructType) -> tuple[str | None, Fraction | None]:
    """The column that ``withWatermark`` named and its delay in seconds."""
    moments = spark_types.TimestampType | spark_types.TimestampNTZType
    for found in fields:
        if WATERMARK in (found.metadata or {}) and isinstance(found.dataType, moments):
            return found.name, Fraction(int(found.metadata[WATERMARK]), 1000)
    return None, None


def check_opaque(plan: Plan, sources: Mapping[str, Source]) -> None:
    """Refuse a query that does anything with a column of an unknown type but hand it on."""
    from penstock.sql.expressions import walk

    for select in plan.selects:
        scans = scans_of(select)
        used = [e for e in expressions_of(select) if not isinstance(e, Column)]
        for column in (c for e in used for c in walk(e) if isinstance(c, Column)):
            source = sources[scans[column.side].stream.name.lower()]
            if column.name in source.opaque:
                kind = source.type_of(column.name).simpleString()
                raise InputError(
                    f"column {column.name!r} of stream {source.name} has the type {kind}, which "
                    "Penstock does not compute with",
                    "Select it as it is, or take what you need out of it in Spark first: "
                    "df.withColumn(...).",
                )
        for output in select.columns:
            expression = output.expression
            if isinstance(expression, Column) and pa.types.is_null(expression.type):
                source = sources[scans[expression.side].stream.name.lower()]
                kind = source.type_of(expression.name).simpleString()
                raise InputError(
                    f"column {expression.name!r} of stream {source.name} has the type {kind}, "
                    "which cannot leave the JVM",
                    "Leave it out, or cast it in Spark first: df.withColumn(...).",
                )


def scans_of(select: Select) -> list[Any]:
    """The inputs of a select, by side."""
    source = select.source
    return [source.left, source.right] if isinstance(source, Join) else [source]


def expressions_of(select: Select) -> list[Any]:
    """Everything that a select computes."""
    conditions = [select.where, *([select.source.on] if isinstance(select.source, Join) else [])]
    return [*conditions, *(output.expression for output in select.columns)]


def distinct_names(plan: Plan) -> tuple[str, ...]:
    """The names of the result's columns; those that repeat get their stream's name in front.

    ``SELECT r.id, s.id`` gives ``r_id`` and ``s_id``, since no sink of Spark takes ``id`` twice.
    """
    select = plan.selects[0]
    scans = scans_of(select)
    counts = Counter(output.name.lower() for output in select.columns)
    names = [
        _name(output, scans) if counts[output.name.lower()] > 1 else output.name
        for output in select.columns
    ]
    again = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
    if again:
        raise InputError(
            f"two columns of the result are named {again[0]!r}",
            "Give one of them another name in the select list: SELECT ... AS name.",
        )
    return tuple(names)


def _name(output: Output, scans: Sequence[Any]) -> str:
    expression = output.expression
    if isinstance(expression, Column):
        return f"{scans[expression.side].alias}_{output.name}"
    return output.name


def spark_schema(
    plan: Plan, names: Sequence[str], sources: Mapping[str, Source]
) -> spark_types.StructType:
    """The result's columns in Spark's types; a column that is handed on keeps its own."""
    select = plan.selects[0]
    scans = scans_of(select)
    fields = []
    for name, output in zip(names, select.columns, strict=True):
        expression = output.expression
        kind: spark_types.DataType
        if isinstance(expression, Column):
            kind = sources[scans[expression.side].stream.name.lower()].type_of(expression.name)
        else:
            kind = _UNSIGNED.get(output.type) or from_arrow_type(output.type)
        fields.append(spark_types.StructField(name, kind, True))
    return spark_types.StructType(fields)
