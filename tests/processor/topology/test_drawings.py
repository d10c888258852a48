"""Drawings of topologies: as text, and as SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.processor.topology.random_topologies import topologies

from penstock.processor.topology.parts import Wire
from penstock.processor.topology.presets import topology_of
from penstock.processor.topology.svg_drawing import draw_svg
from penstock.processor.topology.text_drawing import draw_text
from penstock.processor.topology.topology import Topology

SVG = "{http://www.w3.org/2000/svg}"


def text(name: str, width: int = 100) -> str:
    return draw_text(topology_of(name), width)


def test_a_chain() -> None:
    assert (
        text("fqp:chain:3:512")
        == """\
fqp:chain:3:512
3 blocks in 1 branch; windows of 512 tuples; 2 buffer-nodes in 2 levels; ports of 64 bits

    ┌─────┐  ┌─────┐  ┌─────┐
R ─▶│ #1  ├─▶│ #2  ├─▶│ #3  ├─▶
  ◀─┤ 512 │◀─┤ 512 │◀─┤ 512 │◀─ S
    └──┬──┘  └──┬──┘  └──┬──┘
       └─node-1─┘        │
           └─── node-2 ──┘
                  ▼
               results"""
    )


def test_branches_beside_each_other() -> None:
    assert (
        text("fqp:partial:2x2:1536")
        == """\
fqp:partial:2x2:1536
4 blocks in 2 branches; windows of 1,536 tuples; 3 buffer-nodes in 2 levels; ports of 64 bits

    ┌───────┐  ┌───────┐          ┌───────┐  ┌───────┐
R ─▶│ #1    ├─▶│ #2    ├─▶    R ─▶│ #3    ├─▶│ #4    ├─▶
  ◀─┤ 1,536 │◀─┤ 1,536 │◀─ S    ◀─┤ 1,536 │◀─┤ 1,536 │◀─ S
    └───┬───┘  └───┬───┘          └───┬───┘  └───┬───┘
        └─ node-1 ─┘                  └─ node-2 ─┘
             └─────────── node-3 ──────────┘
                            ▼
                         results"""
    )


def test_what_is_too_wide_is_shortened() -> None:
    assert (
        text("fqp:partial:2x9:512", 50)
        == """\
fqp:partial:2x9:512
18 blocks in 2 branches; windows of 512 tuples; 17 buffer-nodes in 5 levels; ports of 64 bits

    ┌─────┐  ┌─────┐           ┌─────┐
R ─▶│ #1  ├─▶│ #2  ├─ 6 more ─▶│ #9  ├─▶
  ◀─┤ 512 │◀─┤ 512 │◀─ 6 more ─┤ 512 │◀─ S
    └──┬──┘  └──┬──┘           └──┬──┘
    ┌─────┐  ┌─────┐           ┌─────┐
R ─▶│ #10 ├─▶│ #11 ├─ 6 more ─▶│ #18 ├─▶
  ◀─┤ 512 │◀─┤ 512 │◀─ 6 more ─┤ 512 │◀─ S
    └──┬──┘  └──┬──┘           └──┬──┘

results ◀─ node-17.out
node-17
├─ node-16
│  ├─ node-14
│  │  ├─ node-10
│  │  │  ├─ node-1 ◀─ #1, #2
│  │  │  └─ node-2 ◀─ #3, #4
│  │  └─ node-11
│  │     ├─ node-3 ◀─ #5, #6
│  │     └─ node-4 ◀─ #7, #8
│  └─ node-15
│     ├─ node-12
│     │  ├─ node-5 ◀─ #9, #10
│     │  └─ node-6 ◀─ #11, #12
│     └─ node-13
│        ├─ node-7 ◀─ #13, #14
│        └─ node-8 ◀─ #15, #16
└─ node-9 ◀─ #17, #18"""
    )


def test_many_branches_and_nodes_are_counted() -> None:
    lines = text("fqp:parallel:100").splitlines()
    assert [line for line in lines if "#" in line] == [
        "R ─▶│ #1   ├─▶", "R ─▶│ #2   ├─▶", "R ─▶│ #3   ├─▶", "R ─▶│ #100 ├─▶",
    ]  # fmt: skip
    assert "    ⋮ 96 branches more" in lines
    assert lines[-1] == (
        "results of all blocks ─▶ a tree of 99 buffer nodes in 7 levels ─▶ node-99.out"
    )


def test_wires_that_would_cross_are_an_outline() -> None:
    """The results of blocks 1 and 4 go together, and those of 2 and 3 after them."""
    plain = topology_of("fqp:chain:4:512")
    crossed = {"block-4.final": "block-2.final", "block-2.final": "block-4.final"}
    wires = tuple(
        Wire(type(source)(*crossed.get(str(source), str(source)).split(".")), target)
        for source, target in plain.wires
    )
    drawn = draw_text(replace(plain, wires=wires)).splitlines()
    assert drawn[-4:] == [
        "results ◀─ node-3.out", "node-3", "├─ node-1 ◀─ #1, #4", "└─ node-2 ◀─ #3, #2",
    ]  # fmt: skip


def test_names_that_no_terminal_can_show_are_quoted() -> None:
    topology = replace(topology_of("fqp:chain:1"), name="a\x1b[31m\n")
    assert draw_text(topology).splitlines()[0] == r"'a\x1b[31m\n'"
    assert ET.fromstring(draw_svg(topology)).find(f"{SVG}title").text == r"'a\x1b[31m\n'"  # type: ignore[union-attr]


@examples(100)
@given(topology=topologies(), width=st.integers(20, 200))
def test_any_topology_is_drawn_whole(topology: Topology, width: int) -> None:
    """As text every block has its number; as SVG every unit is there, and every wire."""
    drawn = draw_text(topology, width)
    assert all(f"#{number}" in drawn for number in topology.blocks) or " more " in drawn
    figure = ET.fromstring(draw_svg(topology))
    said = [title.text for title in figure.iter(f"{SVG}title")]
    for wire in topology.wires:
        assert said.count(str(wire)) == 1
    words = {text.text for text in figure.iter(f"{SVG}text")}
    assert {unit.name for unit in topology.units if unit.kind == "buffer-node"} <= words


@pytest.mark.parametrize(
    "name", ["fqp:chain:9:512", "fqp:partial:4x4", "fqp:partial:5x4", "fqp:parallel:33"]
)
def test_nothing_is_outside_or_covered(name: str) -> None:
    """Boxes and wires are within the picture, and no two boxes overlap."""
    figure = ET.fromstring(draw_svg(topology_of(name)))
    width, height = float(figure.get("width", "0")), float(figure.get("height", "0"))
    boxes = [
        tuple(float(box.get(key, "0")) for key in ("x", "y", "width", "height"))
        for box in figure.iter(f"{SVG}rect")
        if box.get("class")
    ]
    for index, (x, y, across, down) in enumerate(boxes):
        assert 0 <= x <= x + across <= width and 0 <= y <= y + down <= height
        for x2, y2, across2, down2 in boxes[:index]:
            assert x2 + across2 <= x or x + across <= x2 or y2 + down2 <= y or y + down <= y2
    for path in figure.iter(f"{SVG}path"):
        if path.get("class"):
            points = re.findall(r"([\d.]+),([\d.]+)", path.get("d", ""))
            assert len(points) >= 2
            assert all(float(x) <= width and float(y) <= height for x, y in points)


def test_the_largest_is_drawn() -> None:
    topology = topology_of("fqp:partial:64x64")
    assert draw_svg(topology).count('class="node"') == 4095
    assert len(draw_text(topology).splitlines()) < 40
