"""Storage around the first stage: S1 & S2 storage and expiration, results, the access lock."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from penstock.blocks.multiway.combination_search import Combinations, SearchProgram, known
from penstock.blocks.window.window import StoredWindow
from penstock.flows.circular.stage import JoinCore
from penstock.flows.multi_flow import NewTuples
from penstock.flows.stashed.stash import AnyStash, Live, Pairs
from penstock.streams.windows import Range, Rows
from penstock.tuning import TUNING


@dataclass(frozen=True)
class Roles:
    """Which input of the join is S1, S2 and S3: the pair of the stash, and the third stream."""

    first: int
    second: int
    third: int

    @property
    def pair(self) -> tuple[int, int]:
        """S1 and S2."""
        return self.first, self.second


class WindowAccessLock:
    """Lets one stage at a time have a window that both can reach; ``stalls`` counts who waited.

    The first stage writes it, the second reads it (the write conflict of Table 6.3.1). Both may
    read at once: the window has a read port for either, with keys of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stalls = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the window for as long as the ``with``."""
        if not self._lock.acquire(blocking=False):
            self.stalls += 1
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


@dataclass(frozen=True)
class ReadPort:
    """The second stage's access to the window of an input of the pair."""

    input: int
    core: JoinCore
    lock: WindowAccessLock


class StorageAndExpirationUnit:
    """Stores new tuples of S1 and S2 in their windows, and says which of them are live.

    Parameters
    ----------
    program, roles
        The join.
    windows
        Those of S1 and S2, as the first stage reads them.
    ports
        The second stage's access to them.
    """

    def __init__(
        self,
        program: SearchProgram,
        roles: Roles,
        windows: Sequence[JoinCore],
        ports: Sequence[ReadPort],
    ) -> None:
        self._sides = program.sides
        self._roles = roles
        self._windows = windows
        self._ports = ports
        pair = [program.sides[input] for input in roles.pair]
        first, second = (side.rows.first for side in pair)
        self.live = Live((first, second), self._following, pair[0].clock.lowest)
        """As of the last chunk."""
        self._firsts: tuple[int, ...] = ()

    @property
    def _following(self) -> tuple[int, int]:
        first, second = self._windows
        return first.next, second.next

    def begin_with(self, tuples: NewTuples) -> Live:
        """What is live when a chunk comes; the block may have dropped tuples before it."""
        first, second = (
            max(was, tuples.firsts[input])
            for was, input in zip(self.live.firsts, self._roles.pair, strict=True)
        )
        self.live = Live((first, second), self._following, self.live.time)
        return self.live

    def store(self, tuples: NewTuples) -> None:
        """Store the chunk's tuples; to write a window that the second stage reads, wait.

        Tuples that the block has dropped are dropped with the first chunk of a batch, when the
        second stage reads nothing.
        """
        for core in self._windows:
            core.store(tuples)
        for port in self._ports:
            if port.input in tuples.origins or tuples.firsts != self._firsts:
                with port.lock.held():
                    port.core.store(tuples)
        self._firsts = tuples.firsts

    def expire(self, tuples: NewTuples) -> Live:
        """What is live after a chunk. Times are known at the end of a batch."""
        firsts = []
        for was, following, input in zip(
            self.live.firsts, self._following, self._roles.pair, strict=True
        ):
            window = self._sides[input].window
            if isinstance(window, Rows):
                firsts.append(max(was, following - window.size))
            else:
                firsts.append(was if tuples.live is None else max(was, tuples.live[input]))
        time = self.live.time
        if tuples.live is not None:
            time = max(time, self._earliest())
        self.live = Live((firsts[0], firsts[1]), self._following, time)
        return self.live

    def _earliest(self) -> int | float:
        """No tuple of S3 that finds pairs has an earlier time from now on.

        A tuple of a count window is never late; the block lets a tuple of a time window expire when
        the punctuations of all other streams have reached its end.
        """
        third = self._sides[self._roles.third]
        sides = [third] if isinstance(third.window, Range) else self._sides
        return min(side.punctuator.punctuation for side in sides)


class ResultStorageUnit:
    """Holds the pairs of a chunk until they are granted storage in the stash.

    It holds no more than the stash or a message has room for. If there are more, the oldest ones
    count as overwritten; then it has not all pairs of the chunk, and ``is_complete`` is False.
    """

    def __init__(self, program: SearchProgram, roles: Roles, stash: AnyStash) -> None:
        self._pair = [program.sides[input] for input in roles.pair]
        self._inputs = len(program.sides)
        self._stash = stash
        self._parts: list[tuple[int, Combinations]] = []
        self._count = 0
        self.is_complete = True

    def take(self, younger: int, found: Combinations) -> None:
        """Hold pairs that arrivals of S1 (``younger`` 0) or of S2 (1) have found."""
        if len(found):
            self._parts.append((younger, found))
            self._count += len(found)
        while self._count > max(self._stash.size, TUNING.pairs_per_message):
            oldest, lost = self._parts.pop(0)
            self._stash.lose(oldest, self._pairs(lost))
            self._count -= len(lost)
            self.is_complete = False

    def held(self, before: Pairs) -> Combinations:
        """The pairs that it holds, and those of earlier chunks."""
        parts = [found for _, found in self._parts]
        earlier = np.full(len(before), -1)
        ranks = np.concatenate([earlier, *(part.ranks for part in parts)])
        members: list[np.ndarray | None] = [None] * self._inputs
        for side, numbers in zip(self._pair, before.numbers, strict=True):
            theirs = (known(part.members[side.index]) for part in parts)
            members[side.index] = np.concatenate([numbers, *theirs])
        return Combinations(ranks, tuple(members))

    def grant(self, live: Live) -> None:
        """Store what is live: expired pairs have left the stash."""
        for younger, found in self._parts:
            pairs = self._pairs(found)
            self._stash.store(younger, pairs.take(live.has(pairs)))
        self._parts, self._count, self.is_complete = [], 0, True

    def _pairs(self, found: Combinations) -> Pairs:
        first, second = (known(found.members[side.index]) for side in self._pair)
        return Pairs((first, second), _expiry(self._pair, (first, second)))


def _expiry(pair: Sequence[StoredWindow], numbers: Sequence[np.ndarray]) -> np.ndarray:
    """When pairs expire by time: with the first of their tuples."""
    clock = pair[0].clock
    ends = [
        side.expiry.view()[seqs - side.rows.first]
        for side, seqs in zip(pair, numbers, strict=True)
        if isinstance(side.window, Range)
    ]
    never = np.full(len(numbers[0]), clock.highest, clock.dtype)
    return functools.reduce(np.minimum, ends, never)
