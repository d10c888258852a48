"""The preparation of a query over DataFrames: all checks, before Spark starts anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from penstock.engines.shared.registry import derived_stream
from penstock.engines.spark.dataframes.arguments import Request, milliseconds
from penstock.engines.spark.dataframes.chain import UnfoldedScript, unfold, watermark_of
from penstock.engines.spark.dataframes.columns import (
    DataFrameStream,
    check_opaque,
    expressions_of,
    scans_of,
    spark_schema,
    time_of,
    window_of,
)
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.packing import TAGS
from penstock.engines.spark.dataframes.partition import check_update, distribution, on_one_core
from penstock.engines.spark.dataframes.script import Script, names_read
from penstock.engines.spark.dataframes.sequencer import Lane
from penstock.engines.spark.dataframes.session_copy import check_workers, parallelism
from penstock.engines.spark.flow import decide_on_spark, design_on_spark
from penstock.errors import InputError
from penstock.program.choose.explain import explain
from penstock.program.choose.flow import check_joins
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.join_window import units_per_second
from penstock.sql.bind.query import bind
from penstock.sql.expressions import Column, walk
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.streams.order import OrderColumn, order_columns
from penstock.streams.schema import Stream
from penstock.streams.windows import Range, Sliding, SlidingRows, TimeAttribute, Unbounded

ORDER_TYPES = "Order by an integer, a float, a date or a timestamp."


@dataclass(frozen=True)
class Plans:
    """The plans of a script: those of its derived streams by name, and that of its query."""

    derived: Mapping[str, Plan]
    query: Plan

    def __iter__(self) -> Iterator[Plan]:
        yield from self.derived.values()
        yield self.query


def check(
    script: Script, sources: Sequence[DataFrameStream], request: Request
) -> tuple[Job, Plans]:
    """The job, and the plans over the needed columns of the streams; or an error."""
    named = _match(script, sources)
    _check_bounded(named)
    idle = milliseconds(request.idle_timeout)
    order = _order_names(named, request.order_by)
    everywhere = set(order.values())
    order_column = everywhere.pop() if len(everywhere) == 1 else None
    for query in script.queries:
        check_opaque(query, {source.name.lower(): source for source in named})
    bounded = named[0].bounded
    plans = bind_script(script, [source.stream for source in named], bounded, order_column)
    for scan in (scan for plan in plans for scan in plan.scans):
        if scan.through is not None:
            raise InputError(
                f"{scan.through.block}() over a DataFrame, whose rows have no arrival order",
                "Install the query on an engine, ps.connect('spark'), and push the rows.",
            )
    by_key = _waits(plans, request)
    kept = [_needed_columns(source, plans, order, request.letters, by_key) for source in named]
    plans = bind_script(script, kept, bounded, order_column)
    columns = _order_columns(plans, kept, order)
    lanes = tuple(
        Lane(stream, columns.get(stream.name), _delay(plans, source, columns.get(stream.name)))
        for source, stream in zip(named, kept, strict=True)
    )
    if not bounded:
        _check_slack(plans, lanes, by_key)
    plan = plans.query
    plain = not any(isinstance(select.source, Join | Aggregate) for select in plan.selects)
    stateless = plain and not script.derived and plan.order == "none" and not _is_sorted(plan)
    job = Job(
        program=_placed(compile_plan(plan), request),
        lanes=lanes,
        by_key=by_key,
        idle=idle,
        letters=request.letters,
        ordered=plan.order != "none",
        stateless=stateless,
        bounded=bounded,
        schema=plan.schema,
        names=tuple(plan.schema.names),
        always=any(_answers_nothing(select) for one in plans for select in one.selects),
        update=request.output == "update",
        derived=tuple((name, compile_plan(one)) for name, one in plans.derived.items()),
    )
    return job, plans


def _placed(program: Program, request: Request) -> Program:
    """The program with the design that is asked for, checked."""
    check_joins(request.flow, program)
    return program.placed(request.flow)


def bind_script(
    script: Script, streams: Sequence[Stream], bounded: bool, order_column: str | None
) -> Plans:
    """The plans of a script over these streams; every statement knows the streams before it."""
    catalog = Catalog(streams, windows_required=not bounded)
    derived: dict[str, Plan] = {}
    for statement in script.derived:
        plan = bind(statement.query, catalog, order_column=order_column)
        catalog.add(derived_stream(statement.name, plan))
        derived[statement.name] = plan
    return Plans(derived, bind(script.query, catalog, order_column=order_column))


def _answers_nothing(select: Select) -> bool:
    """Whether there is a row even without tuples."""
    source = select.source
    return isinstance(source, Aggregate) and source.window is None and not source.keys


def _is_sorted(plan: Plan) -> bool:
    """Whether the rows depend on ORDER BY or LIMIT."""
    return bool(plan.sort) or plan.limit is not None


def _match(script: Script, sources: Sequence[DataFrameStream]) -> list[DataFrameStream]:
    """The sources in the order in which the script names them; each must be named."""
    given = {source.name.lower(): source for source in sources}
    derived = {statement.name.lower(): statement.name for statement in script.derived}
    for name in script.reads:
        if name.lower() not in given and name.lower() in derived:
            raise InputError(
                f"{name} is read before it is derived",
                f"Write CREATE STREAM {name} AS ... before the statement that reads it.",
            )
        if name.lower() not in given:
            raise InputError(
                f"the query reads {name}, for which there is no DataFrame",
                f"Pass it: pss.sql(..., {name}=df).",
            )
    for source in sources:
        if source.name.lower() in derived:
            raise InputError(
                f"{source.name} is a DataFrame and a derived stream",
                "Give one of them another name; names are compared without regard to case.",
            )
    asked = {name.lower() for query in script.queries for name in names_read(query)}
    unused = [source.name for source in sources if source.name.lower() not in asked]
    if unused:
        raise InputError(
            f"the query does not read {unused[0]}",
            "Leave that DataFrame out, or name it in FROM.",
        )
    for lower, name in derived.items():
        if lower not in asked:
            raise InputError(
                f"nothing reads the derived stream {name}",
                "Leave its statement out, or name it in FROM.",
            )
    return [given[name.lower()] for name in script.reads]


def _check_bounded(sources: Sequence[DataFrameStream]) -> None:
    bounded = [source.name for source in sources if source.bounded]
    if bounded and len(bounded) < len(sources):
        streaming = next(source.name for source in sources if not source.bounded)
        every = "both" if len(sources) == 2 else "all"
        raise InputError(
            f"{bounded[0]} is a static DataFrame and {streaming} a streaming one: a window over a "
            "table that does not move has no meaning",
            f"Read {bounded[0]} with spark.readStream, or read {every} with spark.read, or join "
            "the table with the result in Spark.",
        )


def _order_names(
    sources: Sequence[DataFrameStream], order_by: str | Mapping[str, str] | None
) -> dict[str, str]:
    """The order column of each stream, by the stream's name; empty without any."""
    if order_by is None:
        return {}
    if not isinstance(order_by, str):
        given = {name.lower(): column for name, column in order_by.items()}
        names = {source.name.lower() for source in sources}
        wrong = [name for name in order_by if name.lower() not in names]
        missing = [source.name for source in sources if source.name.lower() not in given]
        if wrong or missing:
            what = (
                f"has {wrong[0]}, which the query does not read"
                if wrong
                else (f"has no column for stream {missing[0]}")
            )
            example = ", ".join(f"{source.name!r}: ..." for source in sources)
            raise InputError(f"order_by {what}", f"Write order_by={{{example}}}.")
    order = {}
    for source in sources:
        own = order_by if isinstance(order_by, str) else given[source.name.lower()]
        index = source.stream.index_of(own)
        if index is None:
            raise InputError(
                f"stream {source.name} has no column {own!r} to order by",
                f"It has {', '.join(source.stream.schema.names)}; give a column for each stream "
                "with order_by={'stream': 'column', ...}.",
            )
        column = source.stream.schema.field(index)
        if not _orders(column.type):
            kind = source.type_of(column.name).simpleString()
            raise InputError(
                f"order column {column.name!r} of stream {source.name} is {kind}, which has no "
                "order in time",
                ORDER_TYPES,
            )
        order[source.name] = column.name
    return order


