"""Casts, by hand-written cases."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.expressions.floats import ratio_of_singles, to_singles

BOOL, INT8, INT32, INT64, UINT8 = pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint8()
UINT64, FLOAT, DOUBLE = pa.uint64(), pa.float32(), pa.float64()
STRING, BINARY, DATE = pa.string(), pa.binary(), pa.date32()
CENTS, WIDE = pa.decimal128(5, 2), pa.decimal128(38, 10)
SECONDS, MILLIS, MICROS = pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")
NANOS, UTC, BERLIN = (
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
)
NAN, INF = math.nan, math.inf


def decimals(*values: str | None) -> list[Decimal | None]:
    return [None if value is None else Decimal(value) for value in values]


@pytest.mark.parametrize(
    ("source", "values", "target", "expected", "failures"),
    [
        (INT64, [127, 128, -129, None], INT8, [127, None, None, None], 2),
        (INT64, [-1, 255, 2**62], UINT8, [None, 255, None], 2),
        (UINT64, [2**63, 5], INT64, [None, 5], 1),
        (INT64, [-1, 5], UINT64, [None, 5], 1),
        (DOUBLE, [-1.9, 1.9, NAN, INF, 128.0, 127.9], INT8, [-1, 1, None, None, None, 127], 3),
        (DOUBLE, [2.0**63, -(2.0**63), -0.5], INT64, [None, -(2**63), 0], 1),
        (DOUBLE, [2.0**64, 2.0**63], UINT64, [None, 2**63], 1),
        (CENTS, decimals("-1.99", "2.99", None), INT32, [-1, 2, None], 0),
        (WIDE, decimals("99999999999999999999", "1.5"), INT64, [None, 1], 1),
        (INT64, [2**53 + 1, 2**63 - 1], DOUBLE, [2.0**53, 2.0**63], 0),
        (INT64, [2**24 + 1, 16777219], FLOAT, [2.0**24, 16777220.0], 0),
        (DOUBLE, [1e39, NAN, 0.1], FLOAT, [INF, NAN, 0.10000000149011612], 0),
        (CENTS, decimals("0.10", "-1.25"), DOUBLE, [0.1, -1.25], 0),
        (WIDE, decimals("0.1", "1e27"), DOUBLE, [0.1, 1e27], 0),
        (DOUBLE, [1.005, 2.5, NAN, 1000.0, -INF, 1e300], CENTS,
         decimals("1.01", "2.50", None, None, None, None), 4),
        (FLOAT, [0.1], WIDE, decimals("0.1"), 0),
        (INT32, [999, 1000, None], CENTS, decimals("999.00", None, None), 1),
        (WIDE, decimals("1.005", "-1.005", "999.995"), CENTS, decimals("1.01", "-1.01", None), 1),
        (BOOL, [True, False, None], INT32, [1, 0, None], 0),
        (BOOL, [True, False], CENTS, decimals("1.00", "0.00"), 0),
        (BOOL, [True, False], FLOAT, [1.0, 0.0], 0),
        (DOUBLE, [NAN, -0.0, 0.1, None], BOOL, [True, False, True, None], 0),
        (CENTS, decimals("0.00", "0.01"), BOOL, [False, True], 0),
    ],
)  # fmt: skip
def test_numbers(
    cast: Any, source: Any, values: Any, target: Any, expected: Any, failures: int
) -> None:
    result, count = cast(target, (source, values))
    assert [repr(value) for value in result] == [repr(value) for value in _in(target, expected)]
    assert count == failures


def _in(kind: Any, values: list[Any]) -> list[Any]:
    """Decimals with the digits of their type."""
    return pa.array(values, kind).to_pylist() if pa.types.is_decimal(kind) else values


@pytest.mark.parametrize(
    ("source", "values", "expected"),
    [
        (INT64, [-(2**63), 0, None], ["-9223372036854775808", "0", None]),
        (BOOL, [True, False, None], ["true", "false", None]),
        (DOUBLE, [1.5, 1e16, 1e20, 1e-5, 0.0001, -0.0, NAN, -INF],
         ["1.5", "1e+16", "1e+20", "1e-05", "0.0001", "-0.0", "nan", "-inf"]),
        (FLOAT, [0.10000000149011612, 123456792.0, 1.0000000272564224e16, None],
         ["0.1", "123456790.0", "1e+16", None]),
        (CENTS, decimals("1.5", "-0.05", None), ["1.50", "-0.05", None]),
        (pa.decimal128(20, 9), decimals("0.000000001", "0"), ["0.000000001", "0.000000000"]),
        (pa.decimal128(20, 0), decimals("-12"), ["-12"]),
        (DATE, [0, -719162, 2932897, -719529],
         ["1970-01-01", "0001-01-01", "+10000-01-01", "-0001-12-31"]),
        (SECONDS, [0, -1], ["1970-01-01 00:00:00", "1969-12-31 23:59:59"]),
        (MICROS, [1_500_000, 1, None],
         ["1970-01-01 00:00:01.5", "1970-01-01 00:00:00.000001", None]),
        (MICROS, [-1], ["1969-12-31 23:59:59.999999"]),
        (NANOS, [10], ["1970-01-01 00:00:00.00000001"]),
        (UTC, [0], ["1970-01-01 00:00:00+00:00"]),
        (BERLIN, [1_720_000_000_000_000, -(3 * 10**15)],
         ["2024-07-03 11:46:40+02:00", "1874-12-07 19:33:28+00:53:28"]),
        (BINARY, [b"\xc3\xa9", b"", None], ["é", "", None]),
    ],
)  # fmt: skip
def test_texts_of_values(cast: Any, source: Any, values: Any, expected: Any) -> None:
    assert cast(STRING, (source, values)) == (expected, 0)


def test_binary_that_is_not_utf8_fails(cast: Any) -> None:
    values = (BINARY, [b"\xff", b"ok", None, b"\xff"])
    assert cast(STRING, values) == ([None, "ok", None, None], 2)


@pytest.mark.parametrize(
    ("target", "texts", "expected"),
    [
        (INT32, [" 12 ", "+1.9", "-1.9e1", "1e3", ".5", "5."], [12, 1, -19, 1000, 0, 5]),
        (INT32, ["", "x", "1 2", "2147483648", "1e400", "0x1"], None),
        (INT32, ["1_0", "nan", "\t1", "٣", "--1"], None),
        (INT32, ["1e-99999999999999999999", "0e99999999999999999999"], [0, 0]),
        (INT32, ["1e99999999999999999999", "."], None),
        (UINT8, ["255", "-0"], [255, 0]),
        (UINT8, ["256", "-1"], None),
        (DOUBLE, ["1e400", " -inf", "Infinity", "1.5e0", "-0"], [INF, -INF, INF, 1.5, -0.0]),
        (DOUBLE, ["1e", "inf1", "1f", ""], None),
        (CENTS, ["1.005", "-1.005", "1e2", "0.004"], decimals("1.01", "-1.01", "100.00", "0.00")),
        (CENTS, ["1000", "999.995", "nan"], None),
        (BOOL, ["TRUE", "t", " Yes ", "y", "1"], [True] * 5),
        (BOOL, ["false", "F", "no", "N", "0"], [False] * 5),
        (BOOL, ["2", "on", ""], None),
        (DATE, ["1970-01-02", " 2024-02-29 ", "-0001-12-31", "+10000-01-01"],
         [1, 19782, -719529, 2932897]),
        (DATE, ["2023-02-29", "1970-1-2", "1970-13-01", "70-01-01", "1970-01-01 00:00:00"], None),
        (MICROS, ["1970-01-01", "1970-01-01T00:00:01", "1970-01-01 00:00:00.5"],
         [0, 1_000_000, 500_000]),
        (MICROS, ["1969-12-31 23:59:59.9999999"], [-1]),
        (MICROS, ["1970-01-01 24:00:00", "1970-01-01 00:00", "1970-01-01 00:00:60",
                  "1970-01-01 00:00:00Z", "1970-01-01 00:00:00."], None),
        (UTC, ["1970-01-01 00:00:00Z", "1970-01-01 02:00:00+02:00"], [0, 0]),
        (UTC, ["1970-01-01 00:00:00"], [0]),
        (BERLIN, ["1970-01-01 01:00:00+01:00", "1970-01-01"], [0, 0]),
        (UTC, ["1970-01-01Z", "1970-01-01 00:00:00+2", "1970-01-01 00:00:00+24:00"], None),
        (MILLIS, ["1970-01-01 00:00:00.0019"], [1]),
        (NANOS, ["2300-01-01"], None),
        (BINARY, ["é"], ["é".encode()]),
    ],
)  # fmt: skip
def test_values_of_texts(cast: Any, target: Any, texts: list[str], expected: Any) -> None:
    result, failures = cast(target, (STRING, [*texts, None]))
    if expected is None:
        assert result == [None] * (len(texts) + 1)
        assert failures == len(texts)
    else:
        assert [repr(value) for value in result] == [repr(value) for value in [*expected, None]]
        assert failures == 0


def test_nan_is_read(cast: Any) -> None:
    assert [repr(value) for value in cast(DOUBLE, (STRING, ["nan", "-NaN"]))[0]] == ["nan", "nan"]


@pytest.mark.parametrize(
    ("source", "values", "target", "expected", "failures"),
    [
        (DATE, [1, -1, None], MICROS, [86_400_000_000, -86_400_000_000, None], 0),
        (DATE, [1], BERLIN, [86_400_000_000], 0),
        (DATE, [2**31 - 1], MICROS, [None], 1),
        (MICROS, [-1, 86_400_000_000, None], DATE, [-1, 1, None], 0),
        (BERLIN, [86_400_000_000 - 1], DATE, [1], 0),
        (SECONDS, [2**62], DATE, [None], 1),
        (MICROS, [-1, 1_999_999], SECONDS, [-1, 1], 0),
        (SECONDS, [5, 2**62], NANOS, [5_000_000_000, None], 1),
        (MICROS, [7], BERLIN, [7], 0),
        (BERLIN, [7], MICROS, [7], 0),
        (MICROS, [-1, 1_999_999, None], INT32, [-1, 1, None], 0),
        (SECONDS, [2**40], INT32, [None], 1),
        (MICROS, [1_500_000, None], DOUBLE, [1.5, None], 0),
        (NANOS, [2**63 - 1], DOUBLE, [9223372036.854776], 0),
        (MICROS, [-5_000], CENTS, decimals("-0.01"), 0),
        (INT32, [5, None], MILLIS, [5000, None], 0),
        (INT64, [2**62], MICROS, [None], 1),
        (DOUBLE, [1.5, -0.0000005, NAN, INF, 1e300], MICROS, [1_500_000, -1, None, None, None], 3),
        (FLOAT, [0.5], SECONDS, [0], 0),
        (pa.duration("us"), [-1_500_000, 1_500_000, None], INT64, [-1, 1, None], 0),
    ],
)
def test_times(
    cast: Any, source: Any, values: Any, target: Any, expected: Any, failures: int
) -> None:
    assert cast(target, (source, values)) == (expected, failures)


@given(st.integers(-(10**38), 10**38), st.integers(0, 38))
def test_singles_are_rounded_once(value: int, scale: int) -> None:
    single = ratio_of_singles(np.array([value], dtype=object), 10**scale)[0]
    exact = Fraction(value, 10**scale)
    neighbours = [np.nextafter(single, np.float32(side)) for side in (-INF, INF)]
    distance = abs(Fraction(float(single)) - exact)
    assert all(distance <= abs(Fraction(float(other)) - exact) for other in neighbours)


def test_a_double_halfway_between_singles_is_settled_by_the_number_itself() -> None:
    halfway = 1 + 2.0**-24
    above = Fraction(halfway) + Fraction(1, 10**30)
    below = Fraction(halfway) - Fraction(1, 10**30)
    doubles = np.array([halfway] * 3)
    singles = to_singles(doubles, lambda row: (above, below, Fraction(halfway))[row])
    assert singles.tolist() == [1 + 2.0**-23, 1.0, 1.0]
