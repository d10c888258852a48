"""The stash (Najafi 2019 §6.2.2): a circular buffer of S1–S2 pairs, with a valid bit for each.

Why it may be trusted. Every pair that is found is stored, or noted as overwritten. A valid bit is
cleared only when the pair has expired: one of its tuples has left its window, or no tuple of S3
that may still come is in reach of its times. So a live pair is in a slot with a valid bit, or has
been noted. The overwrite key buffer has the largest number of either stream among the noted pairs,
and the time at which the last of them expires. Once either window begins after that number, or that
time has come, no noted pair is live, and the stash has all live pairs again: it is *valid*.

Three things differ from the publication. It expires pairs by join key, and tuples with equal keys
would expire together; here a pair is known by the numbers of its tuples. It preserves the keys of
the pair that overwrites, and waits until both have expired; here the numbers are those of the pairs
that were overwritten, and one of the two is enough, since a pair expires with its first tuple. Out
of time order a tuple may expire before an older one; then the time decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.window.punctuator import Clock, Ticks

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a tuple of S1 and one of S2, by their numbers.

    ``expiry`` is the time from which on a tuple of S3 does not find the pair; the highest time if
    neither window is a time window.
    """

    numbers: tuple[Indices, Indices]
    expiry: Ticks

    def __len__(self) -> int:
        return len(self.expiry)

    def take(self, chosen: Indices | Mask | slice) -> Pairs:
        """Some of them."""
        first, second = self.numbers
        return Pairs((first[chosen], second[chosen]), self.expiry[chosen])

    @classmethod
    def none(cls, clock: Clock) -> Pairs:
        """No pairs."""
        nothing = np.empty(0, np.int64)
        return cls((nothing, nothing), clock.nothing)

    @classmethod
    def together(cls, parts: Sequence[Pairs]) -> Pairs:
        """The pairs of one or more parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        first, second = (np.concatenate([part.numbers[i] for part in parts]) for i in (0, 1))
        return cls((first, second), np.concatenate([part.expiry for part in parts]))


@dataclass(frozen=True)
class Live:
    """Which tuples of S1 and S2 are live.

    Parameters
    ----------
    firsts
        The number of the first tuple in the window of S1, and of S2.
    following
        The number that the next tuple of S1, and of S2, will have.
    time
        No tuple of S3 will have an earlier time.
    """

    firsts: tuple[int, int]
    following: tuple[int, int]
    time: int | float

    def has(self, pairs: Pairs) -> Mask:
        """Which pairs have not expired."""
        first, second = pairs.numbers
        live: Mask = (first >= self.firsts[0]) & (second >= self.firsts[1])
        return live & (pairs.expiry > self.time)


@dataclass(frozen=True)
class Interval:
    """A part of a window in which pairs of the stash are missing.

    Parameters
    ----------
    younger
        The stream whose arrival made these pairs: 0 for S1, 1 for S2.
    indexed
        The stream whose window it is a part of.
    spans
        The first number and the one after the last; two of them if it goes round the end.
    """

    younger: int
    indexed: int
    spans: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.spans)


class AnyStash(Protocol):
    """A stash, as the first stage uses it."""

    @property
    def size(self) -> int:
        """How many pairs it has room for."""

    @property
    def indexed(self) -> frozenset[int]:
        """In whose windows there may be intervals to recompute: 0 for S1, 1 for S2."""

    @property
    def overwrites(self) -> int:
        """How many pairs have been overwritten."""

    @property
    def recoveries(self) -> int:
        """How often it has become valid again."""

    @property
    def is_valid(self) -> bool:
        """Whether it has all live pairs."""

    @property
    def fill(self) -> int:
        """How many pairs it has."""

    @property
    def nbytes(self) -> int:
        """The memory of its slots."""

    def expire(self, live: Live) -> None:
        """Let pairs expire, and recover if no overwritten pair is live."""

    def store(self, younger: int, pairs: Pairs) -> None:
        """Store the pairs that tuples of S1 (``younger`` 0) or of S2 (1) have found."""

    def lose(self, younger: int, pairs: Pairs) -> None:
        """Note pairs that have been found and cannot be stored: they count as overwritten."""

    def begin_without(self, live: Live) -> None:
        """Note that no pair of the tuples that are live is here."""

    def known(self, live: Live) -> Pairs:
        """The pairs that a tuple of S3 is compared with."""

    def missing(self, live: Live) -> Sequence[Interval] | None:
        """The parts of the windows in which it needs other pairs; None: it needs all of them."""


class OverwriteKeyBuffer:
    """The youngest tuple of each stream among overwritten pairs, and when the last one expires."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget what was overwritten."""
        self.numbers = (-1, -1)
        self.expiry = self._clock.lowest

    def note(self, pairs: Pairs) -> None:
        """Preserve overwritten pairs."""
        first, second = (int(numbers.max()) for numbers in pairs.numbers)
        self.numbers = (max(self.numbers[0], first), max(self.numbers[1], second))
        self.expiry = max(self.expiry, pairs.expiry.max().item())

    def note_all(self, live: Live) -> None:
        """Preserve every pair of the tuples that are live."""
        self.numbers = (live.following[0] - 1, live.following[1] - 1)
        self.expiry = self._clock.highest

    def passed(self, live: Live) -> tuple[bool, bool, bool]:
        """The marks: whether S1's tuple, S2's tuple and the time have passed. One is enough."""
        first, second = self.numbers
        return live.firsts[0] > first, live.firsts[1] > second, live.time >= self.expiry


