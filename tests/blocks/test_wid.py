"""Window-aggregation modules: the algorithms of Oge et al. 2013, and what ours do beyond them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

import penstock as ps
from penstock.blocks.aggregate.wid import ControlModules, modules_of
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.streams.windows import Sliding

Event = tuple[str, int]


@dataclass
class Circuit:
    """Algorithms 1 and 2, word for word, with COUNT as the aggregation module of each window."""

    window: Sliding
    count: int
    results: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = self.window.start or 0
        self.win_begin = [start + i * self.window.slide for i in range(self.count)]
        self.win_end = [begin + self.window.size for begin in self.win_begin]
        self.counts = [0] * self.count

    def clock(self, punctuation_flag: bool, wattr: int) -> None:
        """One cycle, with a punctuation or a tuple on the wires."""
        for i in range(self.count):
            eis = not punctuation_flag and self.win_begin[i] <= wattr < self.win_end[i]
            eos = punctuation_flag and wattr >= self.win_end[i]
            if eis:
                self.counts[i] += 1
            if eos:
                self.results.append((self.win_end[i], self.counts[i]))
                self.counts[i] = 0
                self.win_begin[i] += self.count * self.window.slide
                self.win_end[i] += self.count * self.window.slide


Q3 = Sliding(size=600, slide=60, start=0, slack=60)
"""The windows of the paper's query."""


@st.composite
def disordered(draw: Any, window: Sliding) -> list[Event]:
    """Tuples within the slack, each after the punctuation that leaves room for it."""
    highest, events = 0, []
    for _ in range(draw(st.integers(1, 60))):
        behind = draw(st.integers(0, window.slack or 0))
        highest += draw(st.integers(0, window.slide))
        events.append(("punctuation", highest - (window.slack or 0)))
        events.append(("tuple", max(0, highest - behind)))
    return events


WINDOWS = (
    Q3,
    Sliding(size=90, slide=60, start=0, slack=0),
    Sliding(size=50, slide=20, start=0, slack=70),
    Sliding(size=10, slide=30, start=0, slack=5),
)


@given(st.sampled_from(WINDOWS).flatmap(lambda w: st.tuples(st.just(w), disordered(w))))
def test_modules_are_the_circuits(drawn: tuple[Sliding, list[Event]]) -> None:
    """Registers move as the circuit's do, and a tuple is taken by those modules alone."""
    window, events = drawn
    grid = WindowGrid.of(window)
    ours, circuit = control(window), Circuit(window, modules_of(window))
    for kind, wattr in events:
        if kind == "tuple":
            first, last = (int(found[0]) for found in ours.eis(np.array([wattr])))
            taken = [first <= number <= last for number in ours.windows.tolist()]
            begins_and_ends = zip(circuit.win_begin, circuit.win_end, strict=True)
            assert taken == [begin <= wattr < end for begin, end in begins_and_ends]
            assert ours.added(np.arange(first, last + 1)) == 0, "equations 1 and 2"
            circuit.clock(False, wattr)
        else:
            opened = grid.closed(wattr)
            assert ours.eos(opened).tolist() == [wattr >= end for end in circuit.win_end]
            circuit.clock(True, wattr)
            ours.punctuate(opened)
        assert ours.win_begin.tolist() == circuit.win_begin
        assert ours.win_end.tolist() == circuit.win_end


def control(window: Sliding) -> ControlModules:
    return ControlModules(modules_of(window), WindowGrid.of(window))


def test_one_module_fewer_would_not_do() -> None:
    """A tuple as far ahead of the punctuation as the slack needs the module that x stands for."""
    few = ControlModules(modules_of(Q3) - 1, WindowGrid.of(Q3))
    few.punctuate(WindowGrid.of(Q3).closed(660 - 1 - 60))
    first, last = few.eis(np.array([659]))
    assert few.added(np.arange(first[0], last[0] + 1)) == 1


