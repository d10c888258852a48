"""CellJoin (Gedik et al. 2009, as described by Teubner & Mueller 2011 §2.2 and §3.6).

Both windows are in a global memory, which a coordinator manages. Every ``k`` arrivals it cuts them
anew into as many neighbouring parts as there are cores. Each core fetches its part of both, a
*basic window*, into memory of its own, gets a replica of all ``k`` arrivals, and scans. A core
keeps nothing until the next time: the windows move to the cores again and again, and an index is
built anew for every fetched part. Both are the price of having all state in one place; the other
flows avoid it.

A basic window holds neighbours, and the cores' parts follow one another. So the partners of one
arrival are in order if those found by the first core come first: order costs little here.

A change reaches the coordinator between two chunks, which changes the windows, and the rule goes to
the cores in front of what they fetch under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.blocks.join.partner_search import Arrivals, Change, Chunk, Rule
from penstock.flows.network.network import Driver, Network, Port, Sent
from penstock.flows.splitjoin.gathering import STREAMS, Merger, Stars
from penstock.flows.sub_window import SubWindow
from penstock.flows.uni_flow import ProcessingCores, UniFlow, pieces
from penstock.tuning import TUNING


@dataclass(frozen=True, eq=False)
class Assignment:
    """A core's work: the arrivals, and the parts to search; None where there is nothing to find."""

    chunk: Chunk
    windows: tuple[Arrivals | None, Arrivals | None]

    def __str__(self) -> str:
        """What has arrived, for an error to say where."""
        return str(self.chunk)


