"""Everything that can be wrong with a query over DataFrames, found before Spark starts anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa

from penstock.engines.spark.dataframes.columns import (
    Source,
    check_opaque,
    distinct_names,
    expressions_of,
    scans_of,
    time_of,
    window_of,
)
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.sequencer import Lane
from penstock.errors import InputError
from penstock.sql.bind import bind
from penstock.sql.bind_window import units_per_second
from penstock.sql.catalog import Catalog
from penstock.sql.expressions import Column, walk
from penstock.sql.parse import parse_query
from penstock.sql.plan import Aggregate, Join, Plan, Select
from penstock.sql.statements import QueryText
from penstock.streams.order import OrderColumn, order_columns
from penstock.streams.schema import Stream
from penstock.streams.windows import Range, Sliding, SlidingRows, TimeAttribute, Unbounded

ORDER_TYPES = "Order by an integer, a float, a date or a timestamp."


@dataclass(frozen=True)
class Wish:
    """What the user has asked for beside the query."""

    order_by: str | Mapping[str, str] | None = None
    merge: str = "order"
    idle: float | timedelta | None = None
    letters: bool = False
    output: str = "append"


def check(text: str, sources: Sequence[Source], wish: Wish) -> tuple[Job, Plan]:
    """The job, and the plan over what is left of the streams; or an error that says what to do."""
    query = parse_query(text)
    named = _match(query, sources)
    _check_bounded(named)
    idle = _milliseconds(wish.idle)
    if wish.merge not in ("order", "arrival"):
        raise InputError(f"unknown merge {wish.merge!r}", "Write 'order' or 'arrival'.")
    if wish.output not in ("append", "update"):
        raise InputError(f"unknown output {wish.output!r}", "Write 'append' or 'update'.")
    order = _order_names(named, wish.order_by)
    everywhere = set(order.values())
    order_column = everywhere.pop() if len(everywhere) == 1 else None
    catalog = _catalog([source.stream for source in named], named)
    check_opaque(query, {source.name.lower(): source for source in named})
    plan = bind(query, catalog, order_column=order_column)
    by_key = _waits(plan, wish)
    kept = [_kept(source, plan, order, wish.letters, by_key) for source in named]
    plan = bind(query, _catalog(kept, named), order_column=order_column)
    if not by_key and not named[0].bounded:
        _check_slack(plan)
    columns = _order_columns(plan, kept, order)
    lanes = tuple(
        Lane(stream, columns.get(stream.name), _delay(plan, source, columns.get(stream.name)))
        for source, stream in zip(named, kept, strict=True)
    )
    plain = not any(isinstance(select.source, Join | Aggregate) for select in plan.selects)
    job = Job(
        text=query.text,
        lanes=lanes,
        by_key=by_key,
        idle=idle,
        letters=wish.letters,
        ordered=plan.order != "none",
        stateless=plain and plan.order == "none" and not _is_sorted(plan),
        bounded=named[0].bounded,
        order_column=order_column,
        schema=plan.schema,
        names=distinct_names(plan),
        always=any(_answers_nothing(select) for select in plan.selects),
        update=wish.output == "update",
    )
    return job, plan


def _answers_nothing(select: Select) -> bool:
    """Whether there is a row even if there is no tuple."""
    source = select.source
    return isinstance(source, Aggregate) and source.window is None and not source.keys


def _is_sorted(plan: Plan) -> bool:
    """Whether ORDER BY or LIMIT have a say in which rows there are."""
    return bool(plan.sort) or plan.limit is not None


def _milliseconds(timeout: float | timedelta | None) -> int | None:
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(
            f"idle_timeout={timeout!r} is no time", "Pass a number of seconds above 0."
        )
    return max(1, round(seconds * 1000))


def _match(query: QueryText, sources: Sequence[Source]) -> list[Source]:
    """The sources in the order in which the query names them; each must be named."""
    given = {source.name.lower(): source for source in sources}
    found: dict[str, Source] = {}
    for select in query.ast.selects:
        for reference in (select.left, *([select.join.right] if select.join else [])):
            name = reference.stream.text
            if name.lower() not in given:
                raise InputError(
                    f"the query reads {name}, for which there is no DataFrame",
                    f"Pass it: pss.sql(..., {name}=df).",
                )
            found.setdefault(name.lower(), given[name.lower()])
    unused = [source.name for source in sources if source.name.lower() not in found]
    if unused:
        raise InputError(
            f"the query does not read {unused[0]}",
            "Leave that DataFrame out, or name it in FROM.",
        )
    return list(found.values())


def _check_bounded(sources: Sequence[Source]) -> None:
    bounded = [source.name for source in sources if source.bounded]
    if bounded and len(bounded) < len(sources):
        streaming = next(source.name for source in sources if not source.bounded)
        raise InputError(
            f"{bounded[0]} is a static DataFrame and {streaming} a streaming one: a window over a "
            "table that does not move has no meaning",
            f"Read {bounded[0]} with spark.readStream, or read both with spark.read, or join the "
            "table with the result in Spark.",
        )


def _catalog(streams: Sequence[Stream], sources: Sequence[Source]) -> Catalog:
    return Catalog(streams, windows_required=not sources[0].bounded)


def _order_names(
    sources: Sequence[Source], order_by: str | Mapping[str, str] | None
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


def _waits(plan: Plan, wish: Wish) -> bool:
    """Whether tuples are held until their turn has come."""
    needs = "ordered output" if plan.order != "none" else None
    for select in plan.selects:
        if isinstance(select.source, Join) and needs is None:
            windows = [scan.window for scan in scans_of(select)]
            alike = {type(window) for window in windows}
            if alike not in ({Range}, {Unbounded}):
                needs = "a join with a window that counts arrivals"
        if isinstance(select.source, Aggregate) and isinstance(select.source.window, SlidingRows):
            needs = "an aggregate over a window that counts arrivals"
    if needs is not None and wish.merge == "order":
        if wish.order_by is None:
            raise InputError(
                f"{needs} needs an arrival order, and the rows of a DataFrame have none",
                "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
                "trigger by trigger, in the order of their content, with merge='arrival'.",
            )
        return True
    if wish.idle is not None:
        raise InputError(
            "idle_timeout has no effect: no stream of this query waits for another",
            "Leave it out.",
        )
    return False


def _kept(
    source: Source, plan: Plan, order: Mapping[str, str], letters: bool, by_key: bool
) -> Stream:
    """The stream with the columns that are needed; a letter shows them all."""
    stream = source.stream
    used = {source.stream.index_of(name) for name in (order.get(source.name), stream.time) if name}
    for select in plan.selects:
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


def _windows(plan: Plan) -> Iterator[tuple[Stream, Any, TimeAttribute | None]]:
    """The inputs of the query, each with its window and what tells its time."""
    for select in plan.selects:
        for side, scan in enumerate(scans_of(select)):
            yield scan.stream, window_of(select, side), time_of(select, side)


def _check_slack(plan: Plan) -> None:
    """A time window over an endless stream must know how late a tuple may be."""
    for stream, window, attribute in _windows(plan):
        if isinstance(window, Range | Sliding) and window.slack is None:
            raise _no_slack(stream, attribute.name if attribute is not None else stream.time)


def _no_slack(stream: Stream, time: str | None) -> InputError:
    """The error for a time window of which nobody has said how late a tuple may be."""
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
    plan: Plan, streams: Sequence[Stream], order: Mapping[str, str]
) -> dict[str, OrderColumn]:
    """The columns whose values put tuples in order: as asked for, else their times."""
    if order:
        return {column.stream: column for column in order_columns(streams, order)}
    times: dict[str, str] = {}
    for stream, _, time in _windows(plan):
        if time is not None:
            times.setdefault(stream.name, time.name)
    if len(times) < len(streams):
        return {}
    try:
        return {column.stream: column for column in order_columns(streams, times)}
    except InputError:
        return {}  # times that nobody compares: any order will do


def _delay(plan: Plan, source: Source, column: OrderColumn | None) -> int:
    """How far the keys may be out of order: by the watermark, and by SLACK on the same column."""
    if column is None:
        return 0
    unit = _unit(column.common if column.common is not None else column.type)
    delays = [Fraction(0)]
    stream = source.stream
    if stream.slack is not None and stream.time == column.name:
        delays.append(stream.slack * unit)
    for read, window, time in _windows(plan):
        if read.name == source.name and time is not None and time.name == column.name:
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
