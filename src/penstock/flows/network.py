"""Join cores and what connects them: units that take messages and give messages, and wires.

A unit has no threads and knows nobody: it has ports. What is wired to what is the network's
business, and when a unit takes its next message is a driver's. Two drivers run the same units:
:mod:`penstock.flows.threads` and :mod:`penstock.flows.schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Port = str
Sent = tuple[Port, Any]
"""A message and the output port it leaves by."""


class Unit(Protocol):
    """A join core, a node of a distribution tree, a merger."""

    @property
    def name(self) -> str:
        """What errors and metrics call it."""

    @property
    def inputs(self) -> Sequence[Port]:
        """Its input ports; where several have messages, in this order."""

    def needs(self, port: Port) -> Sequence[Port] | None:
        """The outputs that must have room before a message is taken from this input.

        A message from this input may leave by other outputs too; those must always take it. None:
        nothing is to be taken from it now.
        """

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take one message; gives those that it causes."""

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Messages of the unit's own accord, one step's worth; none if it is content as it is."""

    def measures(self) -> dict[str, Any]:
        """What it has counted, and the size of what it holds."""


@dataclass
class Network:
    """Units and the FIFOs between them.

    Parameters
    ----------
    units
        All of them.
    wires
        From (unit, output) to (unit, input): one FIFO each, with one writer and one reader.
    entries
        Where a driver puts messages in, by name.
    exits
        The outputs that a driver takes messages from, by (unit, output).
    at_ends
        Units with so little to do that whoever feeds and drains the network may do it himself.
    """

    units: list[Unit]
    wires: dict[tuple[str, Port], tuple[str, Port]] = field(default_factory=dict)
    entries: dict[str, tuple[str, Port]] = field(default_factory=dict)
    exits: dict[tuple[str, Port], str] = field(default_factory=dict)
    at_ends: set[str] = field(default_factory=set)

    def wire(self, source: Unit, output: Port, target: Unit, port: Port) -> None:
        """Connect an output with an input."""
        self.wires[source.name, output] = (target.name, port)

    def enter(self, name: str, target: Unit, port: Port) -> None:
        """Let messages in."""
        self.entries[name] = (target.name, port)

    def leave(self, source: Unit, output: Port, name: str) -> None:
        """Let messages out."""
        self.exits[source.name, output] = name


def with_loads(figures: dict[str, Any], name: str, driver: Driver | None) -> dict[str, Any]:
    """A core's figures, and what its driver knows of it."""
    if driver is None:
        return {**figures, "depth": 0, "busy": None}
    return {**figures, "depth": driver.depths()[name], "busy": driver.loads().get(name)}


class Driver(Protocol):
    """Whoever runs the units of a network."""

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False if there is no room, and nothing is done."""

    def received(self) -> list[tuple[str, Any]]:
        """Take what has come out, with the exit it came by."""

    def wait(self) -> None:
        """Return once something has come out, there is room, or nothing moves any more.

        An error of a unit is raised here, or by any other call.
        """

    def settled(self) -> bool:
        """Whether no message is on its way and no unit has anything to do."""

    def depths(self) -> dict[str, int]:
        """How many messages wait before each unit."""

    def loads(self) -> dict[str, float]:
        """For which part of the time each unit has been at work; nothing where time is not kept."""

    def close(self) -> None:
        """Stop."""
