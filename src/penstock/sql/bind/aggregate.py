"""Binds a SELECT with aggregates or groups.

The select list, HAVING and ORDER BY are bound in two steps. The first binds them over the columns
of the streams, with every aggregate and every border of a window as a column on a side of its own
(``RESULTS``). The second requires the remaining columns of the streams to be keys of GROUP BY, and
renumbers everything to the columns of the :class:`penstock.sql.plan.Aggregate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyarrow import types as arrow
from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.arrow_types import INT64
from penstock.sql.bind.aggregate_functions import (
    bound_call,
    has_aggregate,
    is_aggregate,
)
from penstock.sql.bind.coercion import Argument, TypeProblem
from penstock.sql.bind.expression import bind, bind_condition, bind_expression, check_functions
from penstock.sql.bind.order_by import bind_sort
from penstock.sql.bind.scope import PSEUDO_COLUMNS, RESULTS, Names, Scope
from penstock.sql.bind.select_list import bind_items, name_of, names_of, position
from penstock.sql.bind.sliding_window import Windows, check_first
from penstock.sql.expressions import TRUE, Column, Expression, rebuild, walk
from penstock.sql.parse.dialect import Span, span
from penstock.sql.parse.syntax import SelectClause, SortItem
from penstock.sql.plan import Aggregate, Call, Join, Output, Scan, Select, SortKey
from penstock.streams.windows import Sliding

COUNT_ALL = Call("count", None, INT64)


def is_grouped(select: SelectClause, sort: Sequence[SortItem], source: str) -> bool:
    """Whether the SELECT aggregates: it has an aggregate, GROUP BY or DISTINCT."""
    values = [item.value for item in select.items] + [item.value for item in sort]
    if select.having is not None:
        values.append(select.having)
    # An unknown function is most likely an aggregate or a window of another engine.
    check_functions([*values, *select.group], Scope(source, ()), select.left.stream.text)
    if select.group or select.distinct is not None or any(map(has_aggregate, values)):
        return True
    if select.having is not None:
        raise SqlError.at(
            source,
            *span(select.having),
            "HAVING, but nothing is aggregated",
            "Write the condition in WHERE.",
        )
    return False


@dataclass
class Calls:
    """The aggregates of a SELECT, each once, in order of first appearance."""

    scope: Scope
    _places: dict[Call, int] = field(default_factory=dict)

    @property
    def found(self) -> list[Call]:
        """The aggregates in order."""
        return list(self._places)

    def bind(self, node: exp.Expr) -> Column:
        """Bind an aggregate to a column of the results."""
        call = bind_call(node, self.scope)
        place = self._places.setdefault(call, len(self._places))
        return Column(RESULTS, place, str(call), call.type)


def bind_call(node: exp.Expr, scope: Scope) -> Call:
    """Bind ``name([DISTINCT] argument) [FILTER (WHERE condition)]``."""
    condition: Expression = TRUE
    if isinstance(node, exp.Filter):
        condition = bind_condition(node.expression, replace(scope, clause="in FILTER"))
        node = node.this
    name = node.name.upper()
    args = list(node.expressions)
    unique = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if unique:
        args = args[0].expressions
        if name != "COUNT":
            raise scope.fail(
                span(node),
                f"DISTINCT in {name}",
                "DISTINCT is for COUNT alone; leave it out, or group in a derived stream first.",
            )
    if len(args) != 1:
        more = ", or COUNT(*) for all rows" if name == "COUNT" else ""
        if name in ("FIRST", "LAST"):
            more = ", and FILTER (WHERE x IS NOT NULL) after it to leave NULLs out"
        text = f"{name}(DISTINCT x)" if unique else f"{name}(x)"
        if unique and len(args) > 1:
            columns = [f"CAST({scope.text(argument)} AS string)" for argument in args]
            together = " || ',' || ".join(columns)
            text, more = f"COUNT(DISTINCT {together})", ""
        raise scope.fail(
            span(node),
            f"{name} takes one argument, not {len(args)}",
            f"Write {text}{more}.",
        )
    if isinstance(args[0], exp.Star) and name == "COUNT" and not unique:
        return replace(COUNT_ALL, condition=condition)
    argument = Argument(bind_expression(args[0], scope), scope.text(args[0]))
    try:
        return bound_call(name, argument, unique, condition)
    except TypeProblem as problem:
        raise scope.fail(span(args[0]), problem.what, problem.remedy) from None


@dataclass(frozen=True)
class GroupedSource:
    """The input of an aggregating SELECT: a source with its windows, and its scope.

    ``empty`` is the place of EMIT EMPTY in the text, or None.
    """

    source: Scan | Join
    windows: Windows
    scope: Scope
    empty: Span | None = None

    @property
    def borders(self) -> Names:
        """The pseudo-columns, as columns of the results."""
        if self.windows.window is None:
            return {}
        shell = Aggregate(self.source, TRUE, (), (), self.windows.window, self.windows.time)
        return {
            name: (Column(RESULTS, place - 2, name, shell.schema.field(name).type),)
            for place, name in enumerate(PSEUDO_COLUMNS)
        }


def bind_grouped(
    select: SelectClause, grouped: GroupedSource, sort: Sequence[SortItem]
) -> tuple[Select, tuple[SortKey, ...]]:
    """Bind the SELECT, and the keys of ORDER BY over its aggregate."""
    plain = replace(grouped.scope, windowed=grouped.windows.window is not None)
    where = bind_where(select, plain)
    calls, borders = Calls(plain), grouped.borders
    over = replace(plain, first=borders, aggregate=calls.bind)
    items = bind_items(select.items, over)
    outputs = [output for _, columns in items for output in columns]
    if select.distinct is None:
        keys = bind_keys(select.group, outputs, plain, borders)
    else:
        check_distinct(select, calls)
        keys = distinct_keys(outputs)
    having = None
    if select.having is not None:
        having = bind_condition(select.having, replace(over, last=names_of(outputs)))
    order = bind_sort(sort, over, outputs)
    aggregate = build_aggregate(grouped, where, keys, calls)
    check_empty(grouped, aggregate)
    renumbering = Renumbering(plain, keys, len(aggregate.calls))
    columns = [
        Output(output.name, renumbering.of(output.expression, node))
        for node, several in items
        for output in several
    ]
    having_condition: Expression = TRUE
    if having is not None and select.having is not None:
        having_condition = renumbering.of(having, select.having)
    return Select(aggregate, having_condition, tuple(columns)), tuple(
        replace(key, expression=renumbering.of(key.expression, item.value))
        for key, item in zip(order, sort, strict=True)
    )


def bind_where(select: SelectClause, scope: Scope) -> Expression:
    """Bind the condition on tuples before aggregation."""
    if select.where is None:
        return TRUE
    return bind_condition(select.where, replace(scope, clause="in WHERE", named=select.names))


def build_aggregate(
    grouped: GroupedSource, where: Expression, keys: tuple[Output, ...], calls: Calls
) -> Aggregate:
    """Build the aggregate, once all its calls are known."""
    # With neither keys nor calls, a count tells which windows have tuples.
    found = tuple(calls.found) if calls.found or keys else (COUNT_ALL,)
    window, time = grouped.windows.window, grouped.windows.time
    if not isinstance(window, Sliding) and time is not None:
        if any(call.by_arrival for call in found):
            check_first(grouped.windows.side, time)
        else:
            time = None
    return Aggregate(grouped.source, where, keys, found, window, time, grouped.empty is not None)


def check_distinct(select: SelectClause, calls: Calls) -> None:
    """Refuse SELECT DISTINCT with GROUP BY or aggregates."""
    if select.distinct is not None and (select.group or calls.found):
        raise calls.scope.fail(
            select.distinct,
            "SELECT DISTINCT with aggregates or GROUP BY",
            "Leave DISTINCT out; there is one row for each group.",
        )


def check_empty(grouped: GroupedSource, aggregate: Aggregate) -> None:
    """Refuse EMIT EMPTY with groups or without windows."""
    if grouped.empty is None:
        return
    if aggregate.keys:
        raise grouped.scope.fail(
            grouped.empty,
            "EMIT EMPTY with GROUP BY",
            "An empty window has no groups; leave EMIT EMPTY out, or aggregate without GROUP BY.",
        )
    if aggregate.window is None:
        raise grouped.scope.fail(
            grouped.empty,
            "EMIT EMPTY without windows that slide",
            "Leave it out: over the whole input there is one row, whatever comes.",
        )


def bind_keys(
    group: Sequence[exp.Expr], outputs: Sequence[Output], plain: Scope, borders: Names
) -> tuple[Output, ...]:
    """Bind the keys of GROUP BY, each once. Rows are by window anyway, so borders are left out."""
    scope = replace(plain, clause="in GROUP BY", last={**names_of(outputs), **borders})
    keys: dict[Expression, Output] = {}
    for node in group:
        key = bind_key(node, outputs, scope, borders)
        if (key.expression,) not in borders.values():
            keys.setdefault(key.expression, key)
    return tuple(keys.values())


def bind_key(node: exp.Expr, outputs: Sequence[Output], scope: Scope, borders: Names) -> Output:
    """Bind one expression of GROUP BY: over columns, or a name or position of the select list."""
    check_border(node, scope, borders)
    chosen = position(node, outputs, scope)
    bound = bind_expression(node, scope) if chosen is None else chosen.expression
    results = results_in(bound)
    if results and (bound,) not in borders.values():
        is_call = any(result.index >= 0 for result in results)
        raise scope.fail(
            span(node),
            f"GROUP BY {scope.text(node)}, which is "
            + ("an aggregate" if is_call else "known only when the window closes"),
            "Group by expressions of columns alone.",
        )
    if arrow.is_duration(bound.type):
        raise scope.fail(
            span(node),
            "rows cannot be grouped by an interval",
            f"Write CAST({scope.text(node)} AS int64) for its seconds.",
        )
    return Output(name_of(node, bound, scope) if chosen is None else chosen.name, bound)


def check_border(node: exp.Expr, scope: Scope, borders: Names) -> None:
    """Refuse a name that is both a column of a stream and a border."""
    if not isinstance(node, exp.Column) or node.table or node.name.lower() not in borders:
        return
    owner = next((i for i in scope.inputs if i.stream.index_of(node.name) is not None), None)
    if owner is not None:
        raise scope.fail(
            span(node),
            f"ambiguous name '{node.name}': a column of {owner.alias}, and a border of the window",
            f"Write {owner.alias}.{node.name} for the column; leave it out for the border, since "
            "rows are by window anyway.",
        )


def distinct_keys(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The keys of SELECT DISTINCT: the whole select list but for aggregates and borders."""
    keys: dict[Expression, Output] = {}
    for output in outputs:
        if not results_in(output.expression):
            keys.setdefault(output.expression, output)
    return tuple(keys.values())


