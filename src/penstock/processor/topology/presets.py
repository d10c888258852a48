"""Topologies by name: ``fqp:chain:9``, ``fqp:chain:9:512`` with the window of each block.

A new preset is one entry of :data:`PRESETS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.errors import TopologyError
from penstock.processor.topology.kinds import BUFFER_NODE, MOST_BLOCKS, OP_BLOCK, PARAMETERS
from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.processor.topology.topology import Topology
from penstock.program.isa.words.layout import WordLayout
from penstock.streams.display import listed

WINDOW = 1 << 17
"""The window of a block whose topology says none, in tuples of each stream.

The dissertation's blocks have 512, since block RAM is scarce. Here a window takes memory for the
tuples that it has, so that room costs nothing until it is used, and a join within one block has
more options than one that spans several (outer joins, an order of rows). 2^17 is the window of the
demo; two windows of it are some ten megabytes of narrow tuples.
"""


@dataclass(frozen=True)
class Preset:
    """A family of topologies.

    Parameters
    ----------
    size
        How its size is written, as a pattern with a group for each number.
    form
        The same for people: ``N``.
    sizes
        What the size says.
    example
        A size.
    branches
        From the numbers of the size to the number of branches, and the blocks of each.
    """

    size: re.Pattern[str]
    form: str
    sizes: str
    example: str
    branches: Callable[[Sequence[int]], tuple[int, int]]


_NUMBER = re.compile(r"([0-9]+)")
_PAIR = re.compile(r"([0-9]+)x([0-9]+)")

PRESETS: dict[str, Preset] = {
    "fqp:chain": Preset(_NUMBER, "N", "the number of blocks", "9", lambda n: (1, n[0])),
    "fqp:parallel": Preset(_NUMBER, "N", "the number of blocks", "4", lambda n: (n[0], 1)),
    "fqp:partial": Preset(
        _PAIR, "AxB", "the numbers of branches and of blocks in each", "2x3", lambda n: (n[0], n[1])
    ),
}
"""The presets by the beginning of their names (Najafi 2019 §4.2)."""


def topology_of(name: str) -> Topology:
    """The topology of a preset's name; TopologyError names the part that is wrong.

    >>> topology_of("fqp:partial:2x3:512").branches[1][0]
    Unit(name='block-4', kind='op-block', number=4, window=512, width=0)
    """
    preset, parts = _preset(name)
    known = PRESETS[preset]
    if len(parts) > 2:
        raise _wrong(name, f"{':'.join(parts[2:])!r} is left over", preset)
    numbers = known.size.fullmatch(parts[0]) if parts else None
    if numbers is None:
        found = f"{known.sizes} {'are' if 'numbers' in known.sizes else 'is'}"
        raise _wrong(name, f"{found} {parts[0] if parts else ''!r}", preset)
    sizes = [_whole(text) for text in numbers.groups()]
    branches, length = known.branches(sizes)
    if not 1 <= branches * length <= MOST_BLOCKS:
        raise TopologyError(
            f"{name}: {branches * length:,} blocks", f"Take 1 to {MOST_BLOCKS:,} blocks."
        )
    window = WINDOW
    if len(parts) == 2:
        most = PARAMETERS["window"].most
        window = _whole(parts[1]) if _NUMBER.fullmatch(parts[1]) else 0
        if not 1 <= window <= most:
            raise TopologyError(
                f"{name}: the window of each block is {parts[1]!r}",
                f"Write how many tuples of each stream a block has room for: 1 to {most:,}.",
            )
    size = "x".join(map(str, sizes))
    return parallel_chains(f"{preset}:{size}:{window}", branches, length, window)


def _preset(name: str) -> tuple[str, list[str]]:
    """The preset that a name begins with, and the parts of the name after it."""
    for preset in PRESETS:
        if name == preset or name.startswith(f"{preset}:"):
            return preset, name[len(preset) + 1 :].split(":") if name != preset else []
    beginning = ":".join(name.split(":")[:2])
    raise TopologyError(
        f"there is no topology {beginning!r}", f"Write {forms()}, or the path of a TOML file."
    )


def forms() -> str:
    """How the names of presets are written, for a remedy."""
    written = [f"{preset}:{known.form}" for preset, known in PRESETS.items()]
    return f"{listed(written, 'or')}, or with the window of each block fqp:chain:9:512"


def _whole(digits: str) -> int:
    """The number, or one that is too large for any use: Python reads no longer ones."""
    return int(digits) if len(digits.lstrip("0")) <= 18 else 10**18


def _wrong(name: str, what: str, preset: str) -> TopologyError:
    known = PRESETS[preset]
    return TopologyError(
        f"{name}: {what}",
        f"Write {preset}:{known.form}, as {preset}:{known.example}, or with the window of each "
        f"block {preset}:{known.example}:512.",
    )


def parallel_chains(name: str, branches: int, length: int, window: int) -> Topology:
    """Branches of blocks in parallel, numbered branch by branch from left to right.

    ``fqp:chain`` has one branch, ``fqp:parallel`` branches of one block.
    """
    blocks = [
        Unit(f"block-{number}", OP_BLOCK, number, window)
        for number in range(1, branches * length + 1)
    ]
    wires: list[Wire] = []
    entries: list[UnitPort] = []
    ends: list[UnitPort] = []
    for start in range(0, len(blocks), length):
        chain = [block.name for block in blocks[start : start + length]]
        entries += [UnitPort(chain[0], "r"), UnitPort(chain[-1], "s")]
        ends += [UnitPort(chain[-1], "r-out"), UnitPort(chain[0], "s-out")]
        for left, right in pairwise(chain):
            wires += [
                Wire(UnitPort(left, "r-out"), UnitPort(right, "r")),
                Wire(UnitPort(right, "s-out"), UnitPort(left, "s")),
            ]
    nodes, gathering, root = aggregation_tree([UnitPort(block.name, "final") for block in blocks])
    return Topology(
        name,
        (*blocks, *nodes),
        (*wires, *gathering),
        tuple(entries),
        tuple(ends),
        root,
        WordLayout.fitting(len(blocks)),
    )


def aggregation_tree(results: Sequence[UnitPort]) -> tuple[list[Unit], list[Wire], UnitPort]:
    """A result aggregation buffer: two-to-one buffer nodes over ports that give results.

    Gives the nodes, their wires, and the port at the root. Every level pairs what the last has
    left; an odd one waits for the next level, so that all ways have about the same length.
    """
    nodes: list[Unit] = []
    wires: list[Wire] = []
    level = list(results)
    while len(level) > 1:
        above: list[UnitPort] = []
        for first, second in zip(level[::2], level[1::2], strict=False):
            node = f"node-{len(nodes) + 1}"
            nodes.append(Unit(node, BUFFER_NODE))
            wires += [Wire(first, UnitPort(node, "left")), Wire(second, UnitPort(node, "right"))]
            above.append(UnitPort(node, "out"))
        level = above + level[len(above) * 2 :]
    return nodes, wires, level[0]
