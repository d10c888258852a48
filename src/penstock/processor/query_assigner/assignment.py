"""The assignment of queries to a topology that nothing else is on: their blocks and their words.

The numbers of queries and streams are those that :class:`penstock.processor.fqp.processor` gives
when the queries are installed in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.processor.query_assigner.demand import Demand, demand_of
from penstock.processor.query_assigner.query_assigner import PlacedQuery, QueryAssigner
from penstock.processor.topology.topology import Topology
from penstock.program.isa.op_instructions import OPInstruction
from penstock.program.isa.words.assembly import disassemble, to_hex
from penstock.program.isa.words.encoding import encode
from penstock.streams.display import counted, listed


@dataclass(frozen=True)
class AssignedQuery:
    """A query with its blocks, and what these are sent."""

    number: int
    placed: PlacedQuery
    demand: Demand
    instructions: tuple[OPInstruction, ...]

    def work_of(self, block: int) -> str:
        """What a block does of it."""
        demand, blocks = self.demand, self.placed.blocks
        if demand.window is None:
            work = [f"select ({counted(demand.selections, 'comparison')})"] * bool(
                demand.selections
            )
            work += [f"project ({counted(demand.projections, 'column')})"] * bool(
                demand.projections
            )
            did = " and ".join(work) or "pass every row"
        elif len(blocks) == 1:
            did = f"join, windows of {demand.window:,}"
        else:
            part = f"part {blocks.index(block) + 1} of {len(blocks)}"
            did = f"join, windows of {demand.window:,}, {part}"
        return f"{did}; rows go on" if self.placed.derived else did


@dataclass(frozen=True)
class Assignment:
    """Queries on a topology, oldest first."""

    topology: Topology
    streams: tuple[str, ...]
    queries: tuple[AssignedQuery, ...]

    @property
    def instructions(self) -> list[OPInstruction]:
        """All of them, query by query."""
        return [one for query in self.queries for one in query.instructions]

    @property
    def words(self) -> bytes:
        """The instructions as words."""
        return encode(self.instructions, self.topology.widths)

    def to_hex(self) -> str:
        """The words as hexadecimal digits, a chunk a line."""
        return to_hex(self.words, self.topology.widths)

    def to_text(self) -> str:
        """Which block serves what, as comments, and the text of the words."""
        table = "".join(f"; {line}".rstrip() + "\n" for line in self._table())
        return f"{table}\n{disassemble(self.words, self.topology.widths)}"

    def to_json(self) -> dict[str, Any]:
        """Blocks, queries, streams and instructions."""
        layout = self.topology.widths
        return {
            "topology": self.topology.name,
            "streams": list(self.streams),
            "queries": [
                {
                    "number": query.number,
                    "name": query.placed.name,
                    "is_derived": query.placed.derived,
                    "sql": query.placed.program.text,
                    "blocks": list(query.placed.blocks),
                    "window": query.demand.window,
                    "selections": query.demand.selections,
                    "projections": query.demand.projections,
                    "reads": [stream.name for stream in query.demand.streams],
                }
                for query in self.queries
            ],
            "free": self._free(),
            "instructions": [
                {
                    "block": one.block,
                    "query": one.query,
                    "text": disassemble(words, layout).splitlines(),
                    "words": to_hex(words, layout).splitlines(),
                }
                for one in self.instructions
                for words in (encode([one], layout),)
            ],
        }

    def _free(self) -> list[int]:
        taken = {number for query in self.queries for number in query.placed.blocks}
        return [number for number in self.topology.blocks if number not in taken]

    def _table(self) -> Iterator[str]:
        """Lines: what the topology is, and for each block what it does of each query."""
        free = self._free()
        yield (
            f"{self.topology.name}: {counted(len(self.queries), 'query', 'queries')} on "
            f"{counted(len(self.topology.blocks) - len(free), 'block')}, "
            f"{f'{len(free):,} free' if free else 'none free'}"
        )
        yield f"streams: {listed(f'{number} {name}' for number, name in enumerate(self.streams))}"
        rows = [("block", "window", "query", "name", "what the block does")]
        rows += [
            (str(number), f"{unit.window:,}", str(query.number), query.placed.name,
             query.work_of(number))
            for number, unit in self.topology.blocks.items()
            for query in self.queries
            if number in query.placed.blocks
        ]  # fmt: skip
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            cells = [
                cell.rjust(width) if column < 3 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            yield "  ".join(cells).rstrip()


def assignment_of(topology: Topology, queries: Sequence[PlacedQuery]) -> Assignment:
    """The assignment of queries that have their blocks, in the order in which they came."""
    assigner = QueryAssigner(topology)
    numbers: dict[str, int] = {}
    names: list[str] = []
    found: list[AssignedQuery] = []
    for number, placed in enumerate(queries):
        demand = demand_of(placed.program)
        named = [*([placed.name] if placed.derived else []), *(s.name for s in demand.streams)]
        for name in named:
            if name.lower() not in numbers:
                numbers[name.lower()] = len(names)
                names.append(name)
        told = assigner.instructions(
            number,
            placed.program,
            placed.name if placed.derived else None,
            numbers.__getitem__,
            True,
        )
        found.append(AssignedQuery(number, placed, demand, tuple(told)))
    return Assignment(topology, tuple(names), tuple(found))
