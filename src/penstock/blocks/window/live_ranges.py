"""The live range of a probe: which tuples of a window it may see, as a range of what is stored.

A window is stored in the order of its stream. A probe sees the tuples that were stored before it,
and of those the live ones: of a count window the last ones, as many as its size, of a time window
those that expire after the probe's time. The latter are neighbours too, as long as times ascend.
Where they do not, the range has every tuple that may be live, and the kernel compares times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.window.punctuator import Clock
from penstock.blocks.window.stored_columns import Buffer, RowStore
from penstock.kernels.merging import row_ranges, time_ranges
from penstock.streams.windows import Range, Rows, Window

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ranges:
    """The candidates of each probe: indices ``lo .. hi - 1`` of a window's entries.

    Where times are out of order, ``lower`` is what their expiry must be above, and ``upper`` what
    their time must be below.
    """

    lo: Indices
    hi: Indices
    lower: Array | None = None
    upper: Array | None = None


class StoredWindow(Protocol):
    """A window with its tuples, as :class:`penstock.blocks.join.side.JoinSide` has them."""

    @property
    def window(self) -> Window:
        """Its kind and size."""

    @property
    def rows(self) -> RowStore:
        """The tuples."""

    @property
    def newest(self) -> int:
        """How many of them are of this batch."""

    @property
    def clock(self) -> Clock:
        """What counts its ticks."""

    @property
    def times(self) -> Buffer:
        """Of a time window, the tuples' times."""

    @property
    def expiry(self) -> Buffer:
        """When they leave it."""

    @property
    def in_order(self) -> bool:
        """Whether times ascend."""


def numbered_ranges(stored: StoredWindow, seen: Indices) -> Ranges:
    """The candidates of probes by their numbers alone, as indices of the window's tuples.

    ``seen`` are how many of the batch's tuples of the window each probe may see.
    """
    before = len(stored.rows) - stored.newest
    if isinstance(stored.window, Rows):
        lo, hi = np.empty_like(seen), np.empty_like(seen)
        row_ranges(seen, before, stored.window.size, lo, hi)
        return Ranges(lo, hi)
    return Ranges(np.zeros_like(seen), before + seen)


def window_ranges(
    stored: StoredWindow, seen: Indices, reach: Callable[[], tuple[Array | None, Array | None]]
) -> Ranges:
    """The candidates of probes in a window, as indices of its tuples.

    ``seen`` as for :func:`numbered_ranges`; ``reach`` gives, for a time window, what the expiry of
    a tuple must be above and what its time must be below, or None for each that has no bound.
    """
    if not isinstance(stored.window, Range):
        return numbered_ranges(stored, seen)
    lower, upper = reach()
    if lower is None:
        return numbered_ranges(stored, seen)
    before = len(stored.rows) - stored.newest
    expiry, times = stored.expiry.view(), stored.times.view()
    if stored.in_order:
        lo, hi = np.empty_like(seen), np.empty_like(seen)
        bound = stored.clock.nothing if upper is None else upper
        time_ranges(seen, before, lower, bound, (expiry, times), lo, hi)
        return Ranges(lo, hi)
    # Of times out of order, the range is bounded by running extremes.
    hi = before + seen
    lo = np.searchsorted(np.maximum.accumulate(expiry), lower, side="right")
    if upper is not None:
        earliest = np.minimum.accumulate(times[::-1])[::-1]
        hi = np.minimum(hi, np.searchsorted(earliest, upper))
    return Ranges(lo, np.maximum(lo, hi), lower, upper)


def timed_ranges(
    numbered: Ranges,
    reach: tuple[Array, Array | None],
    stored: tuple[Array, Array | None],
    in_order: bool,
) -> Ranges:
    """Of the candidates by number, those that are live by time.

    ``reach`` as in :func:`window_ranges`; ``stored`` are the expiries and the times of the entries.
    """
    lo, hi, (lower, upper), (expiry, times) = numbered.lo, numbered.hi, reach, stored
    if not in_order:
        return Ranges(lo, np.maximum(lo, hi), lower, upper)
    lo = np.maximum(lo, np.searchsorted(expiry, lower, side="right"))
    if upper is not None and times is not None:
        hi = np.minimum(hi, np.searchsorted(times, upper))
    return Ranges(lo, np.maximum(lo, hi))


def expired(expiry: Array, punctuation: int | float, in_order: bool) -> int:
    """How many of the oldest entries have expired, given the punctuation of the other streams.

    Of times out of order, those before the first that has not expired.
    """
    if in_order:
        return int(expiry.searchsorted(punctuation, side="right"))
    live = expiry > punctuation
    return int(live.argmax()) if live.any() else len(live)
