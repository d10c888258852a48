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
is not there yet, the core remembers that s is due, and forgets it when it comes; until then it
reports a smaller window than it has, so that tuples are passed on to it. For R the same holds at
the right end (§4.4, Fig. 13).

*Flush.* At a standstill, r at core i and s at core j have met unless i < j. A flush starts at the
left without tuples. Each core adds its own R-tuples and passes it on, and the next cores compare
them with their S-tuples: those pairs exactly. After it, two tuples that arrived before the flush
have met, and pass each other without a comparison.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.flows.network.network import Port, Sent
from penstock.flows.sub_window import Group, MakePart

R, S = 0, 1
AHEAD: tuple[Port, Port] = ("right", "left")
"""Where the tuples of each stream go."""
BEHIND: tuple[Port, Port] = ("left", "right")
"""Where they come from."""
GROUP = 4096
"""The most tuples that one message moves."""


@dataclass(frozen=True)
class Size:
    """How many tuples of a side the sender holds, and how many it has received in all.

    Expired tuples that are still to be passed on to it, or to cores behind it, are subtracted; so
    ``stored`` may be negative.
    """

    side: int
    stored: int
    received: int

    def __str__(self) -> str:
        return f"size of {'RS'[self.side]}: {self.stored}"


@dataclass(frozen=True)
class Tuples:
    """Tuples of one stream on their way; as if each were in a message of its own.

    ``compiled``: whether the compiled predicate is valid for their pairs. ``size`` is how many
    tuples the sender holds of the other stream, which comes from where these go.
    """

    group: Group
    compiled: bool = True
    size: Size | None = None

    def __str__(self) -> str:
        seqs, name = self.group.seqs, "RS"[self.group.side]
        return f"{name} {seqs[0]}" if len(seqs) == 1 else f"{name} {seqs[0]}..{seqs[-1]}"


@dataclass(frozen=True)
class Ack:
    """``count`` S-tuples have arrived and their copies may go; ``size``: what the sender holds."""

    count: int
    size: Size

    def __str__(self) -> str:
        return f"acknowledgement of {self.count}"


@dataclass(frozen=True)
class Expire:
    """The tuples of a side below a number have left their window."""

    side: int
    before: int

    def __str__(self) -> str:
        return f"expiry of {'RS'[self.side]} before {self.before}"


@dataclass(frozen=True)
class Gone:
    """The tuples of a side below a number have left the chain."""

    side: int
    before: int

    def __str__(self) -> str:
        return f"{'RS'[self.side]} before {self.before} is gone"


