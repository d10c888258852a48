"""A flow in one direction (Najafi 2019 §5.1): chunks in at the top, their pairs out at the bottom.

Nothing stays on the way: once a chunk's last results are out, its tuples have met all they may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.blocks.meeting import Arrivals, Chunk, Met, Rule
from penstock.flows.gathering import ALL_SECTIONS
from penstock.flows.network import Driver, Network, Unit, with_loads
from penstock.flows.probing import CHUNK_RANKS


@dataclass(frozen=True, eq=False)
class Programming:
    """The instruction that comes down the same way as the tuples: another rule, and windows."""

    rule: Rule
    held: tuple[Arrivals, Arrivals]

    def __str__(self) -> str:
        """What it is, for an error to say where."""
        return "a program"


class Comparing(Unit, Protocol):
    """A unit that evaluates predicates."""

    @property
    def comparisons(self) -> int:
        """How often it has."""


class UniFlow:
    """Such a flow, as a join block uses it.

    ``network`` has one entry, ``in``, for chunks and programming, and one exit, for results;
    ``cores`` are those of its units that join.
    """

    complete_at_once = True

    def __init__(
        self, network: Network, cores: Sequence[Comparing], driver: Callable[[Network], Driver]
    ) -> None:
        self._cores = cores
        self._driver = driver(network)

    def program(self, rule: Rule, held: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Send the instruction down."""
        for _ in self._send(Programming(rule, held)):
            raise AssertionError("there was nothing under way")

    def take(self, chunk: Chunk) -> Iterator[Met]:
        """Let arrivals in, and wait until all cores have done with them."""
        done = chunk.ranks[0]  # of late tuples alone, the chunk has no ranks and gives nothing
        for piece in pieces(chunk, CHUNK_RANKS):
            for met, until in self._send(piece):
                yield met
                done = max(done, until)
        while done < chunk.ranks[1]:
            for met, until in self._received():
                yield met
                done = max(done, until)
            if done < chunk.ranks[1]:
                self._driver.wait()

    def _send(self, message: Chunk | Programming) -> Iterator[tuple[Met, int]]:
        while not self._driver.send("in", message):
            yield from self._received()
            self._driver.wait()

    def _received(self) -> Iterator[tuple[Met, int]]:
        """Results, and before which rank all have come."""
        for _, results in self._driver.received():
            yield results.met, results.rank if results.until == ALL_SECTIONS else 0

    def complete(self) -> Iterator[Met]:
        """Everything has been completed by ``take``."""
        return iter(())

    def oldest(self, side: int) -> int | None:
        """Nothing is found late."""
        return None

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(core.comparisons for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        driver = self._driver
        return {"cores": [with_loads(c.measures(), c.name, driver) for c in self._cores]}

    def close(self) -> None:
        """Stop the threads."""
        self._driver.close()


def pieces(chunk: Chunk, most: int) -> Iterator[Chunk]:
    """The chunk in pieces of at most so many ranks."""
    while chunk.ranks[1] - chunk.ranks[0] > most:
        piece, chunk = chunk.until(chunk.ranks[0] + most)
        yield piece
    yield chunk
