"""Counts by pane, and the extents of stretches, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels.aggregate.counting import count_in_panes, likely_extent
from penstock.kernels.aggregate.panes import Panes
from penstock.kernels.aggregate.survey import STRETCH, Extents


@pytest.mark.parametrize("spread", [3, 40, 300, 9_000, 200_000])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("split", [0, 4])
def test_counts_by_pane(spread: int, kind: str, split: int) -> None:
    rng = np.random.default_rng(spread)
    panes = Panes(3, 10, split)
    ticks = (np.arange(9_000) // 300 + rng.integers(0, spread, 9_000) - 20).astype(kind)
    extent = int(ticks.min()), int(ticks.max())
    numbers = panes.numbers(ticks) - panes.number(extent[0])
    length = panes.number(extent[1]) - panes.number(extent[0]) + 1
    codes = rng.integers(0, 5, 9_000).astype(np.int32)
    mask = rng.random(9_000) < 0.7
    for given_mask in (None, mask):
        for equal in (None, (codes, 2)):
            keep = np.ones(9_000, bool) if given_mask is None else mask
            keep = keep if equal is None else keep & (codes == 2)
            counts = np.full(length, 5, np.int64)
            extents = Extents.of(len(ticks))
            assert count_in_panes(ticks, extent, panes, counts, given_mask, equal, extents)
            assert (extents.low, extents.high) == extent
            assert extents.lows[1] == ticks[STRETCH : 2 * STRETCH].min()
            assert (counts - 5 == np.bincount(numbers[keep], minlength=length)).all()


def test_counts_at_the_ends_of_64_bits() -> None:
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for panes, ticks in (
        (Panes(0, 1 << 61, 0), [top, bottom, 0, 0]),
        (Panes(0, 10, 3), [top, top - 9, top - 20]),
        (Panes(0, 10, 3), [bottom, bottom + 1, bottom + 30]),
        (Panes(0, 10, 0), [top, top]),
    ):
        array = np.array(ticks)
        extent = min(ticks), max(ticks)
        first = panes.number(extent[0])
        wanted = np.bincount([panes.number(tick) - first for tick in ticks])
        counts = np.zeros(len(wanted), np.int64)
        assert count_in_panes(array, extent, panes, counts)
        assert counts.tolist() == wanted.tolist()


@pytest.mark.parametrize("panes", [Panes(0, 10, 0), Panes(0, 1 << 61, 0)])
@pytest.mark.parametrize("tick", [-(1 << 62), 1 << 62])
def test_a_tick_that_is_not_in_the_extent_is_told(panes: Panes, tick: int) -> None:
    ticks = np.array([5, tick, 7])
    counts = np.zeros(3, np.int64)
    assert not count_in_panes(ticks, (0, 29), panes, counts)
    low, high = likely_extent(np.array([5, 0, 7]), panes)
    assert low <= 5 and high >= 7
