"""Counting the tuples of a run before it is known whether any of them is late.

Where a query asks for nothing but COUNT(*), counting is as fast as looking at the times. So both
are done in one pass. If some tuple turns out to be late, what was counted is thrown away, and all
is done again as for other calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.blocks.aggregate_clock import Judged
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.panes import Counted, Kept
from penstock.blocks.run import Run
from penstock.blocks.window_panes import PaneWindows
from penstock.kernels.evaluate import select
from penstock.kernels.survey import Extents
from penstock.kernels.vector import Failures
from penstock.kernels.words import code_of
from penstock.sql.expressions import TRUE, Expression

_RUNS_TO_SKIP = 16
"""So many runs are not counted ahead after one in which that was of no use."""


@dataclass(frozen=True)
class Found:
    """The tuples of each pane for which WHERE is true, and for how many it failed."""

    counted: Counted
    failures: int


class CountingAhead:
    """The counts of one run at a time."""

    def __init__(self) -> None:
        self._found: Found | None = None
        self._runs_to_skip = 0

    def glance(
        self, where: Expression, panes: PaneWindows, run: Run, ticks: Indices
    ) -> Extents | None:
        """Count a run as if no tuple were late, if that is likely to be of use.

        Returns how far apart its ticks are, so that nobody need look at them again.
        """
        self._found = None
        self._runs_to_skip = max(0, self._runs_to_skip - 1)
        if not self._runs_to_skip:
            self._found = count(where, panes, run, ticks, None)
        return None if self._found is None else self._found.counted.extents

    def found(self, where: Expression, panes: PaneWindows, judged: Judged) -> Found | None:
        """What a run comes to that has been glanced at; None if it cannot be counted like this."""
        found, self._found = self._found, None
        if len(judged.behind):
            self._runs_to_skip = _RUNS_TO_SKIP
            return None
        if found is None:
            ticks = judged.ticks
            extent = judged.extent or (int(ticks.min()), int(ticks.max()))
            found = count(where, panes, judged.run, ticks, extent)
        return found


def count(
    where: Expression,
    panes: PaneWindows,
    run: Run,
    ticks: Indices,
    extent: tuple[int, int] | None,
) -> Found | None:
    """Count the tuples of a run by pane; None if they are too far apart, or not in the extent."""
    failures: list[Failures] = []
    equal = code_of(where, run.inputs[0]) if len(run.inputs) == 1 else None

    def kept(start: int, stop: int) -> Kept:
        if where == TRUE:
            return None, None
        if equal is not None:
            return None, (equal[0][start:stop], equal[1])
        inputs = [batch.slice(start, stop - start) for batch in run.inputs]
        failures.append(Failures())
        return select(inputs, where, failures[-1]), None

    counted = panes.count(ticks, extent, kept)
    if counted is None:
        return None
    return Found(counted, sum(each.count for each in failures))
