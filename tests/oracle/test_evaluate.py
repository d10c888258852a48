"""Each operator on hand-computed cases. NULL arguments and failures give None."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.oracle.evaluate import Failures, evaluate
from penstock.sql.expressions import Call, Cast, Column, Literal

I8, I32, I64, U8, U64 = pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()
F32, F64, BOOL, TEXT, BYTES = pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()
US, INTERVAL = pa.timestamp("us"), pa.duration("us")
NAN, INF = math.nan, math.inf


def dec(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale)


def run(op: str, values: tuple, kinds: tuple, result: pa.DataType) -> tuple[object, int]:
    """The value of one call, and how many failures it counted."""
    args = tuple(Literal(value, kind) for value, kind in zip(values, kinds, strict=True))
    failures = Failures()
    return evaluate(Call(op, args, result), (), failures), failures.count


def same(left: object, right: object) -> bool:
    """Equal and of one type, NaN included; zeros with their sign, decimals with their scale."""
    return type(left) is type(right) and repr(left) == repr(right)


def check(got: tuple[object, int], expected: object, failures: int = 0) -> None:
    assert same(got[0], expected), f"{got[0]!r} is not {expected!r}"
    assert got[1] == failures


@pytest.mark.parametrize(
    ("left", "right", "kind", "order"),
    [
        (1, 2, I32, -1),
        (2, 2, U64, 0),
        (False, True, BOOL, -1),
        (NAN, NAN, F64, 0),
        (NAN, INF, F64, 1),
        (-INF, NAN, F32, -1),
        (-0.0, 0.0, F64, 0),
        ("Z", "a", TEXT, -1),
        ("\uffff", "\U00010000", TEXT, -1),  # by code point, not by UTF-16 unit
        (b"\x7f", b"\xff", BYTES, -1),
        (Decimal("1.50"), Decimal("1.5"), dec(5, 2), 0),
        (10, 9, US, 1),
        (10, 9, INTERVAL, 1),
    ],
)
def test_comparisons(left: object, right: object, kind: pa.DataType, order: int) -> None:
    expected = {
        "eq": order == 0,
        "ne": order != 0,
        "lt": order < 0,
        "le": order <= 0,
        "gt": order > 0,
        "ge": order >= 0,
    }
    for op, truth in expected.items():
        check(run(op, (left, right), (kind, kind), BOOL), truth)
        check(run(op, (left, None), (kind, kind), BOOL), None)
        check(run(op, (None, right), (kind, kind), BOOL), None)


def test_three_valued_logic() -> None:
    table = {
        (True, True): (True, True),
        (True, False): (False, True),
        (False, False): (False, False),
        (True, None): (None, True),
        (False, None): (False, None),
        (None, None): (None, None),
    }
    for (left, right), (both, either) in table.items():
        for pair in ((left, right), (right, left)):
            check(run("and", pair, (BOOL, BOOL), BOOL), both)
            check(run("or", pair, (BOOL, BOOL), BOOL), either)
    check(run("not", (True,), (BOOL,), BOOL), False)
    check(run("not", (None,), (BOOL,), BOOL), None)


def test_null_handling_operators() -> None:
    check(run("is_null", (None,), (I32,), BOOL), True)
    check(run("is_null", (NAN,), (F64,), BOOL), False)
    check(run("in", (1, 2, 1), (I32, I32, I32), BOOL), True)
    check(run("in", (1, 2, None), (I32, I32, I32), BOOL), None)
    check(run("in", (1, None, 1), (I32, I32, I32), BOOL), True)
    check(run("in", (1, 2, 3), (I32, I32, I32), BOOL), False)
    check(run("in", (None, 2), (I32, I32), BOOL), None)
    check(run("in", (NAN, NAN), (F64, F64), BOOL), True)
    check(run("coalesce", (None, 2, 3), (I32,) * 3, I32), 2)
    check(run("coalesce", (None, None), (I32,) * 2, I32), None)
    check(run("null_if", (1, 1), (I32, I32), I32), None)
    check(run("null_if", (1, None), (I32, I32), I32), 1)
    check(run("null_if", (NAN, NAN), (F64, F64), F64), None)
    check(run("least", (3, None, 1), (I32,) * 3, I32), 1)
    check(run("least", (NAN, 5.0), (F64,) * 2, F64), 5.0)
    check(run("greatest", (NAN, INF, None), (F64,) * 3, F64), NAN)
    check(run("greatest", (None, None), (I32,) * 2, I32), None)


def test_a_branch_that_is_not_taken_does_not_fail() -> None:
    failing = Call("div", (Literal(1.0, F64), Literal(0.0, F64)), F64)
    one, yes, no = Literal(1.0, F64), Literal(True, BOOL), Literal(None, BOOL)
    failures = Failures()
    call = Call("case", (no, failing, yes, one, failing), F64)
    assert evaluate(call, (), failures) == 1.0
    assert failures.count == 0
    assert evaluate(Call("case", (no, one, failing), F64), (), failures) is None
    assert failures.count == 1


def test_columns_are_taken_from_their_side() -> None:
    left, right = Column(0, 1, "x", I32), Column(1, 0, "y", I32)
    assert evaluate(Call("sub", (left, right), I32), ((0, 7), (5,)), Failures()) == 2


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abc", "a%", True),
        ("abc", "_b_", True),
        ("abc", "_b", False),
        ("a\nb", "a_b", True),
        ("", "%", True),
        ("50%", "50\\%", True),
        ("505", "50\\%", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("\\", "\\", True),
        ("a\n", "a", False),
    ],
)
def test_like(text: str, pattern: str, expected: bool) -> None:
    check(run("like", (text, pattern, "\\"), (TEXT,) * 3, BOOL), expected)


def test_like_with_another_escape() -> None:
    check(run("like", ("a_b", "a#_b", "#"), (TEXT,) * 3, BOOL), True)
    check(run("like", ("axb", "a#_b", "#"), (TEXT,) * 3, BOOL), False)


ARITHMETIC = [
    ("add", 100, 27, I8, 127),
    ("add", 100, 28, I8, None),
    ("sub", 0, 1, U8, None),
    ("mul", -(2**62), 2, I64, -(2**63)),
    ("mul", 2**62, 2, I64, None),
    ("mod", -7, 3, I32, -1),
    ("mod", 7, -3, I32, 1),
    ("mod", 7, 0, I32, None),
    ("mod", -(2**31), -1, I32, 0),
    ("add", 1e308, 1e308, F64, INF),
    ("sub", INF, INF, F64, NAN),
    ("mul", 3e38, 10.0, F32, INF),
    ("add", 16777216.0, 1.0, F32, 16777216.0),
    ("mul", 0.10000000149011612, 0.10000000149011612, F32, 0.010000000707805157),
    ("mod", -7.5, 2.0, F64, -1.5),
    ("mod", 7.5, INF, F64, 7.5),
    ("mod", INF, 2.0, F64, NAN),
    ("mod", 1.0, 0.0, F64, None),
    ("div", 1.0, 4.0, F64, 0.25),
    ("div", 1.0, -0.0, F64, None),
    ("div", NAN, 0.0, F64, None),
    ("add", 2**63 - 1, 1, INTERVAL, None),
    ("sub", 5, 7, INTERVAL, -2),
]


@pytest.mark.parametrize(("op", "left", "right", "kind", "expected"), ARITHMETIC)
def test_arithmetic(
    op: str, left: object, right: object, kind: pa.DataType, expected: object
) -> None:
    check(run(op, (left, right), (kind, kind), kind), expected, int(expected is None))
    check(run(op, (left, None), (kind, kind), kind), None)


def test_integer_division() -> None:
    check(run("int_div", (-7, 2), (I32, I32), I64), -3)
    check(run("int_div", (7, 0), (I32, I32), I64), None, 1)
    check(run("int_div", (-(2**63), -1), (I64, I64), I64), None, 1)
    check(run("int_div", (2**64 - 1, 1), (U64, U64), I64), None, 1)
    check(run("mul", (1_000_000, 3), (INTERVAL, I64), INTERVAL), 3_000_000)


def test_decimal_arithmetic_is_exact_and_rounded_once() -> None:
    a, b = Decimal("1.25"), Decimal("0.5")
    kinds = (dec(5, 2), dec(3, 1))
    check(run("add", (a, b), kinds, dec(6, 2)), Decimal("1.75"))
    check(run("sub", (b, a), (dec(3, 1), dec(5, 2)), dec(6, 2)), Decimal("-0.75"))
    check(run("mul", (a, b), kinds, dec(9, 3)), Decimal("0.625"))
    check(run("div", (Decimal("2.00"), Decimal("0.3")), kinds, dec(9, 6)), Decimal("6.666667"))
    check(run("div", (a, Decimal("0.0")), kinds, dec(9, 6)), None, 1)
    check(run("mod", (Decimal("-1.25"), b), kinds, dec(4, 2)), Decimal("-0.25"))
    nines = Decimal("9" * 38)
    check(run("add", (nines, nines), (dec(38, 0),) * 2, dec(38, 0)), None, 1)
    check(run("neg", (nines,), (dec(38, 0),), dec(38, 0)), Decimal("-" + "9" * 38))
    check(
        run("mul", (Decimal("-0.5"), Decimal("0.1")), (dec(2, 1),) * 2, dec(2, 1)), Decimal("-0.1")
    )
    check(
        run("mul", (Decimal("-0.1"), Decimal("0.1")), (dec(2, 1),) * 2, dec(2, 1)), Decimal("0.0")
    )


def test_neg_abs_sign() -> None:
    check(run("neg", (-128,), (I8,), I8), None, 1)
    check(run("neg", (0.0,), (F64,), F64), -0.0)
    check(run("neg", (1,), (U8,), U8), None, 1)
    check(run("abs", (-128,), (I8,), I8), None, 1)
    check(run("abs", (-1.5,), (F32,), F32), 1.5)
    check(run("abs", (Decimal("-1.5"),), (dec(2, 1),), dec(2, 1)), Decimal("1.5"))
    for value, expected in ((-3.5, -1.0), (-0.0, 0.0), (7.0, 1.0), (NAN, NAN)):
        check(run("sign", (value,), (F64,), F64), expected)
    check(run("sign", (-4,), (I32,), F64), -1.0)


def test_floor_and_ceil() -> None:
    check(run("floor", (-1.5,), (F64,), I64), -2)
    check(run("ceil", (-1.5,), (F64,), I64), -1)
    check(run("floor", (7,), (I32,), I64), 7)
    check(run("ceil", (Decimal("1.01"),), (dec(5, 2),), dec(4, 0)), Decimal("2"))
    for value in (NAN, INF, 1e19):
        check(run("floor", (value,), (F64,), I64), None, 1)


ROUND = [
    (2.5, 0, F64, F64, 3.0),
    (-2.5, 0, F64, F64, -3.0),
    (2.675, 2, F64, F64, 2.68),  # by its text, though the double is below 2.675
    (0.15000000596046448, 1, F32, F32, 0.20000000298023224),  # 0.15 as a float
    (1250.0, -2, F64, F64, 1300.0),
    (1e300, 2, F64, F64, 1e300),
    (1.7e308, -308, F64, F64, INF),
    (NAN, 1, F64, F64, NAN),
    (-INF, 1, F64, F64, -INF),
    (15, -1, I32, I32, 20),
    (-15, -1, I32, I32, -20),
    (127, -1, I8, I8, None),
    (14, 5, I32, I32, 14),
    (99, -3, I32, I32, 0),
    (Decimal("1.25"), 1, dec(3, 2), dec(3, 1), Decimal("1.3")),
    (Decimal("-15.5"), -1, dec(3, 1), dec(3, 0), Decimal("-20")),
]


@pytest.mark.parametrize(("value", "digits", "kind", "result", "expected"), ROUND)
def test_round(
    value: object, digits: int, kind: pa.DataType, result: pa.DataType, expected: object
) -> None:
    got = run("round", (value, digits), (kind, I32), result)
    check(got, expected, int(expected is None))


def test_sqrt() -> None:
    check(run("sqrt", (2.25,), (F64,), F64), 1.5)
    check(run("sqrt", (-1.0,), (F64,), F64), NAN)
    check(run("sqrt", (INF,), (F64,), F64), INF)


STRINGS = [
    ("concat", ("a", "b", "c"), TEXT, "abc"),
    ("concat", ("a", None), TEXT, None),
    ("upper", ("straße é",), TEXT, "STRAßE É"),
    ("lower", ("ÀİΣ",), TEXT, "àİσ"),
    ("length", ("añ𝄞",), I32, 3),
    ("left", ("abc", 2), TEXT, "ab"),
    ("left", ("abc", -1), TEXT, ""),
    ("right", ("abc", 2), TEXT, "bc"),
    ("right", ("abc", 9), TEXT, "abc"),
    ("right", ("abc", 0), TEXT, ""),
    ("trim", ("  a\t ",), TEXT, "a\t"),
    ("ltrim", (" a ",), TEXT, "a "),
    ("rtrim", (" a ",), TEXT, " a"),
    ("replace", ("aaa", "aa", "b"), TEXT, "ba"),
    ("replace", ("abc", "", "x"), TEXT, "abc"),
    ("starts_with", ("abc", "ab"), BOOL, True),
    ("ends_with", ("abc", "ab"), BOOL, False),
    ("contains", ("abc", "bc"), BOOL, True),
    ("contains", ("abc", ""), BOOL, True),
    ("substring", ("hello", 2, 3), TEXT, "ell"),
    ("substring", ("hello", 0, 2), TEXT, "he"),
    ("substring", ("hello", -3, 2), TEXT, "ll"),
    ("substring", ("hello", -7, 4), TEXT, "he"),
    ("substring", ("hello", -9, 2), TEXT, ""),
    ("substring", ("hello", 4, None), TEXT, "lo"),
    ("substring", ("hello", 9, 2), TEXT, ""),
    ("substring", ("hello", 2, -1), TEXT, ""),
    ("substring", ("hello", None, 1), TEXT, None),
]


@pytest.mark.parametrize(("op", "values", "result", "expected"), STRINGS)
def test_strings(op: str, values: tuple, result: pa.DataType, expected: object) -> None:
    kinds = tuple(I32 if isinstance(value, int) else TEXT for value in values)
    check(run(op, values, kinds, result), expected)


def test_a_computed_null_length_gives_null() -> None:
    null = Cast(Literal(None, I64), I32)
    call = Call("substring", (Literal("abc", TEXT), Literal(1, I32), null), TEXT)
    assert evaluate(call, (), Failures()) is None


def test_length_of_a_binary_is_in_bytes() -> None:
    check(run("length", ("é".encode(),), (BYTES,), I32), 2)


def test_what_coalesce_does_not_need_does_not_fail() -> None:
    fails = Cast(Literal("x", TEXT), I32)
    one, null = Literal(1, I32), Literal(None, I32)
    for args, value, count in (
        ((null, one, fails, fails), 1, 0),
        ((fails, one, fails), 1, 1),
        ((fails, null, fails), None, 2),
    ):
        failures = Failures()
        check((evaluate(Call("coalesce", args, I32), (), failures), failures.count), value, count)
