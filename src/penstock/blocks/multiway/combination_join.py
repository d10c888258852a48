"""A step of a tree of joins: the combinations of what stands to its left, and one more input.

Why it is exact. A combination is formed at a *moment*: the rank of an event, and a phase of it. At
one event, first come the combinations that its punctuation or its push makes expire (``EXPIRED``),
then those of the tuple that arrives (``MET``), then those that expire right after they were formed
(``AT_ONCE``). Combinations come to a step by moment, and are stored with the members' numbers, so
they are ordered as tuples of a window are. When a combination is formed, it probes the window of
the step's input as it is at that rank. When a tuple of that input arrives, it probes the stored
combinations that were formed before its rank and have not ended. So a pair is found exactly once,
by the later of the two. Towards a tuple, a combination is like one tuple of a window: of its
members in time windows, the largest time and the smallest expiry decide. It ends when its first
member expires; the ranks of that are known for a whole batch before anything is compared. A tuple
that arrives at or after that rank does not see it. So whether it has met a partner is settled by
then, and LEFT, FULL and ANTI give it out at that moment.

To the right of the first step a combination can be decided after tuples that it meets have expired.
All windows are of time there, and the input keeps its tuples for as long as such a combination may
come (:attr:`penstock.blocks.window.window.StoredWindow.lag`), so that the times alone say what
meets, in whatever order things come. RIGHT and FULL give out a tuple that has met nothing when it
is no longer kept. What can meet it is decided by then: a combination that meets it has a member
with a time before its expiry, and is decided when the punctuations of all inputs have come a window
of that member further, or, if it began as an unmatched tuple of a right or full join that waited
itself, when that one was no longer kept. What is decided at the same event comes at the same
moment, and a part of a batch finds all pairs of a moment before it gives out what has met nothing.

Why combinations are stored. What stands to the left is made by the program in force when its
youngest member arrives; a later change of its condition neither unmakes it nor makes another. The
window could be searched again for each tuple that arrives, but under the condition of then only,
and whether a combination has met a partner would have to be stored all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.output import (
    LEFT_UNMATCHED,
    NEVER,
    ONE_PARTNER,
    RIGHT_UNMATCHED,
    Expiring,
    expiry_ranks,
    in_rank_order,
    standing,
)
from penstock.blocks.multiway.combination_search import Arrived, known
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.state import BlockState
from penstock.blocks.window.keys import StoredKeys, WindowKeys
from penstock.blocks.window.live_ranges import Ranges
from penstock.blocks.window.punctuator import Clock, Ticks
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.stored_columns import Buffer
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.streams.windows import Range
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
PHASES = 4
"""A moment is a rank times this, plus a phase."""
EXPIRED, MET, AT_ONCE = 0, 1, 2
BEFORE = -PHASES
"""The moment of what was formed before this batch."""
NO_NUMBER = -1
"""Stands for a member that is missing."""


@dataclass(frozen=True, eq=False)
class Formed:
    """Combinations by moment, with the numbers of their members; -1 for one that is missing."""

    moments: Indices
    members: tuple[Indices, ...]

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def ranks(self) -> Indices:
        """The ranks of the events that formed them."""
        return self.moments // PHASES


def nothing_formed(inputs: int) -> Formed:
    """No combinations."""
    nothing = np.empty(0, np.int64)
    return Formed(nothing, (nothing,) * inputs)


def in_row_order(formed: Formed, sides: Sequence[StoredWindow]) -> Formed:
    """Combinations as rows leave: by moment, then by the members' numbers in the order of FROM.

    Those that expire come oldest first, by the arrival of the youngest member.
    """
    youngest = np.zeros(len(formed), np.int64)
    for side, seqs in zip(sides, formed.members, strict=True):
        assert side.arrived is not None
        real = np.flatnonzero(seqs >= 0)
        arrived = side.arrived.view()[seqs[real] - side.rows.first]
        youngest[real] = np.maximum(youngest[real], arrived)
    youngest[formed.moments % PHASES == MET] = 0
    order = np.lexsort((*reversed(formed.members), youngest, formed.moments))
    return Formed(formed.moments[order], tuple(seqs[order] for seqs in formed.members))


@dataclass(frozen=True, eq=False)
class Expiries:
    """Of an input's oldest tuples, from number ``first`` on: own ranks, and ranks of expiry."""

    first: int
    own: Indices
    when: Indices

    def of(self, seqs: Indices) -> Indices:
        """The ranks at which tuples expire; NEVER for a missing one, and after the batch."""
        found = np.full(len(seqs), NEVER, np.int64)
        where = seqs - self.first
        known = np.flatnonzero((seqs >= 0) & (where < len(self.when)))
        found[known] = self.when[where[known]]
        return found


