"""A topology drawn as text: its branches from left to right, and the tree of results below them.

What does not fit the width is drawn with its branches one below the other, the long ones shortened,
and the tree as an outline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.processor.topology.kinds import BUFFER_NODE
from penstock.processor.topology.parts import Unit
from penstock.processor.topology.results_tree import ResultsTree, results_tree
from penstock.processor.topology.topology import Topology
from penstock.streams.display import counted

MOST_BRANCHES = 4
"""Branches that are drawn one below the other; of more, the first ones and the last."""
MOST_NODES = 32
"""Buffer nodes whose outline is drawn; of more, only what they are altogether."""
_SIDE = 4
"""Columns left and right of a branch, for the streams that enter and leave it."""
_GAP = "  "
"""What is between two branches."""


def draw_text(topology: Topology, width: int = 100) -> str:
    """The topology in lines of up to ``width`` characters, if its names allow."""
    tree = results_tree(topology)
    lines = [title(topology), counts(topology), ""]
    lines += _beside(topology, tree, width) or _below(topology, tree, width)
    return "\n".join(line.rstrip() for line in lines)


def title(topology: Topology) -> str:
    """The name of a topology on a line of its own; one that no terminal can show is quoted."""
    return topology.name if topology.name.isprintable() else repr(topology.name)


def counts(topology: Topology) -> str:
    """What a topology has, in one line."""
    tree = results_tree(topology)
    windows = [block.window for block in topology.blocks.values()]
    least, most = min(windows), max(windows)
    nodes = counted(len(tree.children), BUFFER_NODE)
    return "; ".join(
        (
            f"{counted(len(windows), 'block')} in "
            f"{counted(len(topology.branches), 'branch', 'branches')}",
            f"windows of {f'{least:,} to ' if least < most else ''}{counted(most, 'tuple')}",
            f"{nodes} in {counted(tree.levels, 'level')}" if tree.levels else nodes,
            f"ports of {counted(topology.widths.port, 'bit')}"
            f"{', wider tuples in segments' if topology.segments else ''}",
        )
    )


def number_of(block: Unit) -> str:
    """A block's number, and its name if that is not made of the number."""
    number = f"#{block.number}"
    return number if block.name == f"block-{block.number}" else f"{number} {block.name}"


def window_of(block: Unit) -> str:
    """A block's window: large powers of two as such.

    >>> window_of(Unit("b", "op-block", 1, 512)), window_of(Unit("b", "op-block", 1, 1 << 17))
    ('512', '2^17')
    """
    window = block.window
    if window >= 1 << 12 and window & (window - 1) == 0:
        return f"2^{window.bit_length() - 1}"
    return f"{window:,}"


# -- branches -------------------------------------------------------------------------------------


def _box(block: Unit) -> tuple[str, str, str, str]:
    number, window = number_of(block), window_of(block)
    width = max(len(number), len(window))
    edge = "─" * (width + 2)
    middle = (width + 3) // 2
    return (
        f"┌{edge}┐",
        f"│ {number:<{width}} ├",
        f"┤ {window:<{width}} │",
        f"└{edge[: middle - 1]}┬{edge[middle:]}┘",
    )


def _branch(blocks: Sequence[Unit], left_out: int = 0) -> tuple[list[str], list[int]]:
    """The lines of a branch, and the column below each of its blocks.

    ``left_out`` is the number of blocks that are missing before the last one.
    """
    lines = [" " * _SIDE, "R ─▶", "  ◀─", " " * _SIDE]
    columns = []
    for index, block in enumerate(blocks):
        if index:
            gap = f" {left_out:,} more " if left_out and index == len(blocks) - 1 else ""
            right, left = (f"─{gap}─▶", f"◀─{gap}─") if gap else ("─▶", "◀─")
            between = [" " * len(right), right, left, " " * len(right)]
            lines = [line + text for line, text in zip(lines, between, strict=True)]
        box = _box(block)
        columns.append(len(lines[0]) + box[3].index("┬"))
        lines = [line + text for line, text in zip(lines, box, strict=True)]
    ends = [" " * _SIDE, "─▶  ", "◀─ S", " " * _SIDE]
    return [line + text for line, text in zip(lines, ends, strict=True)], columns


