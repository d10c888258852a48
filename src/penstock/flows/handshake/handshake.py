"""Handshake join: the chain of cores, and the driver process at its two ends.

R is fed in at the left and S at the right, both in arrival order; the expiry of each stream is
signalled at the opposite end, behind those tuples of the other stream that arrived before (Teubner
& Mueller 2011 §4.4, Fig. 12). :mod:`penstock.flows.handshake.core` says
why that gives every pair once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.blocks.join.partner_search import Arrivals, Chunk, FoundPairs, Rule
from penstock.flows.handshake.chain import Chain, signals
from penstock.flows.handshake.core import Flush, Gone, HandshakeCore
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
        Makes the window parts of cores by the rule of the query.
    """

    complete_at_once = False

    def __init__(
        self,
        cores: int,
        driver: Callable[[Network], Driver],
        part: Callable[[Rule], MakePart] = lambda rule: lambda side: SubWindow(side, rule),
    ) -> None:
        self._count = cores
        self._make_part = part
        self._chain = Chain(driver)
        self._compiled = True
        self._next = [0, 0]
        self._oldest = [0, 0]
        self._gone_reports: list[Gone] = []

    # -- programming ------------------------------------------------------------------------

    def program(self, rule: Rule, windows: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Build the chain anew, the windows spread over it in order."""
        part = self._make_part(rule)
        cores = [HandshakeCore(number, self._count, part) for number in range(self._count)]
        self._next = [int(a.seqs[-1]) + 1 if len(a) else 0 for a in windows]
        self._oldest = [int(a.seqs[0]) if len(a) else 0 for a in windows]
        self._gone_reports, self._compiled = [], True
        self._load(cores, windows)
        self._chain.start(cores)

    def _load(self, cores: list[HandshakeCore], windows: tuple[Arrivals, Arrivals]) -> None:
        """The oldest of R come to the right end, the oldest of S to the left."""
        count = self._count
        shares = [[len(a) * i // count for i in range(count + 1)] for a in windows]
        # Their pairs have been found; their bounds must only not disturb the order.
        r, s = (replace(a, lo=np.zeros(len(a), np.int64)) for a in windows)
        of_r = [r.part(*shares[0][i : i + 2]) for i in reversed(range(count))]
        of_s = [s.part(*shares[1][i : i + 2]) for i in range(count)]
        before = (self._next[0], self._next[1])
        for number, core in enumerate(cores):
            right = len(of_r[number + 1]) if number + 1 < count else 0
            left = len(of_s[number - 1]) if number else 0
            core.load((of_r[number], of_s[number]), (right, left), before)

    # -- the driver process -----------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in at both ends; yields what has been found by now."""
        if chunk.compiled != self._compiled:
            self._compiled = chunk.compiled
            yield from self.complete()
        for entry, message in signals(chunk):
            yield from self._send(entry, message)
        for side, arrivals in enumerate(chunk.arrivals):
            if len(arrivals):
                self._next[side] = int(arrivals.seqs[-1]) + 1
        yield from self._received()

    def complete(self) -> Iterator[FoundPairs]:
        """Wait until nothing moves, and let a flush run through the chain."""
        yield from self._settle()
        before = (self._next[0], self._next[1])
        yield from self._send("left", Flush((), before, self._compiled))
        yield from self._settle()

    def _send(self, entry: str, message: object) -> Iterator[FoundPairs]:
        while not self._chain.driver.send(entry, message):
            yield from self._received()
            self._chain.driver.wait()

    def _settle(self) -> Iterator[FoundPairs]:
        while not self._chain.driver.settled():
            yield from self._received()
            self._chain.driver.wait()
        yield from self._received()

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
