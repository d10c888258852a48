"""Counting tuples by pane, in one pass over a batch, whatever the number of panes.

The pass also tells how far apart the ticks of every stretch are, from which
:mod:`penstock.kernels.survey` knows what the batch closes. A mask or an array of codes of length 0
stands for none.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.kernels.memory import alias
from penstock.kernels.panes import Measure, Panes, as_ticks, border_of, place_of, places
from penstock.kernels.survey import HIGHEST, LOWEST, STRETCH, Extents, extent_of

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

_FEW = 4
"""In so many panes tuples are counted by comparing them with the borders."""
_MARGIN = 1024
"""So many panes before and after those of the first and the last tuple may be met in between."""
_ALL = np.empty(0, np.bool_)
_NO_CODES = np.empty(0, np.int32)


@nb.njit(nogil=True, cache=True)
def _kept(mask: Array, codes: Array, code: Word, out: Array) -> Word:
    """1 where a tuple counts, 0 where it does not; how many count."""
    total = np.int32(0)
    if codes.shape[0] > 0:
        for i in range(out.shape[0]):
            out[i] = codes[i] == code
    else:
        out[:] = 1
    if mask.shape[0] > 0:
        for i in range(out.shape[0]):
            out[i] &= np.uint8(mask[i])
    for i in range(out.shape[0]):
        total = np.int32(total + np.int32(out[i]))
    return np.int64(total)


@nb.njit(nogil=True, cache=True)
def _count_after(ticks: Array, kept: Array, before: Array) -> Any:
    """How many of the kept tuples are after each of three ticks."""
    one, two, three = before[0], before[1], before[2]
    first, second, third = np.int32(0), np.int32(0), np.int32(0)
    for i in range(ticks.shape[0]):
        counts = np.int32(kept[i])
        first = np.int32(first + (counts if ticks[i] > one else np.int32(0)))
        second = np.int32(second + (counts if ticks[i] > two else np.int32(0)))
        third = np.int32(third + (counts if ticks[i] > three else np.int32(0)))
    return np.int64(first), np.int64(second), np.int64(third)


@nb.njit(nogil=True, cache=True)
def _count_few(
    ticks: Array, kept: Array, total: Word, span: tuple[Word, Word], measure: Measure, counts: Array
) -> None:
    """Count into at most four panes; ``span`` is the first of them and the largest tick."""
    at, high = span
    last = counts.shape[0] - 1
    # Of as many bits as the ticks: if these have 32, twice as many are compared at a time.
    before = np.empty(3, ticks.dtype)
    for i in range(3):
        # Where there are fewer panes, nothing is after the border of those that are missing.
        border = border_of(min(at + 1 + i, last), measure)
        before[i] = high if border > high else border - 1
    one, two, three = _count_after(ticks, kept, before)
    counts[at] += total - one
    counts[min(at + 1, last)] += one - two
    counts[min(at + 2, last)] += two - three
    counts[min(at + 3, last)] += three


@nb.njit(nogil=True, cache=True)
def _count_many(
    ticks: Array, kept: Array, measure: Measure, scratch: tuple[Array, Array], counts: Array
) -> None:
    """Count into panes by their places. Those that are kept are picked first: they may be few."""
    picked, where = scratch
    many: Word = 0
    for i in range(ticks.shape[0]):
        picked[many] = ticks[i]
        many += np.int64(kept[i])
    places(picked[:many], measure, where)
    for i in range(many):
        counts[np.uint64(where[i])] += 1


@nb.njit(nogil=True, cache=True)
def _count_in_panes(
    ticks: Array,
    keep: tuple[Array, Array, Word],
    measure: Measure,
    most: tuple[Word, Word],
    extents: tuple[Array, Array],
    counts: Array,
) -> Word:
    """Count stretch by stretch, and note the extent of each; stop at one that goes beyond ``most``.

    Whether none does.
    """
    mask, codes, code = keep
    lows, highs = extents
    scratch = np.empty(STRETCH, np.uint8)
    picked, where = np.empty(STRETCH + 1, ticks.dtype), np.empty(STRETCH, np.int32)
    for number in range(lows.shape[0]):
        start, stop = number * STRETCH, min((number + 1) * STRETCH, ticks.shape[0])
        some, kept = ticks[start:stop], scratch[: stop - start]
        low, high = extent_of(some)
        lows[number], highs[number] = low, high
        if low < most[0] or high > most[1]:
            return False
        total = _kept(mask[start:stop], codes[start:stop], code, kept)
        first, last = place_of(low, measure), place_of(high, measure)
        if last == first:
            counts[first] += total
        elif last - first < _FEW:
            _count_few(some, kept, total, (first, high), measure, counts)
        elif total > 0:
            _count_many(some, kept, measure, (picked, where), counts)
    return True


def count_in_panes(
    ticks: Array,
    extent: tuple[int, int],
    panes: Panes,
    counts: Array,
    mask: Array | None = None,
    equal: tuple[Array, int] | None = None,
    extents: Extents | None = None,
) -> bool:
    """Count tuples by pane, from that of the smallest to that of the largest tick of ``extent`` on.

    ``counts``, int64, has a place for each pane in it. False if a tick is not in it; counts are
    anything then. Only tuples are counted that the mask lets pass, and whose code equals one if
    ``equal`` gives codes (of a dictionary-encoded column) and that one. ``extents``, if given,
    becomes that of the ticks.

    >>> counts = np.zeros(3, np.int64)
    >>> codes = np.array([0, 1, 0, 0])
    >>> count_in_panes(np.array([1, 2, 25, 3]), (1, 25), Panes(0, 10, 0), counts, None, (codes, 0))
    True
    >>> counts.tolist()
    [2, 0, 1]
    """
    ticks = alias(as_ticks(ticks))
    codes, code = (_NO_CODES, 0) if equal is None else equal
    codes = alias(np.ascontiguousarray(codes, np.int32))
    keep = _ALL if mask is None else alias(mask), codes, code
    extents = extents or Extents.of(len(ticks))
    measure = panes.measure(*extent)
    if measure is not None:
        most = max(extent[0], LOWEST), min(extent[1], HIGHEST)
        noted = extents.lows, extents.highs
        return bool(_count_in_panes(ticks, keep, measure, most, noted, counts))
    extents.note(ticks)
    if extents.low < extent[0] or extents.high > extent[1]:
        return False
    kept = np.empty(len(ticks), np.uint8)
    _kept(*keep, kept)
    np.add.at(counts, panes.numbers(ticks) - panes.number(extent[0]), kept)
    return True


def likely_extent(ticks: Array, panes: Panes) -> tuple[int, int]:
    """Ticks between which all of a batch, of at least one tuple, are if it is not far out of order.

    >>> likely_extent(np.array([1000, 17, 2009]), Panes(0, 10, 0))
    (-9240, 12249)
    """
    ends = int(ticks[0]), int(ticks[-1])
    first, last = panes.number(min(ends)) - _MARGIN, panes.number(max(ends)) + _MARGIN
    return panes.first_tick(first), panes.first_tick(last + 1) - 1
