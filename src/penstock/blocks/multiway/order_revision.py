"""The revision of probe orders while a multiway join runs: a sample of arrivals tries the stages.

The order of the stages does not matter for what is found, only for how many intermediate results
there are on the way. So an order can be changed between two batches.

A sample of an origin's last arrivals goes through the windows as arrivals do, and at each stage it
tries every input that is left. That gives the *match rate* of each: how many partners a combination
finds there. The input with the smallest ``(match rate - 1) / cost of a probe`` comes next: the
order by rank that is the best one for a chain of independent filters (Ibaraki and Kameda 1984).
Match rates are measured given the members so far, so that correlated conditions are seen. An input
that no condition links comes after those that one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    WindowView,
)
from penstock.blocks.multiway.stretch_search import Path, StretchSearch
from penstock.blocks.window.keys import StoredKeys
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import (
    NOTHING,
    MatchRates,
    ProbeOrder,
    ProbeStage,
    explain_order,
    staged,
)
from penstock.tuning import TUNING

GAIN = 0.8
"""An order is changed if another one costs less than this share of it."""
COMPARISONS_PER_PROBE = 50
"""How many comparisons of a nested loop take as long as a probe of an index."""


@dataclass
class _Counts:
    """What an origin has done since its order was last looked at."""

    probed: int = 0
    intermediate: int = 0
    wait: int = field(default_factory=lambda: TUNING.first_order_revision)


class ProbePaths:
    """What the tuples of each origin go through, revised while a join runs."""

    def __init__(self, program: SearchProgram) -> None:
        self._program = program
        self._paths: dict[int, Path] = {}
        self._rates: dict[int, MatchRates] = {}
        self._revision = OrderRevision(len(program.sides))

    def of(self, origin: int) -> Path:
        """The stages of an origin."""
        found = self._paths.get(origin)
        if found is None:
            found = self._paths[origin] = self._staged(self._program.order(origin))
        return found

    def _staged(self, order: ProbeOrder) -> Path:
        return order, [self._program.stage(plan) for plan in order.stages]

    def searched_anew(self) -> None:
        """The searches count from 0 again."""
        self._revision = OrderRevision(len(self._program.sides))

    def revise(self, arrived: Arrived, searches: Sequence[StretchSearch]) -> bool:
        """Let samples of a batch, which is stored, find better orders; whether there are any."""
        if not self._program.revises_orders:
            return False
        origins = range(len(self._program.sides))
        probed = [sum(search.probed[o] for search in searches) for o in origins]
        intermediate = [sum(search.intermediate[o] for search in searches) for o in origins]
        changed = False
        for origin in self._revision.due(arrived, probed, intermediate):
            order, _ = self.of(origin)
            better, self._rates[origin] = Sample(self._program, arrived, order).best(order)
            if better != order:
                self._paths[origin] = self._staged(better)
                changed = True
        return changed

    @property
    def identities(self) -> set[tuple[Any, ...]]:
        """Those of all stages in use."""
        return {stage.identity for _, stages in self._paths.values() for stage in stages}

    def explained(self) -> list[str]:
        """The orders in use, with the match rates that a sample has measured."""
        orders = [
            self._paths[origin][0] if origin in self._paths else self._program.order(origin)
            for origin in range(len(self._program.sides))
        ]
        return [
            explain_order(self._program.terms.join, order, self._rates.get(order.origin))
            for order in orders
            if order.stages
        ]


class OrderRevision:
    """Decides for each origin when its order is looked at again, and what it becomes."""

    def __init__(self, inputs: int) -> None:
        self._counts = [_Counts() for _ in range(inputs)]

    def due(
        self, arrived: Arrived, probed: Sequence[int], intermediate: Sequence[int]
    ) -> list[int]:
        """The origins to look at before a batch is searched, given what each has done so far.

        Where arrivals have had few intermediate results, no order could save much.
        """
        found = []
        for origin, counts in enumerate(self._counts):
            before = probed[origin] - counts.probed
            here = len(arrived.ranks.tuples[origin])
            if before + here < counts.wait or here < TUNING.smallest_order_sample:
                continue
            if not before or intermediate[origin] - counts.intermediate > before:
                found.append(origin)
            counts.probed, counts.intermediate = probed[origin], intermediate[origin]
            counts.wait = min(2 * counts.wait, TUNING.last_order_revision)
        return found


class Sample:
    """A sample of an origin's arrivals, and what becomes of it stage by stage."""

    def __init__(self, program: SearchProgram, arrived: Arrived, order: ProbeOrder) -> None:
        self._program = program
        self._arrived = arrived
        self._origin = order.origin
        ranks = arrived.ranks.tuples[order.origin][-TUNING.order_sample :]
        stop = arrived.ranks.count
        start = int(ranks[0]) if len(ranks) else stop
        self._begun = program.begin(arrived, order, start, stop, Failures())
        self.taken = len(ranks)
        """Tuples that were taken; ``tuples`` of them pass what is asked of the stream alone."""
        self.tuples = len(self._begun)

    def best(self, order: ProbeOrder) -> tuple[ProbeOrder, MatchRates]:
        """The order that the sample suggests, or the given one; and its match rates."""
        rates, cost = self.along(order)
        other = self._by_rank(order)
        if other != order:
            its_rates, its_cost = self.along(other)
            if its_cost < GAIN * cost:
                return other, MatchRates(self.tuples, its_rates)
        return order, MatchRates(self.tuples, rates)

    def rate(self, plan: ProbeStage) -> float:
        """How many partners an arrival finds at a first stage."""
        return self._tried(self._begun, plan).rate if self.tuples else 0.0

    def _by_rank(self, order: ProbeOrder) -> ProbeOrder:
        """The order by rank; what no combination of the sample came to stays as it was."""
        rest = [stage.input for stage in order.stages]
        chosen: list[int] = []
        sample = self._begun
        while len(rest) > 1 and len(sample):
            bound = (self._origin, *chosen)
            plans = {input: self._plan(input, bound) for input in rest}
            linked = [input for input in rest if plans[input].link != NOTHING] or rest
            tried = {input: self._tried(sample, plans[input]) for input in linked}
            best = min(tried, key=lambda input: tried[input].rank)
            chosen.append(best)
            rest.remove(best)
            sample = tried[best].sample
        return staged(self._program.terms, self._origin, (*chosen, *rest))

    def along(self, order: ProbeOrder) -> tuple[tuple[float | None, ...], float]:
        """The match rates of an order's stages, and its cost for one arrival."""
        rates: list[float | None] = []
        cost, combinations, sample = 0.0, 1.0, self._begun
        for plan in order.stages:
            if not len(sample):
                rates.append(None)
                continue
            tried = self._tried(sample, plan)
            rates.append(tried.rate)
            cost += combinations * tried.cost
            combinations *= tried.rate
            sample = tried.sample
        return tuple(rates), cost

    def _plan(self, input: int, bound: tuple[int, ...]) -> ProbeStage:
        return ProbeStage(input, bound, *self._program.terms.of_stage(input, bound))

    def _tried(self, sample: Combinations, plan: ProbeStage) -> _TriedStage:
        """What becomes of a sample at a stage."""
        program, stage = self._program, self._program.stage(plan)
        dictionary = Dictionary()
        entries = program.keys(stage, dictionary, "nested-loop")
        seen = self._arrived.ranks.seen(sample.ranks, plan.input)
        view = WindowView(entries, dictionary, seen, 0, Failures(), lambda comparisons: None)
        found = program.extend(
            self._arrived, self._origin, stage, sample, TUNING.pairs_per_step, view
        )
        window = len(program.sides[plan.input].rows) * program.share_stored(plan.input)
        cost = 1.0
        if not StoredKeys(stage.predicate, 1, program.kernel).index:
            cost += window / COMPARISONS_PER_PROBE
        if found is None:
            return _TriedStage(window, cost, sample.part(0, 0))
        return _TriedStage(len(found) / len(sample), cost, _some(found, TUNING.order_sample))


@dataclass(frozen=True, eq=False)
class _TriedStage:
    """A stage that a sample has tried."""

    rate: float
    cost: float
    sample: Combinations

    @property
    def rank(self) -> float:
        return (self.rate - 1) / self.cost


def _some(found: Combinations, most: int) -> Combinations:
    """``most`` of the combinations at most, evenly spaced."""
    if len(found) <= most:
        return found
    chosen = np.linspace(0, len(found) - 1, most).astype(np.int64)
    members = tuple(None if m is None else m[chosen] for m in found.members)
    return Combinations(found.ranks[chosen], members)
