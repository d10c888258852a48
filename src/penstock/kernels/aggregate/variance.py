"""Variances from exact sums, without a rounding error before the last step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.aggregate.exact_sum import Cells, ExactSums
from penstock.kernels.aggregate.limbs import DIGIT, MOST, Word, divide, magnitude, quotient, rounded
from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]


def variances(
    sums: ExactSums, squares: ExactSums, counts: Array, cells: Cells, sample: bool
) -> Array:
    """The variances of values, from their sums, sums of squares and counts.

    The nearest floats; NaN if there was a NaN or an infinity. The result for a count of 0, or of 1
    for a sample, is undefined.
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


@njit()
def _square(digits: Array, count: Word, out: Array) -> None:
    """Write the square to ``out``, which has twice as many digits."""
    out[:] = 0
    for j in range(count):
        carry = np.uint64(0)
        for k in range(count):
            total = np.uint64(digits[j]) * np.uint64(digits[k]) + np.uint64(out[j + k]) + carry
            out[j + k] = np.int64(total & np.uint64(DIGIT))
            carry = total >> np.uint64(32)
        out[j + count] = np.int64(carry)


@njit()
def _multiply(digits: Array, count: Word, factor: Word, place: Word, out: Array) -> None:
    """Write the digits times a factor below 2^32 to ``out``, from the digit ``place`` on."""
    out[:] = 0
    carry = np.uint64(0)
    for j in range(count):
        total = np.uint64(digits[j]) * np.uint64(factor) + carry
        out[place + j] = np.int64(total & np.uint64(DIGIT))
        carry = total >> np.uint64(32)
    out[place + count] = np.int64(carry)


@njit()
def _to_variances(
    sums: tuple[Array, Word, Word],
    squares: tuple[Array, Word, Word],
    counts: Array,
    less: Word,
    cells: Array,
    out: Array,
) -> None:
    """The variances: ``(n·Σx² - (Σx)²) / (n·(n - less))``, of counts from ``less + 1`` to 2^32 - 1.

    Sums and squares are limbs, width and base. The result for a smaller count is undefined.
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
        _multiply(product, 2 * width, 1, one, left)
        magnitude(squares[0], cell * squares[1], squares[1], found)
        right[:4] = 0
        _multiply(found, square_width, count, other, right[4:])
        borrow = np.int64(0)
        for j in range(size):
            total = right[4 + j] - left[j] + borrow
            right[4 + j] = total & DIGIT
            borrow = total >> 32
        rest = divide(right, size + 4, count)
        rest |= divide(right, size + 4, count - less)
        out[i] = rounded(right, size + 4, base - 128, rest != 0)
