"""A join block's work divided among threads that share its windows.

Why it is exact. The threads begin when the whole run has been stored and indexed, and end before
anything is stored or dropped: while they search, nothing moves. A pair is found by the later of its
two tuples, which has one rank and so is in one part; every probe carries its own candidate range,
so it does not matter which other threads search. Parts are neighbouring ranks and come out one
after another, so the order is that of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.blocks.join.matcher import Matcher, Probes, RankedPairs, Tally
from penstock.blocks.join.pair_search import StretchSearch
from penstock.blocks.run import Run
from penstock.blocks.window.steps import Steps
from penstock.blocks.window.window import StoredWindow
from penstock.tuning import TUNING

T = TypeVar("T")
Ranks = npt.NDArray[np.float64]

PARTS_EACH = 1
"""Parts per core: a slow core leaves the rest to the others."""
SAMPLE = 64


class CoreThreads(Protocol):
    """Threads, as a join block uses them."""

    @property
    def cores(self) -> int:
        """How many there are."""

    def share(
        self, tasks: Sequence[Callable[[int], T]], about: Callable[[int], str] | None = None
    ) -> list[T]:
        """Do every task once, several at a time; each gets its core's number. Results are in order.

        ``about`` says what a task is about, by its number, should it fail.
        """

    def count(self, core: int, probed: Sequence[int], matched: int, comparisons: int) -> None:
        """Add to the counts of a core."""

    def measures(self) -> dict[str, Any]:
        """The counts of each core."""

    def close(self) -> None:
        """End the threads; from then on the caller does all tasks."""


@dataclass(frozen=True)
class _Part:
    """The result of a part: rows, or None if there were too many."""

    core: int
    run: Run | None
    tally: Tally


class ParallelProbe:
    """Divides each step of a run into one part or more per core."""

    def __init__(
        self, threads: CoreThreads, matcher: Matcher, sides: tuple[StoredWindow, StoredWindow]
    ) -> None:
        self._threads = threads
        self._stretches = StretchSearch(matcher, sides, threads.cores)
        self._steps = Steps(TUNING.pairs_per_step)

    def sweeps(self, probes: list[Probes | None]) -> bool:
        """Whether this run needs no lasting index: each part makes one of its own."""
        return self._stretches.sweeps(probes)

    def runs(
        self, probes: list[Probes | None], count: int, gather: Callable[[RankedPairs], Run]
    ) -> Iterator[Run]:
        """The rows of ``count`` ranks, in order, as many runs."""
        start = 0
        while start < count:
            stop = min(count, start + self._threads.cores * self._steps.size)
            stretches = list(pairwise(self._bounds(probes, start, stop)))
            parts = self._share(probes, stretches, gather)
            for part, (a, b) in zip(parts, stretches, strict=True):
                if part.run is None:
                    # The parts after it are repeated, in smaller steps, to bound memory.
                    self._steps.halve(b - a)
                    break
                self._stretches.settle(part.tally, b - a)
                self._threads.count(
                    part.core, part.tally.probed, len(part.run), part.tally.comparisons
                )
                self._steps.widen(len(part.run), TUNING.pairs_per_step)
                start = b
                if len(part.run):
                    yield part.run

    def _share(
        self,
        probes: list[Probes | None],
        stretches: list[tuple[int, int]],
        gather: Callable[[RankedPairs], Run],
    ) -> list[_Part]:
        """The results of these ranges of ranks."""
        tasks = [self._task(probes, start, stop, gather) for start, stop in stretches]
        return self._threads.share(tasks, lambda number: _tuples(probes, *stretches[number]))

    def _task(
        self,
        probes: list[Probes | None],
        start: int,
        stop: int,
        gather: Callable[[RankedPairs], Run],
    ) -> Callable[[int], _Part]:
        def work(core: int) -> _Part:
            tally = self._stretches.tally()
            found = self._stretches.found(probes, start, stop, tally)
            return _Part(core, None if found is None else gather(found), tally)

        return work

    def _bounds(self, probes: list[Probes | None], start: int, stop: int) -> list[int]:
        """Where to cut ranks, so that parts have about as many candidates and none is too long."""
        count = stop - start
        parts = min(self._threads.cores * PARTS_EACH, -(-count // TUNING.smallest_part))
        step = self._steps.size
        parts = max(parts, -(-count // step))
        if self._stretches.longest is not None:
            parts = max(parts, -(-count // self._stretches.longest))
        even = np.linspace(start, stop, parts + 1)
        if parts > 1:
            ranks, work = _estimated_work(probes, start, stop)
            even = np.interp(np.linspace(0.0, work[-1], parts + 1), work, ranks)
        cuts = [start, *even[1:-1].astype(np.int64).tolist(), stop]
        bounds = [start]
        for cut in cuts[1:]:
            # Where candidates are few, a part may still have more ranks than a step.
            while cut - bounds[-1] > step:
                bounds.append(bounds[-1] + step)
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
        sample = np.linspace(a, b - 1, min(SAMPLE, b - a)).astype(np.int64)
        ranks.append(given.at[sample])
        # Every probe has a fixed cost too.
        seen = given.hi[sample] - given.lo[sample] + 1024.0
        work.append(seen * ((b - a) / len(sample)))
    every, amount = np.concatenate(ranks), np.concatenate(work)
    order = np.argsort(every, kind="stable")
    return every[order].astype(np.float64), np.cumsum(amount[order])
