"""The choice between ``mjoin`` and a cascade, by what an arrival costs with either.

The unit is a comparison of the nested loop. A probe of an index costs :data:`PROBE` of them,
whatever the size; a combination that a cascade stores costs :data:`STORE`, and each of its steps
:data:`STEP` in every batch. These were fitted to ``python -m bench multiway_designs``.

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
    EQUALITY,
    NOTHING,
    JoinTerms,
    ProbeOrder,
    ProbeStage,
    probe_order,
    staged,
)
from penstock.streams.windows import Rows

PROBE = 1_500
STORE = 2_000
STEP = 10_000_000
GAIN = 0.9
"""A cascade is chosen if it costs less than this share of ``mjoin``, and given up if it does not
cost less than ``mjoin``."""
MOST_COMBINATIONS = 1 << 22
"""Combinations that a cascade which was not asked for may store."""
ASSUMED_WINDOW = 1 << 14
"""Tuples that a window without a known number of them is taken to hold."""
ASSUMED_MATCH = 0.1
"""The match probability of a condition that is no equality, if it is not known."""
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
    """

    windows: Sequence[float]
    shares: Sequence[float]
    rate: Callable[[ProbeStage], float]
    indexed: Callable[[ProbeStage], bool]
    batch: float = ASSUMED_BATCH

    def probe(self, stage: ProbeStage, entries: float) -> float:
        """The cost of a probe among so many entries."""
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
    return total + last * STEP / estimates.batch, sum(live[1:-1])


@dataclass(frozen=True)
class DesignChoice:
    """A design for one core, and why."""

    design: str
    why: str


def choose_design(
    estimates: JoinEstimates,
    orders: Sequence[ProbeOrder],
    path: ProbeOrder,
    known: str,
    now: str = "mjoin",
) -> DesignChoice:
    """``mjoin`` or ``cascade``, whichever costs less; ``known`` says how the match rates are known.

    ``now`` is the design in use.
    """
    one, (cascade, stored) = mjoin_cost(estimates, orders), cascade_cost(estimates, path)
    told = (
        f"an arrival costs {one:,.0f} comparisons, with a cascade {cascade:,.0f} and "
        f"{stored:,.0f} combinations stored ({known})"
    )
    if stored > MOST_COMBINATIONS:
        return DesignChoice("mjoin", told)
    gain = 1.0 if now == "cascade" else GAIN
    return DesignChoice("cascade" if cascade < gain * one else "mjoin", told)


def assumed(terms: JoinTerms) -> JoinEstimates:
    """What is taken for granted before a join runs."""
    join = terms.join
    sizes = [w.size if isinstance(w, Rows) else ASSUMED_WINDOW for w in join.windows]

    def rate(stage: ProbeStage) -> float:
        return assumed_rate(stage, sizes)

    def indexed(stage: ProbeStage) -> bool:
        return join.kernel != "nested-loop" and stage.link != NOTHING

    streams = len(join.inputs)
    return JoinEstimates(sizes, [1 / streams] * streams, rate, indexed)


def assumed_rate(stage: ProbeStage, sizes: Sequence[float]) -> float:
    """The partners of a combination at a stage: one in the larger window for an equality."""
    here = sizes[stage.input]
    if stage.link == EQUALITY:
        return here / max(1, here, *(sizes[number] for number in stage.bound))
    return here if stage.link == NOTHING else ASSUMED_MATCH * here


ASSUMPTIONS = (
    "assumed: equal shares of arrivals, 1 partner in the larger window by an equality, "
    f"{ASSUMED_MATCH:g} of a window by another condition, {ASSUMED_WINDOW:,} tuples in a window "
    "that is no count window"
)


def assumed_design(terms: JoinTerms, cores: int) -> DesignChoice:
    """The design of a join of which the program alone is known, on this number of cores."""
    estimates = assumed(terms)
    orders = [probe_order(terms.join, terms, origin) for origin in range(len(terms.join.inputs))]
    path = cascade_path(terms)
    if cores == 1:
        return choose_design(estimates, orders, path, ASSUMPTIONS)
    one, (cascade, stored) = mjoin_cost(estimates, orders), cascade_cost(estimates, path)
    each = one / (THREADS_GAIN * cores)
    told = (
        f"{cores} cores are asked for, and with it they share the windows: an arrival costs "
        f"{one:,.0f} comparisons, {each:,.0f} in the time of one core; with a cascade on one core "
        f"{cascade:,.0f} ({ASSUMPTIONS})"
    )
    found = "cascade" if cascade < GAIN * each and stored <= MOST_COMBINATIONS else "shared"
    return DesignChoice(found, told)


def cascade_path(terms: JoinTerms) -> ProbeOrder:
    """The order of a cascade, as the stages of an arrival of its first input."""
    first, *rest = cascade_order(terms)
    return staged(terms, first, tuple(rest))
