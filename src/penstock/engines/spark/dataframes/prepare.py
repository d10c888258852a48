"""A query over DataFrames, checked and planned; nothing of Spark's has been started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from penstock.engines.spark.dataframes.check import Wish, check
from penstock.engines.spark.dataframes.columns import Source, spark_schema
from penstock.engines.spark.dataframes.copied import check_workers, parallelism
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import TAGS
from penstock.engines.spark.dataframes.partition import check_update, distribution
from penstock.errors import InputError
from penstock.program.compile import compile_plan
from penstock.program.explain import explain
from penstock.sql.plan import Plan


@dataclass(frozen=True)
class Ready:
    """A query that can be started.

    ``sources`` are by the name in lower case; ``columns`` are those of the result; ``explained`` is
    what EXPLAIN says.
    """

    session: SparkSession
    zone: str
    sources: Mapping[str, Source]
    job: Job
    plan: Plan
    columns: spark_types.StructType
    cores: int
    explained: str


def prepare(
    query: str, given: Mapping[str, DataFrame], wish: Wish, asked_cores: int | None
) -> Ready:
    """Check the query and everything it is given; every error comes from here."""
    if not given:
        raise InputError(
            "pss.sql has no DataFrame to read", "Pass one for each stream: pss.sql(..., r=df)."
        )
    for key, frame in given.items():
        if not hasattr(frame, "isStreaming"):
            raise InputError(
                f"{key} is {type(frame).__name__}, no DataFrame of Spark",
                "Pass a DataFrame, streaming or static; pss.sql has no other options than "
                "order_by, merge, idle_timeout, cores, letters, output and name.",
            )
    session = next(iter(given.values())).sparkSession
    cores = _cores(parallelism(session) if asked_cores is None else asked_cores)
    zone = session.conf.get("spark.sql.session.timeZone") or "UTC"
    sources = [Source(key, df.schema, not df.isStreaming, zone) for key, df in given.items()]
    job, plan = check(query, sources, wish)
    check_workers(session)
    program = compile_plan(plan)
    shared = distribution(program, job.lanes, job.by_key, cores, wish.letters)
    if job.update:
        check_update(job.bounded, bool(program.aggregates), shared)
    by_name = {source.name.lower(): source for source in sources}
    columns = spark_schema(plan, job.names, by_name)
    return Ready(
        session=session,
        zone=zone,
        sources=by_name,
        job=replace(job, keys=shared.keys, partial=shared.partial),
        plan=plan,
        columns=_tagged(columns) if wish.letters else columns,
        cores=shared.cores,
        explained=f"{explain(plan, program)}\n{shared}",
    )


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
