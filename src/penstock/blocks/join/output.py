"""The output of a join beside its pairs: unmatched tuples that expire, punctuations, the end.

Tuples of outer, semi and anti joins are marked as matched or not. Unmatched ones come out at the
rank of the event that makes them expire, before the pairs of that event. A tuple of a count window
expires when the w-th tuple after it arrives; one of a time window when the other stream's
punctuation reaches its time plus the window; any tuple when the other stream ends. A tuple for
which that has happened before it arrives expires right after its own probe.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.matcher import RankedPairs
from penstock.blocks.lateness import INPUT_BITS, NO_ROWS, Admitted, tick_to_physical
from penstock.blocks.ranks import Ranks
from penstock.blocks.run import ColumnPunctuation, Control, EndOfStream, Run
from penstock.blocks.window.punctuator import Clock, Ticks
from penstock.blocks.window.window import StoredWindow
from penstock.streams.windows import Range, Rows

Indices = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
LEFT_UNMATCHED = frozenset({"left", "full", "anti"})
ONE_PARTNER = frozenset({"semi", "anti"})
"""The kinds of join for which one partner of a left tuple is enough."""
RIGHT_UNMATCHED = frozenset({"right", "full"})


@dataclass(frozen=True)
class Expiring:
    """Tuples that expire in this run, by rank; ``at_once``: by their own arrival."""

    seqs: Indices
    ranks: Indices
    at_once: npt.NDArray[np.bool_]
    arrived: Indices


def expiring(
    side: StoredWindow,
    other: Admitted,
    ranks: Ranks,
    ended_before: bool,
    punctuation_before: int | float,
) -> Expiring:
    """The tuples of ``side`` that expire while this run is processed; it has been appended.

    ``other`` is what was admitted of the other side. Before this run, that side had ended or had
    that punctuation.
    """
    theirs, end = 1 - side.index, None
    if other.end_key is not None:
        end = int(ranks.controls[theirs][other.control_keys == other.end_key][0])
    steps = ranks.steps(theirs, other)
    return _expiring(side, ranks.every(side.index), steps, ended_before, end, punctuation_before)


def _expiring(
    side: StoredWindow,
    ranks: Indices,
    steps: tuple[Indices, Ticks],
    ended_before: bool,
    end_rank: int | None,
    punctuation_before: int | float,
) -> Expiring:
    """The tuples that expire, as :func:`expiry_ranks` has it, by rank."""
    return in_rank_order(
        side, *expiry_ranks(side, ranks, steps, ended_before, end_rank, punctuation_before)
    )


def in_rank_order(side: StoredWindow, own: Indices, when: Indices) -> Expiring:
    """The tuples that expire in a run, of those that :func:`expiry_ranks` is about."""
    if isinstance(side.window, Range) and not side.in_order:
        # These have expired before.
        when[side.expiry.view()[: len(when)] == side.clock.lowest] = NEVER
    # -1: it happened before the tuple came; a tuple from before this run had expired then.
    chosen = np.flatnonzero((when != NEVER) & ~((when < 0) & (own < 0)))
    at_once = when[chosen] <= own[chosen]
    rank = np.maximum(when[chosen], own[chosen])
    order = np.argsort(rank, kind="stable")
    assert side.arrived is not None
    return Expiring(
        chosen[order] + side.rows.first,
        rank[order],
        at_once[order],
        side.arrived.view()[chosen[order]],
    )


def expiry_ranks(
    side: StoredWindow,
    ranks: Indices,
    steps: tuple[Indices, Ticks],
    ended_before: bool,
    end_rank: int | None,
    punctuation_before: int | float,
) -> tuple[Indices, Indices]:
    """For each of the oldest tuples of a side, its own rank and the one at which it expires.

    ``ranks`` are those of the tuples of the side that have come with the batch. The steps, the end
    and the punctuation are the other side's; of several, the smallest punctuation and the last end.
    -1 is a rank before this run, NEVER one after it; the tuples that are not among the oldest
    expire after it too.
    """
    count = _candidates(side, steps, ended_before or end_rank is not None, punctuation_before)
    older, newest = len(side.rows) - side.newest, ranks if side.home is None else ranks[side.home]
    own = np.full(count, -1, np.int64)
    if count > older:
        own[older:] = newest[: count - older]
    when = np.full(count, NEVER, np.int64)
    if isinstance(side.window, Rows):
        if side.window.size == 0:
            when = own.copy()
        else:
            pushed_out = min(count, side.pushed_out(side.window))
            numbers = side.arrival_numbers(np.arange(pushed_out) + side.rows.first)
            when[:pushed_out] = ranks[numbers + side.window.size - (side.arrivals - len(ranks))]
    elif isinstance(side.window, Range):
        expiry = side.expiry.view()[:count]
        index = np.searchsorted(steps[1], expiry, side="left")
        when = np.append(steps[0], NEVER)[index]
        when[expiry <= punctuation_before] = -1
    if ended_before:
        when = np.full(count, -1, np.int64)
    elif end_rank is not None:
        when = np.minimum(when, end_rank)
    return own, when


def _candidates(
    side: StoredWindow, steps: tuple[Indices, Ticks], ends: bool, punctuation_before: int | float
) -> int:
    """How many of the oldest tuples can expire at all."""
    if ends or (isinstance(side.window, Range) and not side.in_order):
        return len(side.rows)
    if isinstance(side.window, Rows):
        return side.pushed_out(side.window)
    if isinstance(side.window, Range):
        last = steps[1][-1].item() if len(steps[1]) else punctuation_before
        punctuation = max(punctuation_before, last)
        return int(np.searchsorted(side.expiry.view(), punctuation, side="right"))
    return 0


def cut_off(
    side: StoredWindow, punctuation: int | float, others: Sequence[StoredWindow]
) -> npt.NDArray[np.bool_]:
    """Which tuples of a side have expired, after its window has been made smaller.

    The punctuation is that of the others, the smallest one.
    """
    gone = np.zeros(len(side.rows), np.bool_)
    if isinstance(side.window, Range):
        gone |= side.expiry.view() <= punctuation
    elif isinstance(side.window, Rows):
        gone[: side.pushed_out(side.window)] = True
    return gone | all(other.ended for other in others)


class PartnerMarks:
    """Marks the tuples that have a partner, in the sides of a join."""

    def __init__(self, kind: str, sides: tuple[StoredWindow, StoredWindow], clock: Clock) -> None:
        self.kind = kind
        self.sides = sides
        self.clock = clock
        left, right = sides
        left.track(kind in LEFT_UNMATCHED | {"semi"}, kind in LEFT_UNMATCHED)
        right.track(kind in RIGHT_UNMATCHED, kind in RIGHT_UNMATCHED)

    def keeps(self, side: StoredWindow) -> bool:
        """Whether the side's unmatched tuples come out when they expire."""
        return self.kind in (LEFT_UNMATCHED if side.index == 0 else RIGHT_UNMATCHED)

    def cut_off(self, side: StoredWindow) -> Expiring:
        """The tuples that a change to a smaller window makes expire."""
        other = self.sides[1 - side.index]
        assert side.arrived is not None
        gone = cut_off(side, other.punctuator.punctuation, (other,))
        if isinstance(side.window, Range):
            gone &= side.expiry.view() != self.clock.lowest
        chosen = np.flatnonzero(gone)
        nothing = np.zeros(len(chosen), np.int64)
        return Expiring(chosen + side.rows.first, nothing, nothing > 0, side.arrived.view()[chosen])

    def mark(self, found: RankedPairs) -> RankedPairs:
        """Mark the tuples of pairs; of SEMI and ANTI keep only each left tuple's first match."""
        if self.kind == "inner" or not len(found.left):
            return found
        left, right = self.sides
        first: Indices | None = None
        if left.matched is not None:
            matched, where = left.matched.view(), found.left - left.rows.first
            if self.kind in ONE_PARTNER:
                first = np.sort(np.unique(where, return_index=True)[1])
                first = first[~matched[where[first]]]
            matched[where] = True
        if right.matched is not None:
            right.matched.view()[found.right - right.rows.first] = True
        return found if first is None else found.taken(first)

    def added(
        self, found: RankedPairs, gone: list[Expiring | None], start: int, stop: int
    ) -> RankedPairs:
        """Put the unmatched tuples that expire in these ranks among the pairs."""
        if self.kind in ("inner", "semi"):
            return found
        count = 0 if self.kind == "anti" else len(found.left)
        lefts, rights, ranks = [found.left[:count]], [found.right[:count]], [found.ranks[:count]]
        phases, ties = [np.ones(count, np.int64)], [np.arange(count, dtype=np.int64)]
        for side, expired in zip(self.sides, gone, strict=True):
            if expired is None or side.matched is None:
                continue
            part = slice(*np.searchsorted(expired.ranks, (start, stop)))
            unmatched = ~side.matched.view()[expired.seqs[part] - side.rows.first]
            seqs = expired.seqs[part][unmatched]
            padding = np.full(len(seqs), -1, np.int64)
            lefts.append(seqs if side.index == 0 else padding)
            rights.append(padding if side.index == 0 else seqs)
            ranks.append(expired.ranks[part][unmatched])
            phases.append(np.where(expired.at_once[part][unmatched], 2, 0))
            ties.append(expired.arrived[part][unmatched])
        order = np.lexsort((np.concatenate(ties), np.concatenate(phases), np.concatenate(ranks)))
        left, right, rank = (np.concatenate(parts)[order] for parts in (lefts, rights, ranks))
        return RankedPairs(left, right, rank)


