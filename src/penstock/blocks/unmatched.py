"""Who has found a partner, and the rows of those who have not.

Tuples of outer, semi and anti joins are remembered as matched or not. Unmatched ones come out at
the rank of the event that makes them expire, before the pairs of that event.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.blocks.expiry import Expiring
from penstock.blocks.join_side import JoinSide
from penstock.blocks.pairing import Found
from penstock.blocks.punctuator import Clock
from penstock.streams.windows import Range

Indices = npt.NDArray[np.int64]

LEFT_KEPT = frozenset({"left", "full", "anti"})
RIGHT_KEPT = frozenset({"right", "full"})


class Unmatched:
    """Keeps the books of a join of this kind, in its sides."""

    def __init__(self, kind: str, sides: tuple[JoinSide, JoinSide], clock: Clock) -> None:
        self.kind = kind
        self.sides = sides
        self.clock = clock
        left, right = sides
        left.track(kind in LEFT_KEPT | {"semi"}, kind in LEFT_KEPT)
        right.track(kind in RIGHT_KEPT, kind in RIGHT_KEPT)

    def keeps(self, side: JoinSide) -> bool:
        """Whether the side's unmatched tuples come out when they expire."""
        return self.kind in (LEFT_KEPT if side.index == 0 else RIGHT_KEPT)

    def cut_off(self, side: JoinSide) -> Expiring:
        """Those that a window made smaller has no room for any more."""
        other = self.sides[1 - side.index]
        assert side.arrived is not None
        gone = np.arange(side.rows.first, side.rows.next) < side.cut(other)
        if isinstance(side.window, Range):
            expiry = side.expiry.view()
            gone |= expiry <= other.punctuator.promise
            gone &= expiry != self.clock.lowest
        picked = np.flatnonzero(gone)
        nothing = np.zeros(len(picked), np.int64)
        return Expiring(picked + side.rows.first, nothing, nothing > 0, side.arrived.view()[picked])

    def mark(self, found: Found) -> Found:
        """Remember who has been matched; of a semi join keep each left tuple's first match."""
        if self.kind == "inner" or not len(found.left):
            return found
        left, right = self.sides
        first: Indices | None = None
        if left.matched is not None:
            matched, where = left.matched.view(), found.left - left.rows.first
            if self.kind == "semi":
                first = np.sort(np.unique(where, return_index=True)[1])
                first = first[~matched[where[first]]]
            matched[where] = True
        if right.matched is not None:
            right.matched.view()[found.right - right.rows.first] = True
        if first is None:
            return found
        return Found(found.left[first], found.right[first], found.ranks[first])

    def added(self, found: Found, gone: list[Expiring | None], start: int, stop: int) -> Found:
        """Put the unmatched tuples that expire in these ranks among the pairs."""
        if self.kind in ("inner", "semi"):
            return found
        count = 0 if self.kind == "anti" else len(found.left)
        lefts, rights, ranks = [found.left[:count]], [found.right[:count]], [found.ranks[:count]]
        phases, ties = [np.ones(count, np.int64)], [np.arange(count, dtype=np.int64)]
        for side, expired in zip(self.sides, gone, strict=True):
            if expired is None or side.matched is None:
                continue
            part = slice(*np.searchsorted(expired.ranks, (start, stop)))
            lonely = ~side.matched.view()[expired.seqs[part] - side.rows.first]
            seqs = expired.seqs[part][lonely]
            nobody = np.full(len(seqs), -1, np.int64)
            lefts.append(seqs if side.index == 0 else nobody)
            rights.append(nobody if side.index == 0 else seqs)
            ranks.append(expired.ranks[part][lonely])
            phases.append(np.where(expired.at_once[part][lonely], 2, 0))
            ties.append(expired.arrived[part][lonely])
        order = np.lexsort((np.concatenate(ties), np.concatenate(phases), np.concatenate(ranks)))
        left, right, rank = (np.concatenate(parts)[order] for parts in (lefts, rights, ranks))
        return Found(left, right, rank)
