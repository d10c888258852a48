"""Joins of three and more streams: which tuples go together, in which order their rows come."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest
from hypothesis import given
from tests.effort import examples
from tests.random_scripts import scripts
from tests.steps import Step
from tests.test_random_scripts import on_oracle

from penstock.errors import ChangeRefused
from penstock.oracle import oracle as oracle_module
from penstock.oracle.oracle import Oracle
from penstock.sql.bind.query import bind
from penstock.sql.plan import Plan
from penstock.sql.rules.close_equalities import close_equalities
from penstock.sql.rules.push_down_selection import push_down_selection
from penstock.streams.schema import Stream

COLUMNS = pa.schema({"k": pa.int64(), "t": pa.int64()})
Rows = list[tuple[object, ...]]
NULL = None


class Play:
    """Streams A, B, C and D of (k, t), and the query ``q``."""

    def __init__(self, text: str, bounded: bool = False) -> None:
        self.oracle = Oracle()
        for name in "ABCD":
            self.oracle.create_stream(Stream.of(name, COLUMNS, bounded=bounded))
        self.oracle.install("q", text)
        self._shown = 0

    def new(self) -> Rows:
        """The rows of ``q`` since the last look."""
        rows = self.oracle.rows["q"][self._shown :]
        self._shown += len(rows)
        assert all(position == self.oracle.position - 1 for position, _ in rows)
        return [row for _, row in rows]

    def push(self, stream: str, *tuples: tuple[int | None, int | None]) -> Rows:
        """The rows of the last of these tuples."""
        for key, time in tuples:
            self.new()
            batch = pa.RecordBatch.from_pydict({"k": [key], "t": [time]}, COLUMNS)
            self.oracle.tuples(stream, batch)
        return self.new()

    def keys(self, stream: str, *keys: int | None) -> Rows:
        """The rows of the last of these tuples, which all have the time 0."""
        return self.push(stream, *((key, 0) for key in keys))

    def punctuate(self, stream: str, value: int) -> Rows:
        self.oracle.punctuate(stream, value)
        return self.new()

    def end(self, stream: str | None = None) -> Rows:
        self.oracle.end(stream)
        return self.new()

    def change(self, text: str) -> Rows:
        self.oracle.change("q", text)
        return self.new()

    @property
    def punctuations(self) -> list[object]:
        """Those of the output's columns."""
        return self.oracle._queries["q"].output_punctuations()

    @property
    def late(self) -> list[tuple[str, tuple[object, ...]]]:
        return [(stream, row) for _, stream, row in self.oracle.late["q"]]


def three(a: str, b: str, c: str, on: str = "TRUE", columns: str = "a.k, b.k, c.k") -> str:
    return f"SELECT {columns} FROM A {a} AS a JOIN B {b} AS b ON TRUE JOIN C {c} AS c ON {on}"


def test_a_combination_is_produced_by_its_youngest_member() -> None:
    p = Play(three("[ROWS 2]", "[ROWS 2]", "[ROWS 2]"))
    assert p.keys("A", 1) == []
    assert p.keys("B", 11) == []
    assert p.keys("C", 21) == [(1, 11, 21)]
    assert p.keys("B", 12) == [(1, 12, 21)]
    assert p.keys("A", 2) == [(2, 11, 21), (2, 12, 21)]


def test_others_come_by_their_order_of_arrival_in_the_order_of_from() -> None:
    p = Play(three("[ROWS 2]", "[ROWS 2]", "[ROWS 2]"))
    p.keys("C", 22, 21)
    p.keys("A", 2, 1)
    assert p.keys("B", 11) == [(2, 11, 22), (2, 11, 21), (1, 11, 22), (1, 11, 21)]


def test_a_chain() -> None:
    p = Play(
        "SELECT a.k, a.t, b.t, c.t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
        "JOIN C [ROWS 9] AS c ON b.t = c.k"
    )
    p.push("A", (1, 5), (2, 6), (1, 7))
    p.push("C", (100, 8), (101, 9))
    assert p.push("B", (1, 100)) == [(1, 5, 100, 8), (1, 7, 100, 8)]
    assert p.push("B", (2, 102)) == []
    assert p.push("B", (2, 101)) == [(2, 6, 101, 9)]
    assert p.push("C", (102, 3)) == [(2, 6, 102, 3)]


