"""``mjoin``: the join of three and more inputs in one block, exact whatever the batch.

Why it is exact. All tuples of a batch are stored first. Then each probes the other windows as they
were at its own arrival, one window after the other: a stage sees only tuples ranked before the
arrival, and of a count window only the last ``w`` of those. So a combination is found at most once,
from its youngest member, its *origin*. It is found, since its other members are older. Every two
members meet the condition of a two-way join: a stage compares the new member with all that are
bound. For time windows this is a range of times, which the kernel or the candidate range decides;
where a count window meets a time window, the condition holds for one order of arrival only, and is
checked on what a stage has found. The order of the stages does not matter for what is found; rows
leave sorted by the rank of the origin and then by the members' numbers in the order of FROM.

A window is swept once for all combinations of a batch (Najafi 2019 §6.4.7). No intermediate result
is kept longer than that.

A tree with outer, semi or anti joins begins with such an inner join, of its first inputs, perhaps
of one. Its combinations go through the steps of the tree, which keep them
(:mod:`penstock.blocks.multiway.combination_join`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

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
from penstock.blocks.join.core_figures import divided_windows, one_core
from penstock.blocks.join.latency import Latency
from penstock.blocks.join.output import (
    NEVER,
    RIGHT_UNMATCHED,
    OutputPunctuations,
    cut_off,
    standing,
)
from penstock.blocks.lateness import Admitted, admit
from penstock.blocks.multiway.combination_join import (
    AT_ONCE,
    MET,
    PHASES,
    CombinationJoin,
    Events,
    Expiries,
    Formed,
    events_of,
    in_row_order,
    in_time,
    nothing_formed,
)
from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    CombinationSearch,
    Division,
    NewcomersView,
    SearchProgram,
    TooManyCombinations,
    WindowView,
    known,
)
from penstock.blocks.multiway.compiled_step import SingleMultiway
from penstock.blocks.multiway.design_revision import DesignRevision
from penstock.blocks.multiway.order_revision import ProbePaths
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.multiway.stretch_search import Path, StretchSearch
from penstock.blocks.ranks import Ranks, at_home
from penstock.blocks.run import Run
from penstock.blocks.state import BlockState
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.blocks.window.live_ranges import Ranges, timed_ranges
from penstock.blocks.window.punctuator import Clock, Lag, Ticks
from penstock.blocks.window.reading import Reading
from penstock.blocks.window.window import StoredWindow
from penstock.kernels.compiled import loader
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import (
    JoinTerms,
    ProbeOrder,
    ProbeStage,
    fixed_order,
    probe_order,
    step_stage,
)
from penstock.program.isa.block_instructions import JoinStreams
from penstock.program.isa.flow import Flow, search_of
from penstock.sql.expressions import conjunction
from penstock.streams.windows import Range, Rows
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
BY_NUMBER = frozenset({"circular", "stashed"})
"""The searches that know by a tuple's number what pushes it out of a count window."""


def ties(members: Sequence[Indices], ranks: Indices) -> npt.NDArray[np.bytes_]:
    """What orders the rows of one position, as bytes: the rank, then the members in FROM's order.

    Every core ranks a batch alike.

    >>> early, late = ties([np.array([1, 2]), np.array([300, 3])], np.array([4, 4])).tolist()
    >>> early < late, len(late)
    (True, 24)
    """
    table = np.stack((ranks, *members), axis=1).astype(">i8", order="C")
    return table.view(f"S{table.shape[1] * table.itemsize}").ravel()


def no_combination_search(flow: Flow | None) -> CombinationSearch | None:
    """None: the block finds the combinations itself."""