@dataclass(frozen=True, eq=False)
class Events:
    """What a batch brings to the steps of a tree: when tuples arrive, and when they expire.

    ``tuples`` are the ranks of each input's tuples; ``seen`` says how many of the batch's tuples of
    an input come before events of these ranks. Of inputs whose unmatched tuples come out,
    ``settled`` are the ranks at which it is certain that no combination meets a tuple any more;
    without a lag, these are the expiries.
    """

    tuples: Sequence[Indices]
    seen: Callable[[Indices, int], Indices]
    expiries: Sequence[Expiries]
    settled: Sequence[Expiries]


def events_of(sides: Sequence[StoredWindow], arrived: Arrived) -> Events:
    """The events of a batch that has been stored.

    A tuple expires when the punctuations of all other inputs have passed it, or all have ended.
    """
    ranks = arrived.ranks
    before = arrived.punctuations_before
    steps = [ranks.steps(number, admitted) for number, admitted in enumerate(arrived.admitted)]
    ends = [
        -1
        if admitted.end_key is None
        else int(ranks.controls[number][admitted.control_keys == admitted.end_key][0])
        for number, admitted in enumerate(arrived.admitted)
    ]
    moving = np.zeros(ranks.count, np.bool_)
    for at, _ in steps:
        moving[at] = True
    moves = np.flatnonzero(moving)
    all_standing = [standing(moves, *of) for of in zip(steps, before, strict=True)]

    def passing(side: StoredWindow, inputs: Sequence[int], after: Ticks, first: Ticks) -> Expiries:
        """When inputs pass the tuples of a side, by their smallest punctuations and their ends."""
        ended_before = all(arrived.ended_before[number] for number in inputs)
        ended = all(sides[number].ended for number in inputs)
        own, when = expiry_ranks(
            side,
            ranks.tuples[side.index],
            (moves, after),
            ended_before,
            max(ends[number] for number in inputs) if ended and not ended_before else None,
            first[0].item(),
        )
        return Expiries(side.rows.first, own, when)

    expiries, settled = [], []
    for side, least in zip(sides, _least_of_others(all_standing), strict=True):
        others = [other.index for other in sides if other is not side]
        first = np.array([min(before[number] for number in others)], least.dtype)
        expiries.append(passing(side, others, least, first))
        if side.lag is None or side.matched is None:
            settled.append(expiries[-1])
            continue
        every = range(len(sides))
        least = np.minimum(least, all_standing[side.index])
        first = np.minimum(first, before[side.index])
        settled.append(passing(side, every, side.lag.before(least), side.lag.before(first)))
    return Events(ranks.tuples, ranks.seen, expiries, settled)


def reach_of(
    sides: Sequence[StoredWindow], members: Sequence[Indices], count: int, clock: Clock
) -> tuple[Ticks, Ticks]:
    """The largest time, and the smallest expiry, of the members that are in time windows."""
    times = np.full(count, clock.lowest, clock.dtype)
    expiry = np.full(count, clock.highest, clock.dtype)
    for side, seqs in zip(sides, members, strict=True):
        if isinstance(side.window, Range):
            real = np.flatnonzero(seqs >= 0)
            where = seqs[real] - side.rows.first
            times[real] = np.maximum(times[real], side.times.view()[where])
            expiry[real] = np.minimum(expiry[real], side.expiry.view()[where])
    return times, expiry


