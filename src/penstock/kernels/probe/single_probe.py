"""Single probes by keys: one compiled call, without a batch, an array of pairs or a sort.

A search for a batch of probes takes dozens of steps in Python, which is nothing for a thousand
probes and everything for one. Here the whole search is one call of a compiled function, and what
does not change from tuple to tuple is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.predicate.predicate import Key, Predicate
from penstock.kernels.probe.entry_index import MANY_CANDIDATES, EntryIndex, SearchStats
from penstock.kernels.probe.nested_loop import Columns
from penstock.kernels.probe.single_search import (
    LONG_TAIL,
    MANY_PARTNERS,
    BufferTypes,
    Search,
    describe_segments,
    indented,
    indexed_up_to,
    name_of,
    preamble,
    segments_of,
)
from penstock.tuning import TUNING

Indices = npt.NDArray[np.int64]
FEW = 1024
"""Room for partners at first."""


@dataclass(frozen=True)
class SingleProbeShape:
    """What the source depends on besides the predicate: the probing side, and the types of keys.

    ``keys`` are those of the probe, of which none is NULL.
    """

    side: int
    keys: tuple[np.dtype[Any], ...]
    stored: BufferTypes


def generate_single_probe(predicate: Predicate, shape: SingleProbeShape) -> str:
    """The source of ``kernel(segments, first, indexed, until, lo, hi, out, keys…, …)``.

    After the probe's keys come the stored columns, which are keys and, where a key has NULLs, its
    validity; then the constants. Entries ``lo .. hi - 1`` are live; ``first`` is at index 0 of the
    columns; entries from ``indexed`` on are in no segment. The kernel returns LONG_TAIL once there
    are entries from ``until`` on, since the index is behind then. Else it returns the number of
    partners, whose entry numbers are in ``out`` in no order, and the number of candidates.
    """
    search = Search.of(predicate, shape.side, shape.keys, shape.stored, has_chains=False)
    ours = predicate.keys[shape.side]
    casts = [f"a{i} = {name_of(dtype)}(g{i})" for i, dtype in enumerate(shape.keys)]
    numbers = [
        line
        for i, (k, d) in enumerate(zip(ours, shape.keys, strict=True))
        for line in _number(i, k, d)
    ]
    scratch = [
        f"asked = np.empty({len(ours)}, np.float64)",
        f"codes = np.empty({len(ours)}, np.int64)",
        "hashed = np.empty(1, np.uint64)",
        *numbers,
    ]
    places = [f"number{i}" for i in range(len(ours))]
    slices = [f"{array} = s{i}[start - first:hi - first]" for i, array in enumerate(search.arrays)]
    parameters = [
        *(f"g{i}" for i in range(len(ours))),
        *(f"s{i}" for i in range(len(search.arrays))),
        *(f"k{i}" for i in range(len(predicate.constants))),
    ]
    return f"""{preamble("Looks for the partners of one tuple")}

@nb.njit(nogil=True, boundscheck=False)
def kernel(segments, first, indexed, until, lo, hi, out, {", ".join(parameters)}):
    {indented(casts, 1)}
    found = 0
    candidates = 0
    if hi > until:
        return {LONG_TAIL}, 0
    {indented(search.segments(places, scratch), 1)}
    start = min(max(indexed, lo), hi)
    tail = hi - start
    indexed = start
    {indented(slices, 1)}
    {indented(search.tail(), 1)}
    return found, candidates
"""


def _number(index: int, key: Key, dtype: np.dtype[Any]) -> list[str]:
    """A key as the float that a grid places it by, as :func:`buckets.numbers` computes it."""
    kind, name = key.expression.type, f"number{index}"
    if key.kind == "compare" and pa.types.is_floating(kind):
        floating = "np.float32" if dtype == np.int32 else "np.float64"
        return [
            f"key{index} = np.empty(1, {name_of(dtype)})",
            f"key{index}[0] = a{index}",
            f"bits{index} = np.empty(1, {name_of(dtype)})",
            f"real{index} = np.empty(1, np.float64)",
            f"floats_of_keys(key{index}, {name_of(dtype)}({np.iinfo(dtype).max}), bits{index}, "
            f"bits{index}.view({floating}), real{index})",
            f"{name} = real{index}[0]",
        ]
    if key.kind == "compare" and pa.types.is_uint64(kind):
        return [f"{name} = np.float64(np.uint64(a{index}) ^ np.uint64(1 << 63))"]
    return [f"{name} = np.float64(a{index})"]


class SingleProbe:
    """Single probes into one stored side. When the side's index changes, a new one is needed.

    Parameters
    ----------
    predicate, side
        The predicate, and the side of the probes.
    keys
        The types of a probe's keys.
    stored
        The stored side's columns; later ones are of the same types.
    index
        Its index, if it has one, which must be up to date.
    following
        The number of the entry that is stored next.
    """

    def __init__(
        self,
        predicate: Predicate,
        side: int,
        keys: Sequence[np.dtype[Any]],
        stored: Columns,
        index: EntryIndex | None,
        following: int,
    ) -> None:
        types = BufferTypes(
            tuple(column.dtype for column in stored.keys),
            tuple(valid is not None for valid in stored.valid),
        )
        shape = SingleProbeShape(side, tuple(keys), types)
        self._kernel: Callable[..., tuple[int, int]] = predicate.kernel(
            ("one", shape), lambda: generate_single_probe(predicate, shape)
        )
        self._index = index
        # Segments are described by their addresses, so they must be kept alive.
        self._held = segments_of(index, len(types.buffers))
        self._segments = describe_segments(self._held)
        self._indexed = indexed_up_to(self._held)
        # An index that is up to date left out what it found no use for. It may want the rest.
        self._until = np.iinfo(np.int64).max
        if index is not None:
            self._until = following + TUNING.longest_tail
        self._out: Indices = np.empty(FEW, np.int64)
        self.candidates = 0
        """Candidates of the last probe."""

    def find(
        self,
        first: int,
        span: tuple[int, int],
        keys: Sequence[Any],
        columns: Sequence[npt.NDArray[Any]],
        constants: Sequence[np.generic],
    ) -> Indices | None:
        """The entries within ``span`` that the keys match, oldest first.

        ``columns`` are the stored side's, with ``first`` at index 0. None if the index must be
        brought up to date, or has been since: then the caller searches with a batch.
        """
        lo, hi = span
        if self._index is not None and self._index.segments is not self._held:
            return None
        while True:
            found, candidates = self._kernel(
                self._segments, first, self._indexed, self._until, lo, hi, self._out,
                *keys, *columns, *constants,
            )  # fmt: skip
            if found != MANY_PARTNERS:
                break
            self._out = np.empty(2 * candidates, np.int64)
        if found < 0:
            return None
        self.candidates = int(candidates)
        entries = self._out[:found].copy()
        if found > 1:
            entries.sort()
        if self._index is not None and candidates > MANY_CANDIDATES:
            indexed = candidates - max(0, hi - max(self._indexed, lo))
            stats = SearchStats(entries, candidates, indexed, found, 1, hi - lo)
            self._index.learn(stats, first, hi - first)
        return entries
