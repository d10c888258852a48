"""SplitJoin (Najafi 2019 §5.1–5.2): one way down to the cores, one way down from them.

A tree of distributors brings every tuple to every join core. Each core has a storage core and a
processing core, independent of each other. All process a tuple: compare it with their part of the
other stream's window. One stores it: each core counts the tuples to know whose turn it is, without
a coordinator. Results go down two trees of mergers, one for those that R tuples found and one for S
tuples, to the combiner.

A message is a chunk of tuples of both streams. A core stores its share of it first and processes
all of it then: each tuple carries the range of its candidates, so it is never compared too early.

A change goes the same way. Mergers need not know of it: the results of each chunk say in which
order they are asked for. A core cuts what it stores to other window sizes, takes another
predicate over the keys that it has, or finds the other keys of its own tuples among those sent.
Tuples stay where they are and the counting goes on, so that every tuple is stored by one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from penstock.blocks.join.partner_search import Arrivals, Change, Chunk, Indices
from penstock.flows.network.network import Driver, Network, Paced, Port, Sent
from penstock.flows.splitjoin.gathering import STREAMS, Merger, Stars
from penstock.flows.sub_window import SubWindow
from penstock.flows.uni_flow import ProcessingCores, UniFlow

T = TypeVar("T", Arrivals, Indices)


class Distributor:
    """Algorithm 1: send every message to all below."""

    def __init__(self, name: str, outputs: int) -> None:
        self.name = name
        self.inputs = ["in"]
        self._outputs = [f"out{i}" for i in range(outputs)]

    def needs(self, port: Port) -> Sequence[Port]:
        """All below must have room."""
        return self._outputs

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Broadcast."""
        return [(output, message) for output in self._outputs]

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A distributor does nothing of its own accord."""
        return ()

    def measures(self) -> dict[str, Any]:
        """Nothing is counted here."""
        return {}


class StorageCore:
    """Stores every ``cores``-th tuple of a stream, and drops expired ones.

    Passive expiry: of a count window, tuples further behind the newest than the window's size.
    Active expiry: of a time window, tuples that the other stream's punctuation has passed.
    """

    def __init__(self, side: int, position: int, cores: int) -> None:
        self._side = side
        self._position = position
        self._cores = cores
        self._store_counter = 0
        self._window_rows: int | None = None
        self.window = SubWindow(side, stride=cores)
        self.stored = 0

    def change(self, change: Change) -> None:
        """Take another program. Tuples stay where they are stored; new ones are stored in turn."""
        self._window_rows = change.rule.window_rows[self._side]
        self.window.change(change, self._in_turn(change.new(self._side)))

    def store(self, arrivals: Arrivals) -> None:
        """Store those whose turn it is here."""
        mine = self._in_turn(arrivals)
        self.stored += len(mine)
        self.window.append(mine)

    def _in_turn(self, tuples: T) -> T:
        """Those whose turn it is here; all cores count the same tuples."""
        turn = (self._position - self._store_counter) % self._cores
        self._store_counter = (self._store_counter + len(tuples)) % self._cores
        return tuples if self._cores == 1 else tuples[turn :: self._cores]

    def expire(self, seen: int, punctuation: int | float | None) -> None:
        """Drop expired tuples, given the count of tuples and the other stream's punctuation."""
        if self._window_rows is not None:
            self.window.drop(self.window.count_before(seen - self._window_rows))
        elif punctuation is not None:
            self.window.drop(self.window.count_expired(punctuation))


