"""The OP-Block as published: a unit of a chain (Najafi 2019 §4.1, Fig. 4.1.1 and 4.1.2).

R comes in from the left and S from the right. A run is stored in the window buffer of its stream
and compared with *every* tuple in the opposite one; it carries no range of partners. When a buffer
is full, its oldest tuples go on to the next block, and out of the chain after the last one. So a
tuple of R and one of S are compared in the block where they meet, if they are in the chain at the
same time and both are pushed on until they meet: see
:mod:`penstock.flows.chain_as_published.coordinator_unit` for why they then do, once.

The Filter Unit behind the port Final Result is the FIFO on that wire: results of whole tuples are
valid as they come, so it has nothing to filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.blocks.join.partner_search import FoundPairs, Rule
from penstock.flows.chain_as_published.buffer_manager import (
    GRANTED,
    IDLE,
    REQUESTING,
    BufferManager,
    BypassUnit,
)
from penstock.flows.chain_as_published.coordinator_unit import LEFT, RIGHT, CoordinatorUnit
from penstock.flows.chain_as_published.instructions import (
    Grant,
    Instruction,
    JoinInstruction,
    Request,
    Reset,
)
from penstock.flows.chain_as_published.processing_unit import ProcessingUnit
from penstock.flows.chain_as_published.window_buffer import QueryBuffer, WindowBuffer
from penstock.flows.handshake.core import Counts, R, S, Tuples
from penstock.flows.network.network import Port, Sent
from penstock.flows.sub_window import MakePart, Part

FINAL_RESULT: Port = "result"
IN: tuple[Port, Port] = (LEFT, RIGHT)
"""The side on which each stream comes in."""
OUT: tuple[Port, Port] = (RIGHT, LEFT)
"""The side on which it goes on."""


@dataclass(frozen=True)
class Join:
    """The join operator: a new run with every tuple in the opposite window buffer."""

    chunks: int = 2
    result_chunks: int = 2

    def execute(self, run: Tuples, opposite: Part) -> Iterator[FoundPairs]:
        """The pairs that match; the kernel of the window finds them."""
        return opposite.older(run.group, run.compiled)


class OPBlock:
    """A bi-flow OP-Block between its neighbours.

    Parameters
    ----------
    number, blocks
        Its place in the chain, from 1 on the left (B-ID), and how many there are.
    part
        Makes the memory of window buffers by the rule of the query.
    """

    inputs: Sequence[Port] = (LEFT, RIGHT)

    def __init__(self, number: int, blocks: int, part: Callable[[Rule], MakePart]) -> None:
        self.name = f"OP-Block {number}"
        self.number = number
        self.counts = Counts()
        self._part = part
        self._neighbours = {LEFT: number > 1, RIGHT: number < blocks}
        self._coordinator = CoordinatorUnit()
        self._managers = (BufferManager(R), BufferManager(S))
        self._bypass = BypassUnit()
        self._query_buffer = QueryBuffer()
        self._processing = ProcessingUnit()
        self._compiled = True
        self._compared = 0

    # -- messages ---------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port] | None:
        """Results must have somewhere to go. Where there is no neighbour to ask, input waits."""
        if not self._neighbours[port] and not self._has_room(port):
            return None
        return (FINAL_RESULT,)

    def step(self, port: Port, message: Any) -> Iterator[Sent]:
        """Take one message: reception, then the Processing Unit, then transmission."""
        if isinstance(message, Request):
            self._coordinator.ask(port)
        elif isinstance(message, Grant):
            yield port, self._transmitted(port)
        else:
            if self._neighbours[port]:
                self._coordinator.received(port)
            if isinstance(message, Tuples):
                yield from self._receive(message)
            else:
                assert isinstance(message, Instruction), message
                yield from self._instruct(message)
        yield from self._coordinate()

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a block makes messages of messages."""
        return ()

    # -- reception and processing -----------------------------------------------------------

    def _receive(self, run: Tuples) -> Iterator[Sent]:
        """Store a run, and execute the operators on it."""
        side, other = run.group.side, self._managers[1 - run.group.side].window
        assert other is not None, "the block has not been programmed"
        # A tuple that was sent on before may meet one for which the compiled predicate is invalid.
        self._compiled = self._compiled and run.compiled
        self._managers[side].receive(run.group)
        self.counts.stored[side] += len(run.group)
        yield from self._process(Tuples(run.group, self._compiled), other.tuples)
        if not self._neighbours[OUT[side]] and self._managers[side].has_surplus:
            self._managers[side].transmit()  # out of the chain

    def _process(self, run: Tuples, opposite: Part) -> Iterator[Sent]:
        self.counts.probed[run.group.side] += len(run.group)
        operators = self._query_buffer.programmed
        for result in self._processing.process(operators, run, opposite):
            self.counts.matched += len(result)
            yield FINAL_RESULT, result

    def _instruct(self, instruction: Instruction) -> Iterator[Sent]:
        """Take an instruction for this block; relay one for another."""
        manager = self._managers[S]
        if manager.reception.state == GRANTED:
            manager.reception.enter(IDLE)
        if instruction.block == self.number:
            self._program(instruction.body)
        elif self._neighbours[LEFT]:
            self._bypass.put(instruction)
        else:
            yield FINAL_RESULT, instruction  # there is no such block

    def _program(self, body: Reset | JoinInstruction) -> None:
        if isinstance(body, Reset):
            self._query_buffer.clear()
            self._compiled = True
            for manager in self._managers:
                assert not manager.has_surplus, "a block is reset when nothing moves"
                if manager.window is not None:
                    manager.window.clear()
            return
        self._compared = self.comparisons
        make = self._part(body.rule)
        for manager, capacity in zip(self._managers, body.capacities, strict=True):
            manager.window = WindowBuffer(make(manager.side), capacity)
        self._query_buffer.insert(Join())

    # -- coordination and transmission ------------------------------------------------------

    def _coordinate(self) -> Iterator[Sent]:
        """On each side, let the neighbour's transmission begin, or else the own one."""
        for side in (LEFT, RIGHT):
            if not self._neighbours[side]:
                continue
            if self._coordinator.grant_reception(side, self._has_room(side)):
                self._managers[IN.index(side)].reception.enter(GRANTED)
                yield side, Grant()
            if self._has_output(side) and self._coordinator.grant_transmission(side):
                self._outgoing(side).enter(REQUESTING)
                yield side, Request()

    def _has_room(self, side: Port) -> bool:
        """Whether anything that may come in on a side has room."""
        manager = self._managers[IN.index(side)]
        return manager.has_room and (side == LEFT or self._bypass.has_room)

    def _has_output(self, side: Port) -> bool:
        """Whether anything has to go out on a side."""
        by_passes = side == LEFT and bool(self._bypass.buffer)
        return by_passes or self._managers[OUT.index(side)].has_surplus

    def _outgoing(self, side: Port) -> Any:
        """The controller that transmits next on a side: instructions go before tuples."""
        if side == LEFT and self._bypass.buffer:
            return self._bypass.read
        return self._managers[OUT.index(side)].transmission

    def _transmitted(self, side: Port) -> Tuples | Instruction:
        """What was granted on a side."""
        manager = self._managers[OUT.index(side)]
        self._coordinator.transmitted(side)
        if side == LEFT and self._bypass.buffer:
            if manager.transmission.state == REQUESTING:
                manager.transmission.enter(IDLE)
            return self._bypass.get()
        return Tuples(manager.transmit(), self._compiled)

    # -- figures ----------------------------------------------------------------------------

    def oldest(self, side: int) -> int | None:
        """The number of the oldest tuple of a stream here; None if there is none."""
        window = self._managers[side].window
        return None if window is None else window.oldest

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return self._compared + sum(part.comparisons for part in self._parts())

    def _parts(self) -> list[Part]:
        return [one.window.tuples for one in self._managers if one.window is not None]

    def measures(self) -> dict[str, Any]:
        """What it has stored, probed and found, and what it holds now, of R and of S."""
        return {
            "core": self.number - 1,
            "stored": list(self.counts.stored),
            "probed": list(self.counts.probed),
            "matched": self.counts.matched,
            "comparisons": self.comparisons,
            "window": [len(part) for part in self._parts()],
            "kernels": [part.kernel for part in self._parts()],
        }
