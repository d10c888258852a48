"""The latencies of a join (Najafi 2019 §5.3, definitions 3 and 4), as histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_BITS = 3
_PARTS = 1 << _BITS
_BUCKETS = (64 - _BITS) * _PARTS
_SECOND = 1e9


class Histogram:
    """Counts of durations, by powers of two of nanoseconds. One thread adds; they can be merged.

    A power of two is divided in eight: a percentile is at most an eighth above the true one.

    >>> waits = Histogram()
    >>> for nanoseconds in (100, 100, 100, 900):
    ...     waits.add(nanoseconds)
    >>> waits.add_many([7, 5000])
    >>> summary = waits.summary()
    >>> summary["count"], summary["p50"], summary["p99"], summary["max"]
    (6, 1.03e-07, 5e-06, 5e-06)
    >>> summary["histogram"]
    [[8e-09, 1], [1.28e-07, 3], [1.024e-06, 1], [8.192e-06, 1]]
    >>> Histogram().summary()
    {'count': 0, 'p50': None, 'p99': None, 'max': None, 'histogram': []}
    """

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._most = 0

    def add(self, nanoseconds: int, count: int = 1) -> None:
        """Count a duration, ``count`` times; a clock that went back counts as 0."""
        if nanoseconds < 0:
            nanoseconds = 0
        power = nanoseconds.bit_length() - _BITS - 1
        if power < 0:
            power = 0
        self._counts[(power << _BITS) + (nanoseconds >> power)] += count
        if nanoseconds > self._most and count:
            self._most = nanoseconds

    def add_many(self, nanoseconds: npt.NDArray[np.int64] | Sequence[int]) -> None:
        """Count each of these durations."""
        given = np.maximum(np.asarray(nanoseconds, np.int64), 0)
        if not len(given):
            return
        # A number of more than 53 bits may be rounded up to the next power of two; what is left of
        # it then falls in the same bucket.
        powers = np.maximum(np.frexp(given.astype(np.float64))[1].astype(np.int64) - _BITS - 1, 0)
        places, counts = np.unique((powers << _BITS) + (given >> powers), return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            self._counts[place] += count
        self._most = max(self._most, int(given.max()))

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram.

        >>> one, other = Histogram(), Histogram()
        >>> one.add(10)
        >>> other.add(20, 3)
        >>> one.merge(other)
        >>> one.summary()["count"], one.summary()["max"]
        (4, 2e-08)
        """
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        self._most = max(self._most, other._most)

    def take_counts(self) -> list[list[int]]:
        """Remove and return the counts, to be sent to :meth:`add_counts` elsewhere.

        >>> here, there = Histogram(), Histogram()
        >>> here.add(900, 3)
        >>> sent = here.take_counts()
        >>> sent
        [[62, 3], [900, 0]]
        >>> there.add_counts(sent)
        >>> there.summary()["count"], there.summary()["max"], here.summary()["count"]
        (3, 9e-07, 0)
        """
        places = [[place, count] for place, count in enumerate(self._counts) if count]
        sent = [*places, [self._most, 0]]
        self._counts, self._most = [0] * _BUCKETS, 0
        return sent

    def add_counts(self, sent: Sequence[Sequence[int]]) -> None:
        """Add the result of another one's :meth:`take_counts`."""
        *places, (most, _) = sent
        for place, count in places:
            self._counts[place] += count
        self._most = max(self._most, most)

    def percentile(self, part: float) -> float | None:
        """The seconds that this part of all durations took at most; None if there are none."""
        total = sum(self._counts)
        if not total:
            return None
        seen = 0
        for place, count in enumerate(self._counts):
            seen += count
            if seen >= part * total:
                return min(_after(place) - 1, self._most) / _SECOND
        return self._most / _SECOND

    def summary(self) -> dict[str, Any]:
        """Count, percentiles and maximum in seconds, and ``histogram``.

        That has a pair for each power of two with durations: what they are below, in seconds, and
        how many they are.
        """
        count = sum(self._counts)
        by_power: dict[int, int] = {}
        for place, found in enumerate(self._counts):
            if found:
                upper = 1 << (_after(place) - 1).bit_length()
                by_power[upper] = by_power.get(upper, 0) + found
        return {
            "count": count,
            "p50": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "max": self._most / _SECOND if count else None,
            "histogram": [[upper / _SECOND, found] for upper, found in by_power.items()],
        }


def _after(place: int) -> int:
    """The first duration that is too long for a bucket.

    >>> _after(0), _after(15), _after(16), _after(17)
    (1, 16, 18, 20)
    """
    power = max(0, (place >> _BITS) - 1)
    return (place - (power << _BITS) + 1) << power


class Latency:
    """The two latencies of a join.

    ``processing``: from a tuple's arrival until it has been compared with all its candidates and
    its pairs have been made. ``visiting``: from the arrival of the younger of two tuples until they
    have been found to match. A tuple has arrived when it is given to the cores that compare it.
    """

    def __init__(self) -> None:
        self.processing = Histogram()
        self.visiting = Histogram()


def latencies(joins: Sequence[Latency]) -> dict[str, Any]:
    """Both latencies of some joins together, as metrics show them."""
    processing, visiting = Histogram(), Histogram()
    for join in joins:
        processing.merge(join.processing)
        visiting.merge(join.visiting)
    return {"processing": processing.summary(), "visiting": visiting.summary()}
