"""The result of each aggregate call over a list of tuples."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.oracle.aggregate import Item, Overflow, result
from penstock.sql.expressions import Column
from penstock.sql.plan import Call

ARGUMENT = Column(0, 0, "x", pa.int64())
NAN = math.nan
INFINITY = math.inf


def over(name: str, values: list[Any], kind: Any = None, **more: Any) -> Any:
    kind = pa.float64() if kind is None else kind
    items = [Item((0, number), value) for number, value in enumerate(values)]
    return result(Call(name, ARGUMENT, kind, **more), items)


def test_count_leaves_nulls_out_and_count_star_does_not() -> None:
    assert over("count", [1, None, 1], pa.int64()) == 2
    assert result(Call("count", None, pa.int64()), [Item((0, n), None) for n in range(3)]) == 3


def test_count_distinct_takes_nan_and_zeros_as_equal() -> None:
    values = [0.0, -0.0, NAN, float("nan"), 1.0, None]
    assert over("count", values, pa.int64(), distinct=True) == 3


@pytest.mark.parametrize("name", ["sum", "avg", "min", "max", "var_pop", "stddev_samp"])
def test_over_nothing_a_call_is_null_and_count_is_zero(name: str) -> None:
    assert over(name, []) is None
    assert over(name, [None, None]) is None
    assert over("count", [], pa.int64()) == 0


def test_integer_sums_are_exact_on_the_way() -> None:
    most = 2**63 - 1
    assert over("sum", [most, most, -most], pa.int64()) == most


def test_an_integer_sum_that_does_not_fit_overflows() -> None:
    with pytest.raises(Overflow, match=r"^9223372036854775808$"):
        over("sum", [2**63 - 1, 1], pa.int64())
    with pytest.raises(Overflow, match=r"^-9223372036854775809$"):
        over("sum", [-(2**63), -1], pa.int64())


def test_decimal_sums_and_averages_are_rounded_once() -> None:
    cents = [Decimal("0.10"), Decimal("0.20"), Decimal("-1.01")]
    assert over("sum", cents, pa.decimal128(15, 2)) == Decimal("-0.71")
    assert str(over("avg", cents, pa.decimal128(9, 6))) == "-0.236667"
    halves = [Decimal("0.1"), Decimal("0.2")]
    assert str(over("avg", halves, pa.decimal128(9, 1))) == "0.2"
    with pytest.raises(Overflow, match=r"^100\.00$"):
        over("sum", [Decimal("99.99"), Decimal("0.01")], pa.decimal128(4, 2))


def test_float_sums_are_rounded_once() -> None:
    assert over("sum", [1e100, 1.0, -1e100]) == 1.0
    assert over("sum", [0.1] * 10) == 1.0
    assert over("avg", [1.5e308, 1.5e308]) == 1.5e308
    assert over("sum", [1.5e308, 1.5e308]) == INFINITY


def test_sums_with_nan_and_infinities() -> None:
    assert over("sum", [1.0, INFINITY, INFINITY]) == INFINITY
    assert over("avg", [1.0, -INFINITY]) == -INFINITY
    assert math.isnan(over("sum", [INFINITY, -INFINITY]))
    assert math.isnan(over("sum", [INFINITY, NAN]))
    assert math.isnan(over("var_pop", [INFINITY, 1.0]))


def test_averages_of_integers_are_doubles() -> None:
    assert over("avg", [2**62, 2**62, 2**62 + 2]) == 4611686018427387904.0
    assert over("avg", [1, 2, 2]) == 5 / 3


def test_min_and_max_take_nan_as_the_largest() -> None:
    assert over("min", [NAN, 2.0, None, 1.0]) == 1.0
    assert math.isnan(over("max", [NAN, INFINITY]))
    assert over("min", ["b", "ä", "a"]) == "a"
    assert over("max", ["b", "ä", "a", "z"]) == "ä"
    assert over("max", [False, True]) is True
    assert math.copysign(1, over("min", [-0.0])) == 1


def test_variances() -> None:
    values = [1, 2, 3, 4]
    assert over("var_pop", values) == 1.25
    assert over("var_samp", values) == 5 / 3
    assert over("stddev_pop", values) == math.sqrt(1.25)
    assert over("stddev_samp", values) == math.sqrt(5 / 3)
    assert over("var_samp", [7]) is None
    assert over("stddev_samp", [7]) is None
    assert over("var_pop", [7]) == 0.0
    assert over("stddev_pop", [7]) == 0.0
    # No cancellation, however large the values are against their distance.
    assert over("var_pop", [1e15, 1e15 + 1, 1e15 + 2]) == 2 / 3


def test_first_and_last_go_by_time_and_then_by_arrival() -> None:
    items = [
        Item((5, 0), "a"),
        Item((3, 1), None),
        Item((3, 2), "c"),
        Item((7, 3), "d"),
        Item((7, 4), "e"),
    ]
    assert result(Call("first", ARGUMENT, pa.string()), items) is None
    assert result(Call("first", ARGUMENT, pa.string()), [items[0], items[2]]) == "c"
    assert result(Call("last", ARGUMENT, pa.string()), items) == "e"
    assert result(Call("last", ARGUMENT, pa.string()), []) is None
