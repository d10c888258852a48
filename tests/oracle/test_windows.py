"""The pairs of a join: arrival order, count and time windows, all kinds of join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.oracle.oracle import Oracle
from penstock.streams.events import End, Merged, Tuples
from penstock.streams.schema import Stream

Start = Callable[..., Any]
COLUMNS = pa.schema({"id": pa.int64(), "t": pa.int64()})


def join(left: str, right: str, kind: str = "INNER", on: str = "r.id <> 99") -> str:
    """A query for all pairs within the windows, unless ``on`` says otherwise."""
    columns = "r.id AS r" if kind in ("SEMI", "ANTI") else "r.id AS r, s.id AS s"
    return f"SELECT {columns} FROM R {left} AS r {kind} JOIN S {right} AS s ON {on}"


def test_a_selection_gives_rows_at_the_positions_of_their_tuples(play: Start) -> None:
    p = play("SELECT id + 1 AS next FROM R WHERE t > 5")
    assert p.r(1, 5) == []
    assert p.r(2, 6) == [(4, (3,))]
    assert p.s(3, 7) == []
    assert p.r(4, None) == []
    assert p.r(5, 7) == [(7, (6,))]


def test_a_count_window_holds_the_last_tuples_of_its_stream(play: Start) -> None:
    p = play(join("[ROWS 2]", "[ROWS 1]"))
    assert [p.r(1), p.r(2), p.r(3)] == [[], [], []]
    assert p.s(7) == [(6, (2, 7)), (6, (3, 7))]
    assert p.s(8) == [(7, (2, 8)), (7, (3, 8))]
    assert p.r(4) == [(8, (4, 8))]


def test_the_predicate_does_not_change_what_a_count_window_holds(play: Start) -> None:
    p = play(join("[ROWS 1]", "[ROWS 1]", on="r.id > 5") + " WHERE r.id > 5")
    p.r(6)
    p.r(1)
    assert p.s(7) == []


def test_a_named_selection_is_what_a_count_window_counts() -> None:
    oracle = Oracle()
    for name in ("R", "S"):
        oracle.create_stream(Stream.of(name, COLUMNS))
    oracle.derive("large", "SELECT id FROM R WHERE id > 5")
    oracle.install(
        "q", "SELECT l.id AS l, s.id AS s FROM large [ROWS 1] AS l, S [ROWS 1] AS s WHERE TRUE"
    )
    for key in (6, 1):
        oracle.tuples("R", pa.RecordBatch.from_pylist([{"id": key, "t": 0}], COLUMNS))
    oracle.tuples("S", pa.RecordBatch.from_pylist([{"id": 7, "t": 0}], COLUMNS))
    assert oracle.rows["q"] == [(6, (6, 7))]
    assert oracle.rows["large"] == [(4, (6,))]


def test_now_stores_no_tuple(play: Start) -> None:
    p = play(join("[NOW]", "[ROWS 5]"))
    p.r(1)
    assert p.s(7) == []
    assert p.r(2) == [(5, (2, 7))]


def test_an_unbounded_window_holds_everything(play: Start) -> None:
    p = play(join("[UNBOUNDED]", "[ROWS 1]"), bounded=True)
    for key in range(3):
        p.r(key)
    assert p.s(7) == [(6, (0, 7)), (6, (1, 7)), (6, (2, 7))]


def test_time_windows_meet_strictly_within_their_sizes(play: Start) -> None:
    # r.t - s.t must be above -10 and below 5, whichever arrives first.
    text = join("[RANGE 10 WATTR t SLACK 100]", "[RANGE 5 WATTR t SLACK 100]")
    for first in ("R", "S"):
        for difference in (-10, -9, 0, 4, 5):
            p = play(text)
            both = [("R", 1, 50 + difference), ("S", 7, 50)]
            for stream, key, time in both if first == "R" else both[::-1]:
                rows = p.push(stream, key, time)
            assert rows == ([(4, (1, 7))] if -10 < difference < 5 else [])


def test_a_time_window_against_a_count_window(play: Start) -> None:
    p = play(join("[RANGE 10 WATTR t]", "[ROWS 1]"))
    p.r(1, 100)
    assert p.s(7, 109) == [(4, (1, 7))]
    assert p.s(8, 110) == []
    # Far before r, and not late: a stream with a count window never is.
    assert p.s(9, 5) == [(6, (1, 9))]
    # The stored s is live by its count, whatever its time.
    assert p.r(2, 500) == [(7, (2, 9))]


def test_windows_are_empty_at_install(play: Start) -> None:
    p = play("SELECT id FROM R")
    p.r(1)
    p.oracle.install("pairs", join("[ROWS 5]", "[ROWS 5]"))
    p.r(2)
    p.s(7)
    assert p.oracle.rows["pairs"] == [(6, (2, 7))]


def test_a_predicate_that_is_null_is_not_true(play: Start) -> None:
    p = play(join("[ROWS 5]", "[ROWS 5]", on="r.t = s.t"))
    p.r(1, None)
    p.r(2, 3)
    assert p.s(7, None) == []
    assert p.s(8, 3) == [(6, (2, 8))]


def test_an_outer_join_pads_at_expiry_before_the_pairs(play: Start) -> None:
    p = play(join("[ROWS 2]", "[ROWS 1]", "FULL", on="r.t = s.t"))
    assert [p.r(1, 1), p.r(2, 2), p.s(7, 2)] == [[], [], [(5, (2, 7))]]
    assert p.r(3, 2) == [(6, (1, None)), (6, (3, 7))]
    assert p.r(4, 0) == []  # pushes out 2, which has been matched
    assert p.s(8, 9) == []
    assert p.s(9, 0) == [(9, (None, 8)), (9, (4, 9))]


def test_left_and_right_joins_pad_one_side(play: Start) -> None:
    for kind, expected in (("LEFT", [(6, (1, None))]), ("RIGHT", [(5, (None, 7))])):
        p = play(join("[ROWS 5]", "[ROWS 5]", kind, on="r.t = s.t"))
        p.r(1, 1)
        p.s(7, 2)
        # The end of R lets S expire, the end of S lets R.
        assert p.end() == expected


def test_with_a_window_of_no_rows_the_own_row_comes_last(play: Start) -> None:
    p = play(join("[NOW]", "[ROWS 1]", "FULL", on="r.t = s.t"))
    assert p.s(7, 1) == []
    assert p.r(1, 1) == [(4, (1, 7))]
    assert p.r(2, 2) == [(5, (2, None))]


def test_tuples_that_arrive_after_the_other_streams_end(play: Start) -> None:
    p = play(join("[ROWS 5]", "[ROWS 5]", "FULL", on="r.t = s.t"))
    assert p.r(1, 1) == []
    assert p.end("R") == []
    assert p.s(7, 1) == [(5, (1, 7))]
    assert p.s(8, 2) == [(6, (None, 8))]
    assert p.end("S") == []


def test_unmatched_tuples_of_a_time_window_expire_by_the_other_streams_time(play: Start) -> None:
    p = play(join("[RANGE 10 WATTR t]", "[RANGE 10 WATTR t]", "LEFT", on="r.id = s.id"))
    p.r(2, 5)
    p.r(1, 8)
    p.r(3, 100)
    assert p.s(1, 14) == [(6, (1, 1))]
    assert p.s(3, 95) == [(7, (2, None)), (7, (3, 3))]
    assert p.end() == []


def test_where_is_applied_after_padding(play: Start) -> None:
    text = join("[ROWS 1]", "[ROWS 1]", "LEFT", on="r.t = s.t")
    p = play(text + " WHERE s.id IS NULL")
    p.s(7, 1)
    assert p.r(1, 1) == []  # matched, by ON alone
    assert p.r(2, 2) == []
    assert p.r(3, 3) == [(6, (2, None))]


def test_semi_gives_the_first_match_and_anti_what_expires_without_one(play: Start) -> None:
    semi = play(join("[ROWS 2]", "[ROWS 2]", "SEMI", on="r.t = s.t"))
    anti = play(join("[ROWS 2]", "[ROWS 2]", "ANTI", on="r.t = s.t"))
    for p in (semi, anti):
        p.seen = [p.r(1, 1), p.r(2, 1), p.s(7, 1), p.s(8, 1), p.r(3, 1), p.r(4, 0), p.r(5, 0)]
        p.seen += [p.r(6, 0), p.end()]
    assert semi.seen == [[], [], [(5, (1,)), (5, (2,))], [], [(7, (3,))], [], [], [], []]
    assert anti.seen == [[], [], [], [], [], [], [], [(10, (4,))], [(12, (5,)), (12, (6,))]]


def test_drop_emits_nothing(play: Start) -> None:
    p = play(join("[ROWS 5]", "[ROWS 5]", "LEFT"))
    p.r(1)
    p.oracle.drop("q")
    assert p.r(2) == []
    assert p.oracle.position == 6


def test_in_a_self_join_a_tuple_meets_itself_once(play: Start) -> None:
    p = play("SELECT a.id AS a, b.id AS b FROM R [ROWS 2] AS a JOIN R [ROWS 2] AS b ON TRUE")
    assert p.r(1) == [(3, (1, 1))]
    # First as the left side, meeting what is stored on the right, then as the right side.
    assert p.r(2) == [(4, (2, 1)), (4, (1, 2)), (4, (2, 2))]


def test_the_end_of_a_self_joined_stream_gives_the_oldest_first(play: Start) -> None:
    p = play("SELECT a.id AS a, b.id AS b FROM R [ROWS 9] AS a FULL JOIN R [ROWS 9] AS b ON FALSE")
    p.r(1)
    p.r(2)
    assert p.end("R") == [(5, (1, None)), (5, (None, 1)), (5, (2, None)), (5, (None, 2))]


def test_a_union_gives_an_earlier_branch_first(play: Start) -> None:
    p = play("SELECT t AS v FROM R UNION ALL SELECT id AS v FROM S UNION ALL SELECT id FROM R")
    assert p.r(1, 10) == [(3, (10,)), (3, (1,))]
    assert p.s(2, 20) == [(4, (2,))]


def test_merged_batches_are_the_same_as_one_tuple_at_a_time(play: Start) -> None:
    text = join("[ROWS 2]", "[ROWS 1]")
    one = play(text)
    for stream, key in (("S", 7), ("R", 1), ("R", 2), ("S", 8), ("R", 3)):
        one.push(stream, key, 0)
    one.end()
    r = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "t": [0, 0, 0]}, COLUMNS)
    s = pa.RecordBatch.from_pydict({"id": [7, 8], "t": [0, 0]}, COLUMNS)
    many = play(text)
    which = np.array([1, 0, 0, 1, 0], np.int8)
    many.oracle.feed([Merged(("R", "S"), (r, s), which), End("R"), End("S")])
    assert many.oracle.rows == one.oracle.rows
    assert many.oracle.position == one.oracle.position == 10
    batches = play(text)
    batches.oracle.feed([Tuples("S", s.slice(0, 1)), Tuples("R", r.slice(0, 2))])
    assert batches.oracle.rows["q"] == one.oracle.rows["q"][:2]


def test_the_rows_of_a_derived_join_arrive_in_inner_order_at_one_position() -> None:
    oracle = Oracle()
    for name in ("R", "S"):
        oracle.create_stream(Stream.of(name, COLUMNS))
    oracle.derive("pairs", join("[ROWS 9]", "[ROWS 9]"))
    oracle.install(
        "q", "SELECT p.r, p.s, s.id AS z FROM pairs [ROWS 1] AS p JOIN S [ROWS 1] AS s ON TRUE"
    )
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "t": [0, 0]}, COLUMNS)
    oracle.tuples("R", batch)
    oracle.tuples("S", batch.slice(0, 1))
    # Two pairs come as the left side, of which the second pushes out the first; then S itself.
    assert oracle.rows["pairs"] == [(6, (1, 1)), (6, (2, 1))]
    assert oracle.rows["q"] == [(6, (2, 1, 1))]
