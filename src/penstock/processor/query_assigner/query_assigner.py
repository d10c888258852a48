"""The query assigner: which blocks of a topology serve a query, and the instructions for them.

A query without a join takes a part of one block: as near to where R enters as there is room, since
fewer blocks are on its way then, and selections over one stream that share a block are evaluated
together. A join takes a block of its own; one with windows larger than a block's takes neighbours.
A block can read what blocks to its left have made, and not what blocks to its right have. Branches
share no rows: a derived selection is made in every branch that has a block to its right (Najafi
2019 Fig. 4.2.3), a derived join in one.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from penstock.errors import InputError
from penstock.processor.op_block.segments import segment_condition, segmented
from penstock.processor.query_assigner.demand import ELSEWHERE, Demand, columns_of, demand_of
from penstock.processor.topology.parts import Unit
from penstock.processor.topology.topology import Topology, widths_of
from penstock.program.isa.block_instructions import Program, SelectRows
from penstock.program.isa.op_instructions import (
    JoinPart,
    OPInstruction,
    ReadPorts,
    ResetBlock,
    ResultPort,
)
from penstock.sql.expressions import TRUE
from penstock.streams.display import counted, listed

PortName = Literal["r", "s"]
PLACE_ANEW = "Leave its blocks out, so that it finds others: program.placed()."


@dataclass(frozen=True)
class PlacedQuery:
    """A query that is on the topology: its name, whether it is a derived stream, its program."""

    name: str
    derived: bool
    program: Program

    @property
    def blocks(self) -> tuple[int, ...]:
        """The blocks that serve it."""
        return self.program.flow.blocks or ()

    @cached_property
    def demand(self) -> Demand:
        """What it asks of them."""
        return demand_of(self.program)


@dataclass
class _Load:
    """What a block serves: how many queries with how many operators, and the name of a join."""

    queries: int = 0
    selections: int = 0
    projections: int = 0
    join: str | None = None


class PlacedQueries:
    """The queries that are on a topology, and what its blocks serve of them.

    A query that comes or leaves changes the loads of its own blocks, however many others there are.
    """

    def __init__(self, topology: Topology) -> None:
        self.loads = {number: _Load() for number in topology.blocks}
        self.makers: dict[str, tuple[int, ...]] = {}
        """Of each derived stream, by its name in lower case, the blocks that make it."""
        self._placed: dict[str, PlacedQuery] = {}

    def keys(self) -> KeysView[str]:
        """Their names in lower case."""
        return self._placed.keys()

    def has(self, key: str, program: Program) -> bool:
        """Whether a query, by its name in lower case, is there with that program."""
        one = self._placed.get(key)
        return one is not None and one.program is program

    def place(self, one: PlacedQuery) -> None:
        """Let a query come, or come to other blocks."""
        key = one.name.lower()
        self.leave(key)
        self._placed[key] = one
        self._count(one, 1)
        if one.derived:
            self.makers[key] = one.blocks

    def leave(self, key: str) -> None:
        """Let a query leave, by its name in lower case, if it is there."""
        one = self._placed.pop(key, None)
        if one is not None:
            self._count(one, -1)
            self.makers.pop(key, None)

    def _count(self, one: PlacedQuery, by: int) -> None:
        demand = one.demand
        for number in one.blocks:
            load = self.loads[number]
            load.queries += by
            load.selections += by * demand.selections
            load.projections += by * demand.projections
            if demand.window is not None:
                load.join = one.name if by > 0 else None


@dataclass(frozen=True)
class QueryAssigner:
    """Finds blocks for queries, beside those that have theirs."""

    topology: Topology

    def assigned(
        self, name: str, derived: bool, program: Program, others: PlacedQueries
    ) -> Program:
        """The program with the blocks that serve it; an error says why there are none.

        A program that has its blocks already keeps them if they are free.
        """
        demand = demand_of(program)
        loads, makers = others.loads, others.makers
        kept = program.flow.blocks
        if kept is not None:
            self._check_kept(name, kept, demand, loads)
            self._check_place(name, derived, kept, demand, makers)
            self._check_segments(program, kept)
            return program
        blocks = self._choose_blocks(name, derived, demand, loads, makers)
        self._check_segments(program, blocks)
        return program.placed(replace(program.flow, blocks=blocks))

    def _room(self, unit: Unit, load: _Load, demand: Demand) -> bool:
        """Whether a block has room for a query: as its only join, or beside other selections."""
        if demand.window is not None:
            return not load.queries
        selections, projections = _most(unit)
        return (
            load.join is None
            and load.selections + demand.selections <= selections
            and load.projections + demand.projections <= projections
        )

    # -- a place ----------------------------------------------------------------------------

    def _choose_blocks(
        self,
        name: str,
        derived: bool,
        demand: Demand,
        loads: Mapping[int, _Load],
        makers: Mapping[str, tuple[int, ...]],
    ) -> tuple[int, ...]:
        """The blocks for a query, or an error."""
        everywhere = derived and demand.window is None
        found: list[int] = []
        for branch in self.topology.branches:
            start = self._after_makers(branch, demand, makers)
            if start is None:
                continue
            here = self._in_branch(branch[start:], demand, loads, derived)
            if found and here[-1:] == [branch[-1].number]:
                continue  # no block to its right would read it here
            found += here
            if here and not everywhere:
                break
        if not found:
            raise self._misfit(name, derived, demand, loads, makers)
        return tuple(found)

    def _after_makers(
        self, branch: Sequence[Unit], demand: Demand, makers: Mapping[str, tuple[int, ...]]
    ) -> int | None:
        """Where a branch has all streams that the query reads; None: it never does."""
        start = 0
        numbers = [unit.number for unit in branch]
        for stream in demand.streams:
            if stream.name.lower() in makers:
                here = [numbers.index(n) for n in makers[stream.name.lower()] if n in numbers]
                if not here:
                    return None
                # Selections of one block work in the order in which they came; a join is alone.
                start = max(start, here[-1] + (demand.window is not None))
        return start

    def _in_branch(
        self, units: Sequence[Unit], demand: Demand, loads: Mapping[int, _Load], derived: bool
    ) -> list[int]:
        """The blocks of a branch that serve the query, the first ones with room; none: no room."""
        room = [unit for unit in units if self._room(unit, loads[unit.number], demand)]
        for unit in room:
            if demand.window is None or demand.window <= unit.window:
                return [unit.number]
        if demand.window is None or derived or demand.is_ordered:
            return []
        return self._spanning(units, demand.window, loads)

    def _spanning(
        self, units: Sequence[Unit], window: int, loads: Mapping[int, _Load]
    ) -> list[int]:
        """The first neighbours whose windows have room together."""
        taken: list[Unit] = []
        for unit in units:
            taken = [] if loads[unit.number].queries else [*taken, unit]
            # A tuple's home goes by its number, so every block stores as many.
            if len(taken) * min((one.window for one in taken), default=0) >= window:
                return [one.number for one in taken]
        return []

    def _check_kept(
        self, name: str, kept: Sequence[int], demand: Demand, loads: Mapping[int, _Load]
    ) -> None:
        """Refuse blocks that are not there, have no room, or whose windows are too small."""
        units = self.topology.blocks
        query = _quoted(name)
        for number in kept:
            if number not in units:
                raise InputError(
                    f"{query} is placed on block {number}, and {self.topology.name} has the "
                    f"blocks {min(units)} to {max(units)}",
                    PLACE_ANEW,
                )
            if not self._room(units[number], loads[number], demand):
                problem = (
                    f"needs {_operators(demand)}, and {_left(units[number], loads[number])}"
                    if demand.window is None
                    else f"has no room on block {number} any more: "
                    f"{_serving(number, loads[number])}"
                )
                raise InputError(
                    f"{query} {problem}",
                    "Install it as another query, which finds a block of its own; then drop this "
                    "one.",
                )
        parts = len(kept) if demand.window is not None else 1
        capacity = parts * min(units[number].window for number in kept)
        if demand.window is not None and demand.window > capacity:
            raise InputError(
                f"{query} needs a window of {demand.window:,}, and "
                f"its {_named(kept)} {'has' if parts == 1 else 'have'} room for {capacity:,}",
                "Write smaller windows; or install it as another query, which finds larger or more "
                "blocks, and drop this one.",
            )

    def _check_place(
        self,
        name: str,
        derived: bool,
        kept: Sequence[int],
        demand: Demand,
        makers: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Refuse blocks that no query has together, or that lack what this one reads."""
        placed = f"{_quoted(name)} is placed on {_named(kept)}"
        taken = [
            (branch, here)
            for branch in self.topology.branches
            if (here := [unit.number for unit in branch if unit.number in kept])
        ]
        in_order = [number for _, here in taken for number in here] == list(kept)
        if not in_order or (len(taken) > 1 and not (derived and demand.window is None)):
            raise InputError(
                f"{placed}, which do not follow each other from left to right in one branch",
                PLACE_ANEW,
            )
        if any(len(here) > 1 for _, here in taken):
            if demand.window is None:
                raise InputError(f"{placed}, and a query without a join has one", PLACE_ANEW)
            if derived:
                why = "the join of a derived stream does not span several"
                raise InputError(f"{placed}, and {why}", PLACE_ANEW)
            if demand.is_ordered:
                raise InputError(
                    f"{placed}, and the join of a query with EMIT ORDER does not span several",
                    "Leave EMIT ORDER out, or install it as another query.",
                )
        for branch, here in taken:
            start = self._after_makers(branch, demand, makers)
            if start is None or here[0] not in [unit.number for unit in branch[start:]]:
                made = {s.name: makers[s.name.lower()] for s in demand.streams
                        if s.name.lower() in makers}  # fmt: skip
                where = listed(f"{stream} of {_named(blocks)}" for stream, blocks in made.items())
                raise InputError(
                    f"{placed}, and reads {where}: rows go to the right only, and a join has its "
                    "block alone",
                    PLACE_ANEW,
                )

    def _check_segments(self, program: Program, blocks: Sequence[int]) -> None:
        """Refuse a condition that no block could evaluate a segment of a tuple at a time."""
        if not self.topology.segments:
            return
        read = {one.block: columns_of(one) for one in program.instructions}
        for number in blocks:
            widths = widths_of(self.topology, self.topology.blocks[number])
            for one in program.instructions:
                if isinstance(one, SelectRows) and one.condition != TRUE:
                    segment_condition(one.condition, segmented(read[one.input], widths))

    # -- misfits ----------------------------------------------------------------------------

    def _misfit(
        self,
        name: str,
        derived: bool,
        demand: Demand,
        loads: Mapping[int, _Load],
        makers: Mapping[str, tuple[int, ...]],
    ) -> InputError:
        """Why a query does not fit."""
        name = _quoted(name)
        read = [s.name for s in demand.streams if s.name.lower() in makers]
        starts = [self._after_makers(one, demand, makers) for one in self.topology.branches]
        pairs = zip(self.topology.branches, starts, strict=True)
        reach = [unit for branch, start in pairs if start is not None for unit in branch[start:]]
        behind = f" (to the right of the block that makes {listed(read)})" if read else ""
        if all(start is None for start in starts):
            problem = f"{name} reads {listed(read)}, which no branch makes together"
        elif demand.window is None:
            have = "; ".join(_left(unit, loads[unit.number]) for unit in reach[:4])
            more = f"; and {len(reach) - 4} more blocks" if len(reach) > 4 else ""
            problem = (
                f"{name} needs a block with room for {_operators(demand)}; {have}{more}{behind}"
            )
        else:
            need = f"{name} needs a join block with a window of {demand.window:,}"
            problem = f"{need}{self._no_join_block(derived, demand, loads, reach)}{behind}"
        return InputError(
            f"{problem}; topology {self.topology.name}",
            f"Drop a query, write smaller windows, take a larger topology, or {ELSEWHERE}.",
        )

    def _no_join_block(
        self, derived: bool, demand: Demand, loads: Mapping[int, _Load], reach: Sequence[Unit]
    ) -> str:
        """Why none of the blocks that a join could have is large enough and free."""
        assert demand.window is not None
        free = [unit for unit in reach if not loads[unit.number].queries]
        if not free and len(reach) == len(loads):
            return f", and all {len(loads)} blocks serve other queries"
        if not free:
            return ", and none is free"
        problem = f"; the largest free one has {max(unit.window for unit in free):,}"
        if derived or demand.is_ordered:
            why = "a derived stream" if derived else "a query with EMIT ORDER"
            return f"{problem}, and the join of {why} does not span several"
        return f"{problem}, and free neighbours together have no room for {demand.window:,}"

    def explain(self, program: Program) -> str:
        """The line of EXPLAIN: the blocks of a query, and what it asks of them."""
        demand, blocks = demand_of(program), program.flow.blocks or ()
        where = f"of topology {self.topology.name}"
        if demand.window is None:
            return f"placement: {_named(blocks)} {where}, {_operators(demand)}"
        if len(blocks) == 1:
            return f"placement: {_named(blocks)} {where}, a join with windows of {demand.window:,}"
        return (
            f"placement: {_named(blocks)} {where}, a join with windows of {demand.window:,} that "
            "spans them (low-latency handshake join)"
        )

    # -- instructions -----------------------------------------------------------------------

    def instructions(
        self,
        query: int,
        program: Program,
        derived: str | None,
        number_of: Callable[[str], int],
        is_new: bool,
    ) -> list[OPInstruction]:
        """What the blocks of a query are sent.

        Parameters
        ----------
        query
            Its number.
        program
            Its program, with its blocks.
        derived
            The name of the stream that its rows are; None: they are a result.
        number_of
            The number of a stream on the topology.
        is_new
            Whether it starts; False: it changes, and its windows stay.
        """
        demand, blocks = demand_of(program), program.flow.blocks
        assert blocks, "it has been assigned"
        spans = demand.window is not None and len(blocks) > 1
        gives = None if derived is None else number_of(derived.lower())
        port: ResultPort = "final" if derived is None else "stream-r"
        reads = ReadPorts(
            tuple(number_of(stream.name.lower()) for stream in demand.streams),
            _ports([stream.derived for stream in demand.streams]),
            gives,
        )
        found: list[OPInstruction] = []
        for part, number in enumerate(blocks):
            bodies: list[OPInstruction] = []
            if is_new:
                bodies.append(OPInstruction(number, query, ResetBlock(port)))
            bodies.append(OPInstruction(number, query, reads))
            if spans:
                capacity = self.topology.blocks[number].window
                bodies.append(OPInstruction(number, query, JoinPart(part, len(blocks), capacity)))
            bodies += [OPInstruction(number, query, body) for body in demand.bodies]  # type: ignore[arg-type]
            found += bodies
        return found


