"""Compiled loops of bucket indexes: which bucket a number is in, and entries in bucket order."""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@nb.njit(nogil=True, cache=True, inline="always")
def even_cell(value: float, base: float, scale: float, count: int) -> Any:
    """The cell of a number, of ``count`` of equal widths from ``base`` on.

    It never falls as the number grows; NaN is above everything. Without branches, so that loops
    over it vectorise.
    """
    place = (value - base) * scale
    place = place if place < count else count - 1.0
    return np.int32(place if place > 0.0 else 0.0)


@nb.njit(nogil=True, cache=True)
def bounded_cell(value: float, bounds: Array) -> int:
    """How many of the bounds are not above the number; NaN is above everything."""
    low, high = 0, len(bounds)
    if value != value:
        return high
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(nogil=True, cache=True)
def cell(value: float, base: float, scale: float, count: int, bounds: Array) -> Any:
    """The cell of one number: by the bounds if there are any, else of equal widths."""
    if bounds.shape[0] > 0:
        return bounded_cell(value, bounds)
    return even_cell(value, base, scale, count)


@nb.njit(nogil=True, cache=True)
def cells(values: Array, base: float, scale: float, count: int, bounds: Array, out: Array) -> None:
    """The cell of each number: by the bounds if there are any, else of equal widths."""
    if bounds.shape[0] > 0:
        for i in range(values.shape[0]):
            out[i] = bounded_cell(values[i], bounds)
    else:
        for i in range(values.shape[0]):
            out[i] = even_cell(values[i], base, scale, count)


@nb.njit(nogil=True, cache=True)
def add_cells(
    values: Array, base: float, scale: float, count: int, bounds: Array, out: Array
) -> None:
    """From the row of each point to its bucket, rows having ``count`` cells."""
    if bounds.shape[0] > 0:
        for i in range(values.shape[0]):
            out[i] = out[i] * count + bounded_cell(values[i], bounds)
    else:
        for i in range(values.shape[0]):
            out[i] = out[i] * np.int32(count) + even_cell(values[i], base, scale, count)


@nb.njit(nogil=True, cache=True)
def even_limits(
    values: Array, offset: float, sign: float, base: float, scale: float, count: int, out: Array
) -> None:
    """As :func:`limit_cells`, for cells of equal widths."""
    margin = sign * 2.0**-50
    for i in range(values.shape[0]):
        value = values[i] + offset + margin * (abs(values[i]) + abs(offset))
        out[i] = even_cell(value, base, scale, count)


@nb.njit(nogil=True, cache=True)
def limit_cells(
    values: Array,
    offset: float,
    sign: float,
    base: float,
    scale: float,
    count: int,
    bounds: Array,
    out: Array,
) -> None:
    """The cell of each number plus an offset, moved out by more than the sum may be rounded."""
    if bounds.shape[0] > 0:
        margin = sign * 2.0**-50
        for i in range(values.shape[0]):
            value = values[i] + offset + margin * (abs(values[i]) + abs(offset))
            out[i] = bounded_cell(value, bounds)
    else:
        even_limits(values, offset, sign, base, scale, count, out)


@nb.njit(nogil=True, cache=True)
def finite_extent(values: Array) -> tuple[float, float, int]:
    """The smallest and the largest finite number, and how many are finite."""
    low, high, count = np.inf, -np.inf, 0
    for i in range(values.shape[0]):
        value = values[i]
        if value - value == 0.0:
            count += 1
            low = min(low, value)
            high = max(high, value)
    return low, high, count


def extent(values: Array) -> tuple[float, float, int]:
    """As :func:`finite_extent`, and faster where all numbers are finite."""
    if len(values):
        low, high = float(values.min()), float(values.max())
        if math.isfinite(low) and math.isfinite(high):
            return low, high, len(values)
    return finite_extent(values)


@nb.njit(nogil=True, cache=True)
def largest_number_gap(above: Array, below: Array) -> float:
    """The largest difference that is a number; 0 if there is none."""
    largest = -np.inf
    for i in range(above.shape[0]):
        gap = above[i] - below[i]
        if gap > largest:
            largest = gap
    return largest if largest > -np.inf else 0.0


def largest_gap(above: Array, below: Array) -> float:
    """As :func:`largest_number_gap`, and faster where all differences are finite."""
    if len(above):
        with np.errstate(invalid="ignore", over="ignore"):
            largest = float(np.subtract(above, below).max())
        if math.isfinite(largest):
            return largest
    return float(largest_number_gap(above, below))


@nb.njit(nogil=True, cache=True)
def turn(values: Array, bits: Array, top: int, out: Array) -> None:
    """From floats and their bits to comparison keys; ``top`` is the largest integer."""
    for i in range(values.shape[0]):
        turned = bits[i] ^ top if bits[i] < 0 else bits[i]
        turned = turned if values[i] == values[i] else top
        out[i] = turned if values[i] != 0.0 else 0  # -0.0 equals 0.0


@nb.njit(nogil=True, cache=True)
def turn_back(keys: Array, top: int, bits: Array, values: Array, out: Array) -> None:
    """From comparison keys of floats to numbers; ``bits`` and ``values`` share their memory."""
    for i in range(keys.shape[0]):
        bits[i] = keys[i] ^ top if keys[i] < 0 else keys[i]
    for i in range(keys.shape[0]):
        out[i] = values[i]


@nb.njit(nogil=True, cache=True)
def rectangles(
    x: tuple[Array, Array],
    x_offsets: tuple[float, float],
    x_scale: tuple[float, float, int],
    y: tuple[Array, Array],
    y_offsets: tuple[float, float],
    y_scale: tuple[float, float, int],
    out: tuple[Array, Array, Array, Array],
) -> None:
    """As :func:`limit_cells`, for both limits of two dimensions whose cells are of equal widths."""
    even_limits(x[0], x_offsets[0], -1.0, *x_scale, out[0])
    even_limits(x[1], x_offsets[1], 1.0, *x_scale, out[1])
    even_limits(y[0], y_offsets[0], -1.0, *y_scale, out[2])
    even_limits(y[1], y_offsets[1], 1.0, *y_scale, out[3])


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
def top_bits(hashes: Array, bits: int, out: Array) -> None:
    """The upper ``bits`` of each hash."""
    for i in range(hashes.shape[0]):
        out[i] = np.int32(hashes[i] >> np.uint64(64 - bits))


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def gather(values: Array, order: Array, out: Array) -> None:
    """``out[i] = values[order[i]]``."""
    for i in range(order.shape[0]):
        out[i] = values[order[i]]


def gathered(values: Array, order: Array) -> Array:
    """:func:`gather` into a new array."""
    out = np.empty(len(order), values.dtype)
    gather(values, order, out)
    return out
