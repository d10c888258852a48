"""Compiled loops that merge two sorted sequences."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@nb.njit(nogil=True, cache=True)
def interleave(left: Array, right: Array, seen_left: Array, seen_right: Array) -> None:
    """For each element, how many of the other sequence come before it; no two are equal."""
    i, j = 0, 0
    while i < left.shape[0] or j < right.shape[0]:
        if j >= right.shape[0] or (i < left.shape[0] and left[i] < right[j]):
            seen_left[i] = j
            i += 1
        else:
            seen_right[j] = i
            j += 1


@nb.njit(nogil=True, cache=True)
def merge_order(left: Array, right: Array, order: Array) -> None:
    """The stable order of ``left`` followed by ``right``, two sorted sequences, as one."""
    i, j = 0, 0
    for k in range(order.shape[0]):
        if j >= right.shape[0] or (i < left.shape[0] and left[i] <= right[j]):
            order[k] = i
            i += 1
        else:
            order[k] = left.shape[0] + j
            j += 1


def places(left: Array, right: Array) -> tuple[Array, Array]:
    """:func:`interleave` into new arrays."""
    seen = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    interleave(left, right, *seen)
    return seen
