"""A short run of the benchmark of topologies; and its errors for wrong rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench import fqp, fqp_changes
from bench.fqp_figures import figures
from bench.fqp_table import main, table
from bench.tables import marks

BEGIN, END = marks("fqp")


def test_all_of_it_runs_and_becomes_a_table_and_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fqp, "VALUES", 40)
    monkeypatch.setattr(fqp, "LITTLE", fqp.Effort(turn=1 << 10, turns=1, before=1))
    monkeypatch.setattr(fqp, "WINDOWS", (4, 8))
    monkeypatch.setattr(fqp, "MATCH_PROBABILITIES", (0.01, 0.1))
    found = fqp.run(quick=True)
    assert sorted(dict(figures(found, ""))) == [
        "fqp-match-probability.svg",
        "fqp-tuple-size.svg",
        "fqp-window.svg",
    ]
    assert found["operators"]["selection"]["rows_per_tuple"] > 0.3
    result, document = tmp_path / "fqp.json", tmp_path / "page.md"
    result.write_text(json.dumps({"fqp": found}))
    document.write_text(f"above\n{BEGIN}\n{END}\nbelow\n")
    main([str(result), "--into", str(document)])
    lines = document.read_text().splitlines()
    assert [lines[0], lines[-1]] == ["above", "below"]
    assert len([line for line in lines if line.startswith("| ")]) == 2 + 4 + 1 + 7 + 2 + 1


def test_without_numbers_there_is_a_heading_and_nothing_is_drawn() -> None:
    assert dict(figures({}, "")) == {}
    assert table({}).count("\n") == 2


@pytest.mark.parametrize("window", [1, 5, 64])
def test_pairs_are_counted_as_they_are_defined(window: int) -> None:
    given, pairs = fqp.Input(2, keys=7), fqp.Pairs(window)
    parts = [given.take(count) for count in (1, 50, 3, 80)]
    counted = sum(pairs.count(part) for part in parts)
    seen: tuple[list[int], list[int]] = ([], [])
    expected = 0
    for part in parts:
        for key, side in zip(part.keys.tolist(), part.which.tolist(), strict=True):
            expected += seen[1 - side][-window:].count(key)
            seen[side].append(key)
    assert counted == expected


def test_wrong_rows_are_an_error() -> None:
    effort = fqp.Effort(turn=100, turns=1, before=1)
    with pytest.raises(AssertionError) as error:
        fqp.compare({"block": fqp.Entry([fqp.PROJECTION])}, fqp.Input(), lambda _: 99, effort)
    assert str(error.value) == "block: 100 rows, not 99"


def test_rows_that_differ_between_contestants_are_an_error() -> None:
    effort = fqp.Effort(turn=100, turns=1, before=1)
    entries = {"v": fqp.Entry(["SELECT v FROM R"]), "k": fqp.Entry(["SELECT k FROM R"])}
    with pytest.raises(AssertionError) as error:
        fqp.compare(entries, fqp.Input(), lambda part: len(part.keys), effort)
    assert str(error.value).startswith("other rows: {'v': Made(rows=100, digest=")


def test_a_change_is_measured_while_tuples_flow() -> None:
    found = fqp_changes.measure(("k", "j"), 3, 1 << 10)
    assert found["tuples"] > 0
    assert 0 < found["change"]["p50_ms"] <= found["change"]["p99_ms"] <= found["change"]["most_ms"]
    assert np.isfinite(found["delay_of_pushes"]["p99_ms"])
