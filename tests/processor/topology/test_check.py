"""The check of topologies that are made of Python objects: types, ways, and what is found at once.

What a file can have wrong is in ``test_toml_file.py``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.processor.topology.check import LONGEST_NAME
from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.processor.topology.presets import topology_of
from penstock.processor.topology.topology import Topology
from penstock.program.isa.words.layout import WordLayout

CHAIN = topology_of("fqp:chain:3:512")


def port(text: str) -> UnitPort:
    return UnitPort(*text.split("."))


def wire(text: str) -> Wire:
    source, target = text.split(" -> ")
    return Wire(port(source), port(target))


def wired(
    count: int,
    wires: list[str],
    entries: list[str],
    ends: list[str],
) -> Topology:
    """Blocks with these wires, and a tree over their results."""
    tree = topology_of(f"fqp:chain:{count}:8")
    gathered = [wire for wire in tree.wires if wire.target.unit.startswith("node-")]
    return Topology(
        "mine",
        (
            *(Unit(f"block-{number}", "op-block", number, 8) for number in range(1, count + 1)),
            *(Unit(f"node-{number}", "buffer-node") for number in range(1, count)),
        ),
        (*map(wire, wires), *gathered),
        tuple(map(port, entries)),
        tuple(map(port, ends)),
        tree.exit,
        tree.widths,
    )


def problems(made: Any) -> list[tuple[str, str]]:
    """What is wrong, and the remedies."""
    with pytest.raises(TopologyError) as caught:
        made()
    assert str(caught.value).startswith("topology ")
    return [(found.what, found.remedy) for found in caught.value.problems]


def test_r_into_s() -> None:
    """R cannot go on as S."""
    found = problems(
        lambda: wired(
            2,
            ["block-1.r-out -> block-2.s", "block-2.s-out -> block-1.s"],
            ["block-1.r", "block-2.r"],
            ["block-1.s-out", "block-2.r-out"],
        )
    )
    assert found == [
        (
            "wire block-1.r-out -> block-2.s: block-1.r-out carries stream R, and block-2.s takes "
            "stream S with the instructions",
            "Write block-1.r-out -> block-2.r.",
        )
    ]


def test_both_streams_one_way() -> None:
    """S that leads the way of R is a cycle: of two blocks, each would be to the left."""
    found = problems(
        lambda: wired(
            2,
            ["block-1.r-out -> block-2.r", "block-1.s-out -> block-2.s"],
            ["block-1.r", "block-1.s"],
            ["block-2.r-out", "block-2.s-out"],
        )
    )
    assert found == [
        (
            "a cycle left to right: block-1.r-out -> block-2.r, block-1.s-out -> block-2.s",
            "Remove one of these wires: each stream flows one way, R to the right and S to the "
            "left.",
        )
    ]


def test_all_units_are_as_wide_as_the_streams() -> None:
    units = tuple(replace(unit, width=128) for unit in CHAIN.units)
    found = problems(lambda: replace(CHAIN, units=units))
    assert found[0] == (
        "entry block-1.r: block-1 is 128 bits wide, and the width port is 64",
        "Leave out the width of block-1, or make the width port 128.",
    )
    assert replace(CHAIN, units=units, widths=WordLayout(port=128)).units == units


def ring(count: int) -> Topology:
    wires = []
    for left, right in pairwise([*range(1, count + 1), 1]):
        wires.append(f"block-{left}.r-out -> block-{right}.r")
        wires.append(f"block-{right}.s-out -> block-{left}.s")
    return wired(count, wires, [], [])


def test_a_ring() -> None:
    found = problems(lambda: ring(3))
    assert found == [
        (
            "a cycle left to right: block-1.r-out -> block-2.r, block-2.r-out -> block-3.r, "
            "block-3.r-out -> block-1.r",
            "Remove one of these wires: each stream flows one way, R to the right and S to the "
            "left.",
        )
    ]
    [(what, _)] = problems(lambda: ring(1))
    assert what == "a cycle left to right: block-1.r-out -> block-1.r"
    [(what, _)] = problems(lambda: ring(200))
    assert what == (
        "a cycle left to right: block-1.r-out -> block-2.r, block-2.r-out -> block-3.r, "
        "block-3.r-out -> block-4.r, block-4.r-out -> block-5.r, block-5.r-out -> block-6.r, "
        "block-6.r-out -> block-7.r, block-7.r-out -> block-8.r, … (192 more), "
        "block-200.r-out -> block-1.r"
    )


def test_a_ring_of_buffer_nodes() -> None:
    parallel = topology_of("fqp:parallel:3:8")
    gathering = [
        "block-2.final -> node-1.left",
        "block-3.final -> node-2.left",
        "node-1.out -> node-2.right",
        "node-2.out -> node-1.right",
    ]
    found = problems(
        lambda: replace(
            parallel, wires=tuple(map(wire, gathering)), exit=UnitPort("block-1", "final")
        )
    )
    assert found == [
        (
            "a cycle to the exit: node-1.out -> node-2.right, node-2.out -> node-1.right",
            "Remove one of these wires: results flow one way, to the exit.",
        )
    ]


def test_neighbours_have_both_streams_between_them() -> None:
    found = problems(
        lambda: wired(
            2,
            ["block-1.r-out -> block-2.r"],
            ["block-1.r", "block-1.s", "block-2.s"],
            ["block-1.s-out", "block-2.r-out", "block-2.s-out"],
        )
    )
    assert found == [
        (
            "wire block-1.r-out -> block-2.r: stream R leads from block-1 to block-2, and stream "
            "S with the instructions does not lead back",
            "Wire block-2.s-out to block-1.s: neighbours have both streams between them.",
        )
    ]
    found = problems(
        lambda: wired(
            2,
            ["block-2.s-out -> block-1.s"],
            ["block-1.r", "block-2.r", "block-2.s"],
            ["block-1.s-out", "block-1.r-out", "block-2.r-out"],
        )
    )
    assert found == [
        (
            "wire block-2.s-out -> block-1.s: stream S with the instructions leads from block-2 to "
            "block-1, and stream R does not lead back",
            "Wire block-1.r-out to block-2.r: neighbours have both streams between them.",
        )
    ]


def test_everything_of_a_stage_is_found_at_once() -> None:
    units = (
        Unit("block-1", "op-block", 1, 0),
        Unit("block-1", "op-block", 2, -1),
        Unit("x.y", "mill"),
    )
    found = problems(lambda: replace(CHAIN, units=units))
    assert [what for what, _ in found] == [
        "the window of block-1 is 0",
        "two units are called block-1",
        "the window of block-1 is -1",
        "a unit is called 'x.y'",
        "unit x.y is of the kind 'mill', which there is not",
    ]


@pytest.mark.parametrize(
    ("changes", "what", "remedy"),
    [
        ({"name": 3}, "its name is 3", "Write the name as a string."),
        (
            {"name": "a\ud800"},
            "its name is 'a\\ud800', which no file can hold",
            "Give it a name without lone surrogates.",
        ),
        (
            {"name": "n" * (LONGEST_NAME + 1)},
            "its name has 201 characters",
            "Give it a name of up to 200 characters.",
        ),
        (
            {"units": ["block-1"]},
            "its units are no tuple of Unit",
            "Write units=(Unit('block-1', 'op-block', number=1, window=512),).",
        ),
        (
            {"units": (Unit(1, "op-block"),)},  # type: ignore[arg-type]
            "its units are no tuple of Unit",
            "Write units=(Unit('block-1', 'op-block', number=1, window=512),).",
        ),
        (
            {"wires": ("block-1.r-out -> block-2.r",)},
            "its wires are no tuple of Wire",
            "Write wires=(Wire(UnitPort('block-1', 'r-out'), UnitPort('block-2', 'r')),).",
        ),
        (
            {"entries": ("block-1.r",)},
            "its entries are no tuple of UnitPort",
            "Write entries=(UnitPort('block-1', 'r'),).",
        ),
        (
            {"ends": (UnitPort("block-1", []),)},  # type: ignore[arg-type]
            "its ends are no tuple of UnitPort",
            "Write ends=(UnitPort('block-1', 's-out'),).",
        ),
        (
            {"exit": "node-1.out"},
            "its exit is no UnitPort",
            "Write exit=UnitPort('node-1', 'out').",
        ),
        ({"widths": 64}, "its widths are no WordLayout", "Write widths=WordLayout(port=64)."),
        (
            {"units": ()},
            "it has no units",
            "Give it an op-block, or take a preset: fqp:chain:1.",
        ),
        (
            {"units": (Unit("node-1", "buffer-node"),)},
            "it has no op-block",
            "Give it an op-block, or take a preset: fqp:chain:1.",
        ),
        (
            {"units": tuple(Unit(f"b{n}", "op-block", n, 1) for n in range(1, 9000))},
            "it has 8,999 units",
            "Give it at most 8,191: 4,096 blocks, and the tree over them.",
        ),
        (
            {
                "units": tuple(Unit(f"b{n}", "op-block", n, 1) for n in range(1, 5000)),
                "widths": WordLayout(b_id=16),
            },
            "it has 4,999 blocks",
            "Give it at most 4,096.",
        ),
        (
            {"wires": CHAIN.wires * 10_000},
            "it has more wires than its units have ports",
            "Wire each port once.",
        ),
    ],
)
def test_parts_that_a_program_gives(changes: dict[str, Any], what: str, remedy: str) -> None:
    assert problems(lambda: replace(CHAIN, **changes)) == [(what, remedy)]
