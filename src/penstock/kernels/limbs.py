"""Compiled loops over exact sums: adding to them and merging them.

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
_STRETCH = 4096
"""So many numbers of 51 bits can be added in 64 bits."""


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
def add_floats(
    bits: Array, valid: Array, cells: Array, limbs: Array, width: Word, base: Word
) -> None:
    """Add finite floats, given by their bits, each to its cell."""
    every = valid.shape[0] == 0
    for i in range(bits.shape[0]):
        # Without a branch: a mask is no more predictable than the data.
        number = bits[i] if every else bits[i] & -np.int64(valid[i])
        place = max(_exponent(number) - base, 0)  # zeros may be below the base
        at = np.int64(cells[i]) * width + (place >> 5)
        _put(limbs, at, _mantissa(number), place & 31)


@nb.njit(nogil=True, cache=True)
def add_narrow(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word
) -> None:
    """Add integers of at most 2^32, each to one limb of its cell."""
    every = valid.shape[0] == 0
    for i in range(numbers.shape[0]):
        number = numbers[i]
        number = number if every else number & -np.int64(valid[i])
        limbs[np.uint64(np.int64(cells[i]) * width + limb)] += number


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
def add_run(bits: Array, values: Array, valid: Array, limbs: Array, at: Word, base: Word) -> None:
    """Add finite floats, and their bits, to the one cell whose limbs start at ``at``.

    Rounded to a multiple of a large unit, numbers have few bits and can be added as integers, and
    what rounding left over again to a multiple of a smaller one: adding a large constant does that
    to many at a time. A stretch that leaves something over even then is added number by number.
    """
    nothing = valid[:0]
    for start in range(0, bits.shape[0], _STRETCH):
        stop = min(start + _STRETCH, bits.shape[0])
        masked = nothing if valid.shape[0] == 0 else valid[start:stop]
        largest = float_extent(bits[start:stop], masked)[1]
        # Every number is below 2**(unit + 51). No unit is below the base or has no float.
        unit = max((largest >> 52) - 1022 - 51, base + 52, -1022)
        high, low, left_over = np.int64(0), np.int64(0), True
        if unit <= 970:
            coarse, fine = math.ldexp(1.5, unit + 52), math.ldexp(1.5, unit)
            high, low, left_over = _rounded_sums(values[start:stop], masked, coarse, fine)
        if left_over:
            for i in range(start, stop):
                if valid.shape[0] == 0 or valid[i]:
                    place = max(_exponent(bits[i]) - base, 0)
                    _put(limbs, at + (place >> 5), _mantissa(bits[i]), place & 31)
        else:
            place = unit - base
            _put(limbs, at + (place >> 5), high, place & 31)
            _put(limbs, at + ((place - 52) >> 5), low, (place - 52) & 31)


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


@nb.njit(nogil=True, cache=True, inline="always")
def _combine(
    limbs: Array, at: Word, width: Word, other: Array, start: Word, other_width: Word, sign: Word
) -> Word:
    """Add ``sign`` times another sum, from the limb ``at`` on, and settle the carries.

    ``width`` is how many limbs the sum has from there on; how large the last one became.
    """
    carry = np.int64(0)
    for j in range(other_width - 1):
        total = limbs[at + j] + sign * other[start + j] + carry
        limbs[at + j] = total & DIGIT
        carry = total >> 32
    last = other_width - 1
    total = limbs[at + last] + sign * other[start + last] + carry
    for j in range(other_width, width):
        limbs[at + j - 1] = total & DIGIT
        total = limbs[at + j] + (total >> 32)
    limbs[at + width - 1] = total
    return abs(total)


@nb.njit(nogil=True, cache=True)
def merge_cells(
    limbs: Array,
    width: Word,
    cells: Array,
    other: tuple[Array, Word, Array],
    above: Word,
    sign: Word,
) -> Word:
    """Add ``sign`` times a cell of other sums to each of ``cells``; how large the last limbs are.

    ``other`` is the other's limbs, width and cells; its first limb is our limb ``above``.
    """
    largest = np.int64(0)
    values, other_width, from_ = other
    for i in range(cells.shape[0]):
        at, start = np.int64(cells[i]) * width + above, np.int64(from_[i]) * other_width
        size = _combine(limbs, at, width - above, values, start, other_width, sign)
        largest = max(largest, size)
    return largest


@nb.njit(nogil=True, cache=True)
def merge_row(
    limbs: Array, width: Word, other: Array, other_width: Word, above: Word, sign: Word
) -> Word:
    """As :func:`merge_cells`, for cells that follow one another."""
    largest = np.int64(0)
    for i in range(limbs.shape[0] // width):
        at, start = i * width + above, i * other_width
        size = _combine(limbs, at, width - above, other, start, other_width, sign)
        largest = max(largest, size)
    return largest


@nb.njit(nogil=True, cache=True)
def settle(limbs: Array, width: Word) -> Word:
    """Settle the carries of all sums; how large the last limbs are."""
    largest = np.int64(0)
    for at in range(0, limbs.shape[0], width):
        carry = np.int64(0)
        for j in range(at, at + width - 1):
            total = limbs[j] + carry
            limbs[j] = total & DIGIT
            carry = total >> 32
        limbs[at + width - 1] += carry
        largest = max(largest, abs(limbs[at + width - 1]))
    return largest
