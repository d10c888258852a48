"""Let joins, aggregates and selections pass on only the columns that are read after them.

Windows store whole tuples, because a later change may read other columns. The rule saves gathering
the unread columns for every pair, or filtering them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.sql.expressions import Column, Expression, rebuild, walk
from penstock.sql.plan import Aggregate, Call, Join, Output, Plan, Select, SortKey, Union

ReadColumns = tuple[tuple[int, ...], ...]
"""The columns of each input that are read."""


def push_down_projection(plan: Plan) -> Plan:
    """Set ``columns`` of joins and ``columns_read`` of selections, and renumber what is above."""
    if isinstance(plan.body, Union):
        branches = (_prune(select, (), False)[0] for select in plan.body.branches)
        return replace(plan, body=Union(tuple(branches)))
    body, sort = _prune(plan.body, plan.sort, bool(plan.sort) or plan.limit is not None)
    return replace(plan, body=body, sort=sort)


def _prune(
    select: Select, sort: tuple[SortKey, ...], is_ordered: bool
) -> tuple[Select, tuple[SortKey, ...]]:
    source = select.source
    if isinstance(source, Aggregate):
        select = replace(select, source=_prune_below(source))
    elif is_ordered:
        return (
            select,
            sort,
        )  # rows are held until the end, and a change may read their other columns
    elif isinstance(source, Join):
        return _prune_join(select, source, sort)
    # The condition still reads all columns; the select list and the order read the selected ones.
    above = [c.expression for c in select.columns] + [key.expression for key in sort]
    read = set(_read(above, 1)[0])
    if is_ordered and isinstance(source, Aggregate) and source.window is not None:
        read.add(source.window_column)
    columns_read = tuple(sorted(read))
    renumber = _renumbering((columns_read,))
    columns, keys = _renumber_outputs(select.columns, renumber), _renumber_keys(sort, renumber)
    return replace(select, columns=columns, columns_read=columns_read), keys


def _prune_join(
    select: Select, join: Join, sort: tuple[SortKey, ...]
) -> tuple[Select, tuple[SortKey, ...]]:
    outputs = [c.expression for c in select.columns]
    columns = _read([select.where, *outputs, *(k.expression for k in sort)], len(join.inputs))
    renumber = _renumbering(columns)
    pruned = replace(
        select,
        source=replace(join, columns=columns),
        where=renumber(select.where),
        columns=_renumber_outputs(select.columns, renumber),
    )
    return pruned, _renumber_keys(sort, renumber)


def _prune_below(aggregate: Aggregate) -> Aggregate:
    """Prune a join below an aggregate to the columns of its condition, keys and calls."""
    if not isinstance(aggregate.source, Join):
        return aggregate
    keys = [key.expression for key in aggregate.keys]
    conditions = [call.condition for call in aggregate.calls]
    arguments = [call.argument for call in aggregate.calls if call.argument is not None]
    inputs = len(aggregate.source.inputs)
    columns = _read([aggregate.where, *keys, *conditions, *arguments], inputs)
    renumber = _renumbering(columns)

    def renumbered(call: Call) -> Call:
        argument = None if call.argument is None else renumber(call.argument)
        return replace(call, argument=argument, condition=renumber(call.condition))

    return replace(
        aggregate,
        source=replace(aggregate.source, columns=columns),
        where=renumber(aggregate.where),
        keys=_renumber_outputs(aggregate.keys, renumber),
        calls=tuple(map(renumbered, aggregate.calls)),
    )


def _read(expressions: Iterable[Expression], inputs: int) -> ReadColumns:
    """The columns of each input that the expressions read."""
    found: list[set[int]] = [set() for _ in range(inputs)]
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Column):
                found[node.side].add(node.index)
    return tuple(tuple(sorted(columns)) for columns in found)


def _renumbering(columns: ReadColumns) -> Callable[[Expression], Expression]:
    places = [{column: place for place, column in enumerate(side)} for side in columns]

    def renumber(expression: Expression) -> Expression:
        if isinstance(expression, Column):
            return replace(expression, index=places[expression.side][expression.index])
        return rebuild(expression, renumber)

    return renumber


def _renumber_outputs(
    columns: tuple[Output, ...], renumber: Callable[[Expression], Expression]
) -> tuple[Output, ...]:
    return tuple(Output(column.name, renumber(column.expression)) for column in columns)


def _renumber_keys(
    keys: tuple[SortKey, ...], renumber: Callable[[Expression], Expression]
) -> tuple[SortKey, ...]:
    return tuple(replace(key, expression=renumber(key.expression)) for key in keys)
