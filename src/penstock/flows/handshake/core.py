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

*Flush.* It brings together the tuples before it that have not met, in the order of the tuples. It
enters at the left, behind all of R before it. Each core adds copies of its R-tuples and passes it
on, so these hurry ahead to the right end, and meet what is there of S at every core. They meet each
S-tuple once, for the same reason as above: nothing was said there of how fast a tuple moves. When
the flush has passed a core, all old R-tuples have left it in this sense; from then on, two tuples
from before the flush are not compared there. At the right end a *mark* comes behind all of S before
the flush. The last core takes nothing more of R when the flush has come, until the mark comes, and
nothing more of S when the mark has come, until the flush comes: then all of S has entered, and was
at some core when the flush passed, or crossed it on its way and met the copies that it carries. No
core waits for ever: in front of the mark are S-tuples only, in front of the flush only what cores
take without waiting.

*A change* goes with a flush. A core first lets the visitors meet its tuples, by the old program;
that was the last time that two old tuples were compared there. Then it takes the new one. New
tuples of R come behind the flush, and new ones of S enter when it has passed all cores. So wherever
a new tuple comes, the new program is in force. What remains are old S-tuples that a core has sent
to the left and then let the flush come by: they come to a core that has the new program, without
it. So each core sends word to the left that it has taken the change, behind them in the FIFO; until
that comes, the core on the left applies the change to every S-tuple from there. Old R-tuples on
their way are in front of the flush.

Tuples that no core has yet (a filter lets them pass now) go where they would be: a core takes those
with numbers from behind the last one that it has passed on to the last one that has come to it, on
their way with their neighbours if these are, and the rest go to the core where the stream enters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.flows.network.network import Port, Sent
from penstock.flows.sub_window import Group, MakePart, ProgramChange

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
    compiled predicate is valid for later pairs. ``change``: the program for these.
    """

    visitors: tuple[Group, ...]
    before: tuple[int, int]
    compiled: bool
    change: ProgramChange | None = None

    def __str__(self) -> str:
        ends = [int(seq) for g in self.visitors if len(g) for seq in (g.seqs[0], g.seqs[-1])]
        return f"flush with R {min(ends)}..{max(ends)}" if ends else "flush with 0 R"


@dataclass(frozen=True)
class Mark:
    """All of S before a flush has come."""

    def __str__(self) -> str:
        return "mark of a flush"


@dataclass(frozen=True)
class Taken:
    """The sender has taken a change: what comes behind it is as the change wants it."""

    def __str__(self) -> str:
        return "word that a change is taken"


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
    arrived; those below ``passed`` have been sent on; those below ``gone`` have left the chain.
    """

    sent: int = 0
    received: int = 0
    next_size: int = 0
    next_received: int = 0
    reported: tuple[int, int] = (0, 0)
    due: int = 0
    until: int = 0
    passed: int = 0
    gone: int = 0


@dataclass
class _Untaken:
    """A change that the next core on the right may not have taken.

    Below ``until``, S-tuples from there have come, by the numbers from before the change.
    """

    change: ProgramChange
    until: int


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
        self._held: Flush | None = None
        """Of the last core, a flush that has come before its mark."""
        self._is_marked = False
        """Of the last core, whether a mark has come before its flush."""
        self._untaken: deque[_Untaken] = deque()
        """Changes that the core on the right has not taken, as far as is known here."""

    # -- messages ---------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port] | None:
        """Results must have somewhere to go; tuples are only passed on where there is room."""
        if self._held is not None if port == "left" else self._is_marked:
            return None
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
            return self._take_flush(message)
        if isinstance(message, Mark):
            return self._mark()
        if isinstance(message, Taken):
            self._untaken.popleft()
            return ()
        assert isinstance(message, Gone), message
        return [("result" if self._is_last else "right", message)]

    def _arrive(self, message: Tuples) -> Iterator[Sent]:
        group, side, way = message.group, message.group.side, self._ways[message.group.side]
        count = len(group)
        way.received += count
        if side == S:
            group, count = self._as_changed(group)
        until = max(way.until, int(group.seqs[-1]) + 1) if len(group) else way.until
        yield from self._meet(group)
        self._windows[side].append(group)
        self.counts.stored[side] += count
        way.until = until
        gone = self._forget(side)
        if side == S and not self._is_last:
            yield "right", Ack(count, self._size(S))
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

    # -- flush and change ---------------------------------------------------------------------

    def _take_flush(self, flush: Flush) -> Iterable[Sent]:
        """At the end of its way a flush waits for its mark."""
        if self._is_last and not self._is_marked:
            self._held = flush
            return ()
        self._is_marked = False
        return self._flush(flush)

    def _mark(self) -> Iterable[Sent]:
        """All of S before a flush has come."""
        flush, self._held = self._held, None
        if flush is None:
            self._is_marked = True
            return ()
        return self._flush(flush)

    def _flush(self, flush: Flush) -> Iterator[Sent]:
        own = self._windows[R]
        for side, way in enumerate(self._ways):
            if min(way.due, way.until) > way.gone:
                yield from self._report_gone(side)
        if not self._is_last:
            visitors = flush.visitors
            if len(own) and flush.before != self._flushed_before:
                visitors = (*visitors, own.oldest(0, len(own)))
            yield "right", replace(flush, visitors=visitors)
        for group in flush.visitors:
            yield from self._meet(group)
        self._flushed_before, self._compiled = flush.before, flush.compiled
        if flush.change is not None:
            yield from self._change(flush.change)

    def _change(self, change: ProgramChange) -> Iterator[Sent]:
        """Take another program; no two old tuples are compared here any more."""
        if not self._is_first:
            yield "left", Taken()
        if not self._is_last:
            self._untaken.append(_Untaken(change, self._ways[S].until))
        for side, way in enumerate(self._ways):
            new = change.new(side)
            last = len(new) if self._is_start(side) else new.searchsorted(way.until)
            self._windows[side].change(change, new[new.searchsorted(way.passed) : last])
            self._renumber(way, side, change)
        self._forwarded = self._windows[S].count_before(self._ways[S].passed)
        for side in (R, S):
            yield from self._forget(side)
            yield from self._report_size(side)

    def _renumber(self, way: _Way, side: int, change: ProgramChange) -> None:
        """Of tuples below the first live number, none is anywhere or will come."""
        live = change.live[side]
        for name in ("due", "until", "passed"):
            setattr(way, name, max(live, change.number(side, getattr(way, name))))

    def _as_changed(self, group: Group) -> tuple[Group, int]:
        """S-tuples that were sent before the sender took the changes that were taken here.

        Also how many of them there are, without those that no core had.
        """
        count, last = len(group), int(group.seqs[-1]) + 1
        for untaken in self._untaken:
            change, new = untaken.change, untaken.change.new(S)
            added = new[new.searchsorted(untaken.until) : new.searchsorted(last)]
            group = change.changed(group, added)
            count = len(group) - len(added)
            untaken.until, last = last, change.number(S, last)
        return group, count

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
        self._ways[side].passed = int(group.seqs[-1]) + 1
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
