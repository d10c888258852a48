"""The ticks of a query: when tuples expire, and what may still come out of a window."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.blocks.window.punctuator import Clock
from penstock.streams.windows import Range

FLOATS = st.floats(-1e300, 1e300) | st.floats(-10, 10)
LENGTHS = st.floats(0, 1e300) | st.floats(0, 10)


@given(FLOATS, FLOATS, LENGTHS)
@example(0.30000000000000004, 0.1, 0.2)
def test_an_inclusive_window_of_floats_compares_with_the_sum(
    probe: float, time: float, size: float
) -> None:
    clock, window = Clock(True), Range(size, inclusive=True)
    expiry = clock.expiry(np.array([time]), window)[0]
    assert (probe < expiry) == (probe <= time + size)


@given(FLOATS, FLOATS, LENGTHS, st.booleans())
@example(-0.9, 1e16, 1e16, True)
def test_nothing_that_is_still_found_is_older_than_the_oldest(
    time: float, punctuation: float, size: float, inclusive: bool
) -> None:
    clock, window = Clock(True), Range(size, inclusive=inclusive)
    if clock.expiry(np.array([time]), window)[0] > punctuation:
        assert clock.oldest(np.array([punctuation]), window)[0] <= time


def test_an_end_leaves_nothing_to_be_found() -> None:
    clock, window = Clock(True), Range(5.0, inclusive=True)
    assert clock.oldest(np.array([np.inf, -np.inf]), window).tolist() == [np.inf, -np.inf]


@given(*[st.integers(-(2**62), 2**62)] * 3, st.integers(0, 2**62))
def test_an_inclusive_window_of_whole_ticks_has_one_more(
    probe: int, time: int, punctuation: int, size: int
) -> None:
    clock, window = Clock(False), Range(size, inclusive=True)
    expiry = int(clock.expiry(np.array([time]), window)[0])
    assert (probe < expiry) == (probe <= time + size)
    if expiry > punctuation:
        assert clock.oldest(np.array([punctuation]), window)[0] <= time
