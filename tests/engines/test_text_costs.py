"""What a text costs follows its length: columns, terms, streams and queries, counted in calls."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps


def connect(columns: int, name: str = "s") -> ps.Engine:
    engine = ps.connect("local")
    engine.sql(declaration(columns, name))
    return engine


def declaration(columns: int, name: str = "s") -> str:
    listed = ", ".join(f"{name}{i} BIGINT" for i in range(columns))
    return f"CREATE STREAM {name} (t BIGINT, {listed})"


def items(text: str, count: int, between: str = ", ") -> str:
    return between.join(text.format(i=i) for i in range(count))


def wide(text: str) -> Callable[[int], Callable[[], object]]:
    """Installs a query whose select list is as long as its stream is wide."""

    def prepare(size: int) -> Callable[[], object]:
        engine = connect(size)
        query = text.replace("LIST", items("s{i}", size))
        query = query.replace("SUMS", items("SUM(s{i}) AS d{i}", size))
        return lambda: engine.sql(query)

    return prepare


def narrow(before: str, term: str, between: str, after: str) -> Callable[[int], Callable[[], Any]]:
    """Installs a query with many terms, over a stream of a few columns."""

    def prepare(size: int) -> Callable[[], object]:
        engine = connect(2)
        engine.sql(declaration(2, "r"))
        return lambda: engine.install(before + items(term, size, between) + after)

    return prepare


def repeated(text: str) -> Callable[[int], Callable[[], object]]:
    """Many statements."""

    def prepare(size: int) -> Callable[[], object]:
        engine = connect(1)
        return lambda: [engine.sql(text.format(i=i)) for i in range(size)]

    return prepare


def pushed(size: int) -> Callable[[], object]:
    engine = connect(size)
    query = engine.install("SELECT * FROM s")
    row = {"t": 1, **{f"s{i}": i for i in range(size)}}
    return lambda: (engine.push("s", [row]), query.rows().to_pylist())


JOIN = "SELECT s.s0 FROM s [ROWS 9] JOIN r [ROWS 9] ON s.s0 = r.r0 AND "
COSTS = {
    "CREATE STREAM": lambda size: lambda: connect(size),
    "SELECT": wide("SELECT LIST FROM s"),
    "EXPLAIN": wide("EXPLAIN SELECT LIST FROM s"),
    "DESCRIBE": wide("DESCRIBE s"),
    "aggregates": wide("SELECT SUMS FROM s [RANGE 9 SLIDE 9 WATTR t]"),
    "GROUP BY": wide("SELECT COUNT(*) AS n, LIST FROM s [RANGE 9 SLIDE 9 WATTR t] GROUP BY LIST"),
    "AND": narrow("SELECT s0 FROM s WHERE ", "s0 <> {i}", " AND ", ""),
    "OR": narrow("SELECT s0 FROM s WHERE ", "s0 + s1 = {i}", " OR ", ""),
    "IN": narrow("SELECT s0 FROM s WHERE s0 IN (", "{i}", ", ", ")"),
    "CASE": narrow("SELECT CASE ", "WHEN s0 = {i} THEN {i}", " ", " END AS x FROM s"),
    "COALESCE": narrow("SELECT COALESCE(", "s0 + {i}", ", ", ") AS x FROM s"),
    "ON": narrow(JOIN, "s.s1 <> r.r0 + {i}", " AND ", ""),
    "UNION ALL": narrow("", "SELECT s0 + {i} AS x FROM s", " UNION ALL ", ""),
    "streams": repeated("CREATE STREAM a{i} (t BIGINT)"),
    "queries": repeated("SELECT s0 + {i} AS x FROM s"),
    "push": pushed,
}


def calls(do: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        do()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("name", COSTS)
def test_a_cost_follows_the_length_of_the_text(name: str) -> None:
    calls(COSTS[name](4))  # what is made on first use, is
    few, many = calls(COSTS[name](50)), calls(COSTS[name](200))
    assert many <= 4.4 * few


def test_a_function_takes_as_many_arguments_as_there_are() -> None:
    engine = connect(1)
    query = engine.install(f"SELECT COALESCE({items('NULL', 1500)}, s0) AS x FROM s")
    engine.push("s", [{"t": 1, "s0": 7}])
    assert query.rows().to_pylist() == [{"x": 7}]
