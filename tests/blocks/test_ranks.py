"""Ranks of the events of inputs: by position, then input, and controls after tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.blocks.lateness import CONTROL, INPUT_BITS, Admitted
from penstock.blocks.ranks import Ranks

POSITIONS = st.lists(st.integers(5, 12), max_size=5).map(sorted)
CONTROLS = st.lists(st.integers(5, 12), max_size=2, unique=True).map(sorted)
NONE: list[int] = []


def admitted(input: int, positions: list[int], controls: list[int]) -> Admitted:
    at = np.array(positions, np.int64)
    keys = np.array([(p << INPUT_BITS) + CONTROL for p in controls], np.int64)
    nothing: Any = None
    return Admitted(nothing, (at << INPUT_BITS) + input, at, None, None, None, keys, keys, None, ())


@given(st.integers(2, 4).flatmap(lambda n: st.tuples(*[st.tuples(POSITIONS, CONTROLS)] * n)))
@example((([5, 7], NONE), ([7, 8], NONE)))  # as many as positions, one missing, one there twice
@example((([6, 8], NONE), ([5, 7], NONE)))
@example((([6, 9, 9], NONE), (NONE, NONE)))
@example((([5, 8], NONE), ([6], NONE), ([7], NONE)))
@example((([5, 5], NONE), ([6], NONE), ([8], NONE)))  # as many as positions, but one is there twice
@example(((NONE, NONE), (NONE, NONE), (NONE, NONE)))
def test_ranks_follow_positions_and_inputs(given: tuple[Any, ...]) -> None:
    ranks = Ranks([admitted(i, *one) for i, one in enumerate(given)])
    tuples = [(p, i, n) for i, (at, _) in enumerate(given) for n, p in enumerate(at)]
    events = sorted([*tuples, *{(p, CONTROL, 0) for _, at in given for p in at}])
    assert ranks.count == len(events)
    for i, (at, controls) in enumerate(given):
        mine = [events.index((p, i, n)) for n, p in enumerate(at)]
        theirs = [rank for rank, (_, j, _) in enumerate(events) if j not in (i, CONTROL)]
        assert ranks.tuples[i].tolist() == mine
        assert ranks.controls[i].tolist() == [events.index((p, CONTROL, 0)) for p in controls]
        every = np.arange(len(events))
        assert ranks.positions(every).tolist() == [p for p, _, _ in events]
        for some in (every, every[-1:]):
            seen = [sum(m < rank for m in mine) for rank in some.tolist()]
            assert ranks.seen(some, i).tolist() == seen
        before = [sum(m < rank for m in theirs) for rank in mine]
        assert ranks.others_before(i).tolist() == before
