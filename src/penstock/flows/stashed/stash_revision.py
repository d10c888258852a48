"""The revision of a stash while its join runs: samples of arrivals say which pair it should have.

A sample of a stream's last arrivals probes the window of another, which tells how many pairs of
tuples match. With that, with the shares of the arrivals since the last look and with the windows,
eq. 6.2.1 to 6.2.6 of Najafi 2019 choose the pair, the size of its stash, or none
(:mod:`penstock.program.choose.stash`). Few matches of a sample say little, so a match probability
is taken to be near the upper end of what they allow: a stash that is too small is of no use, one
that is too large only takes memory. Another stash begins empty, between two batches, and no row
depends on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.blocks.multiway.combination_search import Arrived, SearchProgram
from penstock.blocks.multiway.design_revision import LESS_OFTEN
from penstock.blocks.multiway.order_revision import Sample
from penstock.flows.multi_flow import Units
from penstock.program.choose.probe_order import NOTHING, staged
from penstock.program.choose.stash import StashPlan, stash_plan
from penstock.streams.windows import Rows
from penstock.tuning import TUNING

STREAMS = (0, 1, 2)
PAIRS = ((0, 1), (0, 2), (1, 2))


def most_matches(found: float) -> float:
    """How many matches a sample may have had on average, in which some were found."""
    return found + 2 * math.sqrt(found + 1) + 2


class StashRevision:
    """Decides which pair has the stash, and how large it is; ``plan`` is that of the next units.

    Parameters
    ----------
    program
        The join.
    plan
        The plan of the units that are in use.
    asked
        How many pairs the stash is to have room for; None: as many as follow.
    make
        Makes the units of a program and a plan.
    """

    def __init__(
        self,
        program: SearchProgram,
        plan: StashPlan,
        asked: int | None,
        make: Callable[[SearchProgram, StashPlan], Units],
    ) -> None:
        self.plan = plan
        self._program = program
        self._asked = asked
        self._make = make
        self._wait = TUNING.first_order_revision
        self._arrivals = [0.0 for _ in STREAMS]
        self._since = 0
        self._sampled = 0

    def look(self, arrived: Arrived) -> bool:
        """Look at a batch that is done; whether another plan came of it."""
        here = [len(ranks) for ranks in arrived.ranks.tuples]
        self._arrivals = [
            count + more * self._program.share_processed(input)
            for input, (count, more) in enumerate(zip(self._arrivals, here, strict=True))
        ]
        self._since += sum(here)
        enough = [input for input in STREAMS if here[input] >= TUNING.smallest_order_sample]
        # With two of the streams, each pair can be measured from one side.
        if self._since < self._wait or len(enough) < 2:
            return False
        self._since = 0
        self._wait = min(LESS_OFTEN * self._wait, TUNING.last_order_revision)
        before, self.plan = self.plan, self._planned(arrived, enough)
        self._arrivals = [0.0 for _ in STREAMS]
        return (before.roles, before.size) != (self.plan.roles, self.plan.size)

    def units(self, program: SearchProgram) -> Units:
        """The units of the next program, with the plan by now."""
        return self._make(program, self.plan)

    def explained(self) -> list[str]:
        """The reason for the plan; none before anything was measured."""
        return [f"design stashed: {self.plan.why}"] if self.plan.is_measured else []

    def _planned(self, arrived: Arrived, origins: list[int]) -> StashPlan:
        terms, sides = self._program.terms, self._program.sides
        self._sampled = 0
        match = {}
        for one, other in PAIRS:
            linked = terms.of_stage(other, (one,))[1] != NOTHING
            chance = self._match(arrived, one, other, origins) if linked else 1.0
            match[frozenset((one, other))] = chance
        windows = [
            (side.window.size if isinstance(side.window, Rows) else len(side.rows))
            * self._program.share_stored(side.index)
            for side in sides
        ]
        shares = [arrivals / sum(self._arrivals) for arrivals in self._arrivals]
        names = [f"{name} ({input + 1})" for input, name in enumerate(terms.join.streams)]
        known = f"measured with {self._sampled} tuples"
        return stash_plan(windows, shares, match, names, known, self.plan, self._asked)

    def _match(self, arrived: Arrived, one: int, other: int, origins: list[int]) -> float:
        """The probability that two tuples of these streams match."""
        found, compared = 0.0, 0.0
        for origin, probed in ((one, other), (other, one)):
            if origin not in origins:
                continue
            third = 3 - one - other
            order = staged(self._program.terms, origin, (probed, third))
            sample = Sample(self._program, arrived, order)
            side = self._program.sides[probed]
            size = side.window.size if isinstance(side.window, Rows) else len(side.rows)
            taken = sample.taken * self._program.share_processed(origin)
            stored = min(size, len(side.rows)) * self._program.share_stored(probed)
            found += sample.tuples * sample.rate(order.stages[0])
            compared += taken * stored
            self._sampled += round(taken)
        return min(1.0, most_matches(found) / max(1, compared))
