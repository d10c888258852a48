"""The figures of the flows: their lines, and the published numbers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from bench.figures import figures
from bench.plot import Plot, Point, svg
from tests.bench.flow_results import FLOWS

RESULTS = {"machine": {"cpu": "A Processor"}, "flows": FLOWS}
PLOTS: dict[str, Plot] = dict(figures(RESULTS, []))


def lines(name: str) -> dict[str, list[Point]]:
    return {s.name: list(s.points) for s in PLOTS[f"flows-{name}.svg"].series if s.points}


def test_every_figure_is_drawn_and_is_svg() -> None:
    assert sorted(PLOTS) == [
        f"flows-{name}.svg"
        for name in (
            "band", "count-windows", "hops", "precision", "scaling", "selectivity", "stages",
            "time-windows", "visiting-latency",
        )
    ]  # fmt: skip
    for plot in PLOTS.values():
        ElementTree.fromstring(svg(plot))


def test_what_has_no_numbers_is_not_drawn() -> None:
    assert dict(figures({"flows": {}}, [])) == {}
    assert list(dict(figures({"flows": {"hops": FLOWS["hops"]}}, []))) == ["flows-hops.svg"]


def test_a_flow_has_one_colour_whichever_flows_were_measured() -> None:
    names = [series.name for series in PLOTS["flows-band.svg"].series]
    assert names.index("splitjoin") == 1
    assert names.index("three-step") == 5


def test_handshake_join_is_beside_the_published_rates_of_each_stream() -> None:
    assert lines("scaling") == {
        "10 min windows": [Point(1, 2_000), Point(2, 2_800)],
        "15 min windows": [Point(1, 1_500), Point(2, 2_100)],
        "handshake, published": [Point(8, 1_400)],
        "CellJoin, published": [Point(9, 750)],
        "CellJoin, tuned, published": [Point(9, 1_000)],
    }
    assert PLOTS["flows-scaling.svg"].y.square


def test_time_windows_are_beside_the_published_rate() -> None:
    assert lines("time-windows") == {
        "splitjoin, 15 min": [Point(1, 2_900), Point(2, 4_000)],
        "SplitJoin, published": [Point(28, 4_400)],
    }


def test_visiting_latencies_are_means_in_milliseconds() -> None:
    assert lines("visiting-latency") == {
        "splitjoin, 15 min": [Point(2, 2)],
        "SplitJoin, published": [Point(28, pytest.approx(8.1))],
        "low-latency, published": [Point(28, pytest.approx(26.8))],
    }
    assert lines("stages") == {
        "distribution": [Point(2, pytest.approx(0.2))], "execution": [Point(2, 4)],
    }  # fmt: skip


def test_count_windows_are_those_of_splitjoin() -> None:
    assert lines("count-windows") == {
        "1 core": [Point(1 << 14, 100, 50, 200), Point(1 << 21, 2, 1, 4)],
        "2 cores": [Point(1 << 14, 190, 95, 380), Point(1 << 21, 3, 1.5, 6)],
        "28 cores, published": [Point(1 << 21, 5_200)],
    }


def test_a_share_of_no_matches_has_no_place_on_a_logarithmic_axis() -> None:
    assert lines("selectivity") == {"band, 4,096": [Point(1e-6, 50, 25, 100)]}


def test_precision_is_a_share_of_the_rate_without_order() -> None:
    assert lines("precision") == {"4,096, 1 in 250,000": [Point(1, 0.5), Point(4, 0.75)]}


def test_hops_name_what_else_they_depend_on() -> None:
    assert sorted(lines("hops")) == ["celljoin", "handshake, window 128", "splitjoin, branching 8"]
