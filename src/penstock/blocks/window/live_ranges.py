"""The live range of a probe: which tuples of a window it may see, as a range of what is stored.

A window is stored in the order of its stream. A probe sees the tuples that were stored before it,
and of those the live ones: of a count window the last ones, as many as its size, of a time window
those that expire after the probe's time. The latter are neighbours too, as long as times ascend.
Where they do not, the range has every tuple that may be live, and the kernel compares times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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


def timed_ranges(
    numbered: Ranges,
    reach: tuple[Array, Array | None],
    stored: tuple[Array, Array | None],
    in_order: bool,
) -> Ranges:
    """Of the candidates by number, those that are live by time.

    ``reach`` as in :meth:`penstock.blocks.window.window.StoredWindow.ranges`; ``stored`` are the
    expiries and the times of the entries.
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
