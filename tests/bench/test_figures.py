"""Figures from a benchmark's JSON: which are drawn, and their contents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.figures import figures, main
from bench.plot import Mark, Point


def rate(median: float) -> dict[str, float]:
    return {"median": median, "slowest": median - 1, "fastest": median + 1, "runs": 5}


def grown(window: int, median: float, **more: Any) -> dict[str, Any]:
    return {"window": window, "tuples_per_second": rate(median), **more}


def results(**kernels: Any) -> dict[str, Any]:
    return {"machine": {"cpu": "A Processor"}, "kernels": kernels}


def drawn(found: dict[str, Any], name: str) -> dict[str, list[Point]]:
    plot = dict(figures(found, []))[name]
    return {series.name: list(series.points) for series in plot.series if series.points}


def test_growth_that_names_no_kernel_is_of_the_band_kernel() -> None:
    found = results(growth=[grown(1 << 16, 50), grown(1 << 14, 90)])
    assert drawn(found, "kernels-growth.svg") == {
        "band": [Point(1 << 14, 90, 89, 91), Point(1 << 16, 50, 49, 51)]
    }


def test_growth_of_several_kernels_is_a_series_each_in_a_fixed_order() -> None:
    names = ("new", "nested-loop", "hash", "band")
    found = results(growth=[grown(4, 9, kernel=name, window_bytes=80) for name in names])
    plots = dict(figures(found, []))
    expected = ["band", "hash", "sorted", "nested-loop", "new"]
    for name in ("kernels-growth.svg", "kernels-memory.svg"):
        assert [series.name for series in plots[name].series] == expected


def test_memory_is_of_both_windows_and_of_the_entries_that_have_it() -> None:
    found = results(growth=[grown(100, 9, window_bytes=9_000), grown(200, 9)])
    assert drawn(found, "kernels-memory.svg") == {"band": [Point(100, 45)]}


def test_the_nested_loop_is_drawn_by_its_comparisons() -> None:
    found = results(nested_loop=[{"window": 4096, "comparisons_per_second": rate(5e9)}])
    assert drawn(found, "kernels-nested-loop.svg") == {
        "nested-loop": [Point(4096, 5e9, 5e9 - 1, 5e9 + 1)]
    }


def test_what_has_no_numbers_is_not_drawn() -> None:
    assert dict(figures(results(), [])) == {}
    assert list(dict(figures(results(growth=[grown(4, 9)]), []))) == ["kernels-growth.svg"]


def test_the_command_writes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = {"window": 4096, "comparisons_per_second": rate(5e9)}
    found = results(growth=[grown(1 << 14, 9, window_bytes=80)], nested_loop=[loop])
    (tmp_path / "r.json").write_text(json.dumps(found))
    out = tmp_path / "new" / "figures"
    given = [str(tmp_path / "r.json"), "--out", str(out), "--mark", "16384=L2 2 MiB"]
    monkeypatch.setattr(sys, "argv", ["figures", *given])
    main()
    assert sorted(path.name for path in out.iterdir()) == [
        "kernels-growth.svg", "kernels-memory.svg", "kernels-nested-loop.svg",
    ]  # fmt: skip
    for path in out.iterdir():
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        marked = "L2 2 MiB" in [element.text for element in root.iter()]
        assert marked == (path.name == "kernels-growth.svg")


def test_marks_are_in_the_figure_of_the_throughput() -> None:
    mark = Mark(8, "L1")
    plots = dict(figures(results(growth=[grown(4, 9, window_bytes=80)]), [mark]))
    assert [list(plot.marks) for plot in plots.values()] == [[mark], []]


def test_results_of_another_benchmark_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    path.write_text("{}")
    monkeypatch.setattr(sys, "argv", ["figures", str(path)])
    with pytest.raises(SystemExit):
        main()
    message = (
        f"error: {path} has no results of the benchmarks kernels, flows, aggregates, "
        "multiway_figures and fqp\n"
    )
    assert capsys.readouterr().err.endswith(message)
