"""Latency in hops over the number of cores, 2 to 64: the papers' laws, on any machine.

The units of a flow run in rounds: in one round every unit processes its waiting messages, so a
round is one hop, and work takes no time. The result is the visiting latency: rounds from the
arrival of the younger tuple of a pair until the pair is output. Published: it grows with the window
for handshake join, with the number of cores for low-latency handshake join, and with its logarithm
for SplitJoin (Najafi 2019 §5.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as ps
from penstock.flows.celljoin import celljoin
from penstock.flows.network.network import Network
from penstock.flows.splitjoin.gathering import Stars
from penstock.flows.splitjoin.splitjoin import splitjoin
from penstock.testing.latency_laws import Rounds, handshake_latency, low_latency_handshake_latency

CORES = (2, 4, 8, 16, 32, 64)
BRANCHING = 2
WINDOW = 128
PAIRS = 40


class RoundByRound:
    """A driver that runs a round whenever the engine waits, and counts the rounds."""

    def __init__(self, network: Network) -> None:
        self._rounds = Rounds(network)
        self._came: list[tuple[str, Any]] = []
        self._names = list(network.exits.values())
        self._units = [unit.name for unit in network.units]
        self.count = 0

    def send(self, entry: str, message: Any) -> bool:
        """There is always room."""
        self._rounds.send(entry, message)
        return True

    def received(self) -> list[tuple[str, Any]]:
        """The output of the last rounds."""
        came, self._came = self._came, []
        return came

    def wait(self) -> None:
        """Run a round."""
        self.count += 1
        self._came += [(self._names[0], message) for message in self._rounds.round()]

    def settled(self) -> bool:
        """Not known; those who ask for one exit's messages do not ask."""
        return False

    def depths(self) -> dict[str, int]:
        """All 0: no message waits longer than a round."""
        return dict.fromkeys(self._units, 0)

    def close(self) -> None:
        """There is nothing to stop."""


def through_engine(make: Callable[[Callable[[Network], RoundByRound]], Any], flow: str) -> float:
    """Rounds until a pair is output, for single-tuple pushes through the engine."""
    drivers: list[RoundByRound] = []

    def driver(network: Network) -> RoundByRound:
        drivers.append(RoundByRound(network))
        return drivers[-1]

    with ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (k BIGINT); CREATE STREAM S (k BIGINT)")
        query = engine.install(
            f"SELECT r.k AS k FROM R [ROWS {WINDOW}] r JOIN S [ROWS {WINDOW}] s ON r.k = s.k",
            flow=flow, cores=2, order="outer",
        )  # fmt: skip
        (join,) = query.pipeline.of_kind("join")
        join.front.search.close()
        join.front.search = make(driver)
        join.front.stale = True
        for number in range(PAIRS):
            engine.push("R", [{"k": number}])
        # Only the S tuples are measured; the R tuples are in the windows of different cores.
        before = drivers[-1].count
        for number in range(PAIRS):
            engine.push("S", [{"k": number}])
        assert query.rows().num_rows == PAIRS
        return (drivers[-1].count - before) / PAIRS


def hops() -> list[dict[str, Any]]:
    """Each flow with each number of cores; handshake join with two sizes of the window."""
    found: list[dict[str, Any]] = []
    for cores in CORES:
        stars = Stars("outer", 1)
        for window in (WINDOW, 2 * WINDOW):
            mean = handshake_latency(cores, window).mean
            found.append({"flow": "handshake", "cores": cores, "window": window, "hops": mean})
        mean = low_latency_handshake_latency(cores, WINDOW).mean
        found.append({"flow": "low-latency-handshake", "cores": cores, "hops": mean})
        for branching in (BRANCHING, 8):
            mean = through_engine(
                lambda driver, b=branching: splitjoin(cores, b, stars, driver),  # noqa: B023
                "splitjoin",
            )
            entry = {"flow": "splitjoin", "cores": cores, "branching": branching, "hops": mean}
            found.append(entry)
        mean = through_engine(lambda driver: celljoin(cores, stars, driver), "celljoin")  # noqa: B023
        found.append({"flow": "celljoin", "cores": cores, "hops": mean})
    return found
