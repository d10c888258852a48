"""How the cores of a query have shared its joins, in numbers that ``--summary`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.blocks.crew import Crew
from penstock.blocks.join import JoinBlock
from penstock.blocks.join_side import JoinSide


def core_figures(joins: Sequence[JoinBlock]) -> list[dict[str, Any]]:
    """What each core has done of the joins: nothing to say where there are none.

    ``stored`` and ``probed`` are the tuples of either side that it has ever stored for others to
    find, and that have looked for partners in it; ``matched`` the pairs that it has found.
    """
    cores: dict[int, dict[str, Any]] = {}
    for join in joins:
        for figures in _of_flow(join) or [_one_core(join)]:
            known = cores.get(figures["core"])
            cores[figures["core"]] = figures if known is None else _added(known, figures)
    return list(cores.values())


def _of_flow(join: JoinBlock) -> list[dict[str, Any]]:
    """What the cores of a flow have counted; nothing if the block does the work itself."""
    if join.front is not None:
        cores: list[dict[str, Any]] = join.front.meeting.measures()["cores"]
        return cores
    return [] if join.crew is None else _of_crew(join, join.crew)


def _of_crew(join: JoinBlock, crew: Crew) -> list[dict[str, Any]]:
    """What each of the crew has done; single tuples are the first one's, who is the caller."""
    cores: list[dict[str, Any]] = crew.measures()["cores"]
    told = {name: sum(core[name] for core in cores) for name in ("matched", "comparisons")}
    cores[0]["matched"] += join.matches - told["matched"]
    cores[0]["comparisons"] += join.comparisons - told["comparisons"]
    for side in join.sides:
        rest = side.rows.next - sum(core["probed"][side.index] for core in cores)
        cores[0]["probed"][side.index] += rest
    return cores


def _one_core(join: JoinBlock) -> dict[str, Any]:
    """The figures of a join block that does its work itself."""
    return {
        "core": 0,
        "stored": [_stored(side) for side in join.sides],
        "probed": [side.rows.next for side in join.sides],
        "matched": join.matches,
        "comparisons": join.comparisons,
        "window": [len(side.rows) for side in join.sides],
    }


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What the same core has done of two joins.

    >>> one = {"core": 1, "stored": [1, 2], "matched": 3, "busy": 0.25, "window": None}
    >>> _added(one, {**one, "stored": [10, 10], "busy": 0.5})
    {'core': 1, 'stored': [11, 12], 'matched': 6, 'busy': 0.75, 'window': None}
    """
    added = {}
    for name, value in one.items():
        more = other.get(name)
        if name == "core" or value is None or more is None or name == "kernels":
            added[name] = value
        elif isinstance(value, list):
            added[name] = [a + b for a, b in zip(value, more, strict=True)]
        else:
            added[name] = value + more
    return added


def _stored(side: JoinSide) -> int:
    """A side numbers its tuples as they arrive, whoever sends them, and keeps no other count."""
    if side.share is None:
        return side.rows.next
    return int(side.share.before(np.array([side.rows.next]))[0])
