"""Compiled loops of exact sums: they add to sums, merge them, and read them.

A sum is ``width`` limbs that follow one another in one array of int64. Limb ``j`` counts in units
of ``2**(base + 32·j)``; ``base`` is a multiple of 32. A limb has more bits than the 32 it stands
for, so an addition carries nothing. Carries are propagated when sums are merged, or after 2^28
additions at the latest (``additions_per_carry`` of :mod:`penstock.tuning`), each of which changes a
limb by less than 2^33.

A float that is read from a sum is rounded once, to nearest, ties to even.

A mask of length 0 stands for none. Cells are read behind a mask too: each must be a valid one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.aggregate.survey import extent_of
from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

DIGIT = 0xFFFFFFFF

_FRACTION = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
_INFINITE = 0x7FF << 52
_STRETCH = 2048
"""Numbers of up to 2^51 that can be added in 64 bits."""
_FEW = 4
"""With fewer cells than this in a stretch, each sums its own values: independent additions."""

MOST = 1 << 32
"""Counts below this are divided by in compiled code."""
_LOWEST = -1074
"""The exponent of the smallest float."""


@njit(inline="always")
def _put(limbs: Array, at: Word, number: Word, shift: Word) -> None:
    """Add ``number·2**shift`` to the limbs from ``at`` on; the shift is below 32."""
    low = (number & DIGIT) << shift
    high = (number >> 32) << shift
    # Unsigned, so that Numba does not check for negative indices.
    first = np.uint64(at)
    limbs[first] += low & DIGIT
    limbs[first + np.uint64(1)] += (low >> 32) + (high & DIGIT)
    limbs[first + np.uint64(2)] += high >> 32


@njit(inline="always")
def _mantissa(bits: Word) -> Word:
    """The signed mantissa of a finite float."""
    size = (bits & _FRACTION) | (min((bits >> 52) & 0x7FF, 1) << 52)
    sign = bits >> 63
    return (size ^ sign) - sign


@njit(inline="always")
def _exponent(bits: Word) -> Word:
    """The exponent of a mantissa's unit, a power of 2."""
    return max((bits >> 52) & 0x7FF, 1) - 1075


@njit()
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


@njit()
def add_floats(
    bits: Array,
    values: Array,
    valid: Array,
    cells: Array,
    limbs: Array,
    width: Word,
    base: Word,
) -> None:
    """Add finite floats, given as floats and as bits, each to its cell."""
    mask = np.empty(_STRETCH, np.bool_)
    for start in range(0, bits.shape[0], _STRETCH):
        stop = min(start + _STRETCH, bits.shape[0])
        valid_here = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        some, where = bits[start:stop], cells[start:stop]
        first, last = extent_of(where)
        if last - first >= _FEW:
            _scatter_floats(some, valid_here, where, limbs, width, base)
            continue
        unit = _unit(some, valid_here, base)
        for cell in range(first, last + 1):
            chosen = mask[: stop - start]
            _choose(where, cell, valid_here, chosen)
            at = cell * width
            if not _add_rounded(values[start:stop], chosen, unit, limbs, at, base):
                _scatter_floats(some, chosen, where, limbs, width, base)


@njit()
def add_run(bits: Array, values: Array, valid: Array, limbs: Array, base: Word) -> None:
    """Add finite floats, given as floats and as bits, to one cell, whose limbs these are."""
    zeros = np.zeros(_STRETCH, np.int32)
    for start in range(0, bits.shape[0], _STRETCH):
        stop = min(start + _STRETCH, bits.shape[0])
        valid_here = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        unit = _unit(bits[start:stop], valid_here, base)
        if not _add_rounded(values[start:stop], valid_here, unit, limbs, 0, base):
            _scatter_floats(bits[start:stop], valid_here, zeros, limbs, limbs.shape[0], base)


@njit()
def _choose(cells: Array, cell: Word, valid: Array, out: Array) -> None:
    """The mask of the valid values of one cell."""
    wanted = np.int32(cell)
    if valid.shape[0] == 0:
        for i in range(cells.shape[0]):
            out[i] = cells[i] == wanted
    else:
        for i in range(cells.shape[0]):
            out[i] = valid[i] & (cells[i] == wanted)


@njit()
def _unit(bits: Array, valid: Array, base: Word) -> Word:
    """The smallest unit such that every float is below ``2**(unit + 51)``; bounded by the base."""
    largest = float_extent(bits, valid)[1]
    return max((largest >> 52) - 1022 - 51, base + 52, -1022)


