"""A topology drawn as SVG: every unit and every wire, with the wire's ports as its tooltip.

One branch, or a few, stand beside each other over the tree of results. More of them stand one below
the other, and the tree grows to the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from penstock.processor.topology.parts import Unit
from penstock.processor.topology.results_tree import ResultsTree, results_tree
from penstock.processor.topology.text_drawing import counts, number_of, title, window_of
from penstock.processor.topology.topology import Topology

MOST_BESIDE = 16
"""Blocks of several branches that stand beside each other."""
_WIDTH, _HEIGHT = 88, 52
"""A block's; names make it wider."""
_GAP = 40
"""Between two blocks of a branch."""
_SIDE = 48
"""Left and right of a branch, for the streams that enter and leave it."""
_TOP = 76
"""Above the first branch, for the title."""
_LANE = 14
"""Between two wires of results that run side by side."""
_NODE_WIDTH, _NODE_HEIGHT = 64, 22
"""A buffer node's; names make it wider."""
_BEFORE_NODE = 34
"""From one level of buffer nodes to the next."""
_NEXT_WIRE = 7
"""Between two wires of a level that would lie on each other."""
_LETTER = 7
"""The width of a letter, about."""

_STYLE = """\
text { font: 13px sans-serif; fill: #222; text-anchor: middle; }
text.title { font-size: 17px; font-weight: bold; text-anchor: start; }
text.counts { fill: #666; text-anchor: start; }
text.small { font-size: 11px; fill: #666; }
rect { fill: #f6f6f2; stroke: #444; stroke-width: 1.2; }
rect.node { fill: #e9f3ea; stroke: #4a7c50; }
path { fill: none; stroke-width: 1.6; }
path.r { stroke: #2563ac; marker-end: url(#arrow-r); }
path.s { stroke: #b85c10; marker-end: url(#arrow-s); }
path.results { stroke: #4a7c50; marker-end: url(#arrow-results); }"""
_COLOURS = {"r": "#2563ac", "s": "#b85c10", "results": "#4a7c50"}


class Point(NamedTuple):
    """A place of the drawing."""

    x: float
    y: float


class _Picture:
    """The parts of a drawing, and how large it is."""

    def __init__(self, topology: Topology, tree: ResultsTree) -> None:
        longest = max(len(number_of(block)) for block in topology.blocks.values())
        self.block = max(_WIDTH, longest * _LETTER + 24)
        """The width of a block."""
        self.node = max(_NODE_WIDTH, max(map(len, tree.children), default=0) * _LETTER + 16)
        """The width of a buffer node."""
        self.parts: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def reach(self, x: float, y: float) -> None:
        """Make room up to there."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Words, around a point unless their kind begins there."""
        mark = f' class="{kind}"' if kind else ""
        # dy rather than dominant-baseline, which not every viewer knows.
        self.parts.append(f'<text x="{x:g}" y="{y:g}" dy="0.35em"{mark}>{escape(words)}</text>')
        begins = kind in ("title", "counts")
        letter = _LETTER + 3 if kind == "title" else _LETTER
        self.reach(x + len(words) * (letter if begins else letter / 2) + 8, y + 12)

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A rectangle."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width}" height="{height}" rx="5"/>'
        )
        self.reach(x + width + 8, y + height + 8)

    def wire(self, points: Sequence[Point], kind: str, said: str) -> None:
        """A line through points, with an arrow at its end and a tooltip."""
        way = " ".join(f"{point.x:g},{point.y:g}" for point in points)
        self.parts.append(f'<path class="{kind}" d="M{way}"><title>{escape(said)}</title></path>')
        self.reach(max(point.x for point in points) + 8, max(point.y for point in points) + 8)

    def svg(self, name: str) -> str:
        """The drawing as a file."""
        markers = "".join(
            f'<marker id="arrow-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            f'markerHeight="6" orient="auto"><path d="M0,0 8,4 0,8z" style="fill: {colour}; '
            'stroke: none; marker-end: none"/></marker>'
            for kind, colour in _COLOURS.items()
        )
        size = f'width="{self.width:g}" height="{self.height:g}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
                f'viewBox="0 0 {self.width:g} {self.height:g}" role="img">',
                f"<title>{escape(name)}</title>",
                f"<style>\n{_STYLE}\n</style>",
                f"<defs>{markers}</defs>",
                f'<rect {size} style="fill: white; stroke: none"/>',
                *self.parts,
                "</svg>\n",
            )
        )


