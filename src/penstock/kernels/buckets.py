"""Compiled loops of bucket indexes: which bucket a number is in, and entries in bucket order."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@nb.njit(nogil=True, cache=True)
def cell(value: float, base: float, scale: float, count: int, bounds: Array) -> int:
    """The bucket of a number: never falls as the number grows. NaN is above everything.

    Equal widths from ``base`` on or, where there are ``bounds``, the number of bounds not above it.
    """
    if value != value:
        return count - 1
    if bounds.shape[0] > 0:
        low, high = 0, bounds.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if bounds[middle] <= value:
                low = middle + 1
            else:
                high = middle
        return low
    place = (value - base) * scale
    if not place > 0.0:
        return 0
    if place >= count:
        return count - 1
    return int(place)


@nb.njit(nogil=True, cache=True)
def cells(values: Array, base: float, scale: float, count: int, bounds: Array, out: Array) -> None:
    """The bucket of each number."""
    for i in range(values.shape[0]):
        out[i] = cell(values[i], base, scale, count, bounds)


@nb.njit(nogil=True, cache=True)
def grid_cells(xs: Array, ys: Array, x: tuple[Any, ...], y: tuple[Any, ...], out: Array) -> None:
    """The bucket of each point of a grid; ``x`` and ``y`` are base, scale, count and bounds."""
    for i in range(xs.shape[0]):
        row = cell(xs[i], x[0], x[1], x[2], x[3])
        out[i] = row * y[2] + cell(ys[i], y[0], y[1], y[2], y[3])


@nb.njit(nogil=True, cache=True)
def limit_cells(
    values: Array, offset: float, sign: float, scale: tuple[Any, ...], out: Array
) -> None:
    """The bucket of each number plus an offset, moved out by more than the sum may be rounded."""
    for i in range(values.shape[0]):
        value = values[i] + offset
        value += sign * (abs(values[i]) + abs(offset)) * 2.0**-50
        out[i] = cell(value, scale[0], scale[1], scale[2], scale[3])


@nb.njit(nogil=True, cache=True)
def extent(values: Array) -> tuple[float, float, int]:
    """The smallest and the largest finite number, and how many are finite."""
    low, high, count = np.inf, -np.inf, 0
    for i in range(values.shape[0]):
        value = values[i]
        if value - value == 0.0:
            count += 1
            low = min(low, value)
            high = max(high, value)
    return low, high, count


@nb.njit(nogil=True, cache=True)
def largest_gap(above: Array, below: Array) -> float:
    """The largest difference that is a number; 0 if there is none."""
    largest = -np.inf
    for i in range(above.shape[0]):
        gap = above[i] - below[i]
        if gap > largest:
            largest = gap
    return largest if largest > -np.inf else 0.0


@nb.njit(nogil=True, cache=True)
def turn_back(keys: Array, top: int, out: Array) -> None:
    """From comparison keys of floats to the floats' bits."""
    for i in range(keys.shape[0]):
        out[i] = keys[i] ^ top if keys[i] < 0 else keys[i]


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def group(where: Array, buckets: int, offsets: Array, order: Array) -> None:
    """Entries by bucket, in their own order inside one: a counting sort.

    A bucket of -1 leaves an entry out. ``offsets`` has ``buckets + 1`` elements.
    """
    offsets[:] = 0
    for i in range(where.shape[0]):
        if where[i] >= 0:
            offsets[where[i] + 1] += np.uint32(1)
    for b in range(buckets):
        offsets[b + 1] += offsets[b]
    for i in range(where.shape[0]):
        if where[i] >= 0:
            b = where[i]
            order[offsets[b]] = i
            offsets[b] += np.uint32(1)
    for b in range(buckets, 0, -1):
        offsets[b] = offsets[b - 1]
    offsets[0] = 0


@nb.njit(nogil=True, cache=True)
def gather(values: Array, order: Array, out: Array) -> None:
    """``out[i] = values[order[i]]``."""
    for i in range(order.shape[0]):
        out[i] = values[order[i]]