def _shortened(blocks: Sequence[Unit], width: int) -> list[str]:
    """The lines of a branch, without blocks before the last one if it is too long."""
    lines, _ = _branch(blocks[: width // 6 + 2])  # a block takes six columns at least
    if len(blocks) <= width // 6 + 2 and len(lines[0]) <= width:
        return lines
    for shown in range(min(len(blocks) - 2, width // 6), 0, -1):
        lines, _ = _branch([*blocks[:shown], blocks[-1]], len(blocks) - shown - 1)
        if len(lines[0]) <= width:
            break
    return lines


# -- everything beside each other -----------------------------------------------------------------


def _beside(topology: Topology, tree: ResultsTree, width: int) -> list[str] | None:
    """The branches beside each other over the tree; None if they or its wires do not fit."""
    if len(topology.blocks) > width // 6:
        return None
    rows = [""] * 4
    columns: dict[str, int] = {}
    for branch in topology.branches:
        lines, below = _branch(branch)
        before = f"{rows[0]}{_GAP}" if rows[0] else ""
        columns |= {
            block.name: len(before) + column for block, column in zip(branch, below, strict=True)
        }
        rows = [
            f"{row}{_GAP}{line}" if row else line for row, line in zip(rows, lines, strict=True)
        ]
    if len(rows[0]) > width:
        return None
    grid = _tree(tree, columns, len(rows[0]))
    if grid is None:
        return None
    column = columns[tree.root]
    return [*rows, *grid, " " * column + "▼", " " * max(0, column - 3) + "results"]


def _tree(tree: ResultsTree, columns: dict[str, int], width: int) -> list[str] | None:
    """The lines of the tree, a level each; None if wires would cross or a name has no room.

    ``columns`` has the columns of the blocks, and gets those of the nodes.
    """
    grid = [[" "] * width for _ in range(tree.levels)]
    for node, feeding in tree.children.items():
        row = tree.heights[node] - 1
        left, right = sorted(feeding, key=lambda unit: columns[unit])
        first, last = columns[left], columns[right]
        room = last - first - 1
        line = (f" {node} " if len(node) + 4 <= room else node).center(room, "─")
        if len(line) > room:
            return None
        cells = [(row, first + at, char) for at, char in enumerate(f"└{line}┘")]
        for unit in feeding:
            cells += [(above, columns[unit], "│") for above in range(tree.heights[unit], row)]
        for line_number, column, char in cells:
            if grid[line_number][column] != " ":
                return None
            grid[line_number][column] = char
        # Below the middle of its name the wire goes on.
        columns[node] = first + (last - first) // 2
    return ["".join(cells) for cells in grid]


# -- one below the other --------------------------------------------------------------------------


def _below(topology: Topology, tree: ResultsTree, width: int) -> list[str]:
    """The branches one below the other, and the tree as an outline."""
    branches = topology.branches
    lines: list[str] = []
    left_out = len(branches) - MOST_BRANCHES
    shown = branches if left_out <= 0 else (*branches[: MOST_BRANCHES - 1], branches[-1])
    for index, branch in enumerate(shown):
        if left_out > 0 and index == len(shown) - 1:
            lines += [f"    ⋮ {counted(left_out, 'branch', 'branches')} more"]
        lines += _shortened(branch, width)
    lines.append("")
    if len(tree.children) > MOST_NODES:
        return [
            *lines,
            f"results of all blocks ─▶ a tree of {len(tree.children):,} buffer nodes in "
            f"{counted(tree.levels, 'level')} ─▶ {topology.exit}",
        ]
    return [*lines, f"results ◀─ {topology.exit}", *_outline(topology, tree)]


def _outline(topology: Topology, tree: ResultsTree) -> Iterator[str]:
    """The tree from its root, each node with those that feed it below and to the right of it."""
    numbers = {block.name: number_of(block) for block in topology.blocks.values()}
    pending = [(tree.root, "", "", "")]
    while pending:
        unit, before, corner, below = pending.pop()
        feeding = tree.children.get(unit, [])
        blocks = [numbers[name] for name in feeding if name in numbers]
        whole = len(blocks) == len(feeding)
        said = f" ◀─ {', '.join(blocks)}" if feeding and whole else ""
        yield f"{before}{corner}{numbers.get(unit, unit)}{said}"
        if feeding and not whole:
            inner = before + below
            pending += [(feeding[-1], inner, "└─ ", "   ")]
            pending += [(name, inner, "├─ ", "│  ") for name in reversed(feeding[:-1])]
