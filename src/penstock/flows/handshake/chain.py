"""A chain of join cores and the driver process at its ends, as both handshake flows have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

from penstock.blocks.join.partner_search import Chunk
from penstock.flows.handshake.core import GROUP, Expire, Tuples
from penstock.flows.network.network import Driver, Network, Paced, with_loads

ENTRIES = ("left", "right")
"""Where R and where S come in."""


class ChainCore(Paced, Protocol):
    """A core between two neighbours."""

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""


def chain_network(cores: Sequence[Paced]) -> Network:
    """Every core is wired to its neighbours only, and gives its results to the driver."""
    network = Network(list(cores))
    for left, right in pairwise(cores):
        network.wire(left, "right", right, "left")
        network.wire(right, "left", left, "right")
    network.enter("left", cores[0], "left")
    network.enter("right", cores[-1], "right")
    for core in cores:
        network.leave(core, "result", core.name)
    return network


class Chain:
    """Cores at work, and the counts of the cores that they replaced. ``driver`` runs a network."""

    def __init__(self, driver: Callable[[Network], Driver]) -> None:
        self._make_driver = driver
        self._driver: Driver | None = None
        self._cores: Sequence[ChainCore] = ()
        self._compared = 0
        self._before: list[dict[str, Any]] = []

    def start(self, cores: Sequence[ChainCore]) -> None:
        """Replace the cores by these; the figures of the old ones are added to theirs."""
        self.close()
        self._compared, self._before = self.comparisons, self._figures(self._cores)
        self._cores = cores
        self._driver = self._make_driver(chain_network(cores))

    @property
    def driver(self) -> Driver:
        """Runs the cores."""
        assert self._driver is not None, "it has not been programmed"
        return self._driver

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._compared + sum(core.comparisons for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        # Another thread may call this while the cores are replaced.
        cores, driver = self._cores, self._driver
        figures = zip(cores, self._figures(cores), strict=True)
        return {"cores": [with_loads(counted, core.name, driver) for core, counted in figures]}

    def _figures(self, cores: Sequence[ChainCore]) -> list[dict[str, Any]]:
        now = [core.measures() for core in cores]
        if not self._before:
            return now
        return [_added(old, new) for old, new in zip(self._before, now, strict=True)]

    def close(self) -> None:
        """Let the cores go."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def _added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The figures of a core added to those of the one it replaced."""
    return {
        **new,
        "stored": [a + b for a, b in zip(old["stored"], new["stored"], strict=True)],
        "probed": [a + b for a, b in zip(old["probed"], new["probed"], strict=True)],
        "matched": old["matched"] + new["matched"],
        "comparisons": old["comparisons"] + new["comparisons"],
    }


def signals(chunk: Chunk, size: int = GROUP) -> Iterator[tuple[str, Tuples | Expire]]:
    """What the driver process sends to which end, in arrival order, in groups of ``size`` tuples.

    Behind each group of R, the tuples of S that no later tuple of R can see have expired: those
    below the first candidate of the next group, and in the end those before the window. For S the
    same.
    """
    groups = [(int(a.ranks[i]), a, i) for a in chunk.arrivals for i in range(0, len(a), size)]
    expired = [0, 0]
    for _, arrivals, start in sorted(groups, key=lambda group: group[0]):
        other, entry = 1 - arrivals.side, ENTRIES[arrivals.side]
        seen = int(arrivals.lo[start])
        if seen > expired[other]:
            expired[other] = seen
            yield entry, Expire(other, seen)
        yield entry, Tuples(arrivals.part(start, start + size), chunk.compiled)
    for side, live in enumerate(chunk.live):
        if live > expired[side]:
            yield ENTRIES[1 - side], Expire(side, live)
