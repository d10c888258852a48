"""The figures of Najafi 2019 ch. 6: ``python -m bench multiway_figures --figures docs/figures``.

Workloads, windows and match probabilities are those of the publication (:mod:`bench.multiway` says
what they are). A normal origin of tuples has a mean and a deviation in numbers of streams, from 1,
as in Fig. 6.5.4; what falls outside of them is drawn again. Windows are full of tuples of all
streams before anything is measured, unless a figure shows how they fill.

Rates have the processor's time beside the time on the clock, and threads of all stages count. Stage
buffers are measured with chunks of one arrival, as the circuit has them. What a figure shows of the
inside of a design comes from ``metrics()`` while it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import penstock as ps
from bench.multiway import PLENTY, Arrivals, Clocks, Workload, ddl, joined, with_design
from bench.multiway_designs import DesignLoad, ShiftedArrivals, beside_each_other, using
from penstock import tuning
from penstock.blocks.multiway.combination_search import SearchProgram
from penstock.flows.multi_flow import MultiFlow
from penstock.flows.network.threads import Threads
from penstock.flows.stashed.stash import Stash
from penstock.flows.stashed.stashed import published_stash, recomputing_stash, stashed_units
from penstock.flows.stashed.storage import Roles
from penstock.program.choose.stash import StashPlan
from penstock.streams.events import Merged

Figures = list[dict[str, Any]]


@dataclass(frozen=True)
class Size:
    """The amount of work; ``smaller`` divides windows and numbers of values alike."""

    smaller: int = 1
    rounds: int = 3
    batch: int = 1 << 14
    single: int = 300
    """Arrivals for which stage buffers are measured."""
    activity: int = 1 << 19
    """Arrivals for which a small stash is watched at most, until it has recovered once."""

    def scaled(self, streams: int, mp: float, kernel: str | None) -> Workload:
        """A workload with windows of 2^14, or with smaller ones and as many probes."""
        smaller = self.smaller
        # An index takes so little time that a small batch would measure the calls around it.
        batch = self.batch * (8 if kernel != "nested-loop" and mp < 5e-5 else 1) // smaller
        return Workload(streams, mp * smaller, (1 << 14) // smaller, batch, kernel)


WHOLE = Size()
QUICK = Size(smaller=128, rounds=1, single=20, activity=1 << 11)
MPS = (1e-6, 1e-5, 1e-4)
MANY_MPS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 2e-4)
STREAMS = (3, 4, 5, 6, 8)
MEANS = range(1, 7)


# -- input -----------------------------------------------------------------------------------


def normal_shares(streams: int, mean: float, deviation: float) -> list[float]:
    """The share of the arrivals that each stream has: the normal distribution within limits."""
    ends = [0.5 + i for i in range(streams + 1)]
    below = [0.5 * (1 + math.erf((end - mean) / deviation / math.sqrt(2))) for end in ends]
    parts = [high - low for low, high in pairwise(below)]
    return [part / sum(parts) for part in parts]


class ByShares(Arrivals):
    """Arrivals of which each stream has a share; ``shares`` may change meanwhile."""

    def __init__(self, streams: int, values: int) -> None:
        super().__init__(streams, values)
        self.shares = [1 / streams] * streams

    def origins(self, count: int) -> npt.NDArray[np.int8]:
        """The streams of the next arrivals."""
        return self._rng.choice(len(self.shares), count, p=self.shares).astype(np.int8)

    def of_one(self, stream: int, count: int) -> Merged:
        """Arrivals of one stream."""
        before = self.shares
        self.shares = [float(i == stream) for i in range(len(before))]
        try:
            return self.take(count)
        finally:
            self.shares = before


# -- a join with full windows ----------------------------------------------------------------


@dataclass
class Full:
    """A chain whose windows are full, in an engine of its own."""

    load: Workload
    engine: Any
    query: Any
    source: ByShares

    def rate(self, rounds: int) -> dict[str, float]:
        """Tuples per second of the next batches."""
        clocks = Clocks()
        for _ in range(rounds):
            clocks.measure(self.engine, self.query, self.source.take(self.load.batch))
        return clocks.rates(self.load.batch)

    def stage_buffers(self, arrivals: int) -> list[dict[str, float]]:
        """Intermediate results before each stage, with chunks of one arrival."""
        with tuning.given(ranks_per_set=1):
            # Another column makes another network, whose figures begin anew.
            for shown in ("k", "v"):
                text = joined(self.load.streams, f"[ROWS {self.load.window}]", "v", shown)
                self.engine.change("q", text)
            Clocks().measure(self.engine, self.query, self.source.take(arrivals))
        return [core["stage_buffer"] for core in self.query.metrics()["cores"]]


@contextmanager
def full(load: Workload, design: str, cores: int = 1) -> Iterator[Full]:
    """A chain with full windows.

    Streams that no condition links fill theirs first, which costs no comparisons.
    """
    source = ByShares(load.streams, load.values)
    with ps.connect("local", buffer_rows=PLENTY) as engine, with_design(design, cores):
        engine.sql(ddl(load.streams))
        text = joined(load.streams, f"[ROWS {load.window}]", "v")
        query = engine.install(text, name="q", kernel=load.kernel)
        for stream in (*range(0, load.streams, 2), *range(1, load.streams, 2)):
            Clocks().measure(engine, query, source.of_one(stream, load.window))
        # Compiles what is not compiled yet.
        Clocks().measure(engine, query, source.take(min(load.batch, 1 << 10)))
        yield Full(load, engine, query, source)


# -- Circular-MJ -----------------------------------------------------------------------------


def by_streams(size: Size, design: str, kernel: str | None, mps: Sequence[float]) -> Figures:
    """Fig. 6.2.4 and, with a hash index, 6.5.8: throughput by the number of streams."""
    return [_rated(size, n, mp, design, kernel) for mp in mps for n in STREAMS]


def by_match_probability(size: Size, design: str, kernel: str | None) -> Figures:
    """Fig. 6.2.5: throughput of six streams by match probability."""
    return [_rated(size, 6, mp, design, kernel) for mp in MANY_MPS]


def _rated(
    size: Size, streams: int, mp: float, design: str, kernel: str | None, cores: int = 1
) -> dict[str, Any]:
    load = size.scaled(streams, mp, kernel)
    with full(load, design, cores) as join:
        return {
            "streams": streams,
            "match_probability": mp,
            "design": design,
            "kernel": kernel or "auto",
            "cores": cores,
            **join.rate(size.rounds),
        }


def by_origin(size: Size) -> Figures:
    """Fig. 6.5.3, 6.5.6 and 6.5.7: rates and stage buffers by the origin of tuples, deviation 1."""
    found = []
    for mp in MPS:
        with full(size.scaled(6, mp, "nested-loop"), "circular") as join:
            for mean in (None, *MEANS):
                join.source.shares = [1 / 6] * 6 if mean is None else normal_shares(6, mean, 1)
                entry = {"match_probability": mp, "mean": mean, **join.rate(size.rounds)}
                found.append(entry)
            for entry in found[-7:]:
                mean = entry["mean"]
                join.source.shares = [1 / 6] * 6 if mean is None else normal_shares(6, mean, 1)
                entry["stage_buffers"] = join.stage_buffers(size.single)
    return found


def by_deviation(size: Size) -> Figures:
    """Fig. 6.5.5: rates by mean and deviation of the origin, match probability 0.01 %."""
    found = []
    with full(size.scaled(6, 1e-4, "nested-loop"), "circular") as join:
        for deviation in (1, 2, 3):
            for mean in MEANS:
                join.source.shares = normal_shares(6, mean, deviation)
                found.append({"mean": mean, "deviation": deviation, **join.rate(size.rounds)})
    return found


def origins() -> Figures:
    """Fig. 6.5.4: the shares of the streams."""
    return [
        {"mean": mean, "deviation": deviation, "shares": normal_shares(6, mean, deviation)}
        for mean, deviation in ((2, 1), (5, 2))
    ]


def stage_buffers(size: Size) -> Figures:
    """Fig. 6.5.1 (six streams) and 6.5.2 (three, 0.1 %): intermediate results that wait."""
    found = []
    for streams, mp in (*((6, mp) for mp in MANY_MPS[:-1]), (3, 1e-3)):
        with full(size.scaled(streams, mp, "nested-loop"), "circular") as join:
            buffers = join.stage_buffers(size.single)
            found.append({"streams": streams, "match_probability": mp, "stage_buffers": buffers})
    return found


# -- Stashed-MJ ------------------------------------------------------------------------------


class Watched:
    """A chain of three with a stash, from its first tuple on."""

    def __init__(self, load: DesignLoad, published: bool) -> None:
        self._load = load
        self.stash: Any = None
        make = published_stash if published else recomputing_stash

        def kept(program: SearchProgram, roles: Roles, size: int) -> Any:
            self.stash = make(program, roles, size)
            return self.stash

        plan = StashPlan(1, 0, 2, load.room or load.plan.size, "measured")
        units = stashed_units(plan, make_stash=kept)
        self._source = ShiftedArrivals(load)
        self.engine = ps.connect("local", buffer_rows=PLENTY)
        self.engine.sql(ddl(3))
        with using(lambda: MultiFlow(units, Threads)):
            text = joined(3, f"[ROWS {load.window}]", "v")
            self.query = self.engine.install(text, kernel=load.kernel)

    def run(self, arrivals: int, note: Callable[[int, Watched, Clocks], bool | None]) -> None:
        """Take arrivals batch by batch, and let each be noted; True: that is enough."""
        with self.engine:
            for start in range(0, arrivals, self._load.batch):
                clocks = Clocks()
                clocks.measure(self.engine, self.query, self._source.take(self._load.batch))
                if note(start + self._load.batch, self, clocks):
                    return

    @property
    def figures(self) -> dict[str, Any]:
        """The metrics of the stash."""
        found: dict[str, Any] = self.query.metrics()["cores"][0]["stash"][0]
        return found


def activity(size: Size) -> dict[str, Any]:
    """Fig. 6.5.9 and 6.3.1: how a small stash fills, is overwritten and recovers.

    Windows of 2^10, 2^5 slots, and 19 live pairs on average, as the text says. ``stored`` are the
    slots whose valid bit was set since the sample before; one that is overwritten keeps its bit.
    """
    window, slots, pairs = 1 << 10, 1 << 5, 19
    load = DesignLoad(pairs / window**2, window=window, batch=32, room=slots)
    samples: Figures = []
    before = np.zeros(slots, np.bool_)
    after, since = 64, 0  # samples after the recovery

    def note(arrivals: int, watched: Watched, _: Clocks) -> bool:
        nonlocal before, since
        assert isinstance(watched.stash, Stash)
        bits, figures = watched.stash.valid_bits, watched.figures
        samples.append(
            {
                "arrivals": arrivals,
                "fill": figures["fill"],
                "valid": figures["state"] == "valid",
                "stored": np.flatnonzero(bits & ~before).tolist(),
            }
        )
        before = bits.copy()
        since += figures["recoveries"] > 0
        return since > after

    Watched(load, published=True).run(size.activity, note)
    first = next((i for i, sample in enumerate(samples) if not sample["valid"]), len(samples) // 2)
    return {
        "window": window,
        "size": slots,
        "samples": samples[:: max(1, len(samples) // 64)],
        "around_the_first_overwrite": samples[max(0, first - 64) :],
    }


def utilization(size: Size) -> Figures:
    """Fig. 6.5.10: how the stash fills, windows of 2^15."""
    found = []
    window = (1 << 15) // size.smaller
    for mp in (1e-7, 3e-7, 1e-6):
        load = DesignLoad(
            mp * size.smaller, window=window, batch=window // 8, kernel="hash", room=1 << 12
        )
        samples: Figures = []

        def note(arrivals: int, watched: Watched, _: Clocks, into: Figures = samples) -> None:
            into.append({"arrivals": arrivals, "fill": watched.figures["fill"]})

        Watched(load, published=True).run(6 * window, note)
        found.append({"match_probability": mp, "window": window, "samples": samples})
    return found


def over_time(size: Size, mp: float, window: int, room: int, published: bool) -> dict[str, Any]:
    """Fig. 6.5.11 and 6.5.12a: throughput while the windows fill, and after that."""
    window //= size.smaller
    room = max(1, room // size.smaller)
    # As many partners of a tuple; so windows and stash are smaller by the same factor.
    load = DesignLoad(mp * size.smaller, window=window, batch=window // 4, room=room)
    samples: Figures = []

    def note(arrivals: int, watched: Watched, clocks: Clocks) -> None:
        found = watched.figures
        samples.append(
            {
                "arrivals": arrivals,
                "valid": found["state"] == "valid",
                "fill": found["fill"],
                **clocks.rates(load.batch),
            }
        )

    Watched(load, published).run(6 * window, note)
    return {
        "match_probability": mp,
        "window": window,
        "size": room,
        "stash": "as published" if published else "stashed",
        "samples": samples,
    }


def stash_by(size: Size, loads: Sequence[DesignLoad]) -> Figures:
    """Fig. 6.5.12b and c: every design by turns on the same input."""
    smaller = size.smaller
    return [
        beside_each_other(
            DesignLoad(
                load.mp * smaller, load.third, load.window // smaller, load.batch // smaller
            ),
            size.rounds,
        )
        | {"match_probability": load.mp}
        for load in loads
    ]


def run(quick: bool = False) -> dict[str, Any]:
    """All figures."""
    size = QUICK if quick else WHOLE
    return {
        "by_streams": [
            *by_streams(size, "circular", "nested-loop", MPS),
            *by_streams(size, "mjoin", None, MPS),
        ],
        "by_match_probability": [
            *by_match_probability(size, "circular", "nested-loop"),
            *by_match_probability(size, "mjoin", None),
        ],
        "hash": by_streams(size, "circular", "hash", MPS[:1]),
        "origins": origins(),
        "by_origin": by_origin(size),
        "by_deviation": by_deviation(size),
        "stage_buffers": stage_buffers(size),
        "stash_activity": activity(size),
        "stash_utilization": utilization(size),
        "stash_overwrite": [over_time(size, 1e-6, 1 << 15, 1 << 10, p) for p in (True, False)],
        "stash_size": [over_time(size, 1e-5, 1 << 14, 1 << power, True) for power in (12, 16)],
        "stash_share": stash_by(
            size, [DesignLoad(1e-5, share) for share in (0.1, 0.2, 1 / 3, 0.5, 0.65, 0.8, 0.9)]
        ),
        "stash_match_probability": stash_by(size, [DesignLoad(mp) for mp in MANY_MPS[:-1]]),
        "parallel": [
            _rated(size, 3, mp, "parallel", "nested-loop", cores)
            for cores in (1, 2, 4)
            for mp in MANY_MPS[:-1]
        ],
    }
