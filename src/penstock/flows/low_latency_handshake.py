"""Low-latency handshake join: the chain, and the driver process at its two ends.

As in the handshake flow, R is fed in at the left and S at the right, and the expiry of each is
signalled at the opposite end. Why that gives every pair once is said in
:mod:`penstock.flows.low_latency_core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.blocks.meeting import Arrivals, Chunk, Met, Rule
from penstock.flows.chain import Chain, signals
from penstock.flows.low_latency_core import LowLatencyCore
from penstock.flows.network import Driver, Network
from penstock.flows.part import MakePart
from penstock.flows.sub_window import SubWindow


class LowLatencyHandshake:
    """The flow, as a join block uses it.

    Parameters
    ----------
    cores
        The length of the chain.
    driver
        Runs a network.
    part
        Makes the window parts of cores by the rule of the query.
    """

    complete_at_once = True

    def __init__(
        self,
        cores: int,
        driver: Callable[[Network], Driver],
        part: Callable[[Rule], MakePart] = lambda rule: lambda side: SubWindow(side, rule),
    ) -> None:
        self._count = cores
        self._make_part = part
        self._chain = Chain(driver)

    def program(self, rule: Rule, held: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Build the chain anew, every tuple being at home."""
        part = self._make_part(rule)
        cores = [LowLatencyCore(number, self._count, part) for number in range(self._count)]
        for core in cores:
            core.load(held)
        self._chain.start(cores)

    def take(self, chunk: Chunk) -> Iterator[Met]:
        """Let arrivals in at both ends, and wait until they have met all they can."""
        driver = self._chain.driver
        for entry, message in signals(chunk):
            while not driver.send(entry, message):
                yield from self._received()
                driver.wait()
        while not driver.settled():
            yield from self._received()
            driver.wait()
        yield from self._received()

    def _received(self) -> Iterator[Met]:
        for _, met in self._chain.driver.received():
            yield met

    def complete(self) -> Iterator[Met]:
        """Everything has been completed by ``take``."""
        return iter(())

    def oldest(self, side: int) -> int | None:
        """Nothing is found late."""
        return None

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._chain.comparisons

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        return self._chain.measures()

    def close(self) -> None:
        """Let the cores go."""
        self._chain.close()