def results_in(expression: Expression) -> list[Column]:
    """The aggregates and window borders that the expression reads."""
    return [n for n in walk(expression) if isinstance(n, Column) and n.side == RESULTS]


class UngroupedColumn(Exception):
    """A column of a stream that is not in GROUP BY."""

    def __init__(self, column: Column) -> None:
        super().__init__(column.name)
        self.column = column


@dataclass(frozen=True)
class Renumbering:
    """Renumbers expressions over streams and results to the columns of an aggregate.

    These are the keys, the results of ``calls`` calls, and the borders of its window. ``scope`` is
    that of the streams.
    """

    scope: Scope
    keys: tuple[Output, ...]
    calls: int

    def of(self, expression: Expression, node: exp.Expr) -> Expression:
        """The expression that ``node`` was bound to, over the aggregate's columns."""
        try:
            return self._renumber(expression)
        except UngroupedColumn as problem:
            raise self._error(problem.column, node) from None

    @cached_property
    def _places(self) -> dict[Expression, int]:
        """The index of each key; the first of equal ones."""
        return {key.expression: place for place, key in reversed(list(enumerate(self.keys)))}

    def _renumber(self, expression: Expression) -> Expression:
        place = self._places.get(expression)
        if place is not None:
            return Column(0, place, self.keys[place].name, self.keys[place].type)
        if not isinstance(expression, Column):
            return rebuild(expression, self._renumber)
        if expression.side != RESULTS:
            raise UngroupedColumn(expression)
        place = expression.index
        if place < 0:  # a border of the window, which come after all results
            place += self.calls + len(PSEUDO_COLUMNS)
        return Column(0, len(self.keys) + place, expression.name, expression.type)

    def _error(self, column: Column, node: exp.Expr) -> SqlError:
        known = [k.expression if isinstance(k.expression, Column) else k.name for k in self.keys]
        keys = ", ".join(map(str, [*known, column]))
        return self.scope.fail(
            self._place(column, node),
            f"{column} is neither in GROUP BY nor in an aggregate",
            f"Write GROUP BY {keys}; or aggregate it, for instance FIRST({column}).",
        )

    def _place(self, column: Column, node: exp.Expr) -> Span:
        """The place of the column outside aggregates and grouped expressions."""
        for found in node.find_all(exp.Column):
            if (
                not found.is_star
                and self._bound(found) == column
                and not any(map(self._is_grouped_by, enclosing(found, node)))
            ):
                return span(found)
        return span(node)

    def _is_grouped_by(self, node: exp.Expr) -> bool:
        """Whether the node is an aggregate or a key."""
        return is_aggregate(node) or self._bound(node) in self._places

    def _bound(self, node: exp.Expr) -> Expression | None:
        try:
            return bind(node, self.scope)
        except SqlError:
            return None


def enclosing(node: exp.Expr, outermost: exp.Expr) -> list[exp.Expr]:
    """The node and its ancestors, up to the outermost."""
    found = [node]
    while found[-1] is not outermost and found[-1].parent is not None:
        found.append(found[-1].parent)
    return found
