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

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted, admit
from penstock.blocks.crew import Crew, Sharing
from penstock.blocks.expiry import Expiring, expiring
from penstock.blocks.flow_front import FlowFront
from penstock.blocks.join_promises import OutputPromises
from penstock.blocks.join_side import JoinSide
from penstock.blocks.keyed import Keyed
from penstock.blocks.latency import Latency
from penstock.blocks.matcher import Matcher, Probes
from penstock.blocks.meeting import Meeting, Met
from penstock.blocks.pairing import MOST_PAIRS, NOTHING, Found, Stepping, by_rank, ties
from penstock.blocks.punctuator import Clock
from penstock.blocks.ranks import Ranks
from penstock.blocks.run import Run, Share
from penstock.blocks.state import BlockState
from penstock.blocks.unmatched import Unmatched
from penstock.kernels.vector import Failures
from penstock.program.blocks import JoinStreams, SetWindow

Indices = npt.NDArray[np.int64]
T = TypeVar("T")

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

    With a ``meeting`` it is the driver of a flow: the cores that find the pairs are elsewhere.
    """

    def __init__(
        self,
        instruction: JoinStreams,
        streams: tuple[str, str],
        compile_predicates: bool,
        share: Share | None = None,
        crew: Crew | None = None,
        meeting: Meeting | None = None,
    ) -> None:
        self.failures = Failures()
        self.kind = instruction.kind
        self.clock = Clock(instruction.float_clock)
        self._streams = streams
        left, right = (JoinSide(i, instruction.schemas[i], self.clock, Failures()) for i in (0, 1))
        self.sides = (left, right)
        self._share = left.share = right.share = share
        self._unmatched = Unmatched(self.kind, self.sides, self.clock)
        self._promises = OutputPromises(self.kind, self.sides, self.clock)
        for side in self.sides:
            side.stores_keys = meeting is None
            side.track(False, meeting is not None)
        self.matcher = Matcher(self.sides, self.failures, compile_predicates)
        self.latency = Latency()
        self.front = None
        if meeting is not None:
            self.front = FlowFront(meeting, self.sides, self.matcher, self.latency)
        self.matches = 0
        self._stepping = Stepping(self.matcher, self.sides)
        assert crew is None or self.kind == "inner"
        self.crew = crew
        self._sharing = None if crew is None else Sharing(crew, self.matcher, self.sides)
        self.program(instruction)

    def program(self, instruction: JoinStreams | SetWindow) -> None:
        """Take another predicate, output columns or window; the windows are kept.

        Where there is a flow, everything has been completed before.
        """
        if self.front is not None:
            self.front.stale = True
        if isinstance(instruction, SetWindow):
            side = self.sides[instruction.side]
            before = side.time
            side.set_window(instruction.window, instruction.time)
            if before is not None and side.time is not None and before.factor != side.time.factor:
                ratio = int(side.time.factor) // int(before.factor)
                self._promises.rescale(side, ratio)
            return
        self.columns = self._promises.columns = instruction.columns
        self.matcher.program(instruction)

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated for two tuples."""
        elsewhere = 0 if self.front is None else self.front.meeting.comparisons
        return self.matcher.comparisons + elsewhere

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel that meets tuples stored on the left, and on the right, as chosen by now."""
        cores = [] if self.front is None else self.front.meeting.measures()["cores"]
        if not cores or len(cores[0]["kernels"]) < 2:
            return self.matcher.kernels
        left, right = cores[0]["kernels"]
        return left, right

    def save(self) -> BlockState:
        """Both windows, what was promised, and what has been counted. Indexes are made anew.

        Where there is a flow, everything has been completed before.
        """
        state = BlockState(
            {
                "failures": self.failures.count,
                "promised": self._promises.promised,
                "comparisons": self.comparisons,
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
        self._promises.promised = list(state.values["promised"])
        self.failures.count = state.values["failures"]
        self.matcher.comparisons = state.values["comparisons"]
        self.matches = state.values["matches"]
        if self.front is not None:
            self.front.restart()

    # -- a change ---------------------------------------------------------------------------

    def settle(self, position: int) -> Run:
        """Cut the windows to their new sizes; what that makes expire comes out at ``position``."""
        lonely = self._unmatched
        gone = [lonely.cut_off(side) if lonely.keeps(side) else None for side in self.sides]
        found = lonely.added(NOTHING, gone, 0, 1)
        run = self._output(found, np.full(len(found), position, np.int64))
        self._forget()
        for side in self.sides:
            side.fit()
        return replace(run, controls=tuple(self._promises.now(position)))

    def _forget(self) -> None:
        for side in self.sides:
            needed = None if self.front is None else self.front.meeting.oldest(side.index)
            side.forget(self.sides[1 - side.index], needed)
        if self.front is None or self.front.stale:
            self._pack()

    def _pack(self) -> None:
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
        if self.front is not None:
            yield from self._restart_flow(self.front, len(runs[0]) + len(runs[1]))
        before = [(side.ended, side.punctuator.promise) for side in self.sides]
        large = len(runs[0]) + len(runs[1]) >= WORTH_SHARING
        if self.front is None:
            self.matcher.tidy_dictionary(len(runs[0]) + len(runs[1]))
        (left, left_keys), (right, right_keys) = self._each(
            lambda side: self._admit(side, runs[side.index]), large and not self.matcher.encodes
        )
        self._count_failures()
        admitted, keyed = (left, right), (left_keys, right_keys)
        ranks = Ranks.of(left, right, lambda work: self._each(lambda side: work(side.index), large))
        gone = [
            expiring(side, admitted[1 - side.index], ranks, *before[1 - side.index])
            if self._unmatched.keeps(side)
            else None
            for side in self.sides
        ]
        if self.front is None:
            yield from self._timed(self._here(admitted, keyed, ranks, gone), admitted)
        else:
            yield from self._flow(self.front, admitted, keyed, ranks, gone)
        controls = self._promises.controls(admitted, ranks, before)
        self._forget()
        yield replace(
            self.nothing(),
            controls=controls,
            letters=(*runs[0].letters, *runs[1].letters, *left.letters, *right.letters),
        )

    def _here(
        self,
        admitted: tuple[Admitted, Admitted],
        keyed: tuple[Keyed, Keyed],
        ranks: Ranks,
        gone: list[Expiring | None],
    ) -> Iterator[Run]:
        """Find the pairs in the windows that are here."""
        large = admitted[0].batch.num_rows + admitted[1].batch.num_rows >= WORTH_SHARING
        probes = self._each(
            lambda side: self._probes(side, admitted[side.index], keyed[side.index], ranks), large
        )
        if self._sharing is None or not self._sharing.sweeps(probes):
            self._each(lambda side: self._index(side, probes[side.index]), large)
        if self._sharing is None:
            for found, start, stop in self._stepping.found(probes, ranks.count):
                found = self._unmatched.added(self._mark(found), gone, start, stop)
                if len(found):
                    yield self._gather(found, ranks)
            return
        for run in self._sharing.runs(probes, ranks.count, lambda f: self._gather(f, ranks)):
            self.matches += len(run)
            yield run

    def _timed(self, runs: Iterator[Run], admitted: tuple[Admitted, Admitted]) -> Iterator[Run]:
        """The runs, taking note of how long they were in the making."""
        latency, began = self.latency, time.monotonic_ns()
        for run in runs:
            latency.visiting.add(time.monotonic_ns() - began, len(run))
            yield run
        tuples = admitted[0].batch.num_rows + admitted[1].batch.num_rows
        latency.processing.add(time.monotonic_ns() - began, tuples)

    def _each(self, work: Callable[[JoinSide], T], apart: bool) -> list[T]:
        """Do it for both sides; ``apart``: at the same time, if there is a crew."""
        if self.crew is None or not apart:
            return [work(side) for side in self.sides]
        left, right = self.sides
        return self.crew.share([lambda _: work(left), lambda _: work(right)])

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

    def _index(self, side: JoinSide, probes: Probes | None) -> None:
        if probes is not None:
            self.matcher.index(side, probes)

    # -- a flow -----------------------------------------------------------------------------

    def _restart_flow(self, front: FlowFront, arriving: int) -> Iterator[Run]:
        """Program the flow if what it knows is out of date, after completing what it has."""
        known = self.matcher.dictionary
        self.matcher.tidy_dictionary(arriving)
        wasteful = any(side.is_mostly_expired() for side in self.sides)
        if front.stale or wasteful or self.matcher.dictionary is not known:
            yield from self.complete()
            self._pack()
            front.restart()

    def complete(self) -> Iterator[Run]:
        """Make everybody meet who may and has not; yield the rows."""
        if self.front is None:
            return
        for met in self.front.complete():
            self.matches += len(met)
            yield self._gathered(self.front, met)
        left, right = self.sides
        left.forget(right)
        right.forget(left)

    def nothing(self) -> Run:
        """A run of this block's columns, without rows."""
        return self._output(NOTHING, NOTHING.ranks)

    def promise_order(self, make: Callable[[str], Meeting | None]) -> None:
        """Let other cores take the place of those of the flow; everything has been completed."""
        if self.front is not None:
            meeting = make(self.kind)
            assert meeting is not None
            self.matcher.comparisons += self.front.meeting.comparisons
            self.front.use(meeting)

    def close(self) -> None:
        """Let the cores of the flow go."""
        if self.front is not None:
            self.front.meeting.close()
        if self.crew is not None:
            self.crew.close()

    def _flow(
        self,
        front: FlowFront,
        admitted: tuple[Admitted, Admitted],
        keyed: tuple[Keyed, Keyed],
        ranks: Ranks,
        gone: list[Expiring | None],
    ) -> Iterator[Run]:
        """Let the flow find the pairs; all of them, once both streams have ended."""
        chunk = front.chunk(admitted, keyed, ranks)
        if self.kind == "inner":
            for met in front.take(chunk):
                self.matches += len(met)
                yield self._gathered(front, met)
            if all(side.ended for side in self.sides):
                yield from self.complete()
            return
        start, waiting, count = 0, [NOTHING], 0
        for met in front.take(chunk):
            waiting.append(Found(met.left, met.right, met.ranks - chunk.ranks[0]))
            count += len(met)
            if count > MOST_PAIRS:
                # They come by rank, so all but the last one's pairs have come.
                found, stop = by_rank(waiting), int(waiting[-1].ranks[-1])
                cut = int(np.searchsorted(found.ranks, stop))
                yield from self._settled(found.part(0, cut), gone, start, stop, ranks)
                waiting, start = [found.part(cut, len(found))], stop
                count = len(waiting[0])
        yield from self._settled(by_rank(waiting), gone, start, ranks.count, ranks)

    def _settled(
        self, found: Found, gone: list[Expiring | None], start: int, stop: int, ranks: Ranks
    ) -> Iterator[Run]:
        """The rows of a stretch of ranks, of which all pairs are known."""
        found = self._unmatched.added(self._mark(found), gone, start, stop)
        if len(found):
            yield self._output(found, ranks.positions(found.ranks))

    def _gathered(self, front: FlowFront, met: Met) -> Run:
        return self._output(Found(met.left, met.right, met.ranks), front.positions(met))

    # -- pairs found here -------------------------------------------------------------------

    def _gather(self, found: Found, ranks: Ranks) -> Run:
        run = self._output(found, ranks.positions(found.ranks))
        return run if self._share is None else replace(run, ties=ties(found, ranks))

    def _mark(self, found: Found) -> Found:
        self.matches += len(found)
        return self._unmatched.mark(found)

    # -- output -----------------------------------------------------------------------------

    def _output(self, found: Found, positions: Indices) -> Run:
        """Gather the rows, which are at these positions."""
        padded = self.kind in ("left", "right", "full")
        left, right = self.sides
        inputs = [left.rows.take(found.left, self.columns[0], padded)]
        if self.kind not in ("semi", "anti"):
            inputs.append(right.rows.take(found.right, self.columns[1], padded))
        return Run(tuple(inputs), positions)
