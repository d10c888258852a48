"""``pss.sql``: DataFrames in, a DataFrame out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engines.spark.dataframes.check import Wish, check
from penstock.engines.spark.dataframes.columns import Source, spark_schema
from penstock.engines.spark.dataframes.copied import Copied, parallelism
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import (
    MADE,
    PACKED,
    TAGS,
    Compute,
    Pack,
    PackByKey,
    Process,
    Unpack,
    UnpackInOrder,
)
from penstock.engines.spark.dataframes.partition import distribution
from penstock.engines.spark.dataframes.processor import JobCore
from penstock.engines.spark.dataframes.worker import PARTS
from penstock.engines.spark.host import HostOptions
from penstock.engines.spark.resident import core_ids
from penstock.errors import InputError
from penstock.program.compile import compile_plan

COUNTS = {
    "tuples_in": "taken",
    "rows_out": "rows",
    "late": "late",
    "dead": "dead",
    "held": "held",
    "loads": "loads",
}
"""The names of the metrics, each with the kind of frame whose counts it adds up."""


def sql(
    query: str,
    streams: Mapping[str, DataFrame] | None = None,
    /,
    *,
    order_by: str | Mapping[str, str] | None = None,
    merge: str = "order",
    idle_timeout: float | timedelta | None = None,
    cores: int | None = None,
    letters: bool = False,
    name: str = "penstock",
    **frames: DataFrame,
) -> DataFrame:
    """The rows of a continuous query over DataFrames, as a DataFrame.

    Parameters
    ----------
    query
        A SELECT, in Penstock's language. ``FROM r`` reads the DataFrame passed as ``r=``.
    streams
        DataFrames by name, for names that cannot be keywords.
    order_by
        The column that has the arrival order: one name, or one for each stream. A join with a
        count window and ordered output need it.
    merge
        ``"order"``: a tuple that needs its place in the order waits until all streams have passed
        it. ``"arrival"``: nothing waits; tuples are taken batch by batch.
    idle_timeout
        After how many seconds without a tuple a stream holds the others up no longer.
    cores
        Among how many cores the windows are divided; by default, the parallelism of the context.
        A checkpoint belongs to this number.
    letters
        Whether late tuples and dead letters come out too, as rows with tags; see
        :func:`penstock.spark.split`.
    name
        Under which the counts are found in the ``observedMetrics`` of the query's progress.
    """
    given = {**(streams or {}), **frames}
    if not given:
        raise InputError(
            "pss.sql has no DataFrame to read", "Pass one for each stream: pss.sql(..., r=df)."
        )
    for key, frame in given.items():
        if not hasattr(frame, "isStreaming"):
            raise InputError(
                f"{key} is {type(frame).__name__}, no DataFrame of Spark",
                "Pass a DataFrame, streaming or static.",
            )
    session = next(iter(given.values())).sparkSession
    cores = _cores(parallelism(session) if cores is None else cores)
    zone = session.conf.get("spark.sql.session.timeZone") or "UTC"
    sources = [Source(key, df.schema, not df.isStreaming, zone) for key, df in given.items()]
    wish = Wish(order_by, merge, _milliseconds(idle_timeout), letters)
    job, plan = check(query, sources, wish)
    by_name = {source.name.lower(): source for source in sources}
    columns = spark_schema(plan, job.names, by_name)
    if letters:
        columns = _tagged(columns)
    shared = distribution(compile_plan(plan), job.lanes, job.by_key, cores)
    job, cores = replace(job, keys=shared.keys), shared.cores
    copied = Copied(session, cores)
    inputs = []
    for lane in job.lanes:
        moved = copied.move(given[by_name[lane.stream.name.lower()].name])
        inputs.append(moved.select(*(F.col(_quoted(n)) for n in lane.stream.schema.names)))
    if job.stateless:
        return _computed(job, inputs, columns, zone)
    made = _processed(job, inputs, copied, cores)
    counts = [_count(F.sum, kind).alias(metric) for metric, kind in COUNTS.items()]
    slowest = [_count(F.max, part).alias(part) for part in PARTS]
    made = made.observe(name, *counts, *slowest)
    unpack = Unpack(job, to_arrow_schema(columns, timezone=zone))
    if job.ordered:
        return made.repartition(1).mapInArrow(UnpackInOrder(unpack), columns)
    return made.mapInArrow(unpack, columns)


def _processed(job: Job, inputs: list[DataFrame], copied: Copied, cores: int) -> DataFrame:
    """Frames that the cores have made of the inputs."""
    core_of = core_ids(copied.spark, cores)
    packs = [
        frame.mapInArrow(_pack(job, number, tuple(core_of)), PACKED)
        for number, frame in enumerate(inputs)
    ]
    options = HostOptions(
        checkpoint=uuid.uuid4().hex,
        cores=cores,
        windows_required=not job.bounded,
        order_column=job.order_column,
        divided=job.keys is not None,
    )
    packed = reduce(_union, packs)
    if job.keys is None:
        every = F.explode(F.array(*(F.lit(group) for group in core_of)))
        packed = packed.withColumn("core", every)
    if job.bounded:
        run = Process(job, options, core_of)
        return packed.repartition(cores, "core").mapInArrow(run, MADE)
    # The time that the trigger has in Spark's own log: a replay sees the same.
    timed = packed.withColumn("at", F.unix_millis(F.current_timestamp()))
    core = JobCore(job, options, core_of)
    return timed.groupBy("core").transformWithStateInPandas(core, MADE, "Append", "None")


def _pack(job: Job, number: int, groups: tuple[int, ...]) -> Pack:
    lane = job.lanes[number]
    if job.keys is None:
        return Pack(number, lane.stream.schema)
    return PackByKey(number, lane.stream.schema, lane.column, job.keys[number], groups)


def _computed(
    job: Job, inputs: list[DataFrame], columns: spark_types.StructType, zone: str
) -> DataFrame:
    """Selection and projection: every task on its own."""
    schema = to_arrow_schema(columns, timezone=zone)
    parts = [
        frame.mapInArrow(Compute(job, number, schema), columns)
        for number, frame in enumerate(inputs)
    ]
    return reduce(_union, parts)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionAll(other)


def _count(total: Callable[[Any], Any], kind: str) -> Any:
    return F.coalesce(total(F.when(F.col("kind") == kind, F.col("count"))), F.lit(0))


def _tagged(columns: spark_types.StructType) -> spark_types.StructType:
    taken = [name for name in columns.names if name.lower() in TAGS]
    if taken:
        raise InputError(
            f"with letters=True the result has a column {taken[0]} of its own",
            f"Give yours another name in the select list: SELECT {taken[0]} AS name.",
        )
    fields = [spark_types.StructField(tag, spark_types.StringType(), True) for tag in TAGS]
    return spark_types.StructType([*columns.fields, *fields])


def _cores(cores: int) -> int:
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
        raise InputError(f"cores={cores!r} is no number of cores", "Pass 1 or more.")
    return cores


def _milliseconds(timeout: float | timedelta | None) -> int | None:
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(
            f"idle_timeout={timeout!r} is no time", "Pass a number of seconds above 0."
        )
    return max(1, round(seconds * 1000))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
