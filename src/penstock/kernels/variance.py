"""Variances from exact sums, without a rounding error before the last step."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.exact_sum import Cells, ExactSums
from penstock.kernels.limbs import DIGIT, Word
from penstock.kernels.rounding import MOST, divide, magnitude, quotient, rounded

Array = npt.NDArray[Any]


def variances(
    sums: ExactSums, squares: ExactSums, counts: Array, cells: Cells, sample: bool
) -> Array:
    """The variances of values whose sums, sums of squares and numbers these are.

    The nearest floats; NaN if there was a NaN or an infinity. What a count of 0, or in a sample of
    1, gives means nothing.
    """
    cells = np.ascontiguousarray(cells, np.int32)
    counts = np.ascontiguousarray(counts, np.int64)
    out = np.empty(len(cells))
    if len(counts) and int(counts.max()) >= MOST:
        pairs = zip(sums.as_integers(cells), squares.as_integers(cells), strict=True)
        exponents = 2 * sums.exponent, squares.exponent
        low = min(exponents)
        for i, ((one, two), n) in enumerate(zip(pairs, counts.tolist(), strict=True)):
            whole = (n * two << exponents[1] - low) - (one * one << exponents[0] - low)
            out[i] = quotient(whole, n * (n - sample), low)
    else:
        _to_variances(sums.parts, squares.parts, counts, int(sample), cells, out)
    out[~sums.is_finite(cells)] = np.nan
    return out


@nb.njit(nogil=True, cache=True)
def _square(digits: Array, count: Word, out: Array) -> None:
    """``out``, of twice as many digits, becomes the square."""
    out[:] = 0
    for j in range(count):
        carry = np.uint64(0)
        for k in range(count):
            total = np.uint64(digits[j]) * np.uint64(digits[k]) + np.uint64(out[j + k]) + carry
            out[j + k] = np.int64(total & np.uint64(DIGIT))
            carry = total >> np.uint64(32)
        out[j + count] = np.int64(carry)


@nb.njit(nogil=True, cache=True)
def _spread(digits: Array, count: Word, factor: Word, place: Word, out: Array) -> None:
    """``out`` becomes the digits times a factor below 2^32, from the digit ``place`` on."""
    out[:] = 0
    carry = np.uint64(0)
    for j in range(count):
        total = np.uint64(digits[j]) * np.uint64(factor) + carry
        out[place + j] = np.int64(total & np.uint64(DIGIT))
        carry = total >> np.uint64(32)
    out[place + count] = np.int64(carry)


@nb.njit(nogil=True, cache=True)
def _to_variances(
    sums: tuple[Array, Word, Word],
    squares: tuple[Array, Word, Word],
    counts: Array,
    less: Word,
    cells: Array,
    out: Array,
) -> None:
    """The variances: ``(n·Σx² - (Σx)²) / (n·(n - less))``, of counts from ``less + 1`` to 2^32 - 1.

    Sums and squares are limbs, width and base. What a smaller count gives means nothing.
    """
    width, square_width = sums[1] + 2, squares[1] + 2
    base = min(2 * sums[2], squares[2])
    one, other = (2 * sums[2] - base) >> 5, (squares[2] - base) >> 5
    size = max(2 * width + one, square_width + other) + 4
    digits, product = np.empty(width, np.int64), np.empty(2 * width, np.int64)
    found = np.empty(square_width, np.int64)
    # As in to_floats; there are two divisions here.
    left, right = np.zeros(size, np.int64), np.zeros(size + 4, np.int64)
    for i in range(cells.shape[0]):
        cell, count = np.int64(cells[i]), max(counts[i], less + 1)
        magnitude(sums[0], cell * sums[1], sums[1], digits)
        _square(digits, width, product)
        _spread(product, 2 * width, 1, one, left)
        magnitude(squares[0], cell * squares[1], squares[1], found)
        right[:4] = 0
        _spread(found, square_width, count, other, right[4:])
        borrow = np.int64(0)
        for j in range(size):
            total = right[4 + j] - left[j] + borrow
            right[4 + j] = total & DIGIT
            borrow = total >> 32
        rest = divide(right, size + 4, count)
        rest |= divide(right, size + 4, count - less)
        out[i] = rounded(right, size + 4, base - 128, rest != 0)
