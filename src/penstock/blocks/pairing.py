"""The pairs of a stretch of ranks: what both sides found, in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.blocks.join_side import JoinSide
from penstock.blocks.matcher import Matcher, Probes, Tally
from penstock.blocks.ranks import Ranks
from penstock.kernels.merging import merge_pairs, three

Indices = npt.NDArray[np.int64]

MOST_PAIRS = 1 << 20
"""Pairs that one step may yield; a run that has more is worked off in several steps."""


@dataclass(frozen=True)
class Found:
    """Rows in output order: sequence numbers (-1 for padding) and the rank they belong to."""

    left: Indices
    right: Indices
    ranks: Indices

    def __len__(self) -> int:
        return len(self.left)

    def part(self, start: int, stop: int) -> Found:
        """Neighbouring ones of these."""
        return Found(self.left[start:stop], self.right[start:stop], self.ranks[start:stop])


NOTHING = Found(*(np.empty(0, np.int64) for _ in range(3)))


def find_pairs(
    matcher: Matcher,
    sides: Sequence[JoinSide],
    probes: Sequence[Probes | None],
    start: int,
    stop: int,
    tally: Tally,
) -> Found | None:
    """The pairs of the events ranked ``start .. stop - 1``; None if they are too many.

    Nothing is changed but the tally, so threads may do this at the same time.
    """
    # A single event may have as many partners as the window holds; it cannot be split.
    most = MOST_PAIRS if stop - start > 1 else None
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
    merged = three(len(parts[0][0]) + len(parts[1][0]))
    merge_pairs(parts[0], parts[1], merged)
    return Found(*merged)


class Stepping:
    """Finds the pairs of a run in pieces small enough that a piece's pairs fit in memory."""

    def __init__(self, matcher: Matcher, sides: Sequence[JoinSide]) -> None:
        self._matcher = matcher
        self._sides = sides
        self._step = MOST_PAIRS

    def found(
        self, probes: Sequence[Probes | None], count: int
    ) -> Iterator[tuple[Found, int, int]]:
        """The pairs of ``count`` ranks, with the first rank of each piece and the one after it."""
        start = 0
        while start < count:
            stop = min(count, start + self._step)
            tally = Tally()
            found = find_pairs(self._matcher, self._sides, probes, start, stop, tally)
            if found is None:
                self._step = max(1, (stop - start) // 2)
                continue
            self._matcher.settle(tally)
            if self._step < MOST_PAIRS and len(found) * 4 < MOST_PAIRS:
                self._step *= 2
            yield found, start, stop
            start = stop


def by_rank(parts: list[Found]) -> Found:
    """Pairs in output order: by rank, then by partner."""
    columns = zip(*((f.left, f.right, f.ranks) for f in parts), strict=True)
    left, right, ranks = (np.concatenate(column) for column in columns)
    order = np.lexsort((left, right, ranks))
    return Found(left[order], right[order], ranks[order])


def ties(found: Found, ranks: Ranks) -> Indices:
    """What orders the pairs of one position: first the left tuple's, then by the partner's seq."""
    is_right = np.zeros(ranks.count, np.int64)
    is_right[ranks.tuples[1]] = 1
    by_right = is_right[found.ranks]
    ordered: Indices = np.where(by_right, found.left, found.right) + (by_right << 62)
    return ordered
