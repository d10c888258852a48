"""The choice between ``mjoin`` or ``shared`` and a cascade, by what an arrival costs with each.

The unit is a comparison of the nested loop. A probe of an index costs :data:`PROBE` of them,
whatever the size; a combination that a cascade stores costs :data:`STORE`, and each of its steps
:data:`STEP` in every batch; with time windows an arrival costs it :data:`TIMED` more, since the
expiry of every tuple is computed ahead. These were set by hand from short
runs of both on chains of three and six streams; ``python -m bench multiway_designs`` shows how well
they choose.

``mjoin`` probes one window after the other, once for each intermediate result. In a cascade an
arrival of the k-th input probes the combinations of the inputs before it, once, and what that makes
goes on through the windows after it; all but the last are stored. So a cascade saves the probes of
windows before the k-th, and pays for storing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.program.choose.cascade import cascade_order
from penstock.program.choose.probe_order import (
    ASSUMED_MATCH,
    ASSUMED_WINDOW,
    NOTHING,
    JoinTerms,
    ProbeOrder,
    ProbeStage,
    assumed_rate,
    assumed_sizes,
    probe_order,
    staged,
)
from penstock.streams.windows import Range, Rows

PROBE = 1_500
STORE = 2_000
STEP = 10_000_000
TIMED = 3_000
GAIN = 0.9
"""A cascade is chosen if it costs less than this share of ``mjoin``, and given up if it does not
cost less than ``mjoin``."""
MOST_COMBINATIONS = 1 << 22
"""Combinations that a cascade which was not asked for may store."""
ASSUMED_BATCH = 1 << 16
"""Arrivals in a batch, if that is not known."""
THREADS_GAIN = 0.85
"""What each core of the design shared does of the work of one core alone."""


@dataclass(frozen=True)
class JoinEstimates:
    """What is known of a join of three and more streams.

    Parameters
    ----------
    windows
        The tuples in each window.
    shares
        The share of arrivals that are of each input.
    rate
        How many partners a combination finds at a stage.
    indexed
        Whether a stage has an index.
    batch
        The arrivals in a batch.
    timed
        Whether it has time windows.
    """

    windows: Sequence[float]
    shares: Sequence[float]
    rate: Callable[[ProbeStage], float]
    indexed: Callable[[ProbeStage], bool]
    batch: float = ASSUMED_BATCH
    timed: bool = False

    def probe(self, stage: ProbeStage, entries: float) -> float:
        """The cost of a probe among a number of entries."""
        return min(entries, PROBE) if self.indexed(stage) else entries


def mjoin_cost(estimates: JoinEstimates, orders: Sequence[ProbeOrder]) -> float:
    """The cost of an arrival that probes one window after the other."""
    total = 0.0
    for order in orders:
        combinations = 1.0
        for stage in order.stages:
            probe = estimates.probe(stage, estimates.windows[stage.input])
            total += estimates.shares[order.origin] * combinations * probe
            combinations *= estimates.rate(stage)
    return total


def cascade_cost(estimates: JoinEstimates, path: ProbeOrder) -> tuple[float, float]:
    """The cost of an arrival in a cascade, and how many combinations it stores.

    ``path``: its order, as that of an arrival of its first input.
    """
    windows, shares = estimates.windows, estimates.shares
    rates = [estimates.rate(stage) for stage in path.stages]
    live = [windows[path.origin]]
    for rate in rates:
        live.append(live[-1] * rate)
    last = len(path.stages) - 1

    def onwards(combinations: float, first: int) -> float:
        """The cost of combinations that are to go through the stages from ``first`` on."""
        cost = 0.0
        for number in range(first, last + 1):
            # They are stored, unless they are rows.
            stage = path.stages[number]
            stored = STORE if number else 0.0
            cost += combinations * (stored + estimates.probe(stage, windows[stage.input]))
            combinations *= rates[number]
        return cost

    total = shares[path.origin] * onwards(1.0, 0)
    for number, stage in enumerate(path.stages):
        found = live[number + 1] / max(1.0, windows[stage.input])
        cost = estimates.probe(stage, live[number]) + onwards(found, number + 1)
        total += shares[stage.input] * cost
    total += last * STEP / estimates.batch + (TIMED if estimates.timed else 0)
    return total, sum(live[1:-1])


@dataclass(frozen=True)
class DesignChoice:
    """A design, and why."""

    design: str
    why: str


def choose_design(
    estimates: JoinEstimates,
    orders: Sequence[ProbeOrder],
    path: ProbeOrder,
    known: str,
    cores: int = 1,
    now: str | None = None,
) -> DesignChoice:
    """A cascade, or ``mjoin`` on one core and ``shared`` on several, whichever takes less time.

    ``known`` says how the match rates are known; ``now`` is the design in use.
    """
    one, (cascade, stored) = mjoin_cost(estimates, orders), cascade_cost(estimates, path)
    shared = f", {one / (THREADS_GAIN * cores):,.0f} on {cores} cores (shared)" * (cores > 1)
    told = (
        f"estimated cost of an arrival, in comparisons: {one:,.0f} (mjoin){shared}, "
        f"{cascade:,.0f} (cascade, which stores {stored:,.0f} combinations); {known}"
    )
    other = without_storing(cores)
    if cores > 1:
        one /= THREADS_GAIN * cores
    gain = 1.0 if now == "cascade" else GAIN
    pays = stored <= MOST_COMBINATIONS and cascade < gain * one
    return DesignChoice("cascade" if pays else other, told)


def without_storing(cores: int) -> str:
    """The design that stores no combinations, on this number of cores."""
    return "shared" if cores > 1 else "mjoin"


def assumed(terms: JoinTerms) -> JoinEstimates:
    """What is taken for granted before a join runs."""
    join = terms.join
    sizes = assumed_sizes(join.windows)

    def rate(stage: ProbeStage) -> float:
        return assumed_rate(stage, sizes)

    def indexed(stage: ProbeStage) -> bool:
        return join.kernel != "nested-loop" and stage.link != NOTHING

    streams = len(join.inputs)
    timed = any(isinstance(window, Range) for window in join.windows)
    return JoinEstimates(sizes, [1 / streams] * streams, rate, indexed, timed=timed)


ASSUMPTIONS = (
    "assumed: equal shares of arrivals, 1 partner in the larger window by an equality, "
    f"{ASSUMED_MATCH:g} of a window by another condition"
)
ASSUMED_SIZE = f", {ASSUMED_WINDOW:,} tuples in a window that is no count window"
"""What is assumed besides, unless all windows are count windows."""


def assumed_design(terms: JoinTerms, cores: int) -> DesignChoice:
    """The design of a join of which the program alone is known, on this number of cores."""
    estimates = assumed(terms)
    orders = [probe_order(terms.join, terms, origin) for origin in range(len(terms.join.inputs))]
    counted = all(isinstance(window, Rows) for window in terms.join.windows)
    known = ASSUMPTIONS if counted else f"{ASSUMPTIONS}{ASSUMED_SIZE}"
    return choose_design(estimates, orders, cascade_path(terms), known, cores)


def cascade_path(terms: JoinTerms) -> ProbeOrder:
    """The order of a cascade, as the stages of an arrival of its first input."""
    first, *rest = cascade_order(terms)
    return staged(terms, first, tuple(rest))
