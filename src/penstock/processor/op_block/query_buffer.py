"""The Query Buffer: the queries that a block has instructions of, and what they do there.

A query's part in a block is a chain of the blocks that serve it anywhere else: a join, a selection,
a projection. They are made by their instructions and changed by later ones (a *reset* comes before
the first), so what a query gives does not depend on where it runs. Selections over one stream are
evaluated together where that is possible (:mod:`.shared_selections`).

In which order queries work. A query may read what another query of the block makes, and that one
has come before it. Selections that are evaluated together work where the first of them would: what
that one reads has been made by then, and the others read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.blocks.contract import (
    IN,
    LETTERS,
    OUT,
    Batch,
    Block,
    BlockId,
    Instructions,
    Message,
    Port,
    Sent,
    Site,
)
from penstock.blocks.run import Run, empty_run
from penstock.blocks.select import SelectBlock
from penstock.flows.network.network import Paced
from penstock.processor.op_block.shared_selections import (
    Selection,
    SharedSelections,
    Tail,
    sets_of,
)
from penstock.program.isa.block_instructions import BlockInstruction, JoinStreams, SelectRows
from penstock.program.isa.op_instructions import (
    Bypass,
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
)
from penstock.tuning import TUNING

MakeBlock = Callable[[BlockInstruction], Block]
R, S = "r", "s"


@dataclass
class QueryPart:
    """What a block does of a query.

    Parameters
    ----------
    query
        The number of the query.
    result_port
        Where its rows leave: ``final``, ``stream-r``, or ``both``.
    ports
        The streams that it reads.
    blocks
        What its tuples go through, in order.
    nothing
        What a stream without tuples gives, by input.
    bodies
        The instructions in force, by block.
    selection
        Its selection as it can be evaluated with others; None: by itself only.
    core
        The core that the block is in a join that spans several; None: the query is here whole.
    """

    query: int
    result_port: str
    ports: ReadPorts = field(default_factory=lambda: ReadPorts((), ()))
    blocks: dict[BlockId, Block] = field(default_factory=dict)
    nothing: tuple[Run | None, ...] = ()
    bodies: dict[BlockId, BlockInstruction] = field(default_factory=dict)
    selection: Selection | None = None
    core: Paced | None = None

    def reads(self, port: Port) -> list[int]:
        """The streams that it reads by a port."""
        pairs = zip(self.ports.streams, self.ports.ports, strict=True)
        return [stream for stream, by in pairs if by == port]

    def runs(
        self, of_r: Mapping[int, Run], of_s: Mapping[int, Run]
    ) -> tuple[Run | None, ...] | None:
        """Its input out of two slices; None if there is nothing for it."""
        pairs = zip(self.ports.streams, self.ports.ports, strict=True)
        found = tuple([(of_r if by == R else of_s).get(stream) for stream, by in pairs])
        if all(run is None for run in found):
            return None
        if len(found) == 1:
            return found
        return tuple(
            [none if run is None else run for run, none in zip(found, self.nothing, strict=True)]
        )

    def step(self, message: Message) -> Iterator[Sent]:
        """Let a message through its blocks; gives what leaves the last one, and letters."""
        return _through(list(self.blocks.values()), message)

    def step_after_selection(self, message: Message) -> Iterator[Sent]:
        """Let rows that its selection has kept through the blocks behind that."""
        return _through(list(self.blocks.values())[1:], message)

    def program(
        self, bodies: Sequence[BlockInstruction], position: int, site: Site, make: MakeBlock
    ) -> None:
        """Take instructions, the first ones or later ones."""
        for body in bodies:
            if body.block not in self.blocks:
                self.blocks[body.block] = make(body)
            self.bodies[body.block] = body
            if isinstance(body, JoinStreams):
                self.nothing = tuple(map(empty_run, body.schemas))
        addressed: dict[BlockId, Any] = {body.block: body for body in bodies}
        for message in (Instructions(position, addressed, site), Instructions(position)):
            for _, made in self.step(message):
                assert not isinstance(made, Batch) or not len(made.run), "a change has made rows"

    def close(self) -> None:
        """Let go of the blocks."""
        for block in self.blocks.values():
            block.close()


def _through(blocks: Sequence[Block], message: Message) -> Iterator[Sent]:
    if not blocks:
        yield OUT, message
        return
    for port, made in blocks[0].step(IN, message):
        if port == LETTERS or len(blocks) == 1:
            yield port, made
        else:
            yield from _through(blocks[1:], made)


class QueryBuffer:
    """The parts of queries in a block, oldest first."""

    def __init__(self, make: MakeBlock) -> None:
        self._make = make
        self.parts: dict[int, QueryPart] = {}
        self._reading_s = 0
        self._units: list[QueryPart | SharedSelections] | None = None
        self._tails: dict[Hashable, Tail] = {}
        self.has_core = False
        """Whether the block is a core of a join that spans several."""

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def reads_s(self) -> bool:
        """Whether a query reads a stream by the port of S."""
        return self._reading_s > 0

    def units(self) -> list[QueryPart | SharedSelections]:
        """What works on a slice, in order: queries, and selections that are evaluated together."""
        if self._units is None:
            self._units = self._arranged()
        return self._units

    def take(self, instructions: Sequence[OPInstruction], position: int, site: Site) -> None:
        """Take the instructions of a position, query by query."""
        bodies: dict[int, list[Any]] = {}
        for one in instructions:
            bodies.setdefault(one.query, []).append(one.body)
        for query, told in bodies.items():
            self._take(query, told, position, site)

    def _take(self, query: int, bodies: Sequence[Any], position: int, site: Site) -> None:
        if any(isinstance(body, JoinPart) for body in bodies):
            # Its core comes from the front of the join, which has the same instructions.
            bodies = [body for body in bodies if isinstance(body, ResetBlock)]
        told: list[BlockInstruction] = []
        for body in bodies:
            if isinstance(body, ResetBlock):
                self._reset(query, body)
            elif isinstance(body, Bypass):
                self.remove(query)
            elif isinstance(body, ReadPorts):
                self._read(self.parts[query], body)
            else:
                told.append(body)
        if told:
            part = self.parts[query]
            part.program(told, position, site, self._make)
            part.selection = self._selection(part)
            self._units = None

    def _reset(self, query: int, reset: ResetBlock) -> None:
        for one in list(self.parts) if reset.every_query else [query]:
            self.remove(one)
        self.parts[query] = QueryPart(query, reset.result_port)

    def _read(self, part: QueryPart, ports: ReadPorts) -> None:
        self._reading_s += (S in ports.ports) - (S in part.ports.ports)
        part.ports = ports

    def host(self, query: int, core: Paced | None) -> None:
        """Let the block be that core of a query, or none any more."""
        self.parts[query].core = core
        self.has_core = any(part.core is not None for part in self.parts.values())

    def remove(self, query: int) -> None:
        """Forget a query, with its windows."""
        part = self.parts.pop(query, None)
        if part is not None:
            self._reading_s -= S in part.ports.ports
            self._units = None
            part.close()
            self.has_core = any(one.core is not None for one in self.parts.values())

    # -- selections that are evaluated together ---------------------------------------------------

    def _selection(self, part: QueryPart) -> Selection | None:
        """A query's selection as it can be evaluated with others."""
        bodies = list(part.bodies.values())
        sets = sets_of(bodies)
        if sets is None or part.ports.ports != (R,):
            return None
        select, *others = bodies
        assert isinstance(select, SelectRows)
        block = part.blocks[select.block]
        assert isinstance(block, SelectBlock)
        if not block.takes_whole_tuples:
            return None
        key = (select.columns, tuple(others))
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = Tail(select.columns, [self._programmed(b) for b in others])
        return Selection(part.query, block, sets, tail, part.ports.gives is not None)

    def _programmed(self, body: BlockInstruction) -> Block:
        block = self._make(body)
        for _ in block.step(IN, Instructions(0, {body.block: body})):
            pass
        return block

    def _arranged(self) -> list[QueryPart | SharedSelections]:
        """The queries in order, with those together whose selections can be."""
        alike: dict[int, list[Selection]] = {}
        for part in self.parts.values():
            if part.selection is not None:
                alike.setdefault(part.ports.streams[0], []).append(part.selection)
        used = {one.tail for several in alike.values() for one in several}
        self._tails = {key: tail for key, tail in self._tails.items() if tail in used}
        shared = {
            stream: SharedSelections(stream, several)
            for stream, several in alike.items()
            if len(several) >= TUNING.fewest_shared_selections
        }
        units: dict[int, QueryPart | SharedSelections] = {}
        for part in self.parts.values():
            stream = -1 if part.selection is None else part.ports.streams[0]
            unit = shared.get(stream, part)
            units.setdefault(id(unit), unit)
        return list(units.values())
