"""Random shapes run, and a broken bound is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import shapes


def test_shapes_of_both_kinds_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_GROWTH", 1e9)
    monkeypatch.setattr(shapes, "MOST_WORST", 1e9)
    out = tmp_path / "shapes.json"
    assert shapes.main(["--quick", "--seed", "3", "--count", "6", "--out", str(out)]) == 0
    found = json.loads(out.read_text())["shapes"]
    assert found["shapes"] == 6
    assert set(found["of_each_kind"]) == {"aggregate", "join"}
    assert found["growth"]["worst"] >= found["growth"]["median"] > 0


def test_a_shape_that_breaks_a_bound_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shapes, "measured", one)
    assert shapes.main(["--seed", "1", "--count", "9"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "| cost of a unit | 100 ns | 6000 ns, 60 times the median | 50 times |",
        "| cost of a unit with 4 times the tuples, to that without | 1.00 | 3.00 | 2.0 |",
    ]
    broken = [json.loads(line.removeprefix("broken: ")) for line in lines[4:]]
    assert [(shape["ns_per_unit"], shape["growth"]) for shape in broken] == [(6000, 1), (100, 3)]


FIGURES = iter([(100, 1)] * 4 + [(6000, 1), (100, 3)] + [(100, 1)] * 3)


def one(number: int, size: int) -> dict[str, Any]:
    cost, growth = next(FIGURES)
    return {"number": number, "kind": "join", "ns_per_unit": cost, "growth": growth, "shape": {}}


def test_a_number_stands_for_a_shape() -> None:
    assert shapes.shape_of(7) == shapes.shape_of(7)
    assert shapes.shape_of(7) != shapes.shape_of(8)
