"""The second stage of Stashed-MJ: W_S3, and the partners of recomputed pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.multiway.combination_search import Combinations, SearchProgram, known
from penstock.flows.circular.stage import JoinCore
from penstock.flows.multi_flow import CHAIN, IN, RESULTS, IntermediateResults, NewTuples
from penstock.flows.network.network import Port, Sent
from penstock.flows.stashed.first_stage import RecomputedResults, in_messages
from penstock.flows.stashed.storage import ReadPort

Indices = npt.NDArray[np.int64]


class SecondStage:
    """The stage of S3. It stores a chunk's tuples of S3, and completes what comes after it.

    Pairs of S1 and S2 are compared with W_S3. What tuples of S3 have found in a window of the pair
    is compared with the other one, by ``ports``, while the first stage must not write it.
    """

    def __init__(
        self, program: SearchProgram, third: int, window: JoinCore, ports: Mapping[int, ReadPort]
    ) -> None:
        self.name = "stage 2"
        self.inputs = [IN]
        self._program = program
        self._third = third
        self.window = window
        self.ports = ports
        self._chunk: NewTuples | None = None
        self.matched = 0
        self.stored = [0 for _ in program.sides]
        self.probed = [0 for _ in program.sides]

    def needs(self, port: Port) -> Sequence[Port]:
        """Results leave here, and so does the chunk."""
        return (RESULTS, CHAIN)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a stage makes messages of messages."""
        return ()

    def step(self, port: Port, message: NewTuples | IntermediateResults) -> Iterable[Sent]:
        """Store the tuples of S3, or go on with intermediate results."""
        if isinstance(message, NewTuples):
            self._chunk = message
            first = self.window.next
            self.window.store(message)
            self.stored[self._third] += self.window.stored(first, self.window.next)
            return [(CHAIN, message)]
        unbound = [input for input, seqs in enumerate(message.found.members) if seqs is None]
        if not unbound:
            return [(RESULTS, message)]
        return self._process(message, unbound[0])

    def _process(self, results: IntermediateResults, input: int) -> Iterator[Sent]:
        """Add a member of an input to intermediate results."""
        self.probed[results.origin] += len(results.found)

        def extend(given: Combinations, most: int | None) -> Combinations | None:
            return self._extended(results, given, input, most)

        for found, is_over in in_messages(results.found, extend):
            self.matched += len(found)
            is_end = results.is_end and is_over
            yield (
                RESULTS,
                IntermediateResults(results.number, results.origin, results.arrived, found, is_end),
            )

    def _extended(
        self, results: IntermediateResults, given: Combinations, input: int, most: int | None
    ) -> Combinations | None:
        """Combinations with a member of an input's window as of their arrival."""
        side = self._program.sides[input]
        new = side.rows.next - side.newest
        before, after = results.arrived.ranks.seen(given.ranks, input) + new, None
        if isinstance(results, RecomputedResults):
            assert self._chunk is not None
            after = new + self._chunk.spans[input][0]
        window, access = self._window(input)
        with access:
            found = window.lookup(
                results.arrived, results.origin, given, most, before, side.rows.first, after
            )
        if found is None or not isinstance(results, RecomputedResults):
            return found
        return self._of_direction(found, input, results.younger)

    def _window(self, input: int) -> tuple[JoinCore, AbstractContextManager[None]]:
        """The window of an input; one of the pair is locked meanwhile."""
        if input == self._third:
            return self.window, nullcontext()
        port = self.ports[input]
        return port.core, port.lock.held()

    def _of_direction(self, found: Combinations, input: int, younger: int) -> Combinations:
        """The combinations whose pair was made by an arrival of the ``younger`` stream."""
        (other,) = {0, 1, 2} - {input, self._third}
        here, there = (self._arrived(found, one) for one in (input, other))
        keeps = here > there if input == younger else here < there
        chosen = np.flatnonzero(keeps)
        return found.extended(chosen, input, known(found.members[input])[chosen])

    def _arrived(self, found: Combinations, input: int) -> Indices:
        """When the members of an input have arrived."""
        side = self._program.sides[input]
        assert side.arrived is not None
        arrived: Indices = side.arrived.view()[known(found.members[input]) - side.rows.first]
        return arrived

    @property
    def _cores(self) -> list[JoinCore]:
        return [self.window, *(port.core for port in self.ports.values())]

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(core.comparisons for core in self._cores)

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return sum(core.failures.count for core in self._cores)

    @property
    def is_wasteful(self) -> bool:
        """Whether most of its memory is for what has expired."""
        return any(core.is_wasteful for core in self._cores)

    @property
    def nbytes(self) -> int:
        """The memory of its keys and indexes."""
        return sum(core.nbytes for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """What it has stored, processed and found, and how often a stage waited for a window."""
        rows = self._program.sides[self._third].rows
        held = self.window.stored(rows.first, rows.next)
        stalls = [self.ports[i].lock.stalls if i in self.ports else 0 for i in range(3)]
        return {
            "stored": list(self.stored),
            "probed": list(self.probed),
            "matched": self.matched,
            "comparisons": self.comparisons,
            "window": [held * (input == self._third) for input in range(3)],
            "kernels": [self.window.kernel],
            "stalls": stalls,
        }
