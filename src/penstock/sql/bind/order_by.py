"""Binds ORDER BY and LIMIT: the sort keys, and whether the query ever has an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyarrow import types as arrow

from penstock.errors import SqlError
from penstock.sql.bind.expression import bind_expression
from penstock.sql.bind.scope import Scope
from penstock.sql.bind.select_list import names_of, position
from penstock.sql.expressions import Column
from penstock.sql.parse.dialect import span
from penstock.sql.parse.statements import QueryText
from penstock.sql.parse.syntax import SortItem
from penstock.sql.plan import Aggregate, Join, Output, Scan, Select, SortKey


def bind_sort(
    items: Sequence[SortItem], scope: Scope, outputs: Sequence[Output]
) -> tuple[SortKey, ...]:
    """Bind the keys: names of the select list come before columns, whole numbers are positions."""
    scope = replace(scope, first={**scope.first, **names_of(outputs)})
    keys = []
    for item in items:
        chosen = position(item.value, outputs, scope)
        value = bind_expression(item.value, scope) if chosen is None else chosen.expression
        if arrow.is_duration(value.type):
            raise scope.fail(
                span(item.value),
                "rows cannot be ordered by an interval",
                f"Write CAST({scope.text(item.value)} AS int64) for its seconds.",
            )
        keys.append(SortKey(value, item.descending, item.nulls_first))
    return tuple(keys)


def bind_union_sort(query: QueryText, columns: Sequence[Output]) -> tuple[SortKey, ...]:
    """Bind the keys of a union, over its columns."""
    outputs = [
        Output(column.name, Column(0, place, column.name, column.type))
        for place, column in enumerate(columns)
    ]
    scope = Scope(query.source, (), clause="in ORDER BY after UNION ALL")
    return bind_sort(query.ast.sort, scope, outputs)


def check_end(query: QueryText, selects: Sequence[Select]) -> None:
    """Refuse ORDER BY and LIMIT on input that neither ends nor has windows."""
    clause = query.ast
    if not clause.sort and clause.limit is None:
        return
    source = selects[0].source
    windowed = isinstance(source, Aggregate) and source.window is not None
    if windowed and len(selects) == 1:
        return
    unbounded = next((s for select in selects for s in scans(select) if not s.stream.bounded), None)
    if unbounded is None:
        return
    word = "ORDER BY" if clause.sort else "LIMIT"
    at = clause.sort[0].at if clause.sort else clause.limit.at if clause.limit else (0, 0)
    name = unbounded.stream.name
    if len(selects) > 1:
        raise SqlError.at(
            query.source,
            *at,
            f"{word} over a UNION ALL with stream {name}, which has no end",
            f"Name the union first, CREATE STREAM u AS SELECT ..., and write {word} where u is "
            "aggregated by windows.",
        )
    remedy = f"Aggregate by windows, FROM {name} [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]"
    if isinstance(source, Join):
        remedy = (
            "Name the join first, CREATE STREAM j AS SELECT ... JOIN ..., and aggregate it by "
            "windows, FROM j [RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]"
        )
    if clause.sort:
        remedy += ", or write EMIT ORDER outer at the end to have rows by arrival"
    else:
        remedy += ", or leave LIMIT out and stop reading"
    raise SqlError.at(
        query.source, *at, f"{word} over stream {name}, which has no end", f"{remedy}."
    )


def scans(select: Select) -> tuple[Scan, ...]:
    """The streams that a SELECT reads."""
    source = select.source
    if isinstance(source, Aggregate):
        source = source.source
    return (source,) if isinstance(source, Scan) else source.inputs
