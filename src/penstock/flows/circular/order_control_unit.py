"""The order control unit of a stage: which tuples of its window a combination may see.

A stage stores new tuples while older ones are still being processed (§6.1.3 of Najafi 2019). So
its window may hold tuples that came after a combination's origin, and may have lost tuples that
were live when the origin came. The unit notes in the order buffer, OBuf, every chunk of new tuples
that has come by and that is not finished here, and in the expiry buffer, EBuf, the tuples that
these chunks have pushed out of the window.

Why it is right. A chunk leaves OBuf in order, when all sets of it have ended here. So while a
combination is processed its own chunk is in OBuf, and with it every younger tuple that has been
stored: what is stored and not in OBuf is older than the origin. ``premature`` counts the tuples in
OBuf that are younger than the origin. They are the last of the stored ones, since both are in
arrival order; *refine* leaves them out. EBuf reaches back to where the window began before the
oldest chunk in OBuf, so *compare* finds there what was live at the origin's arrival.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from penstock.flows.multi_flow import NewTuples

Indices = npt.NDArray[np.int64]
NOTHING: Indices = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class OBufEntry:
    """A chunk in OBuf.

    ``ranks`` are those of its tuples that the stage has stored, ``window`` the number of the first
    tuple of the window before they were; ``waiting`` are the origins of sets that have not ended.
    """

    number: int
    ranks: Indices
    window: int
    waiting: frozenset[int]


@dataclass
class OrderControlUnit:
    """OBuf and EBuf of a stage. Tuples of its window are known by their numbers.

    Parameters
    ----------
    input
        The stream of the stage.
    size
        How many chunks OBuf has room for.
    window_rows
        The size of a count window; None for others.
    stored
        The number after the newest tuple that has been stored.
    window
        The number of the first tuple in the window; what is before it is in EBuf.
    """

    input: int
    size: int
    window_rows: int | None
    stored: int
    window: int
    obuf: deque[OBufEntry] = field(default_factory=deque)
    next_chunk: int = 0
    """The number of the chunk that comes next by the distribution chain."""

    @property
    def is_full(self) -> bool:
        """Whether OBuf has no room for another chunk."""
        return len(self.obuf) >= self.size

    @property
    def expired(self) -> int:
        """The number of the first tuple in EBuf, or in the window if EBuf is empty."""
        return self.obuf[0].window if self.obuf else self.window

    def has_come(self, number: int) -> bool:
        """Whether a chunk, and so every one before it, has come by the distribution chain."""
        return number < self.next_chunk

    def take(self, tuples: NewTuples) -> None:
        """Note a chunk; those of its tuples that belong here are stored, and others expire."""
        ranks = tuples.ranks_of(self.input)
        waiting = tuples.origins - {self.input}
        self.obuf.append(OBufEntry(tuples.number, ranks, self.window, waiting))
        self.next_chunk = tuples.number + 1
        self.stored += len(ranks)
        if self.window_rows is not None:
            self.window = max(self.window, self.stored - self.window_rows)
        elif tuples.live is not None:
            self.window = max(self.window, tuples.live[self.input])
        self._drop_finished()

    def premature(self, ranks: Indices) -> Indices:
        """The out-of-order calculator: how many tuples were stored too early for each origin."""
        early = np.concatenate([NOTHING, *(chunk.ranks for chunk in self.obuf)])
        counts: Indices = len(early) - np.searchsorted(early, ranks)
        return counts

    def refine(self, ranks: Indices) -> Indices:
        """For each origin, the number after the last stored tuple that it may see."""
        return self.stored - self.premature(ranks)

    def compare(self) -> int:
        """The number of the first tuple to be compared: EBuf comes before the window."""
        return self.expired

    def finish(self, number: int, origin: int) -> None:
        """A set has ended here."""
        for place, chunk in enumerate(self.obuf):
            if chunk.number == number:
                self.obuf[place] = replace(chunk, waiting=chunk.waiting - {origin})
        self._drop_finished()

    def _drop_finished(self) -> None:
        while self.obuf and not self.obuf[0].waiting:
            self.obuf.popleft()
