"""Parallel-MJ (Najafi 2019 §6.2.4): global join cores side by side, each with windows of its own.

A tree of distributors brings every chunk to every global join core (G-JC), as in SplitJoin. A core
has keys and indexes of its own, and finds combinations by the stages of ``mjoin``; in the
publication it has a Circular-MJ, whose stages would be more threads here. It knows by its
store-expire turn counters which tuples are its own: the number of a tuple is the count of its
stream, and core ``i`` of ``k`` has those whose number is ``i`` modulo ``k``. There is no
coordinator.

Why it is exact. One stream is divided: each core stores its own tuples of that stream, and of every
other stream all. A new tuple of the divided stream is processed by its own core alone, any other by
every core. A combination has exactly one member of the divided stream. The core that has this
member has all others, and it processes the youngest of them, so it makes the combination; no other
core has this member, so none makes it again. A core stores a chunk before it processes it, and each
arrival sees what its rank allows, as in ``mjoin``. All tuples that a core can combine are in its
own windows, so it sees every expiry that concerns it: a core could keep intermediate results, which
§6.4.6 leaves open.

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
decides which tuples are late, numbers the others, and lets them expire, for all streams, those of
others' shares too; what it keeps for others' tuples is their times. So a tuple has one number, and
one home core, everywhere, and count windows count alike. The home core goes by the number that a
tuple arrived with, which is kept where a window is packed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    known,
    one_after_another,
)
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.multiway.stretch_search import Path, StretchSearch
from penstock.blocks.run import Share
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.flows.multi_flow import MakeUnits, MultiFlow, NewTuples, Units
from penstock.flows.network.network import Driver, Network, Port, Sent
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

RESULTS: Port = "results"
Shares = Sequence[Share | None]
"""Of each stream, the tuples that are a core's own; None: all."""


@dataclass(frozen=True, eq=False)
class CoreResults:
    """Combinations that a core has made of a chunk; ``is_end``: with these, all of them."""

    number: int
    core: int
    found: Combinations
    is_end: bool

    @property
    def source(self) -> Hashable:
        """What ends with it."""
        return self.core


class GlobalJoinCore:
    """A G-JC: the keys of its tuples, and the search of their combinations.

    Parameters
    ----------
    position
        Its place among the cores.
    orders
        The probe order of each origin.
    stores, processes
        Which tuples it stores, and which of those that arrive it processes.
    """

    def __init__(
        self,
        position: int,
        program: SearchProgram,
        orders: Sequence[ProbeOrder],
        stores: Shares,
        processes: Shares,
    ) -> None:
        self.name = f"core {position}"
        self.inputs = ["in"]
        self._position = position
        self._program = program
        self._stores = stores
        self._processes = processes
        self._dictionary = Dictionary()
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        paths: list[Path] = []
        for order in orders:
            stages = [program.stage(plan) for plan in order.stages]
            paths.append((order, stages))
            for stage in stages:
                if stage.identity not in self._entries:
                    self._entries[stage.identity] = self._entries_for(stage)
        self.failures = Failures()
        self._search = StretchSearch(
            program,
            paths.__getitem__,
            lambda stage: self._entries[stage.identity],
            self._dictionary,
            self.failures,
            self._begin,
            one_after_another,
        )
        self._matched = 0
        self._stored = [0 for _ in program.sides]

    def _entries_for(self, stage: Stage) -> WindowKeys:
        side, share = self._program.sides[stage.input], self._stores[stage.input]
        return WindowKeys(
            stage.predicate, self._program.kernel, side, self._dictionary, None, share
        )

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go."""
        return (RESULTS,)

    def step(self, port: Port, tuples: NewTuples) -> Iterator[Sent]:
        """Store a chunk's tuples, as far as they are its own, and process the chunk."""
        self._store(tuples)
        for found in self._search.found(tuples.arrived, *tuples.ranks):
            self._matched += len(found)
            yield RESULTS, CoreResults(tuples.number, self._position, found, False)
        nothing = one_after_another((), len(self._stores))
        yield RESULTS, CoreResults(tuples.number, self._position, nothing, True)

    def _store(self, tuples: NewTuples) -> None:
        for identity, entries in self._entries.items():
            input = identity[0]
            entries.drop_before(tuples.firsts[input])
            batch = tuples.batch_of(input)
            if batch.num_rows:
                # What all cores store is counted by the first.
                counts = self._stores[input] is not None or self._position == 0
                entries.append(batch, self.failures if counts else Failures())
        for input, share in enumerate(self._stores):
            first = self._number_of(tuples.arrived, input)
            here = np.array([first + place for place in tuples.spans[input]])
            start, stop = (here if share is None else share.before(here)).tolist()
            self._stored[input] += stop - start

    def _number_of(self, arrived: Arrived, input: int) -> int:
        """The number of the first tuple of a batch."""
        return self._program.sides[input].rows.next - arrived.admitted[input].batch.num_rows

    def _begin(
        self, arrived: Arrived, order: ProbeOrder, start: int, stop: int, failures: Failures
    ) -> Combinations:
        """The arrivals of an origin in a stretch of ranks that this core processes."""
        # All cores ask this of all arrivals; the first counts what fails.
        counted = failures if self._position == 0 else Failures()
        begun = self._program.begin(arrived, order, start, stop, counted)
        share = self._processes[order.origin]
        if share is None:
            return begun
        seqs = known(begun.members[order.origin])
        mine = np.flatnonzero(share.owns(seqs))
        return begun.extended(mine, order.origin, seqs[mine])

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
        window = []
        for side, share in zip(self._program.sides, self._stores, strict=True):
            window.append(len(side.rows) if share is None else int(side.owned(share).sum()))
        return {
            "core": self._position,
            "stored": list(self._stored),
            "probed": list(self._search.probed),
            "matched": self._matched,
            "comparisons": self.comparisons,
            "window": window,
            "kernels": [entries.kernel for entries in self._entries.values()],
        }


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


