"""The driver for tests: one step after another, in an order that a seed decides.

It runs the same units as :mod:`penstock.flows.threads`, and any order of steps that threads could
take is one that it may take too. A failing order can be shown and taken again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.flows.fifo import Fifo
from penstock.flows.network import Network, Port, Sent, Unit

CAPACITY = 4
EAGER = 0.7
"""How likely it is that the network does something more before the next message is put in."""


@dataclass(frozen=True)
class Step:
    """A unit took a message from an input, or, with no input, forwarded of its own accord."""

    unit: str
    port: Port | None
    message: str

    def __str__(self) -> str:
        if self.port is None:
            return f"{self.unit} forwards {self.message}"
        return f"{self.unit} takes {self.message} from {self.port}"


@dataclass
class _Place:
    """A unit and its FIFOs."""

    unit: Unit
    inputs: dict[Port, Fifo]
    outputs: dict[Port, Fifo]
    content: bool = False
    """It has nothing to forward as things are."""
    turns: int = 0


class Schedule:
    """Runs a network step by step, taking the next one at random.

    Parameters
    ----------
    network
        What to run.
    seed
        Decides the order.
    capacity
        The room in each FIFO.
    slow
        Units that let a turn pass: with 3, every third turn is taken.
    """

    def __init__(
        self,
        network: Network,
        seed: int = 0,
        capacity: int = CAPACITY,
        slow: Mapping[str, int] | None = None,
    ) -> None:
        self._random = random.Random(seed)
        self._slow = dict(slow or {})
        self._places = {unit.name: _Place(unit, {}, {}) for unit in network.units}
        self._writers: dict[int, _Place] = {}
        self._entries: dict[str, Fifo] = {}
        self._exits: list[tuple[str, Fifo, _Place]] = []
        for (source, output), (target, port) in network.wires.items():
            fifo = Fifo(capacity)
            self._places[source].outputs[output] = fifo
            self._places[target].inputs[port] = fifo
            self._writers[id(fifo)] = self._places[source]
        for name, (target, port) in network.entries.items():
            self._entries[name] = self._places[target].inputs[port] = Fifo(capacity)
        for (source, output), name in network.exits.items():
            fifo = self._places[source].outputs[output] = Fifo(capacity)
            self._exits.append((name, fifo, self._places[source]))
        self.steps: list[Step] = []
        self.messages = 0

    # -- as flows use it --------------------------------------------------------------------

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False if there is no room, and nothing is done."""
        while self._random.random() < EAGER and self.advance():
            pass
        fifo = self._entries[entry]
        if not fifo.has_room:
            return False
        fifo.put(message)
        return True

    def received(self) -> list[tuple[str, Any]]:
        """Take what has come out, with the exit it came by."""
        came = []
        for name, fifo, place in self._exits:
            while len(fifo):
                came.append((name, fifo.get()))
                place.content = False
        return came

    def wait(self) -> None:
        """Take steps until something has come out, there is room, or nothing moves any more."""
        room = sum(fifo.has_room for fifo in self._entries.values())
        while self.advance():
            if any(len(fifo) for _, fifo, _ in self._exits):
                return
            if sum(fifo.has_room for fifo in self._entries.values()) > room:
                return

    def settled(self) -> bool:
        """Whether no message is on its way and no unit has anything to do."""
        return all(
            place.content and not any(len(fifo) for fifo in place.inputs.values())
            for place in self._places.values()
        )

    def loads(self) -> dict[str, float]:
        """Nothing: steps take no time here."""
        return {}

    def depths(self) -> dict[str, int]:
        """How many messages wait before each unit."""
        return {
            name: sum(len(fifo) for fifo in place.inputs.values())
            for name, place in self._places.items()
        }

    def waiting(self, kind: type) -> dict[str, int]:
        """The most messages of a kind that wait before each unit in one FIFO."""
        return {
            name: max(sum(isinstance(m, kind) for m in fifo) for fifo in place.inputs.values())
            for name, place in self._places.items()
        }

    def close(self) -> None:
        """Nothing runs by itself."""

    # -- steps ------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Take one step; False if there is none to take."""
        enabled = self._enabled()
        while enabled:
            number = self._random.randrange(len(enabled))
            place, port = enabled[number]
            place.turns += 1
            if place.turns % self._slow.get(place.unit.name, 1):
                continue
            if port is not None:
                self._take(place, port)
                return True
            if self._forward(place):
                return True
            enabled.pop(number)
        return False

    def _enabled(self) -> list[tuple[_Place, Port | None]]:
        found: list[tuple[_Place, Port | None]] = []
        for place in self._places.values():
            for port, fifo in place.inputs.items():
                if len(fifo) and self._may_take(place, port):
                    found.append((place, port))
            if not place.content:
                found.append((place, None))
        return found

    @staticmethod
    def _may_take(place: _Place, port: Port) -> bool:
        needs = place.unit.needs(port)
        return needs is not None and all(place.outputs[output].has_room for output in needs)

    def _take(self, place: _Place, port: Port) -> None:
        fifo = place.inputs[port]
        message = fifo.get()
        writer = self._writers.get(id(fifo))
        if writer is not None:
            writer.content = False
        place.content = False
        self.steps.append(Step(place.unit.name, port, str(message)))
        self._put_all(place, place.unit.step(port, message))

    def _forward(self, place: _Place) -> bool:
        sent = self._put_all(
            place, place.unit.forward(lambda output: place.outputs[output].has_room)
        )
        if not sent:
            place.content = True
            return False
        self.steps.append(Step(place.unit.name, None, " and ".join(sent)))
        return True

    def _put_all(self, place: _Place, messages: Iterable[Sent]) -> list[str]:
        sent = []
        for output, message in messages:
            place.outputs[output].put(message)
            self.messages += 1
            sent.append(str(message))
        return sent
