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
def merge_pairs(
    a: tuple[Array, Array, Array], b: tuple[Array, Array, Array], out: tuple[Array, Array, Array]
) -> None:
    """Merge the pairs that the left side found with those that the right side found.

    Each is probes, stored tuples and ranks, sorted by rank; out come left and right tuples and
    ranks. No two ranks of different sides are equal.
    """
    i, j = 0, 0
    left, right, ranks = out
    for k in range(left.shape[0]):
        if j >= b[0].shape[0] or (i < a[0].shape[0] and a[2][i] < b[2][j]):
            left[k], right[k], ranks[k] = a[0][i], a[1][i], a[2][i]
            i += 1
        else:
            left[k], right[k], ranks[k] = b[1][j], b[0][j], b[2][j]
            j += 1


@nb.njit(nogil=True, cache=True)
def name_pairs(
    pairs: Array,
    numbers: Array,
    first_probe: int,
    seqs: Array,
    first_stored: int,
    ranks: Array,
    out: tuple[Array, Array, Array],
) -> None:
    """From indices to sequence numbers of probes and stored tuples, and the ranks of the probes.

    ``numbers`` and ``ranks`` are those of the probes; ``seqs`` those of the stored tuples, or empty
    if they follow one another from ``first_stored`` on.
    """
    probes, stored, which = out
    for k in range(pairs.shape[0]):
        probe, entry = pairs[k] >> 32, pairs[k] & 0xFFFFFFFF
        probes[k] = first_probe + numbers[probe]
        stored[k] = seqs[entry] if seqs.shape[0] > 0 else first_stored + entry
        which[k] = ranks[numbers[probe]]


def three(count: int) -> tuple[Array, Array, Array]:
    """Three columns to write into."""
    return np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)


def places(left: Array, right: Array) -> tuple[Array, Array]:
    """:func:`interleave` into new arrays."""
    seen = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    interleave(left, right, *seen)
    return seen