def draw_svg(topology: Topology) -> str:
    """The topology as the text of an SVG file."""
    tree = results_tree(topology)
    picture = _Picture(topology, tree)
    picture.text(16, 24, title(topology), "title")
    picture.text(16, 48, counts(topology), "counts")
    if len(topology.branches) == 1 or len(topology.blocks) <= MOST_BESIDE:
        _beside(picture, topology, tree)
    else:
        _below(picture, topology, tree)
    return picture.svg(title(topology))


# -- branches -------------------------------------------------------------------------------------


def _branch(picture: _Picture, blocks: Sequence[Unit], left: float, top: float) -> dict[str, Point]:
    """Draw a branch; gives the places of the blocks' results."""
    results: dict[str, Point] = {}
    upper, lower = top + _HEIGHT / 3, top + _HEIGHT * 2 / 3
    x = left + _SIDE
    before = left
    for index, block in enumerate(blocks):
        picture.box(x, top, picture.block, _HEIGHT, "block")
        middle = x + picture.block / 2
        picture.text(middle, upper, number_of(block))
        picture.text(middle, lower, window_of(block), "small")
        results[block.name] = Point(middle, top + _HEIGHT)
        start = before if index else left + 18
        neighbour = blocks[index - 1].name if index else ""
        picture.wire(
            [Point(start, upper), Point(x, upper)], "r",
            f"{neighbour}.r-out -> {block.name}.r" if index else f"R enters at {block.name}.r",
        )  # fmt: skip
        picture.wire(
            [Point(x, lower), Point(start, lower)], "s",
            f"{block.name}.s-out -> {neighbour}.s" if index else f"S ends at {block.name}.s-out",
        )  # fmt: skip
        before, x = x + picture.block, x + picture.block + _GAP
    end, last = before + _SIDE - 18, blocks[-1].name
    picture.wire([Point(before, upper), Point(end, upper)], "r", f"R ends at {last}.r-out")
    picture.wire([Point(end, lower), Point(before, lower)], "s", f"S enters at {last}.s")
    picture.text(left + 8, upper, "R")
    picture.text(end + 8, lower, "S")
    return results


def _length(picture: _Picture, blocks: Sequence[Unit]) -> float:
    return 2 * _SIDE + len(blocks) * (picture.block + _GAP) - _GAP


def _beside(picture: _Picture, topology: Topology, tree: ResultsTree) -> None:
    """Branches beside each other, the tree below them."""
    results: dict[str, Point] = {}
    left = 8.0
    for branch in topology.branches:
        results |= _branch(picture, branch, left, _TOP)
        left += _length(picture, branch) + 8
    way = {name: [point] for name, point in results.items()}
    places = {name: point.x for name, point in results.items()}
    sizes = _NodeSizes(picture.node, _NODE_HEIGHT, picture.node / 3, 42)
    _tree(picture, topology, tree, way, places, _TOP + _HEIGHT, sizes, Point)


def _below(picture: _Picture, topology: Topology, tree: ResultsTree) -> None:
    """Branches one below the other, the tree to the right of them."""
    right = 8 + max(_length(picture, branch) for branch in topology.branches)
    way: dict[str, list[Point]] = {}
    places: dict[str, float] = {}
    top = float(_TOP)
    for branch in topology.branches:
        # The leftmost block has the lowest lane, so that no wire crosses another.
        lane = top + _HEIGHT + _LANE * len(branch)
        for name, start in _branch(picture, branch, 8, top).items():
            way[name] = [start, Point(start.x, lane)]
            places[name] = lane
            lane -= _LANE
        top += _HEIGHT + _LANE * len(branch) + 22
    sizes = _NodeSizes(_NODE_HEIGHT, picture.node, _NODE_HEIGHT / 3, 58)
    _tree(
        picture, topology, tree, way, places, right, sizes, lambda place, deep: Point(deep, place)
    )


