"""Linear-MJ (Najafi 2019 §6.4.1): a right-deep chain of stages, which store at its end.

A chunk of new tuples goes through N - 1 processing stages, each of which adds a member to every
combination of it, of whatever stream comes next in its origin's probe order; then to the storage
and expiry unit, which stores it. So every stage may need every window: the window access manager
is the crossbar between them.

Why it is exact. Chunks go through every stage in their order, and a chunk is stored after the last
stage. So no window holds a tuple that is younger than a chunk that a stage has at hand, and none
has lost a tuple that was live for it. What may not be stored yet are the chunks in the stages
behind this one and the chunk at hand; the stage has them in its Int-buf and probes those too, each
combination the ones that came before its origin. As many tuples of the window as that are too old,
since their expiry is delayed as well; the candidate range leaves them out. An Int-buf has room for
N - 1 chunks in the first stage and for one in the last, as many as are behind it in a pipeline that
moves in step. Here a stage takes a chunk only if no more than that many are not known to be stored.

Why it never stalls. Messages go one way, but for the acknowledgements of the storage unit, which
are always taken. A stage waits for room behind it or for chunks behind it to be stored.

Why it does not scale. A window is read by one stage at a time, and not while it is written; all
stages may want the same one. The manager counts how often a unit had to wait. Every stage computes
the keys of what is in its Int-buf, and a stream's window can be next to no stage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.multiway.combination_search import (
    Combinations,
    SearchProgram,
    WindowView,
)
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.flows.multi_flow import (
    CHAIN,
    IN,
    RESULTS,
    IntermediateResults,
    MakeUnits,
    MultiFlow,
    NewTuples,
    Units,
)
from penstock.flows.network.network import Driver, Network, Port, Sent
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import ProbeOrder
from penstock.streams.windows import Rows
from penstock.tuning import TUNING

OUT, STORED = "out", "stored"


class SharedWindow:
    """A stream's window behind the window access manager, for one unit at a time."""

    def __init__(self, program: SearchProgram, input: int, stages: Iterable[Stage]) -> None:
        self.input = input
        self.side = program.sides[input]
        self.dictionary = Dictionary()
        self._rows = self.side.window.size if isinstance(self.side.window, Rows) else None
        self.entries: dict[tuple[Any, ...], WindowKeys] = {}
        for stage in stages:
            if stage.identity not in self.entries:
                self.entries[stage.identity] = program.keys(stage, self.dictionary)
        self.stored = self.side.rows.next
        self.next_chunk = 0
        """The number of the chunk that is stored next."""
        self.first = self.side.rows.first
        """The number of the first tuple that has not expired."""

    def begin_with(self, tuples: NewTuples) -> None:
        """Drop the keys of tuples that the block has dropped before these came."""
        first = tuples.firsts[self.input]
        for entries in self.entries.values():
            entries.drop_before(first)
        self.first = max(self.first, first)

    def store(self, tuples: NewTuples, failures: Failures) -> None:
        """Store new tuples of this stream, and let the oldest ones expire."""
        self.begin_with(tuples)
        batch = tuples.batch_of(self.input)
        if batch.num_rows:
            for entries in self.entries.values():
                entries.append(batch, failures)
        self.stored += batch.num_rows
        self.next_chunk = tuples.number + 1
        if self._rows is not None:
            self.first = max(self.first, self.stored - self._rows)
        elif tuples.live is not None:
            self.first = max(self.first, tuples.live[self.input])

    @property
    def kernel(self) -> str:
        """The kernel that searches the window, as chosen by now."""
        return next((entries.kernel for entries in self.entries.values()), "nested-loop")

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""
        return sum(entries.nbytes for entries in self.entries.values())


class WindowAccessManager:
    """The crossbar between the stages and the windows; ``conflicts`` counts who had to wait."""

    def __init__(self, windows: Sequence[SharedWindow]) -> None:
        self.windows = windows
        self._ports = [threading.Lock() for _ in windows]
        self.conflicts = [0 for _ in windows]

    @contextmanager
    def access(self, input: int) -> Iterator[SharedWindow]:
        """A window, for as long as no other unit may read or write it."""
        port = self._ports[input]
        waited = not port.acquire(blocking=False)
        if waited:
            port.acquire()
        try:
            self.conflicts[input] += waited
            yield self.windows[input]
        finally:
            port.release()


@dataclass(frozen=True)
class StoredChunks:
    """The storage and expiry unit has stored the chunks before ``number``."""

    number: int


