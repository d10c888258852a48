"""A core's part of the work: a chunk of arrivals of both streams against a part of both windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.blocks.meeting import Arrivals, Chunk, Met, nobody
from penstock.flows.gathering import ALL_SECTIONS, STREAMS, Results, Stars
from penstock.flows.network import Sent
from penstock.flows.sub_window import MOST_PAIRS, SubWindow

CHUNK_RANKS = 1 << 18
"""Arrivals that travel together at most: an index is brought up to date once for all of them."""
ANY_NUMBER = 1 << 62


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
        sections = self._stars.sections(met, first) if len(met) else met.ranks
        reached = ALL_SECTIONS if until == after else self._stars.reached(until, first)
        return Results(met, sections, reached, after)


class Probing:
    """The processing cores of both streams, side by side."""

    def __init__(self, stars: Stars) -> None:
        self._stars = stars
        self.cores = tuple(ProcessingCore(stars) for _ in STREAMS)
        self._step = CHUNK_RANKS

    def results(self, chunk: Chunk, windows: Sequence[SubWindow]) -> Iterator[Sent]:
        """What a chunk finds in these windows, a few arrivals at a time where that is much.

        Each of a step's two messages leaves by the output with its stream's name.
        """
        start, after = chunk.ranks
        if after - start == 1:
            yield from self._alone(chunk, windows)
            return
        while start < after:
            stop = min(after, start + self._step)
            most = MOST_PAIRS if stop - start > 1 else ANY_NUMBER
            found = [self._found(chunk, side, windows, (start, stop), most) for side in (0, 1)]
            if found[0] is None or found[1] is None:
                self._step = max(1, (stop - start) // 2)
                continue
            if self._step < CHUNK_RANKS and 4 * (len(found[0]) + len(found[1])) < MOST_PAIRS:
                self._step *= 2
            for stream, core, met in zip(STREAMS, self.cores, found, strict=True):
                assert met is not None
                yield stream, core.with_stars(met, chunk.ranks, stop)
            start = stop

    def _alone(self, chunk: Chunk, windows: Sequence[SubWindow]) -> Iterator[Sent]:
        """The same for a tuple, or a punctuation, that comes alone: it is not kept waiting."""
        after = chunk.ranks[1]
        for side in (0, 1) if len(chunk.arrivals[0]) else (1, 0):
            probes, met, core = chunk.arrivals[side], nobody(), self.cores[side]
            if len(probes):
                found = core.process(probes, windows[1 - side], chunk.compiled, ANY_NUMBER)
                assert found is not None
                met = found
            sections = self._stars.sections_of_one(met) if len(met) else met.ranks
            yield STREAMS[side], Results(met, sections, ALL_SECTIONS, after)

    def _found(
        self,
        chunk: Chunk,
        side: int,
        windows: Sequence[SubWindow],
        ranks: tuple[int, int],
        most: int,
    ) -> Met | None:
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
