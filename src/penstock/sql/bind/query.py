"""Binds a query: FROM, joins, unions, and the parts of each SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from penstock.errors import SqlError
from penstock.sql.bind.aggregate import GroupedSource, bind_grouped, is_grouped
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.coercion import Argument as Operand
from penstock.sql.bind.coercion import TypeProblem, unify
from penstock.sql.bind.expression import bind_condition, bind_expression
from penstock.sql.bind.join_window import Side, bind_join_scans, bind_scan
from penstock.sql.bind.order_by import bind_sort, bind_union_sort, check_end
from penstock.sql.bind.scope import AGGREGATED_JOIN, Input, Scope
from penstock.sql.bind.select_list import bind_items
from penstock.sql.bind.sliding_window import Windows, bind_sliding
from penstock.sql.expressions import TRUE, Column, Expression, Literal
from penstock.sql.own_blocks import registered
from penstock.sql.parse.parser import too_deep
from penstock.sql.parse.statements import QueryText
from penstock.sql.parse.syntax import JoinClause, SelectClause, SortItem, StreamReference
from penstock.sql.plan import (
    Argument,
    Join,
    Output,
    Plan,
    Scan,
    Select,
    SortKey,
    Through,
    Union,
)


def bind(query: QueryText, catalog: Catalog, *, order_column: str | None = None) -> Plan:
    """The plan of a query over the streams of the catalog.

    ``order_column`` is the column by which the run is ordered: the last resort for a tuple's time.

    >>> import pyarrow as pa
    >>> from penstock.sql.parse.parser import parse_query
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
    """Bind the SELECTs, and the keys of ORDER BY over their output."""
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
        """Bind one SELECT, and the keys of ORDER BY."""
        if is_grouped(clause, sort, self.query.source):
            return bind_grouped(clause, self.grouped(clause), sort)
        self.check_empty()
        scan, scope = self.source(clause)
        where: Expression = TRUE
        if clause.where is not None:
            named = clause.names
            where = bind_condition(clause.where, replace(scope, clause="in WHERE", named=named))
        columns = [o for _, outputs in bind_items(clause.items, scope) for o in outputs]
        return Select(scan, where, tuple(columns)), bind_sort(sort, scope, columns)

    def check_empty(self) -> None:
        """Refuse EMIT EMPTY without an aggregate."""
        if self.query.ast.emit.empty is not None:
            raise SqlError.at(
                self.query.source,
                *self.query.ast.emit.empty,
                "EMIT EMPTY, but nothing is aggregated",
                "Leave it out, or select an aggregate, for instance COUNT(*).",
            )

    def source(self, clause: SelectClause) -> tuple[Scan | Join, Scope]:
        """Bind FROM; returns the source and its scope."""
        left = find_stream(clause.left, self.query.source, self.catalog)
        if clause.join is None:
            scan = bind_scan(left, self.order_column)
            return replace(scan, through=bind_through(left)), lone_scope(left)
        refuse_through(left, "a join")
        refuse_through(find_stream(clause.join.right, self.query.source, self.catalog), "a join")
        right = find_stream(clause.join.right, self.query.source, self.catalog)
        return bind_join(clause.join, left, right, self.catalog, self.order_column)

    def grouped(self, clause: SelectClause) -> GroupedSource:
        """Bind FROM for an aggregate."""
        left = find_stream(clause.left, self.query.source, self.catalog)
        empty = self.query.ast.emit.empty
        clause_text = "GROUP BY" if clause.group else "an aggregate"
        clause_text = clause_text if clause.distinct is None else "SELECT DISTINCT"
        if clause.join is None:
            refuse_through(left, clause_text)
            windows = bind_sliding(left, self.order_column, clause_text)
            scan = Scan(left.stream, left.reference.alias.text)
            return GroupedSource(scan, windows, lone_scope(left), empty)
        join, scope = self.source(clause)
        assert isinstance(join, Join)
        for scan in (join.left, join.right):
            if not scan.stream.bounded:
                raise SqlError.at(
                    self.query.source,
                    *clause.join.at,
                    f"{clause_text} over a join of stream {scan.stream.name}, which has no end",
                    AGGREGATED_JOIN,
                )
        return GroupedSource(join, Windows(left), scope, empty)


def lone_scope(side: Side) -> Scope:
    """The scope of a single stream in FROM."""
    return Scope(side.source, (Input(side.reference.alias.text, side.stream, 0),))


def find_stream(reference: StreamReference, source: str, catalog: Catalog) -> Side:
    """The stream that FROM names, or an error."""
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


def bind_through(side: Side) -> Through | None:
    """The block of the user's own that a stream goes through, if FROM names one."""
    clause = side.reference.through
    if clause is None:
        return None
    if side.clause is not None:
        refuse_through(side, "a window")
    block = registered(clause.block.text)
    assert block is not None
    usage = f"{block.name}({', '.join(('R', *(f'{p} => ...' for p in block.parameters)))})"
    given: dict[str, Argument] = {}
    for name, value in clause.arguments:
        if name.text.lower() not in block.parameters or name.text.lower() in given:
            raise side.fail(
                name.at, f"{block.name} has no argument {name.text} here", f"Write {usage}."
            )
        bound = bind_expression(value, lone_scope(side))
        if not isinstance(bound, Column | Literal):
            raise side.fail(
                name.at,
                f"{name.text} => {bound} is neither a column nor a constant",
                f"Write a column of {side.stream.name}, or a constant.",
            )
        given[name.text.lower()] = Argument(name.text.lower(), bound)
    missing = [name for name in block.parameters if name not in given]
    if missing:
        raise side.fail(
            clause.at, f"{block.name} lacks the argument {missing[0]}", f"Write {usage}."
        )
    arguments = tuple(given[name] for name in block.parameters)
    return Through(block.name, block.implementation, arguments)


def refuse_through(side: Side, what: str) -> None:
    """A block of the user's own stands in FROM alone; its rows can be named."""
    clause = side.reference.through
    if clause is not None:
        text = " ".join(side.source[slice(*clause.at)].split())
        raise side.fail(
            clause.at,
            f"{what} over {clause.block.text}(...) is not supported",
            f"Name its rows first, CREATE STREAM d AS SELECT * FROM {text}; and read d.",
        )


def bind_join(
    clause: JoinClause, left: Side, right: Side, catalog: Catalog, order_column: str | None
) -> tuple[Join, Scope]:
    """Bind the join; returns it with the scope of SELECT and WHERE."""
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
    """The branches of a UNION ALL, converted to common types, with the names of the first."""
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
    """One column of all branches, in one type."""
    outputs = [select.columns[place] for select in selects]
    arguments = [Operand(output.expression, output.name) for output in outputs]
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
