"""Bucket indexes: what `hash`, `band` and `sorted` share.

Entries are held in *segments*, each a copy of the keys in bucket order, so that the candidates of a
probe are contiguous. Segments cover the window from old to young, their sizes at least halving. A
short tail at the end is in none and searched by the nested loop. When the tail has grown it becomes
a segment, together with the younger segments that are not larger, so each entry is copied a
logarithmic number of times. Nothing is ever removed: a probe's live range says which entries count.

The *layout* of a segment maps keys to buckets. The indexes differ in nothing else: see
:mod:`penstock.kernels.probe.hash_index` and :mod:`penstock.kernels.probe.band_index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.machine_code import njit
from penstock.kernels.predicate.keys import LARGEST, floats_of_keys
from penstock.kernels.predicate.predicate import Key

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
REGIONS = 1 << 14
"""The most regions that probes are sorted by."""


def numbers(key: Key, values: Array) -> Array:
    """A key column as floats that order as its values do; NaN stays NaN."""
    kind = key.expression.type
    if key.kind == "compare" and pa.types.is_floating(kind):
        floating = np.float32 if values.dtype == np.int32 else np.float64
        bits, out = np.empty_like(values), np.empty(len(values), np.float64)
        floats_of_keys(values, LARGEST[values.itemsize], bits, bits.view(floating), out)
        return out
    if key.kind == "compare" and pa.types.is_uint64(kind):
        return (values ^ np.iinfo(np.int64).min).view(np.uint64).astype(np.float64)
    return values.astype(np.float64)


class KeyColumns:
    """The keys of some tuples of one side; as floats and as hashes too, computed on first use."""

    def __init__(self, kinds: Sequence[Key], keys: Sequence[Array]) -> None:
        self._kinds = kinds
        self.keys = keys
        self._known: dict[int, Array] = {}
        self._hashed: dict[tuple[int, ...], Array] = {}

    def __len__(self) -> int:
        return len(self.keys[0])

    def __getitem__(self, number: int) -> Array:
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = numbers(self._kinds[number], self.keys[number])
        return found

    def hashed(self, columns: tuple[int, ...]) -> Array:
        """A 64-bit hash of the given keys of each tuple."""
        found = self._hashed.get(columns)
        if found is None:
            found = self._hashed[columns] = np.empty(len(self), np.uint64)
            for i, number in enumerate(columns):
                bits = 64 if i == len(columns) - 1 else 0
                hash_cells(self.keys[number], bits, found, i == 0)
        return found


@dataclass(frozen=True)
class CellRanges:
    """The cells that each probe must search: rows ``x0 .. x1``, and in each ``y0 .. y1``."""

    x0: Array
    x1: Array
    y0: Array
    y1: Array


class Layout(Protocol):
    """How keys become buckets."""

    buckets: int
    """The number of buckets."""
    columns: int
    """Buckets per row; 1 if there are no rows."""
    one_region: bool
    """Whether all probes that match an entry are in one region."""

    def place(self, stored: KeyColumns) -> Array:
        """The bucket of each entry."""

    def ranges(self, probe: KeyColumns) -> CellRanges:
        """The buckets that each probe must search."""

    def regions(self, probe: KeyColumns) -> tuple[Array, int]:
        """The region where each probe starts to search, and the number of regions."""


def coarser(where: Array, count: int) -> tuple[Array, int]:
    """The regions of buckets, of which there are ``count``, and the number of regions."""
    step = -(-count // REGIONS)
    return (where // np.int32(step) if step > 1 else where), -(-count // step)


@dataclass(frozen=True)
class Segment:
    """Entries ``first .. last - 1`` in bucket order: their numbers less ``first``, and columns."""

    first: int
    last: int
    layout: Layout
    offsets: Array
    order: Array
    columns: list[Array]

    def __len__(self) -> int:
        return self.last - self.first

    @cached_property
    def jumps(self) -> Array:
        """For each entry, 0 or a distance (:mod:`penstock.kernels.predicate.generate_first`)."""
        return np.zeros(len(self.order), np.int32)

    @property
    def nbytes(self) -> int:
        jumps = self.order.nbytes if "jumps" in self.__dict__ else 0
        columns = sum(column.nbytes for column in self.columns)
        return int(self.offsets.nbytes + self.order.nbytes + jumps + columns)


def make_segment(
    first: int,
    layout: Layout,
    stored: KeyColumns,
    unknown: Array | None,
    columns: Sequence[Array],
) -> Segment:
    """Put entries into buckets, except those with a NULL key (``unknown``), which match nothing."""
    count = len(columns[0])
    where = layout.place(stored)
    if unknown is not None:
        where[unknown] = -1
    offsets = np.empty(layout.buckets + 2, np.uint32)
    # One element more than there are entries: kernels read before they check for an end.
    order = np.empty(count + 1, np.int32)
    group(where, offsets, order)
    order = order[: int(offsets[-1]) + 1]
    order[-1] = 0
    copies = [gathered(column, order) for column in columns]
    return Segment(first, first + count, layout, offsets, order, copies)


# -- compiled loops ----------------------------------------------------------------------


@njit()
def hash_cells(keys: Array, bits: int, out: Array, first: bool) -> None:
    """Mix one more key column into ``out``, unsigned 64-bit hashes, and leave the top ``bits``.

    Called once per key column, ``bits`` is 0 until the last.
    """
    for i in range(keys.shape[0]):
        mixed = np.uint64(keys[i]) if first else (out[i] * np.uint64(31)) ^ np.uint64(keys[i])
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        mixed = mixed ^ (mixed >> np.uint64(33))
        if bits > 0:
            mixed = (mixed * np.uint64(0xC4CEB9FE1A85EC53)) >> np.uint64(64 - bits)
        out[i] = mixed


@njit()
def group(where: Array, offsets: Array, order: Array) -> None:
    """Entries by bucket, in their own order inside one: a counting sort.

    A bucket of -1 leaves an entry out. ``offsets`` has two elements more than there are buckets;
    bucket ``b`` is from ``offsets[b]`` to ``offsets[b + 1]``.
    """
    offsets[:] = 0
    # Counted two places further on, so that filling the buckets leaves every offset in its place.
    for i in range(where.shape[0]):
        if where[i] >= 0:
            offsets[where[i] + 2] += np.uint32(1)
    total = np.uint32(0)
    for b in range(offsets.shape[0]):
        total += offsets[b]
        offsets[b] = total
    for i in range(where.shape[0]):
        if where[i] >= 0:
            at = offsets[where[i] + 1]
            order[at] = i
            offsets[where[i] + 1] = at + np.uint32(1)


@njit()
def put_in_order(values: Array) -> None:
    """Sort: a few numbers by insertion, since a call that sorts many costs hundreds of those."""
    if values.shape[0] > 16:
        values.sort()
        return
    for i in range(1, values.shape[0]):
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@njit()
def gather(values: Array, order: Array, out: Array) -> None:
    """``out[i] = values[order[i]]``."""
    for i in range(order.shape[0]):
        out[i] = values[order[i]]


def gathered(values: Array, order: Array) -> Array:
    """:func:`gather` into a new array."""
    out = np.empty(len(order), values.dtype)
    gather(values, order, out)
    return out
