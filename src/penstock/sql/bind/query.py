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
from penstock.sql.bind.multiway import check_kinds, check_linked, check_number
from penstock.sql.bind.order_by import bind_sort, bind_union_sort, check_end
from penstock.sql.bind.scope import AGGREGATED_COUNTS, AGGREGATED_JOIN, Input, Scope
from penstock.sql.bind.select_list import bind_items
from penstock.sql.bind.sliding_window import Windows, bind_sliding
from penstock.sql.expressions import TRUE, Column, Expression, Literal, conjunction, conjuncts
from penstock.sql.own_blocks import registered
from penstock.sql.parse.parser import too_deep
from penstock.sql.parse.statements import QueryText
from penstock.sql.parse.syntax import (
    JoinClause,
    SelectClause,
    SortItem,
    StreamReference,
    ThroughClause,
)
from penstock.sql.plan import (
    Argument,
    Join,
    JoinStep,
    Output,
    Plan,
    Scan,
    Select,
    SortKey,
    Through,
    Union,
)
from penstock.streams.windows import Range

ONE_SIDED = ("semi", "anti")
"""The kinds of join that give out columns of their left side alone."""


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
        check_linked(select, clauses[0], query.source)
        check_end(query, (select,))
        return select, sort
    selects = [binder.select(clause)[0] for clause in clauses]
    for select, clause in zip(selects, clauses, strict=True):
        check_linked(select, clause, query.source)
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
        if not clause.joins:
            return bind_scan(left, self.order_column), lone_scope(left)
        sides = [left]
        sides += [find_stream(j.right, self.query.source, self.catalog) for j in clause.joins]
        return bind_join(clause.joins, sides, self.catalog, self.order_column)

    def grouped(self, clause: SelectClause) -> GroupedSource:
        """Bind FROM for an aggregate."""
        left = find_stream(clause.left, self.query.source, self.catalog)
        empty = self.query.ast.emit.empty
        clause_text = "GROUP BY" if clause.group else "an aggregate"
        clause_text = clause_text if clause.distinct is None else "SELECT DISTINCT"
        if not clause.joins:
            windows = bind_sliding(left, self.order_column, clause_text)
            return GroupedSource(left.scan(), windows, lone_scope(left), empty)
        join, scope = self.source(clause)
        assert isinstance(join, Join)
        timed = any(isinstance(scan.window, Range) for scan in join.inputs)
        for scan in join.inputs:
            if not scan.stream.bounded:
                raise SqlError.at(
                    self.query.source,
                    *clause.joins[0].at,
                    f"{clause_text} over a join of stream {scan.stream.name}, which has no end",
                    AGGREGATED_JOIN if timed else AGGREGATED_COUNTS,
                )
        return GroupedSource(join, Windows(left), scope, empty)


def lone_scope(side: Side) -> Scope:
    """The scope of a single stream in FROM."""
    return Scope(side.source, (Input(side.reference.alias.text, side.stream, 0),))


def find_stream(reference: StreamReference, source: str, catalog: Catalog) -> Side:
    """The stream that FROM names, or an error.

    The rows of a block of the user's own are a derived stream, named as it is written.
    """
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
    side = Side(source, reference, stream)
    if reference.through is None:
        return side
    through = bind_through(side, reference.through)
    return replace(side, stream=replace(stream, name=str(through), derived=True), through=through)


def bind_through(side: Side, clause: ThroughClause) -> Through:
    """The block of the user's own that a stream goes through."""
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
    return Through(side.stream, block.name, block.implementation, arguments)


def bind_join(
    clauses: Sequence[JoinClause], sides: Sequence[Side], catalog: Catalog, order_column: str | None
) -> tuple[Join, Scope]:
    """Bind a join of two or more streams; returns it with the scope of SELECT and WHERE.

    ON names the streams up to its own, but no right side of a semi or anti join before it. The
    conditions of the first joins, as long as they are inner, together are one predicate.
    """
    source = sides[0].source
    check_number(clauses, source)
    check_aliases(sides)
    scans, float_clock = bind_join_scans(sides, catalog, order_column)
    check_kinds(clauses, scans, sides[0].reference, source)
    kinds = ["inner" if clause.kind == "cross" else clause.kind for clause in clauses]
    inputs = tuple(
        Input(side.reference.alias.text, side.stream, number, joined=True)
        for number, side in enumerate(sides)
    )
    hidden = tuple(one for one, kind in zip(inputs[1:], kinds, strict=True) if kind in ONE_SIDED)
    conditions: list[Expression] = []
    for clause, right in zip(clauses, inputs[1:], strict=True):
        named = tuple(one for one in inputs[: right.side] if one not in hidden)
        gone = tuple(one for one in hidden if one.side < right.side)
        later = inputs[right.side + 1 :]
        scope = Scope(source, (*named, right), gone, later, clause="in ON")
        conditions.append(TRUE if clause.on is None else bind_condition(clause.on, scope))
    scope = Scope(source, tuple(one for one in inputs if one not in hidden), hidden)
    if len(kinds) == 1:
        return Join(kinds[0], scans, conditions[0], float_clock), scope
    inner = next((i for i, kind in enumerate(kinds) if kind != "inner"), len(kinds))
    written = [one for one in conditions[:inner] if one != TRUE]
    on = conjunction(tuple(term for one in written for term in conjuncts(one)))
    steps = tuple(map(JoinStep, kinds[inner:], conditions[inner:]))
    return Join(
        "inner", scans, on if len(written) != 1 else written[0], float_clock, steps=steps
    ), scope


def check_aliases(sides: Sequence[Side]) -> None:
    """Refuse two streams of one name."""
    known: set[str] = set()
    for side in sides:
        name = side.reference.alias
        if name.text.lower() in known:
            raise SqlError.at(
                side.source,
                *name.at,
                f"{'both' if len(sides) == 2 else 'two'} streams are named {name.text}",
                f"Give one of them another name: {side.stream.name} [...] AS other.",
            )
        known.add(name.text.lower())


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
