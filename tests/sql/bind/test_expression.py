"""The typed expression of each SQL expression: its conversions and its type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.sql.expressions import Call, Cast, Column, Literal, walk
from penstock.sql.plan import Plan, Select
from penstock.streams.schema import type_name

BOUND = [
    # Literals
    ("10", "10", "int32"),
    ("-5", "-5", "int32"),
    ("-2147483648", "-2147483648", "int32"),
    ("2147483648", "2147483648", "int64"),
    ("-9223372036854775808", "-9223372036854775808", "int64"),
    ("9223372036854775808", "Decimal('9223372036854775808')", "decimal(19, 0)"),
    ("1.5", "Decimal('1.5')", "decimal(2, 1)"),
    ("0.05", "Decimal('0.05')", "decimal(2, 2)"),
    (".5", "Decimal('0.5')", "decimal(1, 1)"),
    ("-1.50", "Decimal('-1.50')", "decimal(3, 2)"),
    ("1.5e0", "1.5", "double"),
    ("'it''s'", '"it\'s"', "string"),
    ("TRUE", "True", "boolean"),
    ("DATE '1970-01-02'", "1", "date"),
    ("TIMESTAMP '1970-01-01 00:00:01.5'", "1500000", "timestamp"),
    ("TIMESTAMP '1970-01-01T00:00'", "0", "timestamp"),
    ("TIMESTAMP '1970-01-01 02:00:00+02:00'", "0", "timestamp(6, 'UTC')"),
    ("TIMESTAMP '1970-01-01 00:00:00Z'", "0", "timestamp(6, 'UTC')"),
    ("TIMESTAMP '1970-01-01 00:00:00.000000001'", "1", "timestamp(9)"),
    ("X'00fF'", "b'\\x00\\xff'", "binary"),
    ("x''", "b''", "binary"),
    # Arithmetic on numbers
    ("x + 1", "(x + 1)", "int32"),
    ("x + id", "(cast(x as int64) + id)", "int64"),
    ("i8 + 1", "(cast(i8 as int32) + 1)", "int32"),
    ("i8 + u8", "(cast(i8 as int16) + cast(u8 as int16))", "int16"),
    ("u8 + x", "(cast(u8 as int32) + x)", "int32"),
    ("u + u", "(u + u)", "uint64"),
    ("u * x", "(cast(u as decimal128(20, 0)) * cast(x as decimal128(10, 0)))", "decimal(31, 0)"),
    ("x - y", "(cast(x as float) - y)", "float"),
    ("id * y", "(cast(id as float) * y)", "float"),
    ("y + z", "(cast(y as double) + z)", "double"),
    ("y + 0.1", "(cast(y as double) + 0.1)", "double"),
    ("p + 1", "(p + Decimal('1'))", "decimal(11, 2)"),
    ("p + x", "(p + cast(x as decimal128(10, 0)))", "decimal(13, 2)"),
    ("p * p", "(p * p)", "decimal(21, 4)"),
    ("p / 3", "(p / Decimal('3'))", "decimal(14, 6)"),
    ("p % 3", "(p % Decimal('3'))", "decimal(3, 2)"),
    ("p + y", "(cast(p as double) + cast(y as double))", "double"),
    ("x / 2", "(cast(x as double) / 2.0)", "double"),
    ("y / y", "(cast(y as double) / cast(y as double))", "double"),
    ("x DIV 2", "int_div(x, 2)", "int64"),
    ("MOD(x, 2)", "(x % 2)", "int32"),
    ("-x", "neg(x)", "int32"),
    ("+x", "x", "int32"),
    ("x + NULL", "(x + NULL)", "int32"),
    ("1 + 2 * x", "(1 + (2 * x))", "int32"),
    ("(1 + 2) * x", "((1 + 2) * x)", "int32"),
    # Times and intervals
    ("t + INTERVAL 10 MINUTES", "add_duration(t, 600000000)", "timestamp"),
    ("INTERVAL '1' DAY + t", "add_duration(t, 86400000000)", "timestamp"),
    ("t - INTERVAL '1 day'", "add_duration(t, -86400000000)", "timestamp"),
    ("t + INTERVAL -1.5 HOURS", "add_duration(t, -5400000000)", "timestamp"),
    ("d + INTERVAL 3 DAYS", "add_days(d, 3)", "date"),
    ("d - INTERVAL 1 WEEK", "add_days(d, -7)", "date"),
    ("d + INTERVAL 3 HOURS", "add_duration(cast(d as timestamp[us]), 10800000000)", "timestamp"),
    ("d + INTERVAL 2 MONTHS", "add_months(d, 2)", "date"),
    ("t - INTERVAL 1 YEAR", "add_months(t, -12)", "timestamp"),
    ("CAST(t - d AS int64)", "cast(sub_times(t, cast(d as timestamp[us])) as int64)", "int64"),
    ("CAST(t - '1970-01-01' AS int64)", "cast(sub_times(t, 0) as int64)", "int64"),
    ("t - t > INTERVAL 1 SECOND", "(sub_times(t, t) > 1000000)", "boolean"),
    ("INTERVAL 1 DAY * x > INTERVAL 2 DAYS + INTERVAL 1 HOUR",
     "((86400000000 * cast(x as int64)) > (172800000000 + 3600000000))", "boolean"),
    ("t + ABS(t - t)", "add_duration(t, abs(sub_times(t, t)))", "timestamp"),
    # Comparisons
    ("x = 1", "(x = 1)", "boolean"),
    ("x == 1", "(x = 1)", "boolean"),
    ("x != 1", "(x <> 1)", "boolean"),
    ("x <> id", "(cast(x as int64) <> id)", "boolean"),
    ("i8 = 5", "(i8 = 5)", "boolean"),
    ("i8 = 500", "(cast(i8 as int32) = 500)", "boolean"),
    ("u = 5", "(u = 5)", "boolean"),
    ("u = -5", "(cast(u as decimal128(20, 0)) = Decimal('-5'))", "boolean"),
    ("x < 1.5", "(cast(x as decimal128(11, 1)) < Decimal('1.5'))", "boolean"),
    ("x < y", "(cast(x as float) < y)", "boolean"),
    ("z >= 5", "(z >= 5.0)", "boolean"),
    ("z >= 0.1", "(z >= 0.1)", "boolean"),
    ("NULL = x", "(NULL = x)", "boolean"),
    ("NULL = NULL", "(NULL = NULL)", "boolean"),
    ("d > '1970-01-11'", "(d > 10)", "boolean"),
    ("'1970-01-01 00:00:01' <= t", "(1000000 <= t)", "boolean"),
    ("tz = '1970-01-01 01:00:00+01:00'", "(tz = 0)", "boolean"),
    ("d = t", "(cast(d as timestamp[us]) = t)", "boolean"),
    ("t > DATE '1970-01-02'", "(t > 86400000000)", "boolean"),
    ("x BETWEEN 1 AND id", "((x >= 1) AND (cast(x as int64) <= id))", "boolean"),
    ("x NOT BETWEEN 1 AND 2", "not(((x >= 1) AND (x <= 2)))", "boolean"),
    ("NULL BETWEEN 1 AND NULL", "((NULL >= 1) AND (NULL <= NULL))", "boolean"),
    ("x IN (1, 2, NULL)", "in(x, 1, 2, NULL)", "boolean"),
    ("x NOT IN (1, 2.5)",
     "not(in(cast(x as decimal128(11, 1)), Decimal('1.0'), Decimal('2.5')))", "boolean"),
    ("name LIKE 'a%'", "like(name, 'a%', '\\\\')", "boolean"),
    ("name NOT LIKE '!%' ESCAPE '!'", "not(like(name, '!%', '!'))", "boolean"),
    ("x IS NULL", "is_null(x)", "boolean"),
    ("x IS NOT NULL", "not(is_null(x))", "boolean"),
    ("NOT b AND x > 1 OR b", "((not(b) AND (x > 1)) OR b)", "boolean"),
    ("NOT x = 1", "not((x = 1))", "boolean"),
    ("b AND NULL", "(b AND NULL)", "boolean"),
    # CASE and its like
    ("CASE WHEN b THEN 1 ELSE 2.5 END", "case(b, Decimal('1.0'), Decimal('2.5'))", "decimal(2, 1)"),
    ("CASE WHEN b THEN 5 WHEN NOT b THEN 100 ELSE 2.5 END",
     "case(b, Decimal('5.0'), not(b), Decimal('100.0'), Decimal('2.5'))", "decimal(4, 1)"),
    ("CASE x WHEN 1 THEN 'a' END", "case((x = 1), 'a', NULL)", "string"),
    ("CASE WHEN b THEN NULL ELSE x END", "case(b, NULL, x)", "int32"),
    ("IF(b, 1, NULL)", "case(b, 1, NULL)", "int32"),
    ("COALESCE(NULL, x, id)", "coalesce(NULL, cast(x as int64), id)", "int64"),
    ("IFNULL(x, 0)", "coalesce(x, 0)", "int32"),
    ("NVL(d, '1970-01-02')", "coalesce(d, 1)", "date"),
    ("NULLIF(x, 3)", "null_if(x, 3)", "int32"),
    ("NULLIF(x, id)", "case((cast(x as int64) = id), NULL, x)", "int32"),
    ("LEAST(x, 2, y)", "least(cast(x as float), 2.0, y)", "float"),
    ("GREATEST(d, t)", "greatest(cast(d as timestamp[us]), t)", "timestamp"),
    # Functions
    ("ABS(p)", "abs(p)", "decimal(10, 2)"),
    ("SIGN(x)", "sign(x)", "double"),
    ("SQRT(x)", "sqrt(cast(x as double))", "double"),
    ("FLOOR(y)", "floor(y)", "int64"),
    ("CEIL(p)", "ceil(p)", "decimal(9, 0)"),
    ("CEILING(x)", "ceil(x)", "int64"),
    ("ROUND(p, 1)", "round(p, 1)", "decimal(10, 1)"),
    ("ROUND(p, -1)", "round(p, -1)", "decimal(9, 0)"),
    ("ROUND(y)", "round(y, 0)", "float"),
    ("UPPER(name) || 'x' || LOWER(name)", "concat(upper(name), 'x', lower(name))", "string"),
    ("CONCAT(name, NULL)", "concat(name, NULL)", "string"),
    ("LENGTH(bin)", "length(bin)", "int32"),
    ("CHAR_LENGTH(name)", "length(name)", "int32"),
    ("SUBSTRING(name, 2)", "substring(name, 2, NULL)", "string"),
    ("SUBSTR(name, x, 3)", "substring(name, x, 3)", "string"),
    ("SUBSTRING(name FROM 2 FOR 3)", "substring(name, 2, 3)", "string"),
    ("SUBSTRING(name, 2, NULL)", "NULL", "string"),
    ("LEFT(name, id)", "left(name, cast(id as int32))", "string"),
    ("RIGHT(name, 2)", "right(name, 2)", "string"),
    ("TRIM(LTRIM(RTRIM(name)))", "trim(ltrim(rtrim(name)))", "string"),
    ("REPLACE(name, 'a', 'b')", "replace(name, 'a', 'b')", "string"),
    ("STARTSWITH(name, 'a')", "starts_with(name, 'a')", "boolean"),
    ("ENDSWITH(name, 'a')", "ends_with(name, 'a')", "boolean"),
    ("CONTAINS(name, 'a')", "contains(name, 'a')", "boolean"),
    ("YEAR(t)", "year(t)", "int32"),
    ("EXTRACT(minute FROM tz)", "minute(tz)", "int32"),
    ("DAYOFWEEK(d)", "day_of_week(d)", "int32"),
    ("DATE_TRUNC('Month', d)", "date_trunc('month', d)", "timestamp"),
    ("DATE_TRUNC('hour', tz)", "date_trunc('hour', tz)", "timestamp(6, 'UTC')"),
    # Casts
    ("CAST(x AS double)", "cast(x as double)", "double"),
    ("x::bigint", "cast(x as int64)", "int64"),
    ("CAST(NULL AS date)", "NULL", "date"),
    ("CAST(name AS decimal(12, 3))", "cast(name as decimal128(12, 3))", "decimal(12, 3)"),
    ("CAST(x AS int)", "x", "int32"),
    ("CAST(INTERVAL 1 DAY AS bigint)", "cast(86400000000 as int64)", "int64"),
    ("CAST(1.5 AS int)", "cast(Decimal('1.5') as int32)", "int32"),
    ("CAST(t AS timestamp(0))", "cast(t as timestamp[s])", "timestamp(0)"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "bound", "kind"), BOUND, ids=[sql for sql, _, _ in BOUND])
def test_bound(select: Callable[[str], Select], sql: str, bound: str, kind: str) -> None:
    (output,) = select(f"SELECT {sql} FROM R").columns
    assert str(output.expression) == bound
    assert type_name(output.type) == kind


@pytest.mark.parametrize("sql", [sql for sql, _, _ in BOUND])
def test_operators_that_need_one_type_have_it(select: Callable[[str], Select], sql: str) -> None:
    one_type = {"eq", "ne", "lt", "le", "gt", "ge", "in", "coalesce", "least", "greatest"}
    (output,) = select(f"SELECT {sql} FROM R").columns
    for node in walk(output.expression):
        assert node.type != pa.null()
        if isinstance(node, Call) and node.op in one_type:
            assert len({arg.type for arg in node.args}) == 1


def test_a_finer_interval_makes_the_timestamp_finer(plan: Callable[[str], Plan]) -> None:
    schema = plan(
        "SELECT t + INTERVAL 1 SECOND, t + INTERVAL 1 MICROSECOND, "
        "t + (t - t), CAST(t AS timestamp(0)) + INTERVAL 5 MILLISECONDS FROM S"
    ).schema
    assert schema.types == [
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("us"),
        pa.timestamp("ms"),
    ]


def test_literals_have_physical_values(select: Callable[[str], Select]) -> None:
    columns = select("SELECT 1.50, 7, 2.0e0, DATE '2024-01-31', 'a', X'01', FALSE FROM R").columns
    assert [c.expression for c in columns] == [
        Literal(Decimal("1.50"), pa.decimal128(3, 2)),
        Literal(7, pa.int32()),
        Literal(2.0, pa.float64()),
        Literal(19753, pa.date32()),
        Literal("a", pa.string()),
        Literal(b"\x01", pa.binary()),
        Literal(False, pa.bool_()),
    ]


def test_decimals_wider_than_38_digits_lose_digits_after_the_point(
    select: Callable[[str], Select],
) -> None:
    wide = "CAST(p AS decimal(38, 10))"
    columns = select(f"SELECT {wide} * {wide}, {wide} / {wide}, {wide} + p FROM R").columns
    assert [type_name(c.type) for c in columns] == [
        "decimal(38, 6)",
        "decimal(38, 6)",
        "decimal(38, 9)",
    ]


def test_a_literal_of_38_digits_is_kept_whole(select: Callable[[str], Select]) -> None:
    digits = "1234567890" * 3 + "12345678"
    (output,) = select(f"SELECT {digits} + 0.5 FROM R").columns
    assert isinstance(output.expression, Call)
    assert output.expression.args[0] == Literal(Decimal(digits), pa.decimal128(38, 0))


def test_columns_are_found_without_regard_to_case(select: Callable[[str], Select]) -> None:
    (output,) = select('SELECT r."ID" FROM r').columns
    assert output.expression == Column(0, 0, "id", pa.int64())
    assert output.name == "id"


def test_a_deep_chain_binds(select: Callable[[str], Select]) -> None:
    where = select("SELECT x FROM R WHERE " + " OR ".join(f"x = {n}" for n in range(200))).where
    assert where.type == pa.bool_()


def test_a_conversion_is_a_cast(select: Callable[[str], Select]) -> None:
    (output,) = select("SELECT x + id FROM R").columns
    assert isinstance(output.expression, Call)
    assert output.expression.args[0] == Cast(Column(0, 1, "x", pa.int32()), pa.int64())
