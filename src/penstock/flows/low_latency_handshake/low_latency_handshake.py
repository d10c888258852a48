"""Low-latency handshake join: the chain, and the driver process at its two ends.

As in the handshake flow, R is fed in at the left and S at the right, and the expiry of each is
signalled at the opposite end. :mod:`penstock.flows.low_latency_handshake.core`
says why that gives every pair once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.blocks.join.partner_search import Change, Chunk, FoundPairs
from penstock.flows.handshake.chain import ENTRIES, Chain, signals
from penstock.flows.low_latency_handshake.core import LowLatencyCore, Program
from penstock.flows.network.network import Driver, Network, run
from penstock.flows.sub_window import SubWindow

GROUP = 1 << 15
"""The most tuples of a message: it makes no other hops than a single tuple, and costs as much."""


class LowLatencyHandshake:
    """The flow, as a join block uses it.

    Parameters
    ----------
    cores
        The length of the chain.
    driver
        Runs a network.
    """

    complete_at_once = True
    keeps_tuples = True

    def __init__(self, cores: int, driver: Callable[[Network], Driver]) -> None:
        self._chain = Chain([LowLatencyCore(n, cores, SubWindow) for n in range(cores)], driver)

    def change(self, change: Change) -> None:
        """Send a change in at both ends; the pairs of all arrivals before it have been found."""
        for _ in run(self._chain.driver, [(entry, Program(change)) for entry in ENTRIES]):
            raise AssertionError("there was nothing under way")

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in at both ends, and wait until all their pairs have been found."""
        for _, pairs in run(self._chain.driver, signals(chunk, GROUP)):
            yield pairs

    def complete(self) -> Iterator[FoundPairs]:
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
