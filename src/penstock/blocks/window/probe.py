"""A search of a window's entries: by an index, by the nested loop, or of all live pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.kernels.merging import live_total
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe.entry_index import EntryIndex, SearchStats
from penstock.kernels.probe.nested_loop import Columns, live_pairs, pairs

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Probe:
    """How the entries of one side of a predicate are searched.

    Parameters
    ----------
    predicate
        What a pair has to satisfy.
    stored_side
        The side of the entries: 0 or 1.
    constants
        Those of the predicate.
    """

    predicate: Predicate
    stored_side: int
    constants: Sequence[np.generic]

    def search(
        self,
        index: EntryIndex | None,
        first: int,
        lo: Indices,
        hi: Indices,
        probing: Columns,
        stored: Columns,
        capacity: int,
    ) -> SearchStats:
        """The pairs of each probe with entries of its live range, by probe and then by entry.

        By the ``index``, if there is one; ``first`` is the number of the oldest entry. There may be
        ``capacity`` pairs. Nothing is changed, so threads may search at the same time.
        """
        if index is not None:
            return index.search(first, lo, hi, probing, stored, self.constants, capacity)
        side = 1 - self.stored_side
        found = pairs(self.predicate, side, lo, hi, probing, stored, self.constants, capacity)
        return SearchStats(found, live_total(lo, hi), 0, 0, len(lo), 0)


def every_live(
    lo: Indices, hi: Indices, probing: Columns, stored: Columns, capacity: int
) -> SearchStats:
    """As :meth:`Probe.search`, of all live pairs: what searches if the predicate might overflow."""
    found = live_pairs(lo, hi, probing, stored, capacity)
    return SearchStats(found, live_total(lo, hi), 0, 0, len(lo), 0)
