"""Window aggregates over hand-made plans: the tuples of a window, and when it closes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.oracle.aggregate import QueryStopped
from penstock.oracle.change import check_change
from penstock.oracle.query import QueryRun
from penstock.oracle.stream_state import StreamState
from penstock.sql.expressions import TRUE, Column, Expression, Literal
from penstock.sql.expressions import Call as Operation
from penstock.sql.plan import Aggregate, Call, Output, Plan, Scan, Select, SortKey
from penstock.streams.schema import Stream
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

STREAM = Stream.of("R", pa.schema({"t": pa.int64(), "x": pa.int64()}), bounded=True)
T = Column(0, 0, "t", pa.int64())
X = Column(0, 1, "x", pa.int64())
COUNT = Call("count", None, pa.int64())
SUM = Call("sum", X, pa.int64())
TIME = TimeAttribute(0, "t", 1)
Window = Sliding | SlidingRows | None


def above(column: Column, value: int) -> Expression:
    return Operation("gt", (column, Literal(value, pa.int64())), pa.bool_())


def plan(
    window: Window,
    *calls: Call,
    by: tuple[Expression, ...] = (),
    where: Expression = TRUE,
    having: Expression = TRUE,
    empty: bool = False,
    **more: Any,
) -> Plan:
    """All columns of an aggregate of R: keys, calls, and the borders of the window."""
    keys = tuple(Output(f"k{index}", key) for index, key in enumerate(by))
    time = TIME if isinstance(window, Sliding) else None
    source = Aggregate(Scan(STREAM, "R"), where, keys, calls, window, time, empty)
    columns = tuple(
        Output(f.name, Column(0, index, f.name, f.type)) for index, f in enumerate(source.schema)
    )
    return Plan(Select(source, having, columns), "", **more)


class Play:
    """A query over R, at positions 0, 1, 2, …"""

    def __init__(self, query: Plan, punctuation: int | None = None) -> None:
        self.source = StreamState(STREAM)
        if punctuation is not None:
            self.source.punctuate("t", punctuation)
        self.run = QueryRun("q", query, {"r": self.source})
        self.position = 0

    def _step(self, arrivals: dict[str, list[Any]]) -> list[Any]:
        self.position += 1
        return self.run.step(self.position - 1, arrivals)

    def r(self, time: int, x: int | None = 1) -> list[Any]:
        return self._step({"r": [(time, x)]})

    def punctuate(self, value: int) -> list[Any]:
        self.source.punctuate("t", value)
        return self._step({})

    def end(self) -> list[Any]:
        self.source.ended = True
        return self._step({})

    def change(self, query: Plan) -> list[Any]:
        check_change("q", self.run.plan, query)
        self.position += 1
        return self.run.change(self.position - 1, query)


def test_a_window_closes_when_a_punctuation_reaches_its_end() -> None:
    p = Play(plan(Sliding(10, 5), COUNT))
    assert p.r(3) == []
    assert p.r(4) == []
    assert p.r(5) == [(2, -5, 5)]
    # 14 and 15 close nothing but what ends there or before.
    assert p.r(14) == [(3, 0, 10)]
    assert p.r(15) == [(2, 5, 15)]
    assert p.end() == [(2, 10, 20), (1, 15, 25)]
    assert p.end() == []


def test_the_tuple_that_moves_the_punctuation_is_counted_first() -> None:
    p = Play(plan(Sliding(10, 10, slack=3), COUNT))
    p.r(9)
    # 13 moves the punctuation to 10, but its own lateness was decided by that of 9.
    assert p.r(13) == [(1, 0, 10)]
    assert p.end() == [(1, 10, 20)]


def test_a_jump_closes_the_windows_that_have_tuples_oldest_first() -> None:
    p = Play(plan(Sliding(10, 5, slack=100), COUNT))
    p.r(0)
    p.r(52)
    assert p.r(10**15) == [(1, -5, 5), (1, 0, 10), (1, 45, 55), (1, 50, 60)]


def test_a_tuple_counts_in_its_open_windows_and_is_late_for_the_others() -> None:
    p = Play(plan(Sliding(10, 2), COUNT))
    p.r(20)
    assert p.r(15, 7) == []
    assert p.run.late == [(1, "R", (15, 7))]
    assert p.run.reasons == [
        "t = 15 is before the punctuation 20: it missed 3 windows, [6, 16) to [10, 20)"
    ]
    assert p.r(18) == []
    assert p.run.reasons[1:] == [
        "t = 18 is before the punctuation 20: it missed the window [10, 20)"
    ]
    assert p.r(19) == []
    assert p.end() == [(4, 12, 22), (4, 14, 24), (3, 16, 26), (3, 18, 28), (1, 20, 30)]


def test_a_tuple_between_windows_is_neither_late_nor_counted() -> None:
    p = Play(plan(Sliding(2, 10), COUNT))
    p.r(1)
    assert p.r(25) == [(1, 0, 2)]
    assert p.r(7) == []
    assert p.run.late == []
    assert p.r(21) == []
    assert p.run.reasons == ["t = 21 is before the punctuation 25: it missed the window [20, 22)"]
    assert p.end() == []


def test_source_punctuations_and_no_slack() -> None:
    p = Play(plan(Sliding(10, 10), COUNT), punctuation=10)
    # Once the source punctuates, the tuples' times do not.
    p.r(35)
    p.r(12)
    assert p.r(9) == []
    assert p.run.reasons == ["t = 9 is before the punctuation 10: it missed the window [0, 10)"]
    assert p.punctuate(20) == [(1, 10, 20)]
    assert p.punctuate(15) == []
    assert p.punctuate(40) == [(1, 30, 40)]


def test_start_at_begins_with_window_zero() -> None:
    p = Play(plan(Sliding(10, 4, start=3), COUNT))
    assert p.r(2) == []
    assert p.run.dead == [(0, "R", (2, 1), "t = 2 is before START AT 3")]
    p.r(3)
    p.r(7)
    assert p.end() == [(2, 3, 13), (1, 7, 17)]


def test_emit_empty_between_the_first_and_the_last() -> None:
    p = Play(plan(Sliding(5, 5), COUNT, SUM, where=above(X, 0), empty=True))
    p.r(7, 0)
    assert p.r(21, 1) == [(0, None, 5, 10), (0, None, 10, 15), (0, None, 15, 20)]
    assert p.r(33, 0) == [(1, 1, 20, 25), (0, None, 25, 30)]
    assert p.end() == [(0, None, 30, 35)]


def test_emit_empty_waits_until_a_window_is_known_to_lie_between() -> None:
    p = Play(plan(Sliding(5, 5), COUNT, empty=True))
    p.r(7)
    # No tuple has come after 10 so far, and perhaps none will.
    assert p.punctuate(21) == [(1, 5, 10)]
    assert p.run.output_punctuations() == [None, 10, 15]
    assert p.r(31) == [(0, 10, 15), (0, 15, 20)]
    assert p.run.output_punctuations() == [None, 20, 25]
    assert p.punctuate(50) == [(0, 20, 25), (0, 25, 30), (1, 30, 35)]
    assert p.end() == []


def test_groups_come_by_key_and_only_where_they_have_tuples() -> None:
    p = Play(plan(Sliding(10, 10), COUNT, by=(X,)))
    for x in (2, None, 1, 2):
        p.r(1, x)
    assert p.r(10, 5) == [(None, 1, 0, 10), (1, 1, 0, 10), (2, 2, 0, 10)]
    assert p.end() == [(5, 1, 10, 20)]


def test_having_order_by_and_limit_of_each_window() -> None:
    key = SortKey(Column(0, 1, "n", pa.int64()), descending=True)
    having = above(Column(0, 0, "k0", pa.int64()), 0)
    query = plan(Sliding(10, 10), COUNT, by=(X,), having=having, sort=(key,), limit=2)
    p = Play(query)
    for x in (3, 1, 2, 2, 0, 0, 0, 1, 3):
        p.r(1, x)
    assert p.r(10, 5) == [(1, 2, 0, 10), (2, 2, 0, 10)]


def test_count_windows_answer_every_d_tuples() -> None:
    p = Play(plan(SlidingRows(3, 2), COUNT, SUM))
    found = [p.r(9 - x, x) for x in range(1, 8)]
    assert found == [[], [(2, 3, 0, 2)], [], [(3, 9, 1, 4)], [], [(3, 15, 3, 6)], []]
    assert p.end() == []


def test_count_windows_count_what_where_drops() -> None:
    p = Play(plan(SlidingRows(2, 2), COUNT, where=above(X, 0)))
    assert [p.r(1, x) for x in (0, 1, 0, 0)] == [[], [(1, 0, 2)], [], []]
    p = Play(plan(SlidingRows(2, 2), COUNT, where=above(X, 0), empty=True))
    assert [p.r(1, x) for x in (0, 1, 0, 0)] == [[], [(1, 0, 2)], [], [(0, 2, 4)]]


def test_the_whole_input_is_answered_at_its_end() -> None:
    p = Play(plan(None, COUNT, SUM))
    assert [p.r(1, 5), p.r(0, 6), p.end(), p.end()] == [[], [], [(2, 11)], []]
    assert Play(plan(None, COUNT, SUM)).end() == [(0, None)]
    assert Play(plan(None, COUNT, by=(X,))).end() == []


def test_a_changed_where_judges_what_comes_after_it() -> None:
    p = Play(plan(Sliding(10, 10), COUNT, SUM))
    p.r(1, 5)
    p.change(plan(Sliding(10, 10), COUNT, SUM, where=above(X, 10)))
    p.r(2, 6)
    p.r(3, 11)
    assert p.end() == [(2, 16, 0, 10)]


def test_a_new_call_counts_from_its_change_on() -> None:
    p = Play(plan(Sliding(10, 5), COUNT))
    p.r(6, 5)
    p.change(plan(Sliding(10, 5), SUM, COUNT))
    p.r(7, 6)
    assert p.r(15) == [(6, 2, 0, 10), (6, 2, 5, 15)]
    # A call that was removed and added again starts anew.
    p.change(plan(Sliding(10, 5), COUNT))
    p.change(plan(Sliding(10, 5), SUM, COUNT))
    assert p.end() == [(None, 1, 10, 20), (None, 1, 15, 25)]


def test_a_smaller_range_closes_at_once_and_a_larger_one_fills_up() -> None:
    p = Play(plan(Sliding(30, 10), COUNT))
    for time in (1, 11, 21, 25):
        p.r(time)
    assert p.run.rows == [(1, (1, -20, 10)), (2, (2, -10, 20))]
    assert p.change(plan(Sliding(10, 10), COUNT)) == [(1, 0, 10), (1, 10, 20)]
    assert p.change(plan(Sliding(30, 10), COUNT)) == []
    assert p.r(29) == []
    # [0, 30) and [10, 40) were emitted before the change, so no tuple is late for them.
    assert p.r(30) == []
    assert p.run.late == []
    assert p.end() == [(4, 20, 50), (1, 30, 60)]


def test_a_change_may_not_move_the_borders_of_panes() -> None:
    p = Play(plan(Sliding(25, 10), COUNT))
    p.change(plan(Sliding(35, 10), COUNT))
    p.change(plan(Sliding(40, 10), COUNT))
    for other in (Sliding(25, 10), Sliding(40, 5), Sliding(40, 10, start=0), SlidingRows(40, 10)):
        with pytest.raises(Exception, match=r"cannot be changed to"):
            p.change(plan(other, COUNT))
    with pytest.raises(Exception, match=r"cannot be changed to other GROUP BY keys"):
        p.change(plan(Sliding(40, 10), COUNT, by=(X,)))


def test_another_slack_punctuates_at_once() -> None:
    p = Play(plan(Sliding(10, 10, slack=50), COUNT))
    p.r(5)
    p.r(23)
    assert p.change(plan(Sliding(10, 10, slack=2), COUNT)) == [(1, 0, 10)]
    assert p.change(plan(Sliding(10, 10, slack=50), COUNT)) == []
    p.r(19)
    p.r(20)
    assert len(p.run.late) == 1


def test_the_punctuations_of_a_derived_stream() -> None:
    p = Play(plan(Sliding(10, 4, slack=0), COUNT))
    assert p.run.output_punctuations() == [None, None, None]
    p.r(10)
    # [0, 10) is closed; [4, 14) is the next.
    assert p.run.output_punctuations() == [None, 4, 14]
    p.r(13)
    assert p.run.output_punctuations() == [None, 4, 14]
    p.r(14)
    assert p.run.output_punctuations() == [None, 8, 18]


def test_a_sum_that_does_not_fit_stops_the_query() -> None:
    p = Play(plan(Sliding(10, 10), SUM))
    p.r(1, 2**63 - 1)
    p.r(2, 1)
    with pytest.raises(QueryStopped) as error:
        p.r(10)
    assert str(error.value) == (
        "SUM(x) of the window [0, 10) is 9223372036854775808, which does not fit int64\n"
        "Sum a decimal: SUM(CAST(x AS decimal(38, 0)))."
    )
    p = Play(plan(None, SUM))
    p.r(1, 2**63 - 1)
    p.r(2, 1)
    with pytest.raises(QueryStopped, match=r"^SUM\(x\) is 9223372036854775808, which does not fit"):
        p.end()
