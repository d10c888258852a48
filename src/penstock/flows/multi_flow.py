"""A multiway join as a network of units: chunks of arrivals in, their combinations out.

A batch goes in as chunks, each the arrivals of all streams in a stretch of ranks. The combinations
of one chunk that began with tuples of one stream are a *set* (Najafi 2019 §6.1.4); it may come in
several messages, the last of which has the end flag. A chunk is done when all of its sets have
ended and it has come out of the network itself, so that every unit is done with it; or, where whole
cores work side by side, when each of them has ended it. A batch is done when all its chunks are;
until then the block changes nothing. After its last message of a chunk a unit reads nothing of the
block: on another thread, the block may have gone on to the next batch.

Combinations leave sorted: a chunk's when it is done, and the chunks in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    in_output_order,
    one_after_another,
)
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.window import StoredWindow
from penstock.flows.network.network import Driver, Network, Paced, Port, with_loads
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NewTuples:
    """A chunk of arrivals of all streams.

    Parameters
    ----------
    number
        Chunks are numbered in their order, without gaps.
    ranks
        The first rank of the chunk, and the one after its last. Punctuations have ranks too.
    arrived
        The batch that it is a part of.
    spans
        For each stream, where its tuples begin and end among those of the batch.
    firsts
        For each stream, the number of the oldest tuple that the block has stored.
    live
        For each stream, the first number that may be live after the chunk; None if a later chunk
        says.
    """

    number: int
    ranks: tuple[int, int]
    arrived: Arrived
    spans: tuple[tuple[int, int], ...]
    firsts: tuple[int, ...]
    live: tuple[int, ...] | None

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        return f"the new tuples of ranks {self.ranks[0]}..{self.ranks[1] - 1}"

    @property
    def origins(self) -> frozenset[int]:
        """The streams that have a tuple in it: the origins of its sets."""
        return frozenset(i for i, (start, stop) in enumerate(self.spans) if stop > start)

    def ranks_of(self, input: int) -> Indices:
        """The ranks of a stream's tuples."""
        ranks: Indices = self.arrived.ranks.tuples[input][slice(*self.spans[input])]
        return ranks

    def batch_of(self, input: int) -> pa.RecordBatch:
        """The tuples of a stream."""
        start, stop = self.spans[input]
        return self.arrived.admitted[input].batch.slice(start, stop - start)


def new_tuples(
    sides: Sequence[StoredWindow], number: int, arrived: Arrived, start: int, stop: int
) -> NewTuples:
    """The chunk of the ranks ``start .. stop - 1`` of a batch that these windows have stored."""
    spans = [np.searchsorted(ranks, (start, stop)).tolist() for ranks in arrived.ranks.tuples]
    live = None
    if stop == arrived.ranks.count:
        live = tuple(side.cut(*(s for s in sides if s is not side)) for side in sides)
    firsts = tuple(side.rows.first for side in sides)
    places = tuple((begin, end) for begin, end in spans)
    return NewTuples(number, (start, stop), arrived, places, firsts, live)


@dataclass(frozen=True, eq=False)
class IntermediateResults:
    """Combinations of one set, which have a field for a tuple of each stream.

    ``number`` is that of the chunk; ``is_end``: with it, the set has come as a whole.
    """

    number: int
    origin: int
    arrived: Arrived
    found: Combinations
    is_end: bool

    def __str__(self) -> str:
        """What it holds, for an error to say where."""
        end = " and the end" if self.is_end else ""
        return f"{len(self.found)} combinations of chunk {self.number}, origin {self.origin}{end}"

    @property
    def source(self) -> Hashable:
        """What ends with it."""
        return self.origin


class ProbingUnit(Paced, Protocol):
    """A unit that probes windows."""

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""

    @property
    def is_wasteful(self) -> bool:
        """Whether most of its memory is for what has expired."""

    @property
    def nbytes(self) -> int:
        """The memory of its keys and indexes."""


IN, CHAIN, RESULTS = "in", "chain", "results"
"""The entry of chunks; the exits by which a chunk comes out, and what is found of it."""
Ending = tuple[Port, Hashable]
"""What ends, by its exit: a source of results, or None for the chunk itself."""


def sets_and_chain(tuples: NewTuples) -> set[Ending]:
    """What must end before a chunk is done, where its sets go through a network of stages."""
    return {(CHAIN, None), *((RESULTS, origin) for origin in tuples.origins)}


@dataclass(frozen=True)
class Units:
    """A network with the entry ``in`` for chunks, and the units of it that probe.

    By its exit ``chain`` a chunk comes out, by ``results`` the combinations of it. ``awaited`` says
    what must end before a chunk is done.
    ``ranks`` is the largest number of ranks in a chunk; None: a number small enough that the stages
    of a pipeline work at the same time. ``succeed`` gets the units of the program before, if a unit
    can go on with their state. ``revision`` makes the units of the next program, if they depend on
    what it has seen. ``parts`` are the units of each search, where several work side by side.
    """

    network: Network
    probing: Sequence[ProbingUnit]
    awaited: Callable[[NewTuples], set[Ending]] = sets_and_chain
    ranks: int | None = None
    succeed: Callable[[Units], None] | None = None
    revision: UnitsRevision | None = None
    parts: Sequence[Units] = ()


