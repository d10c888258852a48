"""Histograms of durations, against the durations themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.blocks.join.latency import Histogram

DURATIONS = st.lists(st.integers(-5, 1 << 62) | st.integers(0, 5000), min_size=1, max_size=50)


@given(DURATIONS)
def test_one_by_one_and_all_at_once_are_the_same(durations: list[int]) -> None:
    one, many, merged = Histogram(), Histogram(), Histogram()
    for duration in durations:
        one.add(duration)
        part = Histogram()
        part.add(duration)
        merged.merge(part)
    many.add_many(np.array(durations, np.int64))
    assert one.summary() == many.summary() == merged.summary()


@given(DURATIONS)
def test_percentiles_are_an_eighth_too_high_at_most(durations: list[int]) -> None:
    histogram = Histogram()
    histogram.add_many(durations)
    known = sorted(max(0, duration) for duration in durations)
    for part in (0.5, 0.99):
        exact = known[int(np.ceil(part * len(known))) - 1] / 1e9
        shown = histogram.percentile(part)
        assert shown is not None
        assert exact <= shown * (1 + 1e-12)
        assert shown <= exact * 1.125 + 1e-12
    summary = histogram.summary()
    assert summary["max"] == known[-1] / 1e9
    assert sum(count for _, count in summary["histogram"]) == summary["count"] == len(known)


def test_buckets_are_powers_of_two_and_their_bounds_are_above_them() -> None:
    histogram = Histogram()
    for duration in (0, 1, 2, 3, 4, 1023, 1024):
        histogram.add(duration, 2)
    assert histogram.summary()["histogram"] == [
        [pytest.approx(upper / 1e9), 2 * count]
        for upper, count in ((1, 1), (2, 1), (4, 2), (8, 1), (1024, 1), (2048, 1))
    ]


def test_nothing_added_is_nothing_told() -> None:
    histogram = Histogram()
    histogram.add_many([])
    histogram.add(5, 0)
    assert histogram.summary()["count"] == 0
    assert histogram.summary()["max"] is None
