"""Designs of a join of three streams: ``python -m bench multiway_designs [--quick]``.

As Najafi 2019 Fig. 6.5.12b and c: a chain with count windows and the nested loop, for which the
stash was made; every stream has the same share of the arrivals, or the one without a part in the
stash has most; and once with a hash index. Designs take turns on the same input, and must have as
many rows as ``mjoin``.

``auto`` is put beside every design on the workloads of multiway joins: what it chooses must cost
hardly more than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import penstock as ps
from bench.multiway import PLENTY, Arrivals, Clocks, ddl, joined
from penstock.blocks.multiway.block import MultiwayBlock
from penstock.blocks.multiway.combination_search import CombinationSearch
from penstock.flows import make
from penstock.flows.circular.circular import circular
from penstock.flows.multi_flow import MultiFlow
from penstock.flows.network.threads import Threads
from penstock.flows.stashed.stashed import published_stash, stashed, stashed_units
from penstock.program.choose.stash import DEFAULT_SIZE, StashPlan, stash_plan

MakeSearch = Callable[[], CombinationSearch]


@dataclass(frozen=True)
class DesignLoad:
    """A chain of three.

    ``third`` is the share of the arrivals that the last stream has; ``room`` the size of the stash,
    None: as planned.
    """

    mp: float
    third: float = 1 / 3
    window: int = 1 << 14
    batch: int = 1 << 15
    kernel: str = "nested-loop"
    room: int | None = None

    @property
    def plan(self) -> StashPlan:
        """What is planned with these estimates; no condition links the ends of the chain."""
        rest = (1 - self.third) / 2
        match = {frozenset((0, 1)): self.mp, frozenset((1, 2)): self.mp, frozenset((0, 2)): 1.0}
        return stash_plan([self.window] * 3, [rest, rest, self.third], match)


class ShiftedArrivals(Arrivals):
    """Arrivals of which the last stream has a share of its own."""

    def __init__(self, load: DesignLoad) -> None:
        super().__init__(3, round(1 / load.mp))
        rest = (1 - load.third) / 2
        self._shares = (rest, rest, load.third)

    def origins(self, count: int) -> Any:
        """The streams of the next arrivals."""
        return self._rng.choice(3, count, p=self._shares).astype(np.int8)


def searches(load: DesignLoad) -> dict[str, MakeSearch | None]:
    """What makes each design; ``mjoin`` is the block's own.

    Where no stash pays, there is one all the same, to see what it costs.
    """
    size = load.room or load.plan.size or DEFAULT_SIZE
    # The last stream is S3, and S1 is the one that a condition links with it.
    disabled, enabled = (StashPlan(1, 0, 2, room, "measured") for room in (None, size))
    return {
        "mjoin": None,
        "circular": lambda: circular(Threads),
        "stash disabled": lambda: stashed(Threads, disabled),
        "stashed": lambda: stashed(Threads, enabled),
        "stashed as published": lambda: MultiFlow(
            stashed_units(enabled, make_stash=published_stash), Threads
        ),
    }


@contextmanager
def using(search: MakeSearch | None) -> Iterator[None]:
    """Joins that are installed meanwhile have this design."""
    before = make.KINDS["multiway"]
    if search is not None:
        make.KINDS["multiway"] = lambda number: MultiwayBlock(number, lambda flow: search())
    try:
        yield
    finally:
        make.KINDS["multiway"] = before


def beside_each_other(load: DesignLoad, rounds: int) -> dict[str, Any]:
    """Tuples per second and comparisons of an arrival, of every design, with full windows."""
    source, found = ShiftedArrivals(load), searches(load)
    engines, queries = {}, {}
    for name, search in found.items():
        engine = engines[name] = ps.connect("local", buffer_rows=PLENTY)
        engine.sql(ddl(3))
        with using(search):
            queries[name] = engine.install(
                joined(3, f"[ROWS {load.window}]", "v"), kernel=load.kernel
            )
    clocks = {name: Clocks() for name in found}
    rows = dict.fromkeys(found, 0)
    rest = (1 - load.third) / 2
    warm_up = source.take(int(1.5 * load.window / min(rest, load.third)))
    for name, engine in engines.items():
        Clocks().measure(engine, queries[name], warm_up)
    before = {name: query.metrics()["comparisons"] for name, query in queries.items()}
    for _ in range(rounds):
        merged = source.take(load.batch)
        for name, engine in engines.items():
            rows[name] += clocks[name].measure(engine, queries[name], merged)
    assert len(set(rows.values())) == 1, f"the designs have {rows} rows"
    figures = {}
    for name, query in queries.items():
        metrics = query.metrics()
        compared = metrics["comparisons"] - before[name]
        stash = [s for core in metrics["cores"] for s in core.get("stash", ())]
        figures[name] = {
            **clocks[name].rates(load.batch),
            "comparisons_per_arrival": compared / (rounds * load.batch),
            "stash": stash[0] if stash else None,
        }
        engines[name].close()
    return {
        "match_probability": load.mp,
        "share_of_the_third": load.third,
        "window": load.window,
        "kernel": load.kernel,
        "plan": load.plan.why,
        "rows_per_arrival": rows["mjoin"] / (rounds * load.batch),
        "designs": figures,
    }


# -- auto beside every design ------------------------------------------------------------------


@dataclass(frozen=True)
class AutoLoad:
    """A join for every design: count windows of ``window`` tuples, or a time window for all.

    ``left`` of each stream equals the key of the next: ``v`` makes a chain, ``k`` a star. A time
    window holds ``window`` arrivals of all streams together. ``third`` is the share of the last of
    three streams.
    """

    name: str
    streams: int
    values: int
    window: int = 1 << 14
    batch: int = 1 << 17
    kernel: str | None = None
    left: str = "v"
    timed: bool = False
    third: float | None = None

    def scaled(self, smaller: int) -> AutoLoad:
        """The same with as many partners, and smaller windows."""
        divided = {n: max(1, getattr(self, n) // smaller) for n in ("values", "window", "batch")}
        return replace(self, **divided)

    @property
    def text(self) -> str:
        """The query."""
        clause = f"[RANGE {self.window} WATTR t]" if self.timed else f"[ROWS {self.window}]"
        return joined(self.streams, clause, self.left, "k" if self.left == "v" else "v")

    @property
    def source(self) -> Arrivals:
        """Its input."""
        if self.third is None:
            return Arrivals(self.streams, self.values)
        return ShiftedArrivals(DesignLoad(1 / self.values, self.third))


AUTO_LOADS = (
    AutoLoad("3-way, mp 0.001 %", 3, 100_000, batch=1 << 18),
    AutoLoad("6-way, mp 0.0001 %", 6, 1_000_000, batch=1 << 18),
    AutoLoad("6-way, mp 0.001 %", 6, 100_000, batch=1 << 18),
    AutoLoad("6-way, mp 0.01 %", 6, 10_000),
    AutoLoad("3-way, mp 0.001 %, batches of 2^12", 3, 100_000, batch=1 << 12),
    AutoLoad("3-way, nested loop, mp 0.001 %", 3, 100_000, batch=1 << 15, kernel="nested-loop"),
    AutoLoad(
        "the same, 80 % of the last stream", 3, 100_000, batch=1 << 15, kernel="nested-loop",
        third=0.8,
    ),
    AutoLoad("3-way, time windows, mp 0.001 %", 3, 100_000, 3 << 14, timed=True),
    AutoLoad("10-way star, time windows", 10, 6 << 10, 60 << 10, batch=1 << 16, left="k",
             timed=True),
)  # fmt: skip
"""The workloads of the table of multiway joins."""


def contenders(load: AutoLoad) -> list[tuple[str, int]]:
    """Designs and the cores that are asked for; 0: those that the design has."""
    pipelines = ["circular", "linear"] if load.streams < 10 else []
    pipelines += ["stashed"] if load.streams == 3 else []
    one = [("auto", 1), ("mjoin", 1), ("cascade", 1)]
    return [*one, ("auto", 2), ("shared", 2), ("parallel", 2), *((name, 0) for name in pipelines)]


def auto_beside(load: AutoLoad, rounds: int, turn: int = 1 << 16) -> dict[str, Any]:
    """Every design by turns on the same input, each as ``design=`` asks for it.

    ``by_processor_time`` and ``by_clock`` are what an arrival costs, as a multiple of the best
    design. By the clock, those on one core are compared with each other, and the rest with all.
    """
    source, runs = load.source, []
    with ExitStack() as opened:
        for design, cores in contenders(load):
            engine = opened.enter_context(ps.connect("local", buffer_rows=PLENTY))
            engine.sql(ddl(load.streams))
            asked: dict[str, Any] = {"design": design, "cores": cores or None}
            query = engine.install(load.text, kernel=load.kernel, **asked)
            runs.append((design, cores, engine, query, Clocks(), [0]))
        # The windows are full, and samples have been taken, before the first turn.
        share = (1 - (load.third or 1 / 3)) / 2 if load.streams == 3 else 1 / load.streams
        full = load.window if load.timed else int(load.window / share)
        warm_up = [source.take(2 * full), *(source.take(load.batch) for _ in range(2))]
        for _, _, engine, query, _, _ in runs:
            Clocks().measure_all(engine, query, warm_up)
        batches = max(1, turn // load.batch)
        for _ in range(rounds):
            turns = [source.take(load.batch) for _ in range(batches)]
            for _, _, engine, query, clocks, rows in runs:
                rows[0] += clocks.measure_all(engine, query, turns)
        chosen = [
            next(line for line in str(query.explain()).splitlines()[::-1] if "design " in line[:7])
            for design, _, _, query, _, _ in runs
            if design == "auto"
        ]
    found = {f"{design} on {cores}": rows[0] for design, cores, _, _, _, rows in runs}
    assert len(set(found.values())) == 1, f"the designs have different numbers of rows: {found}"
    # Other programs make a turn longer, and never shorter: the shortest tells most.
    costs = [{"processor": min(c.processor), "wall": min(c.wall)} for _, _, _, _, c, _ in runs]
    least, shortest = (min(cost[name] for cost in costs) for name in ("processor", "wall"))
    shortest_alone = min(cost["wall"] for cost, run in zip(costs, runs, strict=True) if run[1] == 1)
    count = batches * load.batch
    return {
        "workload": load.name,
        "rows_per_arrival": runs[0][-1][0] / (rounds * count),
        "chosen": chosen,
        "designs": [
            {
                "design": design,
                "cores": cores,
                "by_processor_time": cost["processor"] / least,
                "by_clock": cost["wall"] / (shortest_alone if cores == 1 else shortest),
                "tuples_per_second": count / cost["wall"],
                "tuples_per_processor_second": count / cost["processor"],
            }
            for cost, (design, cores, *_) in zip(costs, runs, strict=True)
        ],
    }


def run(quick: bool = False) -> dict[str, Any]:
    """All figures."""
    smaller, rounds = (64, 1) if quick else (1, 3)
    auto = [
        auto_beside(
            load.scaled(smaller) if quick else load, 1 if quick else 4, 1 if quick else 1 << 16
        )
        for load in AUTO_LOADS
    ]
    loads = [DesignLoad(mp, third) for third in (1 / 3, 0.8) for mp in (1e-6, 1e-5, 1e-4)]
    # Fewer slots than there are pairs: what recomputation is for.
    loads += [DesignLoad(1e-5, 0.8, room=room) for room in (2560, 2048, 1024)]
    loads.append(DesignLoad(1e-5, 0.8, batch=1 << 18, kernel="hash"))
    scaled = [
        replace(
            load,
            mp=load.mp * smaller,
            window=load.window // smaller,
            batch=load.batch // smaller,
            room=load.room and load.room // smaller,
        )
        for load in loads
    ]
    return {"auto": auto, "designs": [beside_each_other(load, rounds) for load in scaled]}