class UnitsRevision(Protocol):
    """What has units made anew, by the batches that it sees."""

    def look(self, arrived: Arrived) -> bool:
        """Look at a batch that is done; whether the units should be made anew."""

    def units(self, program: SearchProgram) -> Units:
        """The units of the next program."""

    def explained(self) -> list[str]:
        """For people, what has been seen and what follows; none before that."""


MakeUnits = Callable[[SearchProgram], Units]
"""Makes the units of a design, with the tuples that the windows have."""


@dataclass
class _Chunk:
    """A chunk under way: what has not ended, and what has come out of it."""

    awaited: set[Ending]
    parts: list[Combinations] = field(default_factory=list)


class MultiFlow:
    """A design, as a multiway join block uses it. Another program makes another network.

    ``part`` is what the units have of a join; without it, all.
    """

    def __init__(
        self,
        make: MakeUnits,
        driver: Callable[[Network], Driver],
        part: Callable[[SearchProgram], SearchProgram] | None = None,
    ) -> None:
        self._make = make
        self._part = part
        self._make_driver = driver
        self._driver: Driver | None = None
        self._units: Units | None = None
        self._sides: Sequence[StoredWindow] = ()
        self._awaited: Callable[[NewTuples], set[Ending]] = sets_and_chain
        self._is_stale = False
        """Whether the units should be made anew, as has been seen."""
        self._number = 0
        self._steps = Steps(TUNING.ranks_per_set)
        self._chunks: dict[int, _Chunk] = {}
        """By number, those that have not left, oldest first."""
        self._compared_before = 0
        self._failed_before = 0

    def program(self, program: SearchProgram) -> None:
        """Make the units of a program; nothing is under way."""
        self._compared_before, self._failed_before = self.comparisons, self.failed_expressions
        self.close()
        before = self._units
        revision = None if before is None else before.revision
        if self._part is not None:
            program = self._part(program)
        self._units = self._make(program) if revision is None else revision.units(program)
        self._is_stale = False
        if before is not None and self._units.succeed is not None:
            self._units.succeed(before)
        self._sides, self._number = program.sides, 0
        self._awaited = self._units.awaited
        self._steps = Steps(self._units.ranks or TUNING.ranks_per_set)
        self._driver = self._make_driver(self._units.network)

    def take(self, arrived: Arrived) -> Iterator[Combinations]:
        """Let the chunks of a batch in, and wait until all are done."""
        nothing = one_after_another((), len(self._sides))
        driver = self._driver
        assert driver is not None
        start, count = 0, arrived.ranks.count
        while start < count:
            stop = min(count, start + self._steps.size)
            tuples = new_tuples(self._sides, self._number, arrived, start, stop)
            self._number += 1
            self._chunks[tuples.number] = _Chunk(self._awaited(tuples))
            while not driver.send(IN, tuples):
                yield from self._done(driver)
                driver.wait()
                yield nothing
            start = stop
        while self._chunks:
            yield from self._done(driver)
            if self._chunks:
                driver.wait()
                yield nothing
        revision = None if self._units is None else self._units.revision
        if revision is not None:
            self._is_stale |= revision.look(arrived)

    def _done(self, driver: Driver) -> Iterator[Combinations]:
        """What has come out of chunks that are done, in order."""
        for name, message in driver.received():
            chunk = self._chunks[message.number]
            if isinstance(message, NewTuples):
                chunk.awaited.remove((name, None))
                continue
            chunk.parts.append(message.found)
            if message.is_end:
                chunk.awaited.remove((name, message.source))
        while self._chunks:
            number, chunk = next(iter(self._chunks.items()))
            if chunk.awaited:
                return
            del self._chunks[number]
            yield from self._leaving(chunk)

    def _leaving(self, chunk: _Chunk) -> Iterator[Combinations]:
        """The combinations of a chunk, sorted; the next chunks are of a size that suits."""
        found = in_output_order([part for part in chunk.parts if len(part)], len(self._sides))
        most = TUNING.pairs_per_step
        if len(found) > most:
            self._steps.halve(self._steps.size)
        else:
            self._steps.widen(len(found), most)
        for start in range(0, len(found), most):
            yield found.part(start, min(len(found), start + most))

    @property
    def _probing(self) -> Sequence[ProbingUnit]:
        return () if self._units is None else self._units.probing

    def measures(self) -> dict[str, Any]:
        """The figures of each core; a unit is one, and they are numbered in their order."""
        driver = self._driver
        cores = [
            {"core": number, **with_loads(unit.measures(), unit.name, driver)}
            for number, unit in enumerate(self._probing)
        ]
        revision = None if self._units is None else self._units.revision
        return {"cores": cores} | ({} if revision is None else {"designs": revision.explained()})

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._compared_before + sum(unit.comparisons for unit in self._probing)

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self._failed_before + sum(unit.failed_expressions for unit in self._probing)

    @property
    def is_wasteful(self) -> bool:
        """Whether to be programmed anew would free much memory, or save much work."""
        return self._is_stale or any(unit.is_wasteful for unit in self._probing)

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""
        return sum(unit.nbytes for unit in self._probing)

    def close(self) -> None:
        """Stop the threads."""
        if self._driver is not None:
            self._driver.close()
