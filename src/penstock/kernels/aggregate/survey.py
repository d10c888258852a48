"""Where in a batch windows close, and which tuples are late for them.

A window closes when the punctuation reaches its end. The punctuation before a tuple is the largest
tick of the tuples before it less the slack, or a punctuation of the source. So windows close where
the running maximum passes the next border, and a tuple can have missed a window only if it is
before the last border that was passed. Most stretches of a batch pass no border and have no such
tuple: two comparisons, with their smallest and their largest tick, show it.

The rows of a window may be made later than the window closes, as long as no tuple that belongs to
it has been added since. Tuples in time do not belong to a closed window; so a whole batch can be
added at once, and its windows closed afterwards. A cut is needed only before a tuple that missed a
window which this very batch has closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate.panes import as_ticks
from penstock.kernels.machine_code import njit
from penstock.streams.windows import Sliding

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

LOWEST = int(np.iinfo(np.int64).min)
HIGHEST = int(np.iinfo(np.int64).max)
STRETCH = 4096
"""Tuples whose extent is compared at once."""
_PIECE = 128
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True)
class Ends:
    """The ends of windows, which are ``slide`` ticks apart.

    Parameters
    ----------
    residue
        Every end modulo the slide.
    slide, size
        Of a window.
    first
        The smallest end if windows have a start; else the smallest tick there is.
    """

    residue: int
    slide: int
    size: int
    first: int

    @classmethod
    def of(cls, window: Sliding) -> Ends:
        end = (window.start or 0) + window.size
        first = LOWEST if window.start is None else max(LOWEST, min(end, HIGHEST))
        return cls(end % window.slide, window.slide, window.size, first)

    def closed_by(self, punctuation: int) -> int:
        """The end of the last window that a punctuation closes; ``LOWEST`` if there is none.

        >>> Ends.of(Sliding(size=25, slide=10)).closed_by(34)
        25
        """
        border = punctuation - (punctuation - self.residue) % self.slide
        return border if border >= max(self.first, LOWEST) else LOWEST


@dataclass(frozen=True)
class Survey:
    """What a batch closes and misses, known before it is added.

    Parameters
    ----------
    low, high
        The smallest and the largest tick.
    seen
        The largest tick of the stream up to the end of the batch.
    border
        The end of the last window that is closed by then; ``LOWEST`` if there is none.
    closings
        The tuples that moved the border, ascending.
    borders
        The border after each of them.
    late
        The tuples that are before the border. They missed a window, unless windows leave gaps and
        they are in none.
    cuts
        The tuples before which the windows that the batch has closed so far must be emitted.
    """

    low: int
    high: int
    seen: int
    border: int
    closings: Array
    borders: Array
    late: Array
    cuts: Array
    length: int

    def parts(self) -> Iterator[tuple[int, int, Array, Array]]:
        """The batch in pieces that can be added at once: start, stop, closings and borders.

        Windows that close within a piece are closed after it, position by position.
        """
        starts = [0, *self.cuts.tolist()]
        stops = [*starts[1:], self.length]
        places = np.searchsorted(self.closings, [0, *stops])
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            chosen = slice(int(places[i]), int(places[i + 1]))
            yield start, stop, self.closings[chosen], self.borders[chosen]


@njit(inline="always")
def _less(tick: Word, by: Word) -> Word:
    """``tick - by``, saturating; ``by`` is not negative."""
    return tick - by if tick >= LOWEST + by else LOWEST


@njit(inline="always")
def _more(tick: Word, by: Word) -> Word:
    return tick + by if tick <= HIGHEST - by else HIGHEST


@njit()
def _closed_by(punctuation: Word, ends: tuple[Word, Word, Word, Word]) -> Word:
    residue, slide, _, first = ends
    behind = (punctuation % slide - residue) % slide
    border = _less(punctuation, behind)
    return border if border >= first else LOWEST


@njit()
def _reach(border: Word, slack: Word, ends: tuple[Word, Word, Word, Word]) -> Word:
    """The smallest tick of a tuple that closes another window."""
    if slack < 0:
        return HIGHEST
    if border == LOWEST:
        # Unless windows have a start, there is an end at or below almost every punctuation.
        return _more(ends[3], slack)
    return _more(_more(border, ends[1]), slack)


@njit()
def extent_of(ticks: Array) -> tuple[Word, Word]:
    """The smallest and the largest of at least one tick, or of other integers."""
    low, high = ticks[0], ticks[0]
    for i in range(ticks.shape[0]):
        low = min(low, ticks[i])
        high = max(high, ticks[i])
    return np.int64(low), np.int64(high)


@njit()
def _extents(ticks: Array, lows: Array, highs: Array) -> None:
    for number in range(lows.shape[0]):
        start = number * STRETCH
        lows[number], highs[number] = extent_of(ticks[start : start + STRETCH])


@dataclass(frozen=True)
class Extents:
    """The smallest and the largest tick of every stretch of tuples; the last may be shorter."""

    lows: Array
    highs: Array

    @classmethod
    def of(cls, length: int) -> Extents:
        """For ``length`` tuples, to be filled by :meth:`note`."""
        low, high = (np.empty(-(-length // STRETCH), np.int64) for _ in range(2))
        return cls(low, high)

    def note(self, ticks: Array) -> None:
        """Set to the extents of these ticks."""
        _extents(alias(as_ticks(ticks)), self.lows, self.highs)

    def part(self, start: int, stop: int) -> Extents:
        """Those of the tuples from ``start``, which must begin a stretch, to before ``stop``."""
        chosen = slice(start // STRETCH, -(-stop // STRETCH))
        return Extents(self.lows[chosen], self.highs[chosen])

    @property
    def low(self) -> int:
        return int(self.lows.min())

    @property
    def high(self) -> int:
        return int(self.highs.max())


@njit()
def _survey(
    ticks: Array,
    border: Word,
    slack: Word,
    ends: tuple[Word, Word, Word, Word],
    extents: tuple[Array, Array],
    out: tuple[Array, Array, Array, Array],
) -> tuple[Word, Word, Word, Word, Word, Word]:
    """Fill ``out``; returns the counts of closings, late tuples and cuts, the extent, the border.

    ``slack`` is -1 if tuples close nothing.
    """
    closings, borders, late, cuts = out
    lows, highs = extents
    closed, missed, cut = 0, 0, 0
    low, high = HIGHEST, LOWEST
    reach = _reach(border, slack, ends)
    before = border  # the border at the last cut
    start, length = 0, ticks.shape[0]
    size = STRETCH
    while start < length:
        stop = min(start + size, length)
        if size == STRETCH:
            smallest, largest = lows[start // STRETCH], highs[start // STRETCH]
        else:
            smallest, largest = extent_of(ticks[start:stop])
        if smallest >= border and largest < reach:
            low, high = min(low, smallest), max(high, largest)
            start, size = stop, STRETCH if stop % STRETCH == 0 else size
            continue
        if size == STRETCH:
            size = _PIECE  # the stretch passes a border or has a late tuple: search in pieces
            continue
        low, high = min(low, smallest), max(high, largest)
        for i in range(start, stop):
            tick = np.int64(ticks[i])
            if tick < border:
                late[missed] = i
                missed += 1
                # A tuple that missed all of its windows missed none that closed in this piece.
                if before < border and tick >= _less(before, ends[2]):
                    cuts[cut] = i
                    cut += 1
                    before = border
            if tick >= reach:
                now = _closed_by(_less(tick, slack), ends)
                if now > border:
                    border = now
                    closings[closed], borders[closed] = i, now
                    closed += 1
                    reach = _reach(border, slack, ends)
        start, size = stop, STRETCH if stop % STRETCH == 0 else size
    return closed, missed, cut, low, high, border


def survey(
    ticks: Array,
    seen: int,
    border: int,
    slack: int | None,
    ends: Ends,
    extents: Extents | None = None,
) -> Survey:
    """What a batch of at least one tuple closes and misses.

    ``seen`` is the largest tick before it and ``border`` the end of the last window that is closed
    (``LOWEST`` if there is none), by ``seen`` and ``slack`` or by the source. Without a slack,
    tuples close nothing. ``extents`` are those of the ticks, if they are known.

    >>> window = Sliding(size=20, slide=10, slack=5)
    >>> found = survey(np.array([3, 12, 36, 9, 11]), LOWEST, LOWEST, 5, Ends.of(window))
    >>> found.closings.tolist(), found.borders.tolist(), found.late.tolist(), found.cuts.tolist()
    ([0, 1, 2], [-10, 0, 30], [3, 4], [3])
    """
    ticks = alias(as_ticks(ticks))
    closings, borders, late, cuts = (np.empty(len(ticks), np.int64) for _ in range(4))
    behind = -1 if slack is None else min(slack, HIGHEST)
    where = ends.residue, ends.slide, min(ends.size, HIGHEST), ends.first
    out = closings, borders, late, cuts
    if extents is None:
        extents = Extents.of(len(ticks))
        extents.note(ticks)
    known = extents.lows, extents.highs
    found = _survey(ticks, border, behind, where, known, out)
    closed, missed, cut, low, high, after = map(int, found)
    return Survey(
        low=low,
        high=high,
        seen=max(seen, high),
        border=after,
        closings=closings[:closed].copy() if closed else _NONE,
        borders=borders[:closed].copy() if closed else _NONE,
        late=late[:missed].copy() if missed else _NONE,
        cuts=cuts[:cut].copy() if cut else _NONE,
        length=len(ticks),
    )
