"""The figures of the cores of a query's joins, as ``--summary`` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Protocol

from penstock.blocks.join.flow_front import FlowFront
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.blocks.window.window import StoredWindow


class MeasuredWindows(Protocol):
    """A join block of any number of inputs that does its work itself."""

    matches: int

    @property
    def sides(self) -> Sequence[StoredWindow]: ...

    @property
    def comparisons(self) -> int: ...


class MeasuredJoin(MeasuredWindows, Protocol):
    """A join block of two inputs, as its figures need it."""

    front: FlowFront | None
    threads: CoreThreads | None


def core_figures(join: MeasuredJoin) -> list[dict[str, Any]]:
    """What each core has done of a join.

    ``stored`` and ``probed`` are the tuples of each side that it has ever stored, and that have
    probed its windows; ``matched`` the pairs that it has found.
    """
    return _of_flow(join) or [one_core(join)]


def divided_windows(sides: Sequence[StoredWindow]) -> dict[str, list[bool]]:
    """Which windows are divided among cores, if any: a core counts its own tuples of those."""
    divided = [side.share is not None for side in sides]
    return {"divided_windows": divided} if any(divided) else {}


def added_up(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of several joins, added up by core."""
    cores: dict[int, dict[str, Any]] = {}
    for one in figures:
        known = cores.get(one["core"])
        cores[one["core"]] = one if known is None else _added(known, one)
    return list(cores.values())


def _of_flow(join: MeasuredJoin) -> list[dict[str, Any]]:
    """The figures of a flow's cores; empty if the block does the work itself."""
    if join.front is not None:
        cores: list[dict[str, Any]] = join.front.search.measures()["cores"]
        return cores
    return [] if join.threads is None else _of_threads(join, join.threads)


def _of_threads(join: MeasuredJoin, threads: CoreThreads) -> list[dict[str, Any]]:
    """The figures of each thread; single-tuple pushes count for the first, the caller's."""
    cores: list[dict[str, Any]] = threads.measures()["cores"]
    for core in cores:  # that has had nothing to do
        core["probed"] = core["probed"] or [0 for _ in join.sides]
    counted = {name: sum(core[name] for core in cores) for name in ("matched", "comparisons")}
    cores[0]["matched"] += join.matches - counted["matched"]
    cores[0]["comparisons"] += join.comparisons - counted["comparisons"]
    for side in join.sides:
        rest = side.rows.next - sum(core["probed"][side.index] for core in cores)
        cores[0]["probed"][side.index] += rest
    return cores


def one_core(join: MeasuredWindows) -> dict[str, Any]:
    """The figures of a join block that does its work itself."""
    return {
        "core": 0,
        "stored": [side.rows.next for side in join.sides],
        "probed": [side.probing for side in join.sides],
        "matched": join.matches,
        "comparisons": join.comparisons,
        "window": [len(side.rows) for side in join.sides],
    }


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The sum of a core's figures of two joins.

    >>> one = {"core": 1, "stored": [1, 2], "matched": 3, "busy": 0.25, "window": None}
    >>> _added(one, {**one, "stored": [10, 10, 9], "busy": 0.5})
    {'core': 1, 'stored': [11, 12, 9], 'matched': 6, 'busy': 0.75, 'window': None}

    Every join has a stash of its own:

    >>> _added({"core": 0, "stash": [{"fill": 3}]}, {"core": 0, "stash": [{"fill": 4}]})
    {'core': 0, 'stash': [{'fill': 3}, {'fill': 4}]}
    """
    added = {}
    for name, value in one.items():
        more = other.get(name)
        if name == "core" or value is None or more is None or name == "kernels":
            added[name] = value
        elif name == "stash":
            added[name] = [*value, *more]
        elif isinstance(value, list):
            added[name] = [a + b for a, b in zip_longest(value, more, fillvalue=0)]
        else:
            added[name] = value + more
    return added
