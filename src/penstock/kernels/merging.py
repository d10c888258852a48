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
def rank_densely(
    left: Array, right: Array, first: int, ranks: tuple[Array, Array], seen: tuple[Array, Array]
) -> bool:
    """The ranks of events that follow one another from ``first`` on; False if they do not.

    Both sequences never fall, and the last of all of them is as it should be.
    """
    taken = np.zeros(left.shape[0] + right.shape[0], np.uint8)
    for i in range(left.shape[0]):
        rank = left[i] - first
        ranks[0][i] = rank
        seen[0][i] = rank - i
        taken[rank] = 1
    for j in range(right.shape[0]):
        rank = right[j] - first
        ranks[1][j] = rank
        seen[1][j] = rank - j
        taken[rank] = 1
    count = 0
    for k in range(taken.shape[0]):
        count += taken[k]
    dense: bool = count == taken.shape[0]
    return dense


@nb.njit(nogil=True, cache=True)
def places_of(which: Array, stream: int, start: int, out: Array) -> None:
    """Where ``which`` names a stream, counted from ``start``; ``out`` has one element to spare."""
    found = 0
    for i in range(which.shape[0]):
        out[found] = start + i
        # No branch: which stream comes next, no processor can guess.
        found += 1 if which[i] == stream else 0


@nb.njit(nogil=True, cache=True)
def row_ranges(seen: Array, before: int, size: int, lo: Array, hi: Array) -> None:
    """The part of a count window that each probe may see, as indices of what is stored.

    ``seen`` is how many new tuples were there before each, ``before`` how many old ones there are,
    ``size`` how many the window has.
    """
    for i in range(seen.shape[0]):
        stop = before + seen[i]
        hi[i] = stop
        lo[i] = max(stop - size, 0)


@nb.njit(nogil=True, cache=True)
def live_total(lo: Array, hi: Array) -> int:
    """How many stored tuples all probes together may see."""
    total = 0
    for i in range(lo.shape[0]):
        total += hi[i] - lo[i]
    return total


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
