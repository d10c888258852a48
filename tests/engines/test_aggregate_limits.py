"""Aggregates on the embedded engine: memory, sums that do not fit, and what is not a change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import MemoryLimit, PenstockError

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "x": pa.int64()})
TENS = "[RANGE 10 SLIDE 10 WATTR t]"


def connect(**options: Any) -> Engine:
    engine = ps.connect("local", **options)
    assert isinstance(engine, Engine)
    engine.stream("R", SCHEMA)
    return engine


def tuples(*rows: tuple[int, int, int]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table([pa.array(c, pa.int64()) for c in columns], schema=SCHEMA)


def test_panes_and_groups_take_memory_and_tuples_do_not() -> None:
    engine = connect(window_memory=200_000)
    q = engine.install(f"SELECT COUNT(*) AS n FROM R {TENS}")
    for start in range(0, 100_000, 10_000):
        engine.push("R", tuples(*((start + i, i, i) for i in range(10_000))))
    assert q.metrics()["window_bytes"] < 100_000
    assert q.rows().num_rows == 9_999


def test_groups_that_pass_the_limit_are_refused_more() -> None:
    engine = connect(window_memory=100_000)
    q = engine.install(f"SELECT k, SUM(x) AS s FROM R {TENS} GROUP BY k", name="q")
    light = engine.install(f"SELECT COUNT(*) AS n FROM R {TENS}")
    engine.push("R", tuples(*((1, i, i) for i in range(10_000))))
    held = q.metrics()["window_bytes"]
    with pytest.raises(MemoryLimit) as caught:
        engine.push("R", tuples((2, 0, 0)))
    assert str(caught.value) == (
        f"the panes and groups of query 'q' hold {held} bytes, more than the limit of 100000; 0 "
        "tuples of this push were taken\n"
        "Make its windows smaller with change(), or connect with a larger window_memory; then push "
        "the rest."
    )
    q.drop()
    engine.push("R", tuples((12, 0, 0)))
    assert light.rows().to_pylist() == [{"n": 10_000}]


def test_groups_that_are_gone_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.blocks.aggregate.FEWEST_GROUPS", 16)
    engine = connect()
    q = engine.install(f"SELECT k, COUNT(*) AS n, MAX(x) AS m FROM R {TENS} GROUP BY k")
    for start in range(0, 3_000, 100):
        engine.push("R", tuples(*((start + i, (start + i) // 3, i) for i in range(100))))
    metrics = q.metrics()
    assert metrics["groups"][0] < 150
    assert metrics["panes"] == [1]
    assert metrics["windows_open"] == [1]
    made = q.rows().to_pylist()
    assert [row["k"] for row in made[:5]] == [0, 1, 2, 3, 3]
    assert sum(row["n"] for row in made) == 2_990


def test_a_sum_that_does_not_fit_stops_its_query_alone() -> None:
    engine = connect()
    q = engine.install(f"SELECT SUM(x) AS s, window_end AS e FROM R {TENS}", name="q")
    other = engine.install(f"SELECT MAX(x) AS m FROM R {TENS}")
    with pytest.raises(PenstockError) as caught:
        engine.push("R", tuples((1, 0, 5), (12, 0, 2**62), (13, 0, 2**62), (25, 0, 1)))
    assert str(caught.value) == (
        "query 'q' is stopped: SUM(x) of the window [10, 20) is 9223372036854775808, which does "
        "not fit int64; every other query has taken the input\n"
        "Sum a decimal: SUM(CAST(x AS decimal(38, 0)))."
    )
    engine.push("R", tuples((35, 0, 7)))
    assert q.rows().to_pylist() == [{"s": 5, "e": 10}]
    assert other.rows().to_pylist() == [{"m": 5}, {"m": 2**62}, {"m": 1}]


def test_tuples_pushed_one_by_one_are_aggregated() -> None:
    engine = connect()
    q = engine.install(f"SELECT COUNT(*) AS n, LAST(x) AS l FROM R {TENS}")
    for i in range(600):
        engine.push("R", [{"t": i, "k": 0, "x": i}])
    assert q.rows().to_pylist() == [{"n": 10, "l": 10 * k + 9} for k in range(59)]


def test_a_limit_that_has_let_rows_go_cannot_be_changed() -> None:
    engine = ps.connect("local")
    engine.stream("R", SCHEMA, bounded=True)
    q = engine.install("SELECT x FROM R ORDER BY x LIMIT 2", name="q")
    for text in ("SELECT x FROM R ORDER BY x LIMIT 3", "SELECT x FROM R ORDER BY k LIMIT 2"):
        with pytest.raises(PenstockError) as caught:
            q.change(text)
        assert str(caught.value) == (
            "query 'q' holds the rows that may come first at its end; a change cannot alter its "
            "ORDER BY or LIMIT\nInstall it as a new query and drop this one."
        )
    engine.push("R", tuples((0, 5, 3), (0, 6, 1), (0, 7, 2)))
    q.change("SELECT k FROM R ORDER BY x LIMIT 1")
    engine.end()
    assert q.rows().to_pylist() == [{"k": 6}]
