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
def rank_densely(mine: Array, other: Array, first: int, ranks: Array, seen: Array) -> bool:
    """The ranks of one side's events if both sides' follow one another; False if they do not.

    ``first`` is the first of all, and there are as many as the last of all says. If that is True
    for both sides, neither has two events at one position, and no position is left out.
    """
    count = other.shape[0]
    for i in range(mine.shape[0]):
        rank = mine[i] - first
        before = rank - i
        if before < 0 or before > count or (i > 0 and mine[i - 1] >= mine[i]):
            return False
        if (before > 0 and other[before - 1] >= mine[i]) or (
            before < count and other[before] <= mine[i]
        ):
            return False
        ranks[i] = rank
        seen[i] = before
    return True


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


@nb.njit(nogil=True, cache=True)
def _strided_places(numbers: Array, first: int, stride: int, count: int, out: Array) -> None:
    for i in range(numbers.shape[0]):
        above = numbers[i] - first
        place = 0 if above <= 0 else (above + stride - 1) // stride
        out[i] = min(place, count)


def strided_places(numbers: Array, first: int, stride: int, count: int) -> Array:
    """How many of ``count`` numbers, ``first`` and every ``stride``-th after it, are below each.

    >>> strided_places(np.array([-5, 3, 4, 6, 7, 99]), 3, 3, 4).tolist()
    [0, 0, 1, 1, 2, 4]
    """
    out = np.empty(len(numbers), np.int64)
    _strided_places(numbers, first, stride, count, out)
    return out


Three = tuple[Array, Array, Array]
Four = tuple[Array, Array, Array, Array]


@nb.njit(nogil=True, cache=True)
def _merge_sections(a: Four, b: Four, out: Four) -> None:
    i, j = 0, 0
    for k in range(out[0].shape[0]):
        if j >= b[0].shape[0] or (i < a[0].shape[0] and a[0][i] <= b[0][j]):
            out[0][k], out[1][k], out[2][k], out[3][k] = a[0][i], a[1][i], a[2][i], a[3][i]
            i += 1
        else:
            out[0][k], out[1][k], out[2][k], out[3][k] = b[0][j], b[1][j], b[2][j], b[3][j]
            j += 1


@nb.njit(nogil=True, cache=True)
def _merge_ranked(a: Three, b: Three, out: Three) -> None:
    i, j = 0, 0
    for k in range(out[0].shape[0]):
        if j >= b[0].shape[0] or (i < a[0].shape[0] and a[0][i] <= b[0][j]):
            out[0][k], out[1][k], out[2][k] = a[0][i], a[1][i], a[2][i]
            i += 1
        else:
            out[0][k], out[1][k], out[2][k] = b[0][j], b[1][j], b[2][j]
            j += 1


def merge_ranked(a: Three, b: Three) -> Three:
    """As :func:`merge_sections`, of three columns."""
    out = three(len(a[0]) + len(b[0]))
    _merge_ranked(a, b, out)
    return out


def merge_sections(a: Four, b: Four) -> Four:
    """Two times four columns as one, by the first, which ascends; of equals, those of ``a`` first.

    >>> one, other = np.array([1, 5, 5]), np.array([1, 4])
    >>> merge_sections((one,) * 4, (other,) * 4)[0].tolist()
    [1, 1, 4, 5, 5]
    """
    out = tuple(np.empty(len(a[0]) + len(b[0]), np.int64) for _ in range(4))
    four = (out[0], out[1], out[2], out[3])
    _merge_sections(a, b, four)
    return four
