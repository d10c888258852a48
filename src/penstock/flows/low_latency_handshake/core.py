"""Low-latency handshake join, one core of the chain (Najafi 2019 §3.1, §5.3.1).

Tuples do not wait to be pushed along: each is passed on at once through the whole chain, R to the
right and S to the left, and is stored at one core on its way, its home: its number modulo the
number of cores. So it has met all its partners after as many hops as there are cores.

*Which tuples meet where.* Let r and s be tuples of R and of S.

1. r arriving at a core meets the S-tuples stored there, and those that the core has sent to the
   left, whose home is further left, and which the left neighbour has not acknowledged.
2. s arriving at a core meets the R-tuples stored there whose expedition has ended: the last core
   sends word of that back to the left when r has reached it, and r is stored at its home only when
   the word has come through.

*Why each pair meets exactly once.* r comes to the cores from left to right and s from right to
left, so there is a number a such that r is before s at the cores 0 .. a, and s before r at the
others.

- If a is the last core: r has come to its end before s came in. The word of that is in front of s
  in every FIFO, so s meets r at r's home by rule 2. By rule 1 they never meet: wherever r comes, s
  has not been yet.
- Else s was at the last core before r, so s is in front of the word in every FIFO, and rule 2 does
  not apply. At every core c from a + 2 on, the acknowledgement of core c - 1 was sent before r:
  there r does not find s among those sent to the left. At core a + 1, s has been sent to the left
  already, and core a sends its acknowledgement after r, in the same FIFO: r finds s among those
  sent, if s's home is further left. If not, s's home is one of the cores where s was before r, and
  r finds it stored there; and if so, r was at s's home before s, and does not.

*Expiry.* The driver sends the expiry of s to the left end behind all of R that arrived before it.
It visits every core. When it comes to s's home, all of R that s may meet has been there. If s has
not, then r was before s at s's home, and they meet elsewhere: s need not be stored at all. For r
the same holds from the right: if the word that its expedition has ended comes after its expiry,
every tuple in front of the expiry is in front of the word, and meets r by rule 1.

*A change* comes in at both ends, behind all tuples before it, and each core passes it on at once to
the side where it did not come from. A core takes nothing more from the side by which the change has
come until it has come by the other side too; then it takes its program. Until then all tuples that
come are old ones, from before the change, and the program is the old one. Afterwards all are new:
old ones of both streams were in front of the change in the FIFOs. So pairs of two old tuples meet
under the old program, and pairs with a new one, whose younger tuple is new, under the new program.
To wait at an input is to be slow, so each pair still meets exactly once. No core waits for ever:
the change itself waits for nothing but room, and a core at which it has come by one side takes
everything from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.flows.handshake.core import AHEAD, Counts, Expire, R, S, Tuples
from penstock.flows.network.network import Port, Sent
from penstock.flows.sub_window import NO_NUMBERS, Group, MakePart, Part, ProgramChange


@dataclass(frozen=True)
class Acknowledgement:
    """The S-tuples below a number have been taken; their copies may go."""

    before: int

    def __str__(self) -> str:
        return f"acknowledgement of S before {self.before}"


@dataclass(frozen=True)
class ExpeditionEnd:
    """The R-tuples below a number have reached the last core."""

    before: int

    def __str__(self) -> str:
        return f"end of the expedition of R before {self.before}"


@dataclass(frozen=True)
class Program:
    """A change on its way, behind the tuples before it."""

    change: ProgramChange

    def __str__(self) -> str:
        return str(self.change)


class LowLatencyCore:
    """A join core with a left and a right neighbour.

    Parameters
    ----------
    number, cores
        Its place in the chain, from the left, and how many there are.
    part
        Makes its part of a window.
    """

    inputs: Sequence[Port] = ("left", "right")

    def __init__(self, number: int, cores: int, part: MakePart) -> None:
        self.name = f"core {number}"
        self.number = number
        self.counts = Counts()
        self._cores = cores
        self._is_first, self._is_last = number == 0, number == cores - 1
        self._windows = (part(R), part(S))
        self._crossing = part(S)
        self._sent: list[tuple[int, Group]] = []
        """What has been sent to the left since R came last: its last number, and itself."""
        self._travelling: list[tuple[int, Group]] = []
        self._due = [0, 0]
        self._changed_at: Port | None = None
        """The side by which a change has come that has not come by the other one."""

    # -- messages ---------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port] | None:
        """What comes in goes on, and results must have somewhere to go."""
        if port == self._changed_at:
            return None
        if port == "left":
            return ("result",) if self._is_last else ("result", "right")
        return ("result",) if self._is_first else ("result", "left")

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take one message."""
        if isinstance(message, Tuples):
            return self._right_moving(message) if port == "left" else self._left_moving(message)
        if isinstance(message, Expire):
            return self._expire(message)
        if isinstance(message, ExpeditionEnd):
            return self._ended(message)
        if isinstance(message, Program):
            return self._change(port, message)
        assert isinstance(message, Acknowledgement), message
        self._acknowledged(message)
        return ()

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing waits to be passed on."""
        return ()

    def _right_moving(self, message: Tuples) -> Iterator[Sent]:
        """R-tuples: pass them on at once, then compare them with the tuples here."""
        group = message.group
        if not self._is_last:
            yield "right", message
        yield from self._meet(self._windows[S], message)
        self._keep_copies()
        yield from self._meet(self._crossing, message)
        self.counts.probed[R] += len(group)
        at_home = self._at_home(group)
        if len(at_home):
            self._travelling.append((int(group.seqs[-1]), at_home))
        if self._is_last:
            yield from self._ended(ExpeditionEnd(int(group.seqs[-1]) + 1))

    def _left_moving(self, message: Tuples) -> Iterator[Sent]:
        """S-tuples: pass them on at once, keeping copies of those whose home is further left."""
        group = message.group
        if not self._is_last:
            yield "right", Acknowledgement(int(group.seqs[-1]) + 1)
        if not self._is_first:
            yield "left", message
            self._sent.append((int(group.seqs[-1]), group))
        yield from self._meet(self._windows[R], message)
        self.counts.probed[S] += len(group)
        self._store(self._at_home(group))

    def _keep_copies(self) -> None:
        """Copy what has been sent to the left, of those whose home is there.

        Most of it is acknowledged before R comes, and needs no copies.
        """
        for _, group in self._sent:
            self._crossing.append(self._further_left(group))
        self._sent.clear()

    def _acknowledged(self, message: Acknowledgement) -> None:
        """Let copies go. Groups are acknowledged as they were sent, each as a whole."""
        while self._sent and self._sent[0][0] < message.before:
            self._sent.pop(0)
        self._crossing.drop(self._crossing.count_before(message.before))

    def _ended(self, ended: ExpeditionEnd) -> Iterator[Sent]:
        if not self._is_first:
            yield "left", ended
        # Groups reach the last core as they were sent, each as a whole.
        while self._travelling and self._travelling[0][0] < ended.before:
            self._store(self._travelling.pop(0)[1])

    def _change(self, port: Port, program: Program) -> Iterator[Sent]:
        """Take another program once it has come by both sides."""
        change = program.change
        if not (self._is_last if port == "left" else self._is_first):
            yield "right" if port == "left" else "left", program
        if self._changed_at is None:
            self._changed_at = port
            return
        self._changed_at = None
        for side, window in enumerate(self._windows):
            new = change.new(side)
            window.change(change, new[new % self._cores == self.number])
            self._due[side] = max(self._due[side], change.live[side])
        self._keep_copies()
        self._crossing.change(change)
        self._travelling = [
            (last, change.changed(group, NO_NUMBERS)) for last, group in self._travelling
        ]

    def _expire(self, expire: Expire) -> Iterator[Sent]:
        side = expire.side
        window = self._windows[side]
        self._due[side] = max(self._due[side], expire.before)
        window.drop(window.count_before(self._due[side]))
        # It goes the way of the other stream.
        if not (self._is_last if side == S else self._is_first):
            yield AHEAD[1 - side], expire

    def _meet(self, there: Part, message: Tuples) -> Iterator[Sent]:
        for pairs in there.both(message.group, message.compiled):
            self.counts.matched += len(pairs)
            yield "result", pairs

    def _store(self, group: Group) -> None:
        """Store those that have not expired meanwhile."""
        side, window = group.side, self._windows[group.side]
        window.append(group)
        window.drop(window.count_before(self._due[side]))
        self.counts.stored[side] += len(group)

    def _at_home(self, group: Group) -> Group:
        seqs, cores = group.seqs, self._cores
        if not isinstance(seqs, tuple) and int(seqs[-1]) - int(seqs[0]) == len(seqs) - 1:
            # There are no gaps: one in `cores` is at home here.
            found: Group = group.take(slice((self.number - int(seqs[0])) % cores, None, cores))
            return found
        return _where(group, cores, lambda home: home == self.number)

    def _further_left(self, group: Group) -> Group:
        return _where(group, self._cores, lambda home: home < self.number)

    # -- figures ----------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return self._crossing.comparisons + sum(w.comparisons for w in self._windows)

    def measures(self) -> dict[str, Any]:
        """What it has stored, probed and found, and what it holds now, of R and of S."""
        return {
            "core": self.number,
            "stored": list(self.counts.stored),
            "probed": list(self.counts.probed),
            "matched": self.counts.matched,
            "comparisons": self.comparisons,
            "window": [len(window) for window in self._windows],
            "kernels": [window.kernel for window in self._windows],
        }


def _where(group: Group, cores: int, wanted: Callable[[Any], Any]) -> Group:
    """The tuples whose home is a wanted one."""
    found: Group
    if isinstance(group.seqs, tuple):
        found = group.take([i for i, seq in enumerate(group.seqs) if wanted(seq % cores)])
    else:
        found = group.take(np.flatnonzero(wanted(group.seqs % cores)))
    return found
