"""The revision of a design while a multiway join runs: samples of arrivals say what each costs.

All designs give the same rows in the same order, from the windows alone: ``mjoin`` and ``shared``
keep nothing else, and a cascade makes its combinations anew from the tuples that are live. So a
join can go on with another one between two batches.

Samples of arrivals go through the windows by the probe orders of ``mjoin``, and by the order of the
cascade, and so the match rates of all stages are known (:mod:`penstock.program.choose.design` has
what follows from them). A stage that no combination of a sample came to is taken to have no
partners. A look at them is repeated after ever more arrivals. The size of batches
counts too, since every step of a cascade costs something in each; it is looked at in every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from penstock.blocks.multiway.combination_search import Arrived, SearchProgram
from penstock.blocks.multiway.order_revision import Sample
from penstock.blocks.window.keys import StoredKeys
from penstock.program.choose.design import (
    DesignChoice,
    JoinEstimates,
    cascade_path,
    choose_design,
    without_storing,
)
from penstock.program.choose.probe_order import ProbeOrder, ProbeStage
from penstock.streams.windows import Range, Rows
from penstock.tuning import TUNING

LESS_OFTEN = 8
"""Times as many arrivals come before the next look."""
RECENT = 0.1
"""The weight of the last batch in the average size of batches."""


StageName = tuple[int, tuple[int, ...]]
"""The input of a stage, and the inputs that are bound."""


def _name(stage: ProbeStage) -> StageName:
    return stage.input, stage.bound


@dataclass(frozen=True)
class _Measurements:
    """What samples of ``tuples`` arrivals have measured; ``indexed`` are stages with an index."""

    orders: Sequence[ProbeOrder]
    windows: Sequence[float]
    shares: Sequence[float]
    rates: Mapping[StageName, float]
    indexed: Set[StageName]
    tuples: int


class DesignRevision:
    """Decides whether to store combinations; ``design`` is the one for the next batch.

    With a cascade, or with ``mjoin`` on one core and ``shared`` on several.
    """

    def __init__(self, program: SearchProgram, design: str, cores: int) -> None:
        self.design = design
        self._cores = cores
        self._program = program
        self._path = cascade_path(program.terms)
        self._wait = TUNING.first_order_revision
        self._arrivals = [0] * len(program.sides)
        self._since = 0
        self._batch = 0.0
        self._measured: _Measurements | None = None
        self._choice: DesignChoice | None = None
        self._gave_up = False

    def look(self, arrived: Arrived, order: Callable[[int], ProbeOrder]) -> None:
        """Look at a batch that has been searched, and choose the design for the next one."""
        here = [len(ranks) for ranks in arrived.ranks.tuples]
        total = sum(here)
        if not total or self._gave_up:
            return
        self._batch += (RECENT if self._batch else 1.0) * (total - self._batch)
        self._arrivals = [a + b for a, b in zip(self._arrivals, here, strict=True)]
        self._since += total
        if self._since >= self._wait and here[self._path.origin] >= TUNING.smallest_order_sample:
            self._since = 0
            self._wait = min(LESS_OFTEN * self._wait, TUNING.last_order_revision)
            self._measured = self._sample(arrived, order)
        if self._measured is not None:
            self._choice = self._chosen(self._measured)
            self.design = self._choice.design

    def give_up(self) -> None:
        """Store no combinations any more: a cascade had to store more than it may."""
        self.design, self._gave_up = without_storing(self._cores), True

    def _sample(self, arrived: Arrived, order: Callable[[int], ProbeOrder]) -> _Measurements:
        """Measure the match rates of all stages."""
        program, count = self._program, 0
        orders = [order(origin) for origin in range(len(program.sides))]
        rates: dict[StageName, float] = {}
        indexed: set[StageName] = set()
        for one in (*orders, self._path):
            sample = Sample(program, arrived, one)
            count += sample.tuples
            for stage, rate in zip(one.stages, sample.along(one)[0], strict=True):
                if rate is not None:
                    rates[_name(stage)] = rate
                if self._has_index(stage):
                    indexed.add(_name(stage))
        windows = []
        for side in program.sides:
            tuples = len(side.rows) - side.newest or len(side.rows)
            size = side.window.size if isinstance(side.window, Rows) else tuples
            windows.append(float(min(tuples, size)))
        shares = [arrivals / sum(self._arrivals) for arrivals in self._arrivals]
        return _Measurements(orders, windows, shares, rates, indexed, count)

    def _chosen(self, measured: _Measurements) -> DesignChoice:
        estimates = JoinEstimates(
            measured.windows,
            measured.shares,
            lambda stage: measured.rates.get(_name(stage), 0.0),
            lambda stage: _name(stage) in measured.indexed,
            self._batch,
            any(isinstance(side.window, Range) for side in self._program.sides),
        )
        known = f"measured with {measured.tuples} tuples"
        return choose_design(
            estimates, measured.orders, self._path, known, self._cores, self.design
        )

    def _has_index(self, plan: ProbeStage) -> bool:
        stage = self._program.stage(plan)
        return StoredKeys(stage.predicate, 1, self._program.kernel).index is not None

    def explained(self) -> list[str]:
        """The line of EXPLAIN about the design in use; none before anything was measured."""
        if self._gave_up:
            return [f"design {self.design}: a cascade had to store too many combinations"]
        return [f"design {one.design}: {one.why}" for one in (self._choice,) if one is not None]
