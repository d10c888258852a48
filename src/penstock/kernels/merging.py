"""Compiled loops that merge two sorted sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]


@njit()
def interleave(left: Array, right: Array, seen_left: Array, seen_right: Array) -> None:
    """For each element, the number of elements of the other sequence before it; none are equal."""
    i, j = 0, 0
    while i < left.shape[0] or j < right.shape[0]:
        if j >= right.shape[0] or (i < left.shape[0] and left[i] < right[j]):
            seen_left[i] = j
            i += 1
        else:
            seen_right[j] = i
            j += 1


@njit()
def count_below(numbers: Array, bounds: Array, out: Array) -> None:
    """For each bound, how many of the numbers are below it; both are sorted."""
    j = 0
    for i in range(bounds.shape[0]):
        while j < numbers.shape[0] and numbers[j] < bounds[i]:
            j += 1
        out[i] = j


@njit()
def _places_in(stored: Array, numbers: Array, shift: int, out: Array) -> None:
    place = 0
    for i in range(numbers.shape[0]):
        number = numbers[i] + shift
        while place < stored.shape[0] and stored[place] < number:
            place += 1
        while place > 0 and stored[place - 1] >= number:
            place -= 1
        out[i] = place


def places_in(stored: Array, numbers: Array, after: bool = False) -> Array:
    """How many of the stored whole numbers, which ascend, are below each number.

    ``after``: or equal to it. Quick if the numbers ascend for the most part: each is looked for
    from the place of the one before.

    >>> places_in(np.array([2, 4, 4, 7]), np.array([1, 4, 9, 4])).tolist()
    [0, 1, 4, 1]
    >>> places_in(np.array([2, 4, 4, 7]), np.array([1, 4, 9, 4]), after=True).tolist()
    [0, 3, 4, 3]
    """
    out = np.empty(len(numbers), np.int64)
    _places_in(stored, numbers, int(after), out)
    return out


@njit()
def rank_alone(positions: Array, first: int, taken: Array, ranks: Array) -> bool:
    """The ranks of events whose position no other event has; False if one is taken.

    ``taken`` has an element for every position from ``first`` on, which is set.
    """
    for i in range(positions.shape[0]):
        rank = positions[i] - first
        if rank < 0 or rank >= taken.shape[0] or taken[rank]:
            return False
        taken[rank] = True
        ranks[i] = rank
    return True


@njit()
def merge_runs(keys: Array, starts: Array, order: Array, spare: Array) -> bool:
    """Sort ``order``, which has the keys' indices, by merging runs that ascend, two at a time.

    Runs begin at ``starts``, which has the end too. Of equal keys, those of earlier runs come
    first. False if the result is in ``spare``, which is as long.
    """
    runs, width, here = starts.shape[0] - 1, 1, True
    while width < runs:
        source, target = (order, spare) if here else (spare, order)
        for left in range(0, runs, 2 * width):
            i, middle = starts[left], starts[min(left + width, runs)]
            j, end = middle, starts[min(left + 2 * width, runs)]
            for k in range(i, end):
                if j >= end or (i < middle and keys[source[i]] <= keys[source[j]]):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
        width *= 2
        here = not here
    return here


def merged_order(runs: Sequence[Array]) -> tuple[Array, Array]:
    """Several ascending runs one after another, and the stable order of their elements.

    >>> merged_order([np.array([1, 5, 5]), np.array([1, 4]), np.array([0])])[1].tolist()
    [5, 0, 3, 4, 1, 2]
    """
    keys = np.concatenate(runs)
    order = np.arange(len(keys))
    starts = np.cumsum([0, *map(len, runs)])
    spare = np.empty_like(order)
    return keys, order if merge_runs(keys, starts, order, spare) else spare


@njit()
def places_of(which: Array, stream: int, start: int, out: Array) -> None:
    """Where ``which`` names a stream, counted from ``start``; ``out`` has one element to spare."""
    found = 0
    for i in range(which.shape[0]):
        out[found] = start + i
        # Without a branch: which stream comes next cannot be predicted.
        found += 1 if which[i] == stream else 0


@njit()
def group_by_rank(ranks: Array, first: Any, starts: Array, order: Array) -> None:
    """The indices of rows by rank, in their own order inside one: a counting sort.

    Ranks are from ``first`` on; ``starts`` has an element for each, and one more.
    """
    starts[:] = 0
    for i in range(ranks.shape[0]):
        starts[ranks[i] - first + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    for i in range(ranks.shape[0]):
        at = starts[ranks[i] - first]
        order[at] = i
        starts[ranks[i] - first] = at + 1


@njit()
def comes_after(table: Array, i: int, j: int) -> bool:
    """Whether column ``i`` of a table is after column ``j``, compared from the first row on."""
    for row in range(table.shape[0]):
        if table[row, i] != table[row, j]:
            return bool(table[row, i] > table[row, j])
    return False


@njit()
def sort_in_groups(ranks: Array, table: Array, order: Array, spare: Array) -> None:
    """Sort ``order``, which groups the columns of a table by rank, inside each group.

    A merge sort that leaves a sorted group as it is, since most are; ``spare`` is as long.
    """
    start, count = 0, order.shape[0]
    while start < count:
        stop = start + 1
        falls = False
        while stop < count and ranks[order[stop]] == ranks[order[start]]:
            falls = falls or comes_after(table, order[stop - 1], order[stop])
            stop += 1
        width = 1 if falls else stop - start
        while width < stop - start:
            for left in range(start, stop, 2 * width):
                middle, end = min(left + width, stop), min(left + 2 * width, stop)
                i, j = left, middle
                for k in range(left, end):
                    if j >= end or (i < middle and not comes_after(table, order[i], order[j])):
                        spare[k] = order[i]
                        i += 1
                    else:
                        spare[k] = order[j]
                        j += 1
            order[start:stop] = spare[start:stop]
            width *= 2
        start = stop


def ranked_order(ranks: Array, table: Array) -> Array:
    """The order of a table's columns by rank, and those of one rank by their elements.

    >>> ranked_order(np.array([5, 7, 7, 6]), np.array([[1, 2, 2, 9], [4, 8, 3, 0]])).tolist()
    [0, 3, 2, 1]
    """
    order = np.empty(len(ranks), np.int64)
    if len(ranks):
        first = int(ranks.min())
        starts = np.empty(int(ranks.max()) - first + 2, np.int64)
        group_by_rank(ranks, first, starts, order)
        sort_in_groups(ranks, table, order, np.empty_like(order))
    return order


@njit()
def row_ranges(seen: Array, before: int, size: int, lo: Array, hi: Array) -> None:
    """The part of a count window that each probe may see, as indices of stored tuples.

    ``seen`` is the number of new tuples before each probe, ``before`` the number of old tuples,
    ``size`` that of the window.
    """
    for i in range(seen.shape[0]):
        stop = before + seen[i]
        hi[i] = stop
        lo[i] = max(stop - size, 0)


@njit()
def running_punctuations(
    times: Array, seen: Any, punctuation: Any, follows: bool, slack: Any, lowest: Any, out: Array
) -> Any:
    """The punctuation before each tuple and, last, after all; returns the largest time seen.

    If it ``follows`` the tuples: the largest time seen minus the slack, or the one before.
    No difference goes below ``lowest``.
    """
    for i in range(out.shape[0]):
        if i > 0:
            seen = max(seen, times[i - 1])
        if follows and seen >= lowest + slack:
            punctuation = max(punctuation, seen - slack)
        out[i] = punctuation
    return seen


@njit()
def later_of(times: Array, punctuations: Array, out: Array) -> int:
    """The later of each time and the punctuation before it; returns how many are late."""
    late = 0
    for i in range(times.shape[0]):
        late += times[i] < punctuations[i]
        out[i] = max(times[i], punctuations[i])
    return late


@njit()
def time_ranges(
    seen: Array,
    before: int,
    low: Array,
    upper: Array,
    stored: tuple[Array, Array],
    lo: Array,
    hi: Array,
) -> None:
    """The part of a time window in order that each probe may see, as indices of what is stored.

    ``seen`` and ``before`` as for :func:`row_ranges`. Stored tuples have an expiry and a time: what
    expires up to ``low`` is seen no more, nor is what is not before ``upper``, if that is given.
    """
    expiry, stamps = stored
    for i in range(seen.shape[0]):
        first = np.searchsorted(expiry, low[i], side="right")
        stop = before + seen[i]
        if upper.shape[0] > 0:
            stop = min(stop, np.searchsorted(stamps, upper[i]))
        lo[i] = first
        hi[i] = max(first, stop)


@njit()
def in_order(
    times: Array,
    last: Any,
    seen: Any,
    punctuation: Any,
    follows: bool,
    slack: Any,
    size: Any,
    ends: tuple[Any, Any],
    stored: tuple[Array, Array],
    ranges: Array,
    moved: Array,
) -> bool:
    """Judge tuples of a time window whose times follow ``last``; False if one is not in order.

    The punctuation is as :func:`running_punctuations` has it; ``moved`` gets the one after each
    tuple, and when the tuple expires, ``size`` after its time. ``ranges`` gets what each may see
    of the other side's window, which is ``stored`` in order, as :func:`time_ranges` has it. Sums
    and differences stop at the ``ends``.
    """
    expiry, stamps = stored
    lo, hi = 0, 0
    for i in range(times.shape[0]):
        time = times[i]
        if time < last or time < punctuation:
            return False
        last = time
        if i == 0:
            lo = np.searchsorted(expiry, time, side="right")
        while lo < expiry.shape[0] and expiry[lo] <= time:
            lo += 1
        expires = ends[1] if time > ends[1] - size else time + size
        if i == 0:
            hi = np.searchsorted(stamps, expires)
        while hi < stamps.shape[0] and stamps[hi] < expires:
            hi += 1
        ranges[0, i] = lo
        ranges[1, i] = max(lo, hi)
        seen = max(seen, time)
        if follows and seen >= ends[0] + slack:
            punctuation = max(punctuation, seen - slack)
        moved[0, i] = punctuation
        moved[1, i] = expires
    return True


@njit()
def ranges_from(start: int, lo: Array, hi: Array, out: tuple[Array, Array]) -> int:
    """What of ranges is from ``start`` on; returns how much that is, all together."""
    total = 0
    for i in range(lo.shape[0]):
        first, stop = max(lo[i], start), max(hi[i], start)
        out[0][i], out[1][i] = first, stop
        total += stop - first
    return total


@njit()
def all_within(values: Array, low: int, high: int) -> bool:
    """Whether every element is above ``low`` and below ``high``."""
    outside = 0
    for i in range(values.shape[0]):
        outside += (values[i] <= low) | (values[i] >= high)
    return outside == 0


@njit()
def is_sorted(values: Array) -> bool:
    """Whether no element is less than the one before it."""
    falls = 0
    for i in range(1, values.shape[0]):
        falls += values[i] < values[i - 1]
    return falls == 0


@njit()
def live_total(lo: Array, hi: Array) -> int:
    """The number of stored tuples that all probes together may see."""
    total = 0
    for i in range(lo.shape[0]):
        total += hi[i] - lo[i]
    return total


@njit()
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


@njit()
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
    """Three columns of int64 to write into."""
    return np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)


def places(left: Array, right: Array) -> tuple[Array, Array]:
    """:func:`interleave` into new arrays."""
    seen = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    interleave(left, right, *seen)
    return seen


@njit()
def _strided_places(numbers: Array, first: int, stride: int, count: int, out: Array) -> None:
    for i in range(numbers.shape[0]):
        above = numbers[i] - first
        place = 0 if above <= 0 else (above + stride - 1) // stride
        out[i] = min(place, count)


def strided_places(numbers: Array, first: int, stride: int, count: int) -> Array:
    """The rank of each number among ``count`` others: ``first``, and every ``stride``-th after it.

    >>> strided_places(np.array([-5, 3, 4, 6, 7, 99]), 3, 3, 4).tolist()
    [0, 0, 1, 1, 2, 4]
    """
    out = np.empty(len(numbers), np.int64)
    _strided_places(numbers, first, stride, count, out)
    return out


Three = tuple[Array, Array, Array]
Four = tuple[Array, Array, Array, Array]


@njit()
def _merge_sections(a: Four, b: Four, out: Four) -> None:
    i, j = 0, 0
    for k in range(out[0].shape[0]):
        if j >= b[0].shape[0] or (i < a[0].shape[0] and a[0][i] <= b[0][j]):
            out[0][k], out[1][k], out[2][k], out[3][k] = a[0][i], a[1][i], a[2][i], a[3][i]
            i += 1
        else:
            out[0][k], out[1][k], out[2][k], out[3][k] = b[0][j], b[1][j], b[2][j], b[3][j]
            j += 1


@njit()
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
    """Merge two times four columns by the first, which ascends; of equals, those of ``a`` first.

    >>> one, other = np.array([1, 5, 5]), np.array([1, 4])
    >>> merge_sections((one,) * 4, (other,) * 4)[0].tolist()
    [1, 1, 4, 5, 5]
    """
    out = tuple(np.empty(len(a[0]) + len(b[0]), np.int64) for _ in range(4))
    four = (out[0], out[1], out[2], out[3])
    _merge_sections(a, b, four)
    return four
