"""Handshake join: the chain of cores, and the driver process at its two ends.

R is fed in at the left and S at the right, both in arrival order; the expiry of each stream is
signalled at the opposite end, behind those tuples of the other stream that arrived before (Teubner
& Mueller 2011 §4.4, Fig. 12). A flush, and a change with it, comes in at the left and its mark at
the right, each behind the tuples before it. :mod:`penstock.flows.handshake.core` says why that
gives every pair once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.blocks.join.partner_search import Change, Chunk, FoundPairs
from penstock.flows.handshake.chain import Chain, signals
from penstock.flows.handshake.core import Flush, Gone, HandshakeCore, Mark
from penstock.flows.network.network import Driver, Network
from penstock.flows.sub_window import MakePart, SubWindow


class Handshake:
    """The flow, as a join block uses it.

    Parameters
    ----------
    cores
        The length of the chain.
    driver
        Runs a network.
    part
        Makes the window parts of cores.
    """

    complete_at_once = False
    keeps_tuples = True

    def __init__(
        self, cores: int, driver: Callable[[Network], Driver], part: MakePart = SubWindow
    ) -> None:
        self._chain = Chain([HandshakeCore(number, cores, part) for number in range(cores)], driver)
        self._compiled = True
        self._next = [0, 0]
        self._oldest = [0, 0]
        self._gone_reports: list[Gone] = []

    def change(self, change: Change) -> None:
        """Send a change in, with the flush that makes room for it."""
        self._compiled, self._next = True, list(change.before)
        for _ in self._flush(change):
            raise AssertionError("all pairs have been found")
        for side, live in enumerate(change.live):
            self._oldest[side] = max(live, change.number(side, self._oldest[side]))

    # -- the driver process -----------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in at both ends; yields what has been found by now."""
        if chunk.compiled != self._compiled:
            self._compiled = chunk.compiled
            yield from self._flush()
        for entry, message in signals(chunk):
            yield from self._send(entry, message)
        for side, arrivals in enumerate(chunk.arrivals):
            if len(arrivals):
                self._next[side] = int(arrivals.seqs[-1]) + 1
        yield from self._received()

    def complete(self) -> Iterator[FoundPairs]:
        """Let a flush run through the chain, and wait until nothing moves."""
        yield from self._flush()
        while not self._chain.driver.settled():
            yield from self._received()
            self._chain.driver.wait()
        yield from self._received()

    def _flush(self, change: Change | None = None) -> Iterator[FoundPairs]:
        before = (self._next[0], self._next[1])
        yield from self._send("left", Flush((), before, self._compiled, change))
        yield from self._send("right", Mark())

    def _send(self, entry: str, message: object) -> Iterator[FoundPairs]:
        while not self._chain.driver.send(entry, message):
            yield from self._received()
            self._chain.driver.wait()

    def _received(self) -> Iterator[FoundPairs]:
        """The pairs that have come out.

        The report that a tuple is gone may come out before its last pairs, by another exit. Those
        pairs were found before the report, so they come out with the next messages at the latest.
        """
        certain, self._gone_reports = self._gone_reports, []
        for _, message in self._chain.driver.received():
            if isinstance(message, FoundPairs):
                yield message
            elif isinstance(message, Gone):
                self._gone_reports.append(message)
        for gone in certain:
            self._oldest[gone.side] = max(self._oldest[gone.side], gone.before)

    # -- figures ----------------------------------------------------------------------------

    def oldest(self, side: int) -> int | None:
        """The first number that is still in the chain, as far as the ends have reported."""
        return self._oldest[side] if self._oldest[side] < self._next[side] else None

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
