"""Move WHERE into an inner join's predicate.

For an inner join ``ON a WHERE b`` and ``ON a AND b`` are the same. Outer, semi and anti joins keep
their WHERE: it applies after padding. What a window holds does not change either way, because a
window holds the stream's tuples whatever the predicate says; only who may meet whom does.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.expressions import TRUE, conjunction, conjuncts
from penstock.sql.plan import Join, Plan, Select
from penstock.sql.rules.over_selects import over_selects


def push_down_selection(plan: Plan) -> Plan:
    """``SELECT … FROM R JOIN S ON a WHERE b`` becomes ``… ON a AND b``."""
    return over_selects(plan, _push)


def _push(select: Select) -> Select:
    join = select.source
    if not isinstance(join, Join) or join.kind != "inner":
        return select
    on = conjunction(conjuncts(join.on) + conjuncts(select.where))
    return replace(select, source=replace(join, on=on), where=TRUE)