def _orders(kind: pa.DataType) -> bool:
    types = pa.types
    signed = types.is_integer(kind) and not types.is_uint64(kind)
    return bool(
        signed or types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind)
    )


def _waits(plans: Plans, request: Request) -> bool:
    """Whether tuples wait for their place in the order."""
    needs = "ordered output" if any(plan.order != "none" for plan in plans) else None
    for select in (select for plan in plans for select in plan.selects):
        if isinstance(select.source, Join) and needs is None:
            windows = [scan.window for scan in scans_of(select)]
            alike = {type(window) for window in windows}
            if alike not in ({Range}, {Unbounded}):
                needs = "a join with a window that counts arrivals"
        if isinstance(select.source, Aggregate) and isinstance(select.source.window, SlidingRows):
            needs = "an aggregate over a window that counts arrivals"
    if needs is not None and request.merge == "order":
        if request.order_by is None:
            raise InputError(
                f"{needs} needs an arrival order, and the rows of a DataFrame have none",
                "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
                "trigger by trigger, in the order of their content, with merge='arrival'.",
            )
        return True
    if request.idle_timeout is not None:
        raise InputError(
            "idle_timeout has no effect: no stream of this query waits for another",
            "Leave it out.",
        )
    return False


def _needed_columns(
    source: DataFrameStream, plans: Plans, order: Mapping[str, str], letters: bool, by_key: bool
) -> Stream:
    """The stream with the needed columns; letters need all columns."""
    stream = source.stream
    used = {source.stream.index_of(name) for name in (order.get(source.name), stream.time) if name}
    for plan, select in ((one, select) for one in plans for select in one.selects):
        scans = scans_of(select)
        mine = [side for side, scan in enumerate(scans) if scan.stream.name == stream.name]
        times = [time_of(select, side) for side in mine]
        used |= {time.column for time in times if time is not None}
        read = expressions_of(select)
        if not isinstance(select.source, Aggregate):
            read += [key.expression for key in plan.sort]
        found = (c for e in read for c in walk(e) if isinstance(c, Column))
        used |= {column.index for column in found if column.side in mine}
    carried = [i for i, f in enumerate(stream.schema) if not pa.types.is_null(f.type)]
    indices = carried if letters else [i for i in carried if i in used]
    # A batch without columns would not even know how many rows it has.
    indices = indices or carried[:1]
    # Where tuples are put in order by the very column, the order has waited for the delay already.
    waited = by_key and order.get(source.name) == stream.time
    return replace(
        stream,
        schema=pa.schema([stream.schema.field(i) for i in indices]),
        slack=None if waited else stream.slack,
    )