def test_modules_of_table_2() -> None:
    minutes = range(10, 61, 10)
    found = [modules_of(Sliding(size=60 * m, slide=60, slack=60)) for m in minutes]
    assert found == [11, 21, 31, 41, 51, 61]


@examples(40)
@given(st.sampled_from(WINDOWS).flatmap(lambda w: st.tuples(st.just(w), disordered(w))))
def test_results_are_the_circuits(drawn: tuple[Sliding, list[Event]]) -> None:
    window, events = drawn
    circuit = Circuit(window, modules_of(window))
    engine, query = installed(
        f"SELECT window_end, COUNT(*) FROM R [RANGE {window.size} SLIDE {window.slide} START AT 0 "
        f"WATTR t SLACK {window.slack}]"
    )
    for kind, wattr in events:
        circuit.clock(kind == "punctuation", wattr)
        if kind == "punctuation":
            engine.punctuate("R", wattr, "t")
        else:
            engine.push("R", [{"t": wattr, "x": 0}])
    found = rows_of(query)
    # Of windows that close together, the circuit's come in the order of their modules.
    assert found == sorted(result for result in circuit.results if result[1])
    assert query.metrics()["modules"] == [modules_of(window)]


def installed(sql: str) -> tuple[Any, Any]:
    engine = ps.connect("local", compile_predicates=False)
    engine.sql("CREATE STREAM R (t BIGINT, x BIGINT)")
    return engine, engine.install(sql, name="q", kernel="wid")


def rows_of(query: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in query.rows().to_pylist()]


TENS = "SELECT window_start, COUNT(*), FIRST(x), LAST(x) FROM R [RANGE 20 SLIDE 10 WATTR t{}]"


def test_modules_are_added_for_a_jump_and_go_again() -> None:
    engine, query = installed(TENS.format(""))
    engine.punctuate("R", 0, "t")
    assert query.metrics()["modules"] == [3]
    engine.push("R", [{"t": 5, "x": 1}])
    assert query.metrics()["modules"] == [3]
    engine.push("R", [{"t": 1005, "x": 2}, {"t": 35, "x": 3}])
    assert (query.metrics()["modules"], query.metrics()["windows_open"]) == ([7], [6])
    engine.punctuate("R", 15, "t")
    assert query.metrics()["modules"] == [6]
    engine.punctuate("R", 1000, "t")
    assert query.metrics()["modules"] == [3]
    engine.end()
    assert rows_of(query) == [
        (-10, 1, 1, 1),
        (0, 1, 1, 1),
        (20, 1, 3, 3),
        (30, 1, 3, 3),
        (990, 1, 2, 2),
        (1000, 1, 2, 2),
    ]


def test_one_punctuation_moves_modules_as_often_as_it_takes() -> None:
    modules = control(Sliding(size=20, slide=10, start=0))
    modules.punctuate(10**15)
    assert sorted(modules.windows.tolist()) == [10**15, 10**15 + 1, 10**15 + 2]
    assert [int(number) % 3 for number in modules.windows] == [0, 1, 2]


def test_tuples_before_the_first_count_until_a_punctuation() -> None:
    engine, query = installed(TENS.format(""))
    engine.punctuate("R", -(10**6), "t")
    engine.push("R", [{"t": 500, "x": 1}, {"t": 5, "x": 2}])
    assert query.metrics()["windows_open"] == [4]
    engine.end()
    assert [row[0] for row in rows_of(query)] == [-10, 0, 490, 500]


def test_late_tuples_count_in_modules_that_are_open() -> None:
    engine, query = installed(TENS.format(" SLACK 0"))
    engine.push("R", [{"t": 5, "x": 1}, {"t": 11, "x": 2}, {"t": 6, "x": 3}, {"t": 25, "x": 4}])
    engine.end()
    assert rows_of(query) == [
        (-10, 1, 1, 1),
        (0, 3, 1, 2),
        (10, 2, 2, 4),
        (20, 1, 4, 4),
    ]
    assert [letter["reason"] for letter in query.late().to_pylist()] == [
        "t = 6 is before the punctuation 11: it missed the window [-10, 10)"
    ]


