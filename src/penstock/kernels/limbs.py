"""Compiled loops that add to exact sums.

A sum is ``width`` limbs that follow one another in one array of int64. Limb ``j`` counts in units
of ``2**(base + 32·j)``; ``base`` is a multiple of 32. A limb has more bits than the 32 it stands
for, so an addition carries nothing: carries are settled when sums are merged, or after 2^28
additions at the latest (:data:`ROOM`), of which each changes a limb by less than 2^33.

A mask of length 0 stands for none. Cells are read behind a mask too: each has to be one.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

DIGIT = 0xFFFFFFFF
ROOM = 1 << 28
"""So many additions fit in a limb before its carry has to be settled."""

_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
_INFINITE = 0x7FF << 52
_STRETCH = 2048
"""So many numbers of up to 2^51 can be added in 64 bits."""
_FEW = 4
"""If a stretch has so many cells, each adds up what is its own: no addition waits for another."""


@nb.njit(nogil=True, cache=True, inline="always")
def _put(limbs: Array, at: Word, number: Word, shift: Word) -> None:
    """Add ``number·2**shift`` to the limbs from ``at`` on; the shift is below 32."""
    low = (number & DIGIT) << shift
    high = (number >> 32) << shift
    # Unsigned, so that no index is asked whether it is negative.
    first = np.uint64(at)
    limbs[first] += low & DIGIT
    limbs[first + np.uint64(1)] += (low >> 32) + (high & DIGIT)
    limbs[first + np.uint64(2)] += high >> 32


@nb.njit(nogil=True, cache=True, inline="always")
def _mantissa(bits: Word) -> Word:
    """The signed mantissa of a finite float."""
    size = (bits & _FRACTION) | (min((bits >> 52) & 0x7FF, 1) << 52)
    sign = bits >> 63
    return (size ^ sign) - sign


@nb.njit(nogil=True, cache=True, inline="always")
def _exponent(bits: Word) -> Word:
    """What a mantissa counts in units of, as a power of 2."""
    return max((bits >> 52) & 0x7FF, 1) - 1075


@nb.njit(nogil=True, cache=True)
def _scatter_floats(
    bits: Array, valid: Array, cells: Array, limbs: Array, width: Word, base: Word
) -> None:
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        # Without a branch: a mask is no more predictable than the data.
        number = bits[i] if every else bits[i] & -np.int64(valid[i])
        place = max(_exponent(number) - base, 0)  # zeros may be below the base
        at = np.int64(cells[i]) * width + (place >> 5)
        _put(limbs, at, _mantissa(number), place & 31)


@nb.njit(nogil=True, cache=True)
def add_floats(
    bits: Array,
    values: Array,
    valid: Array,
    cells: Array,
    limbs: Array,
    width: Word,
    base: Word,
) -> None:
    """Add finite floats, and their bits, each to its cell."""
    mask = np.empty(_STRETCH, np.bool_)
    for start in range(0, bits.shape[0], _STRETCH):
        stop = min(start + _STRETCH, bits.shape[0])
        shown = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        some, where = bits[start:stop], cells[start:stop]
        first, last = _ends(where)
        if last - first >= _FEW:
            _scatter_floats(some, shown, where, limbs, width, base)
            continue
        unit = _unit(some, shown, base)
        for cell in range(first, last + 1):
            chosen = mask[: stop - start]
            _choose(where, cell, shown, chosen)
            at = cell * width
            if not _add_rounded(values[start:stop], chosen, unit, limbs, at, base):
                _scatter_floats(some, chosen, where, limbs, width, base)


@nb.njit(nogil=True, cache=True)
def add_run(bits: Array, values: Array, valid: Array, limbs: Array, base: Word) -> None:
    """Add finite floats, and their bits, to one cell, which these limbs are."""
    zeros = np.zeros(_STRETCH, np.int32)
    for start in range(0, bits.shape[0], _STRETCH):
        stop = min(start + _STRETCH, bits.shape[0])
        shown = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        unit = _unit(bits[start:stop], shown, base)
        if not _add_rounded(values[start:stop], shown, unit, limbs, 0, base):
            _scatter_floats(bits[start:stop], shown, zeros, limbs, limbs.shape[0], base)


@nb.njit(nogil=True, cache=True)
def _ends(cells: Array) -> tuple[Word, Word]:
    low, high = cells[0], cells[0]
    for i in range(cells.shape[0]):
        low = min(low, cells[i])
        high = max(high, cells[i])
    return np.int64(low), np.int64(high)


@nb.njit(nogil=True, cache=True)
def _choose(cells: Array, cell: Word, valid: Array, out: Array) -> None:
    """Which of those that are to be added are for a cell."""
    wanted = np.int32(cell)
    if valid.shape[0] == 0:
        for i in range(cells.shape[0]):
            out[i] = cells[i] == wanted
    else:
        for i in range(cells.shape[0]):
            out[i] = valid[i] & (cells[i] == wanted)


@nb.njit(nogil=True, cache=True)
def _unit(bits: Array, valid: Array, base: Word) -> Word:
    """Every float is below ``2**(unit + 51)``; no unit is below the base or has no float."""
    largest = float_extent(bits, valid)[1]
    return max((largest >> 52) - 1022 - 51, base + 52, -1022)


@nb.njit(nogil=True, cache=True)
def _add_rounded(
    values: Array, valid: Array, unit: Word, limbs: Array, at: Word, base: Word
) -> bool:
    """Add finite floats to the cell whose limbs start at ``at``, many at a time, if that works.

    Rounded to a multiple of a large unit, numbers have few bits and can be added as integers, and
    what rounding left over again to a multiple of a smaller one: adding a large constant does that
    without a branch. If numbers leave something over even then, nothing is added.
    """
    if unit > 970:
        return False
    coarse, fine = math.ldexp(1.5, unit + 52), math.ldexp(1.5, unit)
    high, low, left_over = _rounded_sums(values, valid, coarse, fine)
    if left_over:
        return False
    place = unit - base
    _put(limbs, at + (place >> 5), high, place & 31)
    _put(limbs, at + ((place - 52) >> 5), low, (place - 52) & 31)
    return True


@nb.njit(nogil=True, cache=True)
def _rounded_sums(
    values: Array, valid: Array, coarse: float, fine: float
) -> tuple[Word, Word, bool]:
    """The sums of what two roundings take of each number, and whether they leave anything."""
    every = valid.shape[0] == 0
    coarse_bits, fine_bits = np.float64(coarse).view(np.int64), np.float64(fine).view(np.int64)
    high, low, left = np.int64(0), np.int64(0), np.int64(0)
    for i in range(values.shape[0]):
        value = values[i] if every or valid[i] else 0.0
        first = value + coarse
        rest = value - (first - coarse)
        second = rest + fine
        left |= np.int64(rest != second - fine)
        high += np.float64(first).view(np.int64) - coarse_bits
        low += np.float64(second).view(np.int64) - fine_bits
    return high, low, left != 0


@nb.njit(nogil=True, cache=True)
def _sum_of(numbers: Array, valid: Array) -> Word:
    total = np.int64(0)
    for i in range(numbers.shape[0]):
        total += numbers[i] & -np.int64(valid[i])
    return total


@nb.njit(nogil=True, cache=True)
def add_narrow(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word
) -> None:
    """Add integers of at most 2^32, each to one limb of its cell."""
    mask = np.empty(_STRETCH, np.bool_)
    for start in range(0, numbers.shape[0], _STRETCH):
        stop = min(start + _STRETCH, numbers.shape[0])
        shown = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        some, where = numbers[start:stop], cells[start:stop]
        first, last = _ends(where)
        if last - first < _FEW:
            for cell in range(first, last + 1):
                chosen = mask[: stop - start]
                _choose(where, cell, shown, chosen)
                limbs[cell * width + limb] += _sum_of(some, chosen)
        elif valid.shape[0] == 0:
            for i in range(stop - start):
                limbs[np.uint64(np.int64(where[i]) * width + limb)] += some[i]
        else:
            for i in range(stop - start):
                number = some[i] & -np.int64(shown[i])
                limbs[np.uint64(np.int64(where[i]) * width + limb)] += number


@nb.njit(nogil=True, cache=True)
def add_wide(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word, top: Word
) -> None:
    """Add 64-bit integers, each to two limbs of its cell.

    ``top`` is what the upper halves are masked with: -1, or 32 ones if they have no sign.
    """
    every = valid.shape[0] == 0
    for i in range(numbers.shape[0]):
        number = numbers[i] if every else numbers[i] & -np.int64(valid[i])
        at = np.uint64(np.int64(cells[i]) * width + limb)
        limbs[at] += number & DIGIT
        limbs[at + np.uint64(1)] += (number >> 32) & top


@nb.njit(nogil=True, cache=True)
def sum_halves(numbers: Array, valid: Array, top: Word) -> tuple[Word, Word]:
    """The sums of the lower and of the upper halves of 64-bit integers; ``top`` as above."""
    low, high = np.int64(0), np.int64(0)
    if valid.shape[0] == 0:
        for i in range(numbers.shape[0]):
            low += numbers[i] & DIGIT
            high += (numbers[i] >> 32) & top
    else:
        for i in range(numbers.shape[0]):
            number = numbers[i] & -np.int64(valid[i])
            low += number & DIGIT
            high += (number >> 32) & top
    return low, high


@nb.njit(nogil=True, cache=True)
def float_extent(bits: Array, valid: Array) -> tuple[Word, Word, bool]:
    """The smallest and the largest magnitude of finite floats other than 0, as bits, and whether
    some are not finite.
    """
    smallest, largest = _INFINITE, 0
    odd: Word = 0
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        size = bits[i] & _MAGNITUDE
        size = size if every else size & -np.int64(valid[i])
        odd |= np.int64(size >= _INFINITE)
        largest = max(largest, size if size < _INFINITE else 0)
        smallest = min(smallest, size if size > 0 else _INFINITE)
    return smallest, largest, odd != 0


@nb.njit(nogil=True, cache=True)
def integer_extent(numbers: Array, valid: Array) -> tuple[Word, Word]:
    """The smallest and the largest of the integers and 0."""
    smallest, largest = np.int64(0), np.int64(0)
    every = valid.shape[0] == 0
    for i in range(numbers.shape[0]):
        number = numbers[i]
        number = number if every else number & -np.int64(valid[i])
        largest = max(largest, number)
        smallest = min(smallest, number)
    return smallest, largest


@nb.njit(nogil=True, cache=True)
def add_float_squares(
    bits: Array, valid: Array, cells: Array, limbs: Array, width: Word, base: Word
) -> None:
    """Add the squares of finite floats, given by their bits, each to its cell."""
    for i in range(bits.shape[0]):
        if valid.shape[0] == 0 or valid[i]:
            size = abs(_mantissa(bits[i]))
            place = max(2 * _exponent(bits[i]) - base, 0)
            at = np.int64(cells[i]) * width
            _put_square(limbs, at, np.uint64(size), place)


@nb.njit(nogil=True, cache=True)
def add_integer_squares(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word, signed: bool
) -> None:
    """Add the squares of 64-bit integers, each to its cell."""
    for i in range(numbers.shape[0]):
        if valid.shape[0] == 0 or valid[i]:
            size = np.uint64(numbers[i])
            if signed and numbers[i] < 0:
                size = np.uint64(0) - size
            _put_square(limbs, np.int64(cells[i]) * width + limb, size, 0)


@nb.njit(nogil=True, cache=True)
def _put_square(limbs: Array, at: Word, size: Word, place: Word) -> None:
    low, high = np.int64(size & np.uint64(DIGIT)), np.int64(size >> np.uint64(32))
    at, shift = at + (place >> 5), place & 31
    _put_product(limbs, at, low, low, shift)
    _put_product(limbs, at + 1, low, high, shift)
    _put_product(limbs, at + 1, low, high, shift)
    _put_product(limbs, at + 2, high, high, shift)


@nb.njit(nogil=True, cache=True, inline="always")
def _put_product(limbs: Array, at: Word, left: Word, right: Word, shift: Word) -> None:
    """Add the product of two numbers of 32 bits, shifted; it has up to 95 bits."""
    product = np.uint64(left) * np.uint64(right)
    low = np.int64(product & np.uint64(DIGIT)) << shift
    high = np.int64(product >> np.uint64(32)) << shift
    limbs[at] += low & DIGIT
    limbs[at + 1] += (low >> 32) + (high & DIGIT)
    limbs[at + 2] += high >> 32
