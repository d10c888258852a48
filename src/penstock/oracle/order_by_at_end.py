"""ORDER BY and LIMIT over a bounded input: rows are held back until its end."""

from __future__ import annotations

from dataclasses import replace

from penstock.oracle.count_windows import by_input, every_column
from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.order import Ordering, Sides
from penstock.oracle.values import Row
from penstock.sql.expressions import Column
from penstock.sql.plan import Aggregate, Join, Output, Plan, Scan, Select


class OrderByAtEnd:
    """Holds the rows of a query before its select list; those of a union after the select lists.

    Aggregates do not need it: they sort the rows of each window.
    """

    def __init__(self, plan: Plan) -> None:
        self.rows: list[Row] = []
        self.answered = False
        self.program(plan)

    @staticmethod
    def is_for(plan: Plan) -> bool:
        """Whether a query has ORDER BY or LIMIT without windows to apply it to."""
        aggregate = isinstance(plan.body, Select) and isinstance(plan.body.source, Aggregate)
        return bool(plan.sort or plan.limit is not None) and not aggregate

    def program(self, plan: Plan) -> None:
        """Change the program; the rows held stay."""
        self.plan = plan

    @property
    def selects(self) -> tuple[Select, ...]:
        """The SELECTs that run instead of the query's: its WHERE, and all columns for sort keys."""
        if not isinstance(self.plan.body, Select):
            return self.plan.selects
        select = self.plan.body
        return (replace(select, columns=_all_columns(select.source)),)

    def take(self, rows: list[Row], ended: bool, failures: Failures) -> list[Row]:
        """Hold rows back; at the end of the input, return all of them in order."""
        self.rows += rows
        if not ended or self.answered:
            return []
        self.answered = True
        ordered = Ordering.of(self.plan).apply([self._sides(row) for row in self.rows], failures)
        if not isinstance(self.plan.body, Select):
            return [row for (row,) in ordered]
        columns = self.plan.body.columns
        return [tuple(evaluate(c.expression, row, failures) for c in columns) for row in ordered]

    def _sides(self, row: Row) -> Sides:
        if isinstance(self.plan.body, Select) and isinstance(self.plan.body.source, Join):
            return by_input(row, self.plan.body.source)
        return (row,)


def _all_columns(source: Scan | Join | Aggregate) -> tuple[Output, ...]:
    if isinstance(source, Join):
        return every_column(source).columns
    assert isinstance(source, Scan)
    fields = enumerate(source.stream.schema)
    return tuple(Output(f.name, Column(0, index, f.name, f.type)) for index, f in fields)
