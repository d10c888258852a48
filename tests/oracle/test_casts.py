"""Each line of the table of casts, on hand-computed values; FAILS marks what gives NULL."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.oracle.evaluate import Failures, evaluate
from penstock.sql.expressions import Cast, Literal

I8, I32, I64, U64 = pa.int8(), pa.int32(), pa.int64(), pa.uint64()
F32, F64, BOOL, TEXT, BYTES = pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()
DATE, INTERVAL, US, MS = pa.date32(), pa.duration("us"), pa.timestamp("us"), pa.timestamp("ms")
NS, SECONDS, BERLIN = pa.timestamp("ns"), pa.timestamp("s"), pa.timestamp("ms", "Europe/Berlin")
NAN, INF = math.nan, math.inf
FAILS = "this cast fails"


def dec(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale)


CASES = [
    # to integers: toward zero
    (-1.9, F64, I32, -1),
    (Decimal("-1.9"), dec(3, 1), I32, -1),
    (128.0, F64, I8, FAILS),
    (127.9, F64, I8, 127),
    (NAN, F64, I32, FAILS),
    (INF, F32, I64, FAILS),
    (-1, I32, U64, FAILS),
    (True, BOOL, I32, 1),
    (" 12 ", TEXT, I32, 12),
    ("-1.9e1", TEXT, I32, -19),
    ("1e400", TEXT, I64, FAILS),
    ("1e-400", TEXT, I64, 0),
    # an exponent of more digits than Python reads as an integer
    ("1e" + "9" * 5_000, TEXT, I64, FAILS),
    ("1e-" + "9" * 5_000, TEXT, I64, 0),
    ("", TEXT, I32, FAILS),
    ("1 2", TEXT, I32, FAILS),
    ("0x10", TEXT, I32, FAILS),
    ("1_000", TEXT, I32, FAILS),
    ("nan", TEXT, I32, FAILS),
    (-1, MS, I64, -1),
    (1_999, MS, I32, 1),
    (-1_999_999, INTERVAL, I64, -1),
    # to floats: to nearest, ties to even
    (2**53 + 1, I64, F64, 9007199254740992.0),
    (2**24 + 1, I32, F32, 16777216.0),
    (2**24 + 3, I32, F32, 16777220.0),
    # the double between would be halfway, and then be rounded down
    (2**60 + 2**36 + 1, I64, F32, float(2**60 + 2**37)),
    (0.1, F64, F32, 0.10000000149011612),
    (1e300, F64, F32, INF),
    (Decimal("0.1"), dec(2, 1), F64, 0.1),
    (False, BOOL, F64, 0.0),
    ("1e400", TEXT, F64, INF),
    ("-0", TEXT, F64, -0.0),
    ("+.5", TEXT, F32, 0.5),
    ("nan", TEXT, F64, NAN),
    ("-Infinity", TEXT, F64, -INF),
    ("-inf", TEXT, F32, -INF),
    ("1.5f", TEXT, F64, FAILS),
    (1_500, MS, F64, 1.5),
    # to decimals: half away from zero, from a float's shortest text
    (0.125, F64, dec(5, 2), Decimal("0.13")),
    (2.675, F64, dec(5, 2), Decimal("2.68")),
    (0.10000000149011612, F32, dec(9, 8), Decimal("0.10000000")),
    (Decimal("-1.25"), dec(3, 2), dec(3, 1), Decimal("-1.3")),
    (Decimal("-0.04"), dec(3, 2), dec(3, 1), Decimal("0.0")),
    (1000, I32, dec(5, 2), FAILS),
    (999, I32, dec(5, 2), Decimal("999.00")),
    (NAN, F64, dec(5, 2), FAILS),
    ("1.005", TEXT, dec(5, 2), Decimal("1.01")),
    (-1_500, MS, dec(5, 1), Decimal("-1.5")),
    # to boolean
    (NAN, F64, BOOL, True),
    (-0.0, F64, BOOL, False),
    (Decimal("0.1"), dec(2, 1), BOOL, True),
    (" YES ", TEXT, BOOL, True),
    ("f", TEXT, BOOL, False),
    ("2", TEXT, BOOL, FAILS),
    # to strings
    (-1, I32, TEXT, "-1"),
    (Decimal("1.50"), dec(3, 2), TEXT, "1.50"),
    (Decimal("0.00000001"), dec(8, 8), TEXT, "0.00000001"),
    (1.5, F64, TEXT, "1.5"),
    (1e20, F64, TEXT, "1e+20"),
    (0.10000000149011612, F32, TEXT, "0.1"),
    (16777216.0, F32, TEXT, "16777216.0"),
    (1.0000000150474662e30, F32, TEXT, "1e+30"),
    (NAN, F32, TEXT, "nan"),
    (-INF, F64, TEXT, "-inf"),
    (-0.0, F32, TEXT, "-0.0"),
    (True, BOOL, TEXT, "true"),
    (19_753, DATE, TEXT, "2024-01-31"),
    (2**31 - 1, DATE, TEXT, "+5881580-07-11"),
    (2_932_896, DATE, TEXT, "9999-12-31"),
    (2_932_897, DATE, TEXT, "+10000-01-01"),
    (-719_528, DATE, TEXT, "0000-01-01"),
    (-719_529, DATE, TEXT, "-0001-12-31"),
    (2_932_897 * 86_400, SECONDS, TEXT, "+10000-01-01 00:00:00"),
    (-1, US, TEXT, "1969-12-31 23:59:59.999999"),
    (1_001, NS, TEXT, "1970-01-01 00:00:00.000001001"),
    (1_000, MS, TEXT, "1970-01-01 00:00:01"),
    (0, BERLIN, TEXT, "1970-01-01 01:00:00+01:00"),
    (b"caf\xc3\xa9", BYTES, TEXT, "café"),
    (b"\xff", BYTES, TEXT, FAILS),
    ("café", TEXT, BYTES, b"caf\xc3\xa9"),
    # to dates and timestamps
    (" 2024-01-31 ", TEXT, DATE, 19_753),
    ("2024-02-30", TEXT, DATE, FAILS),
    ("+5881580-07-11", TEXT, DATE, 2**31 - 1),
    ("+5881580-07-12", TEXT, DATE, FAILS),
    ("+292277026596-12-04 15:30:07", TEXT, SECONDS, 2**63 - 1),
    ("31.01.2024", TEXT, DATE, FAILS),
    ("1970-01-02", TEXT, US, 86_400_000_000),
    ("1970-01-01T00:00:01.5", TEXT, MS, 1_500),
    ("1969-12-31 23:59:59.9999", TEXT, MS, -1),
    ("1970-01-01 24:00:00", TEXT, US, FAILS),
    ("1970-01-01 02:00:00+02:00", TEXT, BERLIN, 0),
    ("1970-01-01 00:00:00", TEXT, BERLIN, 0),
    ("1970-01-01 00:00:00Z", TEXT, US, FAILS),
    (1, DATE, MS, 86_400_000),
    (200_000, DATE, NS, FAILS),
    (-1, US, DATE, -1),
    (23 * 3_600_000, BERLIN, DATE, 1),
    (-1, US, MS, -1),
    (1, SECONDS, NS, 1_000_000_000),
    (2**62, SECONDS, NS, FAILS),
    (5_000, MS, BERLIN, 5_000),
    (5_000, BERLIN, MS, 5_000),
    (-2, I32, MS, -2_000),
    (-1.0005, F64, MS, -1_001),
    (NAN, F64, US, FAILS),
]


@pytest.mark.parametrize(("value", "source", "target", "expected"), CASES)
def test_cast(value: object, source: pa.DataType, target: pa.DataType, expected: object) -> None:
    failures = Failures()
    got = evaluate(Cast(Literal(value, source), target), (), failures)
    if expected is FAILS:
        assert got is None
        assert failures.count == 1
    else:
        assert type(got) is type(expected)
        assert repr(got) == repr(expected)
        assert failures.count == 0


def test_null_stays_null_in_every_type() -> None:
    failures = Failures()
    for target in (I32, F64, dec(5, 2), BOOL, TEXT, BYTES, DATE, US):
        assert evaluate(Cast(Literal(None, TEXT), target), (), failures) is None
    assert failures.count == 0
