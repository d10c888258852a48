"""A flow in one direction (Najafi 2019 §5.1): chunks in at the top, their pairs out at the bottom.

Nothing stays on the way: once a chunk's last results are out, all of its pairs have been found.
The processing cores compare a chunk of arrivals of both streams with a part of both windows.

A change comes in at the top as chunks do, and every FIFO keeps the order. So a core has compared
all chunks before it, and the pairs of a later chunk are those of the program in force when its
tuples arrived. It does not matter when other cores take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from penstock.blocks.join.partner_search import Arrivals, Change, Chunk, FoundPairs, Rule, no_pairs
from penstock.blocks.window.steps import Steps
from penstock.flows.network.network import Driver, Network, Paced, Sent, with_loads
from penstock.flows.splitjoin.gathering import ALL_SECTIONS, STREAMS, Results, Stars
from penstock.flows.sub_window import SubWindow
from penstock.tuning import TUNING

ANY_NUMBER = 1 << 62


class ProcessingCore:
    """Algorithm 3: compares arriving tuples with its part of the other stream's window."""

    def __init__(self, stars: Stars) -> None:
        self.stars = stars
        self.probed = 0
        self.matched = 0

    def process(
        self, probes: Arrivals, window: SubWindow, compiled: bool, most: int
    ) -> FoundPairs | None:
        """The pairs of these probes, by rank; None if there are more than ``most``."""
        pairs = window.older_at_once(probes, compiled, most)
        if pairs is not None:
            self.probed += len(probes)
            self.matched += len(pairs)
        return pairs

    def with_stars(self, pairs: FoundPairs, ranks: tuple[int, int], until: int) -> Results:
        """The pairs of a chunk with these ranks, all of those before rank ``until``."""
        first, after = ranks
        sections = self.stars.sections(pairs, first) if len(pairs) else pairs.ranks
        reached = ALL_SECTIONS if until == after else self.stars.reached(until, first)
        return Results(pairs, sections, reached, after, self.stars.order)


class ProcessingCores:
    """The processing cores of both streams, side by side."""

    def __init__(self, stars: Stars) -> None:
        self._stars = stars
        self.cores = tuple(ProcessingCore(stars) for _ in STREAMS)
        self._steps = Steps(TUNING.ranks_per_chunk)

    def change(self, rule: Rule) -> None:
        """Give the pairs of later chunks in the order that a rule asks for."""
        if rule.order is not None:
            self._stars = Stars(*rule.order)
            for core in self.cores:
                core.stars = self._stars

    def results(self, chunk: Chunk, windows: Sequence[SubWindow]) -> Iterator[Sent]:
        """The pairs of a chunk in these windows, in smaller steps where there are many pairs.

        Each of a step's two messages leaves by the output with its stream's name.
        """
        start, after = chunk.ranks
        if after - start == 1:
            yield from self._alone(chunk, windows)
            return
        full = TUNING.pairs_per_message

        def search(start: int, stop: int) -> tuple[FoundPairs, FoundPairs] | None:
            most = full if stop - start > 1 else ANY_NUMBER
            left, right = (
                self._found(chunk, side, windows, (start, stop), most) for side in (0, 1)
            )
            return None if left is None or right is None else (left, right)

        for found, _, stop in self._steps.through(
            start, after, full, search, lambda found: len(found[0]) + len(found[1])
        ):
            assert found is not None, "a single event may have any number of pairs"
            for stream, core, pairs in zip(STREAMS, self.cores, found, strict=True):
                yield stream, core.with_stars(pairs, chunk.ranks, stop)

    def _alone(self, chunk: Chunk, windows: Sequence[SubWindow]) -> Iterator[Sent]:
        """The same for a single-tuple push, or a single punctuation, at the least latency."""
        after = chunk.ranks[1]
        for side in (0, 1) if len(chunk.arrivals[0]) else (1, 0):
            probes, pairs, core = chunk.arrivals[side], no_pairs(), self.cores[side]
            if len(probes):
                found = core.process(probes, windows[1 - side], chunk.compiled, ANY_NUMBER)
                assert found is not None
                pairs = found
            sections = self._stars.sections_of_one(pairs) if len(pairs) else pairs.ranks
            yield STREAMS[side], Results(pairs, sections, ALL_SECTIONS, after, self._stars.order)

    def _found(
        self,
        chunk: Chunk,
        side: int,
        windows: Sequence[SubWindow],
        ranks: tuple[int, int],
        most: int,
    ) -> FoundPairs | None:
        probes = chunk.arrivals[side]
        if ranks != chunk.ranks:
            probes = probes.part(*np.searchsorted(probes.ranks, ranks).tolist())
        return self.cores[side].process(probes, windows[1 - side], chunk.compiled, most)

    @property
    def probed(self) -> list[int]:
        """How many tuples of each stream have been compared."""
        return [core.probed for core in self.cores]

    @property
    def matched(self) -> int:
        """How many pairs have been found."""
        return sum(core.matched for core in self.cores)


class ComparingUnit(Paced, Protocol):
    """A unit that evaluates predicates."""

    @property
    def comparisons(self) -> int:
        """How often the predicate has been evaluated."""


class UniFlow:
    """A one-way flow, as a join block uses it.

    ``network`` has one entry, ``in``, for chunks and changes, and one exit, for results; ``cores``
    are those of its units that join.
    """

    complete_at_once = True
    keeps_tuples = True

    def __init__(
        self, network: Network, cores: Sequence[ComparingUnit], driver: Callable[[Network], Driver]
    ) -> None:
        self._cores = cores
        self._driver = driver(network)

    def change(self, change: Change) -> None:
        """Send a change down; every core takes it between the chunks before and after it."""
        for _ in self._send(change):
            raise AssertionError("there was nothing under way")

    def take(self, chunk: Chunk) -> Iterator[FoundPairs]:
        """Let arrivals in, and wait until all cores have processed them."""
        done = chunk.ranks[0]  # a chunk of late tuples alone has no ranks and no pairs
        for piece in pieces(chunk, TUNING.ranks_per_chunk):
            for pairs, until in self._send(piece):
                yield pairs
                done = max(done, until)
        while done < chunk.ranks[1]:
            for pairs, until in self._received():
                yield pairs
                done = max(done, until)
            if done < chunk.ranks[1]:
                self._driver.wait()

    def _send(self, message: Chunk | Change) -> Iterator[tuple[FoundPairs, int]]:
        while not self._driver.send("in", message):
            yield from self._received()
            self._driver.wait()

    def _received(self) -> Iterator[tuple[FoundPairs, int]]:
        """Results, and the rank before which all have come."""
        for _, results in self._driver.received():
            yield results.pairs, results.rank if results.until == ALL_SECTIONS else 0

    def complete(self) -> Iterator[FoundPairs]:
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
        driver = self._driver
        return {"cores": [with_loads(c.measures(), c.name, driver) for c in self._cores]}

    def close(self) -> None:
        """Stop the threads."""
        self._driver.close()


def pieces(chunk: Chunk, most: int) -> Iterator[Chunk]:
    """The chunk in pieces of at most ``most`` ranks."""
    while chunk.ranks[1] - chunk.ranks[0] > most:
        piece, chunk = chunk.until(chunk.ranks[0] + most)
        yield piece
    yield chunk
