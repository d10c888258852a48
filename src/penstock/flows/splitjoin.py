"""SplitJoin (Najafi 2019 §5.1–5.2): one way down to the cores, one way down from them.

A tree of distributors brings every tuple to every join core. Each core has a storage core and a
processing core, independent of each other. All process a tuple: compare it with their part of the
other stream's window. One stores it: whose turn it is, each tells by its own counter, and nobody
coordinates. Results go down two trees of mergers, one for those that R tuples found and one for S
tuples, to the combiner.

A message is a chunk of tuples of both streams. A core stores its share of it first and processes
all of it then: each tuple says which numbers were there before it, so it meets nobody too early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.blocks.meeting import Arrivals, Chunk, Met, Rule
from penstock.flows.gathering import ALL_SECTIONS, STREAMS, Merger, Results, Stars
from penstock.flows.network import Driver, Network, Port, Sent, Unit
from penstock.flows.sub_window import MOST_PAIRS, SubWindow

CHUNK_RANKS = 1 << 15
"""Arrivals that travel together: large enough for the kernels, small enough to overlap stages."""
ANY_NUMBER = 1 << 62


@dataclass(frozen=True, eq=False)
class Programming:
    """The instruction that comes down the same way as the tuples: another rule, and windows."""

    rule: Rule
    held: tuple[Arrivals, Arrivals]


class Distributor:
    """Algorithm 1: hand every message on to all below."""

    def __init__(self, name: str, outputs: int) -> None:
        self.name = name
        self.inputs = ["in"]
        self._outputs = [f"out{i}" for i in range(outputs)]

    def needs(self, port: Port) -> Sequence[Port]:
        """All below must have room."""
        return self._outputs

    def step(self, port: Port, message: Chunk | Programming) -> Iterable[Sent]:
        """Broadcast."""
        return [(output, message) for output in self._outputs]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A distributor does nothing of its own accord."""
        return ()

    def measures(self) -> dict[str, Any]:
        """Nothing is counted here."""
        return {}


class StorageCore:
    """Stores every ``cores``-th tuple of a stream, and lets go what has left the window.

    Passive expiry: of a count window, what is so many numbers behind the newest tuple seen is
    overwritten. Active expiry: of a time window, what the other stream's time has passed.
    """

    def __init__(self, side: int, position: int, cores: int) -> None:
        self._side = side
        self._position = position
        self._cores = cores
        self._store_counter = 0
        self._window_rows: int | None = None
        self.window: SubWindow | None = None
        self.stored = 0

    def program(self, rule: Rule, held: Arrivals) -> None:
        """Start with another rule; ``held`` is the whole window."""
        self._window_rows = rule.window_rows[self._side]
        self.window = SubWindow(self._side, rule)
        self._store_counter = 0
        stored = self.stored
        self.store(held)
        self.stored = stored  # these have been counted when they came

    def store(self, arrivals: Arrivals) -> None:
        """Take those whose turn it is here."""
        assert self.window is not None
        turn = (self._position - self._store_counter) % self._cores
        self._store_counter = (self._store_counter + len(arrivals)) % self._cores
        if turn >= len(arrivals):
            return
        mine = arrivals if self._cores == 1 else arrivals.take(slice(turn, None, self._cores))
        self.stored += len(mine)
        self.window.append(mine)

    def expire(self, seen: int, promise: int | float | None) -> None:
        """Let go what has left: ``seen`` numbers have been given, the other's time is promised."""
        assert self.window is not None
        if self._window_rows is not None:
            self.window.drop(self.window.count_before(seen - self._window_rows))
        elif promise is not None:
            self.window.drop(self.window.count_expired(promise))


class ProcessingCore:
    """Algorithm 3: compares arriving tuples with its part of the other stream's window."""

    def __init__(self, stars: Stars) -> None:
        self._stars = stars
        self.probed = 0
        self.matched = 0

    def process(self, probes: Arrivals, window: SubWindow, compiled: bool, most: int) -> Met | None:
        """The pairs of these probes, by rank; None if there are more than ``most``."""
        met = window.older_at_once(probes, compiled, most)
        if met is not None:
            self.probed += len(probes)
            self.matched += len(met)
        return met

    def with_stars(self, met: Met, ranks: tuple[int, int], until: int) -> Results:
        """The pairs of a chunk with these ranks, all of those before rank ``until``."""
        first, after = ranks
        sections = self._stars.sections(met, first)
        reached = ALL_SECTIONS if until == after else self._stars.reached(until, first)
        return Results(met, sections, reached, after)