class GlobalMemory:
    """The whole window of one stream."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._rows: int | None = None
        self._window = SubWindow(side, stride=1)

    def change(self, change: Change) -> None:
        """Take another program."""
        self._rows = change.rule.window_rows[self._side]
        # Nothing is searched here, so no index is needed.
        change = replace(change, rule=replace(change.rule, kernel="nested-loop"))
        if change.sent is not None:
            r, s = (replace(sent, arrivals=_compared(sent.arrivals)) for sent in change.sent)
            change = replace(change, sent=(r, s))
        self._window.change(change, change.new(self._side))

    def store(self, arrivals: Arrivals) -> None:
        """Store all of them."""
        self._window.append(_compared(arrivals))

    def part(self, number: int, parts: int) -> Arrivals | None:
        """A copy of one of ``parts`` parts of about one size; None of an empty window."""
        size = len(self._window)
        if not size:
            return None
        start, stop = (size * i // parts for i in (number, number + 1))
        return self._window.oldest(start, stop)

    def expire(self, first: int | None, seen: int, punctuation: int | float | None) -> None:
        """Drop expired tuples.

        Of a count window: those before ``first``, the least candidate of any later arrival, and
        those further behind ``seen``, the count of tuples, than the window's size. Of a time
        window: those that the other stream's punctuation has passed.
        """
        if self._rows is not None:
            first = seen - self._rows if first is None else max(first, seen - self._rows)
            self._window.drop(self._window.count_before(first))
        elif punctuation is not None:
            self._window.drop(self._window.count_expired(punctuation))

    def __len__(self) -> int:
        return len(self._window)


def _compared(arrivals: Arrivals) -> Arrivals:
    """Tuples without the bounds of their own candidates: with these they have been compared."""
    return replace(arrivals, low=None, upper=None)


class Coordinator:
    """Keeps the windows, and gives every core its part of them every ``k`` arrivals."""

    def __init__(self, cores: int, k: int) -> None:
        self.name = "coordinator"
        self.inputs = ["in"]
        self._outputs = [f"out{i}" for i in range(cores)]
        self._k = k
        self._memory = (GlobalMemory(0), GlobalMemory(1))
        self._partitionings = 0

    def needs(self, port: Port) -> Sequence[Port]:
        """All cores must have room."""
        return self._outputs

    def step(self, port: Port, message: Chunk | Change) -> Iterable[Sent]:
        """Store what has arrived and divide the windows; or take another program."""
        if isinstance(message, Change):
            for memory in self._memory:
                memory.change(message)
            yield from ((output, message.rule) for output in self._outputs)
            return
        for piece in pieces(message, self._k):
            for memory, arrivals in zip(self._memory, piece.arrivals, strict=True):
                memory.store(arrivals)
            self._expire(piece, before=True)
            yield from self._assignments(piece)
            self._expire(piece, before=False)

    def _assignments(self, piece: Chunk) -> Iterable[Sent]:
        """Replicate the arrivals, and copy to each core the part it is to search."""
        self._partitionings += 1
        for number, output in enumerate(self._outputs):
            left, right = (
                memory.part(number, len(self._outputs)) if len(probes) else None
                for memory, probes in zip(self._memory, reversed(piece.arrivals), strict=True)
            )
            yield output, Assignment(piece, (left, right))

    def _expire(self, piece: Chunk, before: bool) -> None:
        """Before a piece is searched, and after it, drop expired tuples.

        The windows move at the end of a chunk only. Until then, the bounds of arrivals say how far
        back they look, and no later arrival looks further back.
        """
        for side, memory in enumerate(self._memory):
            probes = piece.arrivals[1 - side]
            if before:
                memory.expire(int(probes.lo[0]) if len(probes) else 0, 0, None)
            else:
                punctuation = None if piece.punctuations is None else piece.punctuations[1 - side]
                memory.expire(None, piece.seen[side], punctuation)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """The coordinator does nothing of its own accord."""
        return ()

    def measures(self) -> dict[str, Any]:
        """How often the windows have been divided, and their sizes."""
        sizes = [len(memory) for memory in self._memory]
        return {"partitionings": self._partitionings, "window": sizes}


class CellCore:
    """Fetches a part of the windows, and compares all arrivals with it."""

    def __init__(self, position: int, stars: Stars) -> None:
        self.name = f"core {position}"
        self.inputs = ["in"]
        self._position = position
        self._windows: list[SubWindow] = []
        self._processing = ProcessingCores(stars)
        self._compared = 0
        self._fetched = [0, 0]

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go."""
        return STREAMS

    def step(self, port: Port, message: Assignment | Rule) -> Iterable[Sent]:
        """Do what has been assigned; or take another rule."""
        if isinstance(message, Rule):
            self._compared = self.comparisons
            self._windows = [SubWindow(side, message, 1) for side in (0, 1)]
            self._processing.change(message)
            return
        for side, part in enumerate(message.windows):
            if part is not None:
                self._windows[side].refill(part)
                self._fetched[side] += len(part)
        yield from self._processing.results(message.chunk, self._windows)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A core does nothing of its own accord."""
        return ()

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return self._compared + sum(window.comparisons for window in self._windows)

    def measures(self) -> dict[str, Any]:
        """What this core has fetched, processed and found, and what it was given last.

        ``stored`` counts a tuple as often as it was fetched.
        """
        return {
            "core": self._position,
            "stored": list(self._fetched),
            "probed": self._processing.probed,
            "matched": self._processing.matched,
            "comparisons": self.comparisons,
            "window": [len(window) for window in self._windows] or [0, 0],
            "kernels": [window.kernel for window in self._windows],
        }


def celljoin_network(cores: int, k: int, stars: Stars) -> Network:
    """The coordinator, the cores, and one merger for what they return."""
    coordinator = Coordinator(cores, k)
    core_units = [CellCore(i, stars) for i in range(cores)]
    collector = Merger("collector", len(STREAMS) * cores)
    network = Network([coordinator, *core_units, collector])
    network.enter("in", coordinator, "in")
    for number, core in enumerate(core_units):
        network.wire(coordinator, f"out{number}", core, "in")
        for which, stream in enumerate(STREAMS):
            network.wire(core, stream, collector, f"in{which * cores + number}")
    network.leave(collector, "out", "out")
    network.at_ends.add(collector.name)
    return network


def celljoin(cores: int, stars: Stars, driver: Callable[[Network], Driver]) -> UniFlow:
    """The flow, as a join block uses it."""
    network = celljoin_network(cores, TUNING.celljoin_k, stars)
    return UniFlow(network, [u for u in network.units if isinstance(u, CellCore)], driver)
