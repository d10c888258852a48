"""The Flexible Query Processor: a topology of OP-Blocks with the queries that are on it now.

All queries of an engine stand in one network, which is laid out once, before any of them (Najafi
2019 §4.2). Input goes in at both ends of every branch, as slices of the same positions; what leaves
by the Result Aggregation Buffer has the number of its query. Installing, changing and dropping a
query is to send instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.blocks.contract import Block, BlockId, Site
from penstock.blocks.run import Run
from penstock.errors import warn
from penstock.flows.make import make_block
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network, Paced, run
from penstock.processor.fqp.left_end import STRAYS, LeftEnd
from penstock.processor.fqp.result_aggregation_buffer import BufferNode
from penstock.processor.op_block.messages import (
    Programming,
    QueryOutput,
    Results,
    SharedRows,
    Slice,
    Token,
)
from penstock.processor.op_block.op_block import FINAL, R_OUT, S_OUT, OPBlock
from penstock.processor.op_block.query_buffer import R, S
from penstock.processor.op_block.segments import segmented_select
from penstock.processor.topology.kinds import BUFFER_NODE, OP_BLOCK
from penstock.processor.topology.parts import Unit
from penstock.processor.topology.topology import Topology, widths_of
from penstock.program.isa.block_instructions import BlockInstruction, SelectRows
from penstock.program.isa.op_instructions import Bypass, OPInstruction
from penstock.program.isa.words.decoding import decode
from penstock.program.isa.words.encoding import encode
from penstock.streams.display import counted, listed

END = "end"


class MadeStream(NamedTuple):
    """The rows of a derived stream at the positions of a slice."""

    stream: str
    run: Run


Sent = QueryOutput | SharedRows | MadeStream
"""What leaves the topology."""


class TopologyNetwork(NamedTuple):
    """The network of a topology, its blocks by number, and the left ends of its branches."""

    network: Network
    blocks: dict[int, OPBlock]
    ends: list[LeftEnd]


def lay(topology: Topology) -> TopologyNetwork:
    """Lay the network of a topology. Branch ``i`` has the entries ``r i`` and ``s i``."""
    network = Network([])
    units: dict[str, Paced] = {}
    blocks: dict[int, OPBlock] = {}
    ends: list[LeftEnd] = []
    for unit in topology.units:
        if unit.kind == OP_BLOCK:
            block = OPBlock(unit.name, unit.number, topology.widths, _maker(topology, unit))
            units[unit.name] = blocks[unit.number] = block
        else:
            assert unit.kind == BUFFER_NODE, unit.kind
            units[unit.name] = BufferNode(unit.name)
            network.steady.add(unit.name)
    network.units.extend(units.values())
    for source, target in topology.wires:
        network.wire(units[source.unit], source.port, units[target.unit], target.port)
    for i, branch in enumerate(topology.branches):
        left, right = units[branch[0].name], units[branch[-1].name]
        end = LeftEnd(f"left end {i}")
        network.units.append(end)
        network.wire(end, R_OUT, left, R)
        network.wire(left, S_OUT, end, S)
        network.enter(f"{R} {i}", end, R)
        network.enter(f"{S} {i}", right, S)
        network.leave(right, R_OUT, END)
        network.leave(end, STRAYS, STRAYS)
        ends.append(end)
    network.leave(units[topology.exit.unit], topology.exit.port, FINAL)
    return TopologyNetwork(network, blocks, ends)


def _maker(topology: Topology, unit: Unit) -> Callable[[BlockInstruction], Block]:
    """What makes the blocks of queries in an OP-Block."""
    if not topology.segments:
        return make_block
    widths = widths_of(topology, unit)

    def make(instruction: BlockInstruction) -> Block:
        if isinstance(instruction, SelectRows):
            return segmented_select(instruction.block, widths)
        return make_block(instruction)

    return make


class Processor:
    """A topology, and a driver that runs its network.

    Parameters
    ----------
    topology
        Its units and their wires.
    drive
        Makes the driver.
    """

    def __init__(self, topology: Topology, drive: Callable[[Network], Driver] = Inline) -> None:
        self.topology = topology
        self._drive = drive
        self._network, self.blocks, self._ends = lay(topology)
        self._driver = drive(self._network)
        self._branches = range(len(topology.branches))
        self._streams: dict[str, int] = {}
        self._names: list[str] = []
        self._queries: set[int] = set()
        self._serial = 0
        self.strays: list[OPInstruction] = []
        """Instructions that have left the network without finding their block."""

    # -- numbers ----------------------------------------------------------------------------

    def new_query(self) -> int:
        """The smallest number that no query has."""
        number = next(n for n in range(len(self._queries) + 1) if n not in self._queries)
        self._queries.add(number)
        return number

    def stream_number(self, name: str) -> int:
        """The number of a stream, by its name in lower case."""
        number = self._streams.get(name)
        if number is None:
            number = self._streams[name] = len(self._names)
            self._names.append(name)
        return number

    @property
    def driver(self) -> Driver:
        """What runs the network."""
        return self._driver

    def branch_of(self, block: int) -> int:
        """The number of the branch that has a block."""
        branches = self.topology.branches
        return next(i for i in self._branches if any(u.number == block for u in branches[i]))

    def parts(self, query: int) -> dict[BlockId, Block]:
        """The blocks that serve a query, by their numbers in its program."""
        found: dict[BlockId, Block] = {}
        for block in self.blocks.values():
            part = block.queries.parts.get(query)
            if part is not None:
                found = {**part.blocks, **found}  # copies in other branches are alike
        return found

    # -- messages ---------------------------------------------------------------------------

    def take(
        self, runs: Mapping[str, Run], first: int, after: int, only: int | None = None
    ) -> Iterator[Sent]:
        """Send the input at positions ``first`` to ``after - 1``, by stream in lower case.

        ``only``: for one query alone.
        """
        numbered = {self.stream_number(name): run.plain for name, run in runs.items()}
        slice_ = Slice(first, after, numbered, only)
        return self._send(slice_, slice_)

    def program(
        self, instructions: Sequence[OPInstruction], position: int, site: Site
    ) -> Iterator[Sent]:
        """Send instructions that take effect at a position."""
        self._serial += 1
        words = encode(instructions, self.topology.widths)
        return self._send(Programming(self._serial, position, words, site), Token(self._serial))

    def _send(self, by_s: Any, by_r: Any) -> Iterator[Sent]:
        """Send a message in at the right ends, and one at the left ends; gives what leaves."""
        messages = [
            (f"{port} {i}", message)
            for i in self._branches
            for port, message in ((S, by_s), (R, by_r))
        ]
        known: set[int] = set(by_s.runs) if isinstance(by_s, Slice) else set()
        strays: list[list[OPInstruction]] = []
        for exit_, message in run(self._driver, messages):
            if isinstance(message, Results):
                yield from message.outputs
            elif isinstance(message, Slice):
                for number in message.runs.keys() - known:
                    known.add(number)  # other branches may make the same
                    yield MadeStream(self._names[number], message.runs[number])
            elif exit_ == STRAYS:
                strays.append(decode(message.words, self.topology.widths))
        if len(strays) == len(self._branches):
            found = [one for one in strays[0] if all(one in other for other in strays)]
            self.strays += found
            for block in dict.fromkeys(one.block for one in found):
                self._warn_of_stray(block, [one for one in found if one.block == block])

    def _warn_of_stray(self, block: int, found: Sequence[OPInstruction]) -> None:
        queries = listed(str(number) for number in dict.fromkeys(one.query for one in found))
        numbers = list(self.topology.blocks)
        there = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        warn(
            f"{counted(len(found), 'instruction')} of query {queries} for block {block} left the "
            f"topology {self.topology.name} without finding it; its blocks are numbered {there}"
        )

    def forget(self, query: int, blocks: Sequence[int]) -> None:
        """Let a query leave its blocks."""
        gone = [OPInstruction(number, query, Bypass()) for number in blocks]
        for _ in self.program(gone, 0, Site()):
            raise AssertionError("a query that leaves makes no rows")
        self._queries.discard(query)

    def restart(self) -> None:
        """Drop what is on its way after a step was broken off; the blocks stay as they are."""
        self._driver.close()
        for block in self.blocks.values():
            block.restart()
        for end in self._ends:
            end.restart()
        self._driver = self._drive(self._network)

    def close(self) -> None:
        """Release the threads of the driver."""
        self._driver.close()
