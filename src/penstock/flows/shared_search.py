"""``shared`` for three and more streams: one memory has all windows, and cores divide the arrivals.

What :mod:`penstock.flows.shared` is for joins of two streams. Keys and indexes exist once. A batch
is stored first, the keys of a window by one core or another. Then each core takes a part of the
arrivals, and finds their combinations by the stages of ``mjoin``. At last each core sorts what
belongs to a stretch of ranks.

Why it is exact. A combination belongs to the arrival of its youngest member, which is in one part,
so one core makes it, once. While the cores search, nothing is stored or dropped, and what an
arrival may see is decided by its rank, whichever core has it. All combinations of a rank are in one
stretch; stretches leave one behind the other, so the order is that of one core.

What cores share and change while they search: the dictionary, which has a lock; and the index of a
window's keys, which one core at a time brings up to date or gives up, while others go on with the
segments that they have seen. Stages are shared too. What they note, that a key has ever had a NULL,
decides which kernel is called, and not what it finds.

How arrivals are divided. They are put in a row, stream by stream and each in order, and cut into
parts of about the same work; what an arrival of a stream cost in the batch before is the estimate.
So a core has many arrivals of few streams: a stage costs some fifty calls of the interpreter, which
one core runs at a time, whatever the number of arrivals. Stretches of ranks, with arrivals of all
streams in each, would go through every stage once for each core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.multiway.combination_search import (
    Arrived,
    Combinations,
    SearchProgram,
    in_output_order,
    one_after_another,
)
from penstock.blocks.multiway.order_revision import ProbePaths
from penstock.blocks.multiway.stage import Stage
from penstock.blocks.multiway.stretch_search import StretchSearch
from penstock.blocks.window.keys import WindowKeys, is_outgrown
from penstock.blocks.window.steps import Steps
from penstock.flows.shared import ThreadPool
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
Segment = tuple[int, int, int]
"""The arrivals of one origin in a stretch of ranks: the origin, the first rank, the one after."""

_Found = tuple[int, list[Combinations] | None]
"""A core, and what it has found of a part; None if that is too much."""


class SharedDictionary(Dictionary):
    """A dictionary for several threads, of which one at a time looks up codes."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def encode(self, values: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The code of each value; -1 for NULL."""
        with self._lock:
            return super().encode(values)


