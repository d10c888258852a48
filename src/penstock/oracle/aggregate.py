"""An aggregate: what it takes of a tuple as it arrives, and the rows it makes of a list of them.

Which tuples are in a window, and when its rows are made, is for ``oracle/sliding.py`` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.oracle.calls import Item, Overflow, plain, result
from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.order import Ordering, Sides, by_values, compare_rows
from penstock.oracle.values import Row, Value
from penstock.sql.plan import Aggregate, Call, Select
from penstock.streams.schema import type_name


@dataclass
class Record:
    """A tuple that WHERE let through, with all that the program in force then saw in it.

    ``number`` counts arrivals, ``time`` is the tuple's, if the query needs it. ``values`` has the
    argument of each call whose FILTER let the tuple through; what a change has taken out of it is
    not counted any more, and a call that a change has added is not in it.
    """

    number: int
    time: Value
    key: Row
    values: dict[Call, Value]


class Stopped(PenstockError):
    """A query that cannot go on; it gives nothing more but ``rows``, which came before that."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.rows: list[Row] = []


def gathered(parts: Iterable[list[Row]]) -> list[Row]:
    """The rows of all parts; one that stops the query takes the rows before it along."""
    out: list[Row] = []
    try:
        for part in parts:
            out += part
    except Stopped as stopped:
        stopped.rows = out + stopped.rows
        raise
    return out


class Grouping:
    """The program of an aggregate: WHERE, keys, calls, and the HAVING and select list above it."""

    def __init__(self, select: Select, ordering: Ordering, failures: Failures) -> None:
        self.failures = failures
        self.program(select, ordering, [])

    def program(self, select: Select, ordering: Ordering, records: Iterable[Record]) -> None:
        """Take another program: of these tuples, only the calls that stay remember anything."""
        assert isinstance(select.source, Aggregate)
        self.select = select
        self.aggregate = select.source
        self.ordering = ordering
        for record in records:
            stay = [call for call in self.aggregate.calls if call in record.values]
            record.values = {call: record.values[call] for call in stay}

    def take(self, sides: Sides, number: int, time: Value) -> Record | None:
        """What is kept of a tuple; None if WHERE is not true on it."""
        if evaluate(self.aggregate.where, sides, self.failures) is not True:
            return None
        key = tuple(evaluate(k.expression, sides, self.failures) for k in self.aggregate.keys)
        values: dict[Call, Value] = {}
        for call in self.aggregate.calls:
            if evaluate(call.condition, sides, self.failures) is True:
                values[call] = (
                    None if call.argument is None else evaluate(call.argument, sides, self.failures)
                )
        return Record(number, time, key, values)

    def rows(self, records: list[Record], borders: Row, shown: str, empty: bool) -> list[Row]:
        """The rows of a window, in order.

        Parameters
        ----------
        records
            The tuples in it.
        borders
            Where it begins and ends; nothing for the whole input.
        shown
            What an error calls it: ``of the window [0, 10) `` or nothing.
        empty
            Whether there is a row even of nothing. There are no keys then.
        """
        made: list[Sides] = []
        for key, group in self._groups(records, empty):
            results = [self._result(call, group, shown) for call in self.aggregate.calls]
            row = (*map(plain, key), *results, *borders)
            if evaluate(self.select.where, (row,), self.failures) is True:
                made.append((row,))
        made = self.ordering.apply(made, self.failures)
        columns = self.select.columns
        return [tuple(evaluate(c.expression, row, self.failures) for c in columns) for row in made]

    def _groups(self, records: list[Record], empty: bool) -> list[tuple[Row, list[Record]]]:
        groups: list[tuple[Row, list[Record]]] = [((), [])] if empty else []
        for record in records:
            for key, group in groups:
                if compare_rows(key, record.key) == 0:
                    group.append(record)
                    break
            else:
                groups.append((record.key, [record]))
        return sorted(groups, key=lambda group: by_values(group[0]))

    def _result(self, call: Call, group: list[Record], shown: str) -> Value:
        items = [
            Item((record.time, record.number), record.values[call])
            for record in group
            if call in record.values
        ]
        try:
            return result(call, items)
        except Overflow as overflow:
            raise Stopped(
                f"{call} {shown}is {overflow.shown}, which does not fit {type_name(call.type)}",
                _remedy(call),
            ) from None


def _remedy(call: Call) -> str:
    if pa.types.is_integer(call.type):
        return f"Sum a decimal: SUM(CAST({call.argument} AS decimal(38, 0)))."
    return f"Make the values smaller, or fewer, before {call.name.upper()} gets them."
