"""The Result Aggregation Buffer: a tree of Buffer Nodes (Najafi 2019 §4.2, §4.5).

The leaves of the tree are the result ports of OP-Blocks, and its root is the output port of the
processor; a topology has its nodes and wires. A node changes no message and holds none back: the
memory of a node is the FIFOs on its two inputs, whose room the driver sets. So every message comes
out once, and messages of one block come out in the order in which the block made them, since they
have one path and each wire of it keeps their order. Between blocks there is no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.blocks.contract import OUT, Measures, Port, Sent

LEFT: Port = "left"
RIGHT: Port = "right"


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
