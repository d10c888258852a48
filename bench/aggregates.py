"""Window aggregates over trades that arrive out of order.

Query Q3 of Oge et al. 2013 ("count the trades of UBS in the last ten minutes, every minute") and
its relatives, from Arrow memory through ``engine.push`` to drained rows, in batches of the size
given with each figure. Symbols are dictionary-encoded strings, 10,000 tuples arrive per second of
the exchange's time, each up to a minute late. Every row is checked in the same run
(:mod:`bench.aggregate_runs`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import aggregate_duckdb, aggregate_memory
from bench.aggregate_runs import ALL, SUMMED, Work, compare
from bench.measure import machine
from bench.trades import Shape, Trades

RANGES = tuple(range(600, 3601, 600))
"""Of Table II: 11, 21, …, 61 window-aggregation modules."""
FINE = Work(10_000, 1)
"""Ten thousand windows are open at any time."""


@dataclass(frozen=True)
class Size:
    """The amount of work: tuples per batch and period, batches per turn, turns, all tuples."""

    rows: int = 1 << 20
    batches: int = 16
    seconds: int = 1_680
    turn: int = 16
    turns: int = 5
    groups: int = 10_000
    memory: int = 10**9

    def trades(self, **more: Any) -> Trades:
        """Trades of that size."""
        return Trades(Shape(self.rows, self.batches, self.seconds, **more))

    def filling(self, seconds: int) -> int:
        """The number of batches that fill a window of ``seconds``."""
        return -(-(seconds + 120) * self.batches // self.seconds)


WHOLE = Size()
QUICK = Size(rows=1 << 12, batches=4, seconds=480, turn=2, turns=2, groups=100, memory=1 << 18)
"""Enough to show that everything runs, and that the rows are right."""


def q3(size: Size) -> list[dict[str, Any]]:
    """Query Q3 for every range of Table II, and with ten thousand windows at a time."""
    works = {f"{seconds} s": Work(seconds) for seconds in RANGES} | {"fine": FINE}
    turns = 5 * size.turns  # more of them, since the works are compared with each other
    found = compare(works, size.trades(), size.turn, turns, size.filling(FINE.size))
    return list(found.values())


def q3_shapes(size: Size) -> list[dict[str, Any]]:
    """Query Q3 at 600 seconds, by the share of trades that it counts and by their disorder."""
    found = []
    for symbols, disorder in ((2, 60), (16, 60), (256, 60), (16, 0)):
        trades = size.trades(symbols=symbols, disorder=disorder)
        entries = compare({"q3": Work()}, trades, size.turn, size.turns, size.filling(600))
        found.append({"share": 1 / symbols, "disorder": disorder, **entries["q3"]})
    return found


def q3_batches(size: Size) -> list[dict[str, Any]]:
    """Query Q3 at 600 seconds, by the size of a batch."""
    found = []
    for cut in (1, 4, 16, 64):
        finer = replace(size, rows=size.rows // cut, batches=size.batches * cut)
        finer = replace(finer, turn=size.turn * cut)
        entries = compare(
            {"q3": Work()}, finer.trades(), finer.turn, finer.turns, finer.filling(600)
        )
        found.append(entries["q3"])
    return found


def together(size: Size) -> dict[str, Any]:
    """COUNT, SUM, MIN, MAX and AVG of the price at once: of all trades, and of those of UBS."""
    works = {
        "all": Work(calls=ALL, only=False),
        "UBSN": Work(calls=ALL),
        "all, fine": replace(FINE, calls=ALL, only=False),
    }
    filling = size.filling(FINE.size)
    return compare(works, size.trades(), size.turn, size.turns, filling)


def grouped(size: Size) -> dict[str, Any]:
    """Ten thousand groups: of a dictionary-encoded string, and of an integer."""
    trades = size.trades(symbols=size.groups)
    works = {
        "symbol": Work(calls=SUMMED, value="volumes", only=False, key="symbols"),
        "integer": Work(calls=SUMMED, value="volumes", only=False, key="prices"),
        "symbol, all five": Work(calls=ALL, value="volumes", only=False, key="symbols"),
    }
    return compare(works, trades, max(1, size.turn // 4), size.turns, size.filling(600))


def wid_against_panes(size: Size) -> list[dict[str, Any]]:
    """The published algorithm, every window by itself, compared with panes."""
    found = []
    for seconds in RANGES:
        works = {kernel: Work(seconds, kernel=kernel) for kernel in ("panes", "wid")}
        turn = max(1, size.turn // 8)
        entries = compare(works, size.trades(), turn, size.turns, size.filling(seconds))
        found += [{"kernel": kernel, **entry} for kernel, entry in entries.items()]
    return found


def against_duckdb(size: Size) -> dict[str, Any]:
    """The grouped query over one bounded batch, compared with DuckDB."""
    trades = size.trades(symbols=size.groups)
    return aggregate_duckdb.one_batch(trades, max(1, size.batches // 2), size.turns)


def memory(size: Size) -> dict[str, Any]:
    """Panes and groups, not tuples."""
    return aggregate_memory.flat(size.trades(symbols=1_000), size.memory)


PARTS: tuple[Callable[[Size], Any], ...] = (
    q3, q3_shapes, q3_batches, together, grouped, wid_against_panes, against_duckdb, memory,
)  # fmt: skip


def run(quick: bool = False, names: list[str] | None = None) -> dict[str, Any]:
    """All of it, or the parts of these names."""
    found = {}
    for part in PARTS:
        if names and part.__name__ not in names:
            continue
        start = time.perf_counter()
        found[part.__name__] = part(QUICK if quick else WHOLE)
        taken = time.perf_counter() - start
        said = f"bench: aggregates, {part.__name__}: {taken:.0f} s"
        print(said, file=sys.stderr, flush=True)
    return found


def main(given: list[str] | None = None) -> None:
    """``python -m bench.aggregates [PART …] [--quick] [--out FILE]``."""
    parser = argparse.ArgumentParser(prog="python -m bench.aggregates", description=__doc__)
    known = [part.__name__ for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="little work, to see that it runs")
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to the terminal")
    arguments = parser.parse_args(given)
    unknown = [name for name in arguments.parts if name not in known]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(known)}")
    found = {"machine": machine(), "aggregates": run(arguments.quick, arguments.parts)}
    text = json.dumps(found, indent=2) + "\n"
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
