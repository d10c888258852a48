"""One join core by itself: keys of arriving tuples in, index pairs out.

It does only what the join block does with its kernels: store the keys of a batch on both sides,
index them, probe the live range of the other side with every tuple of the batch, and drop expired
tuples. So it can be compared with a join core of the papers, which does no more. Result rows,
output order across the sides and the rest are measured through the engine, in
:mod:`bench.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import penstock as ps
from bench.measure import rate, repeat
from penstock.blocks.join.side import JoinSide
from penstock.blocks.window.stored_columns import Buffer
from penstock.kernels.merging import places
from penstock.kernels.predicate.dictionary import Dictionary
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe.entry_index import EntryIndex
from penstock.kernels.probe.nested_loop import Columns
from penstock.streams.events import Merged

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Arrivals:
    """A batch of both streams: the keys of each side's tuples, and their live ranges."""

    keys: tuple[list[Array], list[Array]]
    seen: tuple[Array, Array]


class JoinCore:
    """Count windows of ``window`` tuples on both sides, and an index on each."""

    def __init__(self, predicate: Predicate, sides: tuple[JoinSide, JoinSide], window: int) -> None:
        self._window = window
        self._sides = sides
        self._stored = [[Buffer(c.values.view().dtype) for c in side.columns] for side in sides]
        self._first = [0, 0]
        self.indexes = [EntryIndex(predicate, side, "auto") for side in (0, 1)]
        self._dictionary = Dictionary()

    def arrivals(self, merged: Merged) -> Arrivals:
        """Compute the keys of a batch; not part of the measurement."""
        left, right = (
            side.keyed(batch, self._dictionary).values
            for side, batch in zip(self._sides, merged.batches, strict=True)
        )
        orders = [np.flatnonzero(merged.which == side) for side in (0, 1)]
        seen = places(*orders)
        return Arrivals((left, right), seen)

    def join(self, batch: Arrivals, probe: bool = True) -> int:
        """Store a batch and find its pairs; returns their number."""
        before = [len(columns[0]) for columns in self._stored]
        for columns, keys in zip(self._stored, batch.keys, strict=True):
            for column, values in zip(columns, keys, strict=True):
                column.append(values)
        found = 0
        for side in (0, 1) if probe else ():
            hi = before[1 - side] + batch.seen[side]
            found += self._look(side, batch.keys[side], np.maximum(hi - self._window, 0), hi)
        for side, columns in enumerate(self._stored):
            gone = max(0, len(columns[0]) - self._window)
            self._first[side] += gone
            for column in columns:
                column.drop(gone)
        return found

    def _look(self, side: int, keys: list[Array], lo: Array, hi: Array) -> int:
        other = 1 - side
        stored = [column.view() for column in self._stored[other]]
        probing, candidates = (
            Columns(keys, [None] * len(keys)),
            Columns(stored, [None] * len(stored)),
        )
        index, first = self.indexes[other], self._first[other]
        index.update(first, candidates, probing)
        stats = index.search(first, lo, hi, probing, candidates, (), 1 << 30)
        index.learn(stats, first, len(stored[0]))
        assert stats.pairs is not None
        return len(stats.pairs)


def measure(
    ddl: str,
    query: str,
    make: Callable[[np.random.Generator, int], Merged],
    window: int,
    batch: int = 65_536,
    rounds: int = 5,
) -> dict[str, Any]:
    """Tuples per second at full windows; each round replaces the window at least once.

    The pairs of the first batches are counted by the engine, too.
    """
    rng = np.random.default_rng(7)
    turn = max(4, 2 * window // batch)
    with ps.connect("local", buffer_rows=1 << 28) as engine:
        engine.sql(ddl)
        installed = engine.install(query)
        (join,) = installed.pipeline.of_kind("join")
        predicate, sides = join.matcher.predicate, join.sides
        assert not predicate.constants, "a core of its own is given no constants"
        core = JoinCore(predicate, sides, window)
        some = [make(rng, 10_000) for _ in range(3)]
        found = sum(core.join(core.arrivals(merged)) for merged in some)
        engine.feed(some)
        assert installed.rows().num_rows == found
        core.join(core.arrivals(make(rng, 2 * window + 65_536)), probe=False)
        core.join(core.arrivals(make(rng, batch)))
        batches = [core.arrivals(make(rng, batch)) for _ in range(turn)]
        seconds = repeat(lambda: [core.join(part) for part in batches], rounds)
    return {
        "window": window,
        "tuples_per_second": rate(batch * turn, seconds),
        "kernels": [index.choice.name for index in core.indexes],
    }
