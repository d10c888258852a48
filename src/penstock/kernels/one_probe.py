"""Looking for the partners of one tuple that has its keys: no batch, no array of pairs, no sorting.

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

from penstock.kernels import entry_index
from penstock.kernels.compiled import load
from penstock.kernels.entry_index import CROWDED, EntryIndex
from penstock.kernels.looked import Looked
from penstock.kernels.nested_loop import Columns
from penstock.kernels.predicate import Key, Predicate
from penstock.kernels.single_layout import LONG_TAIL, MANY_PARTNERS, Stored
from penstock.kernels.single_search import Search, indented, name_of, preamble
from penstock.kernels.single_segments import describe_segments, indexed_up_to, segments_of

Indices = npt.NDArray[np.int64]
FEW = 1024
"""Partners that there is room for at first."""


@dataclass(frozen=True)
class OneShape:
    """What, besides the predicate, decides the source: the probing side, and what keys there are.

    ``keys`` are the types of the probe's keys, of which none is NULL.
    """

    side: int
    keys: tuple[np.dtype[Any], ...]
    stored: Stored


def generate_one(predicate: Predicate, shape: OneShape) -> str:
    """The source of ``kernel(segments, first, indexed, until, lo, hi, out, keys…, …)``.

    After the probe's keys come the stored columns, keys and the validities that there are, and the
    constants. Entries ``lo .. hi - 1`` are live, of which ``first`` is at index 0 of the columns;
    those from ``indexed`` on are in no segment. Once there are entries from ``until`` on, the index
    is behind, and it returns LONG_TAIL; else how many partners there are, with their entry numbers
    in ``out`` in no order, and how many candidates were met.
    """
    search = Search.of(predicate, shape.side, shape.keys, shape.stored)
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

@nb.njit(nogil=True, cache=True, boundscheck=False)
def kernel(segments, first, indexed, until, lo, hi, out, {", ".join(parameters)}):
    {indented(casts, 1)}
    found = 0
    met = 0
    if hi > until:
        return {LONG_TAIL}, 0
    {indented(search.segments(places, scratch), 1)}
    start = min(max(indexed, lo), hi)
    tail = hi - start
    indexed = start
    {indented(slices, 1)}
    {indented(search.tail(), 1)}
    return found, met
"""


def _number(index: int, key: Key, dtype: np.dtype[Any]) -> list[str]:
    """A key as the float that a grid places it by; as :func:`bucket_index.numbers` does it."""
    kind, name = key.expression.type, f"number{index}"
    if key.kind == "compare" and pa.types.is_floating(kind):
        floating = "np.float32" if dtype == np.int32 else "np.float64"
        return [
            f"key{index} = np.empty(1, {name_of(dtype)})",
            f"key{index}[0] = a{index}",
            f"bits{index} = np.empty(1, {name_of(dtype)})",
            f"real{index} = np.empty(1, np.float64)",
            f"turn_back(key{index}, {name_of(dtype)}({np.iinfo(dtype).max}), bits{index}, "
            f"bits{index}.view({floating}), real{index})",
            f"{name} = real{index}[0]",
        ]
    if key.kind == "compare" and pa.types.is_uint64(kind):
        return [f"{name} = np.float64(np.uint64(a{index}) ^ np.uint64(1 << 63))"]
    return [f"{name} = np.float64(a{index})"]


class OneProbe:
    """Single probes into one stored side. Whoever changes its index makes a new one.

    Parameters
    ----------
    predicate, side
        The predicate, and the side of the probes.
    keys
        The types of a probe's keys.
    stored
        The stored side's columns; later ones are of the same types.
    index
        Its index, if it has one; it has just been brought up to date.
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
        types = Stored(
            tuple(column.dtype for column in stored.keys),
            tuple(valid is not None for valid in stored.valid),
        )
        shape = OneShape(side, tuple(keys), types)
        known = predicate.kernels.get(("one", shape))
        if known is None:
            known = predicate.kernels["one", shape] = load(generate_one(predicate, shape))
        self._kernel: Callable[..., tuple[int, int]] = known
        self._index = index
        # They must live as long as the addresses that their description is made of.
        self._held = segments_of(index, len(types.buffers))
        self._segments = describe_segments(self._held)
        self._indexed = indexed_up_to(self._held)
        # What an index that is up to date has left out, it saw no use in; some more, it may.
        self._until = np.iinfo(np.int64).max
        if index is not None:
            self._until = following + entry_index.LONGEST_TAIL
        self._out: Indices = np.empty(FEW, np.int64)
        self.met = 0

    def find(
        self,
        first: int,
        span: tuple[int, int],
        keys: Sequence[Any],
        columns: Sequence[npt.NDArray[Any]],
        constants: Sequence[np.generic],
    ) -> Indices | None:
        """The entries between ``span`` that the keys match, oldest first; None: look another way.

        ``columns`` are the stored side's, with ``first`` at index 0. None is the answer where the
        index has to be brought up to date, or has been. :attr:`met` says how many candidates there
        were.
        """
        lo, hi = span
        if self._index is not None and self._index._segments is not self._held:
            return None
        while True:
            found, met = self._kernel(
                self._segments, first, self._indexed, self._until, lo, hi, self._out,
                *keys, *columns, *constants,
            )  # fmt: skip
            if found != MANY_PARTNERS:
                break
            self._out = np.empty(2 * met, np.int64)
        if found < 0:
            return None
        self.met = int(met)
        entries = self._out[:found].copy()
        if found > 1:
            entries.sort()
        if self._index is not None and met > CROWDED:
            crowd = met - max(0, hi - max(self._indexed, lo))
            self._index.learn(Looked(entries, met, crowd, found, 1, hi - lo), first, hi - first)
        return entries