def _least_of_others(numbers: Sequence[Ticks]) -> list[Ticks]:
    """For each of several columns, the smallest numbers of all the others."""
    before, after = [numbers[-1]], [numbers[0]]
    for column in numbers[-2:0:-1]:
        before.append(np.minimum(before[-1], column))
    for column in numbers[1:-1]:
        after.append(np.minimum(after[-1], column))
    ends = zip(after[:-1], before[-2::-1], strict=True)
    return [before[-1], *(np.minimum(a, b) for a, b in ends), after[-1]]


class CombinationWindow:
    """The combinations of some inputs, by the moments at which they were formed.

    ``times`` and ``expiry`` are the largest time and the smallest expiry of members in time
    windows. ``ends`` is the rank at which the first member expires, -1 if that was before this
    batch. ``due`` is the moment at which the combination is settled, NEVER if that is done.
    """

    def __init__(self, sides: Sequence[StoredWindow], clock: Clock) -> None:
        self._sides = sides
        self._clock = clock
        number = np.dtype(np.int64)
        self.members = [Buffer(number) for _ in sides]
        self.matched = Buffer(np.dtype(np.bool_))
        self.times, self.expiry = Buffer(clock.dtype), Buffer(clock.dtype)
        self.moments, self.ends, self.due = Buffer(number), Buffer(number), Buffer(number)

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def _buffers(self) -> list[Buffer]:
        rest = (self.matched, self.times, self.expiry, self.moments, self.ends, self.due)
        return [*self.members, *rest]

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def begin(self, expiries: Sequence[Expiries]) -> None:
        """Find out which combinations end in this batch."""
        live = self.ends.view() == NEVER
        for members, one in zip(self.members, expiries, strict=True):
            if len(one.when) and one.when.min() != NEVER:
                ends = self.ends.view()
                ends[live] = np.minimum(ends[live], one.of(members.view()[live]))
        ending = live & (self.ends.view() != NEVER)
        self.due.view()[ending] = self.ends.view()[ending] * PHASES + EXPIRED

    def append(self, formed: Formed, expiries: Sequence[Expiries]) -> None:
        """Store what has been formed in this batch."""
        ends = np.full(len(formed), NEVER, np.int64)
        for seqs, one in zip(formed.members, expiries, strict=True):
            ends = np.minimum(ends, one.of(seqs))
        ranks, phases = formed.ranks, formed.moments % PHASES
        at_once = np.where(phases == EXPIRED, formed.moments, ranks * PHASES + AT_ONCE)
        later = np.where(ends == NEVER, 0, ends) * PHASES + EXPIRED
        due = np.where(ends == NEVER, NEVER, np.where(ends <= ranks, at_once, later))
        for buffer, seqs in zip(self.members, formed.members, strict=True):
            buffer.append(seqs)
        self.matched.repeat(False, len(formed))
        times, expiry = reach_of(self._sides, formed.members, len(formed), self._clock)
        self.times.append(times)
        self.expiry.append(expiry)
        self.moments.append(formed.moments)
        self.ends.append(ends)
        self.due.append(due)

    def refresh(self) -> None:
        """Read times and expiries again, after windows have changed."""
        live = np.flatnonzero(self.ends.view() == NEVER)
        members = [buffer.view()[live] for buffer in self.members]
        times, expiry = reach_of(self._sides, members, len(live), self._clock)
        self.times.view()[live], self.expiry.view()[live] = times, expiry

    def finish(self) -> tuple[int, bool]:
        """Let go of combinations that have ended; the rest was formed before the next batch.

        Gives how many of the oldest have been dropped, and whether others have been dropped too.
        """
        gone = self.ends.view() != NEVER
        oldest = len(gone) if gone.all() else int(gone.argmin())
        for buffer in self._buffers:
            buffer.drop(oldest)
        gone = gone[oldest:]
        self.moments.view()[:] = BEFORE
        self.ends.view()[gone] = -1
        self.due.view()[:] = NEVER
        if 2 * np.count_nonzero(gone) <= len(gone):
            return oldest, False
        self.pack()
        return oldest, True

    def pack(self) -> None:
        """Keep only combinations that have not ended."""
        live = self.ends.view() == NEVER
        for buffer in self._buffers:
            buffer.replace(buffer.view()[live])

    def renumber(self, member: int, first: int, numbers: Indices) -> None:
        """Take new numbers of a member's tuples, the first of which had the number ``first``."""
        self.pack()
        seqs = self.members[member].view()
        real = seqs >= 0
        seqs[real] = numbers[seqs[real] - first]