def test_a_star() -> None:
    p = Play(
        "SELECT a.t, b.t, c.t, d.t FROM A [ROWS 9] AS a JOIN B [ROWS 9] AS b ON a.k = b.k "
        "JOIN C [ROWS 9] AS c ON a.k = c.k JOIN D [ROWS 9] AS d ON a.k < d.k"
    )
    p.push("B", (1, 10), (1, 11), (2, 12))
    p.push("C", (1, 20), (2, 21))
    p.push("D", (1, 30), (2, 31), (3, 32))
    assert p.push("A", (1, 0)) == [
        (0, 10, 20, 31), (0, 10, 20, 32), (0, 11, 20, 31), (0, 11, 20, 32),
    ]  # fmt: skip
    assert p.push("A", (2, 1)) == [(1, 12, 21, 32)]
    assert p.push("A", (3, 2)) == []


def test_a_cycle() -> None:
    p = Play(
        "SELECT a.k, b.k, c.k FROM A [ROWS 9] AS a, B [ROWS 9] AS b, C [ROWS 9] AS c "
        "WHERE a.t = b.k AND b.t = c.k AND c.t = a.k"
    )
    p.push("A", (1, 2), (9, 2))
    p.push("B", (2, 3), (2, 4))
    assert p.push("C", (3, 1)) == [(1, 2, 3)]
    assert p.push("C", (4, 9)) == [(9, 2, 4)]
    assert p.push("C", (4, 8)) == []


def test_a_condition_over_all_streams() -> None:
    p = Play(three("[ROWS 9]", "[ROWS 9]", "[ROWS 9]", "a.k + b.k = c.k"))
    p.keys("A", 1, 2)
    p.keys("B", 3, 4)
    assert p.keys("C", 5) == [(1, 4, 5), (2, 3, 5)]


def test_a_self_join_reads_the_stream_once_per_mention() -> None:
    text = "SELECT x.k, y.k, z.k FROM A {0} AS x, A {0} AS y, A {0} AS z"
    p = Play(text.format("[ROWS 2]"))
    assert p.keys("A", 1) == [(1, 1, 1)]
    assert p.keys("A", 2) == [
        (2, 1, 1),
        (1, 2, 1), (2, 2, 1),
        (1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2),
    ]  # fmt: skip
    p = Play(text.format("[ROWS 1]"))
    p.keys("A", 1)
    assert p.keys("A", 2) == [(2, 1, 1), (2, 2, 1), (2, 2, 2)]
    p = Play(text.format("[NOW]"))
    assert p.keys("A", 1, 2) == []


def test_two_mentions_beside_another_stream() -> None:
    p = Play("SELECT x.k, b.k, y.k FROM A [ROWS 1] AS x, B [ROWS 1] AS b, A [ROWS 2] AS y")
    p.keys("B", 10)
    assert p.keys("A", 1) == [(1, 10, 1)]
    assert p.keys("A", 2) == [(2, 10, 1), (2, 10, 2)]
    assert p.keys("B", 11) == [(2, 11, 1), (2, 11, 2)]


def test_rows_0_stores_nothing_and_probes() -> None:
    p = Play(three("[ROWS 0]", "[ROWS 5]", "[NOW]"))
    p.keys("A", 1)
    p.keys("B", 11)
    # One of A and C must be stored when the other arrives.
    assert p.keys("C", 21) == []
    assert p.keys("A", 2) == []
    p = Play(three("[ROWS 0]", "[ROWS 1]", "[ROWS 1]"))
    p.keys("B", 11, 12)
    p.keys("C", 21)
    assert p.keys("A", 1) == [(1, 12, 21)]
    assert p.keys("A", 2) == [(2, 12, 21)]
    assert p.keys("B", 13) == []


def test_windows_of_one() -> None:
    p = Play(three("[ROWS 1]", "[ROWS 1]", "[ROWS 1]"))
    p.keys("A", 1, 2)
    p.keys("B", 11, 12)
    assert p.keys("C", 21) == [(2, 12, 21)]
    assert p.keys("C", 22) == [(2, 12, 22)]
    assert p.keys("A", 3) == [(3, 12, 22)]


def test_conditions_do_not_change_what_a_count_window_holds() -> None:
    p = Play(three("[ROWS 1]", "[ROWS 1]", "[ROWS 1]", "a.k > 5") + " WHERE b.k > 5")
    p.keys("A", 6, 1)
    p.keys("B", 7)
    assert p.keys("C", 8) == []
    assert p.keys("A", 9) == [(9, 7, 8)]


def test_null_is_equal_to_nothing() -> None:
    p = Play(three("[ROWS 9]", "[ROWS 9]", "[ROWS 9]", "a.k = b.k AND b.k = c.k"))
    p.keys("A", NULL, 1)
    p.keys("B", NULL, 1)
    assert p.keys("C", NULL) == []
    assert p.keys("C", 1) == [(1, 1, 1)]