class EventOrder(Protocol):
    """The order of the events of a batch, of any number of inputs."""

    def positions(self, ranks: Indices) -> Indices:
        """The positions of the events with these ranks."""

    def steps(self, side: int, admitted: Admitted) -> tuple[Indices, Ticks]:
        """The ranks that move an input's punctuation, and the punctuation after each."""


class OutputPunctuations:
    """The punctuations of a join's output; ``in_force`` has the last of each input.

    There are none, but the end, if nothing reads the output as a stream.
    """

    def __init__(
        self, kind: str, sides: Sequence[StoredWindow], clock: Clock, is_read: bool
    ) -> None:
        self.kind = kind
        self.is_read = is_read
        self.sides = sides
        self.clock = clock
        self.columns: Sequence[tuple[int, ...]] = [() for _ in sides]
        self.in_force: list[int | float] = [clock.lowest for _ in sides]

    def rescale(self, side: StoredWindow, ratio: int) -> None:
        """The clock of a side ticks faster from here on."""
        punctuations = np.array([self.in_force[side.index]], self.clock.dtype)
        self.in_force[side.index] = self.clock.scaled(punctuations, ratio)[0].item()

    def now(self, position: int) -> Iterator[ColumnPunctuation]:
        """The punctuations of the output after a change has made windows smaller."""
        for side in self.sides:
            column = self._time_column(side)
            if column is None or not isinstance(side.window, Range):
                continue
            others = [
                s.punctuator.punctuation
                for s in self.sides
                if s is not side or side.lag is not None
            ]
            least = np.array([min(others)], self.clock.dtype)
            later = self._oldest(least, side, side.window)[0].item()
            punctuation = min(side.punctuator.punctuation, later)
            if punctuation > self.in_force[side.index]:
                self.in_force[side.index] = punctuation
                yield ColumnPunctuation(position, column, _value(side, punctuation), side.index)

    def _time_column(self, side: StoredWindow) -> int | None:
        """The output column of a side's time; None if it cannot be punctuated."""
        hidden = self.kind in ONE_PARTNER and side.index == 1
        if hidden or not self.is_read or side.time is None or not isinstance(side.window, Range):
            return None
        columns = self.columns[side.index]
        return columns.index(side.time.column) if side.time.column in columns else None

    def controls(
        self,
        admitted: Sequence[Admitted],
        ranks: EventOrder,
        before: list[tuple[bool, int | float]],
    ) -> tuple[Control, ...]:
        """The punctuations of the output, and its end once all inputs have ended."""
        made: list[Control] = []
        if any(self._time_column(side) is not None for side in self.sides):
            steps = [ranks.steps(side, a) for side, a in enumerate(admitted)]
            made.extend(self._of_steps(steps, ranks.positions, [b[1] for b in before]))
        ends = [a.end_key for a in admitted if a.end_key is not None]
        if ends and all(side.ended for side in self.sides):
            made.append(EndOfStream(max(ends) >> INPUT_BITS))
        return tuple(made)

    def after_tuples(
        self, side: int, after: Ticks, run: Run, before: list[int | float]
    ) -> tuple[Control, ...]:
        """The punctuations of the output after a run of one side, with its own after each tuple."""
        if all(self._time_column(one) is None for one in self.sides):
            return ()
        steps = [(NO_ROWS, after[:0]), (NO_ROWS, after[:0])]
        steps[side] = np.arange(len(after), dtype=np.int64), after
        return tuple(self._of_steps(steps, run.positions_of, before))

    def _oldest(self, punctuations: Ticks, side: StoredWindow, window: Range) -> Ticks:
        """The earliest time of a side's tuples in rows to come, after punctuations of others."""
        oldest = self.clock.oldest(punctuations, window)
        return oldest if side.lag is None else side.lag.before(oldest)

    def _of_steps(
        self,
        steps: list[tuple[Indices, Ticks]],
        positions: Callable[[Indices], Indices],
        before: list[int | float],
    ) -> list[ColumnPunctuation]:
        """The punctuations of all inputs, by position."""
        made: list[ColumnPunctuation] = []
        for side in self.sides:
            made.extend(self._of_side(side, steps, positions, before))
        made.sort(key=lambda control: control.position)
        return made

    def _of_side(
        self,
        side: StoredWindow,
        steps: list[tuple[Indices, Ticks]],
        positions: Callable[[Indices], Indices],
        before: list[int | float],
    ) -> Iterator[ColumnPunctuation]:
        """After a join, r.t is at least min(P_R, P_S - T_R): older r find no more partners.

        Of more than two inputs the smallest of the others' counts. A tuple that is met with a lag
        comes when a window of another member has passed too, on any input but that one's.
        """
        column = self._time_column(side)
        if column is None or not isinstance(side.window, Range):
            return
        events = np.unique(np.concatenate([ranks for ranks, _ in steps]))
        if not len(events):
            return
        each = [standing(events, s, b) for s, b in zip(steps, before, strict=True)]
        own = each.pop(side.index)
        if side.lag is not None:
            each.append(own)
        others = functools.reduce(np.minimum, each)
        punctuations = np.minimum(own, self._oldest(others, side, side.window))
        last = np.array([self.in_force[side.index]], punctuations.dtype)
        rises = punctuations > np.concatenate((last, np.maximum(punctuations[:-1], last)))
        self.in_force[side.index] = max(last[0], punctuations[-1]).item()
        rising = positions(events[rises]).tolist()
        for position, tick in zip(rising, punctuations[rises].tolist(), strict=True):
            yield ColumnPunctuation(position, column, _value(side, tick), side.index)


def _value(side: StoredWindow, tick: int | float) -> object:
    """The first value of the time attribute that is not before a tick.

    The clock may tick between two values; then the punctuation is the later one.
    """
    assert side.time is not None
    if not side.clock.floating:
        factor = int(side.time.factor)
        tick = -(-int(tick) // factor) * factor
    return tick_to_physical(side, tick)


def standing(events: Indices, steps: tuple[Indices, Ticks], before: int | float) -> Ticks:
    """The punctuation in force right after each event."""
    values = np.concatenate((np.array([before], steps[1].dtype), steps[1]))
    found: Ticks = values[np.searchsorted(steps[0], events, side="right")]
    return found
