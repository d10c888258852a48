"""Expressions in SQL, evaluated on one tuple."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

# i = 7, f = 0.1 as a float, d = 2.5, m = 12.34, s = 'Stream', t = 2024-05-17 12:34:56.5,
# day = 2024-05-17, n = NULL, b = TRUE
COLUMNS = pa.schema(
    {
        "i": pa.int32(),
        "f": pa.float32(),
        "d": pa.float64(),
        "m": pa.decimal128(6, 2),
        "s": pa.string(),
        "t": pa.timestamp("us"),
        "day": pa.date32(),
        "n": pa.int32(),
        "b": pa.bool_(),
    }
)
TIME = 1_715_949_296_500_000
DAY = 19_860
ROW = [7, 0.1, 2.5, Decimal("12.34"), "Stream", TIME, DAY, None, True]

CASES = [
    ("i + 1", 8),
    ("2147483647 + i", None),
    ("i / 2", 3.5),
    ("i DIV 2", 3),
    ("-i % 4", -3),
    ("i / 0", None),
    ("f + i", 7.099999904632568),
    ("f = 0.1", False),
    ("d * 2", 5.0),
    ("m * 2", Decimal("24.68")),
    ("m / 3", Decimal("4.113333")),
    ("m + 0.005", Decimal("12.345")),
    ("ROUND(m, 1)", Decimal("12.3")),
    ("ROUND(d)", 3.0),
    ("FLOOR(m)", Decimal("12")),
    ("CEIL(d)", 3),
    ("ABS(-i)", 7),
    ("SIGN(m)", 1.0),
    ("SQRT(d - 0.25)", 1.5),
    ("LEAST(i, n, 3)", 3),
    ("GREATEST(d, i)", 7.0),
    ("COALESCE(n, i)", 7),
    ("NULLIF(i, 7)", None),
    ("IF(b, 1, 2)", 1),
    ("CASE WHEN n > 0 THEN 'a' WHEN i > 6 THEN 'b' ELSE 'c' END", "b"),
    ("CASE i WHEN 6 THEN 'six' END", None),
    ("i BETWEEN 7 AND 8", True),
    ("i NOT IN (1, 2)", True),
    ("i IN (1, n)", None),
    ("n IS NULL AND b", True),
    ("n > 1 OR b", True),
    ("NOT (n > 1)", None),
    ("s LIKE 'St%m'", True),
    ("s NOT LIKE '_'", True),
    ("s LIKE 'S#%' ESCAPE '#'", False),
    ("s || '!' || CAST(i AS STRING)", "Stream!7"),
    ("UPPER(s)", "STREAM"),
    ("LENGTH(s)", 6),
    ("SUBSTRING(s, 2, 3)", "tre"),
    ("SUBSTRING(s FROM -2)", "am"),
    ("LEFT(s, 2) || RIGHT(s, 1)", "Stm"),
    ("TRIM('  x ')", "x"),
    ("REPLACE(s, 'ea', 'i')", "Strim"),
    ("CONTAINS(s, 'rea')", True),
    ("YEAR(t) * 100 + EXTRACT(MONTH FROM t)", 202405),
    ("DAYOFWEEK(day)", 6),
    ("HOUR(t)", 12),
    ("SECOND(t)", 56),
    ("DATE_TRUNC('hour', t)", TIME - 2_096_500_000),
    ("t + INTERVAL 10 MINUTES", TIME + 600_000_000),
    ("t - INTERVAL '1' DAY", TIME - 86_400_000_000),
    ("day + INTERVAL 14 DAYS", DAY + 14),
    ("day + INTERVAL 1 MONTH", DAY + 31),
    ("day - INTERVAL 1 YEAR", DAY - 366),
    ("t - TIMESTAMP '2024-05-17 12:34:56' < INTERVAL 1 SECOND", True),
    ("CAST(t - TIMESTAMP '2024-05-17 12:34:55' AS BIGINT)", 1),
    ("CAST(t AS DATE) = day", True),
    ("t > '2024-05-17'", True),
    ("CAST('12.345' AS DECIMAL(5, 2))", Decimal("12.35")),
    ("CAST('x' AS INT)", None),
    ("CAST(m AS INT)", 12),
    ("CAST(f AS STRING)", "0.1"),
    ("CAST(t AS STRING)", "2024-05-17 12:34:56.5"),
    ("CAST('nan' AS DOUBLE)", math.nan),
    ("CAST('nan' AS DOUBLE) = CAST('nan' AS DOUBLE)", True),
]


@pytest.fixture(scope="module")
def values() -> dict[str, object]:
    """Evaluate all expressions in one query on one tuple."""
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", COLUMNS))
    items = ", ".join(f"{text} AS c{index}" for index, (text, _) in enumerate(CASES))
    oracle.install("q", f"SELECT {items} FROM R")
    arrays = [pa.array([value], field.type) for value, field in zip(ROW, COLUMNS, strict=True)]
    oracle.tuples("R", pa.RecordBatch.from_arrays(arrays, schema=COLUMNS))
    assert oracle.failures("q") == 3  # an overflow, a division by zero, a cast
    [(_, row)] = oracle.rows["q"]
    return dict(zip((text for text, _ in CASES), row, strict=True))


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_expression(values: dict[str, object], text: str, expected: object) -> None:
    assert type(values[text]) is type(expected)
    assert repr(values[text]) == repr(expected)
