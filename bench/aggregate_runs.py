"""Window aggregates: several queries over the same trades, alternating, with checked rows.

Contestants are compared in one run: each processes every batch, in turns, so that other load on the
machine affects all of them alike. The batches of a turn are in memory before its clock starts; the
clock stops when all of their rows have been drained. All rows, also those before the first turn,
are compared with NumPy's results for the same tuples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from bench.measure import rate
from bench.trades import DDL, Facts, Part, Trades

SLACK = 60
CORES = 2
COUNT = ("COUNT(*) AS n",)
ALL = ("COUNT(*) AS n", "SUM({v}) AS s", "MIN({v}) AS low", "MAX({v}) AS high", "AVG({v}) AS mean")
SUMMED = ("COUNT(*) AS n", "SUM({v}) AS s")
COLUMNS = {"prices": "Price", "volumes": "Volume", "symbols": "Symbol"}


@dataclass(frozen=True)
class Work:
    """A query over trades: windows of ``size`` seconds, one every ``slide``.

    ``calls`` are of the column ``value``; ``only``: of the trades of UBS; ``key``: symbols or
    prices, to group by.
    """

    size: int = 600
    slide: int = 60
    calls: tuple[str, ...] = COUNT
    value: str = "prices"
    only: bool = True
    key: str | None = None
    kernel: str | None = None

    @property
    def modules(self) -> int:
        """``N_WIN``, the window-aggregation modules of Oge et al. 2013, equations 1 and 2."""
        whole = -(-self.size // self.slide)
        more = max(1, -(-(SLACK + self.size) // self.slide) - whole)
        return whole + more

    @property
    def sql(self) -> str:
        """The text of the query."""
        calls = [call.format(v=COLUMNS[self.value]) for call in self.calls]
        key = [] if self.key is None else [f"{COLUMNS[self.key]} AS k"]
        window = f"[RANGE {self.size} SECONDS SLIDE {self.slide} SECONDS"
        lines = [
            f"SELECT {', '.join(['window_start', *key, *calls])}",
            f"FROM Trades {window} WATTR Time SLACK {SLACK} SECONDS]",
        ]
        lines += ["WHERE Symbol = 'UBSN'"] if self.only else []
        lines += [f"GROUP BY {COLUMNS[self.key]}"] if self.key else []
        return "\n".join(lines)

    def facts(self, trades: Trades) -> Facts:
        """The facts that its rows are checked with."""
        unit = int(np.gcd(self.size, self.slide))
        return Facts(trades, unit, self.value, self.only, self.key)


@dataclass
class Contestant:
    """An engine with a query, its measurements, and its rows."""

    engine: Any
    query: Any
    work: Work
    facts: Facts
    seconds: list[float] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)

    def take(self, batches: list[tuple[int, pa.RecordBatch]]) -> float:
        """Push the batches, one by one, and drain all rows; returns the seconds."""
        start = time.perf_counter()
        for _, batch in batches:
            self.engine.push("Trades", batch)
            self.rows.append(self.query.rows())
        seconds = time.perf_counter() - start
        self.facts.added += [number for number, _ in batches]
        return seconds


@contextmanager
def contestant(work: Work, trades: Trades) -> Iterator[Contestant]:
    """An engine that processes a batch at once."""
    rows = trades.shape.rows
    with ps.connect("local", batch_rows=rows, buffer_rows=1 << 28) as engine:
        engine.sql(DDL)
        query = engine.install(work.sql, kernel=work.kernel, cores=CORES)
        yield Contestant(engine, query, work, work.facts(trades))


def compare(
    works: dict[str, Work], trades: Trades, turn: int, turns: int, filling: int
) -> dict[str, dict[str, Any]]:
    """Tuples per second of each: ``turn`` batches a turn, after ``filling`` that do not count.

    The first contestant of a turn finds the batches in no cache, so each is first in turn.
    """
    with ExitStack() as stack:
        several = {
            name: stack.enter_context(contestant(work, trades)) for name, work in works.items()
        }
        for _ in range(filling):
            batches = trades.take(1)
            for one in several.values():
                one.take(batches)
        order = deque(several.values())
        for _ in range(turns):
            batches = trades.take(turn)
            for one in order:
                one.seconds.append(one.take(batches))
            order.rotate(1)
        return {name: found(one, turn * trades.shape.rows) for name, one in several.items()}


def found(one: Contestant, tuples: int) -> dict[str, Any]:
    """The figures of a contestant, after its rows are checked."""
    metrics = one.query.metrics()
    assert not metrics["late"], f"{metrics['late']} tuples are late, but none should be"
    return {
        "range": one.work.size,
        "slide": one.work.slide,
        "modules": one.work.modules,
        "batch": one.facts.trades.shape.rows,
        "tuples_per_second": rate(tuples, one.seconds),
        "rows_checked": checked(one),
        "window_bytes": metrics.get("window_bytes"),
    }


def checked(one: Contestant) -> int:
    """Check all rows of a query against the definition; returns their number."""
    rows = pa.concat_tables(one.rows)
    expected = in_windows(one.facts, one.work)
    last = rows["window_start"][-1].as_py() if rows.num_rows else -1
    expected = expected.filter(pc.less_equal(expected["window_start"], last))
    newest = int(max(batch_end(one.facts, number) for number in one.facts.added))
    closed = newest - SLACK - one.work.size
    assert last <= closed < last + one.work.slide, f"{last} was the last window, not {closed}"
    compared = rows.select(expected.column_names)
    if "k" in expected.column_names and one.work.key == "symbols":
        expected = expected.sort_by([("window_start", "ascending"), ("k", "ascending")])
    same = compared.cast(expected.schema).combine_chunks().equals(expected.combine_chunks())
    assert same, f"other rows than NumPy's: {one.work.sql}"
    return int(rows.num_rows)


def batch_end(facts: Facts, number: int) -> int:
    """The largest time of a batch."""
    return int(facts.trades.times[facts.trades.part(number)].max()) + facts.trades.shift(number)


def in_windows(facts: Facts, work: Work) -> pa.Table:
    """The rows of every window with a tuple, from the facts by unit of time."""
    whole = facts.whole()
    size, slide = work.size // facts.unit, work.slide // facts.unit
    first = (whole.first - size) // slide + 1
    starts = np.arange(first * slide, whole.first + len(whole.count), slide)
    edges = np.clip(np.stack([starts, starts + size]) - whole.first, 0, len(whole.count))
    count, total = (within(column, edges) for column in (whole.count, whole.total))
    window, key = np.nonzero(count)
    names = [call.rpartition(" ")[2] for call in work.calls]
    columns: dict[str, Any] = {"window_start": starts[window] * facts.unit}
    if work.key is not None:
        symbols = np.array(facts.trades.shape.names())
        columns["k"] = symbols[key] if work.key == "symbols" else key
    n, s = count[window, key], total[window, key]
    values = {"n": n, "s": s, "mean": s / n}
    if "low" in names:
        values |= extremes(whole, edges, window, key)
    return pa.table(columns | {name: values[name] for name in names})


def within(column: Any, edges: Any) -> Any:
    """The sums between the edges."""
    summed = np.concatenate([np.zeros((1, column.shape[1]), np.int64), np.cumsum(column, axis=0)])
    return summed[edges[1]] - summed[edges[0]]


def extremes(whole: Part, edges: Any, window: Any, key: Any) -> dict[str, Any]:
    """The smallest and the largest value of each window and key."""
    pairs = [edges[:, number] for number in range(edges.shape[1])]
    least = np.stack([whole.least[a:b].min(axis=0, initial=2**62) for a, b in pairs])
    greatest = np.stack([whole.greatest[a:b].max(axis=0, initial=-(2**62)) for a, b in pairs])
    return {"low": least[window, key], "high": greatest[window, key]}
