"""``pss.sql``: DataFrames in, a DataFrame out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.blocks.partial_batch import PartialBatch
from penstock.engines.spark.cutting import cut
from penstock.engines.spark.dataframes.check import Wish
from penstock.engines.spark.dataframes.copied import Copied
from penstock.engines.spark.dataframes.direct import Direct, code_of, direct_of, selected
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.native import computed, native, sifted
from penstock.engines.spark.dataframes.packing import (
    MADE,
    PACKED,
    Compute,
    Pack,
    PackByKey,
    PackPartials,
    Process,
    Unpack,
    UnpackInOrder,
)
from penstock.engines.spark.dataframes.prepare import Ready, prepare
from penstock.engines.spark.dataframes.processor import JobCore
from penstock.engines.spark.dataframes.worker import PARTS
from penstock.engines.spark.frames import ipc
from penstock.engines.spark.host import HostOptions
from penstock.engines.spark.partial_frames import pack_partial
from penstock.engines.spark.resident import core_ids
from penstock.engines.spark.workers import InWorker
from penstock.sql.expressions import conjuncts
from penstock.streams.batches import no_rows

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
    output: str = "append",
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
    output
        ``"append"``: a row of an aggregate comes once, when its window closes. ``"update"``: every
        trigger brings the rows that it has changed, as they stand.
    name
        Under which the counts are found in the ``observedMetrics`` of the query's progress.
    """
    given = {**(streams or {}), **frames}
    ready = prepare(query, given, Wish(order_by, merge, idle_timeout, letters, output), cores)
    job, columns = ready.job, ready.columns
    copied = Copied(ready.session, ready.cores, job.has_width)
    inputs = []
    for lane in job.lanes:
        moved = copied.move(given[ready.sources[lane.stream.name.lower()].name])
        inputs.append(moved.select(*(F.col(_quoted(n)) for n in lane.stream.schema.names)))
    if job.stateless:
        whole = computed(inputs[0], ready.plan, columns)
        return _computed(ready, inputs) if whole is None else whole
    direct = None
    if job.partial is not None and not job.bounded:
        direct = direct_of(columns, ready.zone)
    made = _processed(job, inputs, copied, ready.cores, direct)
    code: Callable[[str], Any] = F.lit if direct is None else code_of
    counts = [_count(F.sum, code(kind)).alias(metric) for metric, kind in COUNTS.items()]
    slowest = [_count(F.max, code(part)).alias(part) for part in PARTS]
    made = made.observe(name, *counts, *slowest)
    if direct is not None:
        return made.where(F.col("kind") == code("rows")).select(*selected(columns))
    unpack = Unpack(job, to_arrow_schema(columns, timezone=ready.zone))
    if job.ordered:
        return made.repartition(1).mapInArrow(InWorker(UnpackInOrder(unpack)), columns)
    return made.mapInArrow(InWorker(unpack), columns)


def explain(
    query: str,
    streams: Mapping[str, DataFrame] | None = None,
    /,
    *,
    order_by: str | Mapping[str, str] | None = None,
    merge: str = "order",
    cores: int | None = None,
    **frames: DataFrame,
) -> str:
    """The plan, program and kernel of a query over DataFrames, and how the cores share it."""
    given = {**(streams or {}), **frames}
    return prepare(query, given, Wish(order_by, merge), cores).explained


def _processed(
    job: Job, inputs: list[DataFrame], copied: Copied, cores: int, direct: Direct | None
) -> DataFrame:
    """Frames that the cores have made of the inputs; ``direct``, rows."""
    core_of = core_ids(copied.spark, cores)
    packs = [
        frame.mapInArrow(InWorker(pack_of(job, number, tuple(core_of))), PACKED)
        for number, frame in enumerate(inputs)
    ]
    options = HostOptions(
        checkpoint=uuid.uuid4().hex,
        cores=cores,
        windows_required=not job.bounded,
        order_column=job.order_column,
        divided=job.keys is not None or job.partial is not None,
    )
    if job.always:
        rows = [(0, next(iter(core_of)), False, one) for one in pack_nothing(job)]
        packs.append(copied.spark.createDataFrame(rows, PACKED))
    packed = reduce(_union, packs)
    if job.keys is None and job.partial is None:
        every = F.explode(F.array(*(F.lit(group) for group in core_of)))
        packed = packed.withColumn("core", every)
    if job.bounded:
        run = Process(job, options, core_of)
        return packed.repartition(cores, "core").mapInArrow(InWorker(run), MADE)
    if job.idle is not None:
        # The time that the trigger has in Spark's own log, so that a replay sees the same. Where
        # nobody asks for it there is none: Spark compiles a plan with another time in it anew.
        packed = packed.withColumn("at", F.unix_millis(F.current_timestamp()))
    core = JobCore(job, options, core_of, direct)
    schema = MADE if direct is None else direct.spark_schema
    return packed.groupBy("core").transformWithStateInPandas(core, schema, "Append", "None")


def pack_of(job: Job, number: int, groups: tuple[int, ...]) -> Pack:
    """What makes frames of the tuples of a lane, for the cores of these groups."""
    lane = job.lanes[number]
    if job.partial is not None:
        return PackPartials(number, lane.stream.schema, lane.stream.name, job.partial, groups)
    if job.keys is None:
        return Pack(number, lane.stream.schema)
    return PackByKey(number, lane.stream.schema, lane.column, job.keys[number], groups)


def pack_nothing(job: Job) -> list[bytes]:
    """The payloads of a frame without tuples."""
    nothing = PartialBatch()
    schema = job.lanes[0].stream.schema
    return list(cut(ipc(no_rows(schema)) if job.partial is None else pack_partial(nothing)))


def _computed(ready: Ready, inputs: list[DataFrame]) -> DataFrame:
    """Selection and projection by the blocks: every task on its own."""
    schema = to_arrow_schema(ready.columns, timezone=ready.zone)
    selects = ready.plan.selects
    if len(selects) == 1:
        inputs = [sifted(inputs[0], [native(term) for term in conjuncts(selects[0].where)])]
    parts = [
        frame.mapInArrow(InWorker(Compute(ready.job, number, schema)), ready.columns)
        for number, frame in enumerate(inputs)
    ]
    return reduce(_union, parts)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionAll(other)


def _count(total: Callable[[Any], Any], kind: Any) -> Any:
    return F.coalesce(total(F.when(F.col("kind") == kind, F.col("count"))), F.lit(0))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