class JoinCore:
    """Algorithm 2: the right-region stores R and processes S, the left-region the other way."""

    def __init__(self, position: int, cores: int, stars: Stars) -> None:
        self.name = f"core {position}"
        self.inputs = ["in"]
        self._position = position
        self._storage = tuple(StorageCore(side, position, cores) for side in (0, 1))
        self._processing = ProcessingCores(stars)

    def needs(self, port: Port) -> Sequence[Port]:
        """Results must have somewhere to go."""
        return STREAMS

    def step(self, port: Port, message: Chunk | Change) -> Iterable[Sent]:
        """Store a share of the chunk and process all of it; or take another program."""
        if isinstance(message, Change):
            for storage in self._storage:
                storage.change(message)
            self._processing.change(message.rule)
            return
        # A single tuple is compared before it is stored: it is not among its own candidates.
        alone = message.ranks[1] - message.ranks[0] == 1
        if not alone:
            self._store(message)
        yield from self._processing.results(message, self._windows)
        if alone:
            self._store(message)
        for side, storage in enumerate(self._storage):
            punctuation = None if message.punctuations is None else message.punctuations[1 - side]
            storage.expire(message.seen[side], punctuation)

    def _store(self, chunk: Chunk) -> None:
        for storage, arrivals in zip(self._storage, chunk.arrivals, strict=True):
            storage.store(arrivals)

    def forward(self, has_room: Callable[[Port], bool]) -> Iterable[Sent]:
        """A core does nothing of its own accord."""
        return ()

    @property
    def _windows(self) -> list[SubWindow]:
        return [storage.window for storage in self._storage]

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""
        return sum(window.comparisons for window in self._windows)

    def measures(self) -> dict[str, Any]:
        """What this core has stored, processed and found, and what it holds."""
        return {
            "core": self._position,
            "stored": [storage.stored for storage in self._storage],
            "probed": self._processing.probed,
            "matched": self._processing.matched,
            "comparisons": self.comparisons,
            "window": [len(window) for window in self._windows],
            "kernels": [window.kernel for window in self._windows],
        }


def splitjoin_network(cores: int, branching: int, stars: Stars) -> Network:
    """Distribution tree, cores, two trees of mergers, combiner."""
    core_units = [JoinCore(i, cores, stars) for i in range(cores)]
    network = Network(list(core_units))
    entered = [(unit.name, "in") for unit in core_units]
    root = distribution_tree(network, entered, branching)
    network.enter("in", root, "in")
    combiner = Merger("combiner", 2)
    network.units.append(combiner)
    for number, stream in enumerate(STREAMS):
        top, output = _merging(network, core_units, stream, branching)
        network.wire(top, output, combiner, f"in{number}")
        if output == "out":
            network.at_ends.add(top.name)
    network.leave(combiner, "out", "out")
    network.at_ends |= {root.name, combiner.name} - {core.name for core in core_units}
    return network


def distribution_tree(
    network: Network, below: Sequence[tuple[str, Port]], branching: int
) -> Distributor:
    """Distributors above units, up to one; as wide as may be before another level is added.

    ``below`` are the names of the units, and their ports.
    """
    above: list[Distributor] = []
    level = 0
    while len(above) != 1:
        groups = [below[i : i + branching] for i in range(0, len(below), branching)]
        above = [
            Distributor(f"distributor {level}.{number}", len(group))
            for number, group in enumerate(groups)
        ]
        for node, group in zip(above, groups, strict=True):
            for i, target in enumerate(group):
                network.wires[node.name, f"out{i}"] = target
        network.units += above
        below, level = [(node.name, "in") for node in above], level + 1
    return above[0]


def _merging(
    network: Network, cores: Sequence[Paced], stream: str, branching: int
) -> tuple[Paced, Port]:
    """Mergers below the cores' outputs of one stream, down to one; its last output."""
    ends: list[tuple[Paced, Port]] = [(core, stream) for core in cores]
    level = 0
    while len(ends) > 1:
        groups = [ends[i : i + branching] for i in range(0, len(ends), branching)]
        below: list[tuple[Paced, Port]] = []
        for number, group in enumerate(groups):
            name = f"merger {stream}{level}.{number}"
            node = Merger(name, len(group))
            for i, (unit, output) in enumerate(group):
                network.wire(unit, output, node, f"in{i}")
            network.units.append(node)
            below.append((node, "out"))
        ends, level = below, level + 1
    return ends[0]


def splitjoin(
    cores: int, branching: int, stars: Stars, driver: Callable[[Network], Driver]
) -> UniFlow:
    """The flow, as a join block uses it."""
    network = splitjoin_network(cores, branching, stars)
    return UniFlow(network, [u for u in network.units if isinstance(u, JoinCore)], driver)