def test_any_two_members_of_time_windows_are_within_reach_of_each_other() -> None:
    """x_j.t < x_i.t + T_i for all i and j, in whatever order they arrive."""
    sizes = {"A": 5, "B": 10, "C": 20}
    text = three(*(f"[RANGE {size} WATTR t SLACK 100]" for size in sizes.values()))
    together = {
        (100, 100, 100): True,
        (100, 104, 104): True,
        (100, 105, 100): False,  # b is not below a.t + 5
        (100, 100, 105): False,  # nor is c
        (104, 95, 104): True,
        (104, 94, 100): False,  # a is not below b.t + 10
        (110, 110, 91): True,
        (110, 110, 90): False,  # a is not below c.t + 20
        (100, 96, 104): True,
        (100, 94, 104): False,  # c is not below b.t + 10; a is within reach of both
    }
    for times, expected in together.items():
        arrivals = list(zip("ABC", times, strict=True))
        for order in permutations(arrivals):
            p = Play(text)
            rows = [p.push(stream, (ord(stream), time)) for stream, time in order]
            assert rows == [[], [], [(65, 66, 67)] if expected else []], (times, order)


def test_in_order_of_time_a_tuple_is_live_below_its_end() -> None:
    window = "[RANGE 10 WATTR t]"
    p = Play(three(window, window, window))
    p.push("A", (1, 0), (2, 1))
    p.push("B", (11, 5))
    assert p.push("C", (21, 9)) == [(1, 11, 21), (2, 11, 21)]
    assert p.push("C", (22, 10)) == [(2, 11, 22)]
    assert p.push("C", (23, 11)) == []
    assert p.push("A", (3, 14)) == [(3, 11, 21), (3, 11, 22), (3, 11, 23)]


def test_tuples_of_one_time_are_all_together() -> None:
    window = "[RANGE 0 INCLUSIVE WATTR t]"
    p = Play(three(window, window, window))
    p.push("A", (1, 5), (2, 5))
    p.push("B", (11, 5))
    assert p.push("C", (21, 5)) == [(1, 11, 21), (2, 11, 21)]
    assert p.push("C", (22, 6)) == []


def test_a_count_window_among_time_windows() -> None:
    p = Play(three("[ROWS 1]", "[RANGE 10 WATTR t]", "[ROWS 2]"))
    p.push("B", (11, 0), (12, 5))
    p.push("A", (1, 7), (2, 8))
    # A holds the last tuple, B those of a time above 9 - 10.
    assert p.push("C", (21, 9)) == [(2, 11, 21), (2, 12, 21)]
    # C of time 9 may be with B of time 0, and A of time 10 may not.
    assert p.push("A", (3, 10)) == [(3, 12, 21)]


def test_members_that_are_both_live_must_be_within_reach_of_each_other() -> None:
    p = Play(three("[RANGE 5 WATTR t]", "[ROWS 3]", "[RANGE 5 WATTR t SLACK 50]"))
    p.push("A", (1, 0))
    p.push("B", (11, 10))
    # C is within reach of both, but B came too late for A.
    assert p.push("C", (21, 3)) == []
    p.push("B", (12, 4))
    assert p.push("C", (22, 3)) == [(1, 12, 22)]


def test_an_earlier_count_window_sets_no_time() -> None:
    p = Play(three("[RANGE 5 WATTR t]", "[ROWS 3]", "[RANGE 5 WATTR t]"))
    p.push("B", (11, 1000))
    p.push("A", (1, 0))
    assert p.push("C", (21, 3)) == [(1, 11, 21)]


def test_a_late_tuple_enters_no_window_and_finds_no_partner() -> None:
    window = "[RANGE 10 WATTR t SLACK 2]"
    p = Play(three(window, window, window))
    p.push("A", (1, 10))
    p.push("B", (11, 12))
    p.push("C", (21, 12))
    assert p.push("C", (22, 9)) == []
    assert p.push("C", (23, 10)) == [(1, 11, 23)]
    # It is late by its own stream alone.
    assert p.push("A", (2, 8)) == [(2, 11, 21), (2, 11, 23)]
    assert p.late == [("C", (22, 9))]


def test_a_tuple_is_late_once_for_each_mention_that_it_is_late_on() -> None:
    p = Play(
        "SELECT x.k, y.k, z.k FROM A [RANGE 10 WATTR t] AS x, A [RANGE 10 WATTR t SLACK 5] AS y, "
        "A [RANGE 10 WATTR t] AS z"
    )
    assert p.push("A", (1, 10)) == [(1, 1, 1)]
    assert p.push("A", (2, 7)) == [(1, 2, 1)]
    assert p.late == [("A", (2, 7)), ("A", (2, 7))]


