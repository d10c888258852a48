"""Rewrite rules: each takes a plan and returns an equivalent one that costs less."""

from __future__ import annotations

from typing import Protocol

from penstock.sql.plan import Plan
from penstock.sql.rules.close_equalities import close_equalities
from penstock.sql.rules.push_down_projection import push_down_projection
from penstock.sql.rules.push_down_selection import push_down_selection
from penstock.sql.rules.split_join_predicate import split_join_predicate


class Rule(Protocol):
    """A function from plan to plan that never changes the rows."""

    def __call__(self, plan: Plan) -> Plan: ...


RULES: tuple[Rule, ...] = (
    push_down_selection,
    close_equalities,
    split_join_predicate,
    push_down_projection,
)
"""In order: later rules rely on earlier ones."""


def rewrite(plan: Plan) -> Plan:
    """Apply every rule once, in order."""
    for rule in RULES:
        plan = rule(plan)
    return plan
