"""Compiled loops that settle the carries of exact sums, and merge sums.

See :mod:`penstock.kernels.limbs` for how a sum is kept.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.limbs import DIGIT, Word

Array = npt.NDArray[Any]


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
