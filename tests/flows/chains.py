"""Chains of cores with plain windows, for schedules that are explored."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.flows.inputs import Arrival, Script, Window

from penstock.flows.handshake.chain import chain_network, signals
from penstock.flows.handshake.core import Ack, Flush, HandshakeCore, Mark, S, Tuples
from penstock.flows.low_latency_handshake.core import LowLatencyCore
from penstock.flows.network.network import Network, Sent
from penstock.testing.explore import Exploration, Phase, Units, explore
from penstock.testing.plain_window import plain_parts
from penstock.testing.schedule import Step


class OnePhaseCore(HandshakeCore):
    """Drops S-tuples as soon as they are sent, without an acknowledgement."""

    def _arrive(self, message: Tuples) -> Iterator[Sent]:
        return (sent for sent in super()._arrive(message) if not isinstance(sent[1], Ack))

    def _let_go(self, side: int, count: int) -> Any:
        group = super()._let_go(side, count)
        if side == S:
            self._windows[S].drop(count)
            self._forwarded -= count
        return group


def handshake_chain(cores: int, core: type[HandshakeCore] = HandshakeCore) -> Network:
    part = plain_parts()
    return chain_network([core(i, cores, part) for i in range(cores)])


def low_latency_chain(cores: int) -> Network:
    part = plain_parts()
    return chain_network([LowLatencyCore(i, cores, part) for i in range(cores)])


def small_script(order: str, windows: tuple[Window, Window]) -> Script:
    """A tuple for each letter, and behind each of them what it makes expire."""
    arrivals = tuple(Arrival("RS".index(side), 0, place) for place, side in enumerate(order))
    return Script(arrivals, windows, tuple(range(1, len(order))))


def phases(script: Script, flush: bool) -> list[Phase]:
    """All that the driver process sends, tuple by tuple; then, at a standstill, a flush."""
    sent: list[tuple[str, Any]] = []
    expired = {"left": 0, "right": 0}
    for chunk in script.plain_chunks():
        for entry, message in signals(chunk, 1):
            before = getattr(message, "before", None)
            if before is None or before > expired[entry]:
                expired[entry] = before or expired[entry]
                sent.append((entry, message))
    seen = [sum(a.side == side for a in script.arrivals) for side in (0, 1)]
    end: Phase = [("left", Flush((), (seen[0], seen[1]), True)), ("right", Mark())]
    return [sent, end] if flush else [sent]


def orders(each: int) -> Iterator[str]:
    """Every order in which ``each`` tuples of R and as many of S can arrive."""
    for places in combinations(range(2 * each), each):
        yield "".join("R" if place in places else "S" for place in range(2 * each))


def explore_chain(units: Units, script: Script, flush: bool, leave_out: bool = True) -> Exploration:
    """Every schedule gives every pair, once."""
    expected = script.pairs()

    def check(came: list[Any], steps: list[Step]) -> None:
        assert came == expected, "\n".join(map(str, steps))

    return explore(units, phases(script, flush), check, leave_out=leave_out)
