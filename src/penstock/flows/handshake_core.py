"""Handshake join, one core of the chain (Teubner & Mueller 2011 §3–4, Fig. 9 and 13).

R moves from left to right, S from right to left. Between two neighbours there is one FIFO in each
direction, and that is all a core knows of the others.

*Why every two tuples meet exactly once.* R-tuple r and S-tuple s move towards each other, so there
is one moment when they change sides. If r is at a core when s comes in, s meets it there; if s is
there when r comes in, r meets it. What remains is that both are on their way between the cores k
and k + 1. Core k + 1 has kept a copy of s, marked as forwarded, until the acknowledgement of core k
comes, and core k sends that when it takes s, after it has sent r: in the same FIFO, so r comes
first, and meets the copy. If core k takes s before it sends r, the two meet at core k, the
acknowledgement comes before r, and the copy is gone. Copies are only kept on that one side
(two-phase forwarding, §4.2).

*Who may meet* is decided pair by pair from what the tuples carry, whichever of the two is younger,
so it does not matter when and where they meet. Expiry only says when a tuple may be forgotten, and
only at the end of its way. The driver sends the expiry of s to the left end, behind all of R that
arrived before it; when the left-most core has taken it and s is there, s has met all of them. If s
is not there yet, the core remembers that s is due, and forgets it when it comes. Until then it
holds nobody, since whoever is in front of s is older and is due too; and to a neighbour who holds
nobody, tuples are passed on. For R the same holds at the right end (§4.4, Fig. 13).

*Flush.* At a standstill, r at core i and s at core j have met unless i < j. A flush starts at the
left with nobody, and each core passes it on with its own R-tuples added, which the next cores let
meet their S-tuples: those pairs exactly. From then on two tuples that arrived before the flush have
met, and pass each other in silence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.flows.network import Port, Sent
from penstock.flows.part import Group, MakePart

R, S = 0, 1
AHEAD: tuple[Port, Port] = ("right", "left")
"""Where the tuples of each stream go."""
BEHIND: tuple[Port, Port] = ("left", "right")
"""Where they come from."""
GROUP = 4096
"""The most tuples that one message moves."""


@dataclass(frozen=True)
class Tuples:
    """Tuples of one stream on their way; as if each were in a message of its own.

    ``compiled``: whether the compiled predicate holds good for their pairs.
    """

    group: Group
    compiled: bool = True

    def __str__(self) -> str:
        seqs, name = self.group.seqs, "RS"[self.group.side]
        return f"{name} {seqs[0]}" if len(seqs) == 1 else f"{name} {seqs[0]}..{seqs[-1]}"


@dataclass(frozen=True)
class Ack:
    """So many S-tuples have been taken, their copies may go; and how many the sender holds now."""

    count: int
    stored: int

    def __str__(self) -> str:
        return f"acknowledgement of {self.count}"


@dataclass(frozen=True)
class Size:
    """How many tuples of a side the sender holds, having received so many in all."""

    side: int
    stored: int
    received: int

    def __str__(self) -> str:
        return f"size of {'RS'[self.side]}: {self.stored}"


@dataclass(frozen=True)
class Expire:
    """The tuples of a side below a number have left their window."""

    side: int
    before: int

    def __str__(self) -> str:
        return f"expiry of {'RS'[self.side]} before {self.before}"


@dataclass(frozen=True)
class Gone:
    """The tuples of a side below a number are nowhere in the chain any more."""

    side: int
    before: int

    def __str__(self) -> str:
        return f"{'RS'[self.side]} before {self.before} is gone"


@dataclass(frozen=True)
class Flush:
    """R-tuples from further left, to meet the S-tuples of all cores to the right of theirs.

    Afterwards all R and S with numbers below ``met`` have met, and ``compiled`` says whether the
    compiled predicate holds good for later pairs.
    """

    visitors: tuple[Group, ...]
    met: tuple[int, int]
    compiled: bool

    def __str__(self) -> str:
        ends = [int(seq) for g in self.visitors if len(g) for seq in (g.seqs[0], g.seqs[-1])]
        return f"flush with R {min(ends)}..{max(ends)}" if ends else "flush with 0 R"


@dataclass
class Counts:
    """What a core has counted since it was made, of R and of S."""

    stored: list[int] = field(default_factory=lambda: [0, 0])
    probed: list[int] = field(default_factory=lambda: [0, 0])
    matched: int = 0


@dataclass
class _Way:
    """What a core knows of one stream's way through it.

    ``there``, ``arrived`` are the size and the number of tuples received that the next core told
    last; ``told`` is the same of what this one told the core before it. Tuples below ``due`` have
    expired, as far as the end of the way was told; those below ``until`` have come in by now, and
    those below ``gone`` are nowhere any more.
    """

    sent: int = 0
    received: int = 0
    there: int = 0
    arrived: int = 0
    told: tuple[int, int] = (0, 0)
    due: int = 0
    until: int = 0
    gone: int = 0


class HandshakeCore:
    """A join core with a left and a right neighbour.

    Parameters
    ----------
    number, cores
        Its place in the chain, from the left, and how many there are.
    part
        Makes its part of a window.
    two_phase
        False (for tests) forgets S-tuples as soon as they are sent: then pairs are missed.
    """

    inputs: Sequence[Port] = ("left", "right")

    def __init__(self, number: int, cores: int, part: MakePart, two_phase: bool = True) -> None:
        self.name = f"core {number}"
        self.number = number
        self.counts = Counts()
        self._is_first, self._is_last = number == 0, number == cores - 1
        self._windows = (part(R), part(S))
        self._ways = (_Way(), _Way())
        self._forwarded = 0
        self._met = (0, 0)
        self._compiled = True
        self._two_phase = two_phase

    def load(
        self, groups: tuple[Group, Group], ahead: tuple[int, int], met: tuple[int, int]
    ) -> None:
        """Start with these tuples; all below ``met`` have met already.

        ``ahead`` is how many of each stream the next core on their way starts with.
        """
        self._met = met
        for group, way, there in zip(groups, self._ways, ahead, strict=True):
            self._windows[group.side].append(group)
            way.until, way.there, way.told = met[group.side], there, (len(group), 0)

    # -- messages ---------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go; tuples are only passed on where there is room."""
        return ("result",)

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take one message (``process_left`` and ``process_right`` of Fig. 9)."""
        if isinstance(message, Tuples):
            return self._arrive(message.group)
        if isinstance(message, Ack):
            return self._acknowledged(message)
        if isinstance(message, Size):
            return self._told(message)
        if isinstance(message, Expire):
            return self._expire(message)
        if isinstance(message, Flush):
            return self._flush(message)
        assert isinstance(message, Gone), message
        return [("result" if self._is_last else "right", message)]

    def _arrive(self, group: Group) -> Iterator[Sent]:
        side, way = group.side, self._ways[group.side]
        yield from self._meet(group)
        self._windows[side].append(group)
        self.counts.stored[side] += len(group)
        way.received += len(group)
        way.until = int(group.seqs[-1]) + 1
        gone = self._forget(side)
        if side == S and self._two_phase and not self._is_last:
            way.told = (self._held(S), way.received)
            yield "right", Ack(len(group), self._held(S))
        yield from gone
        yield from self._tell(side)

    def _meet(self, group: Group) -> Iterator[Sent]:
        """The pairs of arriving tuples with those of the other stream that are here."""
        side, there = group.side, self._windows[1 - group.side]
        self.counts.probed[side] += len(group)
        new = bisect_left(group.seqs, self._met[side])
        for met in there.older(group.part(new, len(group)), self._compiled):
            self.counts.matched += len(met)
            yield "result", met
        for met in there.younger(group, self._met[1 - side], self._compiled):
            self.counts.matched += len(met)
            yield "result", met

    def _acknowledged(self, ack: Ack) -> Iterable[Sent]:
        way = self._ways[S]
        self._windows[S].drop(ack.count)
        self._forwarded -= ack.count
        way.there, way.arrived = ack.stored, way.arrived + ack.count
        return ()

    def _told(self, size: Size) -> Iterable[Sent]:
        way = self._ways[size.side]
        way.there, way.arrived = size.stored, size.received
        return ()

    def _expire(self, expire: Expire) -> Iterator[Sent]:
        """At the end of their way, forget those who are due, now or when they come."""
        way = self._ways[expire.side]
        way.due = max(way.due, expire.before)
        yield from self._forget(expire.side)
        yield from self._tell(expire.side)

    def _forget(self, side: int) -> list[Sent]:
        """Drop those who are due (the driver's acknowledgements of Fig. 12); gives the news."""
        way = self._ways[side]
        self._windows[side].drop(self._windows[side].count_before(way.due))
        gone = min(way.due, way.until)
        if gone <= way.gone:
            return []
        way.gone = gone
        # R-tuples on their way to the right may still meet copies of S-tuples: the news follows.
        to = "right" if side == S and not self._is_last else "result"
        return [(to, Gone(side, gone))]

    def _flush(self, flush: Flush) -> Iterator[Sent]:
        own = self._windows[R]
        if self._is_last:
            yield "result", Flush((), flush.met, flush.compiled)
        else:
            visitors = (*flush.visitors, own.oldest(0, len(own))) if len(own) else flush.visitors
            yield "right", Flush(visitors, flush.met, flush.compiled)
        for group in flush.visitors:
            yield from self._meet(group)
        self._met, self._compiled = flush.met, flush.compiled

    # -- autonomic load balancing (§4.3) ----------------------------------------------------

    def forward(self, has_room: Callable[[Port], bool]) -> Iterator[Sent]:
        """Pass tuples on to neighbours who have fewer (``forward_tuples`` of Fig. 9)."""
        for side in (S, R):
            if self._is_end(side):
                continue
            count = self._surplus(side)
            if count and has_room(AHEAD[side]):
                yield AHEAD[side], Tuples(self._let_go(side, count))
                yield from self._tell(side)

    def _surplus(self, side: int) -> int:
        """How many to pass on: half of what we have more."""
        way, mine = self._ways[side], self._held(side)
        more = mine - (way.there + way.sent - way.arrived)
        # Of a large window not for a trifle, so that messages are large too.
        return min(GROUP, (more + 1) // 2) if more > mine >> 6 else 0

    def _let_go(self, side: int, count: int) -> Group:
        window, kept = self._windows[side], self._forwarded if side == S else 0
        group: Group = window.oldest(kept, kept + count)
        if side == S and self._two_phase:
            self._forwarded += count
        else:
            window.drop(count)
        self._ways[side].sent += count
        return group

    def _tell(self, side: int) -> Iterator[Sent]:
        """Tell the core before us how much we hold, if that has changed enough."""
        way, stored = self._ways[side], self._held(side)
        little = stored >> 3
        old, before = way.told
        if abs(stored - old) > little or way.received - before > little:
            way.told = (stored, way.received)
            if not self._is_start(side):
                yield BEHIND[side], Size(side, stored, way.received)

    def _held(self, side: int) -> int:
        """The tuples of a side here, copies not counted."""
        return len(self._windows[side]) - (self._forwarded if side == S else 0)

    def _is_end(self, side: int) -> bool:
        """Whether the tuples of this side go no further."""
        return self._is_last if side == R else self._is_first

    def _is_start(self, side: int) -> bool:
        """Whether the tuples of this side come from the driver."""
        return self._is_first if side == R else self._is_last

    # -- figures ----------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return sum(window.comparisons for window in self._windows)

    def measures(self) -> dict[str, Any]:
        """What it has stored, probed and found, and what it holds now, of R and of S."""
        return {
            "core": self.number,
            "stored": list(self.counts.stored),
            "probed": list(self.counts.probed),
            "matched": self.counts.matched,
            "comparisons": self.comparisons,
            "window": [self._held(R), self._held(S)],
            "kernels": [window.kernel for window in self._windows],
        }
