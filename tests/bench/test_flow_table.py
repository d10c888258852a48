"""The table of the flows, as Markdown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench.flow_table import main, table
from bench.tables import put
from tests.bench.flow_results import FLOWS

HEAD = """\
| work | published | goal | measured |
| --- | --- | --- | --- |
"""


def row(**kept: object) -> str:
    text = table(dict(kept))
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD)


def test_two_cores_are_a_ratio_for_each_window_up_to_2_17() -> None:
    assert row(count_windows=FLOWS["count_windows"]) == (
        "| `splitjoin`, nested loop, 1 → 2 cores, windows of 2^14 | linear | 1.8× | 1.90× |\n"
    )


def test_the_best_flow_of_each_window_is_named_and_all_are_listed() -> None:
    text = row(best_flow=FLOWS["best_flow"], nested_loops=FLOWS["nested_loops"])
    assert "| 26.0 (`shared`) / 2.0 (`three-step`) M t/s |\n" in text
    assert text.endswith(
        "| flow | `band`, 2^14 | `band`, 2^20 | nested loop, 2^17 |\n"
        "| --- | --- | --- | --- |\n"
        "| `shared` | 26.00 M t/s | 1.00 M t/s | 4.0 G comparisons/s/core |\n"
        "| `splitjoin` | – | – | – |\n"
        "| `handshake` | – | – | 2.2 G comparisons/s/core |\n"
        "| `low-latency-handshake` | – | – | – |\n"
        "| `celljoin` | – | – | – |\n"
        "| `three-step` | 9.00 M t/s | 2.00 M t/s | – |\n"
    )


def test_latencies_have_a_unit_that_suits_them() -> None:
    text = row(tuple_at_a_time=FLOWS["tuple_at_a_time"])
    assert text.endswith("| `band` at 5,000 t/s: p50 90 µs, p99 900 µs |\n")


def test_the_cost_of_order_is_a_change_and_that_of_the_flow_a_ratio() -> None:
    text = row(cost_of_order=FLOWS["cost_of_order"], cost_of_flow=FLOWS["cost_of_flow"])
    assert "| `band`, 2^17, 0.5 rows an arrival: outer −4 %, inner +2 % |\n" in text
    assert text.endswith("| – | at least 0.9× | `band`, 2^14: 0.93× |\n")


def test_the_command_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flows.json").write_text(json.dumps({"flows": FLOWS}))
    monkeypatch.setattr(sys, "argv", ["flow_table", str(tmp_path / "flows.json")])
    main()
    assert capsys.readouterr().out == table(FLOWS)


def test_the_command_puts_it_between_the_marks_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows.json").write_text(json.dumps({"flows": FLOWS}))
    document = tmp_path / "algorithms.md"
    document.write_text("before\n<!-- flows: begin -->\nold\n<!-- flows: end -->\nafter\n")
    given = [str(tmp_path / "flows.json"), "--into", str(document)]
    monkeypatch.setattr(sys, "argv", ["flow_table", *given])
    for _ in range(2):
        main()
        assert document.read_text() == (
            f"before\n<!-- flows: begin -->\n\n{table(FLOWS)}\n<!-- flows: end -->\nafter\n"
        )


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the document needs the lines <!-- flows: begin"):
        put("text", "no marks", "flows")
