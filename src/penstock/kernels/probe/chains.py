"""Chains: the entries behind the newest segment of an index, linked bucket by bucket.

A segment costs tens of microseconds, however few entries it has, and a scan of the entries that are
in none costs every probe. So compiled steps link the entries behind the newest segment into chains,
one for every bucket of that segment's layout, the newest entry first. A layout has a bucket for any
key, and the buckets that a probe must search depend on the entries in one way only: by the slack
between two keys that bound a range, which is widened for entries that have more of it. So the
chains of those buckets have every entry that the probe may match. The predicate decides, as in
segments.

Compiled steps link new entries when they are next searched for. An entry keeps its number and its
keys as long as the segments are the same ones, and new segments begin with empty chains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.probe.buckets import Segment
from penstock.tuning import TUNING


class Chains:
    """The chains behind a segment.

    ``heads`` has the newest entry of each bucket, ``links`` the one before each entry, as numbers
    less ``first``; -1 ends a chain. ``progress`` has the first entry that is not linked, the
    wasted steps, and whether the chains are not used any more; ``slack`` how much more of it there
    is in each dimension than the segment has.
    """

    def __init__(self, segment: Segment) -> None:
        self.first = segment.last
        buckets = segment.layout.buckets
        self.heads: npt.NDArray[np.int32] = np.full(buckets, -1, np.int32)
        room = max(TUNING.longest_tail, min(buckets, TUNING.longest_chains))
        self.links: npt.NDArray[np.int32] = np.empty(room, np.int32)
        self.progress: npt.NDArray[np.int64] = np.array([self.first, 0, 0], np.int64)
        self.slack: npt.NDArray[np.float64] = np.zeros(2, np.float64)

    @property
    def nbytes(self) -> int:
        """The memory of all chains."""
        arrays: tuple[npt.NDArray[Any], ...] = (self.heads, self.links)
        return sum(int(array.nbytes) for array in arrays)
