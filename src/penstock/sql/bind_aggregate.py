"""A SELECT with aggregates or groups: what is computed before them, in them, and after them.

The select list, HAVING and ORDER BY are bound in two steps. First over the columns of the streams,
with every aggregate, and every border of a window, standing as a column of a side of its own
(``RESULTS``). Then what is left of the streams' columns must be a key of GROUP BY, and the
whole is renumbered to the columns of the :class:`penstock.sql.plan.Aggregate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.errors import SqlError
from penstock.sql.aggregates import AGGREGATES, distinct, has_aggregate
from penstock.sql.arrow_types import INT64
from penstock.sql.bind_expression import bind_condition, bind_expression, check_functions
from penstock.sql.bind_item import bind_item, names_of
from penstock.sql.bind_keys import bind_keys, distinct_keys
from penstock.sql.bind_order import bind_sort
from penstock.sql.bind_sliding import Windows, check_first
from penstock.sql.dialect import Span, span
from penstock.sql.expressions import TRUE, Column, Expression
from penstock.sql.plan import Aggregate, Call, Join, Output, Scan, Select, SortKey
from penstock.sql.regroup import Regrouping
from penstock.sql.scope import PSEUDO_COLUMNS, RESULTS, Names, Scope
from penstock.sql.syntax import SelectClause, SortItem
from penstock.sql.types import Argument, TypeProblem
from penstock.streams.windows import Sliding

COUNT_ALL = Call("count", None, INT64)


def is_grouped(select: SelectClause, sort: Sequence[SortItem], source: str) -> bool:
    """Whether the SELECT aggregates: it has an aggregate, GROUP BY or DISTINCT."""
    values = [item.value for item in select.items] + [item.value for item in sort]
    if select.having is not None:
        values.append(select.having)
    if select.group or select.distinct is not None or any(map(has_aggregate, values)):
        return True
    # A function that nobody knows was meant to aggregate, more often than not.
    check_functions(values, Scope(source, ()))
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
    """The aggregates of a SELECT, each once, in the order in which they were met."""

    scope: Scope
    found: list[Call] = field(default_factory=list)

    def bind(self, node: exp.Expr) -> Column:
        """The aggregate as a column of the results."""
        call = bind_call(node, self.scope)
        if call not in self.found:
            self.found.append(call)
        return Column(RESULTS, self.found.index(call), str(call), call.type)


def bind_call(node: exp.Expr, scope: Scope) -> Call:
    """``name([DISTINCT] argument) [FILTER (WHERE condition)]``."""
    condition: Expression = TRUE
    if isinstance(node, exp.Filter):
        condition = bind_condition(node.expression, replace(scope, clause="in FILTER"))
        node = node.this
    name = node.name.upper()
    function, args = AGGREGATES[name], list(node.expressions)
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
        raise scope.fail(
            span(node),
            f"{name} takes one argument, not {len(args)}",
            f"Write {text}{more}.",
        )
    if isinstance(args[0], exp.Star) and name == "COUNT" and not unique:
        return replace(COUNT_ALL, condition=condition)
    argument = Argument(bind_expression(args[0], scope), scope.text(args[0]))
    try:
        typed = (distinct if unique else function.bind)(name, argument)
    except TypeProblem as problem:
        raise scope.fail(span(args[0]), problem.what, problem.remedy) from None
    return Call(function.name, typed[0], typed[1], unique, condition)


@dataclass(frozen=True)
class Grouped:
    """What a SELECT aggregates: a source with its windows, and what can be named of it.

    ``empty`` is where EMIT EMPTY stands, if it does.
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
    select: SelectClause, grouped: Grouped, sort: Sequence[SortItem]
) -> tuple[Select, tuple[SortKey, ...]]:
    """The SELECT, and the keys of ORDER BY over its aggregate."""
    plain = replace(grouped.scope, windowed=grouped.windows.window is not None)
    where = bind_where(select, plain)
    calls, borders = Calls(plain), grouped.borders
    over = replace(plain, first=borders, aggregate=calls.bind)
    items = [(item.value, bind_item(item, over)) for item in select.items]
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
    aggregate = aggregated(grouped, where, keys, calls)
    check_empty(grouped, aggregate)
    regroup = Regrouping(plain, keys, len(aggregate.calls))
    columns = [
        Output(output.name, regroup.of(output.expression, node))
        for node, several in items
        for output in several
    ]
    kept: Expression = TRUE
    if having is not None and select.having is not None:
        kept = regroup.of(having, select.having)
    return Select(aggregate, kept, tuple(columns)), tuple(
        replace(key, expression=regroup.of(key.expression, item.value))
        for key, item in zip(order, sort, strict=True)
    )


def bind_where(select: SelectClause, scope: Scope) -> Expression:
    """The condition on tuples, before they are aggregated."""
    if select.where is None:
        return TRUE
    return bind_condition(select.where, replace(scope, clause="in WHERE"))


def aggregated(
    grouped: Grouped, where: Expression, keys: tuple[Output, ...], calls: Calls
) -> Aggregate:
    """The aggregate, once all its calls are known."""
    # Rows by window alone, without a single aggregate: something must tell that there is one.
    found = tuple(calls.found) if calls.found or keys else (COUNT_ALL,)
    window, time = grouped.windows.window, grouped.windows.time
    if not isinstance(window, Sliding) and time is not None:
        if any(call.name in ("first", "last") for call in found):
            check_first(grouped.windows.side, time)
        else:
            time = None
    return Aggregate(grouped.source, where, keys, found, window, time, grouped.empty is not None)


def check_distinct(select: SelectClause, calls: Calls) -> None:
    """SELECT DISTINCT makes groups of its own."""
    if select.distinct is not None and (select.group or calls.found):
        raise calls.scope.fail(
            select.distinct,
            "SELECT DISTINCT with aggregates or GROUP BY",
            "Leave DISTINCT out; there is one row for each group.",
        )


def check_empty(grouped: Grouped, aggregate: Aggregate) -> None:
    """EMIT EMPTY is for windows without groups."""
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
