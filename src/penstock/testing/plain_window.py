"""A core's sub-window in plain Python: small, and quick to copy and compare.

Drivers that explore every schedule, or run chains of many cores, use it in place of
:class:`penstock.flows.sub_window.SubWindow`. It finds the same pairs, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.partner_search import FoundPairs
from penstock.flows.sub_window import NO_NUMBERS, MakePart

EXPIRED = -(1 << 62)
"""The expiry of a tuple that has expired."""
NEVER = float("-inf")


class PlainTuple(NamedTuple):
    """One tuple, with the fields of :class:`penstock.blocks.join.partner_search.Arrivals`."""

    seq: int
    rank: int
    lo: int
    hi: int
    key: Any
    low: int | None = None
    upper: int | None = None
    expiry: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """Consecutive tuples of one stream."""

    side: int
    tuples: tuple[PlainTuple, ...]

    @property
    def seqs(self) -> tuple[int, ...]:
        """The tuples' sequence numbers."""
        return tuple(t.seq for t in self.tuples)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The tuples' ranks in the order of both streams."""
        return tuple(t.rank for t in self.tuples)

    @property
    def lo(self) -> tuple[int, ...]:
        """For each, the first sequence number of the other stream that it may join."""
        return tuple(t.lo for t in self.tuples)

    def __len__(self) -> int:
        return len(self.tuples)

    def part(self, start: int, stop: int) -> PlainGroup:
        """A slice of the tuples."""
        return PlainGroup(self.side, self.tuples[start:stop])

    def take(self, which: Iterable[int]) -> PlainGroup:
        """The tuples at these indices."""
        return PlainGroup(self.side, tuple(self.tuples[i] for i in which))


Matches = Callable[[Any, Any], bool]
"""The predicate over the keys of R and of S."""


def always(left: Any, right: Any) -> bool:
    """Every two tuples match."""
    return True


@dataclass(frozen=True, slots=True)
class PlainLive:
    """The live tuples of a stream, by the numbers that cores know, and those that none has."""

    tuples: tuple[PlainTuple, ...]
    known: tuple[int, ...]
    new: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlainChange:
    """A change, with the fields of :class:`penstock.blocks.join.partner_search.Change`.

    ``spans``: those of time windows from here on; ``passed``: the times up to which tuples of each
    stream have expired.
    """

    matches: Matches
    before: tuple[int, int]
    live: tuple[int, int]
    spans: tuple[int | None, int | None] = (None, None)
    passed: tuple[float, float] = (NEVER, NEVER)
    sent: tuple[PlainLive, PlainLive] | None = None

    def __str__(self) -> str:
        return f"a change before R {self.before[0]} and S {self.before[1]}"

    def new(self, side: int) -> npt.NDArray[np.int64]:
        """The numbers of the tuples of a stream that no core has."""
        return np.array(() if self.sent is None else self.sent[side].new, np.int64)

    def number(self, side: int, seq: int) -> int:
        """The first live number from here on of the tuples from this number on."""
        if self.sent is None or seq >= self.before[side]:
            return seq
        live = zip(self.sent[side].known, self.sent[side].tuples, strict=True)
        return next((t.seq for known, t in live if known >= seq), self.before[side])

    def changed(self, group: PlainGroup, added: npt.NDArray[np.int64]) -> PlainGroup:
        """Tuples that arrived before, as they are from here on: the live ones, and ``added``."""
        side = group.side
        if self.sent is None:
            kept = [self._kept(side, t) for t in group.tuples]
        else:
            here = {*group.seqs, *map(int, added)}
            live = zip(self.sent[side].known, self.sent[side].tuples, strict=True)
            kept = [t for known, t in live if known in here]
        return PlainGroup(side, tuple(t for t in kept if t.seq >= self.live[side]))

    def _kept(self, side: int, stored: PlainTuple) -> PlainTuple:
        span, expiry = self.spans[side], stored.expiry
        if span is not None and stored.time is not None and expiry is not None:
            expiry = EXPIRED if expiry <= self.passed[side] else stored.time + span
        upper = None if stored.upper is None else expiry
        return stored._replace(lo=0, upper=upper, expiry=expiry)


class PlainWindow:
    """Tuples of one side, oldest first."""

    kernel = "nested-loop"

    def __init__(self, side: int, matches: Matches = always) -> None:
        self.side = side
        self.comparisons = 0
        self._matches = matches
        self._tuples: tuple[PlainTuple, ...] = ()

    def __len__(self) -> int:
        return len(self._tuples)

    def fork(self) -> PlainWindow:
        """An independent copy."""
        copy = PlainWindow(self.side, self._matches)
        copy._tuples = self._tuples
        return copy

    def key(self) -> object:
        """The state as a key, to compare windows of the same core."""
        return self._matches, self._tuples

    def change(self, change: PlainChange, added: npt.NDArray[np.int64] = NO_NUMBERS) -> None:
        """Take another program for the live tuples that are stored, and for ``added`` ones."""
        self._matches = change.matches
        self._tuples = change.changed(PlainGroup(self.side, self._tuples), added).tuples

    def append(self, arrivals: PlainGroup) -> None:
        """Store tuples, which are younger than all stored ones."""
        self._tuples += arrivals.tuples

    def drop(self, count: int) -> None:
        """Drop the oldest tuples."""
        self._tuples = self._tuples[count:]

    def oldest(self, start: int, stop: int) -> PlainGroup:
        """The tuples from ``start`` to ``stop``, counted from the oldest."""
        return PlainGroup(self.side, self._tuples[start:stop])

    def count_before(self, seq: int) -> int:
        """The number of tuples with smaller sequence numbers."""
        count = 0
        for stored in self._tuples:
            if stored.seq >= seq:
                break
            count += 1
        return count

    def older(self, probes: PlainGroup, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived before it."""
        return self._found(
            (probe, stored)
            for probe in probes.tuples
            for stored in self._tuples
            if sees(probe, stored)
        )

    def younger(
        self, probes: PlainGroup, met_before: int, compiled: bool = True
    ) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here that arrived after it."""
        return self._found(
            (probe, stored)
            for probe in probes.tuples
            for stored in self._tuples
            if stored.seq >= max(probe.hi, met_before) and sees(stored, probe)
        )

    def both(self, probes: PlainGroup, compiled: bool = True) -> Iterator[FoundPairs]:
        """The pairs of each probe with the tuples here, whichever of the two arrived first."""
        yield from self.older(probes, compiled)
        yield from self.younger(probes, 0, compiled)

    def _found(self, candidates: Iterable[tuple[PlainTuple, PlainTuple]]) -> Iterator[FoundPairs]:
        pairs = []
        for probe, stored in candidates:
            self.comparisons += 1
            left, right = (probe, stored) if self.side == 1 else (stored, probe)
            if self._matches(left.key, right.key):
                pairs.append((left.seq, right.seq, max(left.rank, right.rank)))
        if pairs:
            lefts, rights, ranks = cast(Any, tuple(zip(*pairs, strict=True)))
            yield FoundPairs(lefts, rights, ranks, ())  # type: ignore[arg-type]


def sees(younger: PlainTuple, older: PlainTuple) -> bool:
    """Whether the older tuple is live for the younger, by the younger's bounds."""
    if not younger.lo <= older.seq < younger.hi:
        return False
    if younger.low is None or older.expiry is None:
        return True
    if older.expiry <= younger.low:
        return False
    return younger.upper is None or older.time is None or older.time < younger.upper


def plain_parts(matches: Matches = always) -> MakePart:
    """A factory of plain windows, for a flow."""
    return lambda side: PlainWindow(side, matches)
