"""What is done to save memory makes no difference to the rows of an aggregate."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_scripts import Step
from tests.test_random_aggregates import SCRIPTS, SIZES, compare

import penstock as ps
from penstock.blocks import aggregate, aggregate_input, numbered_rows, running
from penstock.blocks.aggregates import count_distinct


@settings(max_examples=max(60, settings().max_examples // 10))
@given(
    SCRIPTS,
    SIZES,
    st.sampled_from((1, 1000)),
)
def test_aggregates_are_the_oracles_however_little_memory_they_take(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    """Every pane is packed, every run is folded in parts, and every group that is gone goes."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (numbered_rows, running):
            patch.setattr(module, "NARROW", 1)
        patch.setattr(numbered_rows, "_PACKED", 1)
        patch.setattr(running, "MOST_STACKED", 0)
        patch.setattr(running, "MOST_GATHERED", 0)
        patch.setattr(aggregate_input, "MOST_FOLDED", 2)
        patch.setattr(aggregate, "MOST_CELLS", 2)
        patch.setattr(aggregate, "FEWEST_GROUPS", 1)
        patch.setattr(count_distinct, "_FEWEST", 1)
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


def test_a_run_over_many_panes_is_folded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand groups in as many panes, of which each tuple has one, and two are open."""
    monkeypatch.setattr(aggregate_input, "MOST_FOLDED", 1 << 14)
    grown: list[int] = []
    make_room = numbered_rows.NumberedRows._take_free

    def noted(self: numbered_rows.NumberedRows, count: int) -> object:
        rows = make_room(self, count)
        grown.append(len(self.partials))
        return rows

    monkeypatch.setattr(numbered_rows.NumberedRows, "_take_free", noted)
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (t BIGINT, k BIGINT)")
    q = engine.install("SELECT k, COUNT(k) AS n FROM R [RANGE 2 SLIDE 1 WATTR t] GROUP BY k")
    engine.push("R", [{"t": t, "k": t * 7 % 1000} for t in range(1000)])
    assert max(grown) <= 1 << 16
    assert q.rows().num_rows == 1 + 2 * 998
