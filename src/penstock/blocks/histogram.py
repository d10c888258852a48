"""How long things take: counts in buckets that double."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BUCKETS = 64


class Histogram:
    """Durations in nanoseconds, counted by the power of two that is above them.

    >>> taken = Histogram()
    >>> taken.add(900, 3); taken.add(5_000)
    >>> summary = taken.summary()
    >>> summary["count"], summary["histogram"]
    (4, [[1.024e-06, 3], [8.192e-06, 1]])
    """

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(BUCKETS, np.int64)
        self._longest = 0

    def add(self, nanoseconds: int, count: int = 1) -> None:
        """Count a duration, several times."""
        if count:
            self._counts[max(0, nanoseconds).bit_length()] += count
            self._longest = max(self._longest, nanoseconds)

    def add_many(self, nanoseconds: npt.NDArray[np.int64]) -> None:
        """Count durations."""
        if len(nanoseconds):
            # frexp gives the exponent that bit_length would.
            buckets = np.frexp(np.maximum(nanoseconds, 0).astype(np.float64))[1]
            self._counts += np.bincount(buckets, minlength=BUCKETS)[:BUCKETS]
            self._longest = max(self._longest, int(nanoseconds.max()))

    def merge(self, other: Histogram) -> None:
        """Add the counts of another."""
        self._counts += other._counts
        self._longest = max(self._longest, other._longest)

    def summary(self) -> dict[str, Any]:
        """Count, median, 99th percentile and longest in seconds, and the buckets that are used."""
        total = int(self._counts.sum())
        used = np.flatnonzero(self._counts)
        return {
            "count": total,
            "p50": self._quantile(0.5, total),
            "p99": self._quantile(0.99, total),
            "max": self._longest / 1e9 if total else None,
            "histogram": [[float(1 << int(i)) / 1e9, int(self._counts[i])] for i in used],
        }

    def _quantile(self, share: float, total: int) -> float | None:
        """The upper end of the bucket that the quantile is in, or the longest if that is less."""
        if not total:
            return None
        bucket = int(np.searchsorted(np.cumsum(self._counts), share * total))
        return min(1 << bucket, self._longest) / 1e9
