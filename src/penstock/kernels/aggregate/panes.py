"""Panes: the pieces that windows of an aggregate are cut into, and which pane a tick is in.

A window begins every ``slide`` ticks and is ``size`` long. So the borders of windows are at
multiples of the slide and at multiples of it plus ``size mod slide``, relative to a start. A pane
lies between two consecutive borders; every window is a number of whole panes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.machine_code import njit
from penstock.streams.windows import Sliding

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

_EXACT = 1 << 50
"""Offsets below this are divided in floating point."""
_LOWEST = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Panes:
    """The panes of a window, numbered by integers; pane 0 begins at ``start``.

    ``split`` is the length of every other pane, in ticks; 0 if all are as long as the slide.

    >>> panes = Panes.of(Sliding(size=25, slide=10))
    >>> [panes.number(tick) for tick in (-1, 0, 4, 5, 9, 10)], panes.first_tick(-1)
    ([-1, 0, 0, 1, 1, 2], -5)
    """

    start: int
    slide: int
    split: int

    @classmethod
    def of(cls, window: Sliding) -> Panes:
        return cls(window.start or 0, window.slide, window.size % window.slide)

    def number(self, tick: int) -> int:
        """The pane that a tick is in."""
        turn, within = divmod(tick - self.start, self.slide)
        return turn if self.split == 0 else 2 * turn + (within >= self.split)

    def first_tick(self, number: int) -> int:
        """Where a pane begins; it ends where the next one does."""
        if self.split == 0:
            return self.start + number * self.slide
        return self.start + (number >> 1) * self.slide + (number & 1) * self.split

    def numbers(self, ticks: Array) -> npt.NDArray[np.int64]:
        """The pane of each tick, however far apart they are."""
        if len(ticks) == 0:
            return np.empty(0, np.int64)
        low, high = int(ticks.min()), int(ticks.max())
        measure = self.measure(low, high)
        if measure is None:
            return np.array([self.number(tick) for tick in ticks.tolist()], np.int64)
        out = np.empty(len(ticks), np.int64)
        _numbers(alias(as_ticks(ticks)), measure, self.number(low), out)
        return out

    def measure(self, low: int, high: int) -> Measure | None:
        """What compiled code needs to find the panes of ticks from ``low`` to ``high``.

        None if these are too far apart for 64 bits.
        """
        origin = self.start + (low - self.start) // self.slide * self.slide
        if high - origin >= 1 << 63:
            return None
        inverse = 1.0 / self.slide if high - origin < _EXACT else 0.0
        # Differences are right even if the origin is below what 64 bits can hold.
        wrapped = (origin - _LOWEST) % (1 << 64) + _LOWEST
        skip = int(0 < self.split <= low - origin)
        return wrapped, self.slide, self.split, skip, inverse


def as_ticks(ticks: Array) -> Array:
    """Ticks as compiled loops read them: int32 if they are, else int64."""
    return np.ascontiguousarray(ticks, None if ticks.dtype == np.int32 else np.int64)


Measure = tuple[Word, Word, Word, Word, float]
"""The start of the slide that holds the smallest tick; slide; split; the number of panes of that
slide before the tick's; and the inverse of the slide, 0 where floats are not exact enough.
"""


@njit()
def places(ticks: Array, measure: Measure, out: Array) -> None:
    """The pane of each tick, counted from that of the smallest tick."""
    origin, slide, split, skip, inverse = measure
    if inverse == 0.0:
        for i in range(ticks.shape[0]):
            out[i] = place_of(ticks[i], measure)
    elif split == 0:
        # An integer plus a half is never near a multiple of the slide, so no rounding error
        # crosses one. A division would take ten times as long.
        for i in range(ticks.shape[0]):
            offset = np.float64(np.int64(ticks[i]) - origin) + 0.5
            out[i] = np.int32(offset * inverse)
    else:
        length, border = np.float64(slide), np.float64(split)
        for i in range(ticks.shape[0]):
            offset = np.float64(np.int64(ticks[i]) - origin) + 0.5
            turn = np.int32(offset * inverse)
            out[i] = 2 * turn + np.int32(offset - turn * length >= border) - np.int32(skip)


@njit()
def place_of(tick: Word, measure: Measure) -> Word:
    """As :func:`places`, for one tick."""
    origin, slide, split, skip, _ = measure
    offset = np.int64(tick) - origin
    turn = offset // slide
    if split > 0:
        turn = 2 * turn + np.int64(offset - turn * slide >= split)
    return turn - skip


@njit()
def border_of(place: Word, measure: Measure) -> Word:
    """Where a pane begins."""
    origin, slide, split, skip, _ = measure
    if split == 0:
        return origin + place * slide
    return origin + ((place + skip) >> 1) * slide + ((place + skip) & 1) * split


@njit()
def _numbers(ticks: Array, measure: Measure, first: Word, out: Array) -> None:
    for i in range(ticks.shape[0]):
        out[i] = first + place_of(ticks[i], measure)


@njit()
def _cells(ticks: Array, measure: Measure, starts: Array, groups: Array, out: Array) -> None:
    places(ticks, measure, out)
    if groups.shape[0] > 0:
        for i in range(ticks.shape[0]):
            out[i] = starts[np.uint64(out[i])] + groups[i]
    else:
        for i in range(ticks.shape[0]):
            out[i] = starts[np.uint64(out[i])]


_NO_GROUPS = np.empty(0, np.int32)


def cells_of(
    ticks: Array, extent: tuple[int, int], panes: Panes, starts: Array, groups: Array | None = None
) -> npt.NDArray[np.int32]:
    """The cell of each tuple: the first cell of its pane, plus its group.

    ``extent`` is the smallest and the largest tick, or any wider range. ``starts`` has the first
    cell of every pane of it.

    >>> tens = Panes(0, 10, 0)
    >>> cells_of(np.array([12, 31, 19]), (12, 31), tens, np.array([200, 300, 100])).tolist()
    [200, 100, 200]
    """
    starts = np.ascontiguousarray(starts, np.int32)
    ticks = alias(as_ticks(ticks))
    measure = panes.measure(*extent)
    if measure is None:
        found = starts[panes.numbers(ticks) - panes.number(extent[0])]
        return found if groups is None else np.asarray(found + groups, np.int32)
    out = np.empty(len(ticks), np.int32)
    _cells(ticks, measure, starts, _NO_GROUPS if groups is None else alias(groups), out)
    return out
