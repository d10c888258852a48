"""The order of combinations by rank and members is that of a general sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.merging import places_in, ranked_order


@given(
    st.lists(st.tuples(st.integers(40, 46), *[st.integers(0, 3)] * 3), max_size=60),
    st.booleans(),
)
def test_order_by_rank_and_members(rows: list[tuple[int, ...]], grouped: bool) -> None:
    if grouped:
        rows = sorted(rows, key=lambda row: row[0])
    table = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    order = ranked_order(table[0], table[1:])
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert table[:, order].T.tolist() == [list(row) for row in sorted(rows)]


@given(
    st.lists(st.integers(-5, 5), max_size=12).map(sorted),
    st.lists(st.integers(-7, 7), max_size=12),
    st.booleans(),
)
def test_places_are_those_of_a_binary_search(
    stored: list[int], numbers: list[int], after: bool
) -> None:
    side = "right" if after else "left"
    expected = np.searchsorted(np.array(stored, np.int64), np.array(numbers, np.int64), side)
    found = places_in(np.array(stored, np.int64), np.array(numbers, np.int64), after)
    assert found.tolist() == expected.tolist()
