"""The interface between a join block and a flow: arrivals in, pairs out.

The block has the windows: it decides which tuples are late, numbers the others, and computes the
candidates of each in the other stream. It stores whole tuples; a flow sees keys and numbers only.
The flow compares each tuple with its candidates, on any of its cores, and returns the pairs that
match.

A change of the program is a message in the same order: it has what cores cannot know, and cores
that have it all are sent nothing else. See :class:`Change`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.window.punctuator import Clock
from penstock.kernels.predicate.predicate import Predicate
from penstock.streams.windows import Range, Window
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Tuples of one stream in arrival order, as join cores see them.

    Parameters
    ----------
    side
        0 for R, the left stream, 1 for S.
    seqs
        Their numbers in their stream; ascending, with gaps where a tuple cannot match.
    ranks
        Their places in the arrival order of both streams together.
    lo, hi
        Of the other stream, the tuples ``lo .. hi - 1`` are stored when this one arrives, by
        their numbers. A younger tuple's own ``lo`` says whether this one is its candidate.
    keys, valid
        What the predicate reads, and where it is not NULL (None: nowhere).
    low, upper
        If the other stream has a time window: the partner must expire after ``low`` and, where
        there is an ``upper``, have a time before it.
    expiry, time
        If this stream has a time window: when the tuple leaves it, and its own time.
    """

    side: int
    seqs: Indices
    ranks: Indices
    lo: Indices
    hi: Indices
    keys: tuple[Array, ...]
    valid: tuple[Mask | None, ...]
    low: Array | None = None
    upper: Array | None = None
    expiry: Array | None = None
    time: Array | None = None

    def __len__(self) -> int:
        return len(self.seqs)

    def part(self, start: int, stop: int) -> Arrivals:
        """A slice of the tuples."""
        return self.take(slice(start, stop))

    def __getitem__(self, which: slice) -> Arrivals:
        """A slice of the tuples."""
        return self.take(which)

    def take(self, which: Indices | Mask | slice) -> Arrivals:
        """The tuples at these places."""

        def taken(column: Any) -> Any:
            return None if column is None else column[which]

        numbers = map(taken, (self.seqs, self.ranks, self.lo, self.hi))
        keys = (tuple(map(taken, columns)) for columns in (self.keys, self.valid))
        times = map(taken, (self.low, self.upper, self.expiry, self.time))
        return Arrivals(self.side, *numbers, *keys, *times)


@dataclass(frozen=True, eq=False)
class Chunk:
    """A piece of the input: what arrived on each stream, and how far that moved the windows.

    Parameters
    ----------
    arrivals
        The tuples of each stream.
    ranks
        The first rank of the piece, and the one after its last. Punctuations have ranks too.
    seen
        For each stream, the count of its tuples up to the end of the piece; 0 if a later piece
        says.
    live
        For each stream, the first number that is still in its window after the piece.
    punctuations
        The punctuation of each stream: no later tuple of it has an earlier time. None if a later
        piece says.
    compiled
        Whether the compiled predicate is valid for these values; if not, every candidate is a
        pair, and the block evaluates the predicate.
    entered
        When it came in, in nanoseconds of the monotonic clock.
    is_light
        Whether waking a thread takes longer than processing it: see :func:`is_light`.
    """

    arrivals: tuple[Arrivals, ...]
    ranks: tuple[int, int]
    seen: tuple[int, ...]
    live: tuple[int, ...]
    punctuations: tuple[int | float, ...] | None
    compiled: bool = True
    entered: int = 0
    is_light: bool = False

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        named = [
            f"{'RS'[a.side]} {a.seqs[0]}..{a.seqs[-1]}"
            if len(a) > 1
            else f"{'RS'[a.side]} {a.seqs[0]}"
            for a in self.arrivals
            if len(a)
        ]
        return f"tuples {' and '.join(named)}" if named else "a punctuation"

    def until(self, rank: int) -> tuple[Chunk, Chunk]:
        """Cut it in two before a rank; the windows move as far as the first part says."""
        cuts = [int(np.searchsorted(a.ranks, rank)) for a in self.arrivals]
        parts = list(zip(self.arrivals, cuts, strict=True))
        first = tuple([a.part(0, cut) for a, cut in parts])
        second = tuple([a.part(cut, len(a)) for a, cut in parts])
        seen = tuple([int(a.seqs[-1]) + 1 if len(a) else 0 for a in first])
        # Later tuples of a stream carry the time from which on their partners are.
        earliest = [None if a.low is None or not len(a) else a.low.min().item() for a in second]
        punctuations = None
        if self.punctuations is not None:
            punctuations = tuple(
                after if before is None else min(before, after)
                for before, after in zip(earliest, self.punctuations, strict=True)
            )
        begun = Chunk(
            first,
            (self.ranks[0], rank),
            seen,
            (0,) * len(seen),
            punctuations,
            self.compiled,
            self.entered,
        )
        return begun, replace(self, arrivals=second, ranks=(rank, self.ranks[1]))


