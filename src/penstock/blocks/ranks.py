"""The one order of all events of a join's two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted
from penstock.blocks.punctuator import Ticks
from penstock.kernels.buckets import gathered
from penstock.kernels.merging import places, rank_densely

Indices = npt.NDArray[np.int64]
Both = Callable[[Callable[[int], bool]], list[bool]]
"""Does something for side 0 and for side 1."""


@dataclass(frozen=True)
class Ranks:
    """Every admitted tuple and every control has a rank, ``0 .. count - 1``.

    Parameters
    ----------
    tuples
        The ranks of each side's tuples.
    seen
        For each side's tuples, how many of the other side's are ranked before.
    controls
        The ranks of each side's punctuations and end; those at one position share one.
    count
        How many ranks there are.
    at
        The position of the event with each rank; or that of the first, if they follow one another.
    """

    tuples: tuple[Indices, Indices]
    seen: tuple[Indices, Indices]
    controls: tuple[Indices, Indices]
    count: int
    at: Indices | int

    @classmethod
    def of(cls, left: Admitted, right: Admitted, both: Both) -> Ranks:
        """Merge the events of both sides by their keys; ``both`` does two things, at once maybe."""
        keys = (left.keys, right.keys)
        if not len(left.control_keys) and not len(right.control_keys):
            dense = _dense(left.positions, right.positions, both)
            if dense is not None:
                return dense
        seen = places(*keys)
        tuples = [np.arange(len(k), dtype=np.int64) + s for k, s in zip(keys, seen, strict=True)]
        control_keys = np.unique(np.concatenate((left.control_keys, right.control_keys)))
        if len(control_keys):
            tuples = [
                t + np.searchsorted(control_keys, k) for t, k in zip(tuples, keys, strict=True)
            ]
        ranks = np.arange(len(control_keys), dtype=np.int64)
        ranks += np.searchsorted(keys[0], control_keys) + np.searchsorted(keys[1], control_keys)
        controls = (
            ranks[np.searchsorted(control_keys, left.control_keys)],
            ranks[np.searchsorted(control_keys, right.control_keys)],
        )
        position_of = np.empty(len(keys[0]) + len(keys[1]) + len(ranks), np.int64)
        for events, at in (*zip(tuples, keys, strict=True), (ranks, control_keys)):
            position_of[events] = at // 4
        return cls((tuples[0], tuples[1]), seen, controls, len(position_of), position_of)

    def positions(self, ranks: Indices) -> Indices:
        """The positions of the events with these ranks."""
        positions: Indices
        positions = ranks + self.at if isinstance(self.at, int) else gathered(self.at, ranks)
        return positions

    def steps(self, side: int, admitted: Admitted) -> tuple[Indices, Ticks]:
        """After which ranks the side's promise stood where."""
        if admitted.after is None or not len(admitted.after):
            return self.controls[side], admitted.control_promises
        if not len(self.controls[side]):
            return self.tuples[side], admitted.after
        ranks = np.concatenate((self.tuples[side], self.controls[side]))
        values = np.concatenate((admitted.after, admitted.control_promises))
        order = np.argsort(ranks, kind="stable")
        return ranks[order], values[order]


def _dense(left: Indices, right: Indices, both: Both) -> Ranks | None:
    """The ranks of tuples that follow one another without a gap and without a tie, if they do.

    Then a tuple's rank is its position less the first, and nothing has to be merged.
    """
    if not len(left) or not len(right):
        return None
    first, count = min(int(left[0]), int(right[0])), len(left) + len(right)
    # Positions of a side may be equal only for a derived stream, so both ends do not tell.
    if max(int(left[-1]), int(right[-1])) - first + 1 != count:
        return None
    sides = (left, right)
    ranks = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    seen = np.empty(len(left), np.int64), np.empty(len(right), np.int64)

    def dense(side: int) -> bool:
        return bool(rank_densely(sides[side], sides[1 - side], first, ranks[side], seen[side]))

    if not all(both(dense)):
        return None
    nothing = np.empty(0, np.int64)
    return Ranks(ranks, seen, (nothing, nothing), count, first)
