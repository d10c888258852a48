"""Parallel-MJ (Najafi 2019 §6.2.4): global join cores side by side, each with windows of its own.

A tree of distributors brings every chunk to every global join core (G-JC), as in SplitJoin. A core
has keys and indexes of its own, and any search of a join: that of ``mjoin``, or the stages of
Circular-MJ or of Stashed-MJ, as in the publication. A search gets the join with the core's part of
it (:class:`penstock.blocks.multiway.combination_search.Part`), and knows nothing of other cores.
Store-expire turn counters say which tuples are a core's own: the number of a tuple is the count of
its stream, and core ``i`` of ``k`` has those whose number is ``i`` modulo ``k``. There is no
coordinator.

Why it is exact. One stream is divided: each core stores its own tuples of that stream, and of every
other stream all. A new tuple of the divided stream is processed by its own core alone, any other by
every core. A combination has exactly one member of the divided stream. The core that has this
member has all others, and it processes the youngest of them, so it makes the combination, if its
search is exact; no other core has this member, so none makes it again.

Why a stash in a core is exact, which §6.4.6 leaves open. All tuples that a core can combine are in
its own windows, and it sees every arrival, so it sees every expiry that concerns it. Its stash has
the pairs of its own windows, each of them found by itself. What an arrival of S3 finds among them
and what it would find by probing the windows are therefore the same, as with one core; if S3 is the
divided stream, every core has all pairs, and its own arrivals of S3.

As published, every window is divided. A tuple that arrives is processed by every core with what
this core has stored, so a combination whose older members were stored by different cores is never
made: of a join of three streams, all but one in ``k`` are lost. :func:`published_parallel_units` is
that scheme, to show it. No query has it unless it asks for it by its name.

Which stream is divided. A core repeats the probes that come before the divided window, as all other
cores do; after it, each has its own share of the intermediate results. So it is the stream that can
be probed earliest, added up over all origins; of several, the one with the largest window. Origins
probe it as early as a condition links it.

Cores in different processes (:func:`parallel_core`) have only their input in common, and each must
find by itself which stream is divided. All find the same one, and never another: the multiway block
asks :func:`divided_stream` once, at its first instruction, when every window is empty, so that the
answer follows from the program alone. It is saved with the block's state, and kept by every change:
a stream that is better to divide under the new program would not be whole in any core. Each core
decides which tuples are late and counts the others, for all streams. So a tuple has one number of
arrival, and one home core, everywhere, and count windows count alike. The window of the divided
stream has the tuples at home in the core and no others, each with its number of arrival
(:mod:`penstock.blocks.window.window`). That is so with the search of ``mjoin``; those of
``circular`` and ``stashed`` know by a tuple's number what pushes it out, so with them the window is
whole in every core, of which each processes its part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    Part,
    SearchProgram,
    one_after_another,
)
from penstock.blocks.multiway.stretch_search import Path, StretchSearch
from penstock.blocks.run import Share
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.flows.multi_flow import (
    IN,
    RESULTS,
    Ending,
    MakeUnits,
    MultiFlow,
    NewTuples,
    Units,
    UnitsRevision,
)
from penstock.flows.network.network import Driver, Network, Port, Sent, within
from penstock.flows.splitjoin.splitjoin import distribution_tree
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import (
    EQUALITY,
    NOTHING,
    TERM,
    JoinTerms,
    ProbeOrder,
    staged,
)
from penstock.streams.windows import Rows
from penstock.tuning import TUNING


@dataclass(frozen=True, eq=False)
class CoreResults:
    """Combinations that a core has made of a chunk; ``is_end``: with these, all of them."""

    number: int
    found: Combinations
    is_end: bool
    source: Hashable = "core"
    """What ends with it."""


class GlobalJoinCore:
    """A core with the search of ``mjoin``, and the keys of its tuples.

    ``orders`` are the probe orders of all origins.
    """

    def __init__(self, program: SearchProgram, orders: Sequence[ProbeOrder]) -> None:
        self.name = "core"
        self.inputs = [IN]
        self._program = program
        self._dictionary = Dictionary()
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        paths: list[Path] = []
        for order in orders:
            stages = [program.stage(plan) for plan in order.stages]
            paths.append((order, stages))
            for stage in stages:
                if stage.identity not in self._entries:
                    self._entries[stage.identity] = program.keys(stage, self._dictionary)
        self.failures = Failures()
        self._search = StretchSearch(
            program,
            paths.__getitem__,
            lambda stage: self._entries[stage.identity],
            self._dictionary,
            self.failures,
            put_together=one_after_another,
        )
        self._matched = 0
        self._stored = [0 for _ in program.sides]

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go."""
        return (RESULTS,)

    def step(self, port: Port, tuples: NewTuples) -> Iterator[Sent]:
        """Store a chunk's tuples, as far as they are its own, and process the chunk."""
        self._store(tuples)
        for found in self._search.found(tuples.arrived, *tuples.ranks):
            self._matched += len(found)
            yield RESULTS, CoreResults(tuples.number, found, False)
        nothing = one_after_another((), len(self._stored))
        yield RESULTS, CoreResults(tuples.number, nothing, True)

    def _store(self, tuples: NewTuples) -> None:
        for identity, entries in self._entries.items():
            input = identity[0]
            entries.drop_before(tuples.firsts[input])
            batch = tuples.batch_of(input)
            if batch.num_rows:
                entries.append(batch, self._program.counting(input, self.failures))
        for input, side in enumerate(self._program.sides):
            new = side.rows.next - side.newest
            start, stop = tuples.spans[input]
            self._stored[input] += self._program.stored(input, new + start, new + stop)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a core makes messages of messages."""
        return ()

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._search.comparisons

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self.failures.count

    @property
    def is_wasteful(self) -> bool:
        """Whether most values of the dictionary may be of expired tuples."""
        return is_outgrown(self._dictionary, self._program.sides)

    @property
    def nbytes(self) -> int:
        """The memory of its keys and indexes."""
        return sum(entries.nbytes for entries in self._entries.values())

    def measures(self) -> dict[str, Any]:
        """What it has stored, processed and found, by stream, and what it holds."""
        sides = self._program.sides
        return {
            "stored": list(self._stored),
            "probed": list(self._search.probed),
            "matched": self._matched,
            "comparisons": self.comparisons,
            "window": [
                self._program.stored(side.index, side.rows.first, side.rows.next) for side in sides
            ],
            "kernels": [entries.kernel for entries in self._entries.values()],
        }


def mjoin_units(program: SearchProgram) -> Units:
    """A core with the search of ``mjoin``."""
    core = GlobalJoinCore(program, [program.order(o) for o in range(len(program.sides))])
    network = Network([core])
    network.enter(IN, core, IN)
    network.leave(core, RESULTS, RESULTS)
    return Units(network, [core], lambda tuples: {(RESULTS, "core")}, TUNING.ranks_per_chunk)


# -- which stream is divided ------------------------------------------------------------------


def divided_stream(program: SearchProgram) -> int:
    """The stream that the cores divide: probed as early as can be, with the largest window."""
    streams = range(len(program.sides))

    def cost(input: int) -> tuple[int, int]:
        orders = (early(program.terms, program.order(o), input) for o in streams if o != input)
        before = sum(_place_of(input, order) for order in orders)
        side = program.sides[input]
        size = side.window.size if isinstance(side.window, Rows) else len(side.rows)
        return before, -size

    return min(streams, key=cost)


def _place_of(input: int, order: ProbeOrder) -> int:
    return [stage.input for stage in order.stages].index(input)


def early(terms: JoinTerms, order: ProbeOrder, input: int) -> ProbeOrder:
    """The order with an input as early as a condition links it no worse than what it precedes."""
    if order.origin == input:
        return order
    links = (EQUALITY, TERM, NOTHING)
    inputs = [stage.input for stage in order.stages]
    for place, stage in enumerate(order.stages):
        link = terms.link(input, stage.bound)
        if links.index(link) <= links.index(stage.link):
            inputs.remove(input)
            inputs.insert(place, input)
            break
    return staged(terms, order.origin, tuple(inputs))


# -- the parts of the cores -------------------------------------------------------------------


def with_share(program: SearchProgram, divided: int, share: Share) -> SearchProgram:
    """The join for the core with this share of the divided stream, and all of the others."""
    shares = tuple(
        share if side.index == divided and share.cores > 1 else None for side in program.sides
    )
    ordered = replace(
        program, order=lambda origin: early(program.terms, program.order(origin), divided)
    )
    return ordered.of_part(Part(shares, shares, share.core == 0))


def with_share_of_all(program: SearchProgram, share: Share) -> SearchProgram:
    """The join for a core as published, with this share of every stream: inexact."""
    shares = tuple(share for _ in program.sides)
    return program.of_part(Part(shares, tuple(None for _ in program.sides), share.core == 0))


# -- the network ------------------------------------------------------------------------------


def parallel(
    cores: int, branching: int, search: MakeUnits, driver: Callable[[Network], Driver]
) -> MultiFlow:
    """Parallel-MJ with one stream divided, and a search in each core, on a driver."""
    return MultiFlow(parallel_units(cores, branching, search), driver)


def parallel_units(cores: int, branching: int = 2, search: MakeUnits = mjoin_units) -> MakeUnits:
    """What makes the cores, of which each has a share of one stream and all of the others."""

    def make(program: SearchProgram) -> Units:
        return side_by_side([search(part) for part in parts(program)], branching, remake)

    def remake(program: SearchProgram, revisions: Sequence[UnitsRevision]) -> Units:
        found = zip(revisions, parts(program), strict=True)
        return side_by_side([one.units(part) for one, part in found], branching, remake)

    def parts(program: SearchProgram) -> list[SearchProgram]:
        divided = divided_stream(program)
        return [with_share(program, divided, Share(core, cores)) for core in range(cores)]

    return make


def parallel_core(search: MakeUnits, driver: Callable[[Network], Driver]) -> MultiFlow:
    """One core of Parallel-MJ, whose others are in other processes, on a driver.

    The divided stream is the one whose window stores a share, and then only those tuples come; or
    the one whose window is whole and of which a part is processed here.
    """

    def part(program: SearchProgram) -> SearchProgram:
        [side] = [side for side in program.sides if side.share or side.part]
        if side.part is not None:
            return with_share(program, side.index, side.part)
        assert side.share is not None
        ordered = replace(
            program, order=lambda origin: early(program.terms, program.order(origin), side.index)
        )
        all_of_it = tuple(None for _ in program.sides)
        return ordered.of_part(Part(all_of_it, all_of_it, side.share.core == 0))

    return MultiFlow(search, driver, part)


def published_parallel(
    cores: int, branching: int, driver: Callable[[Network], Driver]
) -> MultiFlow:
    """Parallel-MJ as published, on a driver: inexact."""
    return MultiFlow(published_parallel_units(cores, branching), driver)


def published_parallel_units(cores: int, branching: int = 2) -> MakeUnits:
    """What makes the cores as published, of which each has a share of every stream: inexact."""

    def make(program: SearchProgram) -> Units:
        every = [with_share_of_all(program, Share(core, cores)) for core in range(cores)]
        return side_by_side([mjoin_units(part) for part in every], branching)

    return make


Remake = Callable[[SearchProgram, Sequence[UnitsRevision]], Units]
"""Makes the units of the next program, by what those of each core have seen."""


class RevisionOfEach:
    """What the search of every core has seen; each decides for itself."""

    def __init__(self, revisions: Sequence[UnitsRevision], remake: Remake) -> None:
        self._revisions = revisions
        self._remake = remake

    def look(self, arrived: Arrived) -> bool:
        """Let all look at a batch that is done; whether the units should be made anew."""
        found = [revision.look(arrived) for revision in self._revisions]
        return any(found)

    def units(self, program: SearchProgram) -> Units:
        """The units of the next program."""
        return self._remake(program, self._revisions)

    def explained(self) -> list[str]:
        """What each has seen, and what follows from it."""
        return [
            f"core {core}: {line}"
            for core, revision in enumerate(self._revisions)
            for line in revision.explained()
        ]


def side_by_side(cores: Sequence[Units], branching: int, remake: Remake | None = None) -> Units:
    """The distribution tree above the units of each core; each core lets its results out."""
    network = Network([])
    for number, core in enumerate(cores):
        network.include(f"core {number}", core.network)
    entered = [network.entries.pop(within(f"core {number}", IN)) for number in range(len(cores))]
    root = distribution_tree(network, entered, branching)
    network.enter(IN, root, IN)
    network.at_ends.add(root.name)

    def awaited(tuples: NewTuples) -> set[Ending]:
        return {
            (within(f"core {number}", exit), source)
            for number, core in enumerate(cores)
            for exit, source in core.awaited(tuples)
        }

    def succeed(before: Units) -> None:
        # With another number of cores, all shares are others, and no core goes on.
        for core, predecessor in zip(cores, before.parts, strict=False):
            if core.succeed is not None:
                core.succeed(predecessor)

    revisions = [core.revision for core in cores if core.revision is not None]
    return Units(
        network,
        [unit for core in cores for unit in core.probing],
        awaited,
        cores[0].ranks,
        succeed,
        RevisionOfEach(revisions, remake) if revisions and remake is not None else None,
        cores,
    )
