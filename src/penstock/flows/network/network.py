"""Networks: units, the wires between them, and the FIFOs that wires become.

A unit has ports, as :mod:`penstock.blocks.contract` defines. The network says what is wired to
what; a driver decides when a unit takes its next message. There is one kind of network, for the
blocks of a query and for the cores of a flow, and every driver runs it:
:mod:`penstock.flows.network.inline` on the caller's thread, :mod:`penstock.flows.network.threads`
on a thread per unit, :mod:`penstock.testing.schedule` one step at a time by a seed, and
:mod:`penstock.testing.explore` in every order.

Why the driver of a query does not decide its output. A block has one input, and takes the messages
of a FIFO in the order in which they were written. Where several paths meet, the synchroniser
declines the input that is ahead, so that what it makes depends on what came by each input and not
on when. So every unit makes the same messages by the same outputs in the same order, whichever
moves first; only messages by different exits may come in another order to each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.blocks.contract import Block, Measures, Paced, Port, Sent, Unit


class Fifo:
    """Messages in order, from one thread to another, without a lock.

    A deque's append and popleft are atomic. ``capacity`` bounds writers that can wait;
    a message that must leave (an acknowledgement) exceeds it, and such messages are few.
    """

    __slots__ = ("capacity", "messages")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.messages: deque[Any] = deque()
        """The waiting messages. Only the reader and the writer may change them."""

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.messages)

    @property
    def has_room(self) -> bool:
        """Whether a writer need not wait."""
        return len(self.messages) < self.capacity

    def put(self, message: Any) -> None:
        """Add a message at the end."""
        self.messages.append(message)

    def first(self) -> Any:
        """The message that comes next, left where it is."""
        return self.messages[0]

    def get(self) -> Any:
        """Take the message that comes next."""
        return self.messages.popleft()


__all__ = [
    "Driver",
    "Fifo",
    "Network",
    "Paced",
    "Port",
    "Sent",
    "Steady",
    "run",
    "with_loads",
    "within",
]


class Steady:
    """A block as drivers run it: it declines nothing, and sends nothing of its own accord."""

    def __init__(self, block: Block) -> None:
        self.name = block.name
        self.inputs = block.inputs
        self._block = block

    @property
    def step(self) -> Callable[[Port, Any], Iterable[Sent]]:
        """That of the block."""
        return self._block.step

    def needs(self, port: Port) -> Sequence[Port]:
        """Room in every output: the block may use each of them."""
        return self._block.outputs

    def forward(self, has_room: Callable[[Port], bool]) -> Sequence[Sent]:
        """Nothing: a block makes messages of messages."""
        return ()

    def measures(self) -> Measures:
        """Those of the block."""
        return self._block.measures()


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
        Units with little work, which the thread that feeds and drains the network may do itself.
    steady
        Units that decline nothing and send nothing of their own accord: a driver need not ask them.
    """

    units: list[Paced]
    wires: dict[tuple[str, Port], tuple[str, Port]] = field(default_factory=dict)
    entries: dict[str, tuple[str, Port]] = field(default_factory=dict)
    exits: dict[tuple[str, Port], str] = field(default_factory=dict)
    at_ends: set[str] = field(default_factory=set)
    steady: set[str] = field(default_factory=set)

    def place(self, block: Block) -> None:
        """Add a block."""
        self.units.append(Steady(block))
        self.steady.add(block.name)

    def wire(self, source: Unit, output: Port, target: Unit, port: Port) -> None:
        """Connect an output with an input."""
        self.wires[source.name, output] = (target.name, port)

    def enter(self, name: str, target: Unit, port: Port) -> None:
        """Let messages in."""
        self.entries[name] = (target.name, port)

    def leave(self, source: Unit, output: Port, name: str) -> None:
        """Let messages out."""
        self.exits[source.name, output] = name

    def include(self, name: str, part: Network) -> None:
        """Add the units of another network; they, its entries and its exits get other names."""

        def renamed(old: str) -> str:
            return name if len(part.units) == 1 else within(name, old)

        def port(end: tuple[str, Port]) -> tuple[str, Port]:
            return renamed(end[0]), end[1]

        self.wires.update({port(source): port(end) for source, end in part.wires.items()})
        self.entries.update({within(name, old): port(end) for old, end in part.entries.items()})
        self.exits.update({port(source): within(name, old) for source, old in part.exits.items()})
        self.at_ends |= {renamed(old) for old in part.at_ends}
        self.steady |= {renamed(old) for old in part.steady}
        for unit in part.units:
            unit.name = renamed(unit.name)
        self.units += part.units


def within(name: str, part: str) -> str:
    """The name of a part of something in a network that includes it.

    >>> within("core 1", "stage 0")
    'core 1, stage 0'
    """
    return f"{name}, {part}"


def with_loads(figures: dict[str, Any], name: str, driver: Driver | None) -> dict[str, Any]:
    """A core's figures, and what its driver knows of it."""
    if driver is None:
        return {**figures, "depth": 0, "busy": None}
    return {**figures, "depth": driver.depths()[name], "busy": driver.loads().get(name)}


class Driver(Protocol):
    """Runs the units of a network, whatever they are.

    What leaves by one exit of a unit comes in order; between exits there is none.
    """

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False if there is no room, and nothing is done."""

    def received(self) -> Iterable[tuple[str, Any]]:
        """Take what has come out, with the exit it came by.

        A driver without threads may do the work meanwhile: no faster than it is asked for.
        """

    def wait(self) -> None:
        """Return once something has come out, there is room, or nothing moves any more.

        It may return before, so that the caller can pause.
        An error of a unit is raised here, or by any other call.
        """

    def settled(self) -> bool:
        """Whether no message is on its way or has come out, and no unit has anything to do."""

    def depths(self) -> dict[str, int]:
        """How many messages wait before each unit."""

    def loads(self) -> dict[str, float]:
        """For which part of the time each unit has been at work; empty if time is not measured."""

    def close(self) -> None:
        """Stop."""


def run(driver: Driver, messages: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Put messages in, each by its entry, and give all that comes out until nothing moves."""
    for entry, message in messages:
        while not driver.send(entry, message):
            yield from driver.received()
            driver.wait()
    yield from driver.received()
    while not driver.settled():
        driver.wait()
        yield from driver.received()
