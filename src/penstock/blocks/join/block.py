"""The two-way window join, for every predicate and kind, exact whatever the size of the runs.

Why it is exact. A run may hold many tuples of both sides. All of them are stored first; then each
probes the other side as it was at its own arrival, because a probe sees only the tuples ranked
before it (its ``hi``), and of those only the ones still in their window (its ``lo``, or for times
out of order a comparison inside the kernel). So a pair is found exactly once, by the later of its
two tuples. Ranks order events by position and, at one position, left before right; a tuple of a
self-join therefore meets itself once, when it arrives as the right side. Unmatched tuples come out
at the rank of the event that makes them expire, before the pairs of that event: no tuple that
arrives at or after that rank can see them, so whether they are matched is settled by then.

Of a left tuple of a semi or anti join only the first pair matters. Where the block finds the pairs
itself, it looks for no other: a left tuple stops at any partner that it has when it arrives, and a
right tuple sees only the left ones that have had none before its rank. So the pair that is found
has the rank of the first one. See :mod:`penstock.blocks.join.first_partner`.

The three steps of the procedure (scan, insert, invalidate) of Kang et al., as Teubner & Mueller
2011 §2.2 give it, are the limit of this for runs of one tuple.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.blocks.contract import (
    LETTERS,
    OUT,
    Account,
    Batch,
    BlockId,
    CompiledStep,
    Instructions,
    Measures,
    Message,
    Port,
    Sent,
    Site,
    Traits,
)
from penstock.blocks.join.compiled_steps import BatchJoin, BatchPairs, SingleJoin
from penstock.blocks.join.core_figures import core_figures, divided_windows
from penstock.blocks.join.first_partner import FirstPartnerSearch
from penstock.blocks.join.flow_front import FlowFront
from penstock.blocks.join.latency import Latency
from penstock.blocks.join.matcher import (
    NOTHING,
    Matcher,
    Probes,
    RankedPairs,
    by_rank,
    ties,
    ties_at_change,
)
from penstock.blocks.join.output import (
    ONE_PARTNER,
    Expiring,
    OutputPunctuations,
    PartnerMarks,
    expiring,
)
from penstock.blocks.join.pair_search import StepwiseSearch
from penstock.blocks.join.parallel_probe import CoreThreads, ParallelProbe
from penstock.blocks.join.partner_search import FoundPairs, PartnerSearch
from penstock.blocks.lateness import Admitted, admit
from penstock.blocks.ranks import Ranks, at_home
from penstock.blocks.run import Control, Run
from penstock.blocks.state import BlockState
from penstock.blocks.window.keys import NO_KEYS, KeyValues
from penstock.blocks.window.punctuator import Clock
from penstock.blocks.window.stored_columns import taken_rows
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.compiled import loader
from penstock.kernels.expressions.vector import Failures
from penstock.program.isa.block_instructions import JoinStreams
from penstock.program.isa.flow import Flow
from penstock.streams.batches import opened, take
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
T = TypeVar("T")

NEVER = 1 << 62


def no_partner_search(flow: Flow | None, kind: str) -> PartnerSearch | None:
    """None: the block finds the pairs itself."""


def no_core_threads(flow: Flow | None) -> CoreThreads | None:
    """None: the block works on one thread."""


class JoinBlock:
    """Two windows and a predicate. Takes a run of each side and gives runs of pairs.

    Its site says where the work is done. With a share it is one of several cores (SplitJoin, Najafi
    2019 §5.1): each takes every tuple and probes with it, and one of them, chosen by the number of
    the tuple in its stream, stores it for later tuples; the others forget it with the batch. So
    each pair is found once, in the core of its earlier tuple. That is for inner joins, as no core
    knows whether a tuple has a partner in another core. Of left, semi and anti joins the left input
    alone is divided, of right ones the right input: a tuple of it is stored and compared by one
    core, its home, which has the whole other window and so sees all of its partners.

    With a flow for which ``core_threads_of`` makes threads, the block has the windows, and threads
    divide the work on them. Inner joins only, since one thread marks the matched tuples.

    With a flow for which ``partner_search_of`` makes cores, it is the driver of the flow: the cores
    find the pairs.
    """

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out", "letters")

    def __init__(
        self,
        number: BlockId,
        partner_search_of: Callable[[Flow | None, str], PartnerSearch | None] = no_partner_search,
        core_threads_of: Callable[[Flow | None], CoreThreads | None] = no_core_threads,
    ) -> None:
        self.number = number
        self.name = f"join #{number}"
        self._partner_search_of = partner_search_of
        self._core_threads_of = core_threads_of
        self._site: Site | None = None
        self.failures = Failures()
        self._key_failures = (Failures(), Failures())
        self.latency = Latency()
        self.matches = 0
        self.late = [0, 0]
        """Of each side, the tuples that came too late for its window."""
        self.front: FlowFront | None = None
        self.threads: CoreThreads | None = None
        self.changes = 0
        self.tuples_at_once = 0
        """Tuples that compiled calls for small batches have taken."""
        self._singles: tuple[SingleJoin, SingleJoin] | None = None
        self._batches: tuple[BatchJoin, BatchJoin] | None = None
        self._small_batches = 0
        """Those since the last instruction, until the call that takes one is compiled."""
        self._pause, self._refused = 0, 0

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        """Take a batch with a run of each side, or an instruction."""
        if isinstance(message, Batch) and self._site is not None:
            yield from self._take(message)
        elif isinstance(message, Instructions):
            yield from self._instruct(message, message.bodies.get(self.number))
        else:
            yield OUT, message

    def _instruct(self, message: Instructions, body: JoinStreams | None) -> Iterator[Sent]:
        for run in self._complete():
            yield OUT, message.made(run)
        if body is None:
            yield OUT, message
        elif self._site is None:
            self._begin(body, message.site)
            yield OUT, message
        else:
            self._place(message.site)
            self._program(body)
            yield OUT, message
            yield OUT, message.made(self._settle(message.position))

    def _begin(self, instruction: JoinStreams, site: Site) -> None:
        """Take the first instruction."""
        self._site = site
        self.kind = instruction.kind
        threads = self._core_threads_of(site.flow) if self.kind == "inner" else None
        search = self._partner_search_of(site.flow, self.kind)
        self.clock = Clock(instruction.float_clock)
        self._streams = instruction.streams
        left, right = (StoredWindow(i, instruction.schemas[i], self.clock) for i in (0, 1))
        self.sides = (left, right)
        self._share = site.share
        for number in instruction.divided if site.share is not None else ():
            self.sides[number].divide(site.share, takes_guests=self.kind == "inner")
        self._unmatched = PartnerMarks(self.kind, self.sides, self.clock)
        self._output_punctuations = OutputPunctuations(
            self.kind, self.sides, self.clock, site.is_read
        )
        for side in self.sides:
            side.track(False, search is not None)
        one_partner = self.kind in ONE_PARTNER and search is None
        self.matcher = Matcher(
            self.sides, self.failures, loader(site.compiles), search is None, one_partner
        )
        if search is not None:
            self.front = FlowFront(search, self.sides, self.matcher, self.latency)
            self._place(site)
        self._search: StepwiseSearch | FirstPartnerSearch
        self._search = StepwiseSearch(self.matcher, self.sides)
        if one_partner:
            self._search = FirstPartnerSearch(self.matcher, self.sides)
        self.threads = threads
        self._parallel_probe = (
            None if threads is None else ParallelProbe(threads, self.matcher, self.sides)
        )
        self._program(instruction)

    def _place(self, site: Site) -> None:
        """Note where the work is done: a change may ask a flow for another order of the pairs."""
        self._site = site
        if self.front is not None and site.flow is not None and self.kind == "inner":
            # For other kinds, the flow is asked for the order that shows who has no partner.
            self.front.order = (site.flow.order, site.flow.precision)

    def _program(self, instruction: JoinStreams) -> None:
        """Take another predicate, output columns or window sizes; the windows stay.

        Where there is a flow, all pairs so far have been found.
        """
        so_far = None if self.front is None else self.front.before()
        self.changes += 1
        self._singles = self._batches = None
        self._small_batches = self._pause = self._refused = 0
        left, right = instruction.columns
        self.columns = self._output_punctuations.columns = (left, right)
        self._nothing = self._output(NOTHING, NOTHING.ranks)
        self.matcher.program(instruction)
        for side in self.sides:
            before = side.time
            side.set_window(instruction.windows[side.index], instruction.times[side.index])
            if before is not None and side.time is not None and before.factor != side.time.factor:
                ratio = int(side.time.factor) // int(before.factor)
                self._output_punctuations.rescale(side, ratio)
        if self.front is not None:
            self.front.change(so_far)

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated for two tuples."""
        elsewhere = 0 if self.front is None else self.front.search.comparisons
        return self.matcher.comparisons + elsewhere

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel that searches the left window, and the right one, as chosen by now."""
        cores = [] if self.front is None else self.front.search.measures()["cores"]
        if not cores or len(cores[0]["kernels"]) < 2:
            return self.matcher.kernels
        left, right = cores[0]["kernels"]
        return left, right

    @property
    def nbytes(self) -> int:
        """The memory of both windows and their keys."""
        return sum(side.nbytes for side in self.sides) + self.matcher.nbytes

    def measures(self) -> Measures:
        """The counts of the block and its cores, and the size of its windows."""
        return {
            "expression_failures": self.failures.count,
            "comparisons": self.comparisons,
            "kernels": [self.kernels],
            "matches": self.matches,
            "window_tuples": [len(side.rows) for side in self.sides],
            "expired_tuples": [side.rows.first for side in self.sides],
            **divided_windows(self.sides),
            "window_bytes": self.nbytes,
            "cores": core_figures(self),
            "latency": [self.latency],
        }

    def traits(self) -> Traits:
        """It holds tuples, and may take them one by one."""
        return Traits("tuples", self._account, compiled_step=self._compiled_step)

    def _account(self, slot: int) -> Account:
        first, after = self.sides[slot].rows.span.tolist()
        return Account(True, after - first, first, self.late[slot])

    def _compiled_step(self, slot: int) -> CompiledStep | None:
        if self.front is not None:
            return None
        if self._singles is None:
            self._singles = SingleJoin(self, 0), SingleJoin(self, 1)
        step = self._singles[slot]
        return step if step.serves else None

    def save(self) -> BlockState:
        """Both windows, the punctuations, and the counts. Indexes are rebuilt.

        Where there is a flow, all pairs so far have been found.
        """
        state = BlockState(
            {
                "failures": self.failures.count,
                "output_punctuations": self._output_punctuations.in_force,
                "comparisons": self.comparisons,
                "matches": self.matches,
                "late": list(self.late),
            }
        )
        for side in self.sides:
            side.save(state)
        return state

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        self.changes += 1
        for side in self.sides:
            side.load(state)
        self.matcher.rebuild()
        self._output_punctuations.in_force = list(state.values["output_punctuations"])
        self.failures.count = state.values["failures"]
        self.matcher.comparisons = state.values["comparisons"]
        self.matches = state.values["matches"]
        self.late = list(state.values.get("late", (0, 0)))
        if self.front is not None:
            self.front.load()

    # -- a change ---------------------------------------------------------------------------

    def _settle(self, position: int) -> Run:
        """Cut the windows to their new sizes; what that makes expire comes out at ``position``."""
        unmatched = self._unmatched
        gone = [unmatched.cut_off(side) if unmatched.keeps(side) else None for side in self.sides]
        found = unmatched.added(NOTHING, gone, 0, 1)
        run = self._output(found, np.full(len(found), position, np.int64))
        if self._share is not None:
            run = replace(run, ties=ties_at_change(found, self.sides))
        self._forget()
        for stored in (*self.sides, *self.matcher.keys):
            stored.fit()
        return replace(run, controls=tuple(self._output_punctuations.now(position)))

    def _forget(self) -> None:
        for side in self.sides:
            needed = None if self.front is None else self.front.search.oldest(side.index)
            side.forget(self.sides[1 - side.index], needed=needed)
        self.matcher.forget()
        if self.front is None:
            self._pack()

    def _pack(self) -> None:
        wasteful = [side for side in self.sides if side.is_mostly_expired()]
        for side in wasteful:
            first = side.rows.first
            known = np.flatnonzero(side.pack() >= 0) + first
            if self.front is not None:
                self.front.renumber(side.index, known)
        if wasteful:
            self.matcher.rebuild()

    # -- a run ------------------------------------------------------------------------------

    def _take(self, message: Batch) -> Iterator[Sent]:
        """Give the rows of the two runs of a batch, in order, in steps of a bounded size.

        The last run has no rows but the controls of the whole.
        """
        left_run, right_run = message.runs
        assert left_run is not None and right_run is not None
        runs = (left_run, right_run)
        taken = self._take_at_once(runs)
        if taken is not None:
            side, done, rows = taken
            run = runs[side]
            yield OUT, message.made(rows, done == len(run))
            if done == len(run):
                return
            runs = (run.after(done), runs[1]) if side == 0 else (runs[0], run.after(done))
        self.changes += 1
        if self.front is not None:
            for run in self._tidy_flow(self.front, len(runs[0]) + len(runs[1])):
                yield OUT, message.made(run, False)
        before = [(side.ended, side.punctuator.punctuation) for side in self.sides]
        large = len(runs[0]) + len(runs[1]) >= TUNING.arrivals_to_share
        if self.front is None:
            self.matcher.tidy_dictionary(len(runs[0]) + len(runs[1]))
        (left, left_keys), (right, right_keys) = self._each(
            lambda side: self._admit(side, runs[side.index]), large and not self.matcher.encodes
        )
        self._count_failures()
        ranks = Ranks((left, right))
        left, right = at_home(self.sides, (left, right), ranks)
        admitted, keyed = (left, right), (left_keys, right_keys)
        gone = [
            expiring(side, admitted[1 - side.index], ranks, *before[1 - side.index])
            if self._unmatched.keeps(side)
            else None
            for side in self.sides
        ]
        if self.front is None:
            made = self._timed(self._here(admitted, keyed, ranks, gone), ranks)
        else:
            made = self._flow(self.front, admitted, keyed, ranks, gone)
        for run in made:
            yield OUT, message.made(run, False)
        controls = self._output_punctuations.controls(admitted, ranks, before)
        self._forget()
        for letters in (*left.letters, *right.letters):
            yield LETTERS, letters
        nothing = self._nothing
        if controls:
            nothing = replace(nothing, controls=controls)
        yield OUT, message.made(nothing, True)

    def _take_at_once(self, runs: tuple[Run, Run]) -> tuple[int, int, Run] | None:
        """Take a small batch of one side by one compiled call; None if that cannot be done.

        Gives the side, how many of its tuples are done, and their rows with the controls.
        """
        if self.front is not None or self._parallel_probe is not None:
            return None
        side = 0 if len(runs[0]) else 1
        run = runs[side]
        count = len(run)
        if len(runs[1 - side]) or not 0 < count <= TUNING.small_batch:
            return None
        if run.controls or runs[1 - side].controls or not self._is_worth_trying():
            return None
        began = time.monotonic_ns()
        before = [one.punctuator.punctuation for one in self.sides]
        if self.matcher.encodes:
            self.changes += self.matcher.tidy_dictionary(count)
        assert self._batches is not None
        taken = self._batches[side].take(run.inputs[0])
        if taken is None:
            self._refused = min(2 * self._refused + 1, TUNING.longest_pause)
            self._pause = self._refused
            return None
        self._refused = 0
        self.tuples_at_once += taken.count
        rows = self._paired(side, run, taken)
        spent = time.monotonic_ns() - began
        if len(rows):
            self.latency.visiting.add(spent, len(rows))
        controls: tuple[Control, ...] = ()
        if taken.after is not None:
            controls = self._output_punctuations.after_tuples(side, taken.after, run, before)
            self._forget()
        self.latency.processing.add(time.monotonic_ns() - began, taken.count)
        return side, taken.count, replace(rows, controls=controls) if controls else rows

    def _is_worth_trying(self) -> bool:
        """Whether a small batch should be taken at once, if it can be."""
        if self._pause:
            self._pause -= 1
            return False
        if self._batches is None:
            self._small_batches += 1
            if self._small_batches <= TUNING.batches_to_compile:
                return False
            self._batches = BatchJoin(self, 0), BatchJoin(self, 1)
            if not all(step.serves for step in self._batches):
                self._small_batches = -NEVER
                self._batches = None
                return False
        return True

    def _paired(self, side: int, run: Run, taken: BatchPairs) -> Run:
        """The rows of pairs of tuples of a run with older ones of the other side."""
        if not len(taken.names):
            return self._nothing
        mine = taken_rows(run.inputs[0], self.columns[side], taken.names)
        theirs = self.sides[1 - side].rows.take(taken.partners, self.columns[1 - side])
        pair = (mine, theirs) if side == 0 else (theirs, mine)
        return Run(pair, run.positions_of(taken.names))

    def _here(
        self,
        admitted: tuple[Admitted, Admitted],
        keyed: tuple[KeyValues, KeyValues],
        ranks: Ranks,
        gone: list[Expiring | None],
    ) -> Iterator[Run]:
        """Find the pairs in the block's own windows."""
        large = admitted[0].batch.num_rows + admitted[1].batch.num_rows >= TUNING.arrivals_to_share
        probes = self._each(
            lambda side: self._probes(side, admitted[side.index], keyed[side.index], ranks), large
        )
        if not (self._parallel_probe or self._search).sweeps(probes):
            self._each(lambda side: self._index(side, probes[side.index]), large)
        if self._parallel_probe is None:
            for found, start, stop in self._search.found(probes, ranks.count):
                found = self._unmatched.added(self._mark(found), gone, start, stop)
                if len(found):
                    yield self._gather(found, ranks)
            return
        for run in self._parallel_probe.runs(probes, ranks.count, lambda f: self._gather(f, ranks)):
            self.matches += len(run)
            yield run

    def _timed(self, runs: Iterator[Run], ranks: Ranks) -> Iterator[Run]:
        """The runs, with their latency recorded."""
        latency, began = self.latency, time.monotonic_ns()
        for run in runs:
            latency.visiting.add(time.monotonic_ns() - began, len(run))
            yield run
        tuples = sum(len(ranks.every(side.index)) for side in self.sides)
        latency.processing.add(time.monotonic_ns() - began, tuples)

    def _each(self, work: Callable[[StoredWindow], T], apart: bool) -> list[T]:
        """Do it for both sides; ``apart``: in parallel, if there are threads."""
        if self.threads is None or not apart:
            return [work(side) for side in self.sides]
        left, right = self.sides
        return self.threads.share([lambda _: work(left), lambda _: work(right)])

    def _admit(self, side: StoredWindow, run: Run) -> tuple[Admitted, KeyValues]:
        """Judge a side's tuples and store those in time."""
        admitted = admit(side, run, self._streams[side.index])
        self.late[side.index] += len(run) - admitted.batch.num_rows
        if not admitted.batch.num_rows:
            side.append_none()
            return admitted, NO_KEYS
        side.append(admitted.batch, admitted.times, admitted.keys)
        batch = admitted.batch if side.home is None else opened(take(admitted.batch, side.home))
        keyed = self.matcher.keys[side.index].keyed(batch, self._key_failures[side.index])
        self.matcher.store(side, keyed)
        return admitted, keyed

    def _count_failures(self) -> None:
        """Each side counts its own failures, since threads may be at both."""
        for failures in self._key_failures:
            self.failures.count += failures.count
            failures.count = 0

    def _probes(
        self, side: StoredWindow, admitted: Admitted, keyed: KeyValues, ranks: Ranks
    ) -> Probes | None:
        if keyed is NO_KEYS:
            return None
        mine, seen = ranks.tuples[side.index], ranks.others_before(side.index)
        return self.matcher.probes(side, admitted, keyed, mine, seen)

    def _index(self, side: StoredWindow, probes: Probes | None) -> None:
        if probes is not None:
            self.matcher.index(side, probes)

    # -- a flow -----------------------------------------------------------------------------

    def _tidy_flow(self, front: FlowFront, arriving: int) -> Iterator[Run]:
        """Send other keys or numbers to the flow if these are due, all pairs having been found."""
        self.matcher.tidy_dictionary(arriving)
        if not front.is_current or any(side.is_mostly_expired() for side in self.sides):
            yield from self._complete()
            self._pack()
            front.change(None)

    def _complete(self) -> Iterator[Run]:
        """Find all remaining pairs; yield the rows."""
        if self.front is None:
            return
        for pairs in self.front.complete():
            self.matches += len(pairs)
            yield self._gathered(self.front, pairs)
        left, right = self.sides
        left.forget(right)
        right.forget(left)

    def close(self) -> None:
        """End the cores and threads of the flow."""
        if self.front is not None:
            self.front.search.close()
        if self.threads is not None:
            self.threads.close()

    def _flow(
        self,
        front: FlowFront,
        admitted: tuple[Admitted, Admitted],
        keyed: tuple[KeyValues, KeyValues],
        ranks: Ranks,
        gone: list[Expiring | None],
    ) -> Iterator[Run]:
        """Let the flow find the pairs; all of them, once both streams have ended."""
        chunk = front.chunk(admitted, keyed, ranks)
        if self.kind == "inner":
            for pairs in front.take(chunk):
                self.matches += len(pairs)
                yield self._gathered(front, pairs)
            if all(side.ended for side in self.sides):
                yield from self._complete()
            return
        start, waiting, count = 0, [NOTHING], 0
        for pairs in front.take(chunk):
            waiting.append(RankedPairs(pairs.left, pairs.right, pairs.ranks - chunk.ranks[0]))
            count += len(pairs)
            if count > TUNING.pairs_per_step:
                # They come by rank, so all but the last one's pairs have come.
                found, stop = by_rank(waiting), int(waiting[-1].ranks[-1])
                cut = int(np.searchsorted(found.ranks, stop))
                yield from self._settled(found.part(0, cut), gone, start, stop, ranks)
                waiting, start = [found.part(cut, len(found))], stop
                count = len(waiting[0])
        yield from self._settled(by_rank(waiting), gone, start, ranks.count, ranks)

    def _settled(
        self, found: RankedPairs, gone: list[Expiring | None], start: int, stop: int, ranks: Ranks
    ) -> Iterator[Run]:
        """The rows of a stretch of ranks, of which all pairs are known."""
        found = self._unmatched.added(self._mark(found), gone, start, stop)
        if len(found):
            yield self._output(found, ranks.positions(found.ranks))

    def _gathered(self, front: FlowFront, pairs: FoundPairs) -> Run:
        return self._output(
            RankedPairs(pairs.left, pairs.right, pairs.ranks), front.positions(pairs)
        )

    # -- pairs found here -------------------------------------------------------------------

    def _gather(self, found: RankedPairs, ranks: Ranks) -> Run:
        run = self._output(found, ranks.positions(found.ranks))
        return (
            run
            if self._share is None
            else replace(run, ties=ties(found, ranks, self.sides, self.kind))
        )

    def _mark(self, found: RankedPairs) -> RankedPairs:
        found = self._unmatched.mark(found)
        self.matches += len(found)
        return found

    # -- output -----------------------------------------------------------------------------

    def _output(self, found: RankedPairs, positions: Indices) -> Run:
        """Gather the rows, which are at these positions."""
        padded = self.kind in ("left", "right", "full")
        left, right = self.sides
        inputs = [left.rows.take(found.left, self.columns[0], padded)]
        if self.kind not in ONE_PARTNER:
            inputs.append(right.rows.take(found.right, self.columns[1], padded))
        return Run(tuple(inputs), positions)