class Stash:
    """The published stash, in one of two states.

    *Valid*: it has all live pairs, and stores new ones in empty slots. *Invalid*: a live pair has
    been overwritten; it stores new ones slot after slot, whatever is there, and nothing is compared
    with it until it has recovered.
    """

    indexed: frozenset[int] = frozenset()

    def __init__(self, size: int, clock: Clock) -> None:
        self.size = size
        self._clock = clock
        numbers = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._slots = Pairs(numbers, np.zeros(size, clock.dtype))
        self.valid_bits: Mask = np.zeros(size, np.bool_)
        self._next = 0
        self.is_valid = True
        self.overwrite_keys = OverwriteKeyBuffer(clock)
        self.overwrites = 0
        self.recoveries = 0

    @property
    def fill(self) -> int:
        """How many slots have a valid bit."""
        return int(np.count_nonzero(self.valid_bits))

    @property
    def nbytes(self) -> int:
        """The memory of the slots."""
        first, second = self._slots.numbers
        return first.nbytes + second.nbytes + self._slots.expiry.nbytes + self.valid_bits.nbytes

    def expire(self, live: Live) -> None:
        """Clear the valid bits of expired pairs; recover once no overwritten pair is live."""
        self.valid_bits &= live.has(self._slots)
        if not self.is_valid and any(self.overwrite_keys.passed(live)):
            self.is_valid = True
            self.recoveries += 1
            self.overwrite_keys.clear()

    def store(self, younger: int, pairs: Pairs) -> None:
        """Store pairs in empty slots, as long as there are any; then one slot after the other."""
        fits = 0
        if self.is_valid:
            empty = np.flatnonzero(~self.valid_bits)
            empty = np.roll(empty, -int(np.searchsorted(empty, self._next)))[: len(pairs)]
            fits = len(empty)
            self._put(empty, pairs.take(slice(0, fits)))
        rest = pairs.take(slice(fits, None))
        # Of more pairs than there are slots, later ones overwrite earlier ones.
        beyond = max(0, len(rest) - self.size)
        if beyond:
            self.lose(younger, rest.take(slice(0, beyond)))
        following = rest.take(slice(beyond, None))
        slots = (self._next + np.arange(len(following))) % self.size
        overwritten = slots[self.valid_bits[slots]]
        if len(overwritten):
            self.lose(younger, self._slots.take(overwritten))
        self._put(slots, following)

    def _put(self, slots: Indices, pairs: Pairs) -> None:
        """Write pairs into slots; the search for the next one begins after the last of them."""
        if not len(slots):
            return
        for column, numbers in zip(self._slots.numbers, pairs.numbers, strict=True):
            column[slots] = numbers
        self._slots.expiry[slots] = pairs.expiry
        self.valid_bits[slots] = True
        self._next = (int(slots[-1]) + 1) % self.size

    def lose(self, younger: int, pairs: Pairs) -> None:
        """Preserve overwritten pairs: the stash is invalid."""
        self.overwrite_keys.note(pairs)
        self.is_valid = False
        self.overwrites += len(pairs)

    def begin_without(self, live: Live) -> None:
        """Be invalid until the tuples that are live now have left."""
        if all(a < b for a, b in zip(live.firsts, live.following, strict=True)):
            self.overwrite_keys.note_all(live)
            self.is_valid = False

    def known(self, live: Live) -> Pairs:
        """All pairs that have a valid bit, or none in the invalid state."""
        return self._slots.take(self.valid_bits) if self.is_valid else Pairs.none(self._clock)

    def missing(self, live: Live) -> Sequence[Interval] | None:
        """Nothing, or everything in the invalid state."""
        return () if self.is_valid else None
