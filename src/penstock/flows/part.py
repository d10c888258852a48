"""What a join core asks of the tuples that pass it and of its part of a window.

:class:`penstock.flows.sub_window.SubWindow` is the one for work. Another one in plain Python,
:class:`penstock.flows.plain_window.PlainWindow`, is for schedules that are explored step by step;
the cores are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.blocks.meeting import Met


class Group(Protocol):
    """Tuples of one stream in a row, as :class:`penstock.blocks.meeting.Arrivals`."""

    @property
    def side(self) -> int:
        """0 for R, 1 for S."""

    @property
    def seqs(self) -> Any:
        """Their numbers, ascending."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> Any:
        """Neighbouring ones of these."""

    def take(self, which: Any) -> Any:
        """Those with these indices."""


class Part(Protocol):
    """A core's part of one stream's window: tuples in the order of their numbers."""

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""

    @property
    def kernel(self) -> str:
        """How it looks for partners."""

    def __len__(self) -> int: ...

    def append(self, arrivals: Any) -> None:
        """Store tuples; they are younger than all that are here."""

    def drop(self, count: int) -> None:
        """Forget the oldest tuples."""

    def oldest(self, start: int, stop: int) -> Any:
        """The tuples that are ``start`` to ``stop`` from the oldest on."""

    def count_before(self, seq: int) -> int:
        """How many tuples have numbers below this one."""

    def older(self, probes: Any, compiled: bool = True) -> Iterator[Met]:
        """The pairs of each probe with the tuples here that arrived before it."""

    def younger(self, probes: Any, met_before: int, compiled: bool = True) -> Iterator[Met]:
        """The pairs of each probe with the tuples here that arrived after it.

        A probe has met those already whose number is below ``met_before``.
        """


MakePart = Callable[[int], Part]
"""Makes an empty part of the window of a side."""