class JoinCore:
    """Algorithm 2: the right-region stores R and processes S, the left-region the other way."""

    def __init__(self, position: int, cores: int, stars: Stars) -> None:
        self.name = f"core {position}"
        self.inputs = ["in"]
        self._position = position
        self._storage = tuple(StorageCore(side, position, cores) for side in (0, 1))
        self._processing = tuple(ProcessingCore(stars) for _ in (0, 1))
        self._compared = 0
        self._step = CHUNK_RANKS

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go."""
        return STREAMS

    def step(self, port: Port, message: Chunk | Programming) -> Iterable[Sent]:
        """Store a share of the chunk and process all of it; or take another rule."""
        if isinstance(message, Programming):
            self._compared = self.comparisons
            for storage, held in zip(self._storage, message.held, strict=True):
                storage.program(message.rule, held)
            return
        # A tuple that comes alone is compared first: it is not among those it may meet.
        alone = message.ranks[1] - message.ranks[0] == 1
        if not alone:
            self._store(message)
        yield from self._process(message)
        if alone:
            self._store(message)
        for side, storage in enumerate(self._storage):
            promise = None if message.promises is None else message.promises[1 - side]
            storage.expire(message.seen[side], promise)

    def _store(self, chunk: Chunk) -> None:
        for storage, arrivals in zip(self._storage, chunk.arrivals, strict=True):
            storage.store(arrivals)

    def _process(self, chunk: Chunk) -> Iterator[Sent]:
        """Both streams side by side, a few arrivals at a time where there are many pairs."""
        start, after = chunk.ranks
        while start < after:
            stop = min(after, start + self._step)
            most = MOST_PAIRS if stop - start > 1 else ANY_NUMBER
            found = [self._found(chunk, side, (start, stop), most) for side in (0, 1)]
            if found[0] is None or found[1] is None:
                self._step = max(1, (stop - start) // 2)
                continue
            if self._step < CHUNK_RANKS and 4 * (len(found[0]) + len(found[1])) < MOST_PAIRS:
                self._step *= 2
            for stream, processing, met in zip(STREAMS, self._processing, found, strict=True):
                assert met is not None
                yield stream, processing.with_stars(met, chunk.ranks, stop)
            start = stop

    def _found(self, chunk: Chunk, side: int, ranks: tuple[int, int], most: int) -> Met | None:
        probes, window = chunk.arrivals[side], self._storage[1 - side].window
        assert window is not None
        if ranks != chunk.ranks:
            probes = probes.part(*np.searchsorted(probes.ranks, ranks).tolist())
        return self._processing[side].process(probes, window, chunk.compiled, most)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A core does nothing of its own accord."""
        return ()

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        windows = [storage.window for storage in self._storage]
        return self._compared + sum(w.comparisons for w in windows if w is not None)

    def measures(self) -> dict[str, Any]:
        """What this core has stored, processed and found, and what it holds."""
        windows = [storage.window for storage in self._storage]
        return {
            "core": self._position,
            "stored": [storage.stored for storage in self._storage],
            "probed": [processing.probed for processing in self._processing],
            "matched": sum(processing.matched for processing in self._processing),
            "comparisons": self.comparisons,
            "window": [0 if w is None else len(w) for w in windows],
        }


def splitjoin_network(cores: int, branching: int, stars: Stars) -> Network:
    """Distribution tree, cores, two trees of mergers, combiner."""
    core_units = [JoinCore(i, cores, stars) for i in range(cores)]
    network = Network(list(core_units))
    root = _distribution(network, list(core_units), branching)
    network.enter("in", root, "in")
    waits = stars.order != "none"
    combiner = Merger("combiner", 2, waits)
    network.units.append(combiner)
    for number, stream in enumerate(STREAMS):
        top, output = _merging(network, core_units, stream, branching, waits)
        network.wire(top, output, combiner, f"in{number}")
        if output == "out":
            network.at_ends.add(top.name)
    network.leave(combiner, "out", "out")
    network.at_ends |= {root.name, combiner.name} - {core.name for core in core_units}
    return network


