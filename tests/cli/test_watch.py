"""The drawings of --watch, from given metrics and a given clock."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.blocks.join.latency import Histogram
from penstock.cli.watch import Watch, line, picture, sparkline


def latency(*nanoseconds: int) -> dict[str, Any]:
    histogram = Histogram()
    histogram.add_many(nanoseconds)
    return histogram.summary()


FULL: dict[str, Any] = {
    "tuples_in": {"R": 1000, "S": 500},
    "rows_out": 42,
    "shed": {"R": 7},
    "cores": [
        {"core": 0, "stored": [500, 250], "probed": [1000, 500], "matched": 30,
         "comparisons": 12345, "window": [64, 32], "depth": 3, "busy": 0.5},
        {"core": 1, "stored": [500, 250], "probed": [1000, 500], "matched": 12, "busy": 1.0},
    ],
    "latency": {"processing": latency(1000, 1000, 5000), "visiting": latency()},
}  # fmt: skip
BARE: dict[str, Any] = {
    "tuples_in": {"R": 1},
    "rows_out": 1,
    "comparisons": 9,
    "window_tuples": [1, 2],
    "cores": [{"core": 0, "stored": [1, 2], "probed": [1, 2], "matched": 1}],
}


def drawn(metrics: dict[str, Any]) -> list[str]:
    console = Console(file=io.StringIO(), record=True, width=120)
    console.print(picture(metrics, 2.5))
    return [row.rstrip() for row in console.export_text().splitlines() if row.strip()]


def test_every_core_has_a_line_with_its_metrics() -> None:
    rows = drawn(FULL)
    assert rows[0] == "2.5 s: 1,500 tuples in, 42 rows out, 7 shed"
    assert rows[1].split() == [
        "core", "load", "window", "queue", "stored", "probed", "comparisons", "matches",
    ]  # fmt: skip
    assert " ".join(rows[3].split()) == ("0 ████░░░░ 50% 64 + 32 3 500 + 250 1,000 + 500 12,345 30")
    assert " ".join(rows[4].split()) == "1 ████████ 100% - - 500 + 250 1,000 + 500 - 12"
    assert rows[5].split() == ["latency", "p50", "p99", "max", "histogram"]
    assert " ".join(rows[7].split()) == (
        "processing 1.02 µs 5 µs 5 µs █ ▄ below 1.02 µs .. 8.19 µs"
    )
    assert " ".join(rows[8].split()) == "visiting - - - -"
    assert len(rows) == 9


def test_an_only_core_has_what_the_query_has() -> None:
    rows = drawn(BARE)
    assert " ".join(rows[3].split()) == "0 - 1 + 2 - 1 + 2 1 + 2 9 1"
    assert len(rows) == 4


AGGREGATES: dict[str, Any] = {
    "tuples_in": {"R": 9},
    "rows_out": 4,
    "groups": [1200, 1],
    "panes": [6, 2],
    "modules": [0, 0],
    "windows_open": [5, 0],
    "cores": [],
}


def test_an_aggregate_has_a_line_and_no_cores_have_none() -> None:
    rows = drawn(AGGREGATES)
    assert rows[0] == "2.5 s: 9 tuples in, 4 rows out"
    assert " ".join(rows[1].split()) == "aggregate groups panes open windows"
    assert [row.split() for row in rows[3:]] == [["0", "1,200", "6", "5"], ["1", "1", "2", "0"]]
    assert line(AGGREGATES, 1.0) == (
        "1.0 s: 9 tuples in, 4 rows out; aggregate 0: groups 1,200, panes 6, open windows 5; "
        "aggregate 1: groups 1, panes 2, open windows 0"
    )


def test_with_window_modules_these_are_shown() -> None:
    modules = {"groups": [1], "panes": [0], "modules": [3], "windows_open": [2], "cores": []}
    assert " ".join(drawn(modules)[1].split()) == "aggregate groups modules open windows"
    assert drawn(modules)[3].split() == ["0", "1", "3", "2"]


def test_what_neither_joins_nor_aggregates_has_no_table() -> None:
    nothing = {"groups": [], "panes": [], "modules": [], "windows_open": [], "cores": []}
    assert drawn(nothing) == ["2.5 s: 0 tuples in, 0 rows out"]


@pytest.mark.parametrize("metrics", [{}, {"cores": []}, {"cores": [{}]}, {"latency": {}}])
def test_metrics_that_say_nothing_are_drawn_too(metrics: dict[str, Any]) -> None:
    assert drawn(metrics)[0] == "2.5 s: 0 tuples in, 0 rows out"
    assert line(metrics, 1.0).startswith("1.0 s: 0 tuples in, 0 rows out")


def test_a_line_says_the_same() -> None:
    assert line(FULL, 3.0) == (
        "3.0 s: 1,500 tuples in, 42 rows out, 7 shed; "
        "core 0: load 50%, window 64 + 32, queue 3, comparisons 12,345, matches 30; "
        "core 1: load 100%, matches 12; "
        "processing p50 1.02 µs, p99 5 µs; visiting p50 -, p99 -"
    )


def test_gaps_in_a_histogram_are_gaps_in_the_bars() -> None:
    assert sparkline([[2e-9, 1], [16e-9, 2]]) == "▄  █ below 2 ns .. 16 ns"
    assert sparkline([]) == "-"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_there_is_a_line_each_second_and_one_at_the_end() -> None:
    clock, output, metrics = Clock(), io.StringIO(), {"tuples_in": {"R": 0}}
    with Watch(Console(file=output), lambda: metrics, clock) as watch:
        for _ in range(10):
            clock.now += 0.25
            metrics["tuples_in"]["R"] += 1
            watch.moved()
    assert output.getvalue().splitlines() == [
        "1.0 s: 4 tuples in, 0 rows out",
        "2.0 s: 8 tuples in, 0 rows out",
        "2.5 s: 10 tuples in, 0 rows out",
    ]


def test_on_a_terminal_the_picture_is_drawn_anew() -> None:
    clock, output = Clock(), io.StringIO()
    console = Console(file=output, force_terminal=True, width=120)
    calls = []

    def metrics() -> dict[str, Any]:
        calls.append(clock.now)
        return FULL

    with Watch(console, metrics, clock) as watch:
        for now in (100.1, 100.25, 100.3, 100.5):
            clock.now = now
            watch.moved()
    assert calls == [100.25, 100.5, 100.5]
    assert "64 + 32" in output.getvalue()


def test_how_it_ended_is_drawn_after_a_failure_too() -> None:
    output = io.StringIO()
    with (
        pytest.raises(ValueError, match="stopped"),
        Watch(Console(file=output), lambda: BARE, Clock()),
    ):
        raise ValueError("stopped")
    assert output.getvalue().startswith("0.0 s: 1 tuples in, 1 rows out; core 0: window 1 + 2")
