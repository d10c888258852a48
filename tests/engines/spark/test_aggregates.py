"""Aggregates on the cores of the Spark engine: any cut into micro-batches, and whatever fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.engines.spark.batched import feed_all, lines_of, recorded
from tests.engines.spark.in_process import Cluster, connected

from penstock.engines.spark import column_chunks, state

FOLDER = Path(__file__).parents[2] / "conformance"
SCRIPTS = sorted(FOLDER.glob("aggregate-*.flow"))


@pytest.mark.parametrize(("cores", "most"), [(1, 2), (3, 65_536)], ids=["small", "large"])
def test_every_script_meets_its_expectations(
    cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "FULL", most)
    monkeypatch.setattr(column_chunks, "MOST_CHUNKS", most)
    expected = {path.stem: recorded(path.read_text(encoding="utf-8")) for path in SCRIPTS}
    for seed, (name, (events, lines)) in enumerate(expected.items()):
        cluster = Cluster(random.Random(seed), eager=True)
        options = {"cores": cores, "rows_per_trigger": 3, "compile_predicates": False}
        with connected(cluster, **options) as engine:
            [fed] = feed_all(engine, [events], sizes=[1, 3, 2])
            assert lines_of(fed) == lines, name
