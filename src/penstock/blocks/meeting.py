"""What a join block and a flow say to each other.

The block knows the windows: it judges every tuple, numbers it, and says which tuples of the other
stream it may meet. It keeps whole tuples; a flow sees keys and numbers only. The flow makes every
two tuples meet that may, on whichever of its cores, and gives back the pairs that match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.kernels.predicate import Predicate

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
LIGHT = 1 << 18
"""Comparisons that take about as long as it takes to wake a thread: some fifty microseconds."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Tuples of one stream in arrival order, as join cores see them.

    Parameters
    ----------
    side
        0 for R, the left stream, 1 for S.
    seqs
        Their numbers in their stream; ascending, with gaps where a tuple cannot match anyone.
    ranks
        Their places in the arrival order of both streams together.
    lo, hi
        Of the other stream, the tuples ``lo .. hi - 1`` are there when this one arrives, as far as
        numbers tell. A younger tuple's own ``lo`` says whether it may meet this one.
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

    def columns(self) -> list[Array | None]:
        """All columns, in a fixed order."""
        fixed = [self.seqs, self.ranks, self.lo, self.hi]
        times = [self.low, self.upper, self.expiry, self.time]
        return [*fixed, *self.keys, *self.valid, *times]

    def of_columns(self, columns: Sequence[Array | None]) -> Arrivals:
        """Arrivals like these, with other columns, in the order of :meth:`columns`."""
        count = len(self.keys)
        given: list[Any] = list(columns)
        seqs, ranks, lo, hi = given[:4]
        keys, valid = tuple(given[4 : 4 + count]), tuple(given[4 + count : 4 + 2 * count])
        low, upper, expiry, time = given[4 + 2 * count :]
        return Arrivals(self.side, seqs, ranks, lo, hi, keys, valid, low, upper, expiry, time)

    def part(self, start: int, stop: int) -> Arrivals:
        """Neighbouring ones of these."""
        return self.of_columns([None if c is None else c[start:stop] for c in self.columns()])

    def take(self, which: Indices | Mask | slice) -> Arrivals:
        """Some of these."""
        return self.of_columns([None if c is None else c[which] for c in self.columns()])


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
        For each stream, how many numbers have been given after the piece; 0 if a later piece says.
    live
        For each stream, the first number that is still in its window after the piece.
    promises
        For each stream, before which time no further tuple of it comes; None if a later piece says.
    compiled
        Whether the compiled predicate holds good for these values; if not, every two tuples that
        may meet are a pair, and the block looks at them.
    entered
        When it came in, in nanoseconds of the monotonic clock.
    is_light
        Whether to wake a thread for it takes longer than to do it: see :func:`is_light`.
    """

    arrivals: tuple[Arrivals, Arrivals]
    ranks: tuple[int, int]
    seen: tuple[int, int]
    live: tuple[int, int]
    promises: tuple[int | float, int | float] | None
    compiled: bool = True
    entered: int = 0
    is_light: bool = False

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        held = [
            f"{'RS'[a.side]} {a.seqs[0]}..{a.seqs[-1]}"
            if len(a) > 1
            else f"{'RS'[a.side]} {a.seqs[0]}"
            for a in self.arrivals
            if len(a)
        ]
        return f"tuples {' and '.join(held)}" if held else "a punctuation"

    def until(self, rank: int) -> tuple[Chunk, Chunk]:
        """Cut it in two before a rank; the windows move as far as the first part tells."""
        cuts = [int(np.searchsorted(a.ranks, rank)) for a in self.arrivals]
        left, right = self.arrivals
        first = (left.part(0, cuts[0]), right.part(0, cuts[1]))
        second = (left.part(cuts[0], len(left)), right.part(cuts[1], len(right)))
        seen = [int(a.seqs[-1]) + 1 if len(a) else 0 for a in first]
        # Whatever comes later of a stream says of itself from which time on its partners are.
        promised = [None if a.low is None or not len(a) else a.low.min().item() for a in second]
        promises = None
        if self.promises is not None:
            left_promise, right_promise = (
                after if before is None else min(before, after)
                for before, after in zip(promised, self.promises, strict=True)
            )
            promises = (left_promise, right_promise)
        begun = Chunk(
            first,
            (self.ranks[0], rank),
            (seen[0], seen[1]),
            (0, 0),
            promises,
            self.compiled,
            self.entered,
        )
        return begun, replace(self, arrivals=second, ranks=(rank, self.ranks[1]))


def is_light(arrivals: tuple[Arrivals, Arrivals], ranks: tuple[int, int]) -> bool:
    """Whether it is a tuple that comes alone, and has not too many to meet."""
    if ranks[1] - ranks[0] != 1:
        return False
    return all([not len(a) or int(a.hi[0]) - int(a.lo[0]) <= LIGHT for a in arrivals])


@dataclass(frozen=True, eq=False)
class Met:
    """Pairs that match: numbers in R and in S, and the rank of the younger of the two.

    ``entries`` says which of all the tuples that its core has ever stored the older one was; ``at``
    when they were found, in nanoseconds of the monotonic clock.
    """

    left: Indices
    right: Indices
    ranks: Indices
    entries: Indices
    at: int = 0

    def __len__(self) -> int:
        return len(self.left)


_NOTHING: Indices = np.empty(0, np.int64)
_NOBODY = Met(_NOTHING, _NOTHING, _NOTHING, _NOTHING)


def nobody() -> Met:
    """No pairs."""
    return _NOBODY


@dataclass(frozen=True)
class Rule:
    """What cores need to know of a query: the predicate, and how to find partners by it.

    ``window_rows`` is the size of each stream's count window, None for others.
    """

    predicate: Predicate
    constants: tuple[np.generic, ...]
    kernel: str
    compiled: bool
    window_rows: tuple[int | None, int | None]
    clock_lowest: int | float


class Meeting(Protocol):
    """A flow, as a join block uses it."""

    complete_at_once: bool
    """Whether ``take`` gives all pairs of what it was given."""

    def program(self, rule: Rule, held: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Start from here with this rule and these windows, whose tuples have all met already.

        ``rank`` is the next one to be given. Everything has been completed before.
        """

    def take(self, chunk: Chunk) -> Iterator[Met]:
        """Let arrivals in; yields what has been found by now, of these and of earlier ones."""

    def complete(self) -> Iterator[Met]:
        """Make everybody meet who may and has not yet."""

    def oldest(self, side: int) -> int | None:
        """The first number of a tuple that may still turn up in a pair; None: of live ones only."""

    def measures(self) -> dict[str, Any]:
        """What the cores have counted."""

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""

    def close(self) -> None:
        """Let the cores go."""