def test_a_tuple_expires_when_all_other_streams_have_passed_it() -> None:
    window = "[RANGE 10 WATTR t SLACK 100]"
    p = Play(three(window, window, window))
    p.push("A", (1, 0))
    p.push("B", (11, 5))
    p.punctuate("B", 50)
    assert p.push("C", (21, 3)) == [(1, 11, 21)]
    p.punctuate("C", 50)
    larger = three("[RANGE 200 WATTR t SLACK 100]", *["[RANGE 200 WATTR t SLACK 100]"] * 2)
    # A of time 0 has expired; B and C wait for the punctuations of A.
    p.change(larger)
    assert p.push("C", (22, 60)) == []
    assert p.push("A", (2, 1)) == [(2, 11, 21), (2, 11, 22)]


def test_the_end_of_some_streams() -> None:
    p = Play(three("[ROWS 5]", "[ROWS 5]", "[ROWS 5]"))
    p.keys("A", 1)
    p.keys("B", 11)
    assert p.end("B") == []
    # Tuples of B are still there for the others.
    assert p.keys("C", 21) == [(1, 11, 21)]
    p.end("C")
    assert p.keys("A", 2) == [(2, 11, 21)]
    assert p.end("A") == []


def test_a_smaller_count_window_is_cut_and_a_larger_one_fills_up() -> None:
    p = Play(three("[ROWS 3]", "[ROWS 3]", "[ROWS 3]"))
    p.keys("A", 1, 2, 3)
    p.keys("B", 11)
    assert p.change(three("[ROWS 1]", "[ROWS 3]", "[ROWS 3]")) == []
    assert p.keys("C", 21) == [(3, 11, 21)]
    p.change(three("[ROWS 2]", "[ROWS 3]", "[ROWS 3]"))
    assert p.keys("C", 22) == [(3, 11, 22)]
    p.keys("A", 4)
    assert p.keys("C", 23) == [(3, 11, 23), (4, 11, 23)]


def test_another_predicate_and_select_list_apply_to_the_windows_as_they_are() -> None:
    p = Play(three("[ROWS 3]", "[ROWS 3]", "[ROWS 3]", "a.k = b.k AND b.k = c.k"))
    p.keys("A", 1, 2)
    p.keys("B", 1, 3)
    assert p.keys("C", 1) == [(1, 1, 1)]
    text = three("[ROWS 3]", "[ROWS 3]", "[ROWS 3]", "a.k < b.k", "b.k - a.k AS x, c.k AS c")
    assert p.change(text) == []
    assert p.keys("C", 7) == [(2, 7), (1, 7)]


@pytest.mark.parametrize(
    "other",
    [
        "SELECT a.k FROM A [ROWS 3] AS a, B [ROWS 3] AS b",
        "SELECT a.k FROM A [ROWS 3] AS a, C [ROWS 3] AS c, B [ROWS 3] AS b",
        "SELECT a.k FROM A [ROWS 3] AS a, B [ROWS 3] AS b, C [ROWS 3] AS c, D [ROWS 3] AS d",
        "SELECT a.k FROM A [ROWS 3] AS a, B [ROWS 3] AS b, C [RANGE 3 WATTR t] AS c",
        "SELECT a.k FROM A [ROWS 3] AS a JOIN B [ROWS 3] AS b ON TRUE "
        "LEFT JOIN C [ROWS 3] AS c ON TRUE",
    ],
)
def test_other_streams_and_kinds_of_window_are_refused(other: str) -> None:
    p = Play(three("[ROWS 3]", "[ROWS 3]", "[ROWS 3]"))
    with pytest.raises(ChangeRefused) as caught:
        p.change(other)
    assert str(caught.value) == (
        "query 'q' cannot be changed to other streams, another kind of join, or another kind of "
        "window or time attribute\nInstall it as a new query and drop this one."
    )


def test_the_punctuation_of_a_time_is_the_smallest_that_all_streams_allow() -> None:
    p = Play(
        three(
            *(f"[RANGE {size} WATTR t SLACK 1000]" for size in (5, 10, 20)),
            columns="a.t AS a, b.t AS b, c.t AS c, a.k AS k, a.t + 1 AS more",
        )
    )
    assert p.punctuations == [None] * 5
    p.punctuate("A", 100)
    p.punctuate("B", 103)
    assert p.punctuations == [None] * 5
    p.punctuate("C", 120)
    # a: min(100, 103 - 5, 120 - 5), b: min(103, 100 - 10, 120 - 10),
    # c: min(120, 100 - 20, 103 - 20)
    assert p.punctuations == [98, 90, 80, None, None]
    p.end("B")
    assert p.punctuations == [100, 90, 80, None, None]
    p.end("A")
    # a: 120 - 5; b: 120 - 10; c: 120
    assert p.punctuations == [115, 110, 120, None, None]


