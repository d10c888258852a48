"""Four queries over trades that arrive out of order, with a live table in the terminal.

``python -m examples.trades.run`` runs them in this process, ``--engine spark`` on Spark. If the
output is not a terminal, each row is a line, and so is each late trade.
"""

from __future__ import annotations

from penstock.cli.exit_signals import end_on_signals

if __name__ == "__main__":
    end_on_signals("trades")  # before the other imports, which take a while

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from rich.console import Console

import penstock as ps
from examples.trades.board import Board
from examples.trades.generate import Day, at_least, generate

HERE = Path(__file__).parent
STREAM = "CREATE STREAM Trades (Symbol STRING, Price INT, Volume INT, Time INT)"
QUERIES = ("q3", "prices", "top", "alerts")
BATCH = 20
"""Trades per push."""
PACE = 240.0
"""Seconds of the exchange per second, on a terminal; elsewhere there is no pacing."""
LOOK_AGAIN = 0.25
"""Seconds between two checks of Spark's progress."""


def install(engine: Any, names: tuple[str, ...] = QUERIES) -> None:
    """Declare the stream and start the queries, each by the name of its file."""
    engine.sql(STREAM)
    for name in names:
        text = (HERE / f"{name}.sql").read_text(encoding="utf-8")
        *derived, query = (part for part in text.split(";") if part.strip())
        for statement in derived:
            engine.sql(statement)
        engine.install(query, name=name)


def flow(
    engine: Any,
    trades: pa.Table,
    board: Board,
    pace: float = 0.0,
    batch: int = BATCH,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Push the trades and then the end, and show the results.

    ``pace`` is the seconds of the exchange per second; 0: no pacing.
    """
    youngest = np.maximum.accumulate(trades["Time"].to_numpy())
    started = time.monotonic()
    for first in range(0, trades.num_rows, batch):
        part = trades.slice(first, batch)
        if pace:
            due = started + (youngest[first] - youngest[0]) / pace
            sleep(max(0.0, due - time.monotonic()))
        engine.push("Trades", part)
        board.trades += part.num_rows
        board.look(engine.queries)
    engine.end()
    while not made(engine):
        board.look(engine.queries)
    board.look(engine.queries)


def made(engine: Any) -> bool:
    """Wait a moment for the pushed trades; returns whether all of their rows are there."""
    if hasattr(engine, "wait_for"):  # Spark still processes the log
        return bool(engine.wait_for(engine.position, LOOK_AGAIN))
    engine.wait()
    return True


def read(path: Path) -> pa.Table:
    """Trades from a CSV file, with the symbols as a dictionary."""
    kinds = {"Symbol": pa.dictionary(pa.int32(), pa.string())}
    kinds |= {name: pa.int32() for name in ("Price", "Volume", "Time")}
    options = pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    return pyarrow.csv.read_csv(path, convert_options=options)


def pace(text: str) -> float:
    """The argparse type of ``--pace``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, 0 or more")
    return number


def trades_of(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> pa.Table:
    """The trades of the file, or generated ones."""
    if arguments.trades is None:
        for option in ("late", "seed"):
            if getattr(arguments, option) is not None:
                parser.error(f"--{option} is for trades that are generated: write --trades N too")
        path = arguments.file or HERE / "trades.csv"
        if not path.is_file():
            parser.error(f"there is no file {path}")
        try:
            return read(path)
        except (OSError, KeyError, pa.ArrowInvalid) as error:
            parser.error(f"{path} cannot be read: {error}")
    if arguments.file is not None:
        parser.error(f"--file {arguments.file} and --trades: leave one of them out")
    late = min(Day.late, arguments.trades) if arguments.late is None else arguments.late
    if late > arguments.trades:
        parser.error(f"--late {late}, but there are {arguments.trades} trades")
    seed = Day.seed if arguments.seed is None else arguments.seed
    return generate(Day(trades=arguments.trades, late=late, seed=seed))


def parse(given: list[str] | None, live: bool) -> tuple[argparse.Namespace, pa.Table]:
    """The options and the trades; invalid options end the program with a message."""
    about = (__doc__ or "").replace("``", "")
    parser = argparse.ArgumentParser(prog="python -m examples.trades.run", description=about)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help=", ".join(QUERIES))
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local",
        help="in this process (unless given), or on Spark",
    )  # fmt: skip
    parser.add_argument("--file", type=Path, help="of trades; the one of the example unless given")
    parser.add_argument(
        "--trades", type=at_least(1), help="generate this many trades instead of reading the file"
    )
    parser.add_argument(
        "--late",
        type=at_least(0),
        help=f"of which this many take a detour ({Day.late} unless given): they are late, if "
        "others have overtaken them",
    )
    parser.add_argument("--seed", type=at_least(0), help="another one makes other trades")
    parser.add_argument(
        "--batch", type=at_least(1), default=BATCH,
        help=f"trades pushed at once; {BATCH} unless given",
    )  # fmt: skip
    parser.add_argument(
        "--pace", type=pace, default=PACE if live else 0.0,
        help="seconds of the exchange in one of ours; 0: as fast as they go",
    )  # fmt: skip
    arguments = parser.parse_args(given)
    unknown = [name for name in arguments.queries if name.lower() not in QUERIES]
    if unknown:
        parser.error(f"unknown query {unknown[0]!r}; there are {', '.join(QUERIES)}")
    arguments.queries = tuple(dict.fromkeys(name.lower() for name in arguments.queries))
    return arguments, trades_of(arguments, parser)


def main(given: list[str] | None = None, console: Console | None = None) -> None:
    """``python -m examples.trades.run [QUERY …] [--engine local|spark] [--trades N] …``."""
    console = console or Console(file=sys.stdout)
    arguments, trades = parse(given, console.is_terminal)
    with ps.connect(arguments.engine) as engine, Board(console) as board:
        install(engine, arguments.queries or QUERIES)
        flow(engine, trades, board, arguments.pace, arguments.batch)


if __name__ == "__main__":
    main()