def is_light(arrivals: tuple[Arrivals, ...], ranks: tuple[int, int]) -> bool:
    """Whether it is a single-tuple push whose candidate range is small."""
    if ranks[1] - ranks[0] != 1:
        return False
    return all([not len(a) or int(a.hi[0]) - int(a.lo[0]) <= TUNING.light_probe for a in arrivals])


@dataclass(frozen=True, eq=False)
class FoundPairs:
    """Pairs that match: numbers in R and in S, and the rank of the younger of the two.

    ``entries`` are the numbers of the older ones; ``found_at`` is when the pairs were found, in
    nanoseconds of the monotonic clock.
    """

    left: Indices
    right: Indices
    ranks: Indices
    entries: Indices
    found_at: int = 0

    def __len__(self) -> int:
        return len(self.left)


_NOTHING: Indices = np.empty(0, np.int64)
_NO_PAIRS = FoundPairs(_NOTHING, _NOTHING, _NOTHING, _NOTHING)


def concatenated(found: Sequence[FoundPairs]) -> FoundPairs:
    """The pairs of several messages, in their order."""
    if len(found) == 1:
        return found[0]
    return FoundPairs(
        np.concatenate([one.left for one in found]),
        np.concatenate([one.right for one in found]),
        np.concatenate([one.ranks for one in found]),
        np.concatenate([one.entries for one in found]),
        found[-1].found_at,
    )


def no_pairs() -> FoundPairs:
    """No pairs."""
    return _NO_PAIRS


@dataclass(frozen=True)
class Rule:
    """A query as cores see it: the predicate, and the kernel that searches by it.

    ``window_rows`` is the size of each stream's count window, None for others. ``order`` is the one
    in which pairs are asked for, and its precision; None: that of before.
    """

    predicate: Predicate
    kernel: str
    window_rows: tuple[int | None, ...]
    order: tuple[str, int] | None = None


@dataclass(frozen=True, eq=False)
class LiveTuples:
    """The live tuples of a stream, sent to cores that have none of them or other keys of them.

    Parameters
    ----------
    arrivals
        The tuples; their bounds let them be compared with later tuples only.
    known
        The numbers by which cores know them: others than those of ``arrivals`` if the block has
        numbered them anew. Ascending.
    new
        The numbers of those that no core has, ascending.
    """

    arrivals: Arrivals
    known: Indices
    new: Indices

    def places(self, seqs: Indices, added: Indices) -> Indices:
        """The indices of the tuples that a core knows by these numbers, and of ``added`` ones."""
        found = self._where(seqs)
        return np.union1d(found, self._where(added)) if len(added) else found

    def _where(self, seqs: Indices) -> Indices:
        where = self.known.searchsorted(seqs)
        where = where[: int(where.searchsorted(len(self.known)))]  # they ascend
        found: Indices = where[self.known[where] == seqs[: len(where)]]
        return found


