"""The example of the trades on Spark prints the rows of the oracle, too."""

from __future__ import annotations

import io

from examples.trades import run
from examples.trades.board import Board
from rich.console import Console
from tests.examples.expected import by_query, expected_lines

import penstock as ps
from penstock.engines.spark.session import Session


def test_the_rows_and_the_late_trades_are_those_of_the_oracle(session: Session) -> None:
    out = io.StringIO()
    trades = run.read(run.HERE / "trades.csv")
    with ps.connect("spark", rows_per_trigger=700) as engine, Board(Console(file=out)) as board:
        run.install(engine)
        run.flow(engine, trades, board, batch=100)
    lines = out.getvalue().splitlines()[:-1]
    assert by_query(lines) == expected_lines(trades, run.QUERIES)
