"""The kinds of units: their ports, what these carry, and what a topology says of a unit.

A new kind of unit is one entry of :data:`KINDS`; if it carries something new, one of
:data:`COURSES` too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """What travels over wires of one sort, and which way.

    Parameters
    ----------
    summary
        What it is.
    axis
        The axis along which it leads. Wires along one axis form no cycle.
    against
        It leads against the axis.
    returned_by
        The course that leads the other way between the same two units; None: there is none.
    passes
        It enters a topology and leaves it again; False: the units make it, and it goes to the exit.
    """

    summary: str
    axis: str
    against: bool = False
    returned_by: str | None = None
    passes: bool = False


COURSES: dict[str, Course] = {
    "r": Course("stream R", "left to right", returned_by="s", passes=True),
    "s": Course(
        "stream S with the instructions",
        "left to right",
        against=True,
        returned_by="r",
        passes=True,
    ),
    "results": Course("results", "to the exit"),
}
"""The courses by name. In FQP, R leads right and S left, and results lead to the exit."""


@dataclass(frozen=True)
class Port:
    """A port of a kind of unit, and the course that it carries."""

    name: str
    carries: str


@dataclass(frozen=True)
class UnitKind:
    """A kind of unit.

    Parameters
    ----------
    summary
        What a unit does, in one line.
    inputs, outputs
        Its ports.
    parameters
        What a topology says of a unit beside its name and width, from :data:`PARAMETERS`.
    """

    summary: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[str, ...] = ()


OP_BLOCK = "op-block"
BUFFER_NODE = "buffer-node"

KINDS: dict[str, UnitKind] = {
    OP_BLOCK: UnitKind(
        "does what instructions say: selections and projections, or a join",
        inputs=(Port("r", "r"), Port("s", "s")),
        outputs=(Port("r-out", "r"), Port("s-out", "s"), Port("final", "results")),
        parameters=("number", "window"),
    ),
    BUFFER_NODE: UnitKind(
        "merges the results of two units: a node of the result aggregation buffer",
        inputs=(Port("left", "results"), Port("right", "results")),
        outputs=(Port("out", "results"),),
    ),
}
"""The kinds of units by name. The ports of an OP-Block are those of Fig. 4.1.1."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a unit: what it says, and the largest value; the smallest is 1."""

    summary: str
    most: int


MOST_BLOCKS = 4096
"""Numbered units of a topology, at most: eight times the largest chain of the dissertation."""

MOST_WIDTH = 4096
"""Bits of a port, at most."""

PARAMETERS: dict[str, Parameter] = {
    "number": Parameter("the number by which instructions name it (B-ID)", 65_536),
    "window": Parameter("how many tuples of each stream it has room for", 1 << 30),
}
"""The parameters of units: fields of :class:`penstock.processor.topology.topology.Unit`."""
