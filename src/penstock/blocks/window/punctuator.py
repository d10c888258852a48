"""The punctuation of a stream, as a join or an aggregate knows it; and the clock of its times.

A punctuation P says that no further tuple has a time below P. It comes from the source, and for a
time window also from the window's own punctuator: the largest time seen minus the slack. The larger
of the two is in force. Without a slack, the punctuation follows the times seen until the source
punctuates; on a derived stream, which punctuates by itself, it never does. Punctuations never go
back, so lateness can be judged for a whole run at once: the punctuation in force before a tuple is
a running maximum over the tuples before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.merging import running_punctuations
from penstock.streams.windows import AggregateWindow, Range, Sliding, Window

Ticks = npt.NDArray[Any]


class Clock:
    """The ticks of one query: 64-bit integers, or floats if a time attribute is a float.

    Sums and differences stop at the ends, so that a time near them is never early by overflow.
    """

    def __init__(self, floating: bool) -> None:
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if floating else np.int64)
        self.floating = floating
        self.number: Callable[[Any], int | float] = float if floating else int
        self.nothing: Ticks = np.empty(0, self.dtype)
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

    def expiry(self, times: Ticks, window: Range) -> Ticks:
        """The first time at which each tuple of a window is no longer found."""
        if not window.inclusive:
            return self.later(times, window.size)
        if self.floating:
            return np.nextafter(times + np.float64(window.size), np.inf)
        return self.later(times, window.size + 1)

    def oldest(self, punctuations: Ticks, window: Range) -> Ticks:
        """The earliest time of live tuples of a window, after punctuations of the other stream.

        Of an inclusive window of floats, ``t + size`` may be rounded up to the punctuation; it is
        above the number before that, and then ``t`` is not below the difference.
        """
        if window.inclusive and self.floating:
            before = np.nextafter(punctuations, -np.inf)
            punctuations = np.where(np.isinf(punctuations), punctuations, before)
        return self.earlier(punctuations, window.size)

    def lagging(self, punctuations: Ticks, lag: int | float) -> Ticks:
        """Punctuations less a lag, and never late by rounding."""
        behind = self.earlier(punctuations, lag)
        if not self.floating:
            return behind
        return np.where(np.isinf(behind), behind, np.nextafter(behind, -np.inf))

    def scaled(self, times: Ticks, ratio: int) -> Ticks:
        """``times * ratio``; the ends stay where they are."""
        limit = int(self.highest) // ratio
        inside = (times > -limit) & (times < limit)
        moved = np.where(inside, times, 0) * ratio
        return np.where(inside, moved, np.where(times > 0, self.highest, self.lowest))


class Lag:
    """How much later than a window all is decided that stands to the left of an input of a tree.

    Parameters
    ----------
    clock
        The clock of the query.
    longest
        The longest window to the left: what may be met is decided when a window of a member has
        passed.
    decided
        The inputs of right and full joins to the left that have a lag themselves: the window of
        each, and that lag. Their unmatched tuples are decided when the window has passed after
        the lag. Those of an earlier one come first, so that its lag is computed once.
    """

    def __init__(
        self, clock: Clock, longest: int | float, decided: Sequence[tuple[int | float, Lag]]
    ) -> None:
        self._clock = clock
        self._longest = longest
        self._decided = decided

    def before(self, punctuations: Ticks) -> Ticks:
        """Times before which all is decided, after punctuations of all inputs."""
        found: list[Ticks] = []
        for _, lag in self._decided:
            found.append(lag._behind(punctuations, found))
        return self._behind(punctuations, found)

    def _behind(self, punctuations: Ticks, decided: Sequence[Ticks]) -> Ticks:
        behind = self._clock.lagging(punctuations, self._longest)
        for (window, _), times in zip(self._decided, decided, strict=False):
            behind = np.minimum(behind, self._clock.lagging(times, window))
        return behind


class Punctuator:
    """The punctuation of one side of a join, or of the input of an aggregate."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window: Window | AggregateWindow | None = None
        self.seen: int | float = clock.lowest
        self.punctuation: int | float = clock.lowest
        self.has_source = False

    def program(self, window: Window | AggregateWindow) -> None:
        """Take another window; a smaller slack may advance the punctuation."""
        self._window = window
        slack = self.slack
        if slack is not None and self.seen != self._clock.lowest:
            seen = np.array([self.seen], self._clock.dtype)
            self.punctuation = max(self.punctuation, self._clock.earlier(seen, slack)[0].item())

    @property
    def slack(self) -> int | float | None:
        """How far the punctuation is behind the largest time seen; None if it does not follow."""
        if not isinstance(self._window, Range | Sliding):
            return None
        if self._window.slack is None:
            return None if self.has_source or self._window.derived else 0
        return self._window.slack

    def rescale(self, ratio: Fraction) -> None:
        """Change to ticks that are ``ratio`` times finer."""
        ends = (self._clock.lowest, self._clock.highest)
        seen, punctuation = (
            known if known in ends else math.floor(int(known) * ratio)
            for known in (self.seen, self.punctuation)
        )
        self.seen, self.punctuation = seen, punctuation

    def from_source(self, tick: int | float) -> None:
        """The source has sent a punctuation."""
        self.has_source = True
        self.punctuation = max(self.punctuation, tick)

    def end(self) -> None:
        """The stream has ended: no tuple follows."""
        self.punctuation = self._clock.highest

    def pass_by(self, latest: int) -> None:
        """Take tuples of which the latest has this time."""
        if not isinstance(self._window, (Range, Sliding)):
            return
        self.seen, slack, clock = max(self.seen, latest), self.slack, self._clock
        if slack is not None:
            by = min(slack, clock.highest)
            self.punctuation = max(self.punctuation, max(self.seen - by, clock.lowest))

    def advance(self, times: Ticks) -> Ticks:
        """Take tuples: the punctuation before each of them, and one more, that after them all.

        Of a time window, a tuple whose time is below the punctuation before it is late.
        """
        clock = self._clock
        punctuations = np.empty(len(times) + 1, clock.dtype)
        if not isinstance(self._window, Range | Sliding):
            punctuations.fill(self.punctuation)
            return punctuations
        slack = self.slack
        follows = slack is not None
        by = clock.number(min(slack or 0, clock.highest))
        self.seen = running_punctuations(
            times, clock.number(self.seen), clock.number(self.punctuation), follows, by,
            clock.number(clock.lowest), punctuations,
        )  # fmt: skip
        self.punctuation = punctuations[-1].item()
        return punctuations