def _windows(plans: Plans) -> Iterator[tuple[Stream, Any, TimeAttribute | None]]:
    """The inputs of the queries, each with its window and its time attribute."""
    for select in (select for plan in plans for select in plan.selects):
        for side, scan in enumerate(scans_of(select)):
            yield scan.stream, window_of(select, side), time_of(select, side)


def _timed(plans: Plans) -> Iterator[tuple[str, str, Any, TimeAttribute]]:
    """The columns that windows are on: stream, column, window and time attribute.

    A window over a selection of a stream is one over a column of that stream too.
    """
    for stream, window, time in _windows(plans):
        if time is not None:
            for name, column in _origins(plans, stream.name, time.name):
                yield name, column, window, time


def _origins(plans: Plans, stream: str, column: str) -> Iterator[tuple[str, str]]:
    """The columns that selections pass on as this one; itself first."""
    yield stream, column
    plan = plans.derived.get(stream)
    if plan is None:
        return
    place = plan.schema.get_field_index(column)
    for select in plan.selects:
        found = select.columns[place].expression
        if isinstance(select.source, Scan) and isinstance(found, Column):
            yield from _origins(plans, select.source.stream.name, found.name)


def _check_slack(plans: Plans, lanes: Sequence[Lane], by_key: bool) -> None:
    """A time window over an endless stream must know how late a tuple may be.

    Where tuples are put in order none is late. A derived stream punctuates by itself, if what it
    is made of does.
    """
    columns = {lane.stream.name: {lane.watermark} for lane in lanes if not by_key}
    for name, plan in plans.derived.items():
        columns[name] = {*_punctuated(plan, columns)}
    for stream, window, attribute in _windows(plans):
        if not isinstance(window, Range | Sliding) or window.slack is not None:
            continue
        time = attribute.name if attribute is not None else stream.time
        if stream.derived and time not in columns[stream.name]:
            raise InputError(
                f"the time window of stream {stream.name} would never close: nothing says how far "
                f"{time} has come",
                "Write SLACK in the window clause, for instance SLACK 0 if no row is out of order, "
                "or derive the stream from a time window and select the time of that.",
            )
        if not stream.derived and not by_key:
            raise _no_slack(stream, time)


