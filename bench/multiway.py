"""Joins of three and more streams in one block: ``python -m bench multiway [--quick]``.

The workloads of Najafi 2019 §6.5: tuples of a 32-bit key and a 32-bit value, whose origin is any of
the streams with the same probability, and count windows of 2^14. The match probability ``mp`` is
the chance that two tuples match. Keys and values are uniform over ``1 / mp`` numbers, and a chain
compares the value of each stream with the key of the next, so a probe of a window of ``w`` tuples
has ``m = w * mp`` partners on average, and an arrival makes ``1 + m + m^2 + ...`` probes: one for
each stage, and each intermediate result.

t/s counts arrivals of all streams. Every figure has the processor's time beside the time on the
clock: they differ where other programs use the machine. Rows and their order are checked against a
plain search in the same run; a cascade must have the rows of the one join.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock as ps
from penstock import tuning
from penstock.blocks.join.output import OutputPunctuations
from penstock.blocks.multiway.block import MultiwayBlock
from penstock.flows.make import DESIGNS, KINDS
from penstock.kernels.merging import count_below
from penstock.program.isa.flow import Flow
from penstock.streams.events import Merged
from penstock.tuning import TUNING

PLENTY = 1 << 28
"""Rows that a query may have before they are drained."""


@dataclass(frozen=True)
class Workload:
    """A chain of ``streams`` with count windows."""

    streams: int
    mp: float
    window: int = 1 << 14
    batch: int = 1 << 20
    kernel: str | None = None

    @property
    def values(self) -> int:
        """The number of different keys, and of different values."""
        return round(1 / self.mp)

    @property
    def probes(self) -> float:
        """Probes of an arrival, on average."""
        partners = self.window / self.values
        return sum(partners**stage for stage in range(self.streams - 1))


@dataclass(frozen=True)
class Effort:
    """The amount of work; ``smaller`` divides windows, batches and numbers of values alike.

    ``turn`` are the arrivals that a design takes at least, in one batch or several, before it is
    another one's turn.
    """

    rounds: int = 5
    smaller: int = 1
    single_pushes: int = 20_000
    timed: int = 1 << 18
    star: int = 1 << 17
    turn: int = 1 << 16

    def scaled(self, load: Workload) -> Workload:
        """A workload with as many probes of an arrival."""
        return replace(
            load,
            window=load.window // self.smaller,
            batch=load.batch // self.smaller,
            mp=load.mp * self.smaller,
        )


WHOLE = Effort()
QUICK = Effort(rounds=1, smaller=64, single_pushes=600, timed=1 << 12, star=1 << 11, turn=1)
"""Enough to show that everything runs."""

CHAINS = (
    Workload(3, 1e-5),
    Workload(6, 1e-6),
    Workload(6, 1e-5),
    Workload(6, 1e-4),
    Workload(3, 1e-5, batch=1 << 17, kernel="nested-loop"),
)
BESIDE = (
    *(Workload(n, mp, batch=b) for b in (1 << 20, 1 << 12) for n in (3, 6) for mp in (1e-5, 1e-4)),
    Workload(3, 1e-5, batch=1 << 17, kernel="nested-loop"),
)
"""What designs are compared by."""
CONTENDERS = (("mjoin", 1), ("shared", 1), ("shared", 2), ("parallel", 1), ("parallel", 2))
"""Designs and their numbers of cores; the first is what the others are compared with."""


# -- input and queries -----------------------------------------------------------------------


class Arrivals:
    """An endless source of tuples (t, k, v); of ``per_tick`` arrivals, ``t`` is the same."""

    def __init__(self, streams: int, values: int, per_tick: int = 1) -> None:
        self._names = names(streams)
        self._values = values
        self._per_tick = per_tick
        self._rng = np.random.default_rng(11)
        self._now = 0

    def origins(self, count: int) -> npt.NDArray[np.int8]:
        """The streams of the next arrivals."""
        return self._rng.integers(0, len(self._names), count).astype(np.int8)

    def take(self, count: int) -> Merged:
        """The next arrivals."""
        which = self.origins(count)
        now = np.arange(self._now, self._now + count) // self._per_tick
        self._now += count
        keys, values = self._rng.integers(0, self._values, (2, count), dtype=np.int32)
        batches = tuple(
            pa.RecordBatch.from_pydict({"t": now[mine], "k": keys[mine], "v": values[mine]})
            for mine in (np.flatnonzero(which == i) for i in range(len(self._names)))
        )
        return Merged(self._names, batches, which)


def names(streams: int) -> tuple[str, ...]:
    """The names of the streams."""
    return tuple(f"S{i}" for i in range(streams))


def ddl(streams: int) -> str:
    """The declarations of the streams."""
    return "; ".join(f"CREATE STREAM {name} (t BIGINT, k INT, v INT)" for name in names(streams))


def joined(streams: int, clause: str, left: str, shown: str = "t") -> str:
    """The join in one block: column ``left`` of each stream equals the key of the next."""
    text = f"S0 {clause} AS s0"
    for i in range(1, streams):
        text += f" JOIN S{i} {clause} AS s{i} ON s{i - 1}.{left} = s{i}.k"
    columns = ", ".join(f"s{i}.{shown} AS c{i}" for i in range(streams))
    return f"SELECT {columns} FROM {text}"


def cascade(streams: int, size: int, left: str, shown: str) -> list[str]:
    """The same join over time windows as a cascade of two-way joins; the last is the result.

    An intermediate result is live until the first of its members expires, so its time is that of
    its oldest member; its youngest must still be in reach of the new stream's tuple.
    """
    clause, link, steps = f"[RANGE {size} WATTR t]", left, []
    known, before, reach = f"a.{shown} AS c0", f"S0 {clause} AS a", ""
    low, high = "a.t", "a.t"
    for i in range(1, streams):
        on = f"a.{link} = b.k{reach}"
        columns = f"{known}, b.{shown} AS c{i}"
        if i < streams - 1:
            columns += (
                f", CASE WHEN b.t < {low} THEN b.t ELSE {low} END AS low"
                f", CASE WHEN b.t > {high} THEN b.t ELSE {high} END AS high, b.{left} AS link"
            )
        text = f"SELECT {columns} FROM {before} JOIN S{i} {clause} AS b ON {on}"
        steps.append(text if i == streams - 1 else f"CREATE STREAM J{i} AS {text}")
        known = ", ".join(f"a.c{j} AS c{j}" for j in range(i + 1))
        before = f"J{i} [RANGE {size} WATTR low SLACK {size}] AS a"
        low, high, link, reach = "a.low", "a.high", "link", f" AND a.high < b.t + {size}"
    return steps


# -- the rows of a small input ---------------------------------------------------------------


def plain_rows(merged: Merged, window: int, left: str) -> list[tuple[int, ...]]:
    """The rows of a chain with count windows, in order, by trying the tuples of every window."""
    tuples = [iter(batch.to_pylist()) for batch in merged.batches]
    windows: list[deque[dict[str, int]]] = [deque(maxlen=window) for _ in tuples]
    rows: list[tuple[int, ...]] = []

    def extend(members: list[dict[str, int]], origin: int, new: dict[str, int]) -> None:
        at = len(members)
        if at == len(windows):
            rows.append(tuple(one["t"] for one in members))
            return
        for one in [new] if at == origin else windows[at]:
            if not members or members[-1][left] == one["k"]:
                extend([*members, one], origin, new)

    for origin in merged.which.tolist():
        new = next(tuples[origin])
        extend([], origin, new)
        windows[origin].append(new)
    return rows


def check(streams: int, left: str, window: int = 24, count: int = 3_000) -> int:
    """The number of rows of a small input; an error if the plain search has others."""
    merged = Arrivals(streams, window).take(count)
    expected = plain_rows(merged, window, left)
    for kernel in (None, "nested-loop"):
        with ps.connect("local", buffer_rows=PLENTY, batch_rows=count // 3) as engine:
            engine.sql(ddl(streams))
            query = engine.install(joined(streams, f"[ROWS {window}]", left), kernel=kernel)
            engine.feed([merged])
            found = [tuple(row.values()) for row in query.rows().to_pylist()]
        assert found == expected, f"{streams}-way, {left} = k, {kernel}: other rows than expected"
    return len(expected)


# -- figures ---------------------------------------------------------------------------------


class Clocks:
    """The time on the clock and of the processor of each measured part."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def measure(self, engine: Any, query: Any, merged: Merged) -> int:
        """Feed a batch and drain its rows; returns their number."""
        return self.measure_all(engine, query, [merged])

    def measure_all(self, engine: Any, query: Any, batches: Sequence[Merged]) -> int:
        """The same for several batches, one after the other, as one part."""
        processor, wall, rows = time.process_time(), time.perf_counter(), 0
        for merged in batches:
            engine.feed([merged])
            rows += int(query.rows().num_rows)
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)
        return rows

    def rates(self, count: int) -> dict[str, float]:
        """Tuples per second of parts of ``count`` tuples: medians, and the best."""
        return {
            "tuples_per_second": count / statistics.median(self.wall),
            "best": count / min(self.wall),
            "by_processor_time": count / statistics.median(self.processor),
        }


