"""Compiled loops that read exact sums: as integers, as floats, and divided by counts.

A float that comes of a sum is rounded once, to the nearest, ties to even. See
:mod:`penstock.kernels.limbs` for how a sum is kept.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.limbs import DIGIT, Word

Array = npt.NDArray[Any]

MOST = 1 << 32
"""Counts below this are divided by in compiled code."""
_LOWEST = -1074
"""The exponent of the smallest float."""


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def magnitude(limbs: Array, at: Word, width: Word, digits: Array) -> bool:
    """Write the digits of a sum without its sign, two more than it has limbs; is it negative?"""
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


@nb.njit(nogil=True, cache=True)
def divide(digits: Array, count: Word, divisor: Word) -> Word:
    """Divide the digits by a number below 2^32; what is left over."""
    rest, by = np.uint64(0), np.uint64(divisor)
    for k in range(count):
        j = count - 1 - k
        total = (rest << np.uint64(32)) | np.uint64(digits[j])
        digits[j] = np.int64(total // by)
        rest = total % by
    return np.int64(rest)


@nb.njit(nogil=True, cache=True)
def rounded(digits: Array, count: Word, exponent: Word, more: bool) -> float:
    """The float nearest to the digits; the first counts in units of ``2**exponent``.

    ``more``: the number is larger than the digits say, by less than 1 in the last of them.
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


@nb.njit(nogil=True, cache=True)
def to_floats(
    limbs: Array, width: Word, base: Word, cells: Array, counts: Array, out: Array
) -> None:
    """The sums as floats, divided by counts below 2^32 if there are any (else of length 0)."""
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
