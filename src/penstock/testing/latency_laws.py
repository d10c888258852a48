"""The papers' latency laws, measured in rounds, for chains and trees of any size.

In a round every unit takes the messages that were at its inputs when the round began: a round is
the time of one hop, and work takes no time. One tuple of each stream arrives in each round. The
visiting latency of a pair (Najafi 2019, definition 4) is then the number of rounds from the arrival
of its younger tuple to the output of the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.blocks.join.partner_search import Chunk, FoundPairs
from penstock.flows.handshake.chain import chain_network, signals
from penstock.flows.handshake.core import HandshakeCore
from penstock.flows.low_latency_handshake.core import LowLatencyCore
from penstock.flows.network.network import Network
from penstock.testing.plain_window import PlainGroup, PlainTuple, plain_parts

SAMPLE = 16
"""One in this many pairs matches and is timed."""


@dataclass(frozen=True)
class Latency:
    """Rounds until two tuples have met: mean, maximum, and the number of pairs."""

    mean: float
    most: int
    pairs: int


class Rounds:
    """Runs a network in rounds."""

    def __init__(self, network: Network) -> None:
        self._units = {unit.name: unit for unit in network.units}
        self._network = network
        self._fifos: dict[tuple[str, str], list[Any]] = {
            target: [] for target in (*network.wires.values(), *network.entries.values())
        }

    def send(self, entry: str, message: Any) -> None:
        """Put a message in."""
        self._fifos[self._network.entries[entry]].append(message)

    def round(self) -> list[Any]:
        """Let every unit take its waiting messages; returns the output."""
        sent: list[tuple[tuple[str, str], Any]] = []
        for (name, port), fifo in self._fifos.items():
            unit = self._units[name]
            while fifo and unit.needs(port) is not None:
                sent += [((name, out), m) for out, m in unit.step(port, fifo.pop(0))]
        for name, unit in self._units.items():
            sent += [((name, out), m) for out, m in unit.forward(lambda output: True)]
        output = []
        for source, message in sent:
            if source in self._network.exits:
                output.append(message)
            else:
                self._fifos[self._network.wires[source]].append(message)
        return output


def one_by_one(window: int, rounds: int) -> Iterator[Chunk]:
    """A chunk for each round: a tuple of R and one of S, with windows of ``window`` rows."""
    for number in range(rounds):
        key = number * 7 % SAMPLE
        r = PlainTuple(number, 2 * number, max(0, number - window), number, key)
        s = PlainTuple(number, 2 * number + 1, max(0, number + 1 - window), number + 1, key)
        groups: Any = (PlainGroup(0, (r,)), PlainGroup(1, (s,)))
        live = max(0, number + 1 - window)
        yield Chunk(
            groups, (2 * number, 2 * number + 2), (number + 1, number + 1), (live, live), None
        )


def latency_in_rounds(
    network: Network,
    messages: Callable[[Chunk], Iterable[tuple[str, Any]]],
    window: int,
) -> Latency:
    """The visiting latency with full windows, over four times as many rounds as a window has rows.

    Parameters
    ----------
    network
        The units, with plain windows, and :func:`same_key` or another predicate.
    messages
        The messages for a chunk, with their entries.
    window
        Rows in the window of each stream.
    """
    running, latencies = Rounds(network), []
    for number, chunk in enumerate(one_by_one(window, 4 * window)):
        for entry, message in messages(chunk):
            running.send(entry, message)
        for message in running.round():
            latencies += [number - r // 2 + 1 for r in _ranks(message) if r // 2 >= window]
    return Latency(
        sum(latencies) / max(1, len(latencies)), max(latencies, default=0), len(latencies)
    )


def _ranks(message: Any) -> Sequence[int]:
    """The ranks of the younger tuples of the message's pairs."""
    pairs = message if isinstance(message, FoundPairs) else getattr(message, "pairs", None)
    return tuple(int(r) for r in pairs.ranks) if isinstance(pairs, FoundPairs) else ()


def same_key(left: Any, right: Any) -> bool:
    """The predicate of the measurement."""
    return bool(left == right)


def handshake_latency(cores: int, window: int) -> Latency:
    """The latency of handshake join: it grows with the windows, since tuples wait to move on."""
    part = plain_parts(same_key)
    chain = [HandshakeCore(number, cores, part) for number in range(cores)]
    return latency_in_rounds(chain_network(chain), signals, window)


def low_latency_handshake_latency(cores: int, window: int) -> Latency:
    """The latency of low-latency handshake join: it depends only on the number of cores."""
    part = plain_parts(same_key)
    chain = [LowLatencyCore(number, cores, part) for number in range(cores)]
    return latency_in_rounds(chain_network(chain), signals, window)