# -- the tree of results --------------------------------------------------------------------------


class _NodeSizes(NamedTuple):
    """A node across the tree and along it, how far apart its inputs are, and the word results."""

    across: float
    along: float
    inputs: float
    label: float


def _tree(
    picture: _Picture,
    topology: Topology,
    tree: ResultsTree,
    way: dict[str, list[Point]],
    places: dict[str, float],
    deep: float,
    sizes: _NodeSizes,
    point: Callable[[float, float], Point],
) -> None:
    """Draw the tree, level by level.

    Parameters
    ----------
    way, places
        Of each block, the way of its results so far, and the place at which they go on.
    deep
        Where the tree begins.
    point
        From a place across the tree, and how deep it is, to a point of the drawing.
    """
    boxes: list[tuple[str, Point]] = []
    depths = dict.fromkeys(places, deep)
    for _, level in groupby(tree.children, tree.heights.get):
        nodes = _apart(list(level), tree, places, sizes.across + 8)
        lanes = _lanes(nodes, tree, places)
        deep += _BEFORE_NODE + _NEXT_WIRE * max(lanes.values())
        for node, place in nodes.items():
            inputs = sorted(tree.children[node], key=lambda unit: places[unit])
            for index, unit in enumerate(inputs):
                end = place + sizes.inputs * (index - (len(inputs) - 1) / 2)
                turn = deep - 16 - _NEXT_WIRE * lanes[node]
                corners = [point(places[unit], turn), point(end, turn), point(end, deep)]
                picture.wire([*way[unit], *corners], "results", str(tree.wires[unit]))
            boxes.append((node, point(place, deep + sizes.along / 2)))
            places[node], depths[node] = place, deep + sizes.along
            way[node] = [point(place, deep + sizes.along)]
        deep += sizes.along
    for node, middle in boxes:  # over the wires, since one that goes far may pass behind a box
        left, top = middle.x - picture.node / 2, middle.y - _NODE_HEIGHT / 2
        picture.box(left, top, picture.node, _NODE_HEIGHT, "node")
        picture.text(middle.x, middle.y, node, "small")
    place, begin = places[tree.root], depths[tree.root]
    way_out = [*way[tree.root], point(place, begin + 30)]
    picture.wire(way_out, "results", f"results leave at {topology.exit}")
    picture.text(*point(place, begin + sizes.label), "results")


def _apart(
    nodes: list[str], tree: ResultsTree, places: dict[str, float], least: float
) -> dict[str, float]:
    """Where the nodes of a level stand: in the middle of what feeds them, if there is room."""
    wanted = {
        node: sum(places[unit] for unit in tree.children[node]) / len(tree.children[node])
        for node in nodes
    }
    found: dict[str, float] = {}
    last = -math.inf
    for node in sorted(nodes, key=wanted.__getitem__):
        last = found[node] = max(wanted[node], last + least)
    return found


def _lanes(nodes: dict[str, float], tree: ResultsTree, places: dict[str, float]) -> dict[str, int]:
    """A lane for the wires of each node of a level, so that none lies on another's."""
    found: dict[str, int] = {}
    ends: list[float] = []
    spans = {
        node: sorted((place, *(places[unit] for unit in tree.children[node])))
        for node, place in nodes.items()
    }
    for node in sorted(nodes, key=spans.__getitem__):
        first, *_, last = spans[node]
        lane = next((lane for lane, end in enumerate(ends) if end < first), len(ends))
        ends[lane : lane + 1] = [last]
        found[node] = lane
    return found
