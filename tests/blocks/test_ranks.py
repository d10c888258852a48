"""Ranks without merging: only where events follow one another, and then the same ones."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.blocks.ranks import _dense

POSITIONS = st.lists(st.integers(5, 12), min_size=1, max_size=6).map(sorted)


@given(POSITIONS, POSITIONS)
@example(
    [5, 7], [7, 8]
)  # as many as there are positions, but one is missing and one is there twice
@example([5, 5], [6, 7])
@example([6, 8], [5, 7])
def test_ranks_are_positions_where_every_position_is_taken_once(
    left: list[int], right: list[int]
) -> None:
    sides = np.array(left, np.int64), np.array(right, np.int64)
    ranks = _dense(*sides, lambda work: [work(0), work(1)])
    first = min(left[0], right[0])
    if sorted(left + right) != list(range(first, first + len(left) + len(right))):
        assert ranks is None
        return
    assert ranks is not None
    assert [r.tolist() for r in ranks.tuples] == [[p - first for p in side] for side in sides]
    seen = [[sum(q < p for q in other) for p in side] for side, other in (sides, sides[::-1])]
    assert [s.tolist() for s in ranks.seen] == seen
    assert ranks.positions(ranks.tuples[0]).tolist() == left
    assert ranks.count == len(left) + len(right)
