"""A run on real Spark that is killed: make kill-test does this longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kill.campaign import FIVE, QUERIES, THREE, Campaign, Death

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.product(1, among="kills")]


def test_a_run_that_is_killed_has_each_row_once(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=2, rows=12_000, rows_per_trigger=2_000, query=QUERIES[0])
    expected = campaign.expected()
    assert len(expected) > 1000
    assert not campaign.run(Death("writing", 3)), "while a chunk is written"
    assert not campaign.run(Death("delivering", 2)), "after a batch is kept, before its commit"
    assert not campaign.run(
        Death("reading", 1, "worker"),
        Death("running", 4, "worker"),
        Death("heading", 2, "worker"),
        Death("sinking", 1),
    ), "Spark tries a task again whose worker has died; then all die, while rows are written"
    assert not (tmp_path / "out.jsonl").exists()
    assert campaign.run()
    assert campaign.died == {
        "writing (all)": 1,
        "delivering (all)": 1,
        "reading (worker)": 1,
        "running (worker)": 1,
        "heading (worker)": 1,
        "sinking (all)": 1,
    }
    assert campaign.found() == expected


@pytest.mark.parametrize(
    ("query", "cores", "design"),
    [(THREE, 1, "stashed"), (FIVE, 2, "parallel")],
    ids=["three, stashed", "five, parallel"],
)
def test_a_join_of_several_streams_that_is_killed_has_each_row_once(
    tmp_path: Path, query: str, cores: int, design: str
) -> None:
    campaign = Campaign(
        tmp_path, seed=3, rows=12_000, rows_per_trigger=2_000,
        query=query, cores=cores, design=design,
    )  # fmt: skip
    expected = campaign.expected()
    assert len(expected) > 200
    assert not campaign.run(Death("running", 2, "worker"), Death("writing", 8))
    assert not (tmp_path / "out.jsonl").exists()
    assert campaign.run()
    assert campaign.died == {"running (worker)": 1, "writing (all)": 1}
    assert campaign.found() == expected
