"""What a join or an aggregate knows of a stream's time: who is late, and what it promises.

A promise P says that no further tuple has a time below P. It comes from the source, and for a time
window also from the window's own punctuator: the largest time seen, less the slack. The larger of
the two holds. Promises never go back, so lateness can be judged for a whole run at once: the
promise in force before a tuple is a running maximum over the tuples before it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.streams.windows import AggregateWindow, Range, Sliding, Window

Ticks = npt.NDArray[Any]


class Clock:
    """The ticks of one query: 64-bit integers, or floats if a time attribute is a float.

    Sums and differences stop at the ends, so that a time near them is never early by overflow.
    """

    def __init__(self, floating: bool) -> None:
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if floating else np.int64)
        self.floating = floating
        self.lowest: int | float = -np.inf if floating else int(np.iinfo(np.int64).min)
        self.highest: int | float = np.inf if floating else int(np.iinfo(np.int64).max)

    def later(self, times: Ticks, by: int | float) -> Ticks:
        """``times + by``."""
        if self.floating:
            return times + np.float64(by)
        by = min(int(by), int(self.highest))
        limit = int(self.highest) - by
        if len(times) and int(times.max()) > limit:
            return np.where(times > limit, self.highest, np.minimum(times, limit) + by)
        return times + np.int64(by)

    def earlier(self, times: Ticks, by: int | float) -> Ticks:
        """``times - by``."""
        if self.floating:
            return times - np.float64(by)
        by = min(int(by), int(self.highest))
        limit = int(self.lowest) + by
        if len(times) and int(times.min()) < limit:
            return np.where(times < limit, self.lowest, np.maximum(times, limit) - by)
        return times - np.int64(by)

    def scaled(self, times: Ticks, ratio: int) -> Ticks:
        """``times * ratio``; the ends stay where they are."""
        limit = int(self.highest) // ratio
        inside = (times > -limit) & (times < limit)
        moved = np.where(inside, times, 0) * ratio
        return np.where(inside, moved, np.where(times > 0, self.highest, self.lowest))


class Punctuator:
    """The promise of one side of a join, or of the input of an aggregate."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window: Window | AggregateWindow | None = None
        self.seen: int | float = clock.lowest
        self.promise: int | float = clock.lowest
        self.has_source = False

    def program(self, window: Window | AggregateWindow) -> None:
        """Take another window; with another slack, what has been seen may promise more."""
        self._window = window
        slack = self.slack
        if slack is not None and self.seen != self._clock.lowest:
            seen = np.array([self.seen], self._clock.dtype)
            self.promise = max(self.promise, self._clock.earlier(seen, slack)[0].item())

    @property
    def slack(self) -> int | float | None:
        """How far the promise stays behind the largest time seen; None: it does not follow it."""
        if not isinstance(self._window, Range | Sliding):
            return None
        if self._window.slack is None:
            return None if self.has_source else 0
        return self._window.slack

    def rescale(self, ratio: Fraction) -> None:
        """The clock ticks so many times faster, or slower, from here on."""
        ends = (self._clock.lowest, self._clock.highest)
        seen, promise = (
            known if known in ends else math.floor(int(known) * ratio)
            for known in (self.seen, self.promise)
        )
        self.seen, self.promise = seen, promise

    def from_source(self, tick: int | float) -> None:
        """The source has sent a punctuation."""
        self.has_source = True
        self.promise = max(self.promise, tick)

    def end(self) -> None:
        """The stream has ended: nothing will come, whatever its time."""
        self.promise = self._clock.highest

    def pass_by(self, latest: int) -> None:
        """Take tuples of which the latest has this time."""
        self.advance(np.array([latest], self._clock.dtype))

    def advance(self, times: Ticks) -> Ticks:
        """Take tuples: the promise before each of them, and one more, the promise after them all.

        Of a time window, a tuple whose time is below the promise before it is late.
        """
        unmoved = np.full(len(times) + 1, self.promise, self._clock.dtype)
        if not isinstance(self._window, Range | Sliding):
            return unmoved
        highest = np.maximum.accumulate(
            np.concatenate((np.array([self.seen], self._clock.dtype), times))
        )
        self.seen = highest[-1].item()
        slack = self.slack
        if slack is None:
            return unmoved
        promises = np.maximum(self._clock.earlier(highest, slack), self.promise)
        self.promise = promises[-1].item()
        return promises
