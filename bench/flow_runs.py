"""Flows at full windows: several flows over the same input, alternating, with equal rows.

Contestants are compared in one run: all have full windows and process every part of the input in
turns, so that other load on the machine affects all of them alike. A turn ends when every row of
its arrivals has been made (``engine.wait()``), also for handshake join, which would compare tuples
later. After every turn the rows of each contestant are compared with those of the first, by their
number and a digest of their values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.band_join import QUERY, arrivals
from bench.kernels import DDL
from bench.measure import rate
from penstock.streams.events import Merged

BATCH = 1 << 20
"""Arrivals that an engine processes at once: the flow `shared` gains from large batches."""
FILLING = 1 << 20
MOST_SECONDS = 4.0
"""The limit of a turn; the first contestant has none, since others are compared with it."""
WORD = np.uint64(0x9E3779B97F4A7C15)
Make = Callable[[np.random.Generator, int], Merged]


@dataclass(frozen=True)
class FlowOptions:
    """The flow and its options, as for ``engine.install``."""

    flow: str
    cores: int = 2
    kernel: str | None = None
    order: str | None = None
    precision: int | None = None

    def arguments(self) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Made:
    """The number of rows, and a digest that does not depend on their order."""

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Made) -> Made:
        return Made(self.rows + other.rows, (self.digest + other.digest) % (1 << 64))


@dataclass
class Contestant:
    """An engine with the query, and its measurements."""

    engine: Any
    query: Any
    arrivals: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    rows: int = 0
    compared: int = 0

    def take(self, batches: list[Merged], most_seconds: float) -> list[Made]:
        """Run a turn within the time limit; returns the rows made after each batch."""
        tables = []
        before = self.query.metrics()["comparisons"]
        used = time.process_time()
        start = time.perf_counter()
        for batch in batches:
            self.engine.feed([batch])
            tables.append(self.query.rows())
            if time.perf_counter() - start > most_seconds:
                break
        self.engine.wait()
        last = self.query.rows()
        self.seconds.append(time.perf_counter() - start)
        self.processor_seconds.append(time.process_time() - used)
        self.arrivals.append(sum(len(batch.which) for batch in batches[: len(tables)]))
        self.compared += self.query.metrics()["comparisons"] - before
        made = list(accumulate(digest(table) for table in tables))
        made[-1] += digest(last)
        self.rows += made[-1].rows
        return made

    def forget(self) -> None:
        """Discard all measurements so far."""
        self.arrivals, self.seconds, self.processor_seconds = [], [], []
        self.rows, self.compared = 0, 0


def digest(table: pa.Table) -> Made:
    """The number and the digest of a table's rows."""
    total = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        values = column.to_numpy()
        whole = values.view(f"i{values.dtype.itemsize}") if values.dtype.kind != "i" else values
        total = (total + whole.astype(np.uint64)) * WORD
        total ^= total >> np.uint64(29)
    return Made(table.num_rows, int(total.sum(dtype=np.uint64)))


@contextmanager
def contestant(work: Work, options: FlowOptions, filling: list[Merged]) -> Iterator[Contestant]:
    """The query by that flow, its windows full, its rows drained.

    The windows are filled while the predicate is FALSE, which costs no comparisons.
    """
    with ps.connect("local", batch_rows=BATCH, buffer_rows=1 << 28) as engine:
        engine.sql(work.ddl)
        query = engine.install(work.query + " AND 1 = 0", **options.arguments())
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
    work: Work, window: int, flows: dict[str, FlowOptions], turn: int, turns: int = 3
) -> dict[str, dict[str, Any]]:
    """Tuples and comparisons per second of each, ``turn`` arrivals a turn in batches.

    A contestant that does not finish a turn in time is measured by the finished part, and is out.
    """
    rng = np.random.default_rng(7)
    filling = full(work, window, rng)
    with ExitStack() as stack:
        contestants = {
            name: stack.enter_context(contestant(work, options, filling))
            for name, options in flows.items()
        }
        del filling
        out: set[str] = set()
        # The first turn compiles, and builds the indexes; it is short and does not count.
        for number, size in enumerate([min(turn, BATCH)] + [turn] * turns):
            batches = [work.make(rng, min(BATCH, size - at)) for at in range(0, size, BATCH)]
            expected: list[Made] = []
            for name, one in contestants.items():
                if name in out:
                    continue
                made = one.take(batches, MOST_SECONDS if number and expected else math.inf)
                expected = expected or made
                assert made[-1] == expected[len(made) - 1], (
                    f"{name} gives {made[-1]}, but {next(iter(flows))} {expected[len(made) - 1]}"
                )
                if not number:
                    one.forget()
                elif len(made) < len(batches):
                    out.add(name)
        return {name: found(one, window) for name, one in contestants.items()}


def found(one: Contestant, window: int) -> dict[str, Any]:
    """The figures of a contestant."""
    # A turn that was cut short counts in proportion to its length.
    each = [
        seconds * one.arrivals[0] / arrivals
        for seconds, arrivals in zip(one.seconds, one.arrivals, strict=True)
    ]
    total = sum(one.arrivals)
    return {
        "window": window,
        "tuples_per_second": rate(one.arrivals[0], each),
        "tuples_per_processor_second": total / sum(one.processor_seconds),
        "comparisons_per_second": rate(one.compared * one.arrivals[0] / total, each),
        "rows": one.rows,
        "rows_per_arrival": one.rows / total,
    }


def medians(figures: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Tuples per second by name."""
    return {name: figure["tuples_per_second"]["median"] for name, figure in figures.items()}
