"""Finding the pairs of a run, stretch by stretch: by lasting indexes, or by a sweep of each.

A sweep (:mod:`penstock.kernels.probe.sweep`) indexes the arrivals of one side, for one stretch of
ranks alone, and what is live of it when the stretch begins. That pays where the windows are short
beside the stretches, on one core as on several. Both ways give the same pairs in the same order, by
rank and partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.blocks.join.matcher import NOTHING, Matcher, Probes, RankedPairs, Tally
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.merging import merge_pairs, three
from penstock.tuning import TUNING

CROWDED = 64
"""Comparisons per arrival from which on a lasting index, which adapts, is faster."""
RUNS_TO_SKIP = 16
"""Runs after a crowded one that are not swept."""


class StretchSearch:
    """Finds the pairs of stretches of a run; threads may search several at the same time."""

    def __init__(self, matcher: Matcher, sides: Sequence[StoredWindow], cores: int = 1) -> None:
        self._matcher = matcher
        self._sides = sides
        self._cores = cores
        self.longest: int | None = None
        """Ranks of a stretch at most, where it is swept; None: this run is not swept."""
        # A sweep teaches a lasting index nothing, so one that does not pay is to be given up first.
        self._runs_to_skip = 1 + TUNING.runs_before_sweep if cores == 1 else 0

    def sweeps(self, probes: Sequence[Probes | None]) -> bool:
        """Whether the stretches of this run are swept; if not, the lasting indexes are needed."""
        self._runs_to_skip = max(0, self._runs_to_skip - 1)
        given = [p for p in probes if p is not None]
        arrivals = sum(len(p.at) for p in given)
        live = sum(int(p.hi[-1] - p.lo[-1]) for p in given if len(p.at))
        pays = (
            not self._runs_to_skip
            and arrivals >= TUNING.smallest_part * self._cores
            and live * max(2, self._cores) <= TUNING.most_live_per_arrival * arrivals
            and self._matcher.can_sweep(probes)
        )
        self.longest = max(TUNING.swept_arrivals, TUNING.swept_per_live * live) if pays else None
        return pays

    def tally(self) -> Tally:
        """The counts of a search, before it begins."""
        return self._matcher.tally()

    def found(
        self, probes: Sequence[Probes | None], start: int, stop: int, tally: Tally
    ) -> RankedPairs | None:
        """The pairs of the events ranked ``start .. stop - 1``; None if they are too many.

        Only the tally is changed.
        """
        if self.longest is not None and stop - start > 1:
            given = [p for p in probes if p is not None]
            pairs = self._matcher.sweep(given, start, stop, TUNING.pairs_per_step, tally)
            return None if pairs is None else RankedPairs(*pairs)
        return find_pairs(self._matcher, self._sides, probes, start, stop, tally)

    def settle(self, tally: Tally, ranks: int) -> None:
        """Add the counts of a stretch, and learn from them; no thread is searching now."""
        self._matcher.settle(tally)
        if self.longest is not None and tally.comparisons > CROWDED * ranks:
            self._runs_to_skip = RUNS_TO_SKIP


def find_pairs(
    matcher: Matcher,
    sides: Sequence[StoredWindow],
    probes: Sequence[Probes | None],
    start: int,
    stop: int,
    tally: Tally,
) -> RankedPairs | None:
    """The pairs of the events ranked ``start .. stop - 1``; None if they are too many.

    Only the tally is changed, so threads may do this in parallel.
    """
    # A single event may have as many partners as the window holds; it cannot be split.
    most = TUNING.pairs_per_step if stop - start > 1 else None
    parts = []
    for side in sides:
        given = probes[side.index]
        if given is None:
            parts.append((NOTHING.left, NOTHING.right, NOTHING.ranks))
            continue
        pairs = matcher.match(side, given, start, stop, most, tally)
        if pairs is None:
            return None
        parts.append(pairs)
    (left, found_left, left_ranks), (right, found_right, right_ranks) = parts
    if not len(right):
        return RankedPairs(left, found_left, left_ranks)
    if not len(left):
        return RankedPairs(found_right, right, right_ranks)
    merged = three(len(left) + len(right))
    merge_pairs(parts[0], parts[1], merged)
    return RankedPairs(*merged)


class StepwiseSearch:
    """Finds the pairs of a run in steps, each with a bounded number of pairs."""

    def __init__(self, matcher: Matcher, sides: Sequence[StoredWindow]) -> None:
        self._stretches = StretchSearch(matcher, sides)
        self._steps = Steps(TUNING.pairs_per_step)

    def sweeps(self, probes: Sequence[Probes | None]) -> bool:
        """Whether this run needs no lasting index."""
        return self._stretches.sweeps(probes)

    def found(
        self, probes: Sequence[Probes | None], count: int
    ) -> Iterator[tuple[RankedPairs, int, int]]:
        """The pairs of ``count`` ranks, with the first rank of each piece and the one after it."""

        def search(start: int, stop: int) -> RankedPairs | None:
            tally = self._stretches.tally()
            found = self._stretches.found(probes, start, stop, tally)
            if found is not None:
                self._stretches.settle(tally, stop - start)
            return found

        most, longest = TUNING.pairs_per_step, self._stretches.longest
        for found, start, stop in self._steps.through(0, count, most, search, len, longest):
            assert found is not None, "a single event may have any number of pairs"
            yield found, start, stop
