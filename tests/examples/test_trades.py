"""The example of the trades: what it generates, what it prints, and what it draws."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from examples.trades import generate, run
from examples.trades.board import Board
from examples.trades.generate import DISORDER, Day
from rich.console import Console
from tests.examples.expected import by_query, expected_lines

import penstock as ps

FILE = run.HERE / "trades.csv"


def lateness(trades: pa.Table) -> np.ndarray:
    """By how many seconds each trade is older than the youngest before it."""
    times = trades["Time"].to_numpy()
    return np.maximum.accumulate(times) - times


def test_no_trade_comes_a_minute_late_but_for_those_on_the_long_way() -> None:
    late = lateness(generate.generate(Day(trades=20_000, late=0)))
    assert 50 < late.max() < DISORDER
    late = lateness(generate.generate(Day(trades=20_000, late=9)))
    assert np.count_nonzero(late >= DISORDER) == 9


def test_a_day_is_the_same_every_time_and_another_with_another_seed() -> None:
    first = generate.generate(Day(trades=100))
    assert first.equals(generate.generate(Day(trades=100)))
    assert not first.equals(generate.generate(Day(trades=100, seed=1)))
    assert str(first.schema.field("Symbol").type) == (
        "dictionary<values=string, indices=int32, ordered=0>"
    )


def test_the_file_is_what_the_generator_writes(tmp_path: Path) -> None:
    generate.main(["--out", str(tmp_path / "trades.csv")])
    assert (tmp_path / "trades.csv").read_text() == FILE.read_text()


def printed(*arguments: str) -> list[str]:
    """The lines of a run whose output is no terminal."""
    out = io.StringIO()
    run.main(list(arguments), Console(file=out))
    return out.getvalue().splitlines()


def test_the_rows_and_the_late_trades_are_those_of_the_oracle() -> None:
    *lines, summary = printed()
    expected = expected_lines(run.read(FILE), run.QUERIES)
    assert by_query(lines) == expected
    assert set(run.QUERIES) <= set(expected)
    late = sum(len(of) for name, of in expected.items() if name.startswith("late "))
    assert late >= 4 * 5
    assert summary == (
        "1,000 trades in; q3: 69 rows, 5 late; prices: 78 rows, 4 late; top: 207 rows, 5 late; "
        "LastMinute: 5 late; TenMinutes: 5 late; alerts: 3 rows, 0 late"
    )


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_the_rows_do_not_depend_on_the_batches(batch: int) -> None:
    whole = printed("q3", "alerts")
    assert sorted(printed("q3", "alerts", "--batch", str(batch))) == sorted(whole)


def test_a_late_trade_says_which_windows_it_has_missed() -> None:
    out = io.StringIO()
    times = [0, 700, 65, 30]
    trades = pa.table(
        {"Symbol": ["UBSN"] * 4, "Price": [1] * 4, "Volume": [1] * 4, "Time": times},
        pa.schema({"Symbol": pa.string()} | dict.fromkeys(["Price", "Volume", "Time"], pa.int32())),
    )
    with ps.connect("local") as engine, Board(Console(file=out)) as board:
        run.install(engine, ("q3",))
        run.flow(engine, trades, board)
    said = "is before the punctuation 640: it missed"
    assert [line for line in out.getvalue().splitlines() if line.startswith("late")] == [
        f"late q3: Trades: 'UBSN', 1, 1, 65 (Time = 65 {said} 9 windows, [-480, 120) to [0, 600))",
        f"late q3: Trades: 'UBSN', 1, 1, 30 (Time = 30 {said} 10 windows, [-540, 60) to [0, 600))",
    ]


def test_generated_trades_can_be_watched_too() -> None:
    assert printed("q3", "--trades", "300", "--late", "0")[-1].startswith("300 trades in; q3: ")


def test_on_a_terminal_a_table_is_drawn_and_the_last_one_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=24)
    slept: list[float] = []
    with ps.connect("local") as engine, Board(console) as board:
        run.install(engine)
        run.flow(engine, run.read(FILE), board, pace=1e9, batch=250, sleep=slept.append)
    assert len(slept) == 4
    text = out.getvalue()
    for part in (
        "1,000 trades in",
        "q3: ",
        "InTenMinutes",
        "top: 207 rows, 5 late",
        "late TenMinutes: Trades: ",
    ):
        assert part in text


def test_queries_are_known_by_their_names_in_any_case() -> None:
    assert printed("Q3", "q3", "ALERTS") == printed("q3", "alerts")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["q4"], "unknown query 'q4'; there are q3, prices, top, alerts"),
        (["--file", "nofile.csv"], "there is no file nofile.csv"),
        (["--batch", "0"], "argument --batch: '0' is no whole number, 1 or more"),
        (["--trades", "many"], "argument --trades: 'many' is no whole number, 1 or more"),
        (["--pace", "-1"], "argument --pace: '-1' is no number, 0 or more"),
        (["--pace", "nan"], "argument --pace: 'nan' is no number, 0 or more"),
        (["--trades", "1000", "--late", "5000"], "--late 5000, but there are 1000 trades"),
        (["--trades", "9", "--file", "x.csv"], "--file x.csv and --trades: leave one of them out"),
        (["--late", "5"], "--late is for trades that are generated: write --trades N too"),
        (["--seed", "5"], "--seed is for trades that are generated: write --trades N too"),
    ],
)
def test_what_makes_no_sense_is_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(given)
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f"python -m examples.trades.run: error: {said}\n")


@pytest.mark.parametrize(
    "text", ["Symbol,Price\nUBSN,1\n", "Symbol,Price,Volume,Time\nUBSN,1,1,oops\n", ""]
)
def test_a_file_of_something_else_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.csv"
    file.write_text(text)
    with pytest.raises(SystemExit):
        run.main(["--file", str(file)])
    assert f"error: {file} cannot be read: " in capsys.readouterr().err


def test_the_generator_refuses_more_late_trades_than_trades(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        generate.main(["--out", str(tmp_path / "t.csv"), "--late", "5000"])
    assert capsys.readouterr().err.endswith("error: --late 5000, but there are 1000 trades\n")
    assert not (tmp_path / "t.csv").exists()


def test_a_few_trades_have_no_more_late_ones_than_there_are() -> None:
    assert printed("q3", "--trades", "3")[-1].startswith("3 trades in; q3: ")
