"""Flows at full windows: the same input to several of them, in turns, and the same rows from all.

What is compared is measured in one run: all contestants are there with full windows, and take turns
with every part of the input, so that whatever else the machine does hits all of them. A turn ends
when every row of its arrivals has been made (``engine.wait()``), for handshake join too, whose
tuples would meet later. After every turn the digest of the rows of each contestant is compared with
that of the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.band_join import QUERY, arrivals
from bench.kernels import DDL
from bench.measure import rate
from penstock.streams.events import Merged

BATCH = 65_536
FILLING = 1 << 20
WORD = np.uint64(0x9E3779B97F4A7C15)
Make = Callable[[np.random.Generator, int], Merged]


@dataclass(frozen=True)
class How:
    """Which flow finds the pairs, as ``engine.install`` is told."""

    flow: str
    cores: int = 2
    kernel: str | None = None
    order: str | None = None
    precision: int | None = None

    def options(self) -> dict[str, Any]:
        """The arguments of ``engine.install``."""
        cores = None if self.flow == "three-step" else self.cores
        return {
            "flow": self.flow,
            "cores": cores,
            "kernel": self.kernel,
            "order": self.order,
            "precision": self.precision,
        }


@dataclass(frozen=True)
class Work:
    """A join of two streams, and tuples for it."""

    query: str
    make: Make = arrivals
    ddl: str = DDL


def band(window: int) -> Work:
    """The papers' two-dimensional band join over count windows."""
    return Work(QUERY.format(window=window))


@dataclass
class Contestant:
    """An engine with the query, and how long its turns took."""

    engine: Any
    query: Any
    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    digest: int = 0
    compared: int = 0

    def take(self, batches: list[Merged]) -> None:
        """Take a turn."""
        made = []
        before = self.query.metrics()["comparisons"]
        start = time.perf_counter()
        for batch in batches:
            self.engine.feed([batch])
            made.append(self.query.rows())
        self.engine.wait()
        made.append(self.query.rows())
        self.seconds.append(time.perf_counter() - start)
        self.compared += self.query.metrics()["comparisons"] - before
        for table in made:
            self.rows += table.num_rows
            self.digest = (self.digest + digest(table)) % (1 << 64)


def digest(table: pa.Table) -> int:
    """A number that tells rows apart, whatever their order."""
    total = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        values = column.to_numpy()
        whole = values.view(f"i{values.dtype.itemsize}") if values.dtype.kind != "i" else values
        total = (total + whole.astype(np.uint64)) * WORD
        total ^= total >> np.uint64(29)
    return int(total.sum(dtype=np.uint64))


@contextmanager
def contestant(work: Work, how: How, filling: list[Merged]) -> Iterator[Contestant]:
    """The query by that flow, its windows full, its rows drained.

    The windows are filled while the predicate is FALSE, which costs no comparisons.
    """
    with ps.connect("local", buffer_rows=1 << 28) as engine:
        engine.sql(work.ddl)
        query = engine.install(work.query + " AND 1 = 0", **how.options())
        engine.feed(filling)
        query.change(work.query)
        engine.wait()
        yield Contestant(engine, query)


def full(work: Work, window: int, rng: np.random.Generator) -> list[Merged]:
    """Tuples that fill both windows."""
    # Sides are drawn at random: a little more than twice the window fills both.
    wanted = 2 * window + window // 8 + 4096
    counts = [FILLING] * (wanted // FILLING) + [wanted % FILLING]
    return [work.make(rng, count) for count in counts if count]


def compare(
    work: Work, window: int, hows: dict[str, How], turn: int, turns: int = 3, batch: int = BATCH
) -> dict[str, dict[str, Any]]:
    """Tuples and comparisons per second of each, ``turn`` arrivals a turn in batches."""
    rng = np.random.default_rng(7)
    filling = full(work, window, rng)
    with ExitStack() as stack:
        contestants = {
            name: stack.enter_context(contestant(work, how, filling)) for name, how in hows.items()
        }
        del filling
        for number in range(turns + 1):
            sizes = [batch] * (turn // batch) + ([turn % batch] if turn % batch else [])
            batches = [work.make(rng, size) for size in sizes]
            for one in contestants.values():
                one.take(batches)
            agree(contestants)
            if not number:  # the first turn compiles and makes the indexes
                forget(contestants)
        return {name: found(one, window, turn) for name, one in contestants.items()}


def agree(contestants: dict[str, Contestant]) -> None:
    """All have made the same rows."""
    made = {name: (one.rows, one.digest) for name, one in contestants.items()}
    assert len(set(made.values())) <= 1, f"rows and digests differ: {made}"


def forget(contestants: dict[str, Contestant]) -> None:
    """Do not count what has been measured so far."""
    for one in contestants.values():
        one.seconds, one.rows, one.digest, one.compared = [], 0, 0, 0


def found(one: Contestant, window: int, turn: int) -> dict[str, Any]:
    """The figures of a contestant."""
    turns = len(one.seconds)
    return {
        "window": window,
        "tuples_per_second": rate(turn, one.seconds),
        "comparisons_per_second": rate(one.compared / turns, one.seconds),
        "rows": one.rows,
        "rows_per_arrival": one.rows / (turn * turns),
    }


def medians(figures: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Tuples per second by name."""
    return {name: figure["tuples_per_second"]["median"] for name, figure in figures.items()}
