"""Where the windows of an aggregate begin and end, and the panes that they are made of.

Window ``k`` is ``[begin(k), begin(k) + size)``, one every ``slide`` ticks. Every border of a window
is a border of panes: the ticks ``origin + i·slide``, and those ``cut`` later if ``size`` is no
multiple of ``slide``. So a window is a whole number of panes, and a tuple, whatever the number of
windows it belongs to, belongs to one pane.

A count window ``[ROWS w SLIDE d]`` is the same on a clock that counts tuples: its windows end, not
begin, at multiples of ``d``, and every tuple is a punctuation: the stream has passed it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.aggregate.panes import Panes
from penstock.kernels.aggregate.survey import LOWEST, Ends
from penstock.streams.windows import AggregateWindow, Sliding

Ticks = npt.NDArray[np.int64]
_SAFE = 1 << 62


@dataclass(frozen=True)
class WindowGrid:
    """The windows and panes of an aggregate; ``first`` is the first window there is, if any.

    >>> grid = WindowGrid.of(Sliding(size=10, slide=4))
    >>> grid.begin(1), grid.end(1), grid.panes(1), grid.closed(14)
    (4, 14, (2, 7), 2)
    >>> grid.pane_of(np.array([3, 4, 5, 6, 7])).tolist()
    [1, 2, 2, 3, 3]
    """

    origin: int
    slide: int
    size: int
    lead: int
    cut: int
    first: int | None

    @classmethod
    def of(cls, window: AggregateWindow, before: int | None = None) -> WindowGrid:
        """The grid of a window clause; ``before`` is where the panes that it takes over are cut."""
        size, slide = window.size, window.slide
        if isinstance(window, Sliding):
            lead, cut, start = 0, size % slide, window.start
        else:
            lead, cut, start = -size, -size % slide, None
        origin = 0 if start is None else start % slide
        if before is not None:
            assert cut in (0, before)
            cut = before
        first = None if start is None else (start - origin) // slide
        return cls(origin, slide, size, lead, cut, first)

    def with_cut(self, cut: int) -> WindowGrid:
        """The same windows, of panes that are cut there."""
        return replace(self, cut=cut)

    def begin(self, window: int) -> int:
        """The first tick of a window."""
        return self.origin + window * self.slide + self.lead

    def end(self, window: int) -> int:
        """The first tick after a window."""
        return self.begin(window) + self.size

    def panes(self, window: int) -> tuple[int, int]:
        """The first pane of a window, and the first after it."""
        return self.border(self.begin(window)), self.border(self.end(window))

    def border(self, tick: int) -> int:
        """The pane that a tick is in."""
        turn, rest = divmod(tick - self.origin, self.slide)
        return 2 * turn + (rest >= self.cut) if self.cut else turn

    @property
    def panes_of_ticks(self) -> Panes:
        """Maps ticks to panes."""
        return Panes(self.origin, self.slide, self.cut)

    @property
    def ends(self) -> Ends:
        """Where windows end."""
        first = LOWEST if self.first is None else self.end(self.first)
        return Ends(self.end(0) % self.slide, self.slide, self.size, first)

    def closed(self, punctuation: int) -> int:
        """The first window that is open after a punctuation."""
        window = (punctuation - self.origin - self.lead - self.size) // self.slide + 1
        return window if self.first is None else max(window, self.first)

    def closed_by(self, punctuations: Ticks) -> Ticks:
        """As :meth:`closed`, of many."""
        windows = self._turns(punctuations, self.origin + self.lead + self.size) + 1
        return windows if self.first is None else np.maximum(windows, self.first)

    def first_of(self, ticks: Ticks) -> Ticks:
        """The first window that each tick belongs to; it belongs to none if the last is earlier."""
        return self.closed_by(ticks)

    def last_of(self, ticks: Ticks) -> Ticks:
        """The last window that each tick belongs to."""
        return self._turns(ticks, self.origin + self.lead)

    def fitting(self, first: int, last: int) -> tuple[int, int]:
        """Which ticks are in no window that begins before ``first`` or ends after ``last``.

        The first of them, and the first one after them. Where windows leave gaps, some of the
        others may be in no window at all.

        >>> WindowGrid.of(Sliding(size=10, slide=4)).fitting(-1, 25)
        (6, 16)
        """
        begins, ends = self.begin(0), self.end(0)
        lowest = -((begins - first) // self.slide)
        highest = (last - ends) // self.slide
        low = self.end(lowest - 1)
        if self.first is not None and self.first >= lowest:
            low = self.begin(self.first)
        return low, self.begin(highest + 1)

    def pane_of(self, ticks: Ticks) -> Ticks:
        """The pane of each tick."""
        ticks = ticks.astype(np.int64, copy=False)
        turns = self._turns(ticks, self.origin)
        if not self.cut:
            return turns
        return 2 * turns + (ticks - (turns * self.slide + self.origin) >= self.cut)

    def windows_of_panes(self, panes: Ticks) -> tuple[Ticks, Ticks]:
        """The first and the last window that each pane belongs to."""
        if self.cut:
            begins = (panes >> 1) * self.slide + (panes & 1) * self.cut + self.origin
        else:
            begins = panes * self.slide + self.origin
        return self.first_of(begins), self.last_of(begins)

    def _turns(self, ticks: Ticks, offset: int) -> Ticks:
        """``(ticks - offset) // slide``, which always fits if computed without overflow."""
        if not len(ticks) or (-_SAFE < offset < _SAFE and self._are_safe(ticks)):
            return (ticks - np.int64(offset)) // np.int64(self.slide)
        wide: Any = (ticks.astype(object) - offset) // self.slide
        limits = np.iinfo(np.int64)
        turns: Ticks = np.clip(wide, limits.min, limits.max).astype(np.int64)
        return turns

    @staticmethod
    def _are_safe(ticks: Ticks) -> bool:
        return int(ticks.min()) >= -_SAFE and int(ticks.max()) <= _SAFE
