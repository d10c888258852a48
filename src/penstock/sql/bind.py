"""Bind a query: names to columns, types to expressions, window clauses to a clock."""

from __future__ import annotations

from difflib import get_close_matches

from pyarrow import types as arrow
from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.bind_expression import bind_condition, bind_expression
from penstock.sql.bind_window import Side, bind_join_scans, bind_scan
from penstock.sql.catalog import Catalog
from penstock.sql.dialect import span
from penstock.sql.expressions import TRUE, Column, Expression
from penstock.sql.parse import too_deep
from penstock.sql.plan import Join, Output, Plan, Scan, Select, Union
from penstock.sql.scope import Input, Scope
from penstock.sql.statements import QueryText
from penstock.sql.syntax import Item, JoinClause, SelectClause, StreamReference
from penstock.sql.types import Argument, TypeProblem, unify


def bind(query: QueryText, catalog: Catalog, *, order_column: str | None = None) -> Plan:
    """The plan of a query over the streams of the catalog.

    ``order_column`` is the column that the run is ordered by: the last resort for a tuple's time.

    >>> import pyarrow as pa
    >>> from penstock.sql.parse import parse_query
    >>> from penstock.streams.schema import Stream
    >>> catalog = Catalog([Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int32()}))])
    >>> plan = bind(parse_query("SELECT id + 1 AS next FROM R WHERE x > 5"), catalog)
    >>> print(plan.selects[0].where, plan.schema)
    (x > 5) next: int64
    """
    try:
        selects = [
            bind_select(select, query.source, catalog, order_column) for select in query.ast.selects
        ]
    except RecursionError:
        raise too_deep(query.source) from None
    body: Select | Union = selects[0]
    if len(selects) > 1:
        body = Union(unify_branches(selects, query))
    return Plan(body, query.text, query.ast.order, query.ast.precision)


def bind_select(
    select: SelectClause, source: str, catalog: Catalog, order_column: str | None
) -> Select:
    """One SELECT."""
    left = find_stream(select.left, source, catalog)
    scan: Scan | Join
    if select.join is None:
        scan = bind_scan(left, order_column)
        scope = Scope(source, (Input(scan.alias, scan.stream, 0),))
    else:
        right = find_stream(select.join.right, source, catalog)
        scan, scope = bind_join(select.join, left, right, catalog, order_column)
    where = TRUE if select.where is None else bind_condition(select.where, scope)
    columns = [output for item in select.items for output in bind_item(item, scope)]
    return Select(scan, where, tuple(columns))


def find_stream(reference: StreamReference, source: str, catalog: Catalog) -> Side:
    """The stream that FROM names."""
    stream = catalog.get(reference.stream.text)
    if stream is None:
        name = reference.stream.text
        known = {known.name.lower(): known.name for known in catalog}
        near = get_close_matches(name.lower(), known, 1)
        remedy = (
            f"Did you mean {known[near[0]]}?"
            if near
            else f"Create it first: CREATE STREAM {name} (column type, ...)."
        )
        raise SqlError.at(source, *reference.stream.at, f"unknown stream '{name}'", remedy)
    return Side(source, reference, stream)


def bind_join(
    clause: JoinClause, left: Side, right: Side, catalog: Catalog, order_column: str | None
) -> tuple[Join, Scope]:
    """The join, and what can be named in SELECT and WHERE."""
    names = (left.reference.alias, right.reference.alias)
    if names[0].text.lower() == names[1].text.lower():
        raise SqlError.at(
            left.source,
            *names[1].at,
            f"both streams are named {names[1].text}",
            f"Give one of them another name: {right.stream.name} [...] AS other.",
        )
    first, second, float_clock = bind_join_scans(left, right, catalog, order_column)
    inputs = (
        Input(names[0].text, left.stream, 0, joined=True),
        Input(names[1].text, right.stream, 1, joined=True),
    )
    both = Scope(left.source, inputs)
    on = TRUE if clause.on is None else bind_condition(clause.on, both)
    kind = "inner" if clause.kind == "cross" else clause.kind
    one_sided = kind in ("semi", "anti")
    scope = Scope(left.source, inputs[:1], inputs[1:]) if one_sided else both
    return Join(kind, first, second, on, float_clock), scope


def bind_item(item: Item, scope: Scope) -> list[Output]:
    """The columns that an expression of the select list gives."""
    node = item.value
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and node.is_star):
        if item.alias is not None:
            raise scope.fail(
                item.alias.at, "* stands for several columns", "Leave the name after it out."
            )
        return [Output(column.name, column) for column in scope.star(node)]
    bound = bind_expression(node, scope)
    if arrow.is_duration(bound.type):
        raise scope.fail(
            span(node),
            "an interval cannot be a column of the result",
            f"Write CAST({scope.text(node)} AS int64) for its seconds.",
        )
    return [Output(item.alias.text if item.alias else name_of(node, bound, scope), bound)]


def name_of(node: exp.Expr, bound: Expression, scope: Scope) -> str:
    """A column's own name; for anything else, its text."""
    if isinstance(bound, Column):
        return bound.name
    return " ".join(scope.text(node).lower().split())


def unify_branches(selects: list[Select], query: QueryText) -> tuple[Select, ...]:
    """The branches of a UNION ALL, converted to common types, with the first one's names."""
    width = len(selects[0].columns)
    for select, clause in zip(selects, query.ast.selects, strict=True):
        if len(select.columns) != width:
            raise SqlError.at(
                query.source,
                *clause.at,
                f"this branch of UNION ALL has {len(select.columns)} columns, not {width}",
                "Select the same number of columns in every branch.",
            )
    columns = [unify_column(selects, query, place) for place in range(width)]
    return tuple(
        Select(select.source, select.where, tuple(column[branch] for column in columns))
        for branch, select in enumerate(selects)
    )


def unify_column(selects: list[Select], query: QueryText, place: int) -> list[Output]:
    """One column of all the branches, in one type."""
    outputs = [select.columns[place] for select in selects]
    arguments = [Argument(output.expression, output.name) for output in outputs]
    try:
        unified = unify(arguments, "put", "and")
    except TypeProblem as problem:
        raise SqlError.at(
            query.source,
            *query.ast.selects[-1].at,
            f"{problem.what} in one column, the {place + 1}. of UNION ALL",
            problem.remedy,
        ) from None
    return [Output(outputs[0].name, expression) for expression in unified]