def _punctuated(plan: Plan, known: Mapping[str, set[str | None]]) -> Iterator[str]:
    """The columns of a derived stream that are punctuated."""
    branches = [list(_punctuated_times(select, known)) for select in plan.selects]
    for place, output in enumerate(plan.selects[0].columns):
        if all(times[place] for times in branches):
            yield output.name


def _punctuated_times(select: Select, known: Mapping[str, set[str | None]]) -> Iterator[bool]:
    """For each column, whether it is a punctuated time, passed on unchanged."""
    source = select.source
    for output in select.columns:
        column = output.expression
        if not isinstance(column, Column):
            yield False
        elif isinstance(source, Aggregate):
            borders = len(source.keys) + len(source.calls)
            yield isinstance(source.window, Sliding) and column.index >= borders
        elif isinstance(source, Join):
            scans = source.inputs
            time = scans[column.side].time
            # The punctuations of a join need those of all inputs.
            timed = all(isinstance(scan.window, Range) for scan in scans)
            yield timed and time is not None and time.name == column.name
        else:
            yield column.name in known.get(source.stream.name, ())


def _no_slack(stream: Stream, time: str | None) -> InputError:
    """The error for a time window without a bound on lateness."""
    index = None if time is None else stream.index_of(time)
    kind = None if index is None else stream.schema.field(index).type
    if kind is not None and pa.types.is_timestamp(kind):
        return InputError(
            f"the time window of stream {stream.name} has no watermark on {time}",
            f"Say how late a tuple may be: df.withWatermark('{time}', '10 seconds') before "
            "pss.sql, or SLACK in the window clause (SLACK 0 if none is).",
        )
    # Spark has watermarks on timestamps alone.
    slack = "SLACK 10 SECONDS" if kind is None else "SLACK 10"
    slack = "SLACK 1 DAY" if kind is not None and pa.types.is_date(kind) else slack
    return InputError(
        f"the time window of stream {stream.name} does not say how late a tuple may be",
        f"Write SLACK in the window clause, for instance {slack}, or SLACK 0 if none is late.",
    )


def _order_columns(
    plans: Plans, streams: Sequence[Stream], order: Mapping[str, str]
) -> dict[str, OrderColumn]:
    """The columns that order the tuples: the requested ones, else their times."""
    if order:
        return {column.stream: column for column in order_columns(streams, order)}
    times = {stream.name: stream.time for stream in streams if stream.time is not None}
    times |= {stream: column for stream, column, _, _ in reversed(list(_timed(plans)))}
    timed = [stream for stream in streams if stream.name in times]
    if not timed:
        return {}
    try:
        chosen = {stream.name: times[stream.name] for stream in timed}
        return {column.stream: column for column in order_columns(timed, chosen)}
    except InputError:  # times that nothing compares: each stream is in the order of its own
        found = (_own_order(stream, times[stream.name]) for stream in timed)
        return {column.stream: column for column in found if column is not None}


