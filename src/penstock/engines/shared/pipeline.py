"""The blocks of one query: a network laid out as its program says, and the driver that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from penstock.blocks.contract import (
    IN,
    LETTERS,
    OUT,
    Account,
    Batch,
    Block,
    BlockId,
    Instructions,
    Message,
    Partials,
    Port,
    Site,
    Traits,
    Unit,
)
from penstock.blocks.intake import Intake
from penstock.blocks.join.core_figures import added_up
from penstock.blocks.join.latency import Latency, latencies
from penstock.blocks.run import Run, empty_run
from penstock.blocks.synchroniser import Synchroniser
from penstock.flows.make import make_block
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network, run
from penstock.program.isa.block_instructions import INTAKE, BlockInstruction, JoinStreams, Program
from penstock.program.isa.flow import Flow

QueryOutput = Iterator[tuple[str, Any]]
"""The output of a query: on ``out`` batches of rows, and instructions that have passed all blocks;
on ``letters`` late tuples and dead letters.
"""


class Tally(NamedTuple):
    """Where the tuples of one mention of a stream have gone.

    ``window`` says whether a join window reads it. ``stored`` counts the tuples in the window,
    ``expired`` those that have left it, ``passed`` those that went to a block without tuples in its
    state; ``late`` and ``dead`` those that became letters.
    """

    stream: str
    window: bool
    stored: int
    expired: int
    passed: int
    late: int
    dead: int


class Mention(NamedTuple):
    """A stream as a program names it: by which scan, for which slot of which block."""

    stream: str
    scan: int
    reader: BlockId
    slot: int


class QueryNetwork(Protocol):
    """Where the blocks of a query stand, and how messages get to them."""

    @property
    def number(self) -> int | None:
        """Its number on the topology of the engine; None: it has a network of its own."""

    @property
    def intake(self) -> Intake:
        """What streams enter by; it counts what it passes on."""

    @property
    def blocks(self) -> dict[BlockId, Block]:
        """The blocks, by their numbers in the program."""

    def run(self, message: Message) -> QueryOutput:
        """Send a message to all of them; gives what leaves."""

    def instruct(self, program: Program, position: int, site: Site) -> QueryOutput:
        """Send every block its instruction, and a barrier."""

    def leave(self) -> None:
        """Leave the blocks of a topology to other queries, if it is on one."""

    def close(self) -> None:
        """Release the threads of the driver."""


class OwnNetwork:
    """The network of one query alone, laid out as its program says that blocks read one another.

    ``drive`` makes its driver; the output is the same by any. ``make`` makes its blocks.
    """

    number: int | None = None

    def __init__(
        self,
        program: Program,
        drive: Callable[[Network], Driver] = Inline,
        make: Callable[[BlockInstruction], Block] = make_block,
    ) -> None:
        self.intake = Intake([str(number) for number, _ in program.intake.readers])
        self.blocks: dict[BlockId, Block] = {
            i.block: make(i) for i in program.instructions if i.reads
        }
        self._driver = drive(self._laid_out(program))

    def run(self, message: Message) -> QueryOutput:
        """Send a message in by the intake."""
        return run(self._driver, ((IN, message),))

    def instruct(self, program: Program, position: int, site: Site) -> QueryOutput:
        """Send all instructions in one message, and a barrier."""
        bodies: dict[BlockId, Any] = {i.block: i for i in program.instructions if i.reads}
        bodies[INTAKE] = program.intake
        told = Instructions(position, bodies, site), Instructions(position)
        return run(self._driver, ((IN, message) for message in told))

    def leave(self) -> None:
        """Its blocks are its own."""

    def close(self) -> None:
        """Release the threads of the driver."""
        self._driver.close()

    def _laid_out(self, program: Program) -> Network:
        network = Network([])
        for block in (self.intake, *self.blocks.values()):
            network.place(block)
        network.enter(IN, self.intake, IN)
        network.leave(self.intake, LETTERS, LETTERS)
        for instruction in program.instructions:
            if not instruction.reads:
                continue
            block = self.blocks[instruction.block]
            if LETTERS in block.outputs:
                network.leave(block, LETTERS, LETTERS)
            for source, output, port, target in self._sources(instruction, block, network):
                network.wire(source, output, target, port)
        last = self.blocks[program.instructions[-1].block]
        network.leave(last, OUT, OUT)
        return network

    def _sources(
        self, instruction: BlockInstruction, block: Block, network: Network
    ) -> Iterator[tuple[Unit, Port, Port, Unit]]:
        """What feeds a block: the intake, another block, or several through a synchroniser."""
        fed: list[tuple[Unit, Port]] = [
            (self.blocks[number], OUT) if number in self.blocks else (self.intake, str(number))
            for number in instruction.reads
        ]
        if str(instruction.block) in self.intake.outputs:
            yield self.intake, str(instruction.block), IN, block
        elif len(fed) == 1:
            yield *fed[0], IN, block
        else:
            schemas = instruction.schemas if isinstance(instruction, JoinStreams) else ()
            nothing: list[Run | None] = [empty_run(schema) for schema in schemas]
            nothing = nothing or [None] * len(fed)
            together = Synchroniser(f"synchroniser of {block.name}", nothing)
            network.units.append(together)
            for port, source in zip(together.inputs, fed, strict=True):
                yield *source, port, together
            yield together, OUT, IN, block


class NoNetwork:
    """The network of a query whose blocks have been released, or are on another core."""

    number: int | None = None

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.blocks: dict[BlockId, Block] = {}

    def run(self, message: Message) -> QueryOutput:
        """Nothing is made."""
        return iter(())

    def instruct(self, program: Program, position: int, site: Site) -> QueryOutput:
        """Nothing is told."""
        return iter(())

    def leave(self) -> None:
        """There is nothing to leave."""

    def close(self) -> None:
        """There is nothing to release."""


class Pipeline:
    """The network of a query, configured by instructions alone, the first time and later.

    The first program defines the blocks; a later one has the same. ``site`` travels with every
    instruction: with a share, the networks on all cores together make every row once. ``network``
    makes the network.
    """

    def __init__(
        self,
        program: Program,
        site: Site,
        network: Callable[[Program], QueryNetwork] = OwnNetwork,
    ) -> None:
        self._site = site
        self.network = network(program)
        for _, message in self.network.instruct(program, 0, site):
            assert isinstance(message, Instructions), "nothing has come in yet"
        self._note(program)

    @property
    def blocks(self) -> dict[BlockId, Block]:
        """The blocks, by their numbers in the program."""
        return self.network.blocks

    def _note(self, program: Program) -> None:
        """Compute what depends on the program alone."""
        self.program = program
        intake = program.intake
        self.streams = [(one.stream.name, one.stream.name.lower()) for one in intake.streams]
        """The streams that it reads: each name, and the name in lower case."""
        self.reads = frozenset(lower for _, lower in self.streams)
        slots = {
            read: (i.block, slot) for i in program.instructions for slot, read in enumerate(i.reads)
        }
        self.mentions = [Mention(s.stream.name, s.block, *slots[s.block]) for s in program.scans]
        self._scans: dict[str, list[BlockId]] = {}
        for mention in self.mentions:
            self._scans.setdefault(mention.stream.lower(), []).append(mention.scan)
        self._accounts = [self._account(mention) for mention in self.mentions]
        self.holds_tuples = any(block.traits().holds for block in self.blocks.values())
        """Whether one of its blocks has state that grows with its input."""

    def _account(self, mention: Mention) -> Callable[[int], Account] | None:
        block = self.blocks.get(mention.reader)
        return None if block is None else block.traits().account

    @property
    def flow(self) -> Flow | None:
        """How cores share its joins."""
        return self._site.flow

    def note(self, program: Program, flow: Flow) -> None:
        """Record another program of a query whose blocks are on another core."""
        self._site = replace(self._site, flow=flow)
        self._note(program)

    # -- messages ---------------------------------------------------------------------------

    def process(self, runs: Mapping[str, Run], first: int, after: int) -> QueryOutput:
        """Send the input at positions ``first`` to ``after - 1``.

        ``runs`` has a run per stream, by its name in lower case.
        """
        batch = Batch(first, after, tuple([runs.get(name) for _, name in self.streams]))
        return self.network.run(batch)

    def complete(self, position: int) -> QueryOutput:
        """Make every row of the input before a position."""
        return self.network.run(Instructions(position))

    def change(self, program: Program, position: int, flow: Flow | None = None) -> QueryOutput:
        """Send the instructions of another program; yields the rows that the change makes.

        ``flow`` differs from the present one at most in its order.
        """
        if flow is not None:
            self._site = replace(self._site, flow=flow)
        self._note(program)
        yield from self.network.run(Instructions(position))
        yield from self.network.instruct(program, position, self._site)

    def take_partials(self, message: Partials) -> QueryOutput:
        """Send tuples that were folded elsewhere."""
        return self.network.run(message)

    def takes_partials(self, message: Partials) -> bool:
        """Whether its blocks can take tuples that were folded elsewhere."""
        [(number, _)] = self.program.intake.readers
        takes = self.blocks[number].traits().takes_partials
        return takes is not None and takes(message)

    def count(self, stream: str, tuples: int) -> None:
        """Count tuples of a stream, in lower case, that have come to it by the topology."""
        passed = self.network.intake.passed
        for scan in self._scans[stream]:
            passed[scan] = passed.get(scan, 0) + tuples

    # -- questions to the blocks ------------------------------------------------------------

    @property
    def units(self) -> dict[BlockId, Block]:
        """All units with state: the intake and the blocks."""
        return {INTAKE: self.network.intake, **self.blocks}

    def of_kind(self, kind: str) -> list[Any]:
        """The blocks of a kind, in the order of the program."""
        kinds = {i.block: i.kind_of_block for i in self.program.instructions}
        return [block for number, block in self.blocks.items() if kinds[number] == kind]

    def after(self, number: BlockId) -> list[Block] | None:
        """The blocks after a block, in order; None if one of them has another input."""
        found: list[Block] = []
        for instruction in self.program.instructions:
            if number in instruction.reads:
                if len(instruction.reads) > 1:
                    return None
                number = instruction.block
                found.append(self.blocks[number])
        return found

    def measures(self) -> dict[str, Any]:
        """The counts of the blocks, and the state of their windows."""
        found: dict[str, Any] = {
            "expression_failures": 0,
            "comparisons": 0,
            "kernels": [],
            "matches": 0,
            "window_tuples": [],
            "expired_tuples": [],
            "window_bytes": 0,
            "groups": [],
            "panes": [],
            "modules": [],
            "windows_open": [],
            "cores": [],
            "latency": [],
        }
        for block in self.blocks.values():
            for name, figure in block.measures().items():
                found[name] = found[name] + figure if name in found else figure
        latency = latencies(found["latency"]) if found["latency"] else {}
        return {**found, "cores": added_up(found["cores"]), "latency": latency}

    @property
    def latencies(self) -> list[Latency]:
        """The latencies of the blocks that have any."""
        return [one for b in self.blocks.values() for one in b.measures().get("latency", ())]

    def reported_counts(self) -> dict[str, Any]:
        """Nothing: the query counts by itself if its blocks are here."""
        return {}

    def tally(self) -> list[Tally]:
        """Where the tuples of each mention of a stream have gone so far."""
        pairs = zip(self.mentions, self._accounts, strict=True)
        return [self._tally(mention, account) for mention, account in pairs]

    def _tally(self, mention: Mention, account: Callable[[int], Account] | None) -> Tally:
        name = mention.stream
        passed = self.network.intake.passed.get(mention.scan, 0)
        dead = self.network.intake.dead.get(name.lower(), 0)
        if account is None:
            return Tally(name, False, 0, 0, passed, 0, dead)
        own = account(mention.slot)
        passed = 0 if own.window else passed - own.late - own.dead
        dead += own.dead
        return Tally(name, own.window, own.stored, own.expired, passed, own.late, dead)

    @property
    def traits(self) -> list[Traits]:
        """The traits of each block."""
        return [block.traits() for block in self.blocks.values()]

    @property
    def nbytes(self) -> int:
        """The memory of all windows."""
        return sum(block.nbytes for block in self.blocks.values())

    @property
    def schema(self) -> pa.Schema:
        return self.program.schema

    def clear(self) -> None:
        """Release the blocks, with their windows and cores."""
        self.network.leave()
        self.close()
        self.network = NoNetwork(self.network.intake)
        self._note(self.program)

    def close(self) -> None:
        """Release the threads of the driver, and the cores of joins and aggregates."""
        self.network.close()
        for block in self.blocks.values():
            block.close()