@dataclass(frozen=True)
class Flush:
    """R-tuples from further left, to meet the S-tuples of all cores to the right of theirs.

    Afterwards all R and S with numbers below ``before`` have met, and ``compiled`` says whether the
    compiled predicate is valid for later pairs.
    """

    visitors: tuple[Group, ...]
    before: tuple[int, int]
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

    ``next_size``, ``next_received`` are the size and the number of tuples received that the next
    core reported last; ``reported`` is what this core reported last to the core before it. Tuples
    below ``due`` have expired, as far as the end of the way knows; those below ``until`` have
    arrived; those below ``gone`` have left the chain.
    """

    sent: int = 0
    received: int = 0
    next_size: int = 0
    next_received: int = 0
    reported: tuple[int, int] = (0, 0)
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
    """

    inputs: Sequence[Port] = ("left", "right")

    def __init__(self, number: int, cores: int, part: MakePart) -> None:
        self.name = f"core {number}"
        self.number = number
        self.counts = Counts()
        self._is_first, self._is_last = number == 0, number == cores - 1
        self._windows = (part(R), part(S))
        self._ways = (_Way(), _Way())
        self._forwarded = 0
        self._flushed_before = (0, 0)
        self._compiled = True

    def load(
        self, groups: tuple[Group, Group], ahead: tuple[int, int], before: tuple[int, int]
    ) -> None:
        """Start with these tuples; all below ``before`` have met already.

        ``ahead`` is how many of each stream the next core on their way starts with.
        """
        self._flushed_before = before
        for group, way, there in zip(groups, self._ways, ahead, strict=True):
            self._windows[group.side].append(group)
            way.until, way.next_size, way.reported = before[group.side], there, (len(group), 0)

    # -- messages ---------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go; tuples are only passed on where there is room."""
        return ("result",)

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take one message (``process_left`` and ``process_right`` of Fig. 9)."""
        if isinstance(message, Tuples):
            return self._arrive(message)
        if isinstance(message, Ack):
            return self._acknowledged(message)
        if isinstance(message, Size):
            return self._next_size_is(message)
        if isinstance(message, Expire):
            return self._expire(message)
        if isinstance(message, Flush):
            return self._flush(message)
        assert isinstance(message, Gone), message
        return [("result" if self._is_last else "right", message)]

    def _arrive(self, message: Tuples) -> Iterator[Sent]:
        group, side, way = message.group, message.group.side, self._ways[message.group.side]
        yield from self._meet(group)
        self._windows[side].append(group)
        self.counts.stored[side] += len(group)
        way.received += len(group)
        way.until = int(group.seqs[-1]) + 1
        gone = self._forget(side)
        if side == S and not self._is_last:
            yield "right", Ack(len(group), self._size(S))
        yield from gone
        yield from self._report_size(side)
        if message.size is not None:
            yield from self._next_size_is(message.size)

    def _meet(self, group: Group) -> Iterator[Sent]:
        """The pairs of arriving tuples with those of the other stream that are here."""
        side, there = group.side, self._windows[1 - group.side]
        self.counts.probed[side] += len(group)
        new = bisect_left(group.seqs, self._flushed_before[side])
        for pairs in there.older(group.part(new, len(group)), self._compiled):
            self.counts.matched += len(pairs)
            yield "result", pairs
        for pairs in there.younger(group, self._flushed_before[1 - side], self._compiled):
            self.counts.matched += len(pairs)
            yield "result", pairs

    def _acknowledged(self, ack: Ack) -> Iterable[Sent]:
        self._windows[S].drop(ack.count)
        self._forwarded -= ack.count
        return self._next_size_is(ack.size)

    def _next_size_is(self, size: Size) -> Iterable[Sent]:
        way = self._ways[size.side]
        way.next_size, way.next_received = size.stored, size.received
        return self._report_size(size.side)

    def _expire(self, expire: Expire) -> Iterator[Sent]:
        """At the end of their way, drop expired tuples, now or when they arrive."""
        way = self._ways[expire.side]
        way.due = max(way.due, expire.before)
        yield from self._forget(expire.side)
        yield from self._report_size(expire.side)

    def _forget(self, side: int) -> list[Sent]:
        """Drop expired tuples (the driver's acknowledgements of Fig. 12); gives reports of them."""
        way = self._ways[side]
        self._windows[side].drop(self._windows[side].count_before(way.due))
        enough = way.gone + (self._stored(side) >> 4)
        return self._report_gone(side) if min(way.due, way.until) > enough else []

    def _report_gone(self, side: int) -> list[Sent]:
        """Report which tuples have left the chain."""
        way = self._ways[side]
        way.gone = min(way.due, way.until)
        # R-tuples on their way to the right may still meet copies of S-tuples: the report follows.
        to = "right" if side == S and not self._is_last else "result"
        return [(to, Gone(side, way.gone))]

    def _flush(self, flush: Flush) -> Iterator[Sent]:
        own = self._windows[R]
        for side, way in enumerate(self._ways):
            if min(way.due, way.until) > way.gone:
                yield from self._report_gone(side)
        if self._is_last:
            yield "result", Flush((), flush.before, flush.compiled)
        else:
            visitors = (*flush.visitors, own.oldest(0, len(own))) if len(own) else flush.visitors
            yield "right", Flush(visitors, flush.before, flush.compiled)
        for group in flush.visitors:
            yield from self._meet(group)
        self._flushed_before, self._compiled = flush.before, flush.compiled

    # -- autonomic load balancing (§4.3) ----------------------------------------------------

    def forward(self, has_room: Callable[[Port], bool]) -> Iterator[Sent]:
        """Pass tuples on to neighbours that have fewer (``forward_tuples`` of Fig. 9)."""
        for side in (S, R):
            if self._is_end(side):
                continue
            count = self._surplus(side)
            if count and has_room(AHEAD[side]):
                group = self._let_go(side, count)
                yield AHEAD[side], Tuples(group, self._compiled, self._size(1 - side))
                yield from self._report_size(side)

    def _surplus(self, side: int) -> int:
        """How many to pass on: half the difference, and those that the next core lacks."""
        mine, theirs = self._stored(side), self._theirs(side)
        more = mine - theirs
        # Of a large window not for a small difference, so that messages are large too.
        return min(mine, GROUP, max((more + 1) // 2, -theirs)) if more > mine >> 6 else 0

    def _let_go(self, side: int, count: int) -> Group:
        window, copies = self._windows[side], self._forwarded if side == S else 0
        group: Group = window.oldest(copies, copies + count)
        if side == S:
            self._forwarded += count
        else:
            window.drop(count)
        self._ways[side].sent += count
        return group

    def _report_size(self, side: int) -> Iterator[Sent]:
        """Report our size to the core before us, if it has changed enough."""
        way, level = self._ways[side], self._level(side)
        little = max(0, level) >> 3
        old, before = way.reported
        if abs(level - old) > little or way.received - before > little:
            size = self._size(side)
            if not self._is_start(side):
                yield BEHIND[side], size

    def _size(self, side: int) -> Size:
        """The size to report to the core before us."""
        way = self._ways[side]
        way.reported = (self._level(side), way.received)
        return Size(side, *way.reported)

    def _level(self, side: int) -> int:
        """What we hold, minus expired tuples that are still to come this way."""
        way = self._ways[side]
        asked = max(0, way.due - way.until) if self._is_end(side) else max(0, -self._theirs(side))
        return self._stored(side) - asked

    def _theirs(self, side: int) -> int:
        """What the next core holds once all that we have sent has arrived."""
        way = self._ways[side]
        return way.next_size + way.sent - way.next_received

    def _stored(self, side: int) -> int:
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
            "window": [self._stored(R), self._stored(S)],
            "kernels": [window.kernel for window in self._windows],
        }
