"""The interface between a join block and a flow: arrivals in, pairs out.

The block has the windows: it decides which tuples are late, numbers the others, and computes the
candidates of each in the other stream. It stores whole tuples; a flow sees keys and numbers only.
The flow compares each tuple with its candidates, on any of its cores, and returns the pairs that
match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.kernels.predicate.predicate import Predicate
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
    """A piece of the input: what arrived on both streams, and how far that moved the windows.

    Parameters
    ----------
    arrivals
        The tuples of R and of S.
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

    arrivals: tuple[Arrivals, Arrivals]
    ranks: tuple[int, int]
    seen: tuple[int, int]
    live: tuple[int, int]
    punctuations: tuple[int | float, int | float] | None
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
        left, right = self.arrivals
        first = (left.part(0, cuts[0]), right.part(0, cuts[1]))
        second = (left.part(cuts[0], len(left)), right.part(cuts[1], len(right)))
        seen = [int(a.seqs[-1]) + 1 if len(a) else 0 for a in first]
        # Later tuples of a stream carry the time from which on their partners are.
        earliest = [None if a.low is None or not len(a) else a.low.min().item() for a in second]
        punctuations = None
        if self.punctuations is not None:
            left_punctuation, right_punctuation = (
                after if before is None else min(before, after)
                for before, after in zip(earliest, self.punctuations, strict=True)
            )
            punctuations = (left_punctuation, right_punctuation)
        begun = Chunk(
            first,
            (self.ranks[0], rank),
            (seen[0], seen[1]),
            (0, 0),
            punctuations,
            self.compiled,
            self.entered,
        )
        return begun, replace(self, arrivals=second, ranks=(rank, self.ranks[1]))


def is_light(arrivals: tuple[Arrivals, Arrivals], ranks: tuple[int, int]) -> bool:
    """Whether it is a single-tuple push whose candidate range is small."""
    if ranks[1] - ranks[0] != 1:
        return False
    return all([not len(a) or int(a.hi[0]) - int(a.lo[0]) <= TUNING.light_probe for a in arrivals])


@dataclass(frozen=True, eq=False)
class FoundPairs:
    """Pairs that match: numbers in R and in S, and the rank of the younger of the two.

    ``entries`` numbers the older one among all tuples that its core has ever stored; ``found_at``
    is when the pair was found, in nanoseconds of the monotonic clock.
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


def no_pairs() -> FoundPairs:
    """No pairs."""
    return _NO_PAIRS


@dataclass(frozen=True)
class Rule:
    """A query as cores see it: the predicate, and the kernel that searches by it.

    ``window_rows`` is the size of each stream's count window, None for others.
    """

    predicate: Predicate
    kernel: str
    window_rows: tuple[int | None, int | None]
    clock_lowest: int | float


class PartnerSearch(Protocol):
    """A flow, as a join block uses it."""

    complete_at_once: bool
    """Whether ``take`` gives all pairs of its chunk."""

    def program(self, rule: Rule, windows: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Start with this rule and these windows; the pairs within them have been found already.

        ``rank`` is that of the next arrival. Earlier chunks have been completed.
        """

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
