"""Bounded joins give DuckDB's rows: whole streams, count windows and time windows."""

from __future__ import annotations

import decimal
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
R_COLUMNS = ("r.n", "r.ts", "r.i", "r.f", "r.s", "r.d")
EXISTS = {"SEMI JOIN": "EXISTS", "ANTI JOIN": "NOT EXISTS"}
S_COLUMNS = ("s.n", "s.ts", "s.i", "s.f", "s.s", "s.d")


def table(seed: int, rows: int) -> pa.Table:
    """Tuples in order of time, with many ties, NULLs and NaNs; ``n`` numbers them."""
    source = random.Random(seed)
    times, now = [], 0
    for _ in range(rows):
        now += source.choice((0, 0, 1, 2))
        times.append(now)

    def column(kind: pa.DataType, *choices: Any) -> pa.Array[Any]:
        return pa.array(source.choices(choices, k=rows), kind)

    return pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "ts": pa.array(times, pa.int64()),
            "i": column(pa.int32(), *range(-20, 20), None),
            "f": column(pa.float64(), *(x / 4 for x in range(-20, 20)), float("nan"), None),
            "s": column(pa.string(), *"abcdefgh", "", "ä", None),
            "d": column(pa.decimal128(9, 2), *map(decimal.Decimal, ("0", "0.50", "-1.25")), None),
        }
    )


def arrivals(r: pa.Table, s: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both with the position of each tuple in the merged order: by time, R before S at ties."""
    both = [(t, 0, n) for n, t in enumerate(r["ts"].to_pylist())]
    both += [(t, 1, n) for n, t in enumerate(s["ts"].to_pylist())]
    positions: tuple[list[int], list[int]] = ([], [])
    for position, (_, which, _) in enumerate(sorted(both)):
        positions[which].append(position)
    return r.append_column("p", [positions[0]]), s.append_column("p", [positions[1]])


def with_seen(mine: pa.Table, other: pa.Table) -> pa.Table:
    """Add ``seen``: the number of tuples of the other stream that arrived before each."""
    theirs = other["p"].to_pylist()
    seen, count = [], 0
    for position in mine["p"].to_pylist():
        while count < len(theirs) and theirs[count] < position:
            count += 1
        seen.append(count)
    return mine.append_column("seen", [pa.array(seen, pa.int64())])


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with NaN as something that equals itself."""
    return tuple("NaN" if value != value else value for value in row)


def duckdb_rows(sql: str, r: pa.Table, s: pa.Table) -> Counter[tuple[Any, ...]]:
    r, s = arrivals(r, s)
    with duckdb.connect() as connection:
        connection.register("R", with_seen(r, s))
        connection.register("S", with_seen(s, r))
        return Counter(map(plain, connection.execute(sql).fetchall()))


def check(
    kind: str, on: str, windows: tuple[str, str], live: str, sizes: tuple[int, int], rest: str = ""
) -> None:
    """Run a join with windows here, and in DuckDB with a condition on arrival numbers or times."""
    r, s = table(1, sizes[0]), table(2, sizes[1])
    names = R_COLUMNS if kind in EXISTS else R_COLUMNS + S_COLUMNS
    columns = ", ".join(f"{name} AS {name.replace('.', '_')}" for name in names)
    ours = f"SELECT {columns} FROM R {windows[0]} AS r {kind} S {windows[1]} AS s ON {on}{rest}"
    theirs = f"SELECT {columns} FROM R AS r {kind} S AS s ON ({on}) AND {live}{rest}"
    if kind in EXISTS:
        # DuckDB 2.0.0 loses NULLs in a SEMI JOIN on inequalities; subqueries it gets right.
        theirs = (
            f"SELECT {columns} FROM R AS r "
            f"WHERE {EXISTS[kind]} (SELECT 1 FROM S AS s WHERE ({on}) AND {live})"
        )
    expected = duckdb_rows(theirs, r, s)
    assert expected
    found = ps.sql(ours, R=r, S=s, order_by="ts")
    columns_found = [column.to_pylist() for column in found.columns]
    assert Counter(map(plain, zip(*columns_found, strict=True))) == expected


PREDICATES = (
    "r.i = s.i",
    "r.f = s.f",
    "r.s = s.s AND r.i < s.i",
    "r.d = s.d",
    "r.i BETWEEN s.i - 1 AND s.i + 1 AND r.s <> s.s",
    "r.s LIKE s.s || '%' AND r.f < s.f",
)


@pytest.mark.product(2, by="kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on", PREDICATES)
def test_joins_of_whole_streams(kind: str, on: str) -> None:
    check(kind, on, ("[UNBOUNDED]", "[UNBOUNDED]"), "TRUE", (400, 300))


@pytest.mark.product(1, by="kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("w_r", "w_s"), [(1, 1), (7, 40), (250, 3)])
def test_joins_of_count_windows(kind: str, w_r: int, w_s: int) -> None:
    # The later tuple must find the earlier one among the last w of its stream.
    live = f"((r.p > s.p AND s.n >= r.seen - {w_s}) OR (r.p < s.p AND r.n >= s.seen - {w_r}))"
    check(kind, "r.i < s.i AND r.f <> s.f", (f"[ROWS {w_r}]", f"[ROWS {w_s}]"), live, (700, 600))


@pytest.mark.product(1, by="kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("t_r", "t_s"), [(1, 1), (5, 20), (60, 2)])
def test_joins_of_time_windows(kind: str, t_r: int, t_s: int) -> None:
    live = f"s.ts < r.ts + {t_r} AND r.ts < s.ts + {t_s}"
    windows = (f"[RANGE {t_r} WATTR ts]", f"[RANGE {t_s} WATTR ts]")
    check(kind, "r.s = s.s OR r.i = s.i", windows, live, (700, 600))


@pytest.mark.parametrize("kind", KINDS[:4])
def test_where_is_applied_after_padding(kind: str) -> None:
    where = " WHERE r.i > 0 OR s.i IS NULL"
    check(kind, "r.s = s.s", ("[UNBOUNDED]", "[UNBOUNDED]"), "TRUE", (300, 200), where)


def test_a_few_thousand_rows_on_each_side() -> None:
    live = "s.ts < r.ts + 100 AND r.ts < s.ts + 100"
    check("JOIN", "ABS(r.i - s.i) <= 1 AND r.f > s.f", ("[RANGE 100 WATTR ts]",) * 2, live,
          (5000, 4000))  # fmt: skip