@njit()
def _add_rounded(
    values: Array, valid: Array, unit: Word, limbs: Array, at: Word, base: Word
) -> bool:
    """Add finite floats to the cell whose limbs start at ``at``, many at a time, if possible.

    Floats rounded to multiples of a coarse unit have few bits and can be summed as integers; so can
    the remainders, rounded to a finer unit. Adding a large constant rounds without a branch.
    If a second remainder is not 0, nothing is added and the result is False.
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


@njit()
def _rounded_sums(
    values: Array, valid: Array, coarse: float, fine: float
) -> tuple[Word, Word, bool]:
    """The sums of the coarse and of the fine parts, and whether any remainder is not 0."""
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


@njit()
def _sum_of(numbers: Array, valid: Array) -> Word:
    total = np.int64(0)
    for i in range(numbers.shape[0]):
        total += numbers[i] & -np.int64(valid[i])
    return total


@njit()
def add_narrow(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word
) -> None:
    """Add integers of magnitude up to 2^32, each to one limb of its cell."""
    mask = np.empty(_STRETCH, np.bool_)
    for start in range(0, numbers.shape[0], _STRETCH):
        stop = min(start + _STRETCH, numbers.shape[0])
        valid_here = valid[:0] if valid.shape[0] == 0 else valid[start:stop]
        some, where = numbers[start:stop], cells[start:stop]
        first, last = extent_of(where)
        if last - first < _FEW:
            for cell in range(first, last + 1):
                chosen = mask[: stop - start]
                _choose(where, cell, valid_here, chosen)
                limbs[cell * width + limb] += _sum_of(some, chosen)
        elif valid.shape[0] == 0:
            for i in range(stop - start):
                limbs[np.uint64(np.int64(where[i]) * width + limb)] += some[i]
        else:
            for i in range(stop - start):
                number = some[i] & -np.int64(valid_here[i])
                limbs[np.uint64(np.int64(where[i]) * width + limb)] += number


@njit()
def add_wide(
    numbers: Array, valid: Array, cells: Array, limbs: Array, width: Word, limb: Word, top: Word
) -> None:
    """Add 64-bit integers, each to two limbs of its cell.

    ``top`` masks the upper halves: -1 for signed integers, 32 ones for unsigned.
    """
    every = valid.shape[0] == 0
    for i in range(numbers.shape[0]):
        number = numbers[i] if every else numbers[i] & -np.int64(valid[i])
        at = np.uint64(np.int64(cells[i]) * width + limb)
        limbs[at] += number & DIGIT
        limbs[at + np.uint64(1)] += (number >> 32) & top


@njit()
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


@njit()
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


@njit()
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


@njit()
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


@njit()
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


@njit()
def _put_square(limbs: Array, at: Word, size: Word, place: Word) -> None:
    low, high = np.int64(size & np.uint64(DIGIT)), np.int64(size >> np.uint64(32))
    at, shift = at + (place >> 5), place & 31
    _put_product(limbs, at, low, low, shift)
    _put_product(limbs, at + 1, low, high, shift)
    _put_product(limbs, at + 1, low, high, shift)
    _put_product(limbs, at + 2, high, high, shift)


@njit(inline="always")
def _put_product(limbs: Array, at: Word, left: Word, right: Word, shift: Word) -> None:
    """Add the product of two numbers of 32 bits, shifted; it has up to 95 bits."""
    product = np.uint64(left) * np.uint64(right)
    low = np.int64(product & np.uint64(DIGIT)) << shift
    high = np.int64(product >> np.uint64(32)) << shift
    limbs[at] += low & DIGIT
    limbs[at + 1] += (low >> 32) + (high & DIGIT)
    limbs[at + 2] += high >> 32


# -- carries and merges ------------------------------------------------------------------


@njit(inline="always")
def _combine(
    limbs: Array, at: Word, width: Word, other: Array, start: Word, other_width: Word, sign: Word
) -> Word:
    """Add ``sign`` times another sum, from the limb ``at`` on, and propagate the carries.

    ``width`` is the number of limbs from there on. Returns the magnitude of the top limb.
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


@njit()
def merge_cells(
    limbs: Array,
    width: Word,
    cells: Array,
    other: tuple[Array, Word, Array],
    above: Word,
    sign: Word,
) -> Word:
    """Add ``sign`` times a cell of other sums to each of ``cells``.

    ``other`` is the other's limbs, width and cells; its first limb is our limb ``above``. Returns
    the largest magnitude of a top limb.
    """
    largest = np.int64(0)
    values, other_width, from_ = other
    for i in range(cells.shape[0]):
        at, start = np.int64(cells[i]) * width + above, np.int64(from_[i]) * other_width
        size = _combine(limbs, at, width - above, values, start, other_width, sign)
        largest = max(largest, size)
    return largest


