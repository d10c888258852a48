"""The order of rows: by group keys, or by ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.functions import compare
from penstock.oracle.values import Row, Value
from penstock.sql.plan import Plan, SortKey

Sides = tuple[Row, ...]


def compare_values(left: Value, right: Value) -> int:
    """-1, 0 or 1. NULL equals NULL and comes before everything, NaN after all other numbers.

    >>> compare_values(None, 1), compare_values(None, None), compare_values(float("nan"), 1.0)
    (-1, 0, 1)
    """
    if left is None or right is None:
        return int(left is not None) - int(right is not None)
    return compare(left, right)


def compare_rows(left: Sequence[Value], right: Sequence[Value]) -> int:
    """Compare by the first values that differ: -1, 0 or 1."""
    for one, other in zip(left, right, strict=True):
        order = compare_values(one, other)
        if order:
            return order
    return 0


by_values = cmp_to_key(compare_rows)


@dataclass(frozen=True)
class Ordering:
    """ORDER BY and LIMIT. The sort is stable."""

    sort: tuple[SortKey, ...] = ()
    limit: int | None = None

    @classmethod
    def of(cls, plan: Plan) -> Ordering:
        return cls(plan.sort, plan.limit)

    def apply(self, rows: list[Sides], failures: Failures) -> list[Sides]:
        """The rows that remain, in order. Keys are expressions over the rows' inputs."""
        # Stable sorts from the last key to the first make the first key the most significant.
        for key in reversed(self.sort):
            rows = self._sorted(rows, key, failures)
        return rows if self.limit is None else rows[: self.limit]

    def _sorted(self, rows: list[Sides], key: SortKey, failures: Failures) -> list[Sides]:
        keyed = [(evaluate(key.expression, row, failures), row) for row in rows]
        nulls = [row for value, row in keyed if value is None]
        others = [(value, row) for value, row in keyed if value is not None]
        sign = -1 if key.descending else 1
        by_value = cmp_to_key(lambda one, other: sign * compare(one, other))
        found = [row for _, row in sorted(others, key=lambda pair: by_value(pair[0]))]
        return nulls + found if key.nulls_first else found + nulls
