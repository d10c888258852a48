"""What an aggregate call is worth over a list of tuples, computed from the whole list."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.oracle.arithmetic import (
    EXACT,
    Failure,
    decimal_in,
    half_away,
    integer_in,
    nearest_double,
)
from penstock.oracle.order import compare_values
from penstock.oracle.values import Type, Value
from penstock.sql.plan import Call


@dataclass(frozen=True)
class Item:
    """A tuple that a call counts: the value of its argument, and its place for FIRST and LAST.

    A place is the tuple's time, if it has one, and then its number among the arrivals.
    """

    place: tuple[Value, int]
    value: Value


class Overflow(Exception):
    """A result that its type does not hold; ``shown`` is the exact result."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self.shown = shown


def result(call: Call, items: list[Item]) -> Value:
    """The call over all the tuples that its FILTER let through.

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
    """The value itself, but for negative zero, which is 0.0."""
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
    """Of a population, or what a sample says of the population it is from."""
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
    """The square root, right to within the last digit of a double.

    >>> _root(Fraction(9, 4)), _root(Fraction(4) * 10**400)
    (1.5, 2e+200)
    """
    if value == 0:
        return 0.0
    # A root of an integer of more than 128 bits has more digits than a double can show.
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
"""The calls that ignore NULLs and are NULL over nothing."""