def _ports(derived: Sequence[bool]) -> tuple[PortName, ...]:
    """The port by which each input comes: an intermediate result by R, another stream by S."""
    if len(derived) == 1:
        return ("r",)
    return ("s", "r") if derived[1] and not derived[0] else ("r", "r" if all(derived) else "s")


def _quoted(name: str) -> str:
    """A query in a message; that of EXPLAIN has no name."""
    return f"query {name!r}" if name else "the query"


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"block {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"blocks {numbers[0]} to {numbers[-1]}"
    return f"blocks {listed(map(str, numbers))}"


def _operators(asked: Demand) -> str:
    """How many selections and projections a query has."""
    selections = counted(asked.selections, "selection")
    return f"{selections} and {counted(asked.projections, 'projection')}"


def _left(unit: Unit, load: _Load) -> str:
    """What a block has room for, beside what it serves."""
    if load.join is not None:
        return _serving(unit.number, load)
    selections, projections = _most(unit)
    return (
        f"block {unit.number} has room for "
        f"{counted(selections - load.selections, 'selection')} and "
        f"{counted(projections - load.projections, 'projection')}"
    )


def _most(unit: Unit) -> tuple[int, int]:
    """How many selections and projections a block has room for (§4.5.7)."""
    return max(1, unit.window // 2), unit.window


def _serving(number: int, load: _Load) -> str:
    if load.join is not None:
        return f"block {number} serves the join of {load.join}"
    if not load.queries:
        return f"block {number} is free"
    return (
        f"block {number} has {counted(load.selections, 'selection')} and "
        f"{counted(load.projections, 'projection')}"
    )
