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
    """Cores at work. ``driver`` runs a network."""

    def __init__(self, cores: Sequence[ChainCore], driver: Callable[[Network], Driver]) -> None:
        self._cores = cores
        self.driver = driver(chain_network(cores))

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(core.comparisons for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        driver = self.driver
        return {"cores": [with_loads(c.measures(), c.name, driver) for c in self._cores]}

    def close(self) -> None:
        """Let the cores go."""
        self.driver.close()


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
