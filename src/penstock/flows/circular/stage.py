"""A stage of Circular-MJ: a stage buffer, a join core and an order control unit (§6.1.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    WindowView,
)
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.flows.circular.order_control_unit import OrderControlUnit
from penstock.flows.multi_flow import CHAIN, IntermediateResults, NewTuples
from penstock.flows.network.network import Port, Sent
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.program.choose.probe_order import ProbeOrder
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]


class JoinCore:
    """The keys of a stream's window, which combinations probe.

    ``stages`` are, by origin, the predicates that its combinations must satisfy here.
    """

    def __init__(self, program: SearchProgram, input: int, stages: Mapping[int, Stage]) -> None:
        self._program = program
        self._input = input
        self._side = program.sides[input]
        self._stages = stages
        self._dictionary = Dictionary()
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        for stage in stages.values():
            if stage.identity not in self._entries:
                self._entries[stage.identity] = program.keys(stage, self._dictionary)
        self._of_origin = {o: self._entries[stage.identity] for o, stage in stages.items()}
        self.next = self._side.rows.next
        self.failures = Failures()
        self.comparisons = 0

    def store(self, tuples: NewTuples) -> None:
        """Store the keys of new tuples of this stream, and drop those that nothing can see."""
        batch = tuples.batch_of(self._input)
        first = tuples.firsts[self._input]
        counting = self._program.counting(self._input, self.failures)
        for entries in self._entries.values():
            entries.drop_before(first)
            if batch.num_rows:
                entries.append(batch, counting)
        self.next += batch.num_rows

    def stored(self, first: int, following: int) -> int:
        """How many of the tuples ``first .. following - 1`` are stored in this window."""
        return self._program.stored(self._input, first, following)

    def lookup(
        self,
        arrived: Arrived,
        origin: int,
        given: Combinations,
        most: int | None,
        before: Indices,
        first: int,
        after: int | None = None,
    ) -> Combinations | None:
        """The combinations with a tuple of this window; None if there are more than ``most``.

        Before each, the tuples with numbers below its ``before`` have come. It sees those of them
        that are live, from number ``first`` on, and none from ``after`` on.
        """
        rows, newest = self._side.rows, self._side.newest
        view = WindowView(
            self._of_origin[origin],
            self._dictionary,
            before - (rows.next - newest),
            first - rows.first,
            self.failures,
            self._note,
            None if after is None else after - rows.first,
        )
        stage = self._stages[origin]
        return self._program.extend(arrived, origin, stage, given, most, view)

    def begin(self, tuples: NewTuples, order: ProbeOrder) -> Combinations:
        """The new tuples of an origin that pass what is asked of them alone."""
        return self._program.begin(tuples.arrived, order, *tuples.ranks, self.failures)

    def _note(self, comparisons: int) -> None:
        self.comparisons += comparisons

    @property
    def kernel(self) -> str:
        """The kernel that searches the window, as chosen by now."""
        return next((entries.kernel for entries in self._entries.values()), "nested-loop")

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""
        return sum(entries.nbytes for entries in self._entries.values())

    @property
    def is_wasteful(self) -> bool:
        """Whether most values of the dictionary may be of expired tuples."""
        return is_outgrown(self._dictionary, self._program.sides)


@dataclass(frozen=True)
class Way:
    """What a stage does with the sets of an origin.

    ``order`` is the path of the origin if its tuples begin here; None if they come by the bus.
    """

    origin: int
    order: ProbeOrder | None

    @property
    def port(self) -> Port:
        """Where intermediate results come in, and where what becomes of them leaves."""
        return port_of(self.origin)


def port_of(origin: int) -> Port:
    """The name of the ports for the sets of an origin."""
    return f"origin {origin}"


class StageBuffer:
    """How many intermediate results wait before a stage, in its FIFOs and at their heads.

    For each origin, the stage before counts what it sends, and this stage what it has processed:
    each count has one writer. The stage looks whenever it goes on with a set, which still counts.
    """

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}
        self._processed: dict[int, int] = {}
        self._looks = 0
        self._total = 0
        self._most = 0

    def add(self, origin: int, count: int) -> None:
        """Results of an origin have been sent here."""
        self._sent[origin] = self._sent.get(origin, 0) + count

    def remove(self, origin: int, count: int) -> None:
        """Results of an origin have been processed."""
        self._processed[origin] = self._processed.get(origin, 0) + count

    def look(self) -> None:
        """Note how many wait."""
        waiting = self.waiting
        self._looks += 1
        self._total += waiting
        self._most = max(self._most, waiting)

    @property
    def waiting(self) -> int:
        """How many results wait now."""
        # In this order, since the stage before may send more meanwhile.
        processed = sum(self._processed.values())
        return sum(list(self._sent.values())) - processed

    def measures(self) -> dict[str, Any]:
        """How many wait; and how many did whenever the stage went on, on average and at most."""
        mean = self._total / self._looks if self._looks else 0.0
        return {"waiting": self.waiting, "mean": mean, "most": self._most}


class PipelineStage:
    """A stage of the pipeline, for one stream.

    New tuples come by the distribution chain, and go on to the next stage by it. Intermediate
    results come by the bus, with a FIFO for each origin: the stage buffer. Its heads are in
    ``sets``, one for each origin, with the sets of new tuples that begin here behind each other.
    The stage goes on with one of them at a time, a message's worth, and only with one for whose
    results there is room; a sweep that has to wait stays where it is. Of several it prefers
    intermediate results, then the older chunk.

    Parameters
    ----------
    number
        The stream of the stage.
    streams
        How many streams there are.
    ways
        What to do with the sets of each other origin.
    core, control
        Its join core and its order control unit.
    """

    def __init__(
        self,
        number: int,
        streams: int,
        ways: Sequence[Way],
        core: JoinCore,
        control: OrderControlUnit,
    ) -> None:
        self.name = f"stage {number}"
        self.number = number
        self.ways = {way.origin: way for way in ways}
        self.inputs = [*(way.port for way in ways if way.order is None), CHAIN]
        self.core = core
        self.control = control
        self.sets: dict[int, deque[IntermediateResults]] = {o: deque() for o in self.ways}
        self.counts = {"matched": 0, "stored": 0, **{f"probed {i}": 0 for i in range(streams)}}
        self.stage_buffer = StageBuffer()
        self.following_buffers: dict[int, StageBuffer] = {}
        """By origin, that of the stage which comes next on its path, if one does."""

    def needs(self, port: Port) -> Sequence[Port] | None:
        """New tuples need room in OBuf; of intermediate results, one message is taken at a time."""
        if port == CHAIN:
            return None if self.control.is_full else (CHAIN,)
        return None if self.sets[_origin_of(port)] else ()

    def step(self, port: Port, message: NewTuples | IntermediateResults) -> Iterable[Sent]:
        """Store new tuples and send them on, or take intermediate results."""
        if isinstance(message, IntermediateResults):
            self.sets[message.origin].append(message)
            return []
        before = self.core.next
        self.core.store(message)
        self.control.take(message)
        self.counts["stored"] += self.core.stored(before, self.core.next)
        for way in self.ways.values():
            if way.order is not None and way.origin in message.origins:
                begun = self.core.begin(message, way.order)
                first = IntermediateResults(
                    message.number, way.origin, message.arrived, begun, True
                )
                self.sets[way.origin].append(first)
        return [(CHAIN, message)]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Go on with one of the sets for whose results there is room."""
        ready = [
            (way.order is not None, self.sets[origin][0].number, origin)
            for origin, way in self.ways.items()
            if self.sets[origin] and self.may_process(self.sets[origin][0]) and has_room(way.port)
        ]
        if not ready:
            return []
        _, _, origin = min(ready)
        return [(self.ways[origin].port, self._process(origin))]

    def may_process(self, results: IntermediateResults) -> bool:
        """Whether every tuple that came before their origins has been stored, if it belongs here.

        As published a stage does not ask, and may miss a tuple that is still in the chain.
        """
        return self.control.has_come(results.number)

    def _process(self, origin: int) -> IntermediateResults:
        """What becomes of the next combinations of an origin, at most a message full."""
        self.stage_buffer.look()
        results = self.sets[origin].popleft()
        given, control = results.found, self.control
        count = len(given)
        while True:
            some = given.part(0, count)
            most = TUNING.pairs_per_message if count > 1 else None
            before, first = control.refine(some.ranks), control.compare()
            found = self.core.lookup(results.arrived, origin, some, most, before, first)
            if found is not None:
                break
            count = max(1, count // 2)
        rest = given.part(count, len(given))
        if len(rest):
            self.sets[origin].appendleft(replace(results, found=rest))
        elif results.is_end:
            control.finish(results.number, origin)
        self.counts[f"probed {origin}"] += count
        self.counts["matched"] += len(found)
        if self.ways[origin].order is None:
            self.stage_buffer.remove(origin, count)
        if origin in self.following_buffers:
            self.following_buffers[origin].add(origin, len(found))
        is_end = results.is_end and not len(rest)
        return IntermediateResults(results.number, origin, results.arrived, found, is_end)

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self.core.comparisons

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return self.core.failures.count

    @property
    def is_wasteful(self) -> bool:
        """Whether most of its memory is for what has expired."""
        return self.core.is_wasteful

    @property
    def nbytes(self) -> int:
        """The memory of its keys and indexes."""
        return self.core.nbytes

    def measures(self) -> dict[str, Any]:
        """What it has stored, processed and found, by stream, and what it holds."""
        streams = range(len(self.counts) - 2)
        own = [i == self.number for i in streams]
        held = self.core.stored(self.control.window, self.control.stored)
        return {
            "stored": [self.counts["stored"] * is_own for is_own in own],
            "probed": [self.counts[f"probed {i}"] for i in streams],
            "matched": self.counts["matched"],
            "comparisons": self.comparisons,
            "window": [held * is_own for is_own in own],
            "kernels": [self.core.kernel],
            "stage_buffer": self.stage_buffer.measures(),
        }


def _origin_of(port: Port) -> int:
    return int(port.removeprefix("origin "))
