"""Random shapes of aggregates and joins: the worst cost of a tuple, and how the cost grows.

``python -m bench shapes [--quick] [--seed S] [--count N]``. A shape determines windows, groups,
keys, batches and times; it is drawn from a number, which is printed, so ``--shape NUMBER`` repeats
it. Its cost is the processor time of all pushes, the end and the rows, divided by its *units*: one
per tuple, one per row, and :data:`PUSH` per push. Work that is inherent in a design counts as units
too: the windows of a tuple on the kernel ``wid``, and the candidates of a join without an index, of
which :data:`CANDIDATES` are one unit.

Two bounds must hold, else the exit status is 1. With four times the tuples a unit costs no more
than :data:`MOST_GROWTH` times as much: nothing grows quadratically. And a unit of the worst shape
costs no more than :data:`MOST_WORST` times that of the median shape. A shape that grows too much is
measured again, and the smallest of its times counts. If it still does, its windows may not have
been full in the first run, so it is measured from four times as many tuples on, and then from
sixteen times as many: a window that slides by a hundredth of its length has most rows only after
tens of thousands of tuples, and what is quadratic grows there too.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.measure import machine

COUNT = 1_000
QUICK = 20
SIZE = 1_500
"""Tuples of a shape in its first run."""
TIMES = 4
"""The second run has this many times the tuples."""
MOST_GROWTH = 2.0
MOST_WORST = 50.0
PUSH = 1_000
"""The units of a push: a push of one tuple costs about as much as this many tuples."""
CANDIDATES = 100
"""Candidates of a nested loop per unit."""
STARTS = 3
"""A shape is measured from this many numbers of tuples on, each :data:`TIMES` the one before."""
AGAIN = 3
"""A shape that breaks a bound is measured this many more times."""

CALLS = (
    "COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(y)", "AVG(y)", "MIN(x)", "MAX(y)", "MAX(w)",
    "VAR_POP(x)", "STDDEV_SAMP(y)", "COUNT(DISTINCT x)", "COUNT(DISTINCT w)", "FIRST(x)", "LAST(w)",
)  # fmt: skip
KEYS = ("none", "few", "many", "unique", "words", "two", "mixed")
TAILS = ("", "", "", "HAVING COUNT(*) > 1", "ORDER BY 1 DESC LIMIT 3", "EMIT EMPTY")
JOINS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
PREDICATES = {
    "equal": "r.k = s.k",
    "words": "r.w = s.w",
    "band": "r.k BETWEEN s.k - 1 AND s.k + 1",
    "two bands": "r.k BETWEEN s.k - 1 AND s.k + 1 AND r.x BETWEEN s.x - 50 AND s.x + 50",
    "equal and more": "r.k = s.k AND r.x <= s.x",
    "sorted": "r.z < s.z",
    "loop": "r.k + s.k = 5",
}


@dataclass(frozen=True)
class Aggregate:
    """A query with windows over one stream."""

    call: str
    keys: str
    slide: int
    overlap: int
    """The number of windows that a tuple is in."""
    rows: bool
    """Whether it has count windows."""
    per_tick: int
    slack: str
    late: float
    batch: int
    kernel: str
    tail: str
    derived: bool

    @classmethod
    def draw(cls, draw: random.Random) -> Aggregate:
        rows = draw.random() < 0.15
        keys = draw.choice(KEYS)
        tail = draw.choice(TAILS)
        if (tail == "EMIT EMPTY") != (keys == "none" and tail != "") or (rows and tail):
            tail = ""
        overlap = draw.choice((1, 1, 2, 5, 20, 100))
        wid = not rows and overlap <= 5 and draw.random() < 0.15
        return cls(
            call=draw.choice(CALLS),
            keys=keys,
            slide=draw.choice((1, 1, 3, 10, 100)),
            overlap=overlap,
            rows=rows,
            per_tick=draw.choice((1, 1, 1, 5, 50)),
            slack="0" if rows else draw.choice(("0", "0", "a few", "all")),
            late=0.0 if rows else draw.choice((0.0, 0.0, 0.0, 0.01, 0.5)),
            batch=draw.choice((1, 20, 200, 1 << 30)),
            kernel="wid" if wid else "panes",
            tail=tail,
            derived=draw.random() < 0.1,
        )

    def measure(self, size: int) -> tuple[float, float]:
        """Seconds, and units."""
        size = _few(size, self.batch)
        rng = np.random.default_rng(size)
        ticks = np.arange(size) // self.per_tick
        late = rng.random(size) < self.late
        reach = self.slide * self.overlap
        ticks = np.where(late, ticks - rng.integers(0, reach + 2, size), ticks)
        table = pa.table({"t": ticks, **_values(rng, size), "k": _keys(rng, size, self.keys)})
        slack = {"0": 0, "a few": 3 * self.slide, "all": size}[self.slack]
        window = f"[RANGE {reach} SLIDE {self.slide} WATTR t SLACK {slack}]"
        window = f"[ROWS {reach} SLIDE {self.slide}]" if self.rows else window
        by = {"none": "", "words": " GROUP BY w", "two": " GROUP BY k, w"}
        tail = self.tail
        source = "s"
        engine = ps.connect("local", buffer_rows=1 << 40)
        engine.sql("CREATE STREAM s (t BIGINT, x BIGINT, y DOUBLE, w VARCHAR, z BIGINT, k BIGINT)")
        if self.derived:
            engine.sql("CREATE STREAM d AS SELECT t, x, y, w, k FROM s WHERE x >= 0")
            source = "d"
        text = f"SELECT {self.call} AS a FROM {source} {window}{by.get(self.keys, ' GROUP BY k')}"
        query = engine.install(f"{text} {tail}", **_forced(self.kernel, "panes"))
        seconds = _timed(lambda: _push(engine, {"s": table}, self.batch))
        rows = query.rows().num_rows + len(query.late())
        windows = self.overlap if self.kernel == "wid" else 1
        groups = 0
        if tail:  # rows that HAVING and LIMIT drop have been computed
            groups = size * min(self.overlap, 1 if self.rows else self.overlap)
        return seconds, size * windows + rows + groups + PUSH * _pushes(size, self.batch)


@dataclass(frozen=True)
class Join:
    """A query with two windows."""

    kind: str
    predicate: str
    rows: tuple[bool, bool]
    """For each side, whether its window is a count window."""
    size: tuple[str, str]
    matches: float
    """The approximate number of partners of a tuple."""
    skew: str
    disorder: str
    late: float
    per_tick: int
    batch: int
    punctuated: bool
    derived: bool

    @classmethod
    def draw(cls, draw: random.Random) -> Join:
        predicate = draw.choice(tuple(PREDICATES))
        sizes = ("few", "some", "many", "all")
        most = 3 if predicate in ("loop", "sorted") else 4
        one, other = draw.choice(sizes[:most]), draw.choice(sizes[:most])
        same = draw.random() < 0.7
        rows = draw.random() < 0.5
        kinds = (rows, rows if same else not rows)
        timed = not all(kinds)
        return cls(
            kind=draw.choice(JOINS),
            predicate=predicate,
            rows=kinds,
            size=(one, one if same else other),
            matches=draw.choice((0.01, 0.1, 1.0, 4.0)),
            skew=draw.choice(("no", "no", "one key on one side", "nulls", "runs")),
            disorder=draw.choice(("no", "no", "a few", "all")) if timed else "no",
            late=draw.choice((0.0, 0.0, 0.02, 0.5)) if timed else 0.0,
            per_tick=draw.choice((1, 1, 10, 300)),
            batch=draw.choice((1, 20, 200, 1 << 30)),
            punctuated=timed and draw.random() < 0.2,
            derived=draw.random() < 0.1,
        )

    def measure(self, size: int) -> tuple[float, float]:
        """Seconds, and units."""
        size = _few(size, 2 * self.batch)
        rng = np.random.default_rng(size)
        each = size // 2
        held = [{"few": 5, "some": 50, "many": 500, "all": each // 2}[s] for s in self.size]
        tables = {}
        slack = {"no": 0, "a few": 20, "all": each}[self.disorder]
        for name in "rs":
            ticks = np.arange(each) // self.per_tick
            ticks = ticks + (rng.integers(0, slack + 1, each) if slack else 0)
            back = rng.random(each) < self.late
            ticks = np.where(back, ticks - rng.integers(0, 2 * slack + 50, each), ticks)
            domain = max(1, int(min(held) / self.matches))
            keys = rng.integers(0, domain, each)
            if self.skew == "one key on one side" and name == "r":
                keys = np.where(rng.random(each) < 0.5, domain + 7, keys)
            if self.skew == "runs":
                keys = np.arange(each) * 7 // 5 % max(domain, 2)
            mask = rng.random(each) < 0.5 if self.skew == "nulls" else None
            values = _values(rng, each)
            values["z"] = pa.array(np.arange(each) + (2 if name == "r" else 0))
            values["w"] = pa.array([f"word {key}" for key in keys.tolist()], mask=mask)
            tables[name] = pa.table({"t": ticks, **values, "k": pa.array(keys, mask=mask)})
        engine = ps.connect("local", buffer_rows=1 << 40)
        clauses = []
        for i, name in enumerate("rs"):
            columns = "(t BIGINT, x BIGINT, y DOUBLE, w VARCHAR, z BIGINT, k BIGINT)"
            engine.sql(f"CREATE STREAM {name} {columns}")
            width = max(1, held[i] // self.per_tick)
            clause = f"[RANGE {width} WATTR t SLACK {slack}]"
            clauses.append(f"[ROWS {held[i]}]" if self.rows[i] else clause)
        left = "r"
        if self.derived:
            engine.sql("CREATE STREAM d AS SELECT t, x, y, w, z, k FROM r WHERE x >= 0")
            left = "d"
        columns = "r.x" if self.kind in ("SEMI JOIN", "ANTI JOIN") else "r.x, s.x AS y"
        query = engine.install(
            f"SELECT {columns} FROM {left} {clauses[0]} AS r {self.kind} s {clauses[1]} AS s "
            f"ON {PREDICATES[self.predicate]}"
        )
        batch = self.batch
        seconds = _timed(lambda: _push(engine, tables, batch, self.punctuated))
        rows = query.rows().num_rows
        late = len(query.late())
        candidates = 0.0
        if self.predicate in ("loop", "sorted", "two bands", "equal and more"):
            candidates = size * max(held) / CANDIDATES
        return seconds, size + rows + late + candidates + PUSH * _pushes(size, batch)


Shape = Aggregate | Join


def shape_of(number: int) -> Shape:
    """The shape that a number stands for."""
    draw = random.Random(number)
    return (Aggregate if draw.random() < 0.6 else Join).draw(draw)


def _few(size: int, batch: int) -> int:
    """Fewer tuples if each push has only a few."""
    return size if batch > 100 else size // 4 if batch > 1 else size // 30


def _pushes(size: int, batch: int) -> int:
    return -(-size // batch)


def _values(rng: np.random.Generator, size: int) -> dict[str, Any]:
    numbers = rng.integers(0, 1000, size)
    words = np.array([f"word {i}" for i in range(100)], object)
    return {
        "x": pa.array(numbers),
        "y": pa.array(rng.normal(size=size)),
        "w": pa.array(words[rng.integers(0, 100, size)], pa.string()),
        "z": pa.array(numbers),
    }


def _keys(rng: np.random.Generator, size: int, keys: str) -> Any:
    numbers = np.arange(size)
    if keys == "unique":
        return rng.permutation(numbers)
    if keys == "mixed":  # a few frequent ones, and many that occur once
        return np.where(rng.random(size) < 0.5, rng.integers(0, 10, size), numbers + 10)
    return rng.integers(0, {"many": max(1, size // 10)}.get(keys, 10), size)


def _forced(kernel: str, usual: str) -> dict[str, Any]:
    return {} if kernel == usual else {"kernel": kernel}


def _push(
    engine: ps.Engine, tables: dict[str, pa.Table], batch: int, punctuated: bool = False
) -> None:
    size = max(table.num_rows for table in tables.values())
    for start in range(0, size, batch):
        for name, table in tables.items():
            engine.push(name, table.slice(start, batch))
            if punctuated:
                engine.punctuate(name, int(table["t"][start].as_py()) - 1_000, "t")
    engine.end()


def _timed(work: Callable[[], object]) -> float:
    """The processor time of this process, all of its threads."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    try:
        work()
    finally:
        gc.enable()
    return time.process_time() - start


