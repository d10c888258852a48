"""Probes that come alone, and are not to wait for steps that serve many."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from penstock.blocks.meeting import Arrivals, Met, Rule, nobody
from penstock.kernels.entry_index import EntryIndex
from penstock.kernels.nested_loop import Columns
from penstock.kernels.one_probe import OneProbe

Indices = npt.NDArray[np.int64]


class LoneProbes:
    """Into one side of a core's windows; ``stride`` is the least distance of stored numbers."""

    def __init__(self, side: int, rule: Rule, stride: int | None, index: EntryIndex | None) -> None:
        self._side = side
        self._rule = rule
        self._stride = stride
        self._index = index
        self._one: OneProbe | None = None
        self.comparisons = 0

    def serves(self, probes: Arrivals) -> bool:
        """Whether it is one probe, whose partners are told by numbers and keys alone."""
        if len(probes) != 1 or probes.low is not None or not (probes.keys and self._rule.compiled):
            return False
        return all([valid is None or bool(valid[0]) for valid in probes.valid])

    def forget(self) -> None:
        """The index has been changed, or what columns there are."""
        self._one = None

    def prepare(self, probes: Arrivals, stored: Columns, first: int) -> None:
        """For probes like these. The index has just been brought up to date; see :meth:`find`."""
        types = [key.dtype for key in probes.keys]
        following = first + len(stored.keys[0])
        self._one = OneProbe(
            self._rule.predicate, 1 - self._side, types, stored, self._index, following
        )

    def find(self, probes: Arrivals, stored: Columns, seqs: Indices, first: int) -> Met | None:
        """The pairs of a probe with these entries, ``first`` and following.

        None: it must go the long way, for the index's sake; and :meth:`prepare` comes after that.
        """
        if self._one is None and self._index is None:
            self.prepare(probes, stored, first)
        if self._one is None:
            return None
        lo, hi = self._span(seqs, int(probes.lo[0]), int(probes.hi[0]))
        if lo >= hi:
            return nobody()
        keys = [key.item() for key in probes.keys]
        constants = self._rule.constants
        entries = self._one.find(first, (first + lo, first + hi), keys, stored.flat(), constants)
        if entries is None:
            self._one = None
            return None
        self.comparisons += self._one.met
        if not len(entries):
            return nobody()
        at = time.monotonic_ns()
        theirs = seqs[entries - first]
        own, ranks = probes.seqs, probes.ranks
        if len(entries) > 1:
            own, ranks = own.repeat(len(entries)), ranks.repeat(len(entries))
        left, right = (own, theirs) if self._side == 1 else (theirs, own)
        return Met(left, right, ranks, entries, at)

    def _span(self, seqs: Indices, lo: int, hi: int) -> tuple[int, int]:
        """Where the entries are whose numbers are from ``lo`` on and below ``hi``."""
        first, count, stride = int(seqs[0]), len(seqs), self._stride
        if stride is None or int(seqs[-1]) - first != (count - 1) * stride:
            return int(seqs.searchsorted(lo)), int(seqs.searchsorted(hi))
        # All neighbours are as near as they can be, so nothing has to be searched.
        low = min(max(-((first - lo) // stride), 0), count)
        return low, min(max(-((first - hi) // stride), 0), count)
