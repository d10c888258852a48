"""Random topologies: branches of several lengths, any names, numbers and windows, any tree."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.processor.topology.topology import Topology
from penstock.program.isa.words.layout import WordLayout

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
TITLES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda name: bool(name.strip())
)


@st.composite
def topologies(draw: Any) -> Topology:
    """A topology of one to four branches of up to four blocks."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    count = sum(lengths)
    names = draw(st.lists(NAMES, min_size=2 * count - 1, max_size=2 * count - 1, unique=True))
    numbers = draw(st.lists(st.integers(1, 60_000), min_size=count, max_size=count, unique=True))
    widths = WordLayout(
        port=8 * draw(st.integers(9, 40)),
        attribute=draw(st.integers(2, 32)),
        value=draw(st.integers(1, 40)),
        b_id=draw(st.integers((max(numbers) - 1).bit_length() or 1, 20)),
    )
    width = draw(st.sampled_from([0, widths.port]))
    blocks = [
        Unit(name, "op-block", number, draw(st.integers(1, 1 << 30)), width)
        for name, number in zip(names, numbers, strict=False)
    ]
    wires, entries, ends, rest = [], [], [], list(blocks)
    for length in lengths:
        chain, rest = rest[:length], rest[length:]
        entries += [UnitPort(chain[0].name, "r"), UnitPort(chain[-1].name, "s")]
        ends += [UnitPort(chain[-1].name, "r-out"), UnitPort(chain[0].name, "s-out")]
        for left, right in pairwise(chain):
            wires.append(Wire(UnitPort(left.name, "r-out"), UnitPort(right.name, "r")))
            wires.append(Wire(UnitPort(right.name, "s-out"), UnitPort(left.name, "s")))
    nodes = [Unit(name, "buffer-node") for name in names[count:]]
    loose = [UnitPort(block.name, "final") for block in blocks]
    for node in nodes:  # a tree of any shape: any two that have no way yet
        for port in ("left", "right"):
            source = loose.pop(draw(st.integers(0, len(loose) - 1)))
            wires.append(Wire(source, UnitPort(node.name, port)))
        loose.append(UnitPort(node.name, "out"))
    [exit_port] = loose
    return Topology(
        draw(TITLES),
        tuple(draw(st.permutations([*blocks, *nodes]))),
        tuple(draw(st.permutations(wires))),
        tuple(draw(st.permutations(entries))),
        tuple(draw(st.permutations(ends))),
        exit_port,
        widths,
    )
