"""Aggregates on the embedded engine: memory, sums that do not fit, and what is not a change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.errors import MemoryLimit, PenstockError
from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

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


@tuning.given(fewest_groups=16)
def test_groups_that_are_gone_leave_nothing_behind() -> None:
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


def test_a_group_that_only_late_tuples_have_is_in_no_table() -> None:
    """It has a number, and nothing of it is ever folded in."""
    engine = connect()
    q = engine.install(f"SELECT k, COUNT(*) AS n FROM R {TENS} GROUP BY k")
    engine.push("R", tuples((5, 1, 0), (15, 1, 0)))
    engine.push("R", tuples((1, 2, 0), (2, 3, 0)))
    engine.end()
    assert q.rows().to_pylist() == [{"k": 1, "n": 1}] * 2
    assert q.late().num_rows == 2


def test_a_sum_that_does_not_fit_stops_its_query_alone() -> None:
    engine = connect()
    q = engine.install(f"SELECT SUM(x) AS s, window_end AS e FROM R {TENS}", name="q")
    other = engine.install(f"SELECT MAX(x) AS m FROM R {TENS}")
    with pytest.raises(ps.QueryFailed) as caught:
        engine.push("R", tuples((1, 0, 5), (12, 0, 2**62), (13, 0, 2**62), (25, 0, 1)))
    assert str(caught.value) == (
        "query 'q' is stopped: SUM(x) of the window [10, 20) is 9223372036854775808, which does "
        "not fit int64; every other query has taken the input\n"
        "Sum a decimal: SUM(CAST(x AS decimal(38, 0)))."
    )
    assert isinstance(caught.value.__cause__, ps.ResultDoesNotFit)
    engine.push("R", tuples((35, 0, 7)))
    assert q.rows().to_pylist() == [{"s": 5, "e": 10}]
    assert other.rows().to_pylist() == [{"m": 5}, {"m": 2**62}, {"m": 1}]


def test_a_sum_that_does_not_fit_is_the_error_of_a_query_that_is_alone() -> None:
    with pytest.raises(ps.ResultDoesNotFit) as caught:
        ps.sql(f"SELECT SUM(x) AS s FROM R {TENS}", R=tuples((1, 0, 2**62), (2, 0, 2**62)))
    assert str(caught.value) == (
        "SUM(x) of the window [0, 10) is 9223372036854775808, which does not fit int64\n"
        "Sum a decimal: SUM(CAST(x AS decimal(38, 0)))."
    )


def test_both_kernels_have_the_same_metrics() -> None:
    engine = connect()
    text = "SELECT COUNT(*) AS n FROM R [RANGE 20 SLIDE 10 WATTR t SLACK 0]"
    panes, wid = (engine.install(text, kernel=kernel) for kernel in ("panes", "wid"))
    plain = engine.install("SELECT x FROM R")
    engine.push("R", tuples((1, 0, 5), (12, 0, 6)))
    names = ("groups", "panes", "modules", "windows_open")
    assert [panes.metrics()[name] for name in names] == [[1], [2], [0], [2]]
    assert [wid.metrics()[name] for name in names] == [[1], [0], [3], [2]]
    assert [plain.metrics()[name] for name in names] == [[], [], [], []]


def test_tuples_pushed_one_by_one_are_aggregated() -> None:
    engine = connect()
    q = engine.install(f"SELECT COUNT(*) AS n, LAST(x) AS l FROM R {TENS}")
    for i in range(600):
        engine.push("R", [{"t": i, "k": 0, "x": i}])
    assert q.rows().to_pylist() == [{"n": 10, "l": 10 * k + 9} for k in range(59)]


def test_an_order_without_a_limit_can_be_changed() -> None:
    engine = ps.connect("local")
    engine.stream("R", SCHEMA, bounded=True)
    q = engine.install("SELECT x FROM R ORDER BY x", name="q")
    engine.push("R", tuples((0, 5, 3), (0, 6, 1), (0, 7, 2)))
    q.change("SELECT x FROM R ORDER BY k DESC LIMIT 2")
    engine.push("R", tuples((0, 4, 9)))
    engine.end()
    assert q.rows().to_pylist() == [{"x": 2}, {"x": 1}]


def test_a_limit_that_has_let_rows_go_cannot_be_changed() -> None:
    engine = ps.connect("local")
    engine.stream("R", SCHEMA, bounded=True)
    q = engine.install("SELECT x FROM R ORDER BY x LIMIT 2", name="q")
    for text in ("SELECT x FROM R ORDER BY x LIMIT 3", "SELECT x FROM R ORDER BY k LIMIT 2"):
        with pytest.raises(ps.ChangeRefused) as caught:
            q.change(text)
        assert str(caught.value) == (
            "query 'q' holds no more rows for its end than its LIMIT asks for; a change cannot "
            "give it another ORDER BY or a larger LIMIT\n"
            "Install it as a new query and drop this one."
        )
    engine.push("R", tuples((0, 5, 3), (0, 6, 1), (0, 7, 2)))
    q.change("SELECT k FROM R ORDER BY x LIMIT 1")
    engine.end()
    assert q.rows().to_pylist() == [{"k": 6}]


TOO_MANY = (
    "Leave EMIT EMPTY out, write a longer SLIDE, or keep tuples that are far ahead of the others "
    "out of the stream: derive one with a WHERE."
)


def test_empty_windows_are_not_brought_out_without_end() -> None:
    engine = connect()
    q = engine.install(f"SELECT COUNT(*) AS n, window_end AS e FROM R {TENS} EMIT EMPTY", name="q")
    other = engine.install(f"SELECT COUNT(*) AS n FROM R {TENS}")
    with pytest.raises(PenstockError) as caught:
        engine.push("R", tuples((1, 0, 0), (35, 0, 0), (2**60, 0, 0), (2**60 + 10, 0, 0)))
    assert str(caught.value) == (
        "query 'q' is stopped: EMIT EMPTY would bring out 115292150460684694 windows at once, "
        "[30, 40) to [1152921504606846960, 1152921504606846970); no more than 10000000 are; every "
        f"other query has taken the input\n{TOO_MANY}"
    )
    assert q.rows().to_pylist() == [{"n": 1, "e": 10}, {"n": 0, "e": 20}, {"n": 0, "e": 30}]
    assert other.rows().num_rows == 3


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
@pytest.mark.parametrize(
    "window", ["[RANGE 7 SLIDE 5 WATTR t SLACK 3]", "[RANGE 5 SLIDE 5 WATTR t]"]
)
@tuning.given(most_empty_windows=6)
def test_too_many_empty_windows_are_as_many_for_the_oracle(window: str, batch_rows: int) -> None:
    text = f"SELECT COUNT(*) AS n, window_start AS w FROM R {window} WHERE x > 0 EMIT EMPTY"
    failed = 0
    for seed in range(20):
        steps = np.random.default_rng(seed).choice([0, 1, 2, 5, 20, 28, 31], 15)
        rows = [(int(t), 0, int(t) % 2) for t in np.cumsum(steps)]
        oracle = Oracle()
        oracle.create_stream(Stream.of("R", SCHEMA))
        oracle.install("q", text)
        engine = connect(batch_rows=batch_rows)
        q = engine.install(text, name="q")
        meant = failure(partial(oracle.tuples, "R", tuples(*rows).to_batches()[0]))
        found = failure(partial(engine.push, "R", tuples(*rows)))
        assert q.rows().to_pylist() == [{"n": n, "w": w} for _, (n, w) in oracle.rows["q"]]
        wrapped = "query 'q' is stopped: {}; every other query has taken the input"
        assert found == (meant and (wrapped.format(meant[0]), meant[1]))
        failed += meant is not None
    assert 0 < failed < 20


def failure(do: Callable[[], object]) -> tuple[str, str] | None:
    try:
        do()
    except PenstockError as error:
        return error.what, error.remedy
    return None


@tuning.given(most_cells=1 << 12)
def test_more_partial_results_than_can_be_numbered_stop_the_query() -> None:
    engine = connect()
    engine.install(f"SELECT k, COUNT(x) AS n FROM R {TENS} GROUP BY k", name="q")
    with pytest.raises(PenstockError) as caught:
        engine.push("R", tuples(*((1, k, 0) for k in range(600))))
    assert str(caught.value) == (
        "query 'q' is stopped: it would need partial results of 600 groups in 8 panes or windows, "
        "and 2^31 or more cannot be held; every other query has taken the input\n"
        "Give the query a shorter RANGE, a longer SLIDE, or fewer groups."
    )


@tuning.given(most_cells=1000)
def test_more_cells_than_can_be_numbered_stop_the_query() -> None:
    engine = connect()
    engine.install(f"SELECT k, COUNT(x) AS n FROM R {TENS} GROUP BY k", name="q")
    with pytest.raises(PenstockError) as caught:
        engine.push("R", tuples(*((10 * k, k, 0) for k in range(1000))))
    assert str(caught.value) == (
        "query 'q' is stopped: it would need 1000 partial results, and 2^31 or more cannot be "
        "held; every other query has taken the input\n"
        "Give the query a shorter RANGE, a longer SLIDE, or fewer groups."
    )


def test_timestamps_that_no_calendar_shows_are_dead_letters() -> None:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (t TIMESTAMP(3))")
    q = engine.sql("SELECT COUNT(*) AS n, window_end AS e FROM R [RANGE 1 DAY SLIDE 1 DAY WATTR t]")
    far = [253_402_300_799_999, 253_402_214_399_999, -62_135_596_800_001, 10**18]
    engine.push("R", pa.table({"t": pa.array(far, pa.int64()).cast(pa.timestamp("ms"))}))
    engine.end()
    assert q.rows().to_pylist() == [{"n": 1, "e": datetime(9999, 12, 31)}]
    reasons = q.dead_letters()["reason"].to_pylist()
    assert [reason.split(" is ")[1] for reason in reasons] == [
        "in a window that ends after the year 9999",
        "in a window that begins before the year 1",
        "in a window that ends after the year 9999",
    ]


def test_more_windows_than_one_event_can_close_stop_the_query() -> None:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (t BIGINT)")
    engine.install("SELECT COUNT(*) AS n FROM R [RANGE 1e17 SLIDE 1 WATTR t]", name="q")
    engine.push("R", [{"t": 1}])
    with pytest.raises(ps.QueryFailed) as error:
        engine.end()
    assert str(error.value.__cause__) == (
        "its tuples are in 100000000000000000 windows that close at once; no more than 100000000 "
        "can\nGive the query a shorter RANGE or a longer SLIDE."
    )
