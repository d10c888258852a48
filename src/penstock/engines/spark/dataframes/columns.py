"""Columns of DataFrames as columns of streams, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from sqlglot import exp

from penstock.errors import InputError
from penstock.sql.expressions import Column, Expression
from penstock.sql.parse.statements import QueryText
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.streams.schema import Stream, normal_type
from penstock.streams.windows import AggregateWindow, TimeAttribute, Window

WATERMARK = "spark.watermarkDelayMs"
"""Where the schema of a DataFrame has the delay of ``withWatermark``."""

_UNSIGNED: dict[Any, spark_types.DataType] = {
    pa.uint8(): spark_types.ShortType(),
    pa.uint16(): spark_types.IntegerType(),
    pa.uint32(): spark_types.LongType(),
    pa.uint64(): spark_types.DecimalType(20, 0),
}


@dataclass(frozen=True)
class DataFrameStream:
    """A DataFrame as a stream: its name in the query, its columns, whether it has an end.

    ``zone`` is the session's, in which Spark shows its timestamps. ``watermark`` is a column and
    its delay in seconds, where the schema does not say so.
    """

    name: str
    fields: spark_types.StructType
    bounded: bool
    zone: str
    watermark: tuple[str, Fraction] | None = None
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
        time, slack = self.watermark or _watermark(self.fields)
        stream = Stream(self.name, schema, time, self.bounded, slack=slack)
        object.__setattr__(self, "opaque", opaque)
        object.__setattr__(self, "stream", stream)

    def named(self, column: str) -> str:
        """A column's name as the DataFrame has it; names are compared without regard to case."""
        index = self.stream.index_of(column)
        return column if index is None else self.fields.names[index]

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


def check_opaque(query: QueryText, sources: Mapping[str, DataFrameStream]) -> None:
    """Refuse a query that computes with a column of an unknown type; it can only pass it on.

    This checks names, before types are checked, so that the error is about the column.
    """
    for select in query.ast.selects:
        references = select.references
        named = [r for r in references if r.stream.text.lower() in sources]  # others are derived
        inputs = {r.alias.text.lower(): sources[r.stream.text.lower()] for r in named}
        plain = [item.value for item in select.items if isinstance(item.value, exp.Column)]
        for found in plain:
            for source in _owners(found, inputs):
                _check_carried(source, source.named(found.name))
        for star in (item.value for item in select.items if item.value.is_star):
            table = star.table.lower() if isinstance(star, exp.Column) else ""
            for source in _named(table, inputs):
                for name in source.fields.names:
                    _check_carried(source, name)
        conditions = (select.where, select.having, *(join.on for join in select.joins))
        computed = (item.value for item in select.items if item.value not in plain)
        for expression in (*computed, *conditions, *select.group):
            for found in expression.find_all(exp.Column) if expression is not None else ():
                for source in _owners(found, inputs):
                    name = source.named(found.name)
                    if name in source.opaque:
                        kind = source.type_of(name).simpleString()
                        raise InputError(
                            f"column {name!r} of stream {source.name} has the type {kind}, which "
                            "Penstock does not compute with",
                            "Select it as it is, or take what you need out of it in Spark first: "
                            "df.withColumn(...).",
                        )


def _owners(column: exp.Column, inputs: Mapping[str, DataFrameStream]) -> list[DataFrameStream]:
    """The streams that a column may be of; which one it is, the binder decides."""
    named = _named(column.table.lower(), inputs)
    return [source for source in named if source.stream.index_of(column.name) is not None]


def _named(table: str, inputs: Mapping[str, DataFrameStream]) -> list[DataFrameStream]:
    """The streams that a table's name, or none, stands for; not derived ones."""
    return [source for name, source in inputs.items() if table in ("", name)]


def _check_carried(source: DataFrameStream, column: str) -> None:
    index = source.stream.index_of(column)
    if index is not None and pa.types.is_null(source.stream.schema.field(index).type):
        kind = source.type_of(column).simpleString()
        raise InputError(
            f"column {column!r} of stream {source.name} has the type {kind}, which cannot leave "
            "the JVM",
            "Leave it out, or cast it in Spark first: df.withColumn(...).",
        )


def scans_of(select: Select) -> list[Any]:
    """The inputs of a select, by side."""
    source = select.source.source if isinstance(select.source, Aggregate) else select.source
    return [*source.inputs] if isinstance(source, Join) else [source]


def expressions_of(select: Select) -> list[Any]:
    """All expressions of a select over its inputs' columns."""
    source = select.source
    found: list[Any] = [] if not isinstance(source, Aggregate) else aggregated(source)
    if not isinstance(source, Aggregate):
        found += [select.where, *(output.expression for output in select.columns)]
    else:
        source = source.source
    return [*found, *(source.conditions if isinstance(source, Join) else ())]


def aggregated(aggregate: Aggregate) -> list[Any]:
    """All expressions of an aggregate over its input's columns."""
    calls = aggregate.calls
    arguments = [call.argument for call in calls if call.argument is not None]
    keys = [key.expression for key in aggregate.keys]
    return [aggregate.where, *keys, *arguments, *(call.condition for call in calls)]


def time_of(select: Select, side: int) -> TimeAttribute | None:
    """The time attribute of an input, if the query needs one."""
    if isinstance(select.source, Aggregate) and isinstance(select.source.source, Scan):
        return select.source.time
    time: TimeAttribute | None = scans_of(select)[side].time
    return time


def window_of(select: Select, side: int) -> Window | AggregateWindow | None:
    """The window of an input."""
    if isinstance(select.source, Aggregate) and isinstance(select.source.source, Scan):
        return select.source.window
    window: Window | None = scans_of(select)[side].window
    return window


def spark_schema(
    plan: Plan, names: Sequence[str], streams: Mapping[str, spark_types.StructType]
) -> spark_types.StructType:
    """The result's columns in Spark's types; a column that is passed on keeps its own.

    ``streams`` has the columns of what is read, by the name in lower case.
    """
    select = plan.selects[0]
    scans = scans_of(select)
    fields = []
    for name, output in zip(names, select.columns, strict=True):
        expression = _of_input(output.expression, select)
        kind: spark_types.DataType
        if isinstance(expression, Column):
            kind = streams[scans[expression.side].stream.name.lower()][expression.name].dataType
        else:
            kind = _UNSIGNED.get(output.type) or from_arrow_type(output.type)
        fields.append(spark_types.StructField(name, kind, True))
    return spark_types.StructType(fields)


def _of_input(expression: Expression, select: Select) -> Expression | None:
    """The expression over the inputs' columns; None for one over aggregates."""
    aggregate = select.source
    if not isinstance(aggregate, Aggregate):
        return expression
    if isinstance(expression, Column) and expression.index < len(aggregate.keys):
        return aggregate.keys[expression.index].expression
    return None
