"""A test driver for networks: one step after another, in an order drawn from a seed.

It runs the same units as :mod:`penstock.flows.network.threads`, and may take any order of steps
that threads could take. If steps may rest, a unit stops after any message that it makes, the last
one too, while others read the message and go on. A failing order can be printed and repeated. If a
unit raises an error, the others finish what they have been sent; then the error is raised, as with
threads.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.flows.network.network import Fifo, Network, Paced, Port, Sent

CAPACITY = 4
EAGER = 0.7
"""The probability that the network takes another step before the next message is put in."""


@dataclass(frozen=True)
class Step:
    """A unit took a message from an input or, without an input, forwarded on its own.

    What it makes after a rest is forwarded too.
    """

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

    unit: Paced
    inputs: dict[Port, Fifo]
    outputs: dict[Port, Fifo]
    content: bool = False
    """It has nothing to forward in its current state."""
    resting: Iterator[Sent] | None = None
    """What the rest of its step makes; None outside of a step."""
    turns: int = 0
    failure: Exception | None = None


class Schedule:
    """Runs a network step by step, choosing the next step at random.

    Parameters
    ----------
    network
        The network to run.
    seed
        Decides the order.
    capacity
        The room in each FIFO.
    slow
        Units that skip turns: one with 3 takes every third turn.
    resting
        The probability that a step rests after a message that it has made.
    """

    def __init__(
        self,
        network: Network,
        seed: int = 0,
        capacity: int = CAPACITY,
        slow: Mapping[str, int] | None = None,
        resting: float = 0,
    ) -> None:
        self._random = random.Random(seed)
        self._resting = resting
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
        """Put a message in; False, without an effect, if there is no room."""
        while self._random.random() < EAGER and self.advance():
            pass
        fifo = self._entries[entry]
        if not fifo.has_room or self._failures():
            return False
        fifo.put(message)
        return True

    def received(self) -> list[tuple[str, Any]]:
        """Take the output, with the exits it left by."""
        output = []
        for name, fifo, place in self._exits:
            while len(fifo):
                output.append((name, fifo.get()))
                place.content = False
        return output

    def wait(self) -> None:
        """Take steps until there is output, there is room, or no step is left."""
        room = sum(fifo.has_room for fifo in self._entries.values())
        while self.advance():
            if any(len(fifo) for _, fifo, _ in self._exits):
                return
            if sum(fifo.has_room for fifo in self._entries.values()) > room:
                return
        if not any(len(fifo) for _, fifo, _ in self._exits):
            for failure in reversed(self._failures()):
                raise failure

    def settled(self) -> bool:
        """Whether no message is in a FIFO and no unit has anything to do."""
        if self._failures() or any(len(fifo) for _, fifo, _ in self._exits):
            return False
        return all(
            place.content
            and place.resting is None
            and not any(len(fifo) for fifo in place.inputs.values())
            for place in self._places.values()
        )

    def loads(self) -> dict[str, float]:
        """No loads: steps take no time here."""
        return {}

    def depths(self) -> dict[str, int]:
        """The number of messages waiting at each unit."""
        return {
            name: sum(len(fifo) for fifo in place.inputs.values())
            for name, place in self._places.items()
        }

    def waiting(self, kind: type) -> dict[str, int]:
        """For each unit, the most messages of a kind that wait in one of its FIFOs."""
        return {
            name: max(sum(isinstance(m, kind) for m in fifo) for fifo in place.inputs.values())
            for name, place in self._places.items()
        }

    def close(self) -> None:
        """Do nothing: no thread runs."""

    # -- steps ------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Take one step; False if there is none."""
        enabled = self._enabled()
        while enabled:
            number = self._random.randrange(len(enabled))
            place, port = enabled[number]
            place.turns += 1
            if place.turns % self._slow.get(place.unit.name, 1):
                continue
            if place.resting is not None:
                self._go_on(place)
                return True
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
            if place.failure is not None:
                continue
            if place.resting is not None:
                found.append((place, None))
                continue
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
        try:
            made = place.unit.step(port, message)
        except Exception as error:
            place.failure = error
            return
        place.resting = iter(made)
        self._make(place)

    def _go_on(self, place: _Place) -> None:
        """Go on with a step after a rest."""
        sent = self._make(place)
        self.steps.append(Step(place.unit.name, None, " and ".join(sent) or "nothing more"))

    def _make(self, place: _Place) -> list[str]:
        """Let a step make messages until it is over or rests."""
        sent: list[str] = []
        assert place.resting is not None
        try:
            for output, message in place.resting:
                place.outputs[output].put(message)
                self.messages += 1
                sent.append(str(message))
                if self._rests():
                    return sent
        except Exception as error:
            place.failure = error
        place.resting = None
        return sent

    def _rests(self) -> bool:
        """Whether a step rests now."""
        return self._resting > 0 and self._random.random() < self._resting

    def _failures(self) -> list[Exception]:
        failures = [place.failure for place in self._places.values()]
        return [failure for failure in failures if failure is not None]

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
