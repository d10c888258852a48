"""Apply a function to every SELECT of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.sql.plan import Plan, Select, Union


def over_selects(plan: Plan, function: Callable[[Select], Select]) -> Plan:
    """The plan with ``function`` applied to each branch of a union, or to the only SELECT."""
    if isinstance(plan.body, Union):
        return replace(plan, body=Union(tuple(map(function, plan.body.branches))))
    return replace(plan, body=function(plan.body))