def _distribution(network: Network, below: list[Unit], branching: int) -> Unit:
    """Distributors above the cores, up to one; as wide as may be before another level is added."""
    level = 0
    while len(below) > 1 or level == 0:
        groups = [below[i : i + branching] for i in range(0, len(below), branching)]
        above: list[Unit] = []
        for number, group in enumerate(groups):
            node = Distributor(f"distributor {level}.{number}", len(group))
            for i, unit in enumerate(group):
                network.wire(node, f"out{i}", unit, "in")
            above.append(node)
        network.units += above
        below, level = above, level + 1
    return below[0]


def _merging(
    network: Network, cores: Sequence[Unit], stream: str, branching: int, waits: bool
) -> tuple[Unit, Port]:
    """Mergers below the cores' outputs of one stream, down to one; its last output."""
    ends: list[tuple[Unit, Port]] = [(core, stream) for core in cores]
    level = 0
    while len(ends) > 1:
        groups = [ends[i : i + branching] for i in range(0, len(ends), branching)]
        below: list[tuple[Unit, Port]] = []
        for number, group in enumerate(groups):
            node = Merger(f"merger {stream}{level}.{number}", len(group), waits)
            for i, (unit, output) in enumerate(group):
                network.wire(unit, output, node, f"in{i}")
            network.units.append(node)
            below.append((node, "out"))
        ends, level = below, level + 1
    return ends[0]


class SplitJoin:
    """The flow, as a join block uses it."""

    complete_at_once = True

    def __init__(
        self, cores: int, branching: int, stars: Stars, driver: Callable[[Network], Driver]
    ) -> None:
        self._network = splitjoin_network(cores, branching, stars)
        self._cores: list[JoinCore] = [
            unit for unit in self._network.units if isinstance(unit, JoinCore)
        ]
        self._driver = driver(self._network)

    def program(self, rule: Rule, held: tuple[Arrivals, Arrivals], rank: int) -> None:
        """Send the instruction down the tree."""
        for _ in self._send(Programming(rule, held)):
            raise AssertionError("there was nothing under way")

    def take(self, chunk: Chunk) -> Iterator[Met]:
        """Let arrivals in, and wait until all cores have done with them."""
        done = 0
        for piece in pieces(chunk, CHUNK_RANKS):
            for met, until in self._send(piece):
                yield met
                done = max(done, until)
        while done < chunk.ranks[1]:
            for met, until in self._received():
                yield met
                done = max(done, until)
            if done < chunk.ranks[1]:
                self._driver.wait()

    def _send(self, message: Chunk | Programming) -> Iterator[tuple[Met, int]]:
        while not self._driver.send("in", message):
            yield from self._received()
            self._driver.wait()

    def _received(self) -> Iterator[tuple[Met, int]]:
        """Results, and before which rank all have come."""
        for _, results in self._driver.received():
            yield results.met, results.rank if results.until == ALL_SECTIONS else 0

    def complete(self) -> Iterator[Met]:
        """Everything has been completed by ``take``."""
        return iter(())

    def oldest(self, side: int) -> int | None:
        """Nothing is found late."""
        return None

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(core.comparisons for core in self._cores)

    def measures(self) -> dict[str, Any]:
        """The figures of each core."""
        depths = self._driver.depths()
        return {"cores": [{**core.measures(), "depth": depths[core.name]} for core in self._cores]}

    def close(self) -> None:
        """Stop the threads."""
        self._driver.close()


def pieces(chunk: Chunk, most: int) -> Iterator[Chunk]:
    """The chunk in pieces of at most so many ranks."""
    while chunk.ranks[1] - chunk.ranks[0] > most:
        piece, chunk = chunk.until(chunk.ranks[0] + most)
        yield piece
    yield chunk
