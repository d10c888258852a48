"""Handshake join: the chain of cores, and the driver process at its two ends.

R is fed in at the left and S at the right, both in arrival order; the expiry of each stream is
signalled at the opposite end, behind those tuples of the other stream that arrived before (Teubner
& Mueller 2011 §4.4, Fig. 12). Why that gives every pair once is said in
:mod:`penstock.flows.handshake_core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.blocks.meeting import Arrivals, Chunk, Met, Rule
from penstock.flows.handshake_core import GROUP, Expire, Flush, Gone, HandshakeCore, Tuples
from penstock.flows.network import Driver, Network
from penstock.flows.part import MakePart
from penstock.flows.sub_window import SubWindow

ENTRIES = ("left", "right")
"""Where R and where S come in."""


def handshake_network(cores: Sequence[HandshakeCore]) -> Network:
    """The chain: every core is wired to its neighbours, and gives its results to the driver."""
    network = Network(list(cores))
    for left, right in zip(cores, cores[1:], strict=False):
        network.wire(left, "right", right, "left")
        network.wire(right, "left", left, "right")
    network.enter("left", cores[0], "left")
    network.enter("right", cores[-1], "right")
    for core in cores:
        network.leave(core, "result", core.name)
    return network


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
        self._make_driver = driver
        self._make_part = part
        self._cores: list[HandshakeCore] = []
        self._driver: Driver | None = None
        self._compiled = True
        self._next = [0, 0]
        self._oldest = [0, 0]
        self._told: list[Gone] = []
        self._compared = 0
        self._before: list[dict[str, Any]] = []

    # -- programming ------------------------------------------------------------------------

    def program(self, rule: Rule, held: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Build the chain anew, the windows spread over it in order."""
        self.close()
        self._compared, self._before = self.comparisons, self._figures()
        part = self._make_part(rule)
        self._cores = [HandshakeCore(number, self._count, part) for number in range(self._count)]
        self._next = [int(a.seqs[-1]) + 1 if len(a) else 0 for a in held]
        self._oldest = [int(a.seqs[0]) if len(a) else 0 for a in held]
        self._told, self._compiled = [], True
        self._load(held)
        self._driver = self._make_driver(handshake_network(self._cores))

    def _load(self, held: tuple[Arrivals, Arrivals]) -> None:
        """The oldest of R come to the right end, the oldest of S to the left."""
        shares = [[len(a) * i // self._count for i in range(self._count + 1)] for a in held]
        # Whom they met is settled; what they could see must only not disturb the order.
        r, s = (replace(a, lo=np.zeros(len(a), np.int64)) for a in held)
        of_r = [r.part(*shares[0][i : i + 2]) for i in reversed(range(self._count))]
        of_s = [s.part(*shares[1][i : i + 2]) for i in range(self._count)]
        met = (self._next[0], self._next[1])
        for number, core in enumerate(self._cores):
            right = len(of_r[number + 1]) if number + 1 < self._count else 0
            left = len(of_s[number - 1]) if number else 0
            core.load((of_r[number], of_s[number]), (right, left), met)

    # -- the driver process -----------------------------------------------------------------

    def take(self, chunk: Chunk) -> Iterator[Met]:
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

    def complete(self) -> Iterator[Met]:
        """Wait until nothing moves, and let a flush run through the chain."""
        yield from self._settle()
        met = (self._next[0], self._next[1])
        yield from self._send("left", Flush((), met, self._compiled))
        yield from self._settle()

    def _send(self, entry: str, message: object) -> Iterator[Met]:
        while not self._running.send(entry, message):
            yield from self._received()
            self._running.wait()

    def _settle(self) -> Iterator[Met]:
        while not self._running.settled():
            yield from self._received()
            self._running.wait()
        yield from self._received()

    def _received(self) -> Iterator[Met]:
        """What has come out.

        That a tuple is gone may come out before the last pairs that it is in, by another exit; but
        those have been found before, and so come at the latest with what comes out next.
        """
        certain, self._told = self._told, []
        for _, message in self._running.received():
            if isinstance(message, Met):
                yield message
            elif isinstance(message, Gone):
                self._told.append(message)
        for gone in certain:
            self._oldest[gone.side] = max(self._oldest[gone.side], gone.before)

    @property
    def _running(self) -> Driver:
        assert self._driver is not None, "it has not been programmed"
        return self._driver

    # -- figures ----------------------------------------------------------------------------

    def oldest(self, side: int) -> int | None:
        """The first number that is still in the chain, as far as the ends have told."""
        return self._oldest[side]

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return self._compared + sum(core.comparisons for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        depths = self._running.depths() if self._driver is not None else {}
        cores = self._figures()
        return {"cores": [{**c, "depth": depths.get(f"core {c['core']}", 0)} for c in cores]}

    def _figures(self) -> list[dict[str, Any]]:
        """What the cores have counted, those of earlier programs included."""
        now = [core.measures() for core in self._cores]
        if not self._before:
            return now
        return [added(old, new) for old, new in zip(self._before, now, strict=True)]

    def close(self) -> None:
        """Let the cores go."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The figures of a core that took the place of another."""
    return {
        **new,
        "stored": [a + b for a, b in zip(old["stored"], new["stored"], strict=True)],
        "probed": [a + b for a, b in zip(old["probed"], new["probed"], strict=True)],
        "matched": old["matched"] + new["matched"],
        "comparisons": old["comparisons"] + new["comparisons"],
    }


def signals(chunk: Chunk, size: int = GROUP) -> Iterator[tuple[str, Tuples | Expire]]:
    """What the driver process sends to which end, in arrival order.

    Behind each group of R, whatever of S no later tuple of R can see has expired; that is what the
    first number seen by the next group says, and in the end the windows.
    """
    groups = [(int(a.ranks[i]), a, i) for a in chunk.arrivals for i in range(0, len(a), size)]
    expired = [0, 0]
    for _, arrivals, start in sorted(groups, key=lambda group: group[0]):
        other, entry = 1 - arrivals.side, ENTRIES[arrivals.side]
        seen = int(arrivals.lo[start])
        if seen > expired[other]:
            expired[other] = seen
            yield entry, Expire(other, seen)
        yield entry, Tuples(arrivals.part(start, start + size))
    for side, live in enumerate(chunk.live):
        if live > expired[side]:
            yield ENTRIES[1 - side], Expire(side, live)