def _own_order(stream: Stream, time: str) -> OrderColumn | None:
    """The times of a stream as its order; None if they have none."""
    try:
        return order_columns([stream], {stream.name: time})[0]
    except InputError:
        return None


def _delay(plans: Plans, source: DataFrameStream, column: OrderColumn | None) -> int:
    """How far the keys may be out of order: by the watermark, and by SLACK on the same column."""
    if column is None:
        return 0
    unit = _unit(column.common if column.common is not None else column.type)
    delays = [Fraction(0)]
    stream = source.stream
    if stream.slack is not None and stream.time == column.name:
        delays.append(stream.slack * unit)
    for read, name, window, time in _timed(plans):
        if (read, name) == (source.name, column.name):
            delays.append(_slack(window, time, column.type) * unit)
    return math.ceil(max(delays))


def _slack(window: Any, time: TimeAttribute, kind: pa.DataType) -> Fraction:
    """The slack of a window in seconds, or in units of the number."""
    if not isinstance(window, Range | Sliding) or window.slack is None:
        return Fraction(0)
    ticks: Any = window.slack
    return Fraction(ticks) / (Fraction(time.factor) * _unit(kind))


def _unit(kind: pa.DataType) -> Fraction:
    """How many of the type's units make a second; 1 for numbers."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return units_per_second(kind)
    return Fraction(1)


@dataclass(frozen=True)
class Ready:
    """A query that can be started.

    ``chained`` has the DataFrames; ``columns`` are those of the result; ``explained`` is what
    EXPLAIN says.
    """

    session: SparkSession
    zone: str
    chained: UnfoldedScript
    job: Job
    plan: Plan
    columns: spark_types.StructType
    cores: int
    explained: str


def prepare(script: Script, frames: Mapping[str, DataFrame], asked: Request) -> Ready:
    """Check the query over the DataFrames that it is given; every error comes from here."""
    chained = unfold(script, frames, asked)
    given, request = chained.given, chained.request
    session = next(iter(given.values())).sparkSession
    cores = parallelism(session) if asked.cores is None else asked.cores
    zone = session.conf.get("spark.sql.session.timeZone") or "UTC"
    sources = [
        DataFrameStream(key, df.schema, not df.isStreaming, zone, watermark_of(df))
        for key, df in given.items()
    ]
    job, plans = check(chained.script, sources, request)
    check_workers(session)
    program = job.program
    shared = distribution(program, job.lanes, job.by_key, cores, request.letters)
    if job.derived:
        shared = on_one_core([name for name, _ in job.derived])
    if job.update:
        check_update(job.bounded, bool(program.aggregates), shared)
    streams = {source.name.lower(): source.fields for source in sources}
    explained = []
    for name, compiled in job.derived:
        plan = plans.derived[name]
        streams[name.lower()] = spark_schema(plan, plan.schema.names, streams)
        explained.append(f"stream {name}\n{explain(plan, compiled)}\n")
    explained.append(explain(plans.query, program))
    if program.most_joined > 2:
        # Where each core has the tuples of its keys alone, none shares the join.
        sharing = 1 if shared.keys is not None else shared.cores
        explained += design_on_spark(decide_on_spark(program, sharing), program)
    columns = spark_schema(plans.query, job.names, streams)
    return Ready(
        session=session,
        zone=zone,
        chained=chained,
        job=replace(job, keys=shared.keys, partial=shared.partial),
        plan=plans.query,
        columns=_tagged(columns) if request.letters else columns,
        cores=shared.cores,
        explained="\n".join([*explained, str(shared)]),
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