def chain(load: Workload, rounds: int) -> dict[str, Any]:
    """Tuples per second through the engine, with full windows."""
    source = Arrivals(load.streams, load.values)
    clocks, rows = Clocks(), 0
    with ps.connect("local", buffer_rows=PLENTY) as engine:
        engine.sql(ddl(load.streams))
        text = joined(load.streams, f"[ROWS {load.window}]", "v")
        query = engine.install(text, kernel=load.kernel)
        Clocks().measure(engine, query, source.take(3 * load.streams * load.window // 2))
        Clocks().measure(engine, query, source.take(load.batch // 4))
        for _ in range(rounds):
            rows += clocks.measure(engine, query, source.take(load.batch))
        metrics = query.metrics()
    return {
        "streams": load.streams,
        "match_probability": load.mp,
        "window": load.window,
        "batch": load.batch,
        "probes_per_arrival": load.probes,
        "rows_per_arrival": rows / (rounds * load.batch),
        "kernels": metrics["kernels"],
        "window_bytes": metrics["window_bytes"],
        **clocks.rates(load.batch),
    }


@contextmanager
def with_design(name: str, cores: int) -> Iterator[None]:
    """Joins of three and more streams that are installed meanwhile have this design."""
    flow = Flow("three-step", cores, 2, "inner", 1, "wait")
    search = DESIGNS.get(name, lambda flow: None)
    before = KINDS["multiway"]
    KINDS["multiway"] = lambda number: MultiwayBlock(number, lambda _: search(flow))
    try:
        yield
    finally:
        KINDS["multiway"] = before


def two_threads(count: int = 400_000) -> float:
    """How much faster two threads are than one at work that needs no interpreter: 2 if free."""
    numbers = np.arange(count)

    def work() -> None:
        out = np.empty(count, np.int64)
        for _ in range(12):
            count_below(numbers, numbers, out)

    work()
    start = time.perf_counter()
    work()
    work()
    alone = time.perf_counter() - start
    other = threading.Thread(target=work)
    start = time.perf_counter()
    other.start()
    work()
    other.join()
    return alone / (time.perf_counter() - start)


def beside_mjoin(load: Workload, rounds: int, turn: int) -> dict[str, Any]:
    """Designs by turns on the same input, with full windows; an error if their rows differ.

    ``two_threads`` tells how much of the machine was free, before every round: the ratio of a
    design with two cores means nothing where it is far below 2.
    """
    source = Arrivals(load.streams, load.values)
    text = joined(load.streams, f"[ROWS {load.window}]", "v")
    with ExitStack() as open_engines:
        runs = []
        for name, cores in CONTENDERS:
            engine = open_engines.enter_context(ps.connect("local", buffer_rows=PLENTY))
            engine.sql(ddl(load.streams))
            with with_design(name, cores):
                runs.append((engine, engine.install(text, kernel=load.kernel), Clocks()))
        full = source.take(3 * load.streams * load.window // 2), source.take(load.batch)
        for engine, query, _ in runs:
            Clocks().measure_all(engine, query, full)
        free, rows = [], [0] * len(runs)
        batches = max(1, turn // load.batch)
        for _ in range(rounds):
            free.append(two_threads())
            turns = [source.take(load.batch) for _ in range(batches)]
            for number, (engine, query, clocks) in enumerate(runs):
                rows[number] += clocks.measure_all(engine, query, turns)
    assert len(set(rows)) == 1, f"the designs have different numbers of rows: {rows}"
    alone = runs[0][2].wall
    return {
        **asdict(load),
        "two_threads": statistics.median(free),
        "rows_per_arrival": rows[0] / (rounds * batches * load.batch),
        "designs": [
            {
                "design": name,
                "cores": cores,
                "ratio": statistics.median(a / b for a, b in zip(alone, clocks.wall, strict=True)),
                **clocks.rates(batches * load.batch),
            }
            for (name, cores), (_, _, clocks) in zip(CONTENDERS, runs, strict=True)
        ],
    }


@contextmanager
def timed_punctuations() -> Iterator[list[float]]:
    """Collect the processor's seconds that joins spend on the punctuations of their output."""
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            start = time.process_time()
            made = function(*given)
            seconds.append(time.process_time() - start)
            return made

        return call

    before = OutputPunctuations.controls, OutputPunctuations.after_tuples
    changed: Any = OutputPunctuations
    changed.controls, changed.after_tuples = map(timed, before)
    try:
        yield seconds
    finally:
        changed.controls, changed.after_tuples = before


class TimedJoin:
    """A join over time windows in an engine of its own: one block, or a cascade."""

    def __init__(self, streams: int, texts: list[str]) -> None:
        self.engine = ps.connect("local", buffer_rows=PLENTY)
        self.engine.sql(ddl(streams))
        *derived, result = texts
        self.handles = [self.engine.sql(text) for text in derived]
        self.handles.append(self.engine.install(result))
        self.clocks = Clocks()
        self.rows = 0

    @property
    def state_bytes(self) -> int:
        """The memory of all windows."""
        return sum(int(handle.metrics()["window_bytes"]) for handle in self.handles)

    def measure(self, merged: Merged) -> None:
        """Feed a batch and drain its rows."""
        self.rows += self.clocks.measure(self.engine, self.handles[-1], merged)

    def punctuation_share(self, merged: Merged) -> float:
        """The share of the processor's time that punctuations take, of one more batch."""
        clocks = Clocks()
        with timed_punctuations() as seconds:
            clocks.measure(self.engine, self.handles[-1], merged)
        return sum(seconds) / clocks.processor[0]

    def figures(self, merged: Merged) -> dict[str, float]:
        """Rates, the memory of the windows, and the rate of all work but punctuations."""
        rates, share = self.clocks.rates(len(merged)), self.punctuation_share(merged)
        return {
            **rates,
            "punctuation_share": share,
            "without_punctuations": rates["by_processor_time"] / (1 - share),
            "state_bytes": self.state_bytes,
        }


@dataclass(frozen=True)
class Timed:
    """A join over time windows, which hold ``window`` arrivals of all streams together.

    ``left`` of each stream equals the key of the next: ``v`` makes a chain, ``k`` a star. With
    ``per_tick`` 1 the clock moves at every arrival, and so does the punctuation of every time that
    a join puts out. A cascade must put out times, so it pays for that; one block need not. The
    share of it is measured, since it is no part of joining.
    """

    streams: int
    left: str
    window: int
    values: int
    per_tick: int

    @property
    def shown(self) -> str:
        """The column of each stream that rows have."""
        return "k" if self.left == "v" else "v"

    @property
    def size(self) -> int:
        """The size of the windows in ticks."""
        return self.window // self.per_tick


def beside_cascade(load: Timed, count: int, rounds: int) -> dict[str, Any]:
    """One block and a cascade, by turns on the same input; an error if their rows differ."""
    n, left, size = load.streams, load.left, load.size
    source = Arrivals(n, load.values, load.per_tick)
    one = TimedJoin(n, [joined(n, f"[RANGE {size} WATTR t]", left, load.shown)])
    steps = TimedJoin(n, cascade(n, size, left, load.shown))
    with one.engine, steps.engine:
        first = source.take(2 * load.window)
        found = [_sorted_rows(join, first) for join in (one, steps)]
        assert found[0] == found[1], f"{n}-way, {left} = k: the cascade has other rows"
        for _ in range(rounds):
            merged = source.take(count)
            for join in (one, steps):
                join.measure(merged)
        assert one.rows == steps.rows, f"{one.rows} rows, but {steps.rows} of the cascade"
        last = source.take(count)
        return {
            **asdict(load),
            "rows_checked": len(found[0]),
            "rows_per_arrival": one.rows / (rounds * count),
            "one": one.figures(last),
            "cascade": steps.figures(last),
        }


def _sorted_rows(join: TimedJoin, merged: Merged) -> list[tuple[int, ...]]:
    join.engine.feed([merged])
    return sorted(tuple(row.values()) for row in join.handles[-1].rows().to_pylist())


def single_pushes(load: Workload, pushes: int) -> dict[str, Any]:
    """Microseconds of a push of one tuple as a list of one dict, with full windows."""
    source = Arrivals(load.streams, load.values)
    with ps.connect("local", buffer_rows=PLENTY) as engine:
        engine.sql(ddl(load.streams))
        query = engine.install(joined(load.streams, f"[ROWS {load.window}]", "v"))
        Clocks().measure(engine, query, source.take(3 * load.streams * load.window // 2))
        # Single-tuple pushes may have functions of their own, which are compiled after a while.
        _timed_pushes(engine, source.take(1_000 * load.streams))
        seconds = _timed_pushes(engine, source.take(pushes))
    half, most = np.percentile(seconds, [50, 99]) * 1e6
    return {
        "streams": load.streams,
        "window": load.window,
        "pushes": pushes,
        "p50_us": float(half),
        "p99_us": float(most),
    }


def _timed_pushes(engine: Any, merged: Merged) -> npt.NDArray[np.float64]:
    given = list(_in_order(merged))
    seconds = np.empty(len(given))
    push, clock = engine.push, time.perf_counter
    for number, (name, row) in enumerate(given):
        start = clock()
        push(name, row)
        seconds[number] = clock() - start
    return seconds


def _in_order(merged: Merged) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    rows = [iter(batch.to_pylist()) for batch in merged.batches]
    for stream in merged.which.tolist():
        yield merged.streams[stream], [next(rows[stream])]


def revised_orders(window: int, batch: int, rounds: int) -> dict[str, Any]:
    """A star whose least selective join is first in FROM, with its probe orders revised or not."""
    values = (window // 50, window // 4, window * 20)
    ons = (f" JOIN S{i} [ROWS {window}] AS s{i} ON s0.c{i} = s{i}.c{i}" for i in (1, 2, 3))
    text = f"SELECT s0.t FROM S0 [ROWS {window}] AS s0{''.join(ons)}"
    columns = "t BIGINT, c1 BIGINT, c2 BIGINT, c3 BIGINT"
    rates, rows = {}, {}
    for name, first in (("as_in_from", 1 << 62), ("revised", TUNING.first_order_revision)):
        rng, clocks = np.random.default_rng(5), Clocks()
        with (
            tuning.given(first_order_revision=first),
            ps.connect("local", buffer_rows=PLENTY) as engine,
        ):
            engine.sql("; ".join(f"CREATE STREAM {s} ({columns})" for s in names(4)))
            query = engine.install(text)
            count = 0
            for number in range(rounds + 1):
                which = rng.integers(0, 4, batch).astype(np.int8)
                batches = []
                for mine in (np.flatnonzero(which == i) for i in range(4)):
                    drawn = {
                        f"c{i + 1}": rng.integers(0, v, len(mine)) for i, v in enumerate(values)
                    }
                    batches.append(pa.RecordBatch.from_pydict({"t": mine, **drawn}))
                merged = Merged(names(4), tuple(batches), which)
                count += (clocks if number else Clocks()).measure(engine, query, merged)
        rates[name], rows[name] = clocks.rates(batch)["tuples_per_second"], count
    assert rows["revised"] == rows["as_in_from"], f"revised orders give other rows: {rows}"
    return {
        "window": window,
        "batch": batch,
        "rows": rows["revised"],
        "tuples_per_second": rates,
        "times": rates["revised"] / rates["as_in_from"],
    }


def run(quick: bool = False) -> dict[str, Any]:
    """All figures."""
    effort = QUICK if quick else WHOLE
    chains = [effort.scaled(load) for load in CHAINS]
    tick = 1_024 // effort.smaller
    three = [
        Timed(3, "v", 48 * 1_024 // effort.smaller, round(times * chains[0].values), per_tick)
        for times in (1, 0.1)
        for per_tick in (1, tick)
    ]
    # About a thousand arrivals a second, and each key once a minute in each stream.
    star = [Timed(10, "k", 60 * tick, 6 * tick, per_tick) for per_tick in (1, tick)]
    return {
        "rows_checked": {
            f"{n}-way, {left} = k": check(n, left) for n in (3, 4, 6) for left in ("v", "k")
        },
        "chains": [chain(load, effort.rounds) for load in chains],
        "beside_mjoin": [
            beside_mjoin(effort.scaled(load), effort.rounds, effort.turn) for load in BESIDE
        ],
        "beside_cascade": [beside_cascade(load, effort.timed, effort.rounds) for load in three],
        "star": [beside_cascade(load, effort.star, effort.rounds) for load in star],
        "orders": revised_orders(1_000, effort.timed // 4, effort.rounds),
        "single_pushes": [
            single_pushes(replace(chains[0], streams=n), effort.single_pushes) for n in (2, 3)
        ],
    }
