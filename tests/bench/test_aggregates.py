"""A short run of the benchmark of window aggregates; and its errors for wrong rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench import aggregates
from bench.aggregate_figures import figures
from bench.aggregate_runs import ALL, Work, checked, contestant, in_windows
from bench.trades import Shape, Trades

SMALL = Shape(rows=2_000, batches=3, seconds=180, symbols=4)


@pytest.mark.long
def test_all_of_it_runs_and_its_rows_are_right(tmp_path: Path) -> None:
    aggregates.main(["--quick", "--out", str(tmp_path / "a.json")])
    found = json.loads((tmp_path / "a.json").read_text())["aggregates"]
    assert list(found) == [part.__name__ for part in aggregates.PARTS]
    assert [entry["modules"] for entry in found["q3"]] == [11, 21, 31, 41, 51, 61, 10_060]
    assert all(entry["rows_checked"] > 0 for entry in found["q3"])
    assert found["against_duckdb"]["rows"] > 0
    assert sorted(dict(figures(found, ""))) == ["aggregates-memory.svg", "aggregates-windows.svg"]


def test_trades_come_up_to_a_minute_late_and_go_on_from_period_to_period() -> None:
    trades = Trades(SMALL)
    times = np.concatenate([batch["Time"].to_numpy() for _, batch in trades.take(8)])
    late = np.maximum.accumulate(times) - times
    assert 50 < late.max() <= 60
    counts = np.bincount(times - times.min())
    assert counts[60:-60].min() > 15  # of 33 on average: the periods leave no gaps


@pytest.mark.parametrize("key", [None, "symbols", "prices"])
@pytest.mark.parametrize("only", [False, True])
def test_what_numpy_says_of_a_window_is_so(key: str | None, only: bool) -> None:
    trades, work = Trades(SMALL), Work(90, 60, ALL, only=only, key=key)
    facts = work.facts(trades)
    facts.added += range(5)
    tuples = pa.Table.from_batches([trades.batch(number) for number in range(5)]).to_pylist()
    counted = 0
    for row in in_windows(facts, work).to_pylist():
        prices = [
            t["Price"]
            for t in tuples
            if row["window_start"] <= t["Time"] < row["window_start"] + 90
            and (not only or t["Symbol"] == "UBSN")
            and (key is None or row["k"] == t["Symbol" if key == "symbols" else "Price"])
        ]
        said = [row[name] for name in ("n", "s", "low", "high", "mean")]
        total = sum(prices)
        assert said == [len(prices), total, min(prices), max(prices), total / len(prices)]
        counted += len(prices)
        if key == "prices" and counted > 200:
            break
    assert counted


def test_a_wrong_row_is_an_error() -> None:
    trades = Trades(SMALL)
    with contestant(Work(60), trades) as one:
        one.take(trades.take(6))
        assert checked(one) == one.rows[-1].num_rows + sum(t.num_rows for t in one.rows[:-1])
        rows = pa.concat_tables(one.rows)
        wrong = [5, *rows["n"].to_pylist()[1:]]
        index = rows.schema.get_field_index("n")
        one.rows = [rows.set_column(index, "n", pa.array(wrong, pa.int64()))]
        with pytest.raises(AssertionError) as error:
            checked(one)
    assert str(error.value).startswith("other rows than NumPy's: SELECT window_start, COUNT(*)")


def test_a_window_that_is_missing_is_an_error() -> None:
    trades = Trades(SMALL)
    with contestant(Work(60), trades) as one:
        one.take(trades.take(6))
        rows = pa.concat_tables(one.rows)
        one.rows = [rows.slice(0, rows.num_rows - 1)]
        with pytest.raises(AssertionError) as error:
            checked(one)
    assert "was the last window, not" in str(error.value)


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        aggregates.main(["q4"])
    known = ", ".join(part.__name__ for part in aggregates.PARTS)
    said = f"error: unknown part 'q4'; there are {known}\n"
    assert capsys.readouterr().err.endswith(said)


def entry(kernel: str, modules: int, rate: float) -> dict[str, Any]:
    found = {"median": rate, "slowest": rate - 1, "fastest": rate + 1}
    return {"kernel": kernel, "modules": modules, "tuples_per_second": found}


def test_the_figure_has_both_kernels_and_the_circuit() -> None:
    entries = [entry(kernel, n, 9e6) for n in (61, 11) for kernel in ("panes", "wid")]
    (drawn,) = dict(figures({"wid_against_panes": entries}, "")).values()
    assert {series.name: [point.x for point in series.points] for series in drawn.series} == {
        "panes": [11, 61],
        "wid": [11, 61],
        "circuit, published": [11, 61],
        "circuit behind its network, published": [11, 61],
    }


def test_without_numbers_nothing_is_drawn() -> None:
    assert dict(figures({}, "")) == {}
