"""The nested-loop kernel: every probe against every live tuple. Serves every predicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.predicate.generate import Shape, generate
from penstock.kernels.predicate.predicate import Both, Predicate
from penstock.kernels.probe.buckets import gathered

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Pairs = npt.NDArray[np.int64]
"""The results of kernels. A pair is one number: the index of the probe in its upper 32 bits, that
of the stored tuple in its lower ones. So pairs are sorted by sorting numbers."""


@dataclass(frozen=True)
class Columns:
    """One side's part of a kernel call: keys, the validity of each (None: no NULLs), time bounds.

    For the probing side ``lower`` and ``upper`` bound the times of its partners; for the stored
    side they are the expiry and the time to compare with. If the live range is exact, they are
    None.
    """

    keys: Sequence[Array]
    valid: Sequence[npt.NDArray[np.bool_] | None]
    lower: Array | None = None
    upper: Array | None = None

    def flat(self) -> list[Array]:
        """In the order the generated function takes them."""
        given = [v for v in self.valid if v is not None]
        return [*self.keys, *given, *(b for b in (self.lower, self.upper) if b is not None)]

    def part(self, start: int, stop: int) -> Columns:
        """Neighbouring elements of each column."""
        if self.keys and start == 0 and stop == len(self.keys[0]):
            return self
        return Columns(
            [key[start:stop] for key in self.keys],
            [None if valid is None else valid[start:stop] for valid in self.valid],
            None if self.lower is None else self.lower[start:stop],
            None if self.upper is None else self.upper[start:stop],
        )

    def take(self, order: Array) -> Columns:
        """The given elements of each column."""

        def taken(column: Array | None) -> Array | None:
            return None if column is None else gathered(column, order)

        return Columns(
            [gathered(key, order) for key in self.keys],
            [taken(valid) for valid in self.valid],
            taken(self.lower),
            taken(self.upper),
        )


def pairs(
    predicate: Predicate,
    probe_side: int,
    lo: Indices,
    hi: Indices,
    probe: Columns,
    stored: Columns,
    constants: Sequence[np.generic],
    capacity: int,
) -> Pairs | None:
    """The matching pairs, by probe and then by stored index; None if more than ``capacity``."""
    if not (lo < hi).any():
        return np.empty(0, np.int64)
    if predicate.condition == Both(()) and probe.lower is None:
        return every_pair(lo, hi, capacity)
    function = kernel_for(predicate, probe_side, probe, stored)
    out = np.empty(capacity, np.int64)
    found = int(function(lo, hi, *probe.flat(), *stored.flat(), *constants, out))
    if found < 0:
        return None
    out[:found].sort()
    return out[:found]


def kernel_for(
    predicate: Predicate, probe_side: int, probe: Columns, stored: Columns
) -> Callable[..., Any]:
    """The function for these columns."""
    shape = shape_of(probe_side, probe, stored)
    return predicate.kernel(shape, lambda: generate(predicate, shape))


def shape_of(probe_side: int, probe: Columns, stored: Columns) -> Shape:
    """The shape of a kernel for these columns."""
    nulls = [tuple(v is not None for v in c.valid) for c in (probe, stored)]
    ordered = (nulls[0], nulls[1]) if probe_side == 0 else (nulls[1], nulls[0])
    times = "" if probe.lower is None else "low" if probe.upper is None else "both"
    return Shape(probe_side, ordered, times)


def every_pair(lo: Indices, hi: Indices, capacity: int) -> Pairs | None:
    """All pairs of a probe and a tuple of its live range; None if more than ``capacity``."""
    counts = np.maximum(hi - lo, 0)
    total = int(counts.sum())
    if total > capacity:
        return None
    probe = np.repeat(np.arange(len(lo), dtype=np.int64), counts)
    first = np.repeat(lo - (np.cumsum(counts) - counts), counts)
    every: Pairs = (probe << 32) + np.arange(total, dtype=np.int64) + first
    return every


def live_pairs(
    lo: Indices, hi: Indices, probe: Columns, stored: Columns, capacity: int
) -> Pairs | None:
    """All pairs of a probe and a live tuple, whatever the predicate; None if too many candidates.

    Of a tuple out of time order, its times say whether it is live.
    """
    every = every_pair(lo, hi, capacity)
    if every is None or probe.lower is None or stored.lower is None:
        return every
    probing, entries = split(every)
    live = stored.lower[entries] > probe.lower[probing]
    if probe.upper is not None and stored.upper is not None:
        live &= stored.upper[entries] < probe.upper[probing]
    found: Pairs = every[live]
    return found


def split(pairs: Pairs) -> tuple[Indices, Indices]:
    """The probes and the stored tuples of pairs, by index.

    >>> split(np.array([(1 << 32) + 7, (4 << 32) + 2]))
    (array([1, 4]), array([7, 2]))
    """
    return pairs >> 32, pairs & 0xFFFFFFFF
