"""Compiled loops that take a batch into cells: which tuples count, counts, smallest and largest.

A cell is a place in arrays of partial results: that of a group in a pane. Every loop lets go of the
interpreter lock, so that threads can take parts of a batch, each into cells of its own, and cells
are added up afterwards. A mask of length 0 stands for none.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.memory import alias

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

_COPIES = 4
_CROWD = 1024
"""Up to so many cells are counted in several copies, so that one count need not wait for the one
before it.
"""
_ALL = np.empty(0, np.bool_)
_TOP = np.iinfo(np.int64).max
_NAN = 0x7FF << 52


@nb.njit(nogil=True, cache=True)
def _chosen(mask: Array, out: Array) -> Word:
    """Where the mask is set; ``out`` has room for one more than it is long."""
    count = 0
    for i in range(mask.shape[0]):
        out[count] = i
        count += mask[i]
    return count


def chosen(mask: Array) -> npt.NDArray[np.int32]:
    """Where a mask is set. Other than NumPy's, it takes no longer if that cannot be foreseen.

    >>> chosen(np.array([True, False, True])).tolist()
    [0, 2]
    """
    out = np.empty(len(mask) + 1, np.int32)
    return out[: int(_chosen(alias(mask).view(np.uint8), out))]


@nb.njit(nogil=True, cache=True)
def _count(cells: Array, mask: Array, counts: Array, copies: Word) -> None:
    size, turn = counts.shape[0] // copies, copies - 1
    if mask.shape[0] == 0:
        for i in range(cells.shape[0]):
            counts[np.uint64(cells[i] + (i & turn) * size)] += 1
    else:
        for i in range(cells.shape[0]):
            counts[np.uint64(cells[i] + (i & turn) * size)] += np.int64(mask[i])


def count(cells: Array, counts: Array, mask: Array | None = None) -> None:
    """Count the tuples of each cell, those that the mask lets pass."""
    kept = _ALL if mask is None else alias(mask)
    cells = np.ascontiguousarray(cells, np.int32)
    if len(counts) <= _CROWD < len(cells):
        several = np.zeros(len(counts) * _COPIES, np.int64)
        _count(cells, kept, several, _COPIES)
        counts += several.reshape(_COPIES, -1).sum(axis=0)
    else:
        _count(cells, kept, counts, 1)


@nb.njit(nogil=True, cache=True, inline="always")
def _key(bits: Word) -> Word:
    """The comparison key of a float, given by its bits."""
    size = bits & _TOP
    turned = bits ^ ((bits >> 63) & _TOP)
    turned = turned if size <= _NAN else _TOP
    return turned if size > 0 else 0


@nb.njit(nogil=True, cache=True)
def lower_floats(
    bits: Array, valid: Array, cells: Array, flip: Word, keys: Array, has: Array
) -> None:
    """As :func:`lower`, for floats given by their bits."""
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        if every or valid[i]:
            key, cell = _key(bits[i]) ^ flip, np.uint64(cells[i])
            has[cell] = 1
            # Rarely true after a while, and then the processor does not wait for a store.
            if key < keys[cell]:
                keys[cell] = key


@nb.njit(nogil=True, cache=True)
def lower(values: Array, valid: Array, cells: Array, flip: Word, keys: Array, has: Array) -> None:
    """Put each key into its cell if it is smaller than what is there, with its bits flipped.

    ``flip`` is 0, or -1 if the largest is wanted. ``has`` becomes 1 where there is a value.
    """
    every = valid.shape[0] == 0
    for i in range(values.shape[0]):
        if every or valid[i]:
            key, cell = np.int64(values[i]) ^ flip, np.uint64(cells[i])
            has[cell] = 1
            if key < keys[cell]:
                keys[cell] = key


@nb.njit(nogil=True, cache=True)
def lowest_float(bits: Array, valid: Array, flip: Word) -> Word:
    """The smallest flipped key of floats, given by their bits."""
    best: Word = _TOP
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        key = _key(bits[i]) ^ flip
        best = min(best, key if every or valid[i] else _TOP)
    return best


@nb.njit(nogil=True, cache=True)
def lowest(values: Array, valid: Array, flip: Word) -> Word:
    """The smallest flipped key."""
    best: Word = _TOP
    every = valid.shape[0] == 0
    for i in range(values.shape[0]):
        key = np.int64(values[i]) ^ flip
        best = min(best, key if every or valid[i] else _TOP)
    return best


@nb.njit(nogil=True, cache=True)
def earliest(
    ticks: Array, valid: Array, cells: Array, flip: Word, start: Word, best: tuple[Array, Array]
) -> None:
    """Put each tuple into its cell if its tick, with its bits flipped, is smaller than what is
    there; of equal ones the first, or the last if bits are flipped.

    ``best`` is flipped ticks and numbers of tuples, which count from ``start``; -1 for none.
    """
    keys, rows = best
    every, later = valid.shape[0] == 0, flip != 0
    for i in range(ticks.shape[0]):
        if every or valid[i]:
            key, cell = np.int64(ticks[i]) ^ flip, np.uint64(cells[i])
            if key < keys[cell] or rows[cell] < 0 or (later and key == keys[cell]):
                keys[cell] = key
                rows[cell] = start + i


@nb.njit(nogil=True, cache=True)
def earliest_cells(
    into: Array, best: tuple[Array, Array], from_: Array, other: tuple[Array, Array], flip: Word
) -> None:
    """Take the earlier of two cells, for each pair of them; see :func:`earliest`."""
    keys, rows = best
    other_keys, other_rows = other
    for i in range(into.shape[0]):
        cell, key, row = into[i], other_keys[from_[i]], other_rows[from_[i]]
        if row >= 0:
            sooner = key < keys[cell] or rows[cell] < 0
            if sooner or (key == keys[cell] and row ^ flip < rows[cell] ^ flip):
                keys[cell] = key
                rows[cell] = row


@nb.njit(nogil=True, cache=True)
def lower_cells(
    keys: Array, has: Array, into: Array, other_keys: Array, other_has: Array, from_: Array
) -> None:
    """Take the smaller of two cells, for each pair of them; both are flipped the same way."""
    for i in range(into.shape[0]):
        cell, other = into[i], from_[i]
        # A cell without a value has the largest key there is.
        keys[cell] = min(keys[cell], other_keys[other])
        has[cell] |= other_has[other]
