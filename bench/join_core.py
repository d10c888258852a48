"""One join core by itself: keys of arriving tuples in, index pairs out.

It does only what the join block does with its kernels: store the keys of a batch on both sides,
index them, probe the live range of the other side with every tuple of the batch, and drop expired
tuples. So it can be compared with a join core of the papers, which does no more. Result rows,
output order across the sides and the rest are measured through the engine, in
:mod:`bench.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import penstock as ps
from bench.measure import rate, repeat
from penstock.blocks.window.keys import StoredKeys, WindowKeys
from penstock.blocks.window.probe import Probe
from penstock.kernels.expressions.vector import Failures
from penstock.kernels.merging import places
from penstock.streams.events import Merged

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Arrivals:
    """A batch of both streams: the keys of each side's tuples, and their live ranges."""

    keys: tuple[list[Array], list[Array]]
    seen: tuple[Array, Array]


class JoinCore:
    """Count windows of ``window`` tuples on both sides, and an index on each."""

    def __init__(self, probe: Probe, keys: Sequence[WindowKeys], window: int) -> None:
        self._window = window
        self._keys = keys
        self._probe = probe
        self.stored = [StoredKeys(probe.predicate, side, "auto") for side in (0, 1)]

    def arrivals(self, merged: Merged) -> Arrivals:
        """Compute the keys of a batch; not part of the measurement."""
        left, right = (
            keys.keyed(batch, Failures()).values
            for keys, batch in zip(self._keys, merged.batches, strict=True)
        )
        orders = [np.flatnonzero(merged.which == side) for side in (0, 1)]
        seen = places(*orders)
        return Arrivals((left, right), seen)

    def join(self, batch: Arrivals, probe: bool = True) -> int:
        """Store a batch and find its pairs; returns their number."""
        before = [len(stored.columns[0].values) for stored in self.stored]
        for stored, keys in zip(self.stored, batch.keys, strict=True):
            stored.append(keys, [None] * len(keys))
        found = 0
        for side in (0, 1) if probe else ():
            hi = before[1 - side] + batch.seen[side]
            found += self._look(side, batch.keys[side], np.maximum(hi - self._window, 0), hi)
        for stored in self.stored:
            stored.drop(max(0, len(stored.columns[0].values) - self._window))
        return found

    def _look(self, side: int, keys: list[Array], lo: Array, hi: Array) -> int:
        stored, probing = self.stored[1 - side], self._probe.probing(side, keys, [None] * len(keys))
        stats = self._probe.find(stored, lo, hi, probing, stored.read(), 1 << 30)
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
        core = JoinCore(join.matcher.probe, join.matcher.keys, window)
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
        "kernels": [stored.kernel for stored in core.stored],
    }
