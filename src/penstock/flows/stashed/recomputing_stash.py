"""The stash with recomputation (Najafi 2019 §6.3.3): an overwrite costs a part of a window.

There are two stashes, for the pairs that arrivals of S1 have found (S1–S2) and for those of S2
(S2–S1). Each keeps its pairs sorted by the index of one of their tuples in its window. After
expiry, storage reclamation closes the gaps, so there is no slot to skip. New pairs go to their
places by insertion sort; if there are more than the stash has room for, those with the lowest
indexes are overwritten, and the overwrite index buffer notes their indexes.

Why it may be trusted. As in :mod:`penstock.flows.stashed.stash`, a live pair is stored or has been
noted; here its index has. The interval to recompute covers all noted indexes. Outside of it every
live pair is in the stash; inside of it all pairs are recomputed, and those in the stash are left
out. So each pair is found once.

The publication has the first and the last overwritten index. Windows are circular, and such an
interval may be the longer way round, or leave out an index between two others that was overwritten
before them. Here the buffer has every index that was overwritten, until no overwritten pair of it
is live, and the interval is the smallest circular one that covers them.

The index is that of the window that the arrivals probe, as published; if no condition links that
window with S3, it is that of the other one, since a tuple of S3 begins with the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.blocks.window.punctuator import Clock
from penstock.flows.stashed.stash import Interval, Live, Pairs

Indices = npt.NDArray[np.int64]


class OverwriteIndexBuffer:
    """The numbers of the tuples whose pairs have been overwritten.

    Beside each it has the youngest partner, and when the last of these pairs expires.
    """

    def __init__(self, clock: Clock, indexed: int) -> None:
        self._indexed = indexed
        self._clock = clock
        self._noted = Pairs.none(clock)

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, pairs: Pairs) -> None:
        """Add overwritten pairs."""
        every = Pairs.together((self._noted, pairs))
        numbers, where = np.unique(every.numbers[self._indexed], return_inverse=True)
        partners = np.full(len(numbers), -1)
        np.maximum.at(partners, where, every.numbers[1 - self._indexed])
        expiry = np.full(len(numbers), self._clock.lowest, self._clock.dtype)
        np.maximum.at(expiry, where, every.expiry)
        self._noted = Pairs(self._ordered(numbers, partners), expiry)

    def note_all(self, live: Live) -> None:
        """Add every pair of the tuples that are live."""
        numbers = np.arange(live.firsts[self._indexed], live.following[self._indexed])
        partners = np.full(len(numbers), live.following[1 - self._indexed] - 1)
        expiry = np.full(len(numbers), self._clock.highest, self._clock.dtype)
        self._noted = Pairs(self._ordered(numbers, partners), expiry)

    def _ordered(self, numbers: Indices, partners: Indices) -> tuple[Indices, Indices]:
        return (numbers, partners) if self._indexed == 0 else (partners, numbers)

    def expire(self, live: Live) -> None:
        """Forget the numbers whose overwritten pairs have all expired."""
        self._noted = self._noted.take(live.has(self._noted))

    def spans(self, first: int, following: int) -> tuple[tuple[int, int], ...]:
        """The smallest circular interval of the window ``first .. following - 1`` with all numbers.

        The oldest tuple comes after the youngest.

        >>> clock = Clock(floating=False)
        >>> def spans(*numbers):
        ...     buffer = OverwriteIndexBuffer(clock, 0)
        ...     partners = np.zeros(len(numbers), np.int64)
        ...     buffer.note(Pairs((np.array(numbers), partners), partners))
        ...     return buffer.spans(10, 20)
        >>> spans(12, 15)
        ((12, 16),)
        >>> spans(11, 18)
        ((18, 20), (10, 12))
        """
        numbers = self._noted.numbers[self._indexed]
        if not len(numbers):
            return ()
        low, high = int(numbers[0]), int(numbers[-1])
        gaps = np.diff(numbers)
        around = low - first + following - high
        if not len(gaps) or int(gaps.max()) <= around:
            return ((low, high + 1),)
        widest = int(gaps.argmax())
        before, after = int(numbers[widest]), int(numbers[widest + 1])
        return ((after, following), (first, before + 1))


@dataclass(frozen=True)
class Direction:
    """What one of the two stashes is for.

    Parameters
    ----------
    younger
        The stream whose arrivals make its pairs: 0 for S1, 1 for S2.
    indexed
        The stream by whose index it is sorted.
    rows
        The size of that stream's window if it is a count window: its indexes go round.
    """

    younger: int
    indexed: int
    rows: int | None

    def indexes(self, pairs: Pairs) -> Indices:
        """The window index of each pair."""
        numbers = pairs.numbers[self.indexed]
        indexes: Indices = numbers % self.rows if self.rows else numbers
        return indexes


class SortedStash:
    """The stash of one direction, sorted by index and without gaps."""

    def __init__(self, size: int, clock: Clock, direction: Direction) -> None:
        self.size = size
        self.direction = direction
        self.pairs = Pairs.none(clock)
        self.overwrite_indexes = OverwriteIndexBuffer(clock, direction.indexed)
        self.overwrites = 0

    def expire(self, live: Live) -> None:
        """Let pairs expire; storage reclamation leaves no gaps."""
        keeps = live.has(self.pairs)
        if not keeps.all():
            self.pairs = self.pairs.take(keeps)
        self.overwrite_indexes.expire(live)

    def store(self, pairs: Pairs) -> None:
        """Insert pairs at their indexes; those with the lowest indexes may be overwritten."""
        new = self.direction.indexes(pairs)
        order = np.argsort(new, kind="stable")
        places = np.searchsorted(self.direction.indexes(self.pairs), new[order], side="right")
        first, second = (
            np.insert(ours, places, theirs[order])
            for ours, theirs in zip(self.pairs.numbers, pairs.numbers, strict=True)
        )
        expiry = np.insert(self.pairs.expiry, places, pairs.expiry[order])
        every = Pairs((first, second), expiry)
        beyond = max(0, len(every) - self.size)
        if beyond:
            self.lose(every.take(slice(0, beyond)))
        self.pairs = every.take(slice(beyond, None))

    def lose(self, pairs: Pairs) -> None:
        """Note the indexes of overwritten pairs."""
        self.overwrite_indexes.note(pairs)
        self.overwrites += len(pairs)

    def interval(self, live: Live) -> Interval:
        """Where pairs must be recomputed."""
        indexed = self.direction.indexed
        spans = self.overwrite_indexes.spans(live.firsts[indexed], live.following[indexed])
        return Interval(self.direction.younger, indexed, spans)

    def known(self, live: Live) -> Pairs:
        """The pairs that are not in the interval."""
        numbers = self.pairs.numbers[self.direction.indexed]
        outside = np.ones(len(self.pairs), np.bool_)
        for start, stop in self.interval(live).spans:
            outside &= (numbers < start) | (numbers >= stop)
        return self.pairs.take(outside)


class RecomputingStash:
    """The two stashes of a pair, which have half of the size each."""

    def __init__(self, size: int, clock: Clock, directions: tuple[Direction, Direction]) -> None:
        self.size = size
        half = (size + 1) // 2
        self.stashes = tuple(SortedStash(half, clock, one) for one in directions)
        self.indexed = frozenset(one.indexed for one in directions)
        self.recoveries = 0

    @property
    def is_valid(self) -> bool:
        """Whether no overwritten pair can be live."""
        return not any(len(stash.overwrite_indexes) for stash in self.stashes)

    @property
    def fill(self) -> int:
        """How many pairs they have."""
        return sum(len(stash.pairs) for stash in self.stashes)

    @property
    def overwrites(self) -> int:
        """How many pairs have been overwritten."""
        return sum(stash.overwrites for stash in self.stashes)

    @property
    def nbytes(self) -> int:
        """The memory of the pairs."""
        columns = [c for s in self.stashes for c in (*s.pairs.numbers, s.pairs.expiry)]
        return sum(column.nbytes for column in columns)

    def expire(self, live: Live) -> None:
        """Let pairs expire, and forget overwritten ones that have."""
        was_valid = self.is_valid
        for stash in self.stashes:
            stash.expire(live)
        if not was_valid and self.is_valid:
            self.recoveries += 1

    def store(self, younger: int, pairs: Pairs) -> None:
        """Store the pairs that a stream's arrivals have found."""
        self.stashes[younger].store(pairs)

    def lose(self, younger: int, pairs: Pairs) -> None:
        """Note pairs that have been found and cannot be stored."""
        self.stashes[younger].lose(pairs)

    def begin_without(self, live: Live) -> None:
        """Let all pairs of the tuples that are live now be recomputed."""
        if all(a < b for a, b in zip(live.firsts, live.following, strict=True)):
            for stash in self.stashes:
                stash.overwrite_indexes.note_all(live)

    def known(self, live: Live) -> Pairs:
        """The pairs that are not in an interval to recompute."""
        return Pairs.together([stash.known(live) for stash in self.stashes])

    def missing(self, live: Live) -> Sequence[Interval] | None:
        """The intervals to recompute; everything if that compares less.

        With intervals a tuple of S3 is compared with them and with the pairs, else with W_S1.
        """
        found = [one for one in (stash.interval(live) for stash in self.stashes) if len(one)]
        window = live.following[0] - live.firsts[0]
        pays = sum(map(len, found)) + self.fill < window
        return found if pays or not found else None
