"""Comparisons, arithmetic and rounding of integers, floats and decimals, by hand-written cases."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.sql.expressions import Call, Column, Literal

BOOL, INT8, INT32, INT64 = pa.bool_(), pa.int8(), pa.int32(), pa.int64()
UINT8, UINT64, FLOAT, DOUBLE = pa.uint8(), pa.uint64(), pa.float32(), pa.float64()
NAN, INF = math.nan, math.inf
LOW, HIGH = -(2**63), 2**63 - 1


def texts(values: list[Any]) -> list[str]:
    """NaN and the sign of zero are seen in the text."""
    return [repr(value) for value in values]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("eq", [True, False, True, False, None]),
        ("ne", [False, True, False, True, None]),
        ("lt", [False, False, False, True, None]),
        ("le", [True, False, True, True, None]),
        ("gt", [False, True, False, False, None]),
        ("ge", [True, True, True, False, None]),
    ],
)
def test_nan_equals_itself_and_is_the_largest(run: Any, op: str, expected: list[Any]) -> None:
    left = (DOUBLE, [NAN, NAN, -0.0, INF, None])
    right = (DOUBLE, [NAN, INF, 0.0, NAN, 1.0])
    assert run(op, BOOL, left, right) == (expected, 0)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("eq", [False, False, True]),
        ("ne", [True, True, False]),
        ("lt", [False, True, False]),
        ("le", [False, True, True]),
        ("gt", [True, False, False]),
        ("ge", [True, False, True]),
    ],
)
def test_nan_beside_a_literal(run: Any, op: str, expected: list[bool]) -> None:
    column = (FLOAT, [NAN, 1.0, 2.0])
    assert run(op, BOOL, column, Literal(2.0, FLOAT)) == (expected, 0)
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op)
    assert run(mirrored, BOOL, Literal(2.0, FLOAT), column) == (expected, 0)


def test_other_orders(run: Any) -> None:
    assert run("lt", BOOL, (BOOL, [False, True]), (BOOL, [True, False])) == ([True, False], 0)
    strings = (pa.string(), ["￿", "a", ""]), (pa.string(), ["🎉", "ab", "a"])
    assert run("lt", BOOL, *strings) == ([True, True, True], 0)
    binaries = (pa.binary(), [b"\x7f", b"\xff"]), (pa.binary(), [b"\x80", b"\x00"])
    assert run("lt", BOOL, *binaries) == ([True, False], 0)
    wide = pa.decimal128(38, 0)
    assert run("gt", BOOL, (wide, [Decimal(10**37)]), Literal(Decimal(5), wide)) == ([True], 0)


def test_in_is_null_if_nothing_is_found_and_a_null_is_there(run: Any) -> None:
    numbers = (INT32, [1, 2, None])
    one, null = Literal(1, INT32), Literal(None, INT32)
    assert run("in", BOOL, numbers, one, null) == ([True, None, None], 0)
    assert run("in", BOOL, numbers, one, one) == ([True, False, None], 0)
    many = [Literal(n, INT32) for n in range(2, 9)]
    assert run("in", BOOL, numbers, *many) == ([False, True, None], 0)
    names = (pa.string(), ["a", "b", None])
    assert run("in", BOOL, names, Literal("a", pa.string())) == ([True, False, None], 0)
    floats = (DOUBLE, [NAN, -0.0])
    choices = [Literal(NAN, DOUBLE), Literal(0.0, DOUBLE)]
    assert run("in", BOOL, floats, *choices) == ([True, True], 0)


THREE = [True, True, True, False, False, False, None, None, None]
AGAIN = [True, False, None] * 3


def test_three_valued_logic(run: Any) -> None:
    left, right = (BOOL, THREE), (BOOL, AGAIN)
    conjunction = [True, False, None, False, False, False, None, False, None]
    disjunction = [True, True, True, True, False, None, True, None, None]
    assert run("and", BOOL, left, right) == (conjunction, 0)
    assert run("or", BOOL, left, right) == (disjunction, 0)
    assert run("not", BOOL, (BOOL, [True, False, None])) == ([False, True, None], 0)
    assert run("is_null", BOOL, (BOOL, [True, None])) == ([False, True], 0)
    assert run("is_null", BOOL, (pa.string(), ["a", "b"])) == ([False, False], 0)


@pytest.mark.parametrize(
    ("op", "kind", "left", "right", "expected", "failures"),
    [
        ("add", INT8, [127, 126, -128, None], [1, 1, -1, 1], [None, 127, None, None], 2),
        ("add", INT64, [HIGH, HIGH, LOW, 1], [1, 0, -1, None], [None, HIGH, None, None], 2),
        ("add", UINT64, [2**64 - 1, 2**63], [1, 5], [None, 2**63 + 5], 1),
        ("sub", INT64, [LOW, 0, -1], [1, LOW, LOW], [None, None, HIGH], 2),
        ("sub", UINT8, [1, 2], [2, 1], [None, 1], 1),
        ("sub", UINT64, [0, 2**64 - 1], [1, 2**64 - 1], [None, 0], 1),
        ("mul", INT32, [2**31 - 1, -(2**31), 46341], [1, -1, 46341], [2**31 - 1, None, None], 2),
        (
            "mul",
            INT64,
            [LOW, 2**32, 3037000500, 5],
            [-1, 2**31, 3037000500, 5],
            [None] * 3 + [25],
            3,
        ),
        ("mul", UINT64, [2**32, 2**32], [2**32, 2**32 - 1], [None, 2**64 - 2**32], 1),
        ("int_div", INT64, [7, -7, LOW, 1, None], [-2, 2, -1, 0, 0], [-3, -3, None, None, None], 2),
        ("int_div", INT64, [LOW, -1, 6], [2, 2, -3], [-(2**62), 0, -2], 0),
        ("mod", INT64, [7, -7, LOW, 1], [-2, 2, -1, 0], [1, -1, 0, None], 1),
        ("mod", UINT8, [7, 200], [2, 0], [1, None], 1),
    ],
)
def test_integers(
    run: Any, op: str, kind: Any, left: Any, right: Any, expected: Any, failures: int
) -> None:
    result = INT64 if op == "int_div" else kind
    assert run(op, result, (kind, left), (kind, right)) == (expected, failures)


def test_int_div_has_64_bits(run: Any) -> None:
    assert run("int_div", INT64, (INT8, [-128]), (INT8, [-1])) == ([128], 0)
    assert run("int_div", INT64, (UINT64, [2**64 - 1, 8]), (UINT64, [1, 2])) == ([None, 4], 1)


def test_floats_overflow_to_infinity(run: Any) -> None:
    largest = (FLOAT, [3.4028234663852886e38, None])
    assert run("add", FLOAT, largest, largest) == ([INF, None], 0)
    large = (DOUBLE, [1e308])
    assert run("mul", DOUBLE, large, Literal(-10.0, DOUBLE)) == ([-INF], 0)


def test_division(run: Any) -> None:
    assert run("div", DOUBLE, (INT64, [1, 1, None]), (INT64, [4, 0, 0])) == ([0.25, None, None], 1)
    assert run("div", DOUBLE, (FLOAT, [1.0, NAN]), (FLOAT, [3.0, -0.0])) == ([1 / 3, None], 1)
    values, failures = run("mod", DOUBLE, (DOUBLE, [-5.5, INF, 1.0]), (DOUBLE, [2.0, 2.0, 0.0]))
    assert texts(values) == ["-1.5", "nan", "None"]
    assert failures == 1


def test_sign_and_size(run: Any) -> None:
    assert run("neg", INT8, (INT8, [-128, 5, None])) == ([None, -5, None], 1)
    assert run("neg", UINT8, (UINT8, [0, 5])) == ([0, None], 1)
    assert run("abs", INT8, (INT8, [-128, -5])) == ([None, 5], 1)
    assert texts(run("neg", DOUBLE, (DOUBLE, [0.0, NAN]))[0]) == ["-0.0", "nan"]
    signs = run("sign", DOUBLE, (DOUBLE, [-2.5, -0.0, NAN, INF]))[0]
    assert texts(signs) == ["-1.0", "0.0", "nan", "1.0"]
    assert run("sign", DOUBLE, (UINT64, [2**64 - 1, 0])) == ([1.0, 0.0], 0)
    assert run("sign", DOUBLE, (INT64, [LOW, 7])) == ([-1.0, 1.0], 0)


def test_floor_and_ceil(run: Any) -> None:
    floats = (DOUBLE, [-1.5, 1.5, NAN, 2.0**63, -(2.0**63)])
    assert run("floor", INT64, floats) == ([-2, 1, None, None, LOW], 2)
    assert run("ceil", INT64, floats) == ([-1, 2, None, None, LOW], 2)
    assert run("floor", INT64, (UINT64, [2**63, 7])) == ([None, 7], 1)
    whole = pa.decimal128(3, 0)
    decimals = (pa.decimal128(3, 1), [Decimal("-99.9"), Decimal("0.1"), None])
    assert run("floor", whole, decimals) == ([Decimal(-100), Decimal(0), None], 0)
    assert run("ceil", whole, decimals) == ([Decimal(-99), Decimal(1), None], 0)


@pytest.mark.parametrize(
    ("places", "values", "expected"),
    [
        (0, [0.5, -0.5, 1.5, 2.5, -0.4, -0.0], [1.0, -1.0, 2.0, 3.0, 0.0, 0.0]),
        (2, [1.005, 2.675, 0.285, 1e300, 123456789.125], [1.01, 2.68, 0.29, 1e300, 123456789.13]),
        (-2, [150.0, 149.999, -250.0, 1e300], [200.0, 100.0, -300.0, 1e300]),
        (400, [0.1, 5e-324], [0.1, 5e-324]),
        (-400, [1e308], [0.0]),
        (-308, [1.7e308], [INF]),
        (1, [NAN, INF, -INF], [NAN, INF, -INF]),
    ],
)
def test_round_of_doubles_goes_by_the_text(
    run: Any, places: int, values: list[float], expected: list[float]
) -> None:
    result, failures = run("round", DOUBLE, (DOUBLE, values), Literal(places, INT32))
    assert texts(result) == texts(expected)
    assert failures == 0


def test_round_of_other_numbers(run: Any) -> None:
    def one(places: int) -> Literal:
        return Literal(places, INT32)

    assert run("round", INT8, (INT8, [125, 124, -125, None]), one(-1)) == (
        [None, 120, None, None],
        2,
    )
    assert run("round", INT8, (INT8, [45, 55]), one(-2)) == ([0, 100], 0)
    assert run("round", INT64, (INT64, [HIGH, 5]), one(-19)) == ([None, 0], 1)
    assert run("round", INT64, (INT64, [HIGH, 5]), one(-2147483648)) == ([0, 0], 0)
    assert run("round", INT64, (INT64, [7]), one(3)) == ([7], 0)
    single = run("round", FLOAT, (FLOAT, [0.15000000596046448]), one(1))
    assert single == ([0.20000000298023224], 0)
    cents = (pa.decimal128(5, 2), [Decimal("-1.25"), Decimal("999.95")])
    tenth = pa.decimal128(5, 1)
    assert run("round", tenth, cents, one(1)) == ([Decimal("-1.3"), Decimal("1000.0")], 0)
    assert run("round", pa.decimal128(4, 0), cents, one(-3)) == ([Decimal(0), Decimal(1000)], 0)


def test_square_roots(run: Any) -> None:
    roots = run("sqrt", DOUBLE, (DOUBLE, [4.0, -1.0, -0.0, INF, None]))[0]
    assert texts(roots) == ["2.0", "nan", "-0.0", "inf", "None"]


def decimals(*values: str | None) -> list[Decimal | None]:
    return [None if value is None else Decimal(value) for value in values]


@pytest.mark.parametrize(
    ("op", "left", "right", "result", "pairs", "expected", "failures"),
    [
        ("add", (3, 1), (3, 2), (5, 2), [("99.9", "9.99"), (None, "1.00")], ["109.89", None], 0),
        ("sub", (18, 0), (18, 0), (19, 0), [("9" * 18, "-" + "9" * 18)],
         ["1999999999999999998"], 0),
        # The scale gives way at 38 digits: 38, 10 and 38, 10 add up to 38, 9.
        ("add", (38, 10), (38, 10), (38, 9), [("0.0000000005", "0")], ["0.000000001"], 0),
        ("add", (38, 0), (38, 0), (38, 0), [("9" * 38, "1"), ("1", "1")], [None, "2"], 1),
        ("mul", (3, 1), (3, 1), (7, 2), [("-99.9", "99.9")], ["-9980.01"], 0),
        ("mul", (38, 0), (38, 0), (38, 0), [("1" + "0" * 20, "1" + "0" * 20)], [None], 1),
        ("div", (3, 0), (3, 0), (9, 6), [("1", "3"), ("-2", "3"), ("1", "0")],
         ["0.333333", "-0.666667", None], 1),
        ("div", (38, 20), (3, 0), (38, 6), [("0.0000005", "1")], ["0.000001"], 0),
        ("mod", (3, 1), (3, 1), (3, 1), [("-7.5", "2.0"), ("7.5", "-2.0"), ("1.0", "0.0")],
         ["-1.5", "1.5", None], 1),
    ],
)  # fmt: skip
def test_decimals(
    run: Any, op: str, left: Any, right: Any, result: Any, pairs: Any, expected: Any, failures: int
) -> None:
    first = (pa.decimal128(*left), decimals(*(pair[0] for pair in pairs)))
    second = (pa.decimal128(*right), decimals(*(pair[1] for pair in pairs)))
    assert run(op, pa.decimal128(*result), first, second) == (decimals(*expected), failures)


INTEGER_TYPES = st.sampled_from([INT8, pa.int16(), INT32, INT64, UINT8, pa.uint32(), UINT64])


@given(data=st.data(), kind=INTEGER_TYPES, op=st.sampled_from(["add", "sub", "mul"]))
def test_integer_arithmetic_is_that_of_python_within_the_type(
    data: st.DataObject, kind: Any, op: str
) -> None:
    bits = kind.bit_width
    low, high = (0, 2**bits - 1) if "u" in str(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = st.integers(low, high) | st.sampled_from([low, 0, 1, high])
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
    exact = [{"add": a + b, "sub": a - b, "mul": a * b}[op] for a, b in pairs]
    expected = [value if low <= value <= high else None for value in exact]
    columns = [pa.array(side, kind) for side in zip(*pairs, strict=True)]
    failures = Failures()
    call = Call(op, (Column(0, 0, "a", kind), Column(0, 1, "b", kind)), kind)
    result = evaluate(call, [pa.record_batch(columns, names=["a", "b"])], failures)
    assert result.to_arrow().to_pylist() == expected
    assert failures.count == expected.count(None)