class ProcessingStage:
    """The stage that adds member ``number`` to combinations, from 1 to N - 1.

    ``orders`` are the probe orders of all origins, ``stages`` this stage's part of each.
    """

    def __init__(
        self,
        number: int,
        program: SearchProgram,
        orders: Sequence[ProbeOrder],
        stages: Sequence[Stage],
        manager: WindowAccessManager,
    ) -> None:
        self.name = f"stage {number}"
        self.inputs = [STORED, IN]
        self.number = number
        self._program = program
        self._orders = orders
        self._stages = stages
        self._manager = manager
        self._is_last = number == len(orders) - 1
        self.int_buf: list[NewTuples] = []
        self.size = len(orders) - number
        """How many chunks that are not stored Int-buf has room for, beside the one at hand."""
        self._open: set[int] = set()
        """The origins of the chunk at hand whose sets have not ended."""
        self._stored = 0
        self._following = 0
        self.failures = Failures()
        self.comparisons = 0
        self.matched = 0
        self.probed = [0 for _ in orders]

    def needs(self, port: Port) -> Sequence[Port] | None:
        """A new chunk needs room in Int-buf."""
        if port == STORED:
            return ()
        is_full = self._following - self._stored > self.size
        if is_full and not self._open:
            return None
        return (OUT, RESULTS) if self._is_last else (OUT,)

    def step(
        self, port: Port, message: NewTuples | IntermediateResults | StoredChunks
    ) -> Iterable[Sent]:
        """Begin with new tuples, or go on with intermediate results."""
        if isinstance(message, StoredChunks):
            self._stored = message.number
            self.int_buf = [one for one in self.int_buf if one.number >= message.number]
            return []
        if isinstance(message, NewTuples):
            return self._take(message)
        return self._process(message)

    def _take(self, tuples: NewTuples) -> Iterator[Sent]:
        self.int_buf.append(tuples)
        self._following = tuples.number + 1
        self._open = set(tuples.origins)
        if not self._is_last or not self._open:
            yield OUT, tuples
        if self.number == 1:
            for origin in sorted(tuples.origins):
                order = self._orders[origin]
                begun = self._program.begin(tuples.arrived, order, *tuples.ranks, self.failures)
                first = IntermediateResults(tuples.number, origin, tuples.arrived, begun, True)
                yield from self._process(first)

    def _process(self, results: IntermediateResults) -> Iterator[Sent]:
        """Send on what becomes of intermediate results; after the last, the chunk is stored."""
        origin, given = results.origin, results.found
        self.probed[origin] += len(given)
        if results.is_end:
            self._open.remove(origin)
        output = RESULTS if self._is_last else OUT
        start, count = 0, max(1, len(given))
        while True:
            some = given.part(start, start + count)
            found = self._extended(results, some, TUNING.pairs_per_message)
            if found is None:
                count = max(1, count // 2)
                continue
            start += count
            is_over = start >= len(given)
            self.matched += len(found)
            is_end = results.is_end and is_over
            yield (
                output,
                IntermediateResults(results.number, origin, results.arrived, found, is_end),
            )
            if is_over:
                break
        if self._is_last and results.is_end and not self._open:
            yield OUT, self.int_buf[-1]

    def _extended(
        self, results: IntermediateResults, given: Combinations, most: int
    ) -> Combinations | None:
        """Combinations with a member of the window or of Int-buf; None if there are too many."""
        stage, arrived = self._stages[results.origin], results.arrived
        seen = arrived.ranks.seen(given.ranks, stage.input)
        limit = most if len(given) > 1 else None
        parts = []
        with self._manager.access(stage.input) as window:
            window.begin_with(self.int_buf[-1])
            unstored = self.unstored(window)
            buffer = self._program.keys(
                stage, window.dictionary, "nested-loop", (window.stored, unstored)
            )
            rows = window.side.rows
            stored = window.stored - rows.first
            behind = sum(batch.num_rows for batch in unstored)
            for entries, first, after in (
                (window.entries[stage.identity], window.first - rows.first, stored),
                (buffer, stored, stored + behind),
            ):
                view = WindowView(
                    entries, window.dictionary, seen, first, self.failures, self._note, after
                )
                found = self._program.extend(arrived, results.origin, stage, given, limit, view)
                if found is None:
                    return None
                parts.append(found)
        return _together(*parts)

    def unstored(self, window: SharedWindow) -> list[pa.RecordBatch]:
        """The tuples of a window's stream that are in Int-buf, and not in the window yet.

        The window says which, since the storage unit's acknowledgements come later: in Int-buf
        there may be chunks of the batch before.
        """
        return [
            chunk.batch_of(window.input)
            for chunk in self.int_buf
            if chunk.number >= window.next_chunk
        ]

    def _note(self, comparisons: int) -> None:
        self.comparisons += comparisons

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a stage makes messages of messages."""
        return ()

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self.failures.count

    @property
    def is_wasteful(self) -> bool:
        """Never: the windows are elsewhere."""
        return False

    @property
    def nbytes(self) -> int:
        """None: the windows are elsewhere."""
        return 0

    def measures(self) -> dict[str, Any]:
        """What it has processed, by origin, and found."""
        nothing = [0 for _ in self.probed]
        return {
            "stored": nothing,
            "probed": list(self.probed),
            "matched": self.matched,
            "comparisons": self.comparisons,
            "window": nothing,
            "kernels": [],
        }


def _together(one: Combinations, other: Combinations) -> Combinations:
    """All of these combinations by rank, as the next stage needs them.

    They have members of the same streams.
    """
    ranks = np.concatenate((one.ranks, other.ranks))
    order = np.argsort(ranks, kind="stable")
    members = tuple(
        None if a is None or b is None else np.concatenate((a, b))[order]
        for a, b in zip(one.members, other.members, strict=True)
    )
    return Combinations(ranks[order], members)


class StorageAndExpiry:
    """The end of the chain: stores the new tuples of a chunk, and tells all stages."""

    comparisons = 0

    def __init__(self, manager: WindowAccessManager) -> None:
        self.name = "storage and expiry"
        self.inputs = [IN]
        self._manager = manager
        self.failures = Failures()
        self.counts = [0 for _ in manager.windows]

    def needs(self, port: Port) -> Sequence[Port]:
        """A chunk leaves the network here."""
        return (CHAIN,)

    def step(self, port: Port, tuples: NewTuples) -> Iterable[Sent]:
        """Store the tuples of each stream in its window."""
        for input in range(len(self._manager.windows)):
            with self._manager.access(input) as window:
                window.store(tuples, self.failures)
            start, stop = tuples.spans[input]
            self.counts[input] += stop - start
        stored = StoredChunks(tuples.number + 1)
        stages = range(1, len(self._manager.windows))
        return [(CHAIN, tuples), *((stored_at(number), stored) for number in stages)]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: it makes messages of messages."""
        return ()

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self.failures.count

    @property
    def is_wasteful(self) -> bool:
        """Whether most values of a dictionary may be of expired tuples."""
        windows = self._manager.windows
        sides = [window.side for window in windows]
        return any(is_outgrown(window.dictionary, sides) for window in windows)

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""
        return sum(window.nbytes for window in self._manager.windows)

    def measures(self) -> dict[str, Any]:
        """What it has stored, what the windows hold, and how often a unit waited for each."""
        windows = self._manager.windows
        return {
            "stored": list(self.counts),
            "probed": [0 for _ in windows],
            "matched": 0,
            "comparisons": 0,
            "window": [window.stored - window.first for window in windows],
            "kernels": [window.kernel for window in windows],
            "conflicts": list(self._manager.conflicts),
        }


def stored_at(number: int) -> Port:
    """The output of reports to a stage of what has been stored."""
    return f"stored {number}"


def linear(driver: Callable[[Network], Driver]) -> MultiFlow:
    """Linear-MJ on a driver."""
    return MultiFlow(linear_units(), driver)


def linear_units(make_stage: Callable[..., ProcessingStage] = ProcessingStage) -> MakeUnits:
    """What makes the chain; tests give stages with a part missing."""

    def make(program: SearchProgram) -> Units:
        streams = len(program.sides)
        orders = [program.order(origin) for origin in range(streams)]
        plans = [[program.stage(plan) for plan in order.stages] for order in orders]
        every = [stage for stages in plans for stage in stages]
        windows = [
            SharedWindow(program, side.index, (s for s in every if s.input == side.index))
            for side in program.sides
        ]
        manager = WindowAccessManager(windows)
        stages = [
            make_stage(number, program, orders, [plan[number - 1] for plan in plans], manager)
            for number in range(1, streams)
        ]
        storage = StorageAndExpiry(manager)
        return Units(_wired(stages, storage), [*stages, storage])

    return make


def _wired(stages: Sequence[ProcessingStage], storage: StorageAndExpiry) -> Network:
    """The chain, and the acknowledgements back."""
    network = Network([*stages, storage])
    network.enter(IN, stages[0], IN)
    for here, following in pairwise(stages):
        network.wire(here, OUT, following, IN)
    network.wire(stages[-1], OUT, storage, IN)
    network.leave(stages[-1], RESULTS, RESULTS)
    network.leave(storage, CHAIN, CHAIN)
    for stage in stages:
        network.wire(storage, stored_at(stage.number), stage, STORED)
    return network