def test_a_time_in_a_count_window_has_no_punctuation() -> None:
    p = Play(
        three(
            "[RANGE 5 WATTR t]", "[ROWS 5]", "[RANGE 5 WATTR t]", columns="a.t AS a, b.t AS b, c.t"
        )
    )
    p.push("A", (1, 100))
    p.push("C", (1, 100))
    # B has a count window and generates none.
    assert p.punctuations == [None, None, None]
    p.punctuate("B", 90)
    assert p.punctuations == [85, None, 85]


def test_an_aggregate_over_the_join_closes_by_its_punctuations() -> None:
    oracle = Oracle()
    for name in "ABC":
        oracle.create_stream(Stream.of(name, COLUMNS))
    window = "[RANGE 10 WATTR t]"
    oracle.derive("j", three(window, window, window, columns="a.t AS t"))
    oracle.install("n", "SELECT COUNT(*), window_start FROM j [RANGE 10 SLIDE 10 WATTR t]")

    def push(stream: str, time: int) -> Rows:
        before = len(oracle.rows["n"])
        oracle.tuples(stream, pa.RecordBatch.from_pydict({"k": [0], "t": [time]}, COLUMNS))
        return [row for _, row in oracle.rows["n"][before:]]

    times = (("A", 1), ("B", 2), ("C", 2), ("C", 3), ("A", 10), ("B", 20))
    assert [push(stream, time) for stream, time in times] == [[]] * 6
    assert push("C", 19) == []
    assert push("C", 20) == [(2, 0)]


def test_an_aggregate_of_the_whole_join_answers_at_its_end() -> None:
    text = three(
        "[UNBOUNDED]", "[ROWS 2]", "[ROWS 2]", "a.k = b.k AND c.k = a.k", "c.t, COUNT(*), SUM(b.t)"
    )
    p = Play(f"{text} GROUP BY c.t", bounded=True)
    p.push("A", (1, 0), (1, 1), (2, 2))
    p.push("B", (1, 10), (1, 11))
    p.push("C", (1, 20), (2, 21), (1, 20))
    assert [p.end(stream) for stream in "BACD"] == [[], [], [(20, 8, 84)], []]


def test_a_branch_of_a_union() -> None:
    text = three("[ROWS 1]", "[ROWS 1]", "[ROWS 1]", columns="a.k + b.k + c.k AS k")
    p = Play(f"SELECT k FROM A UNION ALL {text} UNION ALL SELECT k FROM C")
    assert p.keys("A", 1) == [(1,)]
    assert p.keys("B", 10) == []
    assert p.keys("C", 100) == [(111,), (100,)]


def test_a_derived_stream_of_a_join_is_joined_with_others() -> None:
    oracle = Oracle()
    for name in "ABCD":
        oracle.create_stream(Stream.of(name, COLUMNS))
    window = "[ROWS 2]"
    oracle.derive("j", three(window, window, window, columns="a.k AS a, c.k AS c"))
    oracle.install(
        "q", "SELECT x.a, x.c, y.a, d.k FROM j [ROWS 2] AS x, j [ROWS 1] AS y, D [ROWS 1] AS d"
    )
    arrivals = (("D", 100), ("A", 1), ("B", 10), ("A", 2), ("C", 20))
    for stream, key in arrivals:
        oracle.tuples(stream, pa.RecordBatch.from_pydict({"k": [key], "t": [0]}, COLUMNS))
    # The last arrival gives two rows of j, (1, 20) and (2, 20): both arrive as x, then as y.
    assert [row for _, row in oracle.rows["q"]] == [
        (1, 20, 1, 100), (2, 20, 1, 100),
        (1, 20, 2, 100), (2, 20, 2, 100),
    ]  # fmt: skip


def closed(*given: object, **options: object) -> Plan:
    """The plan of a query, with the equalities that follow from those of its joins."""
    return close_equalities(push_down_selection(bind(*given, **options)))


@examples(300)
@given(scripts(multiway=True))
def test_equalities_that_follow_from_others_change_no_row(steps: list[Step]) -> None:
    expected = on_oracle(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle_module, "bind", closed)
        assert on_oracle(steps) == expected
