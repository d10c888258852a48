"""The papers' latency laws, counted in rounds, for chains and trees of any size.

In a round every unit takes what was there at its inputs when the round began; so a round is the
time of one hop, and work takes no time. One tuple of each stream comes in each round. The visiting
latency of a pair (Najafi 2019, definition 4) is then the number of rounds from the one in which its
younger tuple comes in until the pair comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.blocks.meeting import Chunk, Met
from penstock.flows.chain import chain_network, signals
from penstock.flows.handshake_core import HandshakeCore
from penstock.flows.low_latency_core import LowLatencyCore
from penstock.flows.network import Network
from penstock.flows.plain_window import PlainGroup, PlainTuple, plain_parts

SAMPLE = 16
"""One in so many pairs matches, and is timed."""


@dataclass(frozen=True)
class Latency:
    """Rounds until two tuples have met: on average, at most, and of how many pairs."""

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
        """Let every unit take what waits for it; gives what came out."""
        sent: list[tuple[tuple[str, str], Any]] = []
        for (name, port), fifo in self._fifos.items():
            unit = self._units[name]
            while fifo and unit.needs(port) is not None:
                sent += [((name, out), m) for out, m in unit.step(port, fifo.pop(0))]
        for name, unit in self._units.items():
            sent += [((name, out), m) for out, m in unit.forward(lambda output: True)]
        came = []
        for source, message in sent:
            if source in self._network.exits:
                came.append(message)
            else:
                self._fifos[self._network.wires[source]].append(message)
        return came


def one_by_one(window: int, rounds: int) -> Iterator[Chunk]:
    """A tuple of R and one of S for each round, with windows of so many rows."""
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
    rounds: int | None = None,
) -> Latency:
    """The visiting latency once the windows are full.

    Parameters
    ----------
    network
        The units, with plain windows, and :func:`same_key` or another predicate.
    messages
        What to send for a chunk, and by which entries.
    window
        Rows in the window of each stream.
    rounds
        How long to go on; four times the window, if not given.
    """
    rounds = 4 * window if rounds is None else rounds
    running, taken = Rounds(network), []
    for number, chunk in enumerate(one_by_one(window, rounds)):
        for entry, message in messages(chunk):
            running.send(entry, message)
        for came in running.round():
            taken += [number - r // 2 + 1 for r in _ranks(came) if r // 2 >= window]
    return Latency(sum(taken) / max(1, len(taken)), max(taken, default=0), len(taken))


def _ranks(message: Any) -> Sequence[int]:
    """The ranks of the younger tuples, if the message has pairs."""
    met = message if isinstance(message, Met) else getattr(message, "met", None)
    return tuple(int(r) for r in met.ranks) if isinstance(met, Met) else ()


def same_key(left: Any, right: Any) -> bool:
    """The predicate of the measurement."""
    return bool(left == right)


def handshake_latency(cores: int, window: int) -> Latency:
    """Of the handshake flow: it depends on the windows, for tuples wait to be pushed along."""
    part = plain_parts(same_key)
    chain = [HandshakeCore(number, cores, part) for number in range(cores)]
    return latency_in_rounds(chain_network(chain), signals, window)


def low_latency_handshake_latency(cores: int, window: int) -> Latency:
    """Of the low-latency handshake flow: it depends on the number of cores only."""
    part = plain_parts(same_key)
    chain = [LowLatencyCore(number, cores, part) for number in range(cores)]
    return latency_in_rounds(chain_network(chain), signals, window)
