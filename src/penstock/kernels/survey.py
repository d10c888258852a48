"""Where in a batch windows close, and which tuples come too late for them.

A window closes when the promise reaches its end. The promise before a tuple is the largest tick of
the tuples before it, less the slack, or what the source has promised. So windows close where the
running maximum passes the next border, and a tuple can have missed a window only if it is before
the last border that was passed. Most stretches of a batch pass none and have no such tuple: two
comparisons with their smallest and their largest tick say so.

A window's row may be made later than it closes, as long as no tuple has been taken since that
belongs to it. Tuples that come in time do not; so a whole batch can be taken at once, and then its
windows closed. Only before a tuple that missed a window of this very batch there has to be a cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.memory import alias
from penstock.kernels.panes import as_ticks
from penstock.streams.windows import Sliding

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

LOWEST = int(np.iinfo(np.int64).min)
HIGHEST = int(np.iinfo(np.int64).max)
STRETCH = 4096
"""So many tuples are looked at together."""
_PIECE = 128


@dataclass(frozen=True)
class Ends:
    """The ends of windows, of which the next after each is ``slide`` ticks later.

    Parameters
    ----------
    residue
        What an end is modulo the slide.
    slide, size
        Of a window.
    first
        The smallest end, of windows that have a start; else the smallest tick there is.
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

    def closed_by(self, promise: int) -> int:
        """The end of the last window that a promise closes; ``LOWEST`` if there is none.

        >>> Ends.of(Sliding(size=25, slide=10)).closed_by(34)
        25
        """
        border = promise - (promise - self.residue) % self.slide
        return border if border >= max(self.first, LOWEST) else LOWEST


@dataclass(frozen=True)
class Survey:
    """What there is to know of a batch before it is taken.

    Parameters
    ----------
    low, high
        The smallest and the largest tick.
    seen
        The largest tick up to the end of the batch.
    border
        The end of the last window that is closed then; ``LOWEST`` if there is none.
    closings
        Which tuples moved the border, ascending.
    borders
        Where each of them moved it to.
    late
        Which tuples came after a window closed whose end is after them. They missed it if they are
        in a window at all, which between windows that leave gaps they need not be.
    cuts
        Before which tuples windows have to be closed that earlier ones of the batch have closed.
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
        """The batch in pieces that can be taken at once: start, stop, and its closings.

        What closes within a piece is closed after it, position by position.
        """
        starts = [0, *self.cuts.tolist()]
        stops = [*starts[1:], self.length]
        places = np.searchsorted(self.closings, [0, *stops])
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            chosen = slice(int(places[i]), int(places[i + 1]))
            yield start, stop, self.closings[chosen], self.borders[chosen]


@nb.njit(nogil=True, cache=True, inline="always")
def _less(tick: Word, by: Word) -> Word:
    """``tick - by``, which is not negative, but not below what 64 bits can hold."""
    return tick - by if tick >= LOWEST + by else LOWEST


@nb.njit(nogil=True, cache=True, inline="always")
def _more(tick: Word, by: Word) -> Word:
    return tick + by if tick <= HIGHEST - by else HIGHEST


@nb.njit(nogil=True, cache=True)
def _closed_by(promise: Word, ends: tuple[Word, Word, Word, Word]) -> Word:
    residue, slide, _, first = ends
    behind = (promise % slide - residue) % slide
    border = _less(promise, behind)
    return border if border >= first else LOWEST


@nb.njit(nogil=True, cache=True)
def _reach(border: Word, slack: Word, ends: tuple[Word, Word, Word, Word]) -> Word:
    """From which tick on a tuple closes more."""
    if slack < 0:
        return HIGHEST
    if border == LOWEST:
        # Unless windows have a start, there is an end at or below almost every promise.
        return _more(ends[3], slack)
    return _more(_more(border, ends[1]), slack)


@nb.njit(nogil=True, cache=True)
def extent_of(ticks: Array) -> tuple[Word, Word]:
    """The smallest and the largest of at least one tick."""
    low, high = ticks[0], ticks[0]
    for i in range(ticks.shape[0]):
        low = min(low, ticks[i])
        high = max(high, ticks[i])
    return np.int64(low), np.int64(high)


@nb.njit(nogil=True, cache=True)
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
        """Of so many tuples; what they are has yet to be noted."""
        low, high = (np.empty(-(-length // STRETCH), np.int64) for _ in range(2))
        return cls(low, high)

    def note(self, ticks: Array) -> None:
        """Be those of these ticks."""
        _extents(alias(as_ticks(ticks)), self.lows, self.highs)

    def part(self, start: int, stop: int) -> Extents:
        """Those of the tuples from one to before another, of which the first begins a stretch."""
        chosen = slice(start // STRETCH, -(-stop // STRETCH))
        return Extents(self.lows[chosen], self.highs[chosen])

    @property
    def low(self) -> int:
        return int(self.lows.min())

    @property
    def high(self) -> int:
        return int(self.highs.max())


@nb.njit(nogil=True, cache=True)
def _survey(
    ticks: Array,
    border: Word,
    slack: Word,
    ends: tuple[Word, Word, Word, Word],
    extents: tuple[Array, Array],
    out: tuple[Array, Array, Array, Array],
) -> tuple[Word, Word, Word, Word, Word, Word]:
    """``slack`` is -1 if tuples close nothing. Counts of what was found, extent and border."""
    closings, borders, late, cuts = out
    lows, highs = extents
    closed, missed, cut = 0, 0, 0
    low, high = HIGHEST, LOWEST
    reach = _reach(border, slack, ends)
    before = border  # what was closed where the present piece began
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
            size = _PIECE  # something happens in this stretch: find out where
            continue
        low, high = min(low, smallest), max(high, largest)
        for i in range(start, stop):
            tick = np.int64(ticks[i])
            if tick < border:
                late[missed] = i
                missed += 1
                # Of a tuple that has missed all of its windows, none closed in this piece.
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
        closings=closings[:closed].copy(),
        borders=borders[:closed].copy(),
        late=late[:missed].copy(),
        cuts=cuts[:cut].copy(),
        length=len(ticks),
    )
