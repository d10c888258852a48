"""Bounded aggregates give DuckDB's rows: whole streams, time windows, count windows, order."""

from __future__ import annotations

import decimal
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from tests.test_against_duckdb import table

CALLS = (
    ("COUNT(*)", "COUNT(*)"),
    ("COUNT(i)", "COUNT(i)"),
    ("SUM(i)", "SUM(i)"),
    ("AVG(i)", "AVG(i)"),
    ("MIN(i)", "MIN(i)"),
    ("MAX(s)", "MAX(s)"),
    ("SUM(f)", "SUM(f)"),
    ("MAX(f)", "MAX(f)"),
    ("AVG(f) FILTER (WHERE f < 2)", "AVG(f) FILTER (WHERE f < 2)"),
    ("SUM(d)", "SUM(d)"),
    ("AVG(d)", "AVG(d)"),
    ("VAR_POP(i)", "VAR_POP(i)"),
    ("STDDEV_SAMP(i)", "STDDEV_SAMP(i)"),
    ("VAR_SAMP(d)", "VAR_SAMP(d)"),
    ("COUNT(DISTINCT i)", "COUNT(DISTINCT i)"),
    ("COUNT(DISTINCT f)", "COUNT(DISTINCT f)"),
    ("FIRST(i)", "arg_min_null(i, n)"),
    ("LAST(s)", "arg_max_null(s, n)"),
)
OURS = ", ".join(f"{ours} AS c{index}" for index, (ours, _) in enumerate(CALLS))
THEIRS = ", ".join(f"{theirs} AS c{index}" for index, (_, theirs) in enumerate(CALLS))
KEYS = ("", "s", "f", "i % 3, s")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, floats and averages but for rounding."""
    if one is None or other is None or isinstance(one, str):
        return bool(one == other)
    if one != one or other != other:
        return bool(one != one and other != other)
    if isinstance(one, decimal.Decimal) and isinstance(other, float):
        return abs(float(one) - other) < 1e-6
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


def check(ours: str, theirs: str, r: pa.Table) -> None:
    """The two queries give the same rows in the same order."""
    with duckdb.connect() as connection:
        connection.register("R", r)
        expected = connection.execute(theirs).fetchall()
    assert expected
    columns = [column.to_pylist() for column in ps.sql(ours, R=r, order_by="ts").columns]
    found = list(zip(*columns, strict=True))
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert all(map(same, row, other)), (row, other)


def grouped(keys: str, *windows: str) -> tuple[str, str, str]:
    """The keys as columns, the GROUP BY of DuckDB, and the ORDER BY that is the order of ours."""
    names = [key for key in keys.split(", ") if key]
    columns = "".join(f"{key} AS k{index}, " for index, key in enumerate(names))
    by = ", ".join([*windows, *names])
    order = ", ".join([*windows, *(f"{key} NULLS FIRST" for key in names)])
    return columns, f" GROUP BY {by}" if by else "", f" ORDER BY {order}" if order else ""


@pytest.mark.parametrize("keys", KEYS)
def test_whole_streams(keys: str) -> None:
    columns, by, order = grouped(keys)
    check(
        f"SELECT {columns}{OURS} FROM R WHERE i <> 7{by}",
        f"SELECT {columns}{THEIRS} FROM R WHERE i <> 7{by}{order}",
        table(3, 500),
    )


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("size", "slide"), [(20, 20), (50, 10), (25, 7), (3, 40)])
def test_time_windows(keys: str, size: int, slide: int) -> None:
    columns, by, order = grouped(keys, "k")
    ours_by = f" GROUP BY {keys}" if keys else ""
    check(
        f"SELECT window_start AS w, {columns}{OURS} "
        f"FROM R [RANGE {size} SLIDE {slide} WATTR ts]{ours_by}",
        f"SELECT k * {slide} AS w, {columns}{THEIRS} FROM R JOIN range(-100, 1000) AS grid(k) "
        f"ON ts >= k * {slide} AND ts < k * {slide} + {size}{by}{order}",
        table(4, 600),
    )


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("size", "slide"), [(50, 50), (100, 30), (7, 40)])
def test_count_windows(keys: str, size: int, slide: int) -> None:
    columns, by, order = grouped(keys, "k")
    ours_by = f" GROUP BY {keys}" if keys else ""
    check(
        f"SELECT window_end AS w, {columns}{OURS} FROM R [ROWS {size} SLIDE {slide}] "
        f"WHERE i > -15{ours_by}",
        f"SELECT k * {slide} AS w, {columns}{THEIRS} FROM R JOIN range(1, 600 // {slide} + 1) "
        f"AS grid(k) ON n >= k * {slide} - {size} AND n < k * {slide} WHERE i > -15{by}{order}",
        table(5, 600),
    )


@pytest.mark.parametrize(
    "order",
    [
        "f NULLS FIRST, n",
        "f DESC NULLS LAST, s DESC NULLS FIRST, n DESC",
        "i + n % 5 DESC NULLS FIRST, n LIMIT 7",
        "d NULLS LAST, n LIMIT 40",
    ],
)
def test_order_by_and_limit(order: str) -> None:
    text = f"SELECT n, s, f FROM R WHERE i > 0 ORDER BY {order}"
    check(text, text, table(6, 400))


def test_having_and_the_best_groups() -> None:
    text = (
        "SELECT s, COUNT(*) AS c, SUM(i) AS t FROM R GROUP BY s HAVING COUNT(*) > 20 "
        "ORDER BY t DESC, s NULLS FIRST LIMIT 4"
    )
    check(text, text, table(7, 500))


def test_an_aggregate_of_a_join() -> None:
    text = (
        "SELECT r.s AS k, COUNT(*) AS c, SUM(r.i * s.i) AS p, COUNT(s.n) AS pairs "
        "FROM R AS r LEFT JOIN R AS s ON r.s = s.s AND r.i < s.i GROUP BY r.s"
    )
    check(text, f"{text} ORDER BY k NULLS FIRST", table(8, 200))
