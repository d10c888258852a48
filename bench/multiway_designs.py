"""Designs of a join of three streams: ``python -m bench multiway_designs [--quick]``.

As Najafi 2019 Fig. 6.5.12b and c: a chain with count windows and the nested loop, for which the
stash was made; every stream has the same share of the arrivals, or the one without a part in the
stash has most; and once with a hash index. Designs take turns on the same input, and must have as
many rows as ``mjoin``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def run(quick: bool = False) -> dict[str, Any]:
    """All figures."""
    smaller, rounds = (64, 1) if quick else (1, 3)
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
    return {"designs": [beside_each_other(load, rounds) for load in scaled]}
