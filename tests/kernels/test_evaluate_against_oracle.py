"""Every operation on random columns: the vectorised evaluator against the oracle, row by row."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.oracle.evaluate import Failures as OracleFailures
from penstock.oracle.evaluate import evaluate as oracle_evaluate
from penstock.oracle.values import column_values
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal

BOOL, INT32, INT64, DOUBLE = pa.bool_(), pa.int32(), pa.int64(), pa.float64()
STRING, BINARY, DATE, INTERVAL = pa.string(), pa.binary(), pa.date32(), pa.duration("us")
INTEGERS = [
    pa.int8(),
    pa.int16(),
    INT32,
    INT64,
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
FLOATS = [pa.float32(), DOUBLE]
DECIMALS = [
    pa.decimal128(3, 1),
    pa.decimal128(10, 0),
    pa.decimal128(18, 6),
    pa.decimal128(20, 0),
    pa.decimal128(25, 25),
    pa.decimal128(38, 10),
]
ZONES = [None, "UTC", "+05:30", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe"]
TIMESTAMPS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES]
PLAIN_TIMESTAMPS = [kind for kind in TIMESTAMPS if kind.tz in (None, "UTC")]
COMPARABLE = [BOOL, *INTEGERS, *FLOATS, *DECIMALS, DATE, *TIMESTAMPS[::5], STRING, BINARY, INTERVAL]
NUMBERS = [*INTEGERS, *FLOATS, *DECIMALS]

LETTERS = st.sampled_from("aAbßéİıΣσᾳŉ%_\\ \n🎉语.")
NUMBER_TEXTS = st.from_regex(r"\A ?[+-]?[0-9]{0,3}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,3})? ?\Z")
TIME_TEXTS = st.from_regex(
    r"\A(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?)?"
    r"(Z|[+-]0[0-9]:30)?\Z"
)
WORDS = st.sampled_from(
    ["true", "F", " yes", "N ", "1", "0", "nan", "-inf", "1e400", "1_0", "٣", ""]
)


def physical(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the oracle has them, with many edge cases."""
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        low = 0 if str(kind).startswith("u") else -(2 ** (kind.bit_width - 1))
        high = 2**kind.bit_width - 1 + low
        edges = [v for v in (low, low + 1, -1, 0, 1, 2, 10, high - 1, high) if low <= v <= high]
        return st.sampled_from(edges) | st.integers(low, high)
    if pa.types.is_floating(kind):
        width = 32 if pa.types.is_float32(kind) else 64
        edges = [0.0, -0.0, 0.5, 2.5, -1.5, 1e10, math.nan, math.inf, -math.inf]
        tenths = st.integers(-10000, 10000).map(lambda n: _of_width(n / 1000, width))
        return st.sampled_from(edges) | tenths | st.floats(width=width)
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        unscaled = st.sampled_from([-top, -1, 0, 1, 5, top]) | st.integers(-top, top)
        small = st.integers(-999, 999)
        return (unscaled | small).map(lambda n: Decimal((int(n < 0), _digits(n), -kind.scale)))
    if pa.types.is_date32(kind):
        return st.integers(-40000, 40000) | st.sampled_from([-(2**31), 2**31 - 1, 0, -1, 11016])
    if pa.types.is_timestamp(kind):
        units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        usual = st.integers(-2_000_000_000 * units, 2_500_000_000 * units)
        return usual | st.integers(-20000, 20000).map(lambda hours: hours * 1800 * units)
    if pa.types.is_duration(kind):
        return st.integers(-(10**13), 10**13) | st.sampled_from([-(2**63), 2**63 - 1, 0, 1])
    if pa.types.is_binary(kind):
        return st.binary(max_size=4) | st.text(LETTERS, max_size=3).map(str.encode)
    return st.text(LETTERS, max_size=6)


def _of_width(value: float, width: int) -> float:
    return value if width == 64 else float(struct.unpack("f", struct.pack("f", value))[0])


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def array_of(values: list[Any], kind: Any) -> Any:
    """The Arrow array of physical values."""
    if pa.types.is_date32(kind):
        return pa.array(values, INT32).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, INT64).view(kind)
    return pa.array(values, kind)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right