class SharedSearch:
    """The design ``shared``, as a multiway join block uses it: ``cores`` threads."""

    def __init__(self, cores: int) -> None:
        self._pool = ThreadPool(cores)
        self._program: SearchProgram | None = None
        self._dictionary = SharedDictionary()
        self._entries: dict[tuple[Any, ...], WindowKeys] = {}
        self._searches: list[StretchSearch] = []
        """By core; a core does one task at a time."""
        self._failures = [Failures() for _ in range(cores)]
        self._matched = [0] * cores
        self._compared_before = [0] * cores
        self._probed_before: list[list[int]] = [[] for _ in range(cores)]
        self._steps = Steps(TUNING.pairs_per_step)
        self._cost: list[float] = []

    def program(self, program: SearchProgram) -> None:
        """Compute the keys of the windows for another program; nothing is under way."""
        streams = len(program.sides)
        self._compared_before = self._compared
        self._probed_before = [probed or [0] * streams for probed in self._probed]
        self._program = program
        self._dictionary = SharedDictionary()
        self._entries = {}
        self._paths = ProbePaths(program)
        self._set_entries()
        self._cost = [1.0] * streams
        self._searches = [
            StretchSearch(program, self._paths.of, self._entries_of, self._dictionary, failures)
            for failures in self._failures
        ]

    def _set_entries(self) -> None:
        """Have the keys of all stages, and no others."""
        program = self._program
        assert program is not None
        for origin in range(len(program.sides)):
            for stage in self._paths.of(origin)[1]:
                if stage.identity not in self._entries:
                    side = program.sides[stage.input]
                    self._entries[stage.identity] = WindowKeys(
                        stage.predicate, program.kernel, side, self._dictionary
                    )
        for identity in self._entries.keys() - self._paths.identities:
            del self._entries[identity]

    def _entries_of(self, stage: Stage) -> WindowKeys:
        return self._entries[stage.identity]

    # -- a batch ----------------------------------------------------------------------------

    def take(self, arrived: Arrived) -> Iterator[Combinations]:
        """The combinations of a batch, in order."""
        self._store(arrived)
        if self._paths.revise(arrived, self._searches):
            self._set_entries()
        search, most = partial(self._found, arrived), TUNING.pairs_per_step
        for found, start, _ in self._steps.through(0, arrived.ranks.count, most, search, _total):
            if found is None:
                for part in self._searches[0].one(arrived, start):
                    self._matched[0] += len(part)
                    yield part
            else:
                yield from self._in_order(found, _total(found))
                yield one_after_another((), len(self._cost))

    def _store(self, arrived: Arrived) -> None:
        """Drop the keys of tuples that the block has dropped, and store those of new ones."""
        assert self._program is not None
        sides = self._program.sides

        def storing(entries: WindowKeys, input: int) -> Callable[[int], None]:
            def store(core: int) -> None:
                entries.drop_before(sides[input].rows.first)
                batch = arrived.admitted[input].batch
                if batch.num_rows:
                    entries.append(batch, self._failures[core])

            return store

        tasks = [storing(entries, identity[0]) for identity, entries in self._entries.items()]
        if arrived.ranks.count >= TUNING.arrivals_to_store_together:
            self._pool.share(tasks, lambda number: "new tuples")
        else:
            for task in tasks:
                task(0)

    def _found(self, arrived: Arrived, start: int, stop: int) -> list[Combinations] | None:
        """The combinations of a stretch of ranks, in parts, each by rank; None if too many."""
        parts = self._parts(arrived, start, stop)

        def searching(segments: Sequence[Segment]) -> Callable[[int], _Found]:
            def search(core: int) -> _Found:
                found = []
                for segment in segments:
                    some = self._searches[core].of_origin(arrived, *segment)
                    if some is None:
                        return core, None
                    found.append(some)
                return core, found

            return search

        before = self._work
        shared = self._pool.share(
            [searching(part) for part in parts], lambda number: _named(parts[number])
        )
        for origin, (probed, made) in enumerate(self._work):
            if probed > before[origin][0]:
                self._cost[origin] = (made - before[origin][1]) / (probed - before[origin][0])
        if any(part is None for _, part in shared):
            return None
        found: list[Combinations] = []
        for core, part in shared:
            some = [one for one in part or () if len(one)]
            self._matched[core] += sum(map(len, some))
            found += some
        return found

    @property
    def _work(self) -> list[tuple[int, int]]:
        """Of each origin, how many arrivals have probed, and how many combinations were made."""
        searches = self._searches
        return [
            (sum(s.probed[o] for s in searches), sum(s.made[o] for s in searches))
            for o in range(len(self._cost))
        ]

    def _parts(self, arrived: Arrived, start: int, stop: int) -> list[list[Segment]]:
        """The arrivals of a stretch of ranks in parts of about the same work.

        No part has less than ``TUNING.smallest_share``, unless there is only one.
        """
        ranks = [r[slice(*np.searchsorted(r, (start, stop)))] for r in arrived.ranks.tuples]
        work = [len(r) * cost for r, cost in zip(ranks, self._cost, strict=True)]
        count = max(1, min(self._pool.cores, int(sum(work)) // TUNING.smallest_share))
        each = sum(work) / count
        parts: list[list[Segment]] = [[] for _ in range(count)]
        done = 0.0
        for origin, (mine, amount) in enumerate(zip(ranks, work, strict=True)):
            # Where in this origin's arrivals parts end, as shares of its work.
            ends = [(each * i - done) / amount for i in range(1, count)] if amount else []
            inside = [0.0, *(end for end in ends if 0 < end < 1), 1.0]
            part = sum(end <= 0 for end in ends)
            for number, (a, b) in enumerate(pairwise(inside)):
                some = mine[int(a * len(mine)) : int(b * len(mine))]
                if len(some):
                    parts[part + number].append((origin, int(some[0]), int(some[-1]) + 1))
            done += amount
        return [part for part in parts if part]

    def _in_order(self, found: list[Combinations], total: int) -> Iterator[Combinations]:
        """All of these, sorted; each core sorts a stretch of ranks."""
        if not found:
            return
        count = max(1, min(self._pool.cores, total // TUNING.smallest_share))
        most = max(found, key=len).ranks
        cuts = [int(most[len(most) * i // count]) for i in range(1, count)]

        def sorting(part: list[Combinations]) -> Callable[[int], Combinations]:
            inputs = len(self._cost)
            return lambda core: in_output_order([some for some in part if len(some)], inputs)

        pieces: list[list[Combinations]] = [[] for _ in range(count)]
        for some in found:
            places = [0, *np.searchsorted(some.ranks, cuts).tolist(), len(some)]
            for piece, (a, b) in zip(pieces, pairwise(places), strict=True):
                piece.append(some.part(a, b))
        for together in self._pool.share([sorting(piece) for piece in pieces]):
            if len(together):
                yield together

    # -- questions --------------------------------------------------------------------------

    def measures(self) -> dict[str, Any]:
        """What each core has done; no core has a window of its own, and the first tells kernels."""
        kernels = [entries.kernel for entries in self._entries.values()]
        cores = self._pool.measures()["cores"]
        for core, compared, probed in zip(cores, self._compared, self._probed, strict=True):
            number = core["core"]
            core |= {"comparisons": compared, "probed": probed, "matched": self._matched[number]}
            core["kernels"] = [] if number else kernels
        orders = [] if self._program is None else self._paths.explained()
        return {"cores": cores, "probe_orders": orders}

    @property
    def _compared(self) -> list[int]:
        """Of each core, how often it has evaluated a predicate."""
        since = [search.comparisons for search in self._searches] or [0] * self._pool.cores
        return [a + b for a, b in zip(self._compared_before, since, strict=True)]

    @property
    def _probed(self) -> list[list[int]]:
        """Of each core, how many arrivals of each origin it has had."""
        if not self._searches:
            return self._probed_before
        return [
            [a + b for a, b in zip(before, search.probed, strict=True)]
            for before, search in zip(self._probed_before, self._searches, strict=True)
        ]

    @property
    def comparisons(self) -> int:
        """How often a predicate has been evaluated."""
        return sum(self._compared)

    @property
    def failed_expressions(self) -> int:
        """How many expressions have failed."""
        return sum(failures.count for failures in self._failures)

    @property
    def is_wasteful(self) -> bool:
        """Whether most values of the dictionary may be of expired tuples."""
        sides = () if self._program is None else self._program.sides
        return is_outgrown(self._dictionary, sides)

    @property
    def nbytes(self) -> int:
        """The memory of the keys and their indexes."""
        return sum(entries.nbytes for entries in self._entries.values())

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


def _total(parts: Sequence[Combinations]) -> int:
    """How many combinations there are in all parts."""
    return sum(map(len, parts))


def _named(segments: Sequence[Segment]) -> str:
    """A part, for an error to say where."""
    spans = [f"origin {o}, ranks {first}..{after - 1}" for o, first, after in segments]
    return f"the new tuples of {' and '.join(spans)}"
