"""A short run of the figures of multiway joins; their lines, and the published numbers."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from bench import multiway_figures
from bench.figures import figures
from bench.multiway_figures import QUICK, ByShares, normal_shares
from bench.multiway_plots import changes
from bench.plot import Mark, Plot, Point, svg


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return multiway_figures.run(quick=True)


@pytest.fixture(scope="module")
def plots(found: dict[str, Any]) -> dict[str, Plot]:
    return dict(figures({"machine": {"cpu": "A Processor"}, "multiway_figures": found}, []))


def lines(plots: dict[str, Plot], name: str) -> dict[str, list[Point]]:
    return {s.name: list(s.points) for s in plots[f"multiway-{name}.svg"].series}


@pytest.mark.long
def test_every_figure_is_drawn_and_is_svg(plots: dict[str, Plot]) -> None:
    assert set(plots) == {
        f"multiway-{name}.svg"
        for name in (
            "deviation", "hash", "match-probability", "origin", "origin-most", "origin-stages",
            "origins", "parallel", "parallel-cores", "stage-buffer", "stage-buffers",
            "stash-activity", "stash-match-probability", "stash-overwrite", "stash-share",
            "stash-size", "stash-slots", "stash-utilization", "streams", "streams-mjoin",
        )
    }  # fmt: skip
    for plot in plots.values():
        ElementTree.fromstring(svg(plot))


def test_what_has_no_numbers_is_not_drawn() -> None:
    assert dict(figures({"multiway_figures": {}}, [])) == {}


@pytest.mark.long
def test_rates_are_beside_the_published_ones(plots: dict[str, Plot]) -> None:
    six = lines(plots, "streams")
    assert [p.x for p in six["0.001 %"]] == [3, 4, 5, 6, 8]
    assert six["0.001 %, published"] == [Point(6, 7_000)]
    assert [p.y for p in lines(plots, "match-probability")["published"]] == [
        10_000,
        7_000,
        1_000,
        100,
    ]
    cores = lines(plots, "parallel-cores")
    assert [p.x for p in cores["by the clock"]] == [1, 2, 4]
    assert cores["published"][0] == Point(1, 5_970)
    assert cores["published"][-1] == Point(128, 763_000)
    shown = lines(plots, "stash-match-probability")
    assert shown["disabled, published"] == [Point(0.001, 5_970)]
    assert len(shown["stashed"]) == 5


def test_stage_buffers_are_those_of_the_metrics(
    found: dict[str, Any], plots: dict[str, Plot]
) -> None:
    entry = found["stage_buffers"][-1]
    assert (entry["streams"], entry["match_probability"]) == (3, 1e-3)
    most = [buffer["most"] for buffer in entry["stage_buffers"]]
    assert max(most) > 16  # the partners of a tuple, on average
    shown = lines(plots, "stage-buffers")
    assert [p.y for p in shown["most"]] == most
    assert shown["most, published"] == [Point(stage, 50) for stage in (1, 2, 3)]
    assert all(len(e["stage_buffers"]) == 6 for e in found["by_origin"])


def test_a_small_stash_fills_while_the_windows_do(found: dict[str, Any]) -> None:
    fills = [sample["fill"] for sample in found["stash_activity"]["samples"]]
    assert fills[0] == 0 < fills[-1] <= 32
    stored = [sample["stored"] for sample in found["stash_activity"]["around_the_first_overwrite"]]
    assert any(stored)


def test_a_stash_with_fewer_slots_than_pairs_is_overwritten(found: dict[str, Any]) -> None:
    for entry in found["stash_overwrite"]:
        assert entry["samples"][0]["valid"]
        assert max(sample["fill"] for sample in entry["samples"]) <= entry["size"]


def test_marks_are_where_a_stash_becomes_invalid_and_valid_again() -> None:
    states = [True, False, False, True, False]
    samples = [{"arrivals": 10 * i, "valid": valid} for i, valid in enumerate(states)]
    assert changes(samples) == [Mark(10, "invalid"), Mark(30, "valid again")]
    assert changes(samples[:1]) == []


def test_a_normal_origin_is_within_the_streams() -> None:
    shares = normal_shares(6, 2, 1)
    assert sum(shares) == pytest.approx(1)
    assert max(shares) == shares[1]
    assert shares[0] == pytest.approx(shares[2])
    source = ByShares(6, 10)
    source.shares = normal_shares(6, 5, 1)
    counts = [batch.num_rows for batch in source.take(2_000).batches]
    assert sum(counts) == 2_000
    assert counts.index(max(counts)) == 4


def test_windows_are_full_before_anything_is_measured() -> None:
    load = QUICK.scaled(4, 1e-5, "hash")
    with multiway_figures.full(load, "circular") as join:
        cores = join.query.metrics()["cores"]
    assert [core["window"][i] for i, core in enumerate(cores)] == [load.window] * 4
