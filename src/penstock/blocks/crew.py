"""A join block's work divided among threads that share its windows.

Why it is exact. The threads begin when the whole run has been stored and indexed, and end before
anything is stored or dropped: while they look, nothing moves. A pair is found by the later of its
two tuples, which has one rank and so is in one part; every probe carries its own live range, so it
does not matter who else is looking. Parts are neighbouring ranks and come out one after another,
so the order is that of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.blocks.join_side import JoinSide
from penstock.blocks.matcher import Matcher, Probes, Tally
from penstock.blocks.pairing import MOST_PAIRS, Found, find_pairs
from penstock.blocks.run import Run

T = TypeVar("T")
Ranks = npt.NDArray[np.float64]

PARTS_EACH = 1
"""Parts per core: one that is slowed down leaves the rest to the others."""
SMALLEST_PART = 512
"""Events that are not worth another thread's while."""
SAMPLE = 64
MOST_LIVE = 1.0
"""Tuples in the windows per arrival of a part, up to which a part makes its own index."""
CROWDED = 64
"""Comparisons per arrival from which on an index that stays, which notices, does better."""
RUNS_TO_SKIP = 16
SWEPT = 1 << 17
"""Arrivals of a part with an index of its own: with more, the index leaves the cache."""
SWEPT_PER_LIVE = 4
"""But if windows are long, at least so many for each tuple that a part must begin with."""


class Crew(Protocol):
    """Threads, as a join block uses them."""

    @property
    def cores(self) -> int:
        """How many there are."""

    def share(
        self, tasks: Sequence[Callable[[int], T]], about: Callable[[int], str] | None = None
    ) -> list[T]:
        """Do every task once, several at a time; each is told its core. Results are in order.

        ``about`` says what a task is about, by its number, should it fail.
        """

    def count(self, core: int, probed: Sequence[int], matched: int, comparisons: int) -> None:
        """Take note of what a core has done."""

    def measures(self) -> dict[str, Any]:
        """What each core has done."""

    def close(self) -> None:
        """End the threads; from here on the caller does everything alone."""


@dataclass(frozen=True)
class _Part:
    """What a core has made of a part: rows, or None if their number was too large."""

    core: int
    run: Run | None
    tally: Tally


