"""The blocks of a query that stand in the blocks of a topology, beside those of other queries.

The query has no network of its own: input comes to all queries of a topology at once
(:mod:`penstock.engines.shared.processing`), and what is sent here is for this query alone, its
instructions and what is known of its streams when it starts.

A join that spans blocks has one: the front of the join, whose cores are in the topology
(:mod:`penstock.processor.fqp.spanning_join`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from penstock.blocks.contract import Batch, Block, BlockId, Message, Site
from penstock.blocks.intake import Intake
from penstock.engines.shared.pipeline import OwnNetwork, QueryNetwork, QueryOutput
from penstock.flows.make import make_block
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.processor.fqp.processor import Processor
from penstock.processor.fqp.spanning_join import spanning_join
from penstock.processor.op_block.messages import QueryOutput as PlacedOutput
from penstock.processor.query_assigner.query_assigner import QueryAssigner
from penstock.program.choose.flow import blocks_spanned
from penstock.program.isa.block_instructions import BlockInstruction, JoinStreams, Program


class PlacedNetwork:
    """A query's place on a topology.

    Parameters
    ----------
    program
        Its first program, with its blocks.
    processor
        The topology, and all queries that are on it.
    derived
        The name of the stream that its rows are; None: they are a result.
    """

    def __init__(self, program: Program, processor: Processor, derived: str | None) -> None:
        self.intake = Intake([str(number) for number, _ in program.intake.readers])
        self._query = processor.new_query()
        self._processor = processor
        self._assigner = QueryAssigner(processor.topology)
        self._derived = derived
        self._is_new = True
        self.program = program

    @property
    def number(self) -> int:
        """Its number on the topology."""
        return self._query

    @property
    def blocks(self) -> dict[BlockId, Block]:
        """Those in the blocks of the topology, by their numbers in the program."""
        return self._processor.parts(self._query)

    def run(self, message: Message) -> QueryOutput:
        """Send what is for this query alone: what is known of its streams when it starts."""
        if isinstance(message, Batch):
            yield from self._start(message)

    def instruct(self, program: Program, position: int, site: Site) -> QueryOutput:
        """Send instructions by the way of all queries; they bring out no rows."""
        processor, self.program = self._processor, program
        told = self._assigner.instructions(
            self._query, program, self._derived, processor.stream_number, self._is_new
        )
        self._is_new = False
        for made in processor.program(told, position, site):
            raise AssertionError(f"instructions have made {made}")
        return iter(())

    def _start(self, message: Batch) -> Iterator[tuple[str, object]]:
        """Tell the blocks what is known of the streams; the rows there are have not been made."""
        names = [one.stream.name.lower() for one in self.program.intake.streams]
        runs = {n: run for n, run in zip(names, message.runs, strict=True) if run is not None}
        for made in self._processor.take(runs, message.first, message.next, self._query):
            if isinstance(made, PlacedOutput):
                yield made.port, made.message

    def leave(self) -> None:
        """Leave the blocks of the topology."""
        self._processor.forget(self._query, self.program.flow.blocks or ())

    def close(self) -> None:
        """Release nothing: the driver is that of the topology."""


class SpanningNetwork:
    """The network of a join that spans blocks of a topology: its front, and its place there."""

    number: int | None = None

    def __init__(
        self, program: Program, processor: Processor, drive: Callable[[Network], Driver]
    ) -> None:
        self._place = PlacedNetwork(program, processor, None)
        query, blocks = self._place.number, program.flow.blocks or ()

        def make(instruction: BlockInstruction) -> Block:
            if isinstance(instruction, JoinStreams):
                return spanning_join(instruction.block, processor, query, blocks)
            return make_block(instruction)

        self._front = OwnNetwork(program, drive, make)

    @property
    def intake(self) -> Intake:
        """That of the front."""
        return self._front.intake

    @property
    def blocks(self) -> dict[BlockId, Block]:
        """Those of the front."""
        return self._front.blocks

    def run(self, message: Message) -> QueryOutput:
        """Send a message to the front."""
        return self._front.run(message)

    def instruct(self, program: Program, position: int, site: Site) -> QueryOutput:
        """Send instructions to the blocks of the topology, and to the front."""
        yield from self._place.instruct(program, position, site)
        yield from self._front.instruct(program, position, site)

    def leave(self) -> None:
        """Leave the blocks of the topology."""
        self._place.leave()

    def close(self) -> None:
        """Release the threads of the front's driver."""
        self._front.close()


def network_maker(
    processor: Processor | None, derived: str | None, drive: Callable[[Network], Driver] = Inline
) -> Callable[[Program], QueryNetwork]:
    """What makes the network of a query: on the topology if there is one, or its own."""
    if processor is None:
        return partial(OwnNetwork, drive=drive)

    def make(program: Program) -> QueryNetwork:
        if blocks_spanned(program):
            return SpanningNetwork(program, processor, drive)
        return PlacedNetwork(program, processor, derived)

    return make