def cost(shape: Shape, size: int, times: int) -> float:
    """Seconds per unit: the minimum of several runs."""
    found = [shape.measure(size) for _ in range(times)]
    return min(seconds / units for seconds, units in found)


def measured(number: int, size: int) -> dict[str, Any]:
    """The cost of a shape, and its growth; measured again if it grows too much."""
    shape = shape_of(number)
    shape.measure(size // 10)  # compiles
    gc.collect()
    gc.freeze()  # what exists now, compiled kernels above all, is not collected before every run
    for start in range(STARTS):
        few, many = _costs(shape, TIMES**start * size)
        if many <= MOST_GROWTH * few:
            break
    kind = type(shape).__name__.lower()
    figures = {"ns_per_unit": 1e9 * many, "growth": many / few}
    return {"number": number, "kind": kind, **figures, "shape": asdict(shape)}


def _costs(shape: Shape, size: int) -> tuple[float, float]:
    """The cost of a unit with ``size`` tuples, and with more of them."""
    few, many = cost(shape, size, 2), cost(shape, TIMES * size, 1)
    for _ in range(AGAIN):
        if many <= MOST_GROWTH * few:
            break
        few, many = min(few, cost(shape, size, 3)), min(many, cost(shape, TIMES * size, 2))
    return few, many


def run(seed: int, count: int, size: int = SIZE) -> dict[str, Any]:
    """Measure that many shapes; returns the worst, and those that broke a bound."""
    draw = random.Random(seed)
    found = []
    for done in range(count):
        found.append(measured(draw.randrange(1 << 32), size))
        if done % 100 == 99:
            print(f"shapes: {done + 1} of {count}", file=sys.stderr, flush=True)
    return summary(found)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of all shapes, and of the worst ones."""
    costs = [one["ns_per_unit"] for one in found]
    median = statistics.median(costs)
    by_cost = sorted(found, key=lambda one: -float(one["ns_per_unit"]))
    by_growth = sorted(found, key=lambda one: -float(one["growth"]))
    kinds = sorted({one["kind"] for one in found})
    return {
        "shapes": len(found),
        "of_each_kind": {kind: sum(one["kind"] == kind for one in found) for kind in kinds},
        "ns_per_unit": {"median": median, "worst": max(costs)},
        "worst_to_median": max(costs) / median,
        "growth": {
            "median": statistics.median(one["growth"] for one in found),
            "worst": by_growth[0]["growth"],
        },
        "bounds": {"growth": MOST_GROWTH, "worst_to_median": MOST_WORST},
        "costliest": by_cost[:5],
        "fastest_growing": by_growth[:5],
        "broken": [
            one
            for one in found
            if one["growth"] > MOST_GROWTH or one["ns_per_unit"] > MOST_WORST * median
        ],
    }


def report(found: dict[str, Any]) -> str:
    """The results as a table."""
    costs, growth = found["ns_per_unit"], found["growth"]
    lines = [
        "| | median | worst | bound |",
        "| --- | --- | --- | --- |",
        f"| cost of a unit | {costs['median']:.0f} ns | {costs['worst']:.0f} ns, "
        f"{found['worst_to_median']:.0f} times the median | {MOST_WORST:.0f} times |",
        f"| cost of a unit with {TIMES} times the tuples, to that without | "
        f"{growth['median']:.2f} | {growth['worst']:.2f} | {MOST_GROWTH:.1f} |",
    ]
    return "\n".join(lines)


def main(given: list[str]) -> int:
    """Run, report, and return whether the bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m bench shapes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} shapes of few tuples")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--count", type=int, help=f"how many shapes; {COUNT} if not given")
    parser.add_argument("--shape", type=int, metavar="NUMBER", help="only this one, again")
    parser.add_argument("--out", type=Path, help="write the JSON here")
    options = parser.parse_args(given)
    warnings.simplefilter("ignore")
    if options.shape is not None:
        print(json.dumps(measured(options.shape, SIZE), indent=2))
        return 0
    count = options.count or (QUICK if options.quick else COUNT)
    print(f"shapes: {count}, --seed {options.seed}", file=sys.stderr, flush=True)
    found = run(options.seed, count, SIZE // 5 if options.quick else SIZE)
    print(report(found))
    for one in found["broken"]:
        print(f"broken: {json.dumps(one)}")
    if options.out:
        document = {"machine": machine(), "seed": options.seed, "shapes": found}
        options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 1 if found["broken"] else 0
