"""What a query of a script gets of the options that are given for all of its queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.errors import SqlError
from penstock.program.flow_choice import ANY_FLOW, FlowChoice
from penstock.program.kernel_choice import KERNELS
from penstock.sql.parse import parse_query


@dataclass(frozen=True)
class Asked:
    """The order, kernel and flow that were asked for."""

    order: str | None = None
    kernel: str | None = None
    flow: FlowChoice = ANY_FLOW

    def without_join(self) -> Asked:
        """What is left of it for a query without a join, beside others that have one."""
        kernel = None if self.kernel in KERNELS else self.kernel
        return replace(self, kernel=kernel, flow=replace(self.flow, name=None, branching=None))


def asked_of(sql: str, asked: Asked, texts: Iterable[str]) -> Asked:
    """What a query is given, among the queries of these texts.

    What is for joins goes to those that have one. If none has, it is left to be refused.
    """
    left = asked.without_join()
    if left == asked or has_join(sql) or not any(map(has_join, texts)):
        return asked
    return left


@lru_cache(maxsize=256)
def has_join(sql: str) -> bool:
    """Whether the text of a query joins two streams itself.

    >>> has_join("SELECT x FROM R"), has_join("SELECT x FROM R [ROWS 1], S [ROWS 1]")
    (False, True)
    """
    try:
        query = parse_query(sql)
    except SqlError:
        return False  # whoever installs it will say why
    return any(select.join is not None for select in query.ast.selects)