class Sharing:
    """The steps of a run, each divided into one part or more per core."""

    def __init__(self, crew: Crew, matcher: Matcher, sides: tuple[JoinSide, JoinSide]) -> None:
        self._crew = crew
        self._matcher = matcher
        self._sides = sides
        self._step = MOST_PAIRS
        self._sweeping: int | None = None
        self._runs_to_skip = 0

    def sweeps(self, probes: list[Probes | None]) -> bool:
        """Whether in this run each part makes an index of its own, and of one side alone.

        That pays where the windows, which each part must begin with, are short beside it.
        """
        self._runs_to_skip = max(0, self._runs_to_skip - 1)
        given = [p for p in probes if p is not None]
        arrivals = sum(len(p.at) for p in given)
        live = sum(int(p.hi[-1] - p.lo[-1]) for p in given if len(p.at))
        pays = (
            not self._runs_to_skip
            and arrivals >= SMALLEST_PART * self._crew.cores
            and live * self._crew.cores <= MOST_LIVE * arrivals
            and self._matcher.can_sweep(probes)
        )
        self._sweeping = max(SWEPT, SWEPT_PER_LIVE * live) if pays else None
        return pays

    def runs(
        self, probes: list[Probes | None], count: int, gather: Callable[[Found], Run]
    ) -> Iterator[Run]:
        """The rows of ``count`` ranks, in order, as many runs."""
        start = 0
        while start < count:
            stop = min(count, start + self._crew.cores * self._step)
            stretches = list(pairwise(self._bounds(probes, start, stop)))
            parts = self._share(probes, stretches, gather)
            for part, (a, b) in zip(parts, stretches, strict=True):
                if part.run is None:
                    # The parts after it are done again: with smaller steps, for the memory's sake.
                    self._step = max(1, (b - a) // 2)
                    break
                self._matcher.settle(part.tally)
                if self._sweeping is not None and part.tally.comparisons > CROWDED * (b - a):
                    self._runs_to_skip = RUNS_TO_SKIP
                self._crew.count(
                    part.core, part.tally.probed, len(part.run), part.tally.comparisons
                )
                if self._step < MOST_PAIRS and len(part.run) * 4 < MOST_PAIRS:
                    self._step *= 2
                start = b
                if len(part.run):
                    yield part.run

    def _share(
        self,
        probes: list[Probes | None],
        stretches: list[tuple[int, int]],
        gather: Callable[[Found], Run],
    ) -> list[_Part]:
        """What the cores make of these stretches of ranks."""
        tasks = [self._task(probes, start, stop, gather) for start, stop in stretches]
        return self._crew.share(tasks, lambda number: _tuples(probes, *stretches[number]))

    def _task(
        self, probes: list[Probes | None], start: int, stop: int, gather: Callable[[Found], Run]
    ) -> Callable[[int], _Part]:
        def work(core: int) -> _Part:
            tally = Tally()
            found = self._found(probes, start, stop, tally)
            return _Part(core, None if found is None else gather(found), tally)

        return work

    def _found(
        self, probes: list[Probes | None], start: int, stop: int, tally: Tally
    ) -> Found | None:
        given = [p for p in probes if p is not None]
        if self._sweeping is not None and stop - start > 1:
            pairs = self._matcher.sweep(given, start, stop, MOST_PAIRS, tally)
            return None if pairs is None else Found(*pairs)
        return find_pairs(self._matcher, self._sides, probes, start, stop, tally)

    def _bounds(self, probes: list[Probes | None], start: int, stop: int) -> list[int]:
        """Where to cut ranks, so that parts have about as many candidates and none is too long."""
        count = stop - start
        parts = min(self._crew.cores * PARTS_EACH, -(-count // SMALLEST_PART))
        parts = max(parts, -(-count // self._step))
        if self._sweeping is not None:
            parts = max(parts, -(-count // self._sweeping))
        even = np.linspace(start, stop, parts + 1)
        if parts > 1:
            ranks, work = _estimated_work(probes, start, stop)
            even = np.interp(np.linspace(0.0, work[-1], parts + 1), work, ranks)
        cuts = [start, *even[1:-1].astype(np.int64).tolist(), stop]
        bounds = [start]
        for cut in cuts[1:]:
            # Where candidates are few, a part may still have more ranks than a step.
            while cut - bounds[-1] > self._step:
                bounds.append(bounds[-1] + self._step)
            if cut > bounds[-1]:
                bounds.append(cut)
        return bounds


def _tuples(probes: list[Probes | None], start: int, stop: int) -> str:
    """The tuples of a stretch, for an error to name."""
    named = []
    for stream, given in zip("RS", probes, strict=True):
        if given is not None:
            a, b = np.searchsorted(given.at, (start, stop)).tolist()
            seqs = (given.numbers[a:b] + given.first_seq).tolist()
            if seqs:
                last = f"..{seqs[-1]}" if len(seqs) > 1 else ""
                named.append(f"{stream} {seqs[0]}{last}")
    return f"tuples {' and '.join(named)}" if named else "a punctuation"


def _estimated_work(probes: list[Probes | None], start: int, stop: int) -> tuple[Ranks, Ranks]:
    """Ranks, and how much work there is up to each: a sample of the probes' live ranges."""
    ranks, work = [np.array([start, stop])], [np.zeros(2)]
    for given in probes:
        if given is None:
            continue
        a, b = np.searchsorted(given.at, (start, stop)).tolist()
        if a == b:
            continue
        picked = np.linspace(a, b - 1, min(SAMPLE, b - a)).astype(np.int64)
        ranks.append(given.at[picked])
        # Every probe costs something, whether it sees anybody or not.
        seen = given.hi[picked] - given.lo[picked] + 1024.0
        work.append(seen * ((b - a) / len(picked)))
    every, amount = np.concatenate(ranks), np.concatenate(work)
    order = np.argsort(every, kind="stable")
    return every[order].astype(np.float64), np.cumsum(amount[order])
