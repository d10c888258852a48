"""Let a join or a selection hand on only the columns that something after it reads.

The windows keep whole tuples, because a later change may read other columns; what this rule saves
is gathering the others for every pair, or filtering them.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.expressions import Column, Expression, rebuild, walk
from penstock.sql.plan import Join, Output, Plan, Select
from penstock.sql.rules.over_selects import over_selects


def push_down_projection(plan: Plan) -> Plan:
    """Fill in ``columns`` of joins and ``kept`` of selections, and renumber what is above them."""
    return over_selects(plan, _prune)


def _prune(select: Select) -> Select:
    join = select.source
    if not isinstance(join, Join):
        return _prune_scan(select)
    read: tuple[set[int], set[int]] = (set(), set())
    for expression in (select.where, *(column.expression for column in select.columns)):
        for node in walk(expression):
            if isinstance(node, Column):
                read[node.side].add(node.index)
    columns = (tuple(sorted(read[0])), tuple(sorted(read[1])))

    def renumber(expression: Expression) -> Expression:
        if isinstance(expression, Column):
            return replace(expression, index=columns[expression.side].index(expression.index))
        return rebuild(expression, renumber)

    return replace(
        select,
        source=replace(join, columns=columns),
        where=renumber(select.where),
        columns=tuple(Output(c.name, renumber(c.expression)) for c in select.columns),
    )


def _prune_scan(select: Select) -> Select:
    """The condition still reads all columns; the select list reads what passes."""
    nodes = [node for column in select.columns for node in walk(column.expression)]
    kept = tuple(sorted({node.index for node in nodes if isinstance(node, Column)}))

    def renumber(expression: Expression) -> Expression:
        if isinstance(expression, Column):
            return replace(expression, index=kept.index(expression.index))
        return rebuild(expression, renumber)

    columns = tuple(Output(c.name, renumber(c.expression)) for c in select.columns)
    return replace(select, columns=columns, kept=kept)
