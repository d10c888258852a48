"""The Result Aggregation Buffer: a tree of Buffer Nodes (Najafi 2019 §4.2, §4.5).

The leaves of the tree are the result ports of OP-Blocks, and its root is the output port of the
processor. A node changes no message and holds none back: the memory of a node is the FIFOs on its
two inputs, whose room the driver sets. So every message comes out once, and messages of one block
come out in the order in which the block made them, since they have one path and each wire of it
keeps their order. Between blocks there is no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.blocks.contract import OUT, Measures, Port, Sent, Unit
from penstock.flows.network.network import Network

LEFT: Port = "left"
RIGHT: Port = "right"
Output = tuple[Unit, Port]
"""A unit, and the output port by which its results leave it."""


class BufferNode:
    """A two-to-one merger: what comes by either input goes on by the one output."""

    inputs: Sequence[Port] = (LEFT, RIGHT)

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = {port: 0 for port in self.inputs}
        """The messages that have come by each input."""

    def needs(self, port: Port) -> Sequence[Port]:
        """What comes in goes on at once; while it cannot, it waits in the FIFO of its input."""
        return (OUT,)

    def step(self, port: Port, message: Any) -> Sequence[Sent]:
        """Pass a message on."""
        self.counts[port] += 1
        return [(OUT, message)]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """Nothing: a node makes no messages."""
        return ()

    def measures(self) -> Measures:
        """How many messages have come by each input."""
        return {"merged": [self.counts[port] for port in self.inputs]}


def result_aggregation_buffer(
    network: Network, results: Sequence[Output], name: str = "buffer node"
) -> Output:
    """Add a tree of Buffer Nodes to a network; gives its root, for the caller to let out.

    Neighbours are merged first, so the way from any result port to the root has at most
    ``ceil(log2(n))`` nodes. One result port is its own root.

    Parameters
    ----------
    network
        Has the units of the result ports already.
    results
        The result ports, in the order of their units; at least one, and none wired elsewhere.
    name
        What the nodes are called, with a number after it: unique in the network.
    """
    level, made = list(results), 0
    while len(level) > 1:
        merged: list[Output] = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            node = BufferNode(f"{name} {made}")
            made += 1
            network.units.append(node)
            network.steady.add(node.name)
            network.wire(*left, node, LEFT)
            network.wire(*right, node, RIGHT)
            merged.append((node, OUT))
        # An odd one out joins the others a level higher.
        level = [*merged, level[-1]] if len(level) % 2 else merged
    return level[0]
