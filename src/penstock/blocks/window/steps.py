"""The bounded-step loop: a search in steps, each of as many probes as have pairs that fit memory.

A step whose pairs do not fit is repeated with half of its probes, down to a single probe. Where
pairs are few the next step has twice as many. So memory is bounded whatever the match rate, and the
steps never decide which pairs are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Steps:
    """How many probes a step has; it lasts from one run to the next."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self.size = largest

    def halve(self, tried: int) -> None:
        """Take half of the probes that had too many pairs."""
        self.size = max(1, tried // 2)

    def widen(self, pairs: int, most: int) -> None:
        """Take twice as many probes if these had few pairs; there may be ``most``."""
        if self.size < self._largest and pairs * 4 < most:
            self.size *= 2

    def through(
        self,
        start: int,
        stop: int,
        most: int,
        search: Callable[[int, int], T | None],
        pairs: Callable[[T], int],
        longest: int | None = None,
    ) -> Iterator[tuple[T | None, int, int]]:
        """What is found of the probes ``start .. stop - 1``, with the range of each step.

        ``search`` gives None for a range that has too many pairs, more than ``most`` or so;
        ``pairs`` counts those of a result. ``longest`` bounds the probes of a step. A result of
        None is of a single probe, which cannot be divided any further.
        """
        while start < stop:
            end = min(stop, start + min(self.size, longest or self.size))
            found = search(start, end)
            if found is None and end - start > 1:
                self.halve(end - start)
                continue
            if found is not None:
                self.widen(pairs(found), most)
            yield found, start, end
            start = end
