"""What is done to save memory makes no difference to the rows of an aggregate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_scripts import Step
from tests.test_random_aggregates import SCRIPTS, SIZES, compare

import penstock as ps
from penstock import tuning
from penstock.blocks.aggregate import (
    partials,
)


@examples(60)
@given(
    SCRIPTS,
    SIZES,
    st.sampled_from((1, 1000)),
    st.sampled_from((0, 1, 1 << 15)),
)
def test_aggregates_are_the_oracles_however_little_memory_they_take(
    steps: list[Step], sizes: list[int], batch_rows: int, few: int
) -> None:
    """Every pane is packed, windows close in parts, and every group that is gone goes.

    Where few cells are none, all are kept by themselves as long as there are several groups; where
    they are one, that changes now and then.
    """
    with tuning.given(
        narrow_row=1,
        packed_share=1,
        most_stacked=0,
        most_gathered=0,
        few_cells=few,
        sparse_factor=min(few, 2),
        dense_factor=few,
        cells_per_part=2,
        fewest_groups=1,
        distinct_values=1,
    ):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@examples(60)
@given(SCRIPTS, SIZES, st.sampled_from((3, 1000)))
def test_aggregates_are_the_oracles_if_late_tuples_are_folded_in_turn_by_turn(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    with tuning.given(fewest_turns_held=1 << 30):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


def test_a_run_of_many_groups_in_many_panes_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand groups in as many panes, of which each tuple has one: cells, not a million."""
    grown = [0]
    spread = partials.Partials.spread

    def noted(self: partials.Partials, count: int, new: object, old: object) -> None:
        grown.append(count)
        spread(self, count, new, old)

    monkeypatch.setattr(partials.Partials, "spread", noted)
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (t BIGINT, k BIGINT)")
    q = engine.install("SELECT k, COUNT(k) AS n FROM R [RANGE 2 SLIDE 1 WATTR t] GROUP BY k")
    engine.push("R", [{"t": t, "k": t * 7 % 1000} for t in range(1000)])
    assert max(grown) <= 1 << 15
    assert q.rows().num_rows == 1 + 2 * 998
