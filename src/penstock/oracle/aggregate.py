"""An aggregate over a list of tuples: grouping, HAVING, the select list, and every call.

``oracle/time_windows.py`` and ``oracle/count_windows.py`` decide which tuples are in a window and
when its rows are emitted. A call is computed from the whole list of its tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.oracle.arithmetic import (
    EXACT,
    Failure,
    decimal_in,
    half_away,
    integer_in,
    nearest_double,
)
from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.order import Ordering, Sides, by_values, compare_rows, compare_values
from penstock.oracle.values import Row, Type, Value
from penstock.sql.plan import Aggregate, Call, Select
from penstock.streams.schema import type_name


@dataclass
class Record:
    """A tuple that passed WHERE, with the values that the program in force then computed from it.

    ``number`` counts arrivals; ``time`` is the tuple's time, if the query needs it. ``values`` has
    the argument of each call whose FILTER the tuple passed. A change that removes a call removes
    its values; a call that a change adds has no values of earlier tuples.
    """

    number: int
    time: Value
    key: Row
    values: dict[Call, Value]


class QueryStopped(PenstockError):
    """A query has failed and emits no more; ``rows`` are its rows of the current event."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.rows: list[Row] = []


def concat_rows(parts: Iterable[list[Row]]) -> list[Row]:
    """The rows of all parts. If one raises QueryStopped, the error carries the rows before it."""
    out: list[Row] = []
    try:
        for part in parts:
            out += part
    except QueryStopped as stopped:
        stopped.rows = out + stopped.rows
        raise
    return out


class Grouping:
    """The program of an aggregate: WHERE, keys, calls, HAVING and the select list."""

    def __init__(self, select: Select, ordering: Ordering, failures: Failures) -> None:
        self.failures = failures
        self.program(select, ordering, [])

    def program(self, select: Select, ordering: Ordering, records: Iterable[Record]) -> None:
        """Install another program: of these tuples, only calls that stay keep their values."""
        assert isinstance(select.source, Aggregate)
        self.select = select
        self.aggregate = select.source
        self.ordering = ordering
        for record in records:
            stay = [call for call in self.aggregate.calls if call in record.values]
            record.values = {call: record.values[call] for call in stay}

    def take(self, sides: Sides, number: int, time: Value) -> Record | None:
        """The record of a tuple, or None if WHERE is not true."""
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
            The tuples in the window.
        borders
            Its start and end; empty for the whole input.
        shown
            Its name in errors: ``of the window [0, 10) `` or nothing.
        empty
            Whether an empty window has a row. There are no keys then.
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
            raise QueryStopped(
                f"{call} {shown}is {overflow.shown}, which does not fit {type_name(call.type)}",
                _remedy(call),
            ) from None


def _remedy(call: Call) -> str:
    if pa.types.is_integer(call.type):
        return f"Sum a decimal: SUM(CAST({call.argument} AS decimal(38, 0)))."
    return f"Make the values smaller, or fewer, before {call.name.upper()} gets them."


@dataclass(frozen=True)
class Item:
    """A tuple that a call counts: the value of its argument, and its place for FIRST and LAST.

    A place is the tuple's time, if it has one, then its arrival number.
    """

    place: tuple[Value, int]
    value: Value


class Overflow(Exception):
    """A result that does not fit its type; ``shown`` is the exact result."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self.shown = shown


def result(call: Call, items: list[Item]) -> Value:
    """The result of a call over all tuples that passed its FILTER.

    >>> items = [Item((0, 0), "x"), Item((0, 1), "x")]
    >>> result(Call("count", None, pa.int64()), items)
    2
    """
    if call.name in ("first", "last"):
        return _end_value(call.name, items)
    values = [item.value for item in items if call.argument is None or item.value is not None]
    if call.name == "count":
        return len(_distinct(values)) if call.distinct else len(values)
    return NUMBERS[call.name](values, call.type) if values else None


def plain(value: Value) -> Value:
    """The value, with negative zero as 0.0."""
    return value + 0.0 if isinstance(value, float) else value


def _end_value(name: str, items: list[Item]) -> Value:
    if not items:
        return None
    chosen = (min if name == "first" else max)(items, key=lambda item: item.place)
    return chosen.value


def _distinct(values: list[Value]) -> list[Value]:
    found: list[Value] = []
    for value in values:
        if all(compare_values(value, other) != 0 for other in found):
            found.append(value)
    return found


def _smallest(values: list[Value], kind: Type) -> Value:
    best = values[0]
    for value in values:
        best = value if compare_values(value, best) < 0 else best
    return plain(best)


def _largest(values: list[Value], kind: Type) -> Value:
    best = values[0]
    for value in values:
        best = value if compare_values(value, best) > 0 else best
    return plain(best)


def _exact_sum(values: list[Value]) -> Fraction | float:
    """The sum as a fraction; a float if it is NaN or infinite."""
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    if odd:
        same = all(value == odd[0] for value in odd)
        return odd[0] if same else math.nan
    return sum(map(Fraction, values), Fraction(0))


def _sum(values: list[Value], kind: Type) -> Value:
    return _in_type(_exact_sum(values), kind)


def _avg(values: list[Value], kind: Type) -> Value:
    return _in_type(_exact_sum(values) / len(values), kind)


def _in_type(exact: Fraction | float, kind: Type) -> Value:
    """An exact result, rounded once to its type."""
    if isinstance(exact, float):
        return exact
    if pa.types.is_floating(kind):
        return nearest_double(exact)
    try:
        return (
            decimal_in(exact, kind) if pa.types.is_decimal(kind) else integer_in(int(exact), kind)
        )
    except Failure:
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        shown = Decimal(half_away(exact * 10**scale)).scaleb(-scale, EXACT)
        raise Overflow(f"{shown:f}") from None


def _variance(values: list[Value], sample: bool) -> Fraction | float | None:
    """The variance of a population or, with ``sample``, the estimate from a sample."""
    count = len(values)
    if sample and count == 1:
        return None
    total = _exact_sum(values)
    if isinstance(total, float):
        return math.nan
    squares = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    return (squares - total**2 / count) / (count - 1 if sample else count)


def _var(sample: bool) -> Callable[[list[Value], Type], Value]:
    def var(values: list[Value], kind: Type) -> Value:
        exact = _variance(values, sample)
        return nearest_double(exact) if isinstance(exact, Fraction) else exact

    return var


def _stddev(sample: bool) -> Callable[[list[Value], Type], Value]:
    def stddev(values: list[Value], kind: Type) -> Value:
        exact = _variance(values, sample)
        return _root(exact) if isinstance(exact, Fraction) else exact

    return stddev


def _root(value: Fraction) -> float:
    """The square root, correct to the last digit of a double.

    >>> _root(Fraction(9, 4)), _root(Fraction(4) * 10**400)
    (1.5, 2e+200)
    """
    if value == 0:
        return 0.0
    # The root of an integer of more than 128 bits has more digits than a double.
    shift = max(0, 128 - value.numerator.bit_length() + value.denominator.bit_length())
    shift += shift % 2
    return nearest_double(Fraction(math.isqrt(int(value * 2**shift)), 2 ** (shift // 2)))


NUMBERS: dict[str, Callable[[list[Value], Type], Value]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _smallest,
    "max": _largest,
    "var_pop": _var(sample=False),
    "var_samp": _var(sample=True),
    "stddev_pop": _stddev(sample=False),
    "stddev_samp": _stddev(sample=True),
}
"""The calls that ignore NULLs and are NULL over no tuples."""