class CombinationJoin:
    """One step of a tree of joins.

    Parameters
    ----------
    input
        Which input joins.
    left
        The inputs that combinations have members of, in the order in which they have joined.
    kind
        The kind of the join.
    sides
        All inputs of the tree.
    entries_of
        Gives the keys of the input's window for a stage.
    failures, note
        What counts failed expressions, and comparisons.
    """

    def __init__(
        self,
        input: int,
        left: Sequence[int],
        kind: str,
        sides: Sequence[StoredWindow],
        clock: Clock,
        entries_of: Callable[[Stage], WindowKeys],
        failures: Failures,
        note: Callable[[int], None],
    ) -> None:
        self.input = input
        self.left = tuple(left)
        self.kind = kind
        self.window = CombinationWindow([sides[number] for number in left], clock)
        self._sides = sides
        self._side = sides[input]
        self._side.track(kind in RIGHT_UNMATCHED, True)
        self._clock = clock
        self._entries_of = entries_of
        self._failures = failures
        self._note = note
        self._keys: StoredKeys | None = None
        self._steps = Steps(TUNING.pairs_per_step)

    def program(self, stage: Stage, kernel: str) -> None:
        """Take another condition; window sizes may have changed too."""
        self.stage = stage
        self._kernel = kernel
        left = [self._sides[number] for number in self.left]
        mine = isinstance(self._side.window, Range)
        self._is_timed = any(isinstance(side.window, Range) for side in left)
        self._mixed = [side for side in left if isinstance(side.window, Range) != mine]
        self.window.refresh()

    def rebuild(self, dictionary: Dictionary) -> None:
        """Forget all keys; they are computed again when a tuple probes the combinations."""
        self._dictionary = dictionary
        self._keys = None

    # -- a batch ----------------------------------------------------------------------------

    def begin(self, events: Events) -> None:
        """Take what a batch brings."""
        self._events = events
        if self._keys is None:
            # Those that have ended have no tuples from which keys could be computed.
            self.window.pack()
        self._expiries = [events.expiries[number] for number in self.left]
        self.window.begin(self._expiries)
        self._unmatched: Expiring | None = None
        if self.kind in RIGHT_UNMATCHED:
            mine = events.settled[self.input]
            self._unmatched = in_rank_order(self._side, mine.own, mine.when)
            phases = np.where(self._unmatched.at_once, AT_ONCE, EXPIRED)
            self._unmatched_due = self._unmatched.ranks * PHASES + phases

    def take(self, formed: Formed, start: int, bound: int) -> Iterator[tuple[Formed, int, int]]:
        """What becomes of combinations, and of the tuples from rank ``start`` on.

        All combinations of moments before ``bound`` have come. Gives parts of a bounded size, each
        with its own first rank and bound.
        """
        base = first = len(self.window)
        self.window.append(formed, self._expiries)
        if self._keys is not None:
            self._store_keys(self._keys, formed.members, len(formed), self._failures)

        def before(stop: int) -> int:
            return base + int(np.searchsorted(formed.moments, min(bound, stop * PHASES)))

        def search(start: int, stop: int) -> tuple[Indices, Indices, Indices] | None:
            return self._pairs(first, before(stop), start, stop)

        last, most = -(-bound // PHASES), TUNING.pairs_per_step
        for found, begin, stop in self._steps.through(
            start, last, most, search, lambda found: len(found[0])
        ):
            assert found is not None, "a single event may have any number of pairs"
            part = min(bound, stop * PHASES)
            yield self._settled(*found, part), begin, part
            first = before(stop)

    def finish(self) -> None:
        """Let go of what has ended."""
        oldest, others = self.window.finish()
        if self._keys is not None:
            self._keys.drop(oldest)
        if others:
            self._keys = None

    def renumber(self, input: int, first: int, numbers: Indices) -> None:
        """Take new numbers of an input's tuples."""
        if input in self.left:
            self.window.renumber(self.left.index(input), first, numbers)
            self._keys = None

    # -- pairs ------------------------------------------------------------------------------

    def _pairs(
        self, first: int, after: int, start: int, stop: int
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs of combinations ``first .. after - 1``, and of tuples ranked from ``start``.

        As indices of combinations, numbers of tuples and moments; None if there are too many.
        """
        most = TUNING.pairs_per_step if stop - start > 1 else None
        parts = []
        for found in (
            self._of_combinations(first, after, most),
            self._of_tuples(start, stop, most),
        ):
            if found is None:
                return None
            parts.append(found)
        which, seqs, moments = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return which, seqs, moments

    def _of_combinations(
        self, first: int, after: int, most: int | None
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs of new combinations with tuples that are in the window."""
        window, side, events = self.window, self._side, self._events
        moments = window.moments.view()[first:after]
        ranks = moments // PHASES
        times, expiry = window.times.view()[first:after], window.expiry.view()[first:after]
        seen = events.seen(ranks, self.input)
        entries = self._entries_of(self.stage)
        ranges = side.ranges(seen, lambda: (times, expiry if self._is_timed else None))
        members = self._members(slice(first, after))
        found = self.stage.search(
            entries, self._sides, members, ranges, most, self._dictionary, self._failures,
            self._note,
        )  # fmt: skip
        if found is None:
            return None
        chosen, seqs = found >> 32, entries.numbers_of(found & 0xFFFFFFFF)
        if self._mixed:
            live = events.expiries[self.input].of(seqs) > ranks[chosen]
            for other in self._mixed:
                live &= in_time(other, side, known(members[other.index])[chosen], seqs)
            chosen, seqs = chosen[live], seqs[live]
        return first + chosen, seqs, moments[chosen]

    def _of_tuples(
        self, start: int, stop: int, most: int | None
    ) -> tuple[Indices, Indices, Indices] | None:
        """The pairs of tuples that arrive with combinations that are there."""
        window, side = self.window, self._side
        ranks = self._events.tuples[self.input]
        a, b = np.searchsorted(ranks, (start, stop)).tolist()
        seqs = np.arange(a, b) + (side.rows.next - side.newest)
        ranks = ranks[a:b]
        if a == b or not len(window):
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        hi = np.searchsorted(window.moments.view(), ranks * PHASES)
        ends = window.ends.view()
        # All combinations before the first one that has not ended have ended.
        lo = np.searchsorted(np.maximum.accumulate(ends), ranks, side="right")
        lower = upper = stored_upper = stored_lower = None
        if self._is_timed:
            where = seqs - side.rows.first
            lower, stored_lower = side.times.view()[where], window.expiry.view()
            if isinstance(side.window, Range):
                upper, stored_upper = side.expiry.view()[where], window.times.view()
        keys = self._key_store()
        found = self.stage.search_combinations(
            keys,
            keys.read(stored_lower, stored_upper),
            self._sides,
            self._members(slice(None)),
            seqs,
            Ranges(np.minimum(lo, hi), hi, lower, upper),
            lambda probing, which: ends[which] > ranks[probing],
            most,
            self._dictionary,
            self._failures,
            self._note,
        )
        if found is None:
            return None
        probing, which = found >> 32, found & 0xFFFFFFFF
        return which, seqs[probing], ranks[probing] * PHASES + MET

    def _members(self, part: slice) -> list[Indices | None]:
        """The members of some combinations, by input of the tree."""
        found: list[Indices | None] = [None] * len(self._sides)
        for number, buffer in zip(self.left, self.window.members, strict=True):
            found[number] = buffer.view()[part]
        return found

    def _key_store(self) -> StoredKeys:
        if self._keys is None:
            self._keys = StoredKeys(self.stage.predicate, 0, self._kernel)
            members = [buffer.view() for buffer in self.window.members]
            # Their failures were counted when they were formed.
            self._store_keys(self._keys, members, len(self.window), Failures())
        return self._keys

    def _store_keys(
        self, keys: StoredKeys, members: Sequence[Indices], count: int, failures: Failures
    ) -> None:
        every: list[Indices | None] = [None] * len(self._sides)
        for number, seqs in zip(self.left, members, strict=True):
            every[number] = seqs
        found = self.stage.keys_of(self._sides, every, count, self._dictionary, failures)
        keys.append(*found)
        keys.widen(*found)

    # -- what comes out ---------------------------------------------------------------------

    def _settled(self, which: Indices, seqs: Indices, moments: Indices, bound: int) -> Formed:
        """The combinations that leave the step before a bound, by moment."""
        window = self.window
        matched = window.matched.view()
        parts = []
        if self.kind == "semi":
            order = np.argsort(moments, kind="stable")
            firsts = order[np.unique(which[order], return_index=True)[1]]
            firsts = firsts[~matched[which[firsts]]]
            parts.append((moments[firsts], which[firsts], np.full(len(firsts), NO_NUMBER)))
        elif self.kind not in ONE_PARTNER:
            parts.append((moments, which, seqs))
        matched[which] = True
        if self._side.matched is not None:
            self._side.matched.view()[seqs - self._side.rows.first] = True
        due = window.due.view()
        if self.kind in LEFT_UNMATCHED:
            ended = np.flatnonzero((due < bound) & ~matched)
            parts.append((due[ended], ended, np.full(len(ended), NO_NUMBER)))
            due[ended] = NEVER
        moments, chosen, partners = (np.concatenate(c) for c in zip(*parts, strict=True))
        members = [buffer.view()[chosen] for buffer in window.members]
        made = [(moments, *members, partners)]
        if self._unmatched is not None:
            assert self._side.matched is not None
            rows = self._unmatched.seqs
            alone = ~self._side.matched.view()[rows - self._side.rows.first]
            ended = np.flatnonzero((self._unmatched_due < bound) & alone)
            missing = [np.full(len(ended), NO_NUMBER)] * len(self.left)
            made.append((self._unmatched_due[ended], *missing, rows[ended]))
            self._unmatched_due[ended] = NEVER
        moments, *together = (np.concatenate(columns) for columns in zip(*made, strict=True))
        order = np.argsort(moments, kind="stable")
        return Formed(moments[order], tuple(seqs[order] for seqs in together))

    # -- state ------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The memory of the combinations and their keys."""
        return self.window.nbytes + (0 if self._keys is None else self._keys.nbytes)

    def save(self, state: BlockState) -> None:
        """Add the combinations to the block's state; keys follow from the tuples."""
        self.window.pack()
        self._keys = None
        for number, members in enumerate(self.window.members):
            state.columns[f"C{self.input}.{number}"] = members.view().copy()
        state.columns[f"C{self.input}.matched"] = self.window.matched.view().copy()

    def load(self, state: BlockState) -> None:
        """Restore the combinations from saved state; the windows have been restored."""
        members = tuple(
            state.columns[f"C{self.input}.{number}"].astype(np.int64)
            for number in range(len(self.left))
        )
        self.begin_with(members)
        self.window.matched.replace(state.columns[f"C{self.input}.matched"])

    def begin_with(self, members: tuple[Indices, ...]) -> None:
        """Have these combinations, which were formed before."""
        count = len(members[0])
        nothing = np.empty(0, np.int64)
        expiries = [Expiries(0, nothing, nothing)] * len(members)
        self.window.append(Formed(np.full(count, BEFORE), members), expiries)
        self._keys = None


def in_time(one: StoredWindow, other: StoredWindow, ones: Indices, others: Indices) -> Mask:
    """Whether tuples of a time window and of another kind of window may be in one combination.

    Only the younger of two tuples is bound by the older one's time window, and a count window binds
    none.
    """
    timed, at, counted, by = one, ones, other, others
    if not isinstance(one.window, Range):
        timed, at, counted, by = other, others, one, ones
    at, by = at - timed.rows.first, by - counted.rows.first
    assert timed.arrived is not None and counted.arrived is not None
    younger = counted.arrived.view()[by] > timed.arrived.view()[at]
    fits: Mask = ~younger | (counted.times.view()[by] < timed.expiry.view()[at])
    return fits
