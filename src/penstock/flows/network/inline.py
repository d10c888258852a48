"""The driver on the caller's thread: a message goes all the way before the next one moves.

There are no FIFOs between units. What a unit makes goes on, depth first, before it makes more,
so that the rows of a batch come out a few at a time, and no faster than they are asked for. A unit
that declines a message, or is in the middle of a step, is given it after its next step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.blocks.contract import Paced, Port, Sent
from penstock.flows.network.network import Network


class _Node:
    """A unit, and where each of its outputs leads: to a node's port, or out by an exit.

    ``needs``, ``forward`` and ``passes`` are those of the unit, None if it need not be asked.
    ``sent`` is what it makes in the step that it is in, None outside of a step; ``held`` has, by
    port, the messages that it could not take yet.
    """

    __slots__ = ("forward", "held", "leads", "name", "needs", "passes", "sent", "step")

    def __init__(self, unit: Paced, is_steady: bool) -> None:
        self.name = unit.name
        self.step = unit.step
        self.needs = None if is_steady else unit.needs
        self.forward = None if is_steady else unit.forward
        self.passes: Callable[[Port, Any], Port | None] | None = getattr(unit, "passes", None)
        self.leads: dict[Port, tuple[_Node | None, str]] = {}
        self.sent: Iterator[Sent] | None = None
        self.held: dict[Port, deque[Any]] = {}


class Inline:
    """Runs a network while its output is asked for. Where every output leads is looked up once."""

    def __init__(self, network: Network) -> None:
        self._nodes = [_Node(unit, unit.name in network.steady) for unit in network.units]
        named = {node.name: node for node in self._nodes}
        for (source, output), (target, port) in network.wires.items():
            named[source].leads[output] = (named[target], port)
        for (source, output), name in network.exits.items():
            named[source].leads[output] = (None, name)
        self._entries = {
            name: (named[target], port) for name, (target, port) in network.entries.items()
        }
        self._in_step: list[_Node] = []
        self._held = 0
        for node in self._nodes:
            self._go_on(node)

    def send(self, entry: str, message: Any) -> bool:
        """Put a message in; False, and nothing done, if another one is on its way."""
        node, port = self._entries[entry]
        if self._in_step or port in node.held:
            return False
        if node.needs is not None and node.needs(port) is None:
            self._hold(node, port, message)
        else:
            self._begin(node, node.step(port, message))
        return True

    def received(self) -> Iterator[tuple[str, Any]]:
        """Go on with what was made last, until nothing is left: depth first, without recursion."""
        in_step = self._in_step
        while in_step:
            node = in_step[-1]
            leads, sent = node.leads, node.sent
            assert sent is not None
            for output, made in sent:
                target, where = leads[output]
                while target is not None and target.passes is not None:
                    through = target.passes(where, made)
                    if through is None:
                        break
                    target, where = target.leads[through]
                if target is None:
                    yield where, made
                elif (
                    target.sent is not None
                    or where in target.held
                    or (target.needs is not None and target.needs(where) is None)
                ):
                    self._hold(target, where, made)
                else:
                    target.sent = iter(target.step(where, made))
                    in_step.append(target)
                    break
            else:
                in_step.pop()
                node.sent = None
                if node.held or node.forward is not None:
                    self._go_on(node)

    def _begin(self, node: _Node, sent: Iterable[Sent]) -> None:
        """Let a node be in a step that makes these messages."""
        node.sent = iter(sent)
        self._in_step.append(node)

    def _hold(self, node: _Node, port: Port, message: Any) -> None:
        """Let a node take a message later."""
        node.held.setdefault(port, deque()).append(message)
        self._held += 1

    def _go_on(self, node: _Node) -> None:
        """After a step, begin one with a message that was held, or of the unit's own accord."""
        for port, messages in node.held.items():
            if node.needs is None or node.needs(port) is not None:
                message = messages.popleft()
                self._held -= 1
                if not messages:
                    del node.held[port]
                self._begin(node, node.step(port, message))
                return
        own = () if node.forward is None else tuple(node.forward(_has_room))
        if own:
            self._begin(node, own)

    def wait(self) -> None:
        """Return at once: what can move has moved while the output was taken."""

    def settled(self) -> bool:
        """Whether no message is on its way."""
        return not self._in_step and not self._held

    def depths(self) -> dict[str, int]:
        """How many messages each unit has not taken yet."""
        return {node.name: sum(map(len, node.held.values())) for node in self._nodes}

    def loads(self) -> dict[str, float]:
        """No loads: time is not measured."""
        return {}

    def close(self) -> None:
        """Do nothing: no thread runs."""


def _has_room(output: Port) -> bool:
    """There is room everywhere: what is made is taken before more is made."""
    return True
