"""Move WHERE into an inner join's predicate.

For an inner join ``ON a WHERE b`` and ``ON a AND b`` are the same, below an aggregate too; HAVING
stays where it is. Outer, semi and anti joins keep their WHERE: it applies after padding. What a
window holds does not change either way, because a window holds the stream's tuples whatever the
predicate says; only who may meet whom does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from penstock.sql.expressions import TRUE, Expression, conjunction, conjuncts
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select
from penstock.sql.rules.over_selects import over_selects


def push_down_selection(plan: Plan) -> Plan:
    """``SELECT … FROM R JOIN S ON a WHERE b`` becomes ``… ON a AND b``."""
    return over_selects(plan, _push)


def _push(select: Select) -> Select:
    source = select.source
    if isinstance(source, Aggregate):
        if not _takes_where(source.source):
            return select
        joined = _with_where(source.source, source.where)
        return replace(select, source=replace(source, source=joined, where=TRUE))
    if not _takes_where(source):
        return select
    return replace(select, source=_with_where(source, select.where), where=TRUE)


def _takes_where(source: Scan | Join) -> TypeGuard[Join]:
    return isinstance(source, Join) and source.kind == "inner"


def _with_where(join: Join, where: Expression) -> Join:
    return replace(join, on=conjunction(conjuncts(join.on) + conjuncts(where)))