@njit()
def merge_row(
    limbs: Array, width: Word, other: Array, other_width: Word, above: Word, sign: Word
) -> Word:
    """As :func:`merge_cells`, for consecutive cells."""
    largest = np.int64(0)
    for i in range(limbs.shape[0] // width):
        at, start = i * width + above, i * other_width
        size = _combine(limbs, at, width - above, other, start, other_width, sign)
        largest = max(largest, size)
    return largest


@njit()
def normalise(limbs: Array, width: Word) -> Word:
    """Propagate the carries of all sums; returns the largest magnitude of a top limb."""
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


# -- reading -----------------------------------------------------------------------------


@njit()
def to_integers(
    limbs: Array, width: Word, limb: Word, cells: Array, values: Array, fits: Array
) -> None:
    """The sums in units of their limb ``limb``, below which they are 0, and which fit 64 bits."""
    for i in range(cells.shape[0]):
        at = np.int64(cells[i]) * width
        carry, number, above, below = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for j in range(limb, width):
            total = limbs[at + j] + carry
            digit = total & DIGIT
            carry = total >> 32
            if j < limb + 2:
                number |= digit << (32 * (j - limb))
            else:
                above |= digit
                below |= digit ^ DIGIT
        values[i] = number
        if width == limb + 1:
            number |= carry << 32
            values[i] = number
            carry >>= 31
        sign = number >> 63
        fits[i] = carry == sign and (above if sign == 0 else below) == 0


@njit()
def magnitude(limbs: Array, at: Word, width: Word, digits: Array) -> bool:
    """Write the digits of a sum's magnitude, two more than limbs; True if it is negative."""
    carry = np.int64(0)
    for j in range(width):
        total = limbs[at + j] + carry
        digits[j] = total & DIGIT
        carry = total >> 32
    digits[width] = carry & DIGIT
    digits[width + 1] = (carry >> 32) & DIGIT
    negative = bool(carry < 0)
    if negative:
        carry = np.int64(1)
        for j in range(width + 2):
            total = (digits[j] ^ DIGIT) + carry
            digits[j] = total & DIGIT
            carry = total >> 32
    return negative


@njit()
def divide(digits: Array, count: Word, divisor: Word) -> Word:
    """Divide the digits by a number below 2^32; returns the remainder."""
    rest, by = np.uint64(0), np.uint64(divisor)
    for k in range(count):
        j = count - 1 - k
        total = (rest << np.uint64(32)) | np.uint64(digits[j])
        digits[j] = np.int64(total // by)
        rest = total % by
    return np.int64(rest)


@njit()
def rounded(digits: Array, count: Word, exponent: Word, more: bool) -> float:
    """The float nearest to the digits; the first counts in units of ``2**exponent``.

    ``more``: the number is larger than the digits, by less than 1 in the last of them.
    """
    top = count - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    size = 0
    while digits[top] >> size:
        size += 1
    second = digits[top - 1] if top > 0 else np.int64(0)
    third = digits[top - 2] if top > 1 else np.int64(0)
    number = np.uint64(digits[top]) << np.uint64(64 - size)
    number |= (np.uint64(second) << np.uint64(32)) >> np.uint64(size)
    number |= np.uint64(third) >> np.uint64(size)
    more |= third & ((1 << size) - 1) != 0
    for j in range(top - 2):
        more |= digits[j] != 0
    unit = exponent + 32 * top + size - 64
    drop = max(11, _LOWEST - unit)
    if drop > 64:
        return 0.0
    kept = number >> np.uint64(drop) if drop < 64 else np.uint64(0)
    half = np.uint64(1) << np.uint64(drop - 1)
    rest = number & (half - np.uint64(1))
    if number & half and (rest != 0 or more or kept & np.uint64(1)):
        kept += np.uint64(1)
    return math.ldexp(np.float64(kept), unit + drop)


@njit()
def to_floats(
    limbs: Array, width: Word, base: Word, cells: Array, counts: Array, out: Array
) -> None:
    """The sums as floats, divided by counts below 2^32 unless ``counts`` has length 0."""
    # Three digits below the first, so that a quotient has 65 bits.
    digits = np.empty(width + 5, np.int64)
    for i in range(cells.shape[0]):
        digits[:3] = 0
        negative = magnitude(limbs, np.int64(cells[i]) * width, width, digits[3:])
        rest = np.int64(0)
        if counts.shape[0] > 0:
            rest = divide(digits, width + 5, max(counts[i], 1))
        value = rounded(digits, width + 5, base - 96, rest != 0)
        out[i] = -value if negative else value


def quotient(number: int, count: int, exponent: int) -> float:
    """``number·2**exponent / count`` as the nearest float."""
    above, below = max(exponent, 0), max(-exponent, 0)
    try:
        return (number << above) / (max(count, 1) << below)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
