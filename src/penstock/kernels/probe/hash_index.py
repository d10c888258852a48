"""The `hash` index, for equality: a probe searches the one bucket of its keys' hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.machine_code import njit
from penstock.kernels.probe.buckets import CellRanges, KeyColumns, coarser

Array = npt.NDArray[Any]


class HashLayout:
    """Buckets by a hash of the keys that an equality compares."""

    columns = 1
    one_region = True

    def __init__(self, stored: Sequence[int], probe: Sequence[int], count: int) -> None:
        self._stored, self._probe = tuple(stored), tuple(probe)
        self._bits = max(1, min(22, count.bit_length() - 1))
        self.buckets = 1 << self._bits

    def _cells(self, columns: tuple[int, ...], tuples: KeyColumns) -> Array:
        out = np.empty(len(tuples), np.int32)
        top_bits(tuples.hashed(columns), self._bits, out)
        return out

    def place(self, stored: KeyColumns) -> Array:
        """The bucket of each entry."""
        return self._cells(self._stored, stored)

    def ranges(self, probe: KeyColumns) -> CellRanges:
        """The one bucket that each probe must search."""
        cells = self._cells(self._probe, probe)
        nothing = np.zeros(len(cells), np.int32)
        return CellRanges(cells, cells, nothing, nothing)

    def regions(self, probe: KeyColumns) -> tuple[Array, int]:
        """The region that each probe searches, and the number of regions."""
        return coarser(self._cells(self._probe, probe), self.buckets)


@njit()
def top_bits(hashes: Array, bits: int, out: Array) -> None:
    """The upper ``bits`` of each hash."""
    for i in range(hashes.shape[0]):
        out[i] = np.int32(hashes[i] >> np.uint64(64 - bits))