class MultiwayBlock:
    """Windows of three and more inputs, and a predicate over any of them.

    With a flow for which ``combination_search_of`` makes a design, the design's units probe the
    windows; else the block does it.

    If its site has a share, the block is one of several, each in a core of its own; ``division``
    has the search of such a core, and the input that they divide. Inner joins only.
    """

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out", "letters")

    def __init__(
        self,
        number: BlockId,
        combination_search_of: Callable[
            [Flow | None], CombinationSearch | None
        ] = no_combination_search,
        division: Division | None = None,
    ) -> None:
        self.number = number
        self._combination_search_of = combination_search_of
        self._division = division
        self._divided: int | None = None
        """The input that blocks on several cores divide."""
        self._search: CombinationSearch | None = None
        self._search_is_stale = True
        self._own_search: StretchSearch | None = None
        self._design: DesignRevision | None = None
        self.name = f"multiway join #{number}"
        self._site: Site | None = None
        self.failures = Failures()
        self.latency = Latency()
        self._compared = 0
        self.matches = 0
        self.changes = 0
        self._singles: dict[int, SingleMultiway] = {}
        self.sides: list[StoredWindow] = []

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        """Take a batch with a run of each input, or an instruction."""
        if isinstance(message, Batch) and self._site is not None:
            yield from self._take(message)
        elif isinstance(message, Instructions) and self.number in message.bodies:
            body = message.bodies[self.number]
            first = self._site is None
            if first:
                self._begin(body, message.site)
            self._program(body)
            if first and message.site.share is not None:
                self._divide()
            yield OUT, message
            if not first:
                for run in self._settle(message.position):
                    yield OUT, message.made(run)
        else:
            yield OUT, message

    # -- programming ------------------------------------------------------------------------

    def _begin(self, instruction: JoinStreams, site: Site) -> None:
        """Take the first instruction."""
        self._site = site
        self._core = instruction.core
        self._flow = site.flow
        if not instruction.steps and site.share is None:
            # A design finds the combinations of all inputs.
            self._search = self._combination_search_of(site.flow)
        self.clock = Clock(instruction.float_clock)
        self._streams = instruction.streams
        self.sides = [
            StoredWindow(i, schema, self.clock) for i, schema in enumerate(instruction.schemas)
        ]
        self.late = [0] * len(self.sides)
        for side in self.sides:
            side.track(False, True)
        self._output_punctuations = OutputPunctuations(
            "inner", self.sides, self.clock, site.is_read
        )
        self._joins = [
            CombinationJoin(
                number, range(number), step.kind, self.sides, self.clock, self.entries_of,
                self.failures, self._note,
            )
            for number, step in enumerate(instruction.steps, start=self._core)
        ]  # fmt: skip

    def _divide(self) -> None:
        """Become one of the blocks that share the join; the windows are empty."""
        assert self._division is not None and not self._joins
        assert self._site is not None
        self._search = self._division.search(self._site.flow)
        self._share_input(self._division.stream(self._search_program()))

    def _share_input(self, divided: int) -> None:
        """Let the input with this number be the divided one, whatever it was before.

        Its window has the tuples at home here; or all, and a part of them is processed here, if the
        search knows by their numbers what pushes them out.
        """
        assert self._site is not None
        self._divided = divided
        by_number = self._flow is not None and search_of(self._flow.design) in BY_NUMBER
        for side in self.sides:
            share = self._site.share if side.index == divided else None
            if by_number:
                side.part = share
            else:
                side.divide(share)

    def _program(self, instruction: JoinStreams) -> None:
        """Take another predicate, output columns or window sizes; the windows stay."""
        assert self._site is not None
        self._instruction = instruction
        self.load = loader(self._site.compiles)
        self._singles.clear()
        self.columns = self._output_punctuations.columns = instruction.columns
        nothing = np.empty(0, np.int64)
        self._nothing = self._rows([nothing] * len(self.sides), nothing)
        self._kernel = instruction.kernel
        if instruction.kernel != "nested-loop" and not instruction.kernel_is_forced:
            self._kernel = "auto"
        self._terms = JoinTerms(instruction)
        self._paths = ProbePaths(self._search_program())
        if self._flow is not None and self._flow.revises and self._site.share is None:
            if self._design is None:
                self._running = self._flow.design
            self._design = DesignRevision(self._search_program(), self._running, self._flow.cores)
        for side in self.sides:
            before = side.time
            side.set_window(instruction.windows[side.index], instruction.times[side.index])
            if before is not None and side.time is not None and before.factor != side.time.factor:
                ratio = int(side.time.factor) // int(before.factor)
                self._output_punctuations.rescale(side, ratio)
        for join in self._joins:
            plan = step_stage(instruction, join.input)
            join.program(self._stage(plan, join.input > self._core), self._kernel)
        self._set_lags()
        self.rebuild()

    def rebuild(self) -> None:
        """Forget all keys; those of stored tuples are computed again when a stage needs them."""
        self.changes += 1
        self._compared += self._own_comparisons
        self.dictionary = Dictionary()
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        self._own_search = StretchSearch(
            self._search_program(), self._paths.of, self.entries_of, self.dictionary, self.failures
        )
        self._paths.searched_anew()
        self._search_is_stale = True
        for join in self._joins:
            join.rebuild(self.dictionary)

    def _search_program(self) -> SearchProgram:
        """The join as a search sees it."""
        fixed = self._flow is not None and self._flow.probe_order == "fixed"

        def order(origin: int) -> ProbeOrder:
            if fixed:
                return fixed_order(self._terms, origin)
            return probe_order(self._instruction, self._terms, origin)

        return SearchProgram(
            self.sides[: self._core],
            self._terms,
            order,
            not fixed,
            self._kernel,
            self._stage,
            self._begun,
            self._extend,
            self._meet,
        )

    def _set_lags(self) -> None:
        """Let the inputs after the first step keep their tuples for decisions to come.

        A combination that meets a tuple is decided when a window of one of its members has passed,
        or when an unmatched tuple of a right or full join with a lag is.
        """
        decided: list[tuple[int | float, Lag]] = []
        for join in self._joins[1:]:
            side = self.sides[join.input]
            windows = [one.window for one in self.sides[: join.input]]
            sizes = [window.size for window in windows if isinstance(window, Range)]
            side.lag = Lag(self.clock, max(sizes, default=0), tuple(decided))
            if join.kind in RIGHT_UNMATCHED and isinstance(side.window, Range):
                decided.append((side.window.size, side.lag))

    def _passing(self, side: StoredWindow) -> list[StoredWindow]:
        """The inputs whose punctuations let the tuples of an input go."""
        return [other for other in self.sides if other is not side or side.lag is not None]

    def _stage(self, plan: ProbeStage, padded: bool = False) -> Stage:
        """A stage; times are bounded above if members of time windows probe a time window."""
        is_timed = all(
            any(isinstance(self.sides[i].window, Range) for i in inputs)
            for inputs in ((plan.input,), plan.bound)
        )
        return Stage(plan, self.load, is_timed, padded)

    def entries_of(self, stage: Stage) -> WindowKeys:
        """The keys that a stage searches."""
        found = self._entries.get(stage.identity)
        if found is None:
            side = self.sides[stage.input]
            found = WindowKeys(stage.predicate, self._kernel, side, self.dictionary)
            self._entries[stage.identity] = found
            self.changes += 1
        return found

    def _settle(self, position: int) -> Iterator[Run]:
        """Cut the windows to their new sizes; what that makes expire comes out at ``position``."""
        self.changes += 1
        if self._joins:
            yield from self._cut_off(position)
        self._forget()
        for side in self.sides:
            side.fit()
        yield replace(self._nothing, controls=tuple(self._output_punctuations.now(position)))

    def _cut_off(self, position: int) -> Iterator[Run]:
        """The rows of combinations and tuples that smaller windows make expire."""
        nothing = np.empty(0, np.int64)

        def gone(
            side: StoredWindow, punctuation: int | float, others: list[StoredWindow]
        ) -> Expiries:
            cut = cut_off(side, punctuation, others)
            before = np.full(len(cut), -1, np.int64)
            return Expiries(side.rows.first, before, np.where(cut, 0, NEVER))

        expiries, settled = [], []
        for side in self.sides:
            side.append_none()
            others = [other for other in self.sides if other is not side]
            least = min(other.punctuator.punctuation for other in others)
            expiries.append(gone(side, least, others))
            passing = self._passing(side)
            settled.append(gone(side, side.passed(passing), passing))
        events = Events(
            [nothing] * len(self.sides), lambda ranks, _: np.zeros_like(ranks), expiries, settled
        )
        for formed in self._joined([(nothing_formed(self._core), 0, PHASES)], events):
            if not len(formed):
                continue
            yield self._rows(formed.members, np.full(len(formed), position, np.int64))

    # -- a batch ----------------------------------------------------------------------------

    def _take(self, message: Batch) -> Iterator[Sent]:
        """Give the rows of a batch in order, in steps of a bounded size."""
        began = time.monotonic_ns()
        self.changes += 1
        before = [(side.ended, side.punctuator.punctuation) for side in self.sides]
        if is_outgrown(self.dictionary, self.sides):
            self.rebuild()
        if self._design is not None:
            self._turn_to(self._design.design)
        self._program_search()
        admitted = [
            self._admit(side, run) for side, run in zip(self.sides, message.runs, strict=True)
        ]
        ended, punctuations = zip(*before, strict=True)
        ranks = Ranks(admitted)
        admitted = at_home(self.sides, admitted, ranks)
        arrived = Arrived(admitted, ranks, punctuations, ended)
        given = time.monotonic()
        for found, at in self._outcome(arrived):
            # Nothing is given too, from time to time, so that the caller may pause.
            if not len(at) and time.monotonic() < given + TUNING.longest_step:
                continue
            given = time.monotonic()
            self.matches += len(at)
            self.latency.visiting.add(time.monotonic_ns() - began, len(at))
            run = self._rows(found, ranks.positions(at))
            if self._divided is not None:
                numbers = map(StoredWindow.arrival_numbers, self.sides, found)
                run = replace(run, ties=ties(list(numbers), at))
            yield OUT, message.made(run, False)
        controls = self._output_punctuations.controls(admitted, ranks, before)
        if self._design is not None:
            self._design.look(arrived, lambda origin: self._paths.of(origin)[0])
        self._forget()
        tuples = sum(len(ranks.every(side.index)) for side in self.sides)
        self.latency.processing.add(time.monotonic_ns() - began, tuples)
        for one in admitted:
            for letters in one.letters:
                yield LETTERS, letters
        yield OUT, message.made(replace(self._nothing, controls=controls), True)

    def _turn_to(self, design: str) -> None:
        """Go on with another design, from the tuples that are in the windows."""
        assert self._flow is not None
        if design == self._running:
            return
        if self._search is not None:
            self._compared += self._search.comparisons
            self.failures.count += self._search.failed_expressions
            self._search.close()
        self._search = self._combination_search_of(replace(self._flow, design=design))
        self._running, self._search_is_stale = design, True

    def _program_search(self) -> None:
        """Let a design start with the program in force, if it does not have it."""
        search = self._search
        if search is None or not (self._search_is_stale or search.is_wasteful):
            return
        self._entries.clear()
        try:
            search.program(self._search_program())
        except TooManyCombinations:
            self._give_up_cascade()
            self._program_search()
        self._search_is_stale = False

    def _give_up_cascade(self) -> None:
        """Go on without a cascade, which was not asked for and would store too much."""
        assert self._design is not None
        self._design.give_up()
        self._turn_to(self._design.design)

    def _outcome(self, arrived: Arrived) -> Iterator[tuple[Sequence[Indices], Indices]]:
        """The members of each row of a batch and its rank, in order, in pieces, some empty."""
        if self._joins:
            pieces = (
                (Formed(found.ranks * PHASES + MET, tuple(map(known, found.members))), start, bound)
                for found, start, bound in self._pieces(arrived)
            )
            events = events_of(self.sides, arrived)
            yield from ((f.members, f.ranks) for f in self._joined(pieces, events))
            return
        for one in self._found(arrived):
            yield tuple(map(known, one.members)), one.ranks

    def _found(self, arrived: Arrived) -> Iterator[Combinations]:
        """The combinations of a batch of an inner join, in order."""
        start = 0
        if self._search is not None:
            try:
                yield from self._search.take(arrived)
                return
            except TooManyCombinations as stopped:
                start = stopped.rank
                self._give_up_cascade()
        for piece, _, _ in self._pieces(arrived, start):
            yield piece

    def _joined(
        self, pieces: Iterable[tuple[Formed, int, int]], events: Events
    ) -> Iterator[Formed]:
        """What the steps of a tree make of the combinations of its first inputs, in order."""
        for join in self._joins:
            join.begin(events)
        for join in self._joins:
            pieces = self._through_step(join, pieces)
        for formed, _, _ in pieces:
            yield in_row_order(formed, self.sides) if len(formed) else formed
        for join in self._joins:
            join.finish()

    def _through_step(
        self, join: CombinationJoin, pieces: Iterable[tuple[Formed, int, int]]
    ) -> Iterator[tuple[Formed, int, int]]:
        for formed, start, bound in pieces:
            yield from join.take(formed, start, bound)

    def _admit(self, side: StoredWindow, run: Run | None) -> Admitted:
        """Judge an input's tuples and store those in time."""
        assert run is not None
        admitted = admit(side, run, self._streams[side.index])
        self.late[side.index] += len(run) - admitted.batch.num_rows
        side.append_none()
        if admitted.batch.num_rows:
            side.append(admitted.batch, admitted.times, admitted.keys)
            for entries in self.entries_over(side.index):
                entries.append(admitted.batch, self.failures)
        return admitted

    def entries_over(self, input: int) -> list[WindowKeys]:
        """All keys of an input's tuples."""
        return [entries for key, entries in self._entries.items() if key[0] == input]

    def _forget(self) -> None:
        """Drop expired tuples."""
        for side in self.sides:
            side.forget(*self._passing(side))
            for entries in self.entries_over(side.index):
                entries.drop_before(side.rows.first)
            if side.is_mostly_expired():
                first, numbers = side.rows.first, side.pack()
                for join in self._joins:
                    join.renumber(side.index, first, numbers)
                self._search_is_stale = True
                for identity in [key for key in self._entries if key[0] == side.index]:
                    del self._entries[identity]

    # -- combinations -----------------------------------------------------------------------

    def _pieces(self, arrived: Arrived, first: int = 0) -> Iterator[tuple[Combinations, int, int]]:
        """The combinations of the inner join in a batch, in order, in pieces of a bounded size.

        Each with its first rank, and the moment before which all have come. They begin with rank
        ``first``.
        """
        search = self._own_search
        assert search is not None
        if self._paths.revise(arrived, [search]):
            used = self._paths.identities | {join.stage.identity for join in self._joins}
            for identity in self._entries.keys() - used:
                del self._entries[identity]
        for found, start, end in search.pieces(arrived, first, arrived.ranks.count):
            yield found, start, start * PHASES + AT_ONCE if end is None else end * PHASES

    def _begun(
        self, arrived: Arrived, order: ProbeOrder, start: int, stop: int, failures: Failures
    ) -> Combinations:
        """The arrivals of an origin in a stretch of ranks, if they pass what is asked of them."""
        side, ranks = self.sides[order.origin], arrived.ranks.tuples[order.origin]
        a, b = np.searchsorted(ranks, (start, stop)).tolist()
        seqs = np.arange(a, b) + (side.rows.next - side.newest)
        chosen = ranks[a:b]
        members: list[Indices | None] = [None] * len(self.sides)
        members[order.origin] = seqs
        if order.filter and len(seqs):
            reading = Reading.of([conjunction(order.filter)])
            inputs = reading.inputs(self.sides, members, len(seqs))
            passed = np.flatnonzero(select(inputs, reading.expressions[0], failures))
            members[order.origin], chosen = seqs[passed], chosen[passed]
        return Combinations(chosen, tuple(members))

    def _extend(
        self,
        arrived: Arrived,
        origin: int,
        stage: Stage,
        given: Combinations,
        most: int | None,
        view: WindowView,
    ) -> Combinations | None:
        """The combinations with a member of a window as it is seen; None if there are too many."""
        entries = view.entries
        ranges = self._ranges(arrived, origin, stage, given, view.seen)
        ranges = entries.candidates(ranges, view.first, view.after)
        found = stage.search(
            entries, self.sides, given.members, ranges, most, view.dictionary,
            view.failures, view.note,
        )  # fmt: skip
        if found is None:
            return None
        chosen, partners = found >> 32, found & 0xFFFFFFFF
        made = given.extended(chosen, stage.input, entries.numbers_of(partners))
        return self._in_time(origin, stage, made)

    def _meet(
        self,
        arrived: Arrived,
        stage: Stage,
        given: Combinations,
        most: int | None,
        view: NewcomersView,
    ) -> Combinations | None:
        """The combinations with a new tuple for which all members are live; None if too many.

        It finds what :meth:`_extend` finds from the new tuple on, if the given combinations are all
        that satisfy the terms among themselves.
        """
        ranges = view.entries.candidates(self._newcomers(arrived, stage, given, view))
        found = stage.search(
            view.entries, self.sides, given.members, ranges, most, view.dictionary,
            view.failures, view.note,
        )  # fmt: skip
        if found is None:
            return None
        chosen, partners = found >> 32, found & 0xFFFFFFFF
        numbers = view.entries.numbers_of(partners)
        made = given.extended(chosen, stage.input, numbers)
        side = self.sides[stage.input]
        ranks = arrived.ranks.tuples[stage.input][numbers - (side.rows.next - side.newest)]
        return self._unexpired(arrived, stage, replace(made, ranks=ranks))

    def _note(self, comparisons: int) -> None:
        self._compared += comparisons

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated for a combination and a tuple."""
        elsewhere = 0 if self._search is None else self._search.comparisons
        return self._compared + self._own_comparisons + elsewhere

    @property
    def _own_comparisons(self) -> int:
        """Those since the keys were last computed anew, by the block itself."""
        return 0 if self._own_search is None else self._own_search.comparisons

    # -- which tuples are live for a combination ------------------------------------------------

    def _ranges(
        self, arrived: Arrived, origin: int, stage: Stage, given: Combinations, seen: Indices
    ) -> Ranges:
        """The candidates of a stage, as indices of entries.

        ``seen`` are how many of the batch's tuples of its window each combination may see.
        """
        side = self.sides[stage.input]
        return side.ranges(seen, lambda: self._reach(arrived, origin, stage, given))

    def _reach(
        self, arrived: Arrived, origin: int, stage: Stage, given: Combinations
    ) -> tuple[Ticks, Ticks | None]:
        """What the expiry of a tuple of a time window must be above, and its time below."""
        lower: list[Ticks] = []
        upper: list[Ticks] = []
        for number in stage.bound:
            side, seqs = self.sides[number], given.members[number]
            assert seqs is not None
            where = seqs - side.rows.first
            if isinstance(side.window, Range):
                lower.append(side.times.view()[where])
                upper.append(side.expiry.view()[where])
            elif number == origin:
                lower.append(side.times.view()[where])
                lower.append(self._punctuated(arrived, stage.input, given.ranks))
        top = functools.reduce(np.minimum, upper) if upper else None
        return functools.reduce(np.maximum, lower), top

    def _punctuated(self, arrived: Arrived, input: int, ranks: Indices) -> Ticks:
        """The smallest punctuation of the inputs but one before each rank.

        A tuple of that input has expired when all others' punctuations have reached its expiry. A
        tuple of a time window is never before its punctuation; one of a count window may be.
        """
        found = [
            standing(ranks, arrived.ranks.steps(number, admitted), before)
            for number, (admitted, before) in enumerate(
                zip(arrived.admitted, arrived.punctuations_before, strict=True)
            )
            if number != input
        ]
        return functools.reduce(np.minimum, found)

    def _in_time(self, origin: int, stage: Stage, made: Combinations) -> Combinations:
        """Leave out combinations in which a count window's tuple came too late for a time window's.

        The origin is the youngest and has been judged.
        """
        new = self.sides[stage.input]
        keeps: npt.NDArray[np.bool_] | None = None
        for number in stage.bound:
            old = self.sides[number]
            if number == origin or isinstance(old.window, Range) == isinstance(new.window, Range):
                continue
            one, other = known(made.members[number]), known(made.members[stage.input])
            fits = in_time(old, new, one, other)
            keeps = fits if keeps is None else keeps & fits
        if keeps is None or keeps.all():
            return made
        chosen = np.flatnonzero(keeps)
        seqs = made.members[stage.input]
        assert seqs is not None
        return made.extended(chosen, stage.input, seqs[chosen])

    def _newcomers(
        self, arrived: Arrived, stage: Stage, given: Combinations, view: NewcomersView
    ) -> Ranges:
        """The new tuples for which all members of a combination are live, as indices of tuples.

        They come after its youngest member, and before the tuple that pushes one out of a count
        window. If their own window is no time window, times are left to :meth:`_unexpired`.
        """
        side, (start, stop) = self.sides[stage.input], view.span
        first = len(side.rows) - side.newest + start
        ranks = arrived.ranks.tuples[stage.input][start:stop]
        lo = np.searchsorted(ranks, given.ranks)
        hi = np.full(len(given), stop - start)
        timed: list[tuple[StoredWindow, Indices]] = []
        for number in stage.bound:
            member, seqs = self.sides[number], known(given.members[number])
            if isinstance(member.window, Rows):
                pushing = seqs + (member.window.size - (member.rows.next - member.newest))
                # After the batch's ranks, one for all that is not pushed out by this batch.
                ends = np.append(arrived.ranks.tuples[number], arrived.ranks.count)
                last = ends[np.clip(pushing, 0, member.newest)]
                hi = np.minimum(hi, np.where(pushing < 0, 0, np.searchsorted(ranks, last)))
            elif isinstance(member.window, Range):
                timed.append((member, seqs - member.rows.first))
        numbered = Ranges(lo + first, np.maximum(lo, hi) + first)
        if not timed or not isinstance(side.window, Range):
            return numbered
        lower = functools.reduce(np.maximum, (one.times.view()[at] for one, at in timed))
        upper = functools.reduce(np.minimum, (one.expiry.view()[at] for one, at in timed))
        stored = side.expiry.view(), side.times.view()
        return timed_ranges(numbered, (lower, upper), stored, side.in_order)

    def _unexpired(self, arrived: Arrived, stage: Stage, made: Combinations) -> Combinations:
        """Leave out combinations whose new tuple came too late for a member of a time window.

        If its own window is a time window, the search has judged it.
        """
        new = self.sides[stage.input]
        timed = [n for n in stage.bound if isinstance(self.sides[n].window, Range)]
        if isinstance(new.window, Range) or not timed or not len(made):
            return made
        seqs = known(made.members[stage.input])
        times = new.times.view()[seqs - new.rows.first]
        keeps = np.ones(len(made), np.bool_)
        for number in timed:
            side = self.sides[number]
            expiry = side.expiry.view()[known(made.members[number]) - side.rows.first]
            keeps &= (expiry > times) & (expiry > self._punctuated(arrived, number, made.ranks))
        chosen = np.flatnonzero(keeps)
        return made.extended(chosen, stage.input, seqs[chosen])

    # -- output -----------------------------------------------------------------------------

    def _rows(self, members: Sequence[Indices], positions: Indices) -> Run:
        """Gather the rows of combinations, which are at these positions."""
        padded = bool(self._joins)
        inputs = [
            side.rows.take(seqs, columns, padded)
            for side, seqs, columns in zip(self.sides, members, self.columns, strict=True)
        ]
        return Run(tuple(inputs), positions)

    # -- questions --------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The memory of the windows and their keys."""
        elsewhere = 0 if self._search is None else self._search.nbytes
        own = sum(entries.nbytes for entries in self._entries.values())
        own += sum(join.nbytes for join in self._joins)
        return sum(side.nbytes for side in self.sides) + own + elsewhere

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel that searches each window, as chosen by now."""
        if self._search is not None:
            cores = self._search.measures()["cores"]
            return tuple(kernel for core in cores for kernel in core["kernels"])
        found = [[e.kernel for e in self.entries_over(side.index)] for side in self.sides]
        return tuple(names[0] if names else "nested-loop" for names in found)

    def measures(self) -> Measures:
        """The counts of the block, and the size of its windows."""
        return {
            "expression_failures": self._failed_expressions,
            "comparisons": self.comparisons,
            "kernels": [self.kernels],
            "matches": self.matches,
            "window_tuples": [len(side.rows) for side in self.sides],
            "expired_tuples": [side.rows.first for side in self.sides],
            **divided_windows(self.sides),
            "window_bytes": self.nbytes,
            "cores": self._core_figures,
            "latency": [self.latency],
            "probe_orders": self._probe_orders,
            "designs": self._explained_designs,
        }

    @property
    def _core_figures(self) -> list[dict[str, Any]]:
        """What each core has done; of a block with a share, its own core, restarts included."""
        if self._search is None:
            return [one_core(self)]
        if self._divided is None:
            cores: list[dict[str, Any]] = self._search.measures()["cores"]
            return cores
        figures, side = one_core(self), self.sides[self._divided]
        stashes = [
            one for core in self._search.measures()["cores"] for one in core.get("stash", ())
        ]
        if stashes:
            figures["stash"] = stashes
        if side.part is not None:
            figures["stored"][side.index] = int(side.part.before(np.array([side.rows.next]))[0])
            numbers = np.arange(side.rows.first, side.rows.next)
            figures["window"][side.index] = int(side.part.owns(numbers).sum())
            figures["probed"][side.index] = figures["stored"][side.index]
        return [figures]

    @property
    def _explained_designs(self) -> list[str]:
        """What has been measured about the design in use, and what follows from it."""
        if self._design is not None:
            return self._design.explained()
        found: list[str] = []
        if self._search is not None:
            found = self._search.measures().get("designs", [])
        return found

    @property
    def _probe_orders(self) -> list[str]:
        """The orders in use; none of a design that has paths of its own."""
        if self._search is None:
            return self._paths.explained()
        found: list[str] = self._search.measures().get("probe_orders", [])
        return found

    @property
    def _failed_expressions(self) -> int:
        elsewhere = 0 if self._search is None else self._search.failed_expressions
        return self.failures.count + elsewhere

    def traits(self) -> Traits:
        """It holds tuples, and may take them one by one."""
        return Traits("tuples", self._account, compiled_step=self._compiled_step)

    def _compiled_step(self, slot: int) -> CompiledStep | None:
        if self._search is not None or self._joins:
            return None
        step = self._singles.get(slot)
        if step is None:
            step = self._singles[slot] = SingleMultiway(self, slot)
        return step if step.serves else None

    def path(self, origin: int) -> Path:
        """The probe order of an input, and its stages."""
        return self._paths.of(origin)

    def note_single(self, origin: int, found: int, incomplete: int, compared: int) -> None:
        """Count a single tuple and what it has become."""
        search = self._own_search
        assert search is not None
        # No call comes between these, so a signal does not either.
        search.comparisons += compared
        search.probed[origin] += 1
        search.made[origin] += 1 + incomplete + found
        search.intermediate[origin] += incomplete
        self.matches += found

    def _account(self, slot: int) -> Account:
        first, after = self.sides[slot].rows.span.tolist()
        return Account(True, after - first, first, self.late[slot])

    def save(self) -> BlockState:
        """The windows, the punctuations, and the counts. Keys and indexes are rebuilt."""
        state = BlockState(
            {
                "failures": self._failed_expressions,
                "output_punctuations": self._output_punctuations.in_force,
                "comparisons": self.comparisons,
                "matches": self.matches,
                "late": list(self.late),
                "divided": self._divided,
            }
        )
        for side in self.sides:
            side.save(state)
        for join in self._joins:
            join.save(state)
        return state

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        if self._divided is not None:
            self._share_input(state.values["divided"])
        for side in self.sides:
            side.load(state)
        for join in self._joins:
            join.load(state)
        self.rebuild()
        values: dict[str, Any] = state.values
        self._output_punctuations.in_force = list(values["output_punctuations"])
        self.failures.count = values["failures"]
        self._compared, self.matches = values["comparisons"], values["matches"]
        self.late = list(values["late"])

    def close(self) -> None:
        """Stop the threads of its design."""
        if self._search is not None:
            self._search.close()
