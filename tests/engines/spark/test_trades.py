"""The example of the trades on Spark prints the rows of the oracle, too."""

from __future__ import annotations

import io

from examples.trades import run
from examples.trades.board import Board
from examples.trades.generate import Day, generate
from rich.console import Console
from tests.examples.expected import by_query, expected_lines

from penstock.engines.spark.engine import Engine


def test_the_rows_and_the_late_trades_are_those_of_the_oracle(shared_engine: Engine) -> None:
    trades = generate(Day(trades=300, seconds=1_800, late=3, rushes=10))
    out = io.StringIO()
    try:
        with Board(Console(file=out)) as board:
            run.install(shared_engine)
            run.flow(shared_engine, trades, board, batch=100)
    finally:
        shared_engine.reset()
    expected = expected_lines(trades, run.QUERIES)
    assert by_query(out.getvalue().splitlines()[:-1]) == expected
    assert {"q3", "prices", "top", "alerts", "late q3", "late TenMinutes"} <= set(expected)