def test_another_slack_needs_other_modules() -> None:
    engine, query = installed(TENS.format(" SLACK 0"))
    engine.push("R", [{"t": 5, "x": 1}, {"t": 25, "x": 2}])
    assert query.metrics()["modules"] == [3]
    query.change(TENS.format(" SLACK 30"))
    assert query.metrics()["modules"] == [5]
    engine.push("R", [{"t": 30, "x": 3}, {"t": 26, "x": 4}, {"t": 75, "x": 5}])
    assert query.metrics()["modules"] == [5]
    engine.end()
    assert rows_of(query) == [
        (-10, 1, 1, 1),
        (0, 1, 1, 1),
        (10, 2, 2, 4),
        (20, 3, 2, 3),
        (30, 1, 3, 3),
        (60, 1, 5, 5),
        (70, 1, 5, 5),
    ]


@pytest.mark.parametrize("batch_rows", [1, 10_000])
def test_tuples_of_many_windows(batch_rows: int) -> None:
    """Tuples that are in more windows together than are folded in at a time."""
    engine = ps.connect("local", compile_predicates=False, batch_rows=batch_rows)
    engine.sql("CREATE STREAM R (t BIGINT, x BIGINT)")
    size = 30_000
    sql = f"SELECT window_start, COUNT(*), LAST(x), SUM(x) FROM R [RANGE {size} SLIDE 1 WATTR t]"
    query = engine.install(sql, kernel="wid")
    engine.push("R", [{"t": t, "x": t % 7} for t in range(5)])
    engine.end()
    rows = rows_of(query)
    assert len(rows) == size + 4
    for window, *found in (*rows[:10], *rows[-10:]):
        inside = [t for t in range(5) if window <= t < window + size]
        assert found == [len(inside), inside[-1], sum(inside)]


EDGE = 2**63 - 1


@pytest.mark.parametrize("start", ["", "START AT 0 "])
@pytest.mark.parametrize(
    "times", [(EDGE - 5,), (-EDGE - 1,), (0, EDGE - 100), (-EDGE + 50, 0), (EDGE - 1000, EDGE - 30)]
)
def test_times_at_the_edge_are_as_with_panes(times: tuple[int, ...], start: str) -> None:
    """Where a border does not fit 64 bits both say so, after the same rows."""
    sql = f"SELECT window_start, COUNT(*), LAST(x) FROM R [RANGE 25 SLIDE 10 {start}WATTR t]"
    batches = [pa.record_batch({"t": [time], "x": [7]}) for time in times]
    assert outcome("wid", sql, batches) == outcome("panes", sql, batches)


def test_groups_come_and_go_as_with_panes() -> None:
    random = np.random.default_rng(3)
    batches = [
        pa.record_batch(
            {
                "t": random.integers(100 * i, 100 * i + 160, 2000),
                "x": random.integers(2000 * i, 2000 * i + 4000, 2000),
            }
        )
        for i in range(8)
    ]
    sql = (
        "SELECT window_end, x, COUNT(*), LAST(t) FROM R [RANGE 130 SLIDE 50 WATTR t SLACK 30] "
        "GROUP BY x"
    )
    found = outcome("wid", sql, batches)
    assert found == outcome("panes", sql, batches)
    assert len(found[0]) > 10_000 and found[1] is None


def outcome(kernel: str, sql: str, batches: list[Any]) -> tuple[Any, str | None]:
    """The rows of a query, and what stopped it."""
    engine = ps.connect("local", compile_predicates=False)
    engine.sql("CREATE STREAM R (t BIGINT, x BIGINT)")
    query = engine.install(sql, name="q", kernel=kernel)
    try:
        for batch in batches:
            engine.push("R", batch)
        engine.end()
    except ps.PenstockError as error:
        return rows_of(query), str(error)
    return rows_of(query), None
