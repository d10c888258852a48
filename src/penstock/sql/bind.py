"""Bind a query: names to columns, types to expressions, window clauses to a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from penstock.errors import SqlError
from penstock.sql.bind_aggregate import Grouped, bind_grouped, is_grouped
from penstock.sql.bind_expression import bind_condition
from penstock.sql.bind_item import bind_item
from penstock.sql.bind_order import bind_sort, bind_union_sort, check_end
from penstock.sql.bind_sliding import Windows, bind_sliding
from penstock.sql.bind_window import Side, bind_join_scans, bind_scan
from penstock.sql.catalog import Catalog
from penstock.sql.expressions import TRUE, Expression
from penstock.sql.parse import too_deep
from penstock.sql.plan import Join, Output, Plan, Scan, Select, SortKey, Union
from penstock.sql.scope import AGGREGATED_JOIN, Input, Scope
from penstock.sql.statements import QueryText
from penstock.sql.syntax import JoinClause, SelectClause, SortItem, StreamReference
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
        body, sort = bind_body(query, catalog, order_column)
    except RecursionError:
        raise too_deep(query.source) from None
    ast = query.ast
    limit = None if ast.limit is None else ast.limit.rows
    return Plan(body, query.text, ast.emit.order, ast.emit.precision, sort, limit)


def bind_body(
    query: QueryText, catalog: Catalog, order_column: str | None
) -> tuple[Select | Union, tuple[SortKey, ...]]:
    """The selects, and the keys of ORDER BY over what they give."""
    binder = Binder(query, catalog, order_column)
    clauses = query.ast.selects
    if len(clauses) == 1:
        select, sort = binder.select(clauses[0], query.ast.sort)
        check_end(query, (select,))
        return select, sort
    selects = [binder.select(clause)[0] for clause in clauses]
    check_end(query, selects)
    union = Union(unify_branches(selects, query))
    return union, bind_union_sort(query, union.branches[0].columns)


@dataclass(frozen=True)
class Binder:
    """Binds the SELECTs of one query."""

    query: QueryText
    catalog: Catalog
    order_column: str | None

    def select(
        self, clause: SelectClause, sort: Sequence[SortItem] = ()
    ) -> tuple[Select, tuple[SortKey, ...]]:
        """One SELECT, and the keys of ORDER BY if it has any."""
        if is_grouped(clause, sort, self.query.source):
            return bind_grouped(clause, self.grouped(clause), sort)
        self.check_empty()
        scan, scope = self.source(clause)
        where: Expression = TRUE
        if clause.where is not None:
            where = bind_condition(clause.where, replace(scope, clause="in WHERE"))
        columns = [output for item in clause.items for output in bind_item(item, scope)]
        return Select(scan, where, tuple(columns)), bind_sort(sort, scope, columns)

    def check_empty(self) -> None:
        """EMIT EMPTY is for aggregates."""
        if self.query.ast.emit.empty is not None:
            raise SqlError.at(
                self.query.source,
                *self.query.ast.emit.empty,
                "EMIT EMPTY, but nothing is aggregated",
                "Leave it out, or select an aggregate, for instance COUNT(*).",
            )

    def source(self, clause: SelectClause) -> tuple[Scan | Join, Scope]:
        """What FROM names, and what can be named of it."""
        left = find_stream(clause.left, self.query.source, self.catalog)
        if clause.join is None:
            return bind_scan(left, self.order_column), lone_scope(left)
        right = find_stream(clause.join.right, self.query.source, self.catalog)
        return bind_join(clause.join, left, right, self.catalog, self.order_column)

    def grouped(self, clause: SelectClause) -> Grouped:
        """What FROM names, to be aggregated."""
        left = find_stream(clause.left, self.query.source, self.catalog)
        empty = self.query.ast.emit.empty
        asked = "GROUP BY" if clause.group else "an aggregate"
        asked = asked if clause.distinct is None else "SELECT DISTINCT"
        if clause.join is None:
            windows = bind_sliding(left, self.order_column, asked)
            scan = Scan(left.stream, left.reference.alias.text)
            return Grouped(scan, windows, lone_scope(left), empty)
        join, scope = self.source(clause)
        assert isinstance(join, Join)
        for scan in (join.left, join.right):
            if not scan.stream.bounded:
                raise SqlError.at(
                    self.query.source,
                    *clause.join.at,
                    f"{asked} over a join of stream {scan.stream.name}, which has no end",
                    AGGREGATED_JOIN,
                )
        return Grouped(join, Windows(left), scope, empty)


def lone_scope(side: Side) -> Scope:
    """What can be named of a stream that is alone in FROM."""
    return Scope(side.source, (Input(side.reference.alias.text, side.stream, 0),))


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
    on = TRUE if clause.on is None else bind_condition(clause.on, replace(both, clause="in ON"))
    kind = "inner" if clause.kind == "cross" else clause.kind
    one_sided = kind in ("semi", "anti")
    scope = Scope(left.source, inputs[:1], inputs[1:]) if one_sided else both
    return Join(kind, first, second, on, float_clock), scope


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
