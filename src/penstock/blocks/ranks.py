"""The order of the events of a batch, of any number of inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.blocks.lateness import INPUT_BITS, Admitted
from penstock.blocks.window.punctuator import Ticks
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.merging import count_below, merged_order, rank_alone
from penstock.kernels.probe.buckets import gathered

Indices = npt.NDArray[np.int64]
FEW = 8
"""A binary search is faster than a merge for one event or fewer per this many tuples."""


class Ranks:
    """Every admitted tuple and every control has a rank, ``0 .. count - 1``.

    Parameters
    ----------
    admitted
        What was admitted of each input.

    ``tuples`` are the ranks of each input's tuples, ``controls`` those of its punctuations and end;
    those at one position share one.
    """

    tuples: list[Indices]
    _every: list[Indices]
    _left: dict[int, Indices]

    def __init__(self, admitted: Sequence[Admitted]) -> None:
        self.count = sum(len(one.keys) for one in admitted)
        self.controls = [one.control_keys for one in admitted]
        self._of_controls = np.empty(0, np.int64)
        self._at: Indices | int = 0
        positions = [one.positions for one in admitted]
        by_position = not any(map(len, self.controls))
        by_position = by_position and (self._rank_alone(positions) or self._rank_densely(positions))
        if not by_position:
            self._rank_by_keys(admitted)
        self._every, self._left = list(self.tuples), {}

    def every(self, input: int) -> Indices:
        """The ranks of all tuples of an input, also of those that :meth:`leave` leaves out."""
        return self._every[input]

    def leave(self, input: int, chosen: Indices) -> None:
        """Let an input's tuples be those at these indices; ranks stay, and all count as seen."""
        self.tuples[input], self._left[input] = self._every[input][chosen], chosen

    def _rank_alone(self, positions: Sequence[Indices]) -> bool:
        """Rank the tuples of the only input that has any; False if there are several."""
        self.tuples = [np.arange(len(one), dtype=np.int64) for one in positions]
        given = [one for one in positions if len(one)]
        if given:
            self._at = given[0]
        return len(given) < 2

    def _rank_densely(self, positions: Sequence[Indices]) -> bool:
        """Rank tuples by position if these follow one another without a tie; False if not."""
        self._at = min(int(one[0]) for one in positions if len(one))
        if max(int(one[-1]) for one in positions if len(one)) - self._at + 1 != self.count:
            return False
        taken = np.zeros(self.count, np.bool_)
        each = zip(positions, self.tuples, strict=True)
        return all(rank_alone(one, self._at, taken, ranks) for one, ranks in each)

    def _rank_by_keys(self, admitted: Sequence[Admitted]) -> None:
        keys = [one.keys for one in admitted]
        controls = np.unique(np.concatenate(self.controls))
        # Stable: tuples of one input at one position stay in their order.
        events, order = merged_order([*keys, controls])
        self.count = len(events)
        ranks = np.empty(self.count, np.int64)
        ranks[order] = np.arange(self.count)
        *self.tuples, of_controls = np.split(ranks, np.cumsum([len(one) for one in keys]))
        self.controls = [of_controls[np.searchsorted(controls, one)] for one in self.controls]
        self._of_controls = of_controls
        self._at = gathered(events, order) >> INPUT_BITS

    def seen(self, ranks: Indices, input: int) -> Indices:
        """How many of the batch's tuples of an input are ranked before each of these events.

        The ranks never fall.
        """
        tuples = self._every[input]
        if len(ranks) < len(tuples) // FEW:
            return np.searchsorted(tuples, ranks)
        seen = np.empty(len(ranks), np.int64)
        count_below(tuples, ranks, seen)
        return seen

    def others_before(self, input: int) -> Indices:
        """How many tuples of the other inputs are ranked before each tuple of an input."""
        ranks = self._every[input]
        before: Indices = ranks - np.arange(len(ranks))
        if len(self._of_controls):
            before -= np.searchsorted(self._of_controls, ranks)
        return before if input not in self._left else before[self._left[input]]

    def positions(self, ranks: Indices) -> Indices:
        """The positions of the events with these ranks."""
        at = self._at
        positions: Indices = ranks + at if isinstance(at, int) else gathered(at, ranks)
        return positions

    def steps(self, side: int, admitted: Admitted) -> tuple[Indices, Ticks]:
        """The ranks that move an input's punctuation, and the punctuation after each."""
        if admitted.after is None or not len(admitted.after):
            return self.controls[side], admitted.control_punctuations
        if not len(self.controls[side]):
            return self._every[side], admitted.after
        ranks = np.concatenate((self._every[side], self.controls[side]))
        values = np.concatenate((admitted.after, admitted.control_punctuations))
        order = np.argsort(ranks, kind="stable")
        return ranks[order], values[order]


def at_home(
    sides: Sequence[StoredWindow], admitted: Sequence[Admitted], ranks: Ranks
) -> list[Admitted]:
    """What is admitted, of a divided input only the tuples at home; the others go on counting."""
    found = list(admitted)
    for number, side in enumerate(sides):
        if side.home is not None:
            ranks.leave(number, side.home)
            found[number] = admitted[number].only(side.home)
    return found