@dataclass(frozen=True)
class Lifetimes:
    """How the times of stored tuples become their expiry in windows of another size.

    Parameters
    ----------
    clock, windows
        The clock of the query, and the windows from here on.
    ratio
        How much finer the clock ticks from here on.
    passed
        For each stream, the time (in ticks as before) up to which its tuples have expired: they
        stay expired in a larger window.
    """

    clock: Clock
    windows: tuple[Window, ...]
    ratio: int
    passed: tuple[int | float, ...]

    def times(
        self,
        side: int,
        low: Array | None,
        upper: Array | None,
        expiry: Array | None,
        time: Array | None,
    ) -> tuple[Array | None, Array | None, Array | None, Array | None]:
        """These columns of stored tuples (see :class:`Arrivals`) from here on."""
        low, time = self._scaled(low), self._scaled(time)
        window = self.windows[side]
        if expiry is None or time is None or not isinstance(window, Range):
            return low, upper, expiry, time
        lowest = self.clock.lowest
        expiry = np.where(expiry <= self.passed[side], lowest, self.clock.expiry(time, window))
        return low, None if upper is None else expiry, expiry, time

    def _scaled(self, times: Array | None) -> Array | None:
        return times if times is None or self.ratio == 1 else self.clock.scaled(times, self.ratio)


@dataclass(frozen=True, eq=False)
class Change:
    """A change of the program, in one order with the tuples: the first program too.

    A pair belongs to the program in force when its younger tuple arrives. So a core compares by
    the old one until all pairs of tuples before the change have met there. Where tuples are stored
    does not change.

    Parameters
    ----------
    rule
        The rule from here on.
    before
        For each stream, the number of the first tuple after the change.
    live
        For each stream, the first number that is in its window from here on.
    lifetimes
        How stored times become expiries; None if they stay as they are, or tuples are sent.
    sent
        The live tuples of each stream; None if cores have the keys of them, or nothing is stored.
    """

    rule: Rule
    before: tuple[int, ...]
    live: tuple[int, ...]
    lifetimes: Lifetimes | None = None
    sent: tuple[LiveTuples, ...] | None = None

    def __str__(self) -> str:
        """Where it is, for an error to say where."""
        return f"a change before R {self.before[0]} and S {self.before[1]}"

    def new(self, side: int) -> Indices:
        """The numbers of the tuples of a stream that no core has."""
        return _NOTHING if self.sent is None else self.sent[side].new

    def number(self, side: int, seq: int) -> int:
        """The first live number from here on of the tuples from this number on."""
        if self.sent is None or seq >= self.before[side]:
            return seq
        sent = self.sent[side]
        place = int(sent.known.searchsorted(seq))
        return int(sent.arrivals.seqs[place]) if place < len(sent.known) else self.before[side]

    def changed(self, group: Arrivals, added: Indices) -> Arrivals:
        """Tuples that arrived before, as they are from here on: the live ones, and ``added``."""
        side = group.side
        if self.sent is not None:
            sent = self.sent[side]
            return sent.arrivals.take(sent.places(group.seqs, added))
        if self.lifetimes is not None:
            columns = group.low, group.upper, group.expiry, group.time
            low, upper, expiry, time = self.lifetimes.times(side, *columns)
            group = replace(group, low=low, upper=upper, expiry=expiry, time=time)
        cut = int(group.seqs.searchsorted(self.live[side]))
        return replace(group, lo=np.zeros_like(group.lo)).part(cut, len(group))


class PartnerSearch(Protocol):
    """A flow, as a join block uses it."""

    complete_at_once: bool
    """Whether ``take`` gives all pairs of its chunk."""

    keeps_tuples: bool
    """Whether cores keep their tuples at a change; if not, every change sends them."""

    def change(self, change: Change) -> None:
        """Send a change behind the arrivals so far. The pairs of these have been found."""

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in; yields the pairs found by now, of these and of earlier ones."""

    def complete(self) -> Iterator[FoundPairs]:
        """Find all remaining pairs of the arrivals so far."""

    def oldest(self, side: int) -> int | None:
        """The first number that may still be in a pair; None if only live tuples may."""

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""

    def close(self) -> None:
        """Let the cores go."""
