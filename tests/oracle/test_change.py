"""Changes of running queries: windows stay, and the change takes effect at its position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

Start = Callable[..., Any]


def join(left: str, right: str, kind: str = "INNER", on: str = "r.id <> 99") -> str:
    return f"SELECT r.id AS r, s.id AS s FROM R {left} AS r {kind} JOIN S {right} AS s ON {on}"


def test_another_predicate_applies_to_the_windows_as_they_are(play: Start) -> None:
    p = play(join("[ROWS 4]", "[ROWS 4]", on="r.t < s.t") + " WHERE r.id > 1")
    p.r(1, 10)
    p.r(2, 20)
    assert p.s(7, 30) == [(5, (2, 7))]
    assert p.change(join("[ROWS 4]", "[ROWS 4]", on="r.t = s.t")) == []
    # The old WHERE had dropped the pairs of 1, not the tuple.
    assert p.s(8, 10) == [(7, (1, 8))]
    assert p.r(3, 30) == [(8, (3, 7))]


def test_a_larger_window_fills_up_from_then_on(play: Start) -> None:
    p = play(join("[ROWS 1]", "[ROWS 1]"))
    p.r(1)
    p.r(2)
    assert p.change(join("[ROWS 3]", "[ROWS 1]")) == []
    p.r(3)
    assert p.s(7) == [(7, (2, 7)), (7, (3, 7))]


def test_a_smaller_window_is_cut_at_once(play: Start) -> None:
    p = play(join("[ROWS 3]", "[ROWS 3]", "FULL", on="FALSE"))
    p.r(1)
    p.s(7)
    p.r(2)
    p.s(8)
    assert p.change(join("[ROWS 1]", "[ROWS 0]", "FULL", on="FALSE")) == [
        (7, (1, None)),
        (7, (None, 7)),
        (7, (None, 8)),
    ]


def test_a_smaller_time_window_expires_tuples_that_the_other_stream_has_passed(play: Start) -> None:
    p = play(join("[RANGE 50 WATTR t]", "[RANGE 50 WATTR t]", "LEFT", on="r.id = s.id"))
    p.r(1, 10)
    p.r(2, 20)
    p.s(7, 30)
    text = join("[RANGE 20 WATTR t]", "[RANGE 50 WATTR t]", "LEFT", on="r.id = s.id")
    assert p.change(text) == [(6, (1, None))]
    assert p.change(text.replace("RANGE 20", "RANGE 90")) == []
    # What has expired does not return.
    assert p.s(1, 31) == []
    assert p.s(2, 31) == [(9, (2, 2))]


def test_what_was_matched_stays_matched(play: Start) -> None:
    p = play(join("[ROWS 5]", "[ROWS 5]", "LEFT", on="r.t = s.t"))
    p.r(1, 1)
    p.r(2, 2)
    p.s(7, 1)
    p.change(join("[ROWS 5]", "[ROWS 5]", "LEFT", on="FALSE"))
    assert p.end() == [(8, (2, None))]


def test_the_new_program_makes_the_rows_that_the_change_lets_expire(play: Start) -> None:
    p = play(join("[ROWS 3]", "[ROWS 3]", "LEFT", on="FALSE"))
    p.r(1, 10)
    text = "SELECT r.t * 2 AS twice FROM R [NOW] AS r LEFT JOIN S [ROWS 3] AS s ON FALSE"
    assert p.change(text) == [(4, (20,))]
    assert [(at, schema.names) for at, schema in p.oracle.schemas["q"]] == [
        (2, ["r", "s"]),
        (4, ["twice"]),
    ]


def test_less_slack_moves_the_punctuation_and_more_does_not_take_it_back(play: Start) -> None:
    def with_slack(slack: int) -> str:
        return join("[RANGE 10 WATTR t SLACK 50]", f"[RANGE 10 WATTR t SLACK {slack}]", "LEFT")

    p = play(with_slack(50))
    p.r(1, 0)
    p.s(6, 20)
    p.s(7, 12)
    # The latest time seen is 20.
    assert p.change(with_slack(5)) == [(6, (1, None))]
    p.change(with_slack(50))
    p.s(8, 14)
    p.s(9, 15)
    assert p.oracle.late["q"] == [(8, "S", (8, 14))]


def test_a_window_in_finer_units_keeps_its_tuples() -> None:
    oracle = Oracle()
    columns = pa.schema({"id": pa.int64(), "t": pa.timestamp("s")})
    for name in ("R", "S"):
        oracle.create_stream(Stream.of(name, columns))
    oracle.install("q", join("[RANGE 3 SECONDS WATTR t]", "[ROWS 1]", "LEFT"))
    for stream, seconds in (("R", 10), ("S", 12)):
        batch = pa.RecordBatch.from_pydict({"id": [1], "t": [seconds]}, columns)
        oracle.tuples(stream, batch)
    # From here on the clock counts milliseconds: 10 s and 1.5 s are before 12 s.
    oracle.change("q", join("[RANGE 1500 MILLISECONDS WATTR t]", "[ROWS 1]", "LEFT"))
    oracle.tuples("S", pa.RecordBatch.from_pydict({"id": [2], "t": [11]}, columns))
    oracle.tuples("S", pa.RecordBatch.from_pydict({"id": [3], "t": [12]}, columns))
    assert oracle.rows["q"] == [(4, (1, 1)), (6, (1, 2))]


@pytest.mark.parametrize(
    "text",
    [
        join("[ROWS 4]", "[RANGE 9 WATTR t]", "LEFT"),
        join("[ROWS 4]", "[RANGE 9 WATTR t]", "FULL"),
        join("[RANGE 4 WATTR t]", "[RANGE 9 WATTR t]"),
        join("[ROWS 4]", "[RANGE 9 WATTR id]"),
        join("[ROWS 4]", "[ROWS 9]"),
        join("[ROWS 4]", "[RANGE 9 WATTR t]").replace("FROM R", "FROM S"),
        "SELECT id AS r, id AS s FROM R",
    ],
)
def test_what_is_refused_takes_no_position(play: Start, text: str) -> None:
    p = play(join("[ROWS 4]", "[RANGE 9 WATTR t]"))
    with pytest.raises(PenstockError) as caught:
        p.change(text)
    assert str(caught.value) == (
        "query 'q' cannot be changed to other streams, another kind of join, or another kind of "
        "window or time attribute\nInstall it as a new query and drop this one."
    )
    assert p.r(1, 1) == []
    assert p.s(7, 1) == [(4, (1, 7))]


@pytest.mark.parametrize("order", ["ORDER BY id LIMIT 3", "ORDER BY t LIMIT 2", "ORDER BY id"])
def test_rows_that_a_limit_may_have_let_go_do_not_return(play: Start, order: str) -> None:
    p = play("SELECT id FROM R ORDER BY id LIMIT 2", bounded=True)
    with pytest.raises(PenstockError) as caught:
        p.change(f"SELECT id FROM R {order}")
    assert str(caught.value) == (
        "query 'q' holds no more rows for its end than its LIMIT asks for; a change cannot give it "
        "another ORDER BY or a larger LIMIT\nInstall it as a new query and drop this one."
    )


def test_rows_of_a_union_that_wait_keep_their_columns(play: Start) -> None:
    p = play("SELECT id FROM R UNION ALL SELECT id FROM S ORDER BY id", bounded=True)
    with pytest.raises(PenstockError) as caught:
        p.change("SELECT id AS other FROM R UNION ALL SELECT id FROM S ORDER BY 1")
    assert str(caught.value) == (
        "query 'q' holds the rows of its UNION ALL for its end; a change cannot give it other "
        "columns\nInstall it as a new query and drop this one."
    )


def test_without_a_limit_rows_may_be_put_in_another_order(play: Start) -> None:
    p = play("SELECT id FROM R ORDER BY id", bounded=True)
    p.r(1, 5)
    p.r(2, 4)
    p.r(3, 6)
    p.change("SELECT id FROM R ORDER BY t LIMIT 2")
    assert [row for _, row in p.end()] == [(2,), (1,)]


def test_a_derived_stream_that_is_read_cannot_be_dropped(play: Start) -> None:
    p = play("SELECT id FROM R")
    p.oracle.derive("D", "SELECT id FROM R")
    p.oracle.install("reader", "SELECT id FROM D")
    with pytest.raises(PenstockError) as caught:
        p.oracle.drop("D")
    assert str(caught.value) == "the derived stream D is read by reader\nDrop them first."
    p.oracle.drop("reader")
    p.oracle.drop("D")
    assert p.oracle.position == 7
