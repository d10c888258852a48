"""The two-way window join, for every predicate and kind, exact whatever the size of the runs.

Why it is exact. A run may hold many tuples of both sides. All of them are stored first; then each
probes the other side as it was at its own arrival, because a probe sees only the tuples ranked
before it (its ``hi``), and of those only the ones still in their window (its ``lo``, or for times
out of order a comparison inside the kernel). So a pair is found exactly once, by the later of its
two tuples. Ranks order events by position and, at one position, left before right; a tuple of a
self-join therefore meets itself once, when it arrives as the right side. Unmatched tuples come out
at the rank of the event that makes them expire, before the pairs of that event: nobody who arrives
at or after that rank can see them, so whether they are matched is settled by then.

The three steps of the procedure (scan, insert, invalidate) of Kang et al., as Teubner & Mueller
2011 §2.2 give it, are the limit of this for runs of one tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted, admit, tick_to_physical
from penstock.blocks.crew import Crew, Sharing
from penstock.blocks.expiry import Expiring, expiring
from penstock.blocks.join_side import JoinSide, Keyed
from penstock.blocks.matcher import Matcher, Probes, Tally
from penstock.blocks.pairing import MOST_PAIRS, NOTHING, Found, find_pairs, ties
from penstock.blocks.punctuator import Clock, Ticks
from penstock.blocks.ranks import Ranks
from penstock.blocks.run import Control, Ended, Promise, Run, Share
from penstock.blocks.state import BlockState
from penstock.kernels.buckets import gathered
from penstock.kernels.vector import Failures
from penstock.program.blocks import JoinStreams, SetWindow
from penstock.streams.windows import Range

Indices = npt.NDArray[np.int64]
T = TypeVar("T")

LEFT_KEPT = frozenset({"left", "full", "anti"})
RIGHT_KEPT = frozenset({"right", "full"})
WORTH_SHARING = 1 << 16
"""Arrivals from which on threads gain more by storing both sides at once than they lose by taking
turns at the interpreter."""
NO_KEYS = Keyed(None, [], [])


class JoinBlock:
    """Two windows and a predicate. Takes a run of each side and yields runs of pairs.

    With a ``share`` it is one of several cores (SplitJoin, Najafi 2019 §5.1): each takes every
    tuple and probes with it, and one of them, told by the tuple's number, stores it for others to
    find. So each pair is found once, in the core of its earlier tuple. Inner joins alone: nobody
    knows of a tuple that it found no partner in any core.

    With a ``crew`` the windows are its own as ever, and threads divide the work on them. Inner
    joins alone, since who has been matched is written down by one thread.
    """

    def __init__(
        self,
        instruction: JoinStreams,
        streams: tuple[str, str],
        compile_predicates: bool,
        share: Share | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.failures = Failures()
        self.kind = instruction.kind
        self.clock = Clock(instruction.float_clock)
        self._streams = streams
        left, right = (JoinSide(i, instruction.schemas[i], self.clock, Failures()) for i in (0, 1))
        self.sides = (left, right)
        self._share = left.share = right.share = share
        left.track(self.kind in LEFT_KEPT | {"semi"}, self.kind in LEFT_KEPT)
        right.track(self.kind in RIGHT_KEPT, self.kind in RIGHT_KEPT)
        self.matcher = Matcher(self.sides, self.failures, compile_predicates)
        self.promised: list[int | float] = [self.clock.lowest, self.clock.lowest]
        self.matches = 0
        self._step = MOST_PAIRS
        assert crew is None or self.kind == "inner"
        self._crew = crew
        self._sharing = None if crew is None else Sharing(crew, self.matcher, self.sides)
        self.program(instruction)

    def program(self, instruction: JoinStreams | SetWindow) -> None:
        """Take another predicate, output columns or window; the windows are kept."""
        if isinstance(instruction, SetWindow):
            side = self.sides[instruction.side]
            before = side.time
            side.set_window(instruction.window, instruction.time)
            if before is not None and side.time is not None and before.factor != side.time.factor:
                ratio = int(side.time.factor) // int(before.factor)
                promised = np.array([self.promised[side.index]], self.clock.dtype)
                self.promised[side.index] = self.clock.scaled(promised, ratio)[0].item()
            return
        self.columns = instruction.columns
        self.matcher.program(instruction)

    def _kept(self, side: JoinSide) -> bool:
        """Whether the side's unmatched tuples come out when they expire."""
        return self.kind in (LEFT_KEPT if side.index == 0 else RIGHT_KEPT)

    def save(self) -> BlockState:
        """Both windows, what was promised, and what has been counted. Indexes are made anew."""
        state = BlockState(
            {
                "failures": self.failures.count,
                "promised": self.promised,
                "comparisons": self.matcher.comparisons,
                "matches": self.matches,
            }
        )
        for side in self.sides:
            side.save(state)
        return state

    def load(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        for side in self.sides:
            side.load(state)
        self.matcher.rebuild()
        self.promised = list(state.values["promised"])
        self.failures.count = state.values["failures"]
        self.matcher.comparisons = state.values["comparisons"]
        self.matches = state.values["matches"]

    # -- a change ---------------------------------------------------------------------------

    def settle(self, position: int) -> Run:
        """Cut the windows to their new sizes; what that makes expire comes out at ``position``."""
        gone = [self._cut_off(side) if self._kept(side) else None for side in self.sides]
        found = self._with_unmatched(NOTHING, gone, 0, 1)
        run = self._output(found, np.array([position], np.int64))
        self._forget()
        for side in self.sides:
            side.fit()
        return replace(run, controls=tuple(self._promises_now(position)))

    def _promises_now(self, position: int) -> Iterator[Promise]:
        """What the output promises once a change has made its windows smaller."""
        for side in self.sides:
            column = self._time_column(side)
            if column is None or not isinstance(side.window, Range):
                continue
            other = np.array([self.sides[1 - side.index].punctuator.promise], self.clock.dtype)
            later = self.clock.earlier(other, side.window.size)[0].item()
            promise = min(side.punctuator.promise, later)
            if promise > self.promised[side.index]:
                self.promised[side.index] = promise
                yield Promise(position, column, tick_to_physical(side, promise), side.index)

    def _time_column(self, side: JoinSide) -> int | None:
        """Where the output has the time of a side; None if nothing can be promised of it."""
        hidden = self.kind in ("semi", "anti") and side.index == 1
        if hidden or side.time is None or not isinstance(side.window, Range):
            return None
        columns = self.columns[side.index]
        return columns.index(side.time.column) if side.time.column in columns else None

    def _cut_off(self, side: JoinSide) -> Expiring:
        other = self.sides[1 - side.index]
        assert side.arrived is not None
        gone = np.arange(side.rows.first, side.rows.next) < side.cut(other)
        if isinstance(side.window, Range):
            expiry = side.expiry.view()
            gone |= expiry <= other.punctuator.promise
            gone &= expiry != self.clock.lowest
        picked = np.flatnonzero(gone)
        nothing = np.zeros(len(picked), np.int64)
        return Expiring(picked + side.rows.first, nothing, nothing > 0, side.arrived.view()[picked])

    def _forget(self) -> None:
        left, right = self.sides
        left.forget(right)
        right.forget(left)
        wasteful = [side for side in self.sides if side.is_mostly_expired()]
        for side in wasteful:
            side.pack()
        if wasteful:
            self.matcher.rebuild()

    # -- a run ------------------------------------------------------------------------------

    def process(self, runs: tuple[Run, Run]) -> Iterator[Run]:
        """Yield the rows of these two runs, in order, in steps of a bounded size.

        The last run yielded has no rows but the controls and letters of the whole.
        """
        before = [(side.ended, side.punctuator.promise) for side in self.sides]
        large = len(runs[0]) + len(runs[1]) >= WORTH_SHARING
        self.matcher.tidy_dictionary(len(runs[0]) + len(runs[1]))
        (left, left_keys), (right, right_keys) = self._each(
            lambda side: self._admit(side, runs[side.index]), large and not self.matcher.encodes
        )
        self._count_failures()
        admitted, keyed = (left, right), (left_keys, right_keys)
        ranks = Ranks.of(left, right)
        gone = [
            self._expiring(side, admitted[1 - side.index], ranks, *before[1 - side.index])
            if self._kept(side)
            else None
            for side in self.sides
        ]
        probes = self._each(
            lambda side: self._probes(side, admitted[side.index], keyed[side.index], ranks), large
        )
        if self._sharing is None:
            yield from self._steps(probes, ranks, gone)
        else:
            for run in self._sharing.runs(probes, ranks.count, lambda f: self._gather(f, ranks)):
                self.matches += len(run)
                yield run
        controls = self._controls(admitted, ranks, before)
        self._forget()
        yield replace(
            self._output(NOTHING, ranks.position_of),
            controls=controls,
            letters=(*runs[0].letters, *runs[1].letters, *left.letters, *right.letters),
        )

    def _each(self, work: Callable[[JoinSide], T], apart: bool) -> list[T]:
        """Do it for both sides; ``apart``: at the same time, if there is a crew."""
        if self._crew is None or not apart:
            return [work(side) for side in self.sides]
        left, right = self.sides
        return self._crew.share([lambda _: work(left), lambda _: work(right)])

    def _admit(self, side: JoinSide, run: Run) -> tuple[Admitted, Keyed]:
        """Take a side's tuples and store them."""
        admitted = admit(side, run, self._streams[side.index])
        if not admitted.batch.num_rows:
            side.newest = 0
            return admitted, NO_KEYS
        keyed = side.keyed(admitted.batch, self.matcher.dictionary)
        side.append(admitted.batch, admitted.times, admitted.keys, keyed)
        return admitted, keyed

    def _count_failures(self) -> None:
        """Each side counts its own failures, since threads may be at both."""
        for side in self.sides:
            self.failures.count += side.failures.count
            side.failures.count = 0

    def _probes(
        self, side: JoinSide, admitted: Admitted, keyed: Keyed, ranks: Ranks
    ) -> Probes | None:
        if keyed is NO_KEYS:
            return None
        mine, seen = ranks.tuples[side.index], ranks.seen[side.index]
        return self.matcher.probes(side, admitted, keyed, mine, seen)

    def _expiring(
        self,
        side: JoinSide,
        other: Admitted,
        ranks: Ranks,
        ended_before: bool,
        promise_before: int | float,
    ) -> Expiring:
        theirs = 1 - side.index
        end = None
        if other.end_key is not None:
            end = int(ranks.controls[theirs][other.control_keys == other.end_key][0])
        steps = ranks.steps(theirs, other)
        mine = ranks.tuples[side.index]
        return expiring(side, mine, steps, ended_before, end, promise_before)

    def _steps(
        self, probes: list[Probes | None], ranks: Ranks, gone: list[Expiring | None]
    ) -> Iterator[Run]:
        """Work through the ranks in pieces small enough that a piece's pairs fit in memory."""
        start = 0
        while start < ranks.count:
            stop = min(ranks.count, start + self._step)
            tally = Tally()
            found = find_pairs(self.matcher, self.sides, probes, start, stop, tally)
            if found is None:
                self._step = max(1, (stop - start) // 2)
                continue
            self.matcher.settle(tally)
            if self._step < MOST_PAIRS and len(found) * 4 < MOST_PAIRS:
                self._step *= 2
            found = self._with_unmatched(self._mark(found), gone, start, stop)
            if len(found):
                yield self._gather(found, ranks)
            start = stop

    def _gather(self, found: Found, ranks: Ranks) -> Run:
        run = self._output(found, ranks.position_of)
        return run if self._share is None else replace(run, ties=ties(found, ranks))

    def _mark(self, found: Found) -> Found:
        """Remember who has been matched; of a semi join keep each left tuple's first match."""
        self.matches += len(found.left)
        if self.kind == "inner" or not len(found.left):
            return found
        left, right = self.sides
        first: Indices | None = None
        if left.matched is not None:
            matched, where = left.matched.view(), found.left - left.rows.first
            if self.kind == "semi":
                first = np.sort(np.unique(where, return_index=True)[1])
                first = first[~matched[where[first]]]
            matched[where] = True
        if right.matched is not None:
            right.matched.view()[found.right - right.rows.first] = True
        if first is None:
            return found
        return Found(found.left[first], found.right[first], found.ranks[first])

    def _with_unmatched(
        self, found: Found, gone: list[Expiring | None], start: int, stop: int
    ) -> Found:
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
            lonely = ~side.matched.view()[expired.seqs[part] - side.rows.first]
            seqs = expired.seqs[part][lonely]
            nobody = np.full(len(seqs), -1, np.int64)
            lefts.append(seqs if side.index == 0 else nobody)
            rights.append(nobody if side.index == 0 else seqs)
            ranks.append(expired.ranks[part][lonely])
            phases.append(np.where(expired.at_once[part][lonely], 2, 0))
            ties.append(expired.arrived[part][lonely])
        order = np.lexsort((np.concatenate(ties), np.concatenate(phases), np.concatenate(ranks)))
        left, right, rank = (np.concatenate(parts)[order] for parts in (lefts, rights, ranks))
        return Found(left, right, rank)

    # -- output -----------------------------------------------------------------------------

    def _output(self, found: Found, position_of: Indices) -> Run:
        """Gather the rows."""
        padded = self.kind in ("left", "right", "full")
        left, right = self.sides
        inputs = [left.rows.take(found.left, self.columns[0], padded)]
        if self.kind not in ("semi", "anti"):
            inputs.append(right.rows.take(found.right, self.columns[1], padded))
        return Run(tuple(inputs), gathered(position_of, found.ranks))

    def _controls(
        self,
        admitted: tuple[Admitted, Admitted],
        ranks: Ranks,
        before: list[tuple[bool, int | float]],
    ) -> tuple[Control, ...]:
        """What the output promises, and its end once both inputs have ended."""
        made: list[Control] = []
        steps = [ranks.steps(side, a) for side, a in enumerate(admitted)]
        for side in self.sides:
            made.extend(self._promises(side, steps, ranks, [b[1] for b in before]))
        made.sort(key=lambda control: control.position)
        ends = [a.end_key for a in admitted if a.end_key is not None]
        if ends and all(side.ended for side in self.sides):
            made.append(Ended(max(ends) // 4))
        return tuple(made)

    def _promises(
        self,
        side: JoinSide,
        steps: list[tuple[Indices, Ticks]],
        ranks: Ranks,
        before: list[int | float],
    ) -> Iterator[Promise]:
        """After a join, r.t is at least min(P_R, P_S - T_R): older r have met all they will."""
        column = self._time_column(side)
        if column is None or not isinstance(side.window, Range):
            return
        events = np.union1d(steps[0][0], steps[1][0])
        if not len(events):
            return
        own, other = (
            _standing(events, steps[index], before[index]) for index in (side.index, 1 - side.index)
        )
        promised = np.minimum(own, self.clock.earlier(other, side.window.size))
        last = np.array([self.promised[side.index]], promised.dtype)
        rises = promised > np.concatenate((last, np.maximum(promised[:-1], last)))
        self.promised[side.index] = max(last[0], promised[-1]).item()
        for event, tick in zip(events[rises].tolist(), promised[rises].tolist(), strict=True):
            value = tick_to_physical(side, tick)
            yield Promise(int(ranks.position_of[event]), column, value, side.index)


def _standing(events: Indices, steps: tuple[Indices, Ticks], before: int | float) -> Ticks:
    """The promise in force right after each event."""
    values = np.concatenate((np.array([before], steps[1].dtype), steps[1]))
    standing: Ticks = values[np.searchsorted(steps[0], events, side="right")]
    return standing
