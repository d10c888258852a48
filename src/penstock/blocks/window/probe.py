"""The search of stored keys: from probes with live ranges to pairs.

The search is by an index, by the nested loop or, if sums of the compiled predicate might overflow,
of every live pair. Then the caller evaluates the whole predicate on the pairs. Joins of two and
more streams and the cores of all flows search stored keys for a batch of probes by this class
alone, on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.window.keys import Bounds, StoredKeys, key_dtype
from penstock.kernels.merging import live_total
from penstock.kernels.predicate.overflow import stays_in_range
from penstock.kernels.predicate.predicate import KeyOperand, Predicate, has_arithmetic
from penstock.kernels.probe.entry_index import SearchStats
from penstock.kernels.probe.first_match import FirstMatches
from penstock.kernels.probe.nested_loop import Columns, live_pairs, pairs
from penstock.sql.expressions import TRUE
from penstock.tuning import TUNING

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
HARMLESS = (62, 61, 48, 40, 32, 30, 29, 24, 16, 14, 13, 8, 6, 5)
"""Magnitudes, as powers of two, that are tried to find how large keys may become."""
NO_PAIRS: Indices = np.empty(0, np.int64)
NOTHING_LIVE = SearchStats(NO_PAIRS, 0, 0, 0, 0, 0)


def constant_of(value: Any, kind: pa.DataType) -> np.generic:
    """A constant of the machine type that native keys of its SQL type have."""
    if pa.types.is_float32(kind):
        return np.float32(value)
    return np.float64(value) if pa.types.is_float64(kind) else np.int64(value)


class Probe:
    """A predicate by which stored keys are searched, from either side.

    Where threads share it, they may search at the same time. What they note, that a key has ever
    had a NULL, decides which kernel is called, and not what it finds.
    """

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.constants = [constant_of(k.value, k.type) for k in predicate.constants]
        self._computes = has_arithmetic(predicate.condition)
        self._has_null = [[False] * len(keys) for keys in predicate.keys]

    # -- whether sums stay in range -----------------------------------------------------------

    def in_range(self, bounds_of: Callable[[KeyOperand], Bounds | None]) -> bool:
        """Whether no sum of the kernel can overflow, given the bounds of the keys."""
        if not self._computes:
            return True
        return stays_in_range(self.predicate.condition, self.predicate.constants, bounds_of)

    def harmless(self, stored: Sequence[StoredKeys | None]) -> int | None:
        """A magnitude of keys for which no sum can overflow, given the stored keys of each side.

        None if there is none: then only keys within the current bounds are known to be safe.
        """

        def bounds_of(operand: KeyOperand) -> Bounds | None:
            if not self._are_integers[operand.side][operand.index]:
                return None
            keys = stored[operand.side]
            known = None if keys is None else keys.columns[operand.index].bounds
            low, high = known or (0, 0)
            return min(-size, low), max(size, high)

        for bits in HARMLESS:
            size = 1 << bits
            if stays_in_range(self.predicate.condition, self.predicate.constants, bounds_of):
                return size
        return None

    @cached_property
    def _are_integers(self) -> list[list[bool]]:
        return [[key_dtype(key).kind == "i" for key in keys] for keys in self.predicate.keys]

    # -- searching --------------------------------------------------------------------------

    def probing(
        self,
        side: int,
        values: Sequence[Array],
        valid: Sequence[Mask | None],
        lower: Array | None = None,
        upper: Array | None = None,
    ) -> Columns:
        """The columns of probes of a side: their keys, and what bounds the times of partners.

        A key that has ever had a NULL keeps a validity mask: fewer kernels are compiled.
        """
        has_null, masks = self._has_null[side], list(valid)
        for number, mask in enumerate(valid):
            if mask is not None:
                has_null[number] = True
            elif has_null[number]:
                masks[number] = np.ones(len(values[number]), np.bool_)
        return Columns(values, masks, lower, upper)

    def update(self, keys: StoredKeys, stored: Columns, probing: Columns) -> None:
        """Bring the index of keys up to date."""
        if keys.index is not None:
            with keys.changing:
                keys.index.update(keys.first, stored, probing)

    def search(
        self,
        keys: StoredKeys,
        lo: Indices,
        hi: Indices,
        probing: Columns,
        stored: Columns,
        most: int | None,
        compiled: bool = True,
        indexed: bool = True,
    ) -> SearchStats:
        """The pairs of each probe with entries of its live range, by probe and then by entry.

        None instead if there are more than ``most``, or if several probes would be compared with
        more entries than one call may take. ``stored`` is what a kernel reads of the keys. Not
        ``compiled``: every live pair. ``indexed``: the index, which is up to date, can serve.
        Nothing is changed, so threads may search at the same time.
        """
        live = live_total(lo, hi)
        if not live:
            return NOTHING_LIVE
        capacity = live if most is None else min(live, most)
        scans = not compiled or not indexed or keys.index is None
        if scans and most is not None and len(lo) > 1 and live > TUNING.comparisons_per_call:
            return SearchStats(None, 0, 0, 0, 0, 0)
        if not compiled:
            found = live_pairs(lo, hi, probing, stored, capacity)
        elif indexed and keys.index is not None:
            return keys.index.search(keys.first, lo, hi, probing, stored, self.constants, capacity)
        else:
            side, constants = 1 - keys.side, self.constants
            found = pairs(self.predicate, side, lo, hi, probing, stored, constants, capacity)
        return SearchStats(found, live, 0, 0, len(lo), 0)

    def find(
        self,
        keys: StoredKeys,
        lo: Indices,
        hi: Indices,
        probing: Columns,
        stored: Columns,
        most: int | None,
        compiled: bool = True,
        indexed: bool = True,
    ) -> SearchStats:
        """As :meth:`search`, with an index that is brought up to date before, and learns after."""
        if not live_total(lo, hi):
            return NOTHING_LIVE
        indexed = indexed and compiled and keys.index is not None
        if indexed:
            self.update(keys, stored, probing)
        stats = self.search(keys, lo, hi, probing, stored, most, compiled, indexed)
        if indexed:
            keys.learn(stats)
        return stats

    def first_matches(
        self,
        keys: StoredKeys,
        lo: Indices,
        hi: Indices,
        probing: Columns,
        stored: Columns,
        compiled: bool,
    ) -> FirstMatches:
        """A search of which one partner of a tuple is enough; the index is up to date."""
        if not compiled:
            probing = Columns([], [], probing.lower, probing.upper)
            stored = Columns([], [], stored.lower, stored.upper)
            return FirstMatches(self._always, (), keys.side, (), 0, lo, hi, probing, stored)
        segments = () if keys.index is None else keys.index.segments
        return FirstMatches(
            self.predicate, self.constants, keys.side, segments, keys.first, lo, hi, probing, stored
        )

    @cached_property
    def _always(self) -> Predicate:
        """The predicate that every pair satisfies."""
        return Predicate.of(TRUE, self.predicate.load)
