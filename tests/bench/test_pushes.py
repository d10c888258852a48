"""A short run of the benchmark of pushes; and its error if rows depend on pushes."""

from __future__ import annotations

from typing import Any

import pytest
from bench import pushes


def test_all_of_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: pushes.QUERIES[name] for name in ("equi-join, time windows", "sum by key")}
    monkeypatch.setattr(pushes, "QUERIES", few)
    found = pushes.run(quick=True)
    assert found["rows_checked"].keys() == few.keys()
    assert all(found["rows_checked"].values())
    told = [(entry["query"], entry["input"], entry["size"]) for entry in found["pushes"]]
    sizes = (1, 10, 100, 1_000)
    assert told == [(n, i, size) for n in few for i in ("arrow", "dicts") for size in sizes]
    for entry in found["pushes"]:
        assert 0 < entry["p50_us"] <= entry["p99_us"]
        assert entry["tuples_per_second"] > 0


def test_rows_that_depend_on_pushes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(text: str, turn: int, turns: int, size: int, as_dicts: bool) -> list[Any]:
        return [{"a": 1}] if size == turn else [{"a": 1}, {"a": size}]

    monkeypatch.setattr(pushes, "rows_of", other)
    with pytest.raises(AssertionError) as error:
        pushes.check("count")
    assert str(error.value) == "count: other rows by pushes of 1 than of 1000"


def test_a_rate_counts_pushes_and_the_taking_of_rows() -> None:
    found = pushes.figures([0.001, 0.001, 0.002, 0.004], 0.002, 10)
    assert found["p50_us"] == pytest.approx(1500)
    assert found["tuples_per_second"] == pytest.approx(4_000)
