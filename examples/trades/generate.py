"""Trades that arrive out of order: ``python -m examples.trades.generate --out trades.csv``.

As in Oge et al. 2013 §VI-B, trades are made in the order of their time and then moved, so that none
is more than a minute late. Unlike there, a few take a detour and are later than that.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

SYMBOLS = ("ABBN", "CSGN", "HOLN", "NESN", "NOVN", "ROG", "UBSN", "ZURN")
OPENING = 9 * 3600
"""Times are seconds of the day, and the exchange opens at nine."""
DISORDER = 60
"""A trade is less than this many seconds late, unless it takes the detour."""
DETOUR = (180, 900)
"""The shortest and the longest detour, in seconds."""
RUSH = 12
"""The factor of a trade's shares while its symbol is in a rush of a minute."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Day:
    """The numbers of ``trades``, ``seconds``, ``late`` trades and ``rushes``."""

    trades: int = 1_000
    seconds: int = 3_600
    late: int = 5
    rushes: int = 4
    seed: int = 2013


def generate(day: Day) -> pa.Table:
    """The trades in the order of their arrival; the same for the same day."""
    rng = np.random.default_rng(day.seed)
    time = np.sort(rng.integers(0, day.seconds, day.trades))
    # Some symbols are traded more than others.
    weights = 1.0 / np.arange(2, len(SYMBOLS) + 2)
    symbol = rng.choice(len(SYMBOLS), day.trades, p=rng.permutation(weights) / weights.sum())
    price = walks(rng, symbol)
    volume = 10 * rng.integers(1, 50, day.trades)
    for minute in rng.integers(0, max(1, day.seconds // 60), day.rushes):
        rushing = (time // 60 == minute) & (symbol == rng.integers(len(SYMBOLS)))
        volume[rushing] *= RUSH
    order = arrivals(rng, time, day.late)
    names = pa.array(SYMBOLS)
    return pa.table(
        {
            "Symbol": pa.DictionaryArray.from_arrays(symbol[order].astype(np.int32), names),
            "Price": price[order].astype(np.int32),
            "Volume": volume[order].astype(np.int32),
            "Time": (OPENING + time[order]).astype(np.int32),
        }
    )


def walks(rng: np.random.Generator, symbol: Array) -> Array:
    """A price for each trade: a random walk per symbol."""
    price = np.empty(len(symbol), np.int64)
    for number in range(len(SYMBOLS)):
        own = np.flatnonzero(symbol == number)
        start = rng.integers(1_000, 9_000)
        price[own] = np.maximum(1, start + np.cumsum(rng.integers(-15, 16, len(own))))
    return price


def arrivals(rng: np.random.Generator, time: Array, late: int) -> Array:
    """The order in which trades of these times arrive; ``late`` of them take the detour.

    Other trades are in transit for less than ``DISORDER`` seconds, so every earlier arrival was
    made less than that after them.
    """
    way = rng.random(len(time)) * DISORDER
    chosen = rng.permutation(len(time))[:late]
    way[chosen] = rng.uniform(*DETOUR, len(chosen))
    return np.argsort(time + way, kind="stable")


def at_least(smallest: int) -> Callable[[str], int]:
    """An argparse type: a whole number that is not below ``smallest``."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number, {smallest} or more")
        return number

    return read


def main(given: list[str] | None = None) -> None:
    """``python -m examples.trades.generate --out FILE.csv [--trades N] [--seconds N] …``."""
    parser = argparse.ArgumentParser(prog="python -m examples.trades.generate", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    for name, value in vars(Day()).items():
        kind = at_least(1 if name in ("trades", "seconds") else 0)
        parser.add_argument(f"--{name}", type=kind, default=value, help=f"{value} unless given")
    arguments = vars(parser.parse_args(given))
    out = arguments.pop("out")
    day = Day(**arguments)
    if day.late > day.trades:
        parser.error(f"--late {day.late}, but there are {day.trades} trades")
    table = generate(day)
    plain = table.set_column(0, "Symbol", table["Symbol"].cast(pa.string()))
    try:
        pyarrow.csv.write_csv(plain, out, pyarrow.csv.WriteOptions(quoting_style="none"))
    except OSError as error:
        parser.error(f"{out} cannot be written: {error}")


if __name__ == "__main__":
    main()
