"""The result aggregation buffer of a topology, as drawings need it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.processor.topology.kinds import OP_BLOCK
from penstock.processor.topology.parts import UnitPort, Wire
from penstock.processor.topology.topology import Topology


@dataclass(frozen=True)
class ResultsTree:
    """The tree over the results of blocks.

    Parameters
    ----------
    children
        The units that feed each node, in the order of its ports; the nodes by their heights.
    wires
        The wire by which the results of each unit but the root go on.
    heights
        How many nodes a result goes through at most, up to and with each; 0 for a block.
    root
        The unit whose output is the exit.
    """

    children: dict[str, list[str]]
    wires: dict[str, Wire]
    heights: dict[str, int]
    root: str

    @property
    def levels(self) -> int:
        """How many nodes a result goes through at most."""
        return self.heights[self.root]


def results_tree(topology: Topology) -> ResultsTree:
    """The tree over the results of a topology's blocks."""
    nodes = [unit for unit in topology.units if unit.kind != OP_BLOCK]
    leading = {wire.target: wire for wire in topology.wires}
    children: dict[str, list[str]] = {}
    wires: dict[str, Wire] = {}
    for node in nodes:
        found = [leading[UnitPort(node.name, port.name)] for port in node.traits.inputs]
        children[node.name] = [wire.source.unit for wire in found]
        wires |= {wire.source.unit: wire for wire in found}
    heights = {unit.name: 0 for unit in topology.units if unit.kind == OP_BLOCK}
    # From the root down, so that every node comes after those it feeds; a tree may be deep.
    order = [topology.exit.unit]
    for name in order:
        order += [child for child in children.get(name, ()) if child in children]
    for name in reversed(order):
        if name in children:
            heights[name] = 1 + max(heights[child] for child in children[name])
    children = {name: children[name] for name in sorted(children, key=heights.__getitem__)}
    return ResultsTree(children, wires, heights, topology.exit.unit)
