"""Chains: a result of ``pss.sql`` that is an input of ``pss.sql`` again.

Spark passes on rows, but no punctuations. So a result remembers its origin, and a query over it
reads that: the query of the result becomes a derived stream of the query that reads it, with its
punctuations, and one operator runs both. A selection has no state: it stays a DataFrame, and passes
on the watermark of its input. A DataFrame that the user has computed from a result with Spark has
no such origin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame

from penstock.engines.spark.dataframes.arguments import Request
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.script import Script, references
from penstock.errors import InputError
from penstock.sql.expressions import Column
from penstock.sql.parse.parser import parse_query
from penstock.sql.parse.statements import DeriveStream, QueryText
from penstock.sql.plan import Plan, Scan

_ATTRIBUTE = "_penstock"
_METRICS = "penstock"


@dataclass(frozen=True)
class Link:
    """The origin of a result: a script over DataFrames that are no results themselves.

    ``order`` has the column that puts each of them in order, if one does.
    """

    script: Script
    given: Mapping[str, DataFrame]
    order: Mapping[str, str]
    request: Request
    by_key: bool


@dataclass(frozen=True)
class SelectionWatermark:
    """The watermark that a selection passes on: its column and its delay in seconds."""

    time: str
    slack: Fraction


@dataclass(frozen=True)
class UnfoldedScript:
    """A script over DataFrames that are no results, and its options."""

    script: Script
    given: dict[str, DataFrame]
    request: Request


def remember(
    result: DataFrame,
    chained: UnfoldedScript,
    job: Job,
    plan: Plan,
) -> DataFrame:
    """The result with its origin attached, if a query over it can use that."""
    made: Link | SelectionWatermark | None = None
    if job.stateless:
        made = _selection_watermark(plan, job.names)
    elif not (job.bounded or job.letters or job.update):
        order = {lane.stream.name: lane.column.name for lane in job.lanes if lane.column}
        made = Link(chained.script, chained.given, order, chained.request, job.by_key)
    vars(result)[_ATTRIBUTE] = made
    return result


def watermark_of(frame: DataFrame) -> tuple[str, Fraction] | None:
    """The watermark of a selection of ``pss.sql``; of any other DataFrame, its schema has it."""
    made = _made(frame)
    return (made.time, made.slack) if isinstance(made, SelectionWatermark) else None


def _made(frame: DataFrame) -> Link | SelectionWatermark | None:
    # Not getattr: a DataFrame looks for columns of that name.
    made: Link | SelectionWatermark | None = vars(frame).get(_ATTRIBUTE)
    return made


def _selection_watermark(plan: Plan, names: tuple[str, ...]) -> SelectionWatermark | None:
    """The watermark that every branch of a selection passes on in the same column."""
    for place, name in enumerate(names):
        slacks = []
        for select in plan.selects:
            source, column = select.source, select.columns[place].expression
            assert isinstance(source, Scan)
            stream = source.stream
            if (
                isinstance(column, Column)
                and column.name == stream.time
                and stream.slack is not None
            ):
                slacks.append(stream.slack)
        if len(slacks) == len(plan.selects):
            return SelectionWatermark(name, max(slacks))
    return None


def unfold(script: Script, given: Mapping[str, DataFrame], request: Request) -> UnfoldedScript:
    """The script with the queries of the results that it reads, as derived streams before it."""
    links = {name: made for name, frame in given.items() if isinstance(made := _made(frame), Link)}
    if not links:
        return UnfoldedScript(script, dict(given), request)
    frames = {name: frame for name, frame in given.items() if name not in links}
    taken = {name.lower() for name in (*given, *(one.name for one in script.derived))}
    order = _order_of(frames, request)
    statements: list[DeriveStream] = []
    for name, link in links.items():
        known: dict[str, str] = {}
        for inner, frame in link.given.items():
            same = next((one for one, other in frames.items() if other is frame), None)
            known[inner.lower()] = same or _free(inner, name, taken)
            frames[known[inner.lower()]] = frame
            if inner in link.order:
                order.setdefault(known[inner.lower()], link.order[inner])
        for statement in link.script.derived:
            known[statement.name.lower()] = new = _free(statement.name, name, taken)
            statements.append(DeriveStream(new, _renamed(statement.query.text, known)))
        statements.append(DeriveStream(name, _renamed(link.script.query.text, known)))
    asked = [one.order_by for one in (request, *(link.request for link in links.values()))]
    return UnfoldedScript(
        Script((*statements, *script.derived), script.query),
        frames,
        replace(
            request,
            order_by=order if any(one is not None for one in asked) else None,
            merge=_merge(links, request),
            idle_timeout=_idle(links, request),
        ),
    )


def _order_of(frames: Mapping[str, DataFrame], request: Request) -> dict[str, str]:
    """The requested order columns of the DataFrames that are no results."""
    if request.order_by is None:
        return {}
    if isinstance(request.order_by, str):
        return dict.fromkeys(frames, request.order_by)
    asked = {name.lower(): column for name, column in request.order_by.items()}
    return {name: asked[name.lower()] for name in frames if name.lower() in asked}


def _free(name: str, reader: str, taken: set[str]) -> str:
    """A free name: the stream's own, or with the name of the result it is read through."""
    while name.lower() in taken:
        name = f"{reader}.{name}"
    taken.add(name.lower())
    return name


