"""Finding the first partner of each left tuple, for SEMI and ANTI joins.

Why it is enough. Such a join gives out a left tuple once, or not at all, and nothing of the right
side. So of the pairs of a left tuple only the first matters, by the rank of its later tuple. It is
found in one of two ways. If the tuple has a partner when it arrives, its first pair is of its own
rank, whichever partner that is: it probes first, and stops at any. Else the first pair is of the
first right tuple that matches while it is live: right tuples probe by rank, and a left tuple that
matches is settled, so that no later probe sees it. The left tuples of a stretch of ranks probe
before the right ones of that stretch. That settles some left tuples before right tuples of an
earlier rank probe, but those do not see them: a probe sees only tuples ranked before it.

What a kernel leaves of a predicate, the residual, is evaluated on its pairs. Then a match of the
kernel settles nothing. A left probe looks for one partner, then for more of them as long as the
residual refuses all. The pairs of right probes come in parts; a part settles left tuples before the
next one is searched for. Parts are small while most of their pairs turn out to be of left tuples
that the same part has settled already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.matcher import (
    NOTHING,
    Matcher,
    Probes,
    RankedPairs,
    Tally,
    by_rank,
)
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.probe.nested_loop import Pairs
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]

MORE_PARTNERS = 16
"""Times as many partners of a left probe are looked for after the residual has refused all."""
SMALL_PART = 1024
"""Pairs of a part of right probes, while most are wasted."""
LARGER_PART = 8
"""Times as many pairs the next part may have, if few were wasted."""


class FirstPartnerSearch:
    """Finds one pair of each left tuple that has any, and settles the tuple."""

    def __init__(self, matcher: Matcher, sides: Sequence[StoredWindow]) -> None:
        self._matcher = matcher
        self._left, self._right = sides
        self._room = SMALL_PART

    def sweeps(self, probes: Sequence[Probes | None]) -> bool:
        """False: in a sweep, a probe cannot pass over what an earlier one has settled."""
        return False

    def found(
        self, probes: Sequence[Probes | None], count: int
    ) -> Iterator[tuple[RankedPairs, int, int]]:
        """The pairs of ``count`` ranks, with the first rank of each piece and the one after it."""
        left, right = probes
        for start in range(0, count, TUNING.pairs_per_step):
            stop = min(count, start + TUNING.pairs_per_step)
            tally, parts = self._matcher.tally(), [NOTHING]
            if left is not None:
                parts.extend(self._of_left(left, *_between(left, start, stop), tally))
            if right is not None:
                parts.extend(self._of_right(right, *_between(right, start, stop), tally))
            self._matcher.settle(tally)
            yield by_rank(parts), start, stop

    def _of_left(self, probes: Probes, a: int, b: int, tally: Tally) -> Iterator[RankedPairs]:
        """The pairs of left tuples that have a partner on arrival; these are settled."""
        tally.probed[0] += b - a
        jumps = self._jumps()
        first_entry = len(jumps) - len(probes.numbers)
        pending, known, most = np.arange(a, b, dtype=np.int64), 0, 1
        while len(pending):
            refused = []
            piece = max(1, TUNING.pairs_per_step // most)
            for start in range(0, len(pending), piece):
                chosen = pending[start : start + piece]
                pairs = self._matcher.partners(self._left, probes, chosen, most, tally)
                has_more = np.bincount(pairs >> 32, minlength=len(chosen)) == most
                pairs = _after(pairs, known)
                found, passed = self._passed(self._left, probes, chosen, pairs, tally)
                which, firsts = np.unique(pairs[passed] >> 32, return_index=True)
                jumps[first_entry + chosen[which]] = 1
                has_more[which] = False
                yield found.taken(firsts)
                refused.append(chosen[has_more] if self._matcher.has_residual() else chosen[:0])
            pending = np.concatenate(refused)
            known, most = most, MORE_PARTNERS * most

    def _of_right(self, probes: Probes, a: int, b: int, tally: Tally) -> Iterator[RankedPairs]:
        """The pairs of right tuples with left ones that are not settled; now these are."""
        tally.probed[1] += b - a
        jumps, chosen = self._jumps(), np.arange(a, b, dtype=np.int64)
        exact = not self._matcher.has_residual()
        # Even memory that is never written is not free, so there is no room for every tuple.
        enough = min(max(SMALL_PART, 4 * (b - a)), TUNING.pairs_per_step)
        parts = self._matcher.unsettled(
            probes, a, b, jumps, lambda: enough if exact else self._room, tally
        )
        for pairs in parts:
            found, passed = self._passed(self._right, probes, chosen, pairs, tally)
            if exact:
                yield found
                continue
            entries, firsts = np.unique(pairs[passed] & 0xFFFFFFFF, return_index=True)
            jumps[entries] = 1
            yield found.taken(firsts)
            wasted = len(found) - len(firsts)
            self._room = min(LARGER_PART * self._room, TUNING.pairs_per_step)
            if 2 * wasted > len(pairs):
                self._room = SMALL_PART

    def _passed(
        self, side: StoredWindow, probes: Probes, chosen: Indices, pairs: Pairs, tally: Tally
    ) -> tuple[RankedPairs, Indices]:
        """The pairs that pass the residual, by number and rank; and which of the given they are."""
        (seqs, partners, ranks), passed = self._matcher.named(side, probes, chosen, pairs, tally)
        by_side = (seqs, partners) if side.index == 0 else (partners, seqs)
        return RankedPairs(*by_side, ranks), passed

    def _jumps(self) -> npt.NDArray[np.int32]:
        stored = self._matcher.keys[0].jumps
        assert stored is not None
        jumps: npt.NDArray[np.int32] = stored.view()
        return jumps


def _between(probes: Probes, start: int, stop: int) -> tuple[int, int]:
    """The probes ranked ``start .. stop - 1``."""
    a, b = np.searchsorted(probes.at, (start, stop)).tolist()
    return a, b


def _after(pairs: Pairs, count: int) -> Pairs:
    """Pairs by probe, without the first ``count`` of each probe."""
    if not count or not len(pairs):
        return pairs
    probes = pairs >> 32
    begins = np.flatnonzero(np.diff(probes, prepend=-1))
    sizes = np.diff(begins, append=len(pairs))
    place = np.arange(len(pairs)) - np.repeat(begins, sizes)
    return pairs[place >= count]
