"""The instructions that travel in the input like tuples and take effect at their position.

A user sends these. A query in them is SQL or a program; an engine compiles the SQL before an
instruction travels (:mod:`penstock.program.isa.encoding`). The instructions inside programs, for
blocks, are in :mod:`penstock.program.isa.block_instructions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.streams.schema import Stream


@dataclass(frozen=True)
class CreateStream:
    """Declare a stream that tuples can be pushed to."""

    stream: Stream


@dataclass(frozen=True)
class Derive:
    """``CREATE STREAM name AS ...``: a query whose rows are a stream that others can read."""

    name: str
    program: Program | str

    @property
    def asked_flow(self) -> FlowChoice:
        """The blocks of a topology that serve it; a derived stream has no other options."""
        blocks = self.program.flow.blocks if isinstance(self.program, Program) else None
        return FlowChoice(blocks=blocks)

    @property
    def text(self) -> str:
        """The SQL of the query."""
        return _sql(self.program)


@dataclass(frozen=True)
class Install:
    """Start a query, with empty windows.

    ``order`` overrides its EMIT ORDER, ``kernel`` the choice of its joins' or aggregates' kernel,
    ``flow`` how cores share joins; all of it holds for later changes too. A program has its flow,
    so that ``flow`` is of SQL alone: given with a program, it goes into that.
    """

    query: str
    program: Program | str
    order: str | None = None
    kernel: str | None = None
    flow: FlowChoice = ANY_FLOW

    def __post_init__(self) -> None:
        if isinstance(self.program, Program) and self.flow != ANY_FLOW:
            placed = self.program.placed(self.flow.over(self.program.flow))
            object.__setattr__(self, "program", placed)
            object.__setattr__(self, "flow", ANY_FLOW)

    @property
    def asked_flow(self) -> FlowChoice:
        """The flow that is asked for."""
        return self.program.flow if isinstance(self.program, Program) else self.flow

    @property
    def text(self) -> str:
        """The SQL of the query."""
        return _sql(self.program)


@dataclass(frozen=True)
class Change:
    """Give a running query another program. Its windows are kept."""

    query: str
    program: Program | str

    @property
    def text(self) -> str:
        """The SQL of the query."""
        return _sql(self.program)


@dataclass(frozen=True)
class Drop:
    """Stop a query, or remove a derived stream that no query reads. Emits nothing."""

    query: str


@dataclass(frozen=True)
class Reset:
    """Remove every query and every stream, and emit nothing. Positions continue."""


def _sql(program: Program | str) -> str:
    return program if isinstance(program, str) else program.text


Instruction = CreateStream | Derive | Install | Change | Drop | Reset
