"""``pss.sql``: DataFrames in, a DataFrame out."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.engines.spark.core.frames import cut, ipc, pack_partial
from penstock.engines.spark.core.operator import CoreOperator
from penstock.engines.spark.core.trigger import PARTS, CoreOptions
from penstock.engines.spark.core.workers import InWorker
from penstock.engines.spark.dataframes.arguments import (
    Request,
    check_text,
    frames_given,
)
from penstock.engines.spark.dataframes.chain import metrics_name, remember
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.native import computed, native, sifted
from penstock.engines.spark.dataframes.notices import SHOWN, Place, metric_of, warn_of_letters
from penstock.engines.spark.dataframes.packing import (
    OUTPUT_SCHEMA,
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
from penstock.engines.spark.dataframes.script import parse_script
from penstock.engines.spark.dataframes.session_copy import SessionCopy
from penstock.engines.spark.dataframes.task import (
    Direct,
    JobTask,
    code_of,
    direct_of,
    selected,
)
from penstock.engines.spark.dataframes.worker import LETTERS
from penstock.engines.spark.resident.streaming_query import core_ids
from penstock.errors import warn
from penstock.program.choose.probe_order import cross_products
from penstock.program.isa.flow import DesignName, ProbeOrderName
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
    merge: Literal["order", "arrival"] = "order",
    idle_timeout: float | timedelta | None = None,
    cores: int | None = None,
    letters: bool = False,
    output: Literal["append", "update"] = "append",
    name: str | None = None,
    design: DesignName | None = None,
    probe_order: ProbeOrderName | None = None,
    stash: int | None = None,
    **frames: DataFrame,
) -> DataFrame:
    """The rows of a continuous query over DataFrames, as a DataFrame.

    Parameters
    ----------
    query
        A SELECT, in Penstock's language; before it, ``CREATE STREAM name AS SELECT ...;`` for each
        derived stream that it reads. ``FROM r`` reads the DataFrame passed as ``r=``.
    streams
        DataFrames by name, for names that cannot be keywords.
    order_by
        The column that has the arrival order: one name, or one for each stream. A join with a
        count window and ordered output need it.
    merge
        ``"order"`` (the default): a tuple that needs its place in the order waits until all
        streams have passed it. ``"arrival"``: nothing waits; tuples are taken batch by batch.
    idle_timeout
        After how many seconds without a tuple a stream holds the others up no longer; None: never.
    cores
        Among how many cores the windows are divided; by default, the parallelism of the context.
        A checkpoint belongs to this number.
    letters
        Whether late tuples and dead letters come out too (False), as rows with tags; see
        :func:`penstock.spark.split`.
    output
        ``"append"`` (the default): a row of an aggregate comes once, when its window closes.
        ``"update"``: every trigger brings the rows that it has changed, as they stand.
    name
        Under which the counts are found in the ``observedMetrics`` of the query's progress; by
        default ``penstock``, or ``penstock_2`` where a DataFrame that is read has that already.
    design, probe_order, stash
        How a core joins three and more streams: as in ``engine.install``.
    """
    caller = sys._getframe(1)
    place = Place(caller.f_code.co_filename, caller.f_lineno)
    request = Request(
        order_by, merge, idle_timeout, cores, letters, output, name, design, probe_order, stash
    )
    ready = _ready("pss.sql", query, streams, frames, request)
    for program in (*(one for _, one in ready.job.derived), ready.job.program):
        for warning in cross_products(program):
            warn(warning)
    named = metrics_name(name, ready.chained.given)
    return remember(_result(ready, named, place), ready.chained, ready.job, ready.plan)


def _result(ready: Ready, name: str, place: Place) -> DataFrame:
    """The rows of a prepared query; ``name`` is that of its metrics."""
    job, columns = ready.job, ready.columns
    given = {name.lower(): frame for name, frame in ready.chained.given.items()}
    copied = SessionCopy(ready.session, ready.cores, job.has_width)
    inputs = []
    for lane in job.lanes:
        moved = copied.move(given[lane.stream.name.lower()])
        inputs.append(moved.select(*(F.col(_quoted(n)) for n in lane.stream.schema.names)))
    if job.stateless:
        whole = computed(inputs[0], ready.plan, columns)
        return _computed(ready, inputs) if whole is None else whole
    direct = None
    if job.partial is not None and not job.bounded:
        direct = direct_of(columns, ready.zone)
    made = _processed(job, inputs, copied, ready.cores, direct)
    code: Callable[[str], Any] = F.lit if direct is None else code_of
    counts = [_count(F.sum, F.col("kind") == code(kind)).alias(m) for m, kind in COUNTS.items()]
    slowest = [_count(F.max, F.col("kind") == code(part)).alias(part) for part in PARTS]
    for stream in job.streams:
        for kind in LETTERS:
            found = F.col("kind") == code(kind)
            # Rows that come straight from the cores are of one stream, and do not name it.
            mine = found if direct is not None else found & (F.col("stream") == F.lit(stream))
            counts.append(_count(F.sum, mine).alias(metric_of(kind, stream)))
    made = made.observe(name, *counts, *slowest, F.lit(job.letters).alias(SHOWN))
    if not job.letters:
        warn_of_letters(copied.spark, place, job.bounded)
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
    merge: Literal["order", "arrival"] = "order",
    idle_timeout: float | timedelta | None = None,
    cores: int | None = None,
    letters: bool = False,
    output: Literal["append", "update"] = "append",
    name: str | None = None,
    design: DesignName | None = None,
    probe_order: ProbeOrderName | None = None,
    stash: int | None = None,
    **frames: DataFrame,
) -> str:
    """The plan, program and kernel of a query over DataFrames, and how the cores share it.

    It takes what :func:`sql` takes, and starts nothing.
    """
    request = Request(
        order_by, merge, idle_timeout, cores, letters, output, name, design, probe_order, stash
    )
    return _ready("pss.explain", query, streams, frames, request).explained


def _ready(
    caller: str,
    query: str,
    streams: Mapping[str, DataFrame] | None,
    frames: Mapping[str, DataFrame],
    request: Request,
) -> Ready:
    """The query over the DataFrames, checked."""
    check_text(caller, query)
    request.check(caller)
    script = parse_script(query)
    given = frames_given(caller, map(str.lower, script.reads), streams, frames)
    return prepare(script, given, request)


def _processed(
    job: Job, inputs: list[DataFrame], copied: SessionCopy, cores: int, direct: Direct | None
) -> DataFrame:
    """Frames that the cores have made of the inputs; ``direct``, rows."""
    core_of = core_ids(copied.spark, cores)
    packs = [
        frame.mapInArrow(InWorker(pack_of(job, number, tuple(core_of))), PACKED)
        for number, frame in enumerate(inputs)
    ]
    options = CoreOptions(
        checkpoint=uuid.uuid4().hex,
        cores=cores,
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
        return packed.repartition(cores, "core").mapInArrow(InWorker(run), OUTPUT_SCHEMA)
    if job.idle is not None:
        # The time of the trigger in Spark's own log, so that a replay sees the same. Only if it is
        # needed: Spark compiles a plan again if it has another time.
        packed = packed.withColumn("at", F.unix_millis(F.current_timestamp()))
    core = CoreOperator(JobTask(job, options, direct), core_of)
    schema = OUTPUT_SCHEMA if direct is None else direct.spark_schema
    return packed.groupBy("core").transformWithStateInPandas(core, schema, "Append", "None")


def pack_of(job: Job, number: int, groups: tuple[int, ...]) -> Pack:
    """The function that packs the tuples of a lane into frames for the cores of these groups."""
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


def _count(total: Callable[[Any], Any], which: Any) -> Any:
    return F.coalesce(total(F.when(which, F.col("count"))), F.lit(0))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
