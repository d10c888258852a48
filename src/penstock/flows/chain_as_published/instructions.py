"""What travels between the OP-Blocks of a chain beside tuples: requests, grants, instructions."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.blocks.join.partner_search import Rule


@dataclass(frozen=True)
class Request:
    """The sender has something for this neighbour."""

    def __str__(self) -> str:
        return "a request"


@dataclass(frozen=True)
class Grant:
    """The sender takes what this neighbour has for it, and sends nothing meanwhile."""

    def __str__(self) -> str:
        return "a grant"


@dataclass(frozen=True)
class Reset:
    """Empty the Query Buffer and both window buffers."""


@dataclass(frozen=True, eq=False)
class JoinInstruction:
    """Join by a rule; the window buffers have room for these numbers of tuples of R and of S."""

    rule: Rule
    capacities: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Instruction:
    """An instruction on its way to a block: B-ID, and what to do."""

    block: int
    body: Reset | JoinInstruction

    def __str__(self) -> str:
        """What it is, for an error to say where."""
        what = "a reset" if isinstance(self.body, Reset) else "a join"
        return f"{what} for OP-Block {self.block}"
