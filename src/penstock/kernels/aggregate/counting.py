"""Counting tuples by cell, and by pane in one pass over a batch.

The pass over panes also finds the smallest and the largest tick of every stretch, from which
:mod:`penstock.kernels.aggregate.survey` knows what the batch closes. A mask or an array of codes of
length 0 stands for none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate.panes import Measure, Panes, as_ticks, border_of, place_of, places
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST, STRETCH, Extents, extent_of
from penstock.kernels.machine_code import njit

Array = npt.NDArray[Any]
Word = Any
"""An integer: of NumPy, of Python, or compiled."""

_FEW = 4
"""In up to this many panes, tuples are counted by comparing them with the borders."""
_MARGIN = 1024
"""Panes before and after those of the first and the last tuple that others may fall into."""
_ALL = np.empty(0, np.bool_)
_NO_CODES = np.empty(0, np.int32)

_COPIES = 4
_CROWD = 1024
"""Up to this many cells are counted in several copies, so that one increment need not wait for the
one before it.
"""


@njit()
def _count(cells: Array, mask: Array, counts: Array, copies: Word) -> None:
    size, turn = counts.shape[0] // copies, copies - 1
    if mask.shape[0] == 0:
        for i in range(cells.shape[0]):
            counts[np.uint64(cells[i] + (i & turn) * size)] += 1
    else:
        for i in range(cells.shape[0]):
            counts[np.uint64(cells[i] + (i & turn) * size)] += np.int64(mask[i])


def count(cells: Array, counts: Array, mask: Array | None = None) -> None:
    """Add the number of tuples of each cell, where the mask is true, to ``counts``."""
    kept = _ALL if mask is None else alias(mask)
    cells = np.ascontiguousarray(cells, np.int32)
    if len(counts) <= _CROWD < len(cells):
        several = np.zeros(len(counts) * _COPIES, np.int64)
        _count(cells, kept, several, _COPIES)
        counts += several.reshape(_COPIES, -1).sum(axis=0)
    else:
        _count(cells, kept, counts, 1)


@njit()
def _kept(mask: Array, codes: Array, code: Word, out: Array) -> Word:
    """1 where a tuple counts, 0 where it does not; returns the number that count."""
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


@njit()
def _count_after(ticks: Array, kept: Array, before: Array) -> Any:
    """The number of kept tuples after each of three ticks."""
    one, two, three = before[0], before[1], before[2]
    first, second, third = np.int32(0), np.int32(0), np.int32(0)
    for i in range(ticks.shape[0]):
        counts = np.int32(kept[i])
        first = np.int32(first + (counts if ticks[i] > one else np.int32(0)))
        second = np.int32(second + (counts if ticks[i] > two else np.int32(0)))
        third = np.int32(third + (counts if ticks[i] > three else np.int32(0)))
    return np.int64(first), np.int64(second), np.int64(third)


@njit()
def _count_few(
    ticks: Array, kept: Array, total: Word, span: tuple[Word, Word], measure: Measure, counts: Array
) -> None:
    """Count into at most four panes; ``span`` is the first of them and the largest tick."""
    at, high = span
    last = counts.shape[0] - 1
    # As wide as the ticks: with 32 bits, twice as many are compared at a time.
    before = np.empty(3, ticks.dtype)
    for i in range(3):
        # If there are fewer panes, no tick is after the border of a missing one.
        border = border_of(min(at + 1 + i, last), measure)
        before[i] = high if border > high else border - 1
    one, two, three = _count_after(ticks, kept, before)
    counts[at] += total - one
    counts[min(at + 1, last)] += one - two
    counts[min(at + 2, last)] += two - three
    counts[min(at + 3, last)] += three


@njit()
def _count_many(
    ticks: Array, kept: Array, measure: Measure, scratch: tuple[Array, Array], counts: Array
) -> None:
    """Count into panes by their places. The kept tuples are collected first: they may be few."""
    picked, where = scratch
    many: Word = 0
    for i in range(ticks.shape[0]):
        picked[many] = ticks[i]
        many += np.int64(kept[i])
    places(picked[:many], measure, where)
    for i in range(many):
        counts[np.uint64(where[i])] += 1


@njit()
def _count_in_panes(
    ticks: Array,
    keep: tuple[Array, Array, Word],
    measure: Measure,
    most: tuple[Word, Word],
    extents: tuple[Array, Array],
    counts: Array,
) -> Word:
    """Count stretch by stretch, and record the extent of each.

    False as soon as one goes beyond ``most``.
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
    """Count tuples by pane; ``counts``, int64, has an element for each pane of ``extent``.

    False if a tick is outside ``extent``; then the counts are undefined. Only tuples for which the
    mask is true are counted; with ``equal``, codes of a dictionary-encoded column and one code,
    only those that have that code. ``extents``, if given, is set to those of the ticks.

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
    """An extent that holds all ticks of a batch of at least one, unless it is far out of order.

    >>> likely_extent(np.array([1000, 17, 2009]), Panes(0, 10, 0))
    (-9240, 12249)
    """
    ends = int(ticks[0]), int(ticks[-1])
    first, last = panes.number(min(ends)) - _MARGIN, panes.number(max(ends)) + _MARGIN
    return panes.first_tick(first), panes.first_tick(last + 1) - 1