def check(data: st.DataObject, expression: Expression, kinds: list[Any], **special: Any) -> None:
    """Compare on a batch of rows; also on the same rows in the middle of a longer batch."""
    length = data.draw(st.integers(0, 6), label="rows")
    columns: list[list[Any]] = []
    for place, kind in enumerate(kinds):
        strategy = special.get(f"arg{place}", physical(kind))
        nullable = data.draw(st.booleans(), label="with NULLs")
        one = st.none() | strategy if nullable else strategy
        column = st.lists(one, min_size=length + 2, max_size=length + 2)
        columns.append(data.draw(column, label=f"{kind}"))
    names = [f"c{place}" for place in range(len(kinds))]
    arrays = [array_of(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    batch = pa.record_batch(arrays, names=names).slice(1, length)
    failures, expected_failures = Failures(), OracleFailures()
    result = evaluate(expression, [batch], failures).to_arrow()
    result.validate(full=True)
    expected = [
        oracle_evaluate(
            expression, (tuple(column[row + 1] for column in columns),), expected_failures
        )
        for row in range(length)
    ]
    actual = column_values(result, expression.type)
    assert len(actual) == length
    for row in range(length):
        arguments = [column[row + 1] for column in columns]
        assert same(actual[row], expected[row]), (arguments, actual[row], expected[row])
    assert failures.count == expected_failures.count


def columns_of(kinds: list[Any]) -> list[Expression]:
    return [Column(0, place, f"c{place}", kind) for place, kind in enumerate(kinds)]


def decimal_result(op: str, left: Any, right: Any) -> Any:
    """The type of a decimal operation, from the table in the documentation."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = {"mul": s1 + s2, "div": max(6, s1 + p2 + 1)}.get(op, max(s1, s2))
    precision = {
        "mul": p1 + p2 + 1,
        "div": p1 - s1 + s2 + scale,
        "mod": min(p1 - s1, p2 - s2) + scale,
    }.get(op, max(p1 - s1, p2 - s2) + scale + 1)
    if precision > 38:
        scale, precision = max(38 - (precision - scale), min(scale, 6)), 38
    return pa.decimal128(precision, scale)


def rounded(kind: Any, places: int) -> Any:
    if not pa.types.is_decimal(kind):
        return kind
    scale = max(0, min(kind.scale, places))
    return pa.decimal128(min(38, kind.precision - kind.scale + 1 + scale), scale)


def whole(kind: Any) -> Any:
    if not pa.types.is_decimal(kind):
        return INT64
    return pa.decimal128(min(38, kind.precision - kind.scale + 1), 0)


SAME_TYPE = [
    *[(op, kind, BOOL) for op in ("eq", "ne", "lt", "le", "gt", "ge") for kind in COMPARABLE],
    *[(op, kind, kind) for op in ("add", "sub", "mul", "mod") for kind in INTEGERS + FLOATS],
    *[("div", kind, DOUBLE) for kind in FLOATS],
    *[("int_div", kind, INT64) for kind in [*INTEGERS, pa.decimal128(20, 0)]],
    *[(op, INTERVAL, INTERVAL) for op in ("add", "sub")],
    *[(op, kind, kind) for op in ("least", "greatest", "null_if") for kind in COMPARABLE],
    *[("sub_times", kind, INTERVAL) for kind in [DATE, *TIMESTAMPS[::5]]],
    *[(op, BOOL, BOOL) for op in ("and", "or")],
    ("concat", STRING, STRING),
    *[(op, STRING, BOOL) for op in ("starts_with", "ends_with", "contains")],
]
ONE_ARGUMENT = [
    *[(op, kind, kind) for op in ("neg", "abs") for kind in [*NUMBERS, INTERVAL]],
    *[("sign", kind, DOUBLE) for kind in NUMBERS],
    *[(op, kind, whole(kind)) for op in ("floor", "ceil") for kind in NUMBERS],
    ("sqrt", DOUBLE, DOUBLE),
    ("not", BOOL, BOOL),
    *[("is_null", kind, BOOL) for kind in (INT32, STRING, DOUBLE)],
    *[(op, STRING, STRING) for op in ("upper", "lower", "trim", "ltrim", "rtrim")],
    *[("length", kind, INT32) for kind in (STRING, BINARY)],
    *[
        (op, kind, INT32)
        for op in ("year", "month", "day", "hour", "minute", "second", "day_of_week")
        for kind in [DATE, *TIMESTAMPS[::5]]
    ],
]


def operations(table: list[tuple[str, Any, Any]]) -> list[str]:
    return list(dict.fromkeys(op for op, _, _ in table))


def a_case_of(table: list[tuple[str, Any, Any]], op: str) -> st.SearchStrategy[Any]:
    """One of the argument types of an operation, with its result."""
    return st.sampled_from([(kind, result) for name, kind, result in table if name == op])


@pytest.mark.parametrize("op", operations(SAME_TYPE))
@examples(50)
@given(data=st.data())
def test_two_arguments_of_one_type(op: str, data: st.DataObject) -> None:
    kind, result = data.draw(a_case_of(SAME_TYPE, op))
    check(data, Call(op, tuple(columns_of([kind, kind])), result), [kind, kind])


@pytest.mark.parametrize("op", operations(SAME_TYPE))
@examples(30)
@given(data=st.data())
def test_a_literal_on_either_side(op: str, data: st.DataObject) -> None:
    kind, result = data.draw(a_case_of(SAME_TYPE, op))
    literal = Literal(data.draw(physical(kind)), kind)
    column = Column(0, 0, "c0", kind)
    args = (column, literal) if data.draw(st.booleans()) else (literal, column)
    check(data, Call(op, args, result), [kind])


@pytest.mark.parametrize("op", operations(ONE_ARGUMENT))
@examples(40)
@given(data=st.data())
def test_one_argument(op: str, data: st.DataObject) -> None:
    kind, result = data.draw(a_case_of(ONE_ARGUMENT, op))
    check(data, Call(op, tuple(columns_of([kind])), result), [kind])


@examples(75)
@given(
    data=st.data(),
    op=st.sampled_from(["add", "sub", "mul", "div", "mod"]),
    left=st.sampled_from(DECIMALS),
    right=st.sampled_from(DECIMALS),
)
def test_decimal_arithmetic(data: st.DataObject, op: str, left: Any, right: Any) -> None:
    result = decimal_result(op, left, right)
    check(data, Call(op, tuple(columns_of([left, right])), result), [left, right])


@examples(150)
@given(data=st.data(), kind=st.sampled_from(NUMBERS), places=st.integers(-5, 12))
def test_round(data: st.DataObject, kind: Any, places: int) -> None:
    column = Column(0, 0, "c0", kind)
    check(data, Call("round", (column, Literal(places, INT32)), rounded(kind, places)), [kind])


@examples(50)
@given(data=st.data(), literal=st.booleans(), length=st.sampled_from([None, *range(-2, 6)]))
def test_substring(data: st.DataObject, literal: bool, length: int | None) -> None:
    start = st.integers(-7, 7)
    text, second, third = columns_of([STRING, INT32, INT32])
    count = Literal(length, INT32) if literal or length is None else third
    place = Literal(data.draw(start), INT32) if literal else second
    call = Call("substring", (text, place, count), STRING)
    check(data, call, [STRING, INT32, INT32], arg1=start, arg2=st.integers(-2, 6))


@examples(30)
@given(data=st.data(), op=st.sampled_from(["left", "right"]), literal=st.booleans())
def test_left_and_right(data: st.DataObject, op: str, literal: bool) -> None:
    count = st.integers(-2, 8)
    text, second = columns_of([STRING, INT32])
    argument = Literal(data.draw(count), INT32) if literal else second
    check(data, Call(op, (text, argument), STRING), [STRING, INT32], arg1=count)


@examples(30)
@given(data=st.data(), literal=st.booleans())
def test_replace(data: st.DataObject, literal: bool) -> None:
    part = st.text("ab", max_size=2)
    columns = columns_of([STRING] * 3)
    if literal:
        columns[1:] = [Literal(data.draw(part), STRING), Literal(data.draw(part), STRING)]
    call = Call("replace", tuple(columns), STRING)
    texts = st.text("ab", max_size=6)
    check(data, call, [STRING] * 3, arg0=texts, arg1=part, arg2=part)


@examples(100)
@given(data=st.data(), literal=st.booleans(), escape=st.sampled_from(["\\", "!", "a"]))
def test_like(data: st.DataObject, literal: bool, escape: str) -> None:
    texts = st.text("ab\n🎉%_.", max_size=6)
    pieces = st.sampled_from(["a", "b", "%", "_", "\n", "🎉", ".", escape + "%", escape + "_"])
    patterns = st.lists(pieces, max_size=5).map("".join)
    text, second = columns_of([STRING, STRING])
    pattern = Literal(data.draw(patterns), STRING) if literal else second
    call = Call("like", (text, pattern, Literal(escape, STRING)), BOOL)
    check(data, call, [STRING, STRING], arg0=texts, arg1=patterns)


@examples(30)
@given(data=st.data(), kind=st.sampled_from(COMPARABLE), literal=st.booleans())
def test_in(data: st.DataObject, kind: Any, literal: bool) -> None:
    count = data.draw(st.integers(1, 7))
    kinds = [kind] if literal else [kind] * (count + 1)
    choices: list[Expression] = columns_of(kinds)[1:]
    if literal:
        values = st.none() | physical(kind) if data.draw(st.booleans()) else physical(kind)
        choices = [Literal(data.draw(values), kind) for _ in range(count)]
    check(data, Call("in", (Column(0, 0, "c0", kind), *choices), BOOL), kinds)


UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]


@examples(150)
@given(data=st.data(), unit=st.sampled_from(UNITS), kind=st.sampled_from([DATE, *TIMESTAMPS]))
def test_date_trunc(data: st.DataObject, unit: str, kind: Any) -> None:
    result = pa.timestamp("us") if kind == DATE else kind
    call = Call("date_trunc", (Literal(unit, STRING), Column(0, 0, "c0", kind)), result)
    check(data, call, [kind])


@examples(30)
@given(data=st.data(), kind=st.sampled_from(TIMESTAMPS))
def test_add_duration(data: st.DataObject, kind: Any) -> None:
    result = kind if kind.unit == "ns" else pa.timestamp("us", kind.tz)
    call = Call("add_duration", tuple(columns_of([kind, INTERVAL])), result)
    check(data, call, [kind, INTERVAL])


@examples(30)
@given(data=st.data(), op=st.sampled_from(["add_days", "add_months"]), small=st.booleans())
def test_add_to_dates(data: st.DataObject, op: str, small: bool) -> None:
    count = st.integers(-100, 100) if small else physical(INT32)
    call = Call(op, tuple(columns_of([DATE, INT32])), DATE)
    check(data, call, [DATE, INT32], arg1=count)


@examples(30)
@given(data=st.data(), kind=st.sampled_from(PLAIN_TIMESTAMPS), small=st.booleans())
def test_add_months_to_timestamps(data: st.DataObject, kind: Any, small: bool) -> None:
    count = st.integers(-100, 100) if small else physical(INT32)
    call = Call("add_months", tuple(columns_of([kind, INT32])), kind)
    check(data, call, [kind, INT32], arg1=count)


@examples(30)
@given(data=st.data())
def test_interval_times_integer(data: st.DataObject) -> None:
    kinds = [INTERVAL, INT64]
    check(data, Call("mul", tuple(columns_of(kinds)), INTERVAL), kinds)


@examples(200)
@given(
    data=st.data(),
    source=st.sampled_from([BOOL, *NUMBERS]),
    target=st.sampled_from([BOOL, STRING, *NUMBERS]),
)
def test_casts_of_numbers(data: st.DataObject, source: Any, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", source), target), [source])


@examples(150)
@given(data=st.data(), target=st.sampled_from([BOOL, *NUMBERS]))
def test_casts_of_texts_to_numbers(data: st.DataObject, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", STRING), target), [STRING], arg0=NUMBER_TEXTS | WORDS)


@examples(100)
@given(data=st.data(), target=st.sampled_from([DATE, *TIMESTAMPS]))
def test_casts_of_texts_to_times(data: st.DataObject, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", STRING), target), [STRING], arg0=TIME_TEXTS | WORDS)


@examples(150)
@given(
    data=st.data(),
    source=st.sampled_from([DATE, *TIMESTAMPS]),
    target=st.sampled_from([DATE, STRING, *TIMESTAMPS]),
)
def test_casts_between_times(data: st.DataObject, source: Any, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", source), target), [source])


@examples(100)
@given(data=st.data(), source=st.sampled_from(TIMESTAMPS), target=st.sampled_from(NUMBERS))
def test_casts_of_timestamps_to_numbers(data: st.DataObject, source: Any, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", source), target), [source])


@examples(100)
@given(
    data=st.data(),
    source=st.sampled_from(INTEGERS + FLOATS),
    target=st.sampled_from(TIMESTAMPS),
)
def test_casts_of_numbers_to_timestamps(data: st.DataObject, source: Any, target: Any) -> None:
    check(data, Cast(Column(0, 0, "c0", source), target), [source])


@examples(30)
@given(
    data=st.data(), case=st.sampled_from([(STRING, BINARY), (BINARY, STRING), (INTERVAL, INT64)])
)
def test_other_casts(data: st.DataObject, case: tuple[Any, Any]) -> None:
    source, target = case
    check(data, Cast(Column(0, 0, "c0", source), target), [source])


@examples(50)
@given(data=st.data(), kind=st.sampled_from([INT32, DOUBLE, STRING, pa.decimal128(25, 5), DATE]))
def test_case_and_coalesce(data: st.DataObject, kind: Any) -> None:
    first, second, third, condition = columns_of([kind, kind, kind, BOOL])
    case = Call("case", (condition, first, Call("is_null", (third,), BOOL), second, third), kind)
    chosen = Call("coalesce", (case, second, first), kind)
    check(data, chosen, [kind, kind, kind, BOOL])


@examples(30)
@given(data=st.data())
def test_only_branches_that_are_taken_fail(data: st.DataObject) -> None:
    x, y = columns_of([INT32, INT32])
    zero = Literal(0, INT32)
    quotient = Call("mod", (x, y), INT32)
    case = Call("case", (Call("ne", (y, zero), BOOL), quotient, Call("mul", (x, x), INT32)), INT32)
    check(data, case, [INT32, INT32])