def _merge(links: Mapping[str, Link], request: Request) -> str:
    """The common merge option: arrival order if any result asks for it."""
    if "arrival" not in (request.merge, *(link.request.merge for link in links.values())):
        return "order"
    for name, link in links.items():
        if link.by_key:
            raise InputError(
                f"{name} was made with merge='order', and its tuples would not wait for their turn "
                "with merge='arrival'",
                f"Pass the same merge to the pss.sql that makes {name}.",
            )
    return "arrival"


def _idle(links: Mapping[str, Link], request: Request) -> Any:
    asked = {"": request.idle_timeout}
    asked |= {name: link.request.idle_timeout for name, link in links.items()}
    given = {name: idle for name, idle in asked.items() if idle is not None}
    if len(set(given.values())) > 1:
        name = next(name for name in given if name)
        raise InputError(
            f"{name} was made with idle_timeout={given[name]!r}, and here it is another",
            "Pass the same idle_timeout to both: one operator runs both queries.",
        )
    return next(iter(given.values()), None)


# -- texts ----------------------------------------------------------------------------------


def _renamed(text: str, names: Mapping[str, str]) -> QueryText:
    """A query over renamed streams; its aliases stay.

    >>> text = "SELECT r.x FROM r [ROWS 2] JOIN s [ROWS 1] AS t ON r.x = t.x"
    >>> _renamed(text, {"r": "p.r", "s": "s"}).text
    'SELECT r.x FROM "p.r" [ROWS 2] AS "r" JOIN s [ROWS 1] AS t ON r.x = t.x'
    """
    query = parse_query(text)
    text = query.source
    for reference in sorted(references(query), key=lambda one: one.at, reverse=True):
        old = reference.stream
        new = names.get(old.text.lower(), old.text)
        if new != old.text:
            alias = f" AS {_quoted(old.text)}" if reference.alias.at == old.at else ""
            (start, end), last = old.at, reference.at[1]
            text = f"{text[:start]}{_quoted(new)}{text[end:last]}{alias}{text[last:]}"
    return parse_query(text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- metrics --------------------------------------------------------------------------------


def metrics_name(asked: str | None, given: Mapping[str, DataFrame]) -> str:
    """The name of the metrics; one that the DataFrames of the query do not use yet."""
    known = {name for frame in given.values() for name in _observed(frame)}
    if asked is not None:
        if asked in known:
            raise InputError(
                f"name={asked!r} is the name of the counts of a query that is read here",
                "Pass another one, or none: the names are made different then.",
            )
        return asked
    numbered = (f"{_METRICS}_{number}" for number in range(2, len(known) + 3))
    return next(name for name in (_METRICS, *numbered) if name not in known)


def _observed(frame: DataFrame) -> list[str]:
    """The names of the metrics that are observed in a DataFrame's plan."""
    any_frame: Any = frame
    if hasattr(frame, "_jdf"):
        plan = any_frame._jdf.queryExecution().logical().toString()
        return re.findall(r"CollectMetrics ([^,\n]+),", plan)
    found, waiting = [], [any_frame._plan]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "CollectMetrics":
            found.append(str(getattr(node._observation, "_name", node._observation)))
        below = (getattr(node, name, None) for name in ("_child", "left", "right", "other"))
        waiting += [one for one in below if hasattr(one, "_child")]
    return found