# -- the network ------------------------------------------------------------------------------


def parallel(cores: int, branching: int, driver: Callable[[Network], Driver]) -> MultiFlow:
    """Parallel-MJ with one stream divided, on a driver."""
    return MultiFlow(parallel_units(cores, branching), driver)


def parallel_units(cores: int, branching: int = 2) -> MakeUnits:
    """What makes the cores, of which each has a share of one stream and all of the others."""

    def make(program: SearchProgram) -> Units:
        divided = divided_stream(program)
        every = [Share(position, cores) for position in range(cores)]
        return _side_by_side([_core(program, divided, share) for share in every], branching)

    return make


def _core(program: SearchProgram, divided: int, share: Share) -> GlobalJoinCore:
    """The core with this share of the divided stream, and all of the others."""
    streams = range(len(program.sides))
    orders = [early(program.terms, program.order(origin), divided) for origin in streams]
    shares = [share if i == divided and share.cores > 1 else None for i in streams]
    return GlobalJoinCore(share.core, program, orders, shares, shares)


def parallel_core(driver: Callable[[Network], Driver]) -> MultiFlow:
    """One core of Parallel-MJ, whose others are in other processes, on a driver.

    The divided stream is the one whose side has a share.
    """

    def make(program: SearchProgram) -> Units:
        [(divided, share)] = [(s.index, s.share) for s in program.sides if s.share is not None]
        core = _core(program, divided, share)
        network = Network([core])
        network.enter("in", core, "in")
        network.leave(core, RESULTS, RESULTS)
        return Units(network, [core], lambda tuples: {share.core}, TUNING.ranks_per_chunk)

    return MultiFlow(make, driver)


def published_parallel(
    cores: int, branching: int, driver: Callable[[Network], Driver]
) -> MultiFlow:
    """Parallel-MJ as published, on a driver: inexact."""
    return MultiFlow(published_parallel_units(cores, branching), driver)


def published_parallel_units(cores: int, branching: int = 2) -> MakeUnits:
    """What makes the cores as published, of which each has a share of every stream: inexact."""

    def make(program: SearchProgram) -> Units:
        streams = range(len(program.sides))
        orders = [program.order(origin) for origin in streams]

        def make_core(position: int) -> GlobalJoinCore:
            shares = [Share(position, cores) for _ in streams]
            return GlobalJoinCore(position, program, orders, shares, [None for _ in streams])

        return _side_by_side([make_core(position) for position in range(cores)], branching)

    return make


def _side_by_side(cores: Sequence[GlobalJoinCore], branching: int) -> Units:
    """The distribution tree above the cores; each core lets its results out."""
    network = Network(list(cores))
    root = distribution_tree(network, list(cores), branching)
    network.enter("in", root, "in")
    network.at_ends.add(root.name)
    for core in cores:
        network.leave(core, RESULTS, RESULTS)
    every = frozenset(range(len(cores)))
    return Units(network, cores, lambda tuples: set(every), TUNING.ranks_per_chunk)
