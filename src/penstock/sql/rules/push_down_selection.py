"""Move WHERE into an inner join's predicate.

For an inner join, ``ON a WHERE b`` and ``ON a AND b`` are equivalent, also below an aggregate;
HAVING stays in place. Outer, semi and anti joins, and trees with such joins, keep their WHERE: it
applies after padding, and a change of it applies to combinations that were formed before. The
contents of windows do not change, because a window holds the stream's tuples whatever the predicate
is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from penstock.sql.expressions import TRUE, Expression, conjunction, conjuncts
from penstock.sql.plan import Aggregate, Join, Plan, Scan, Select


def push_down_selection(plan: Plan) -> Plan:
    """``SELECT … FROM R JOIN S ON a WHERE b`` becomes ``… ON a AND b``."""
    return plan.map_selects(_push)


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
    return isinstance(source, Join) and source.kind == "inner" and not source.steps


def _with_where(join: Join, where: Expression) -> Join:
    return replace(join, on=conjunction(conjuncts(join.on) + conjuncts(where)))
