"""The indexes of a join of three and more streams: each serves the stages that it was made for."""

from __future__ import annotations

import pytest
from tests.random_scripts import Step
from tests.test_random_scripts import on_engine, on_oracle
from tests.thresholds import low_thresholds

from penstock.blocks.window.window import StoredWindow


def test_a_window_is_probed_by_count_and_by_time_windows_out_of_order() -> None:
    """Only the tuple of a time window bounds the times of its partners above."""
    sql = (
        "SELECT m0.t AS t0, m1.t AS t1, m2.t AS t2 FROM R [RANGE 4 WATTR t SLACK 9] AS m0 "
        "JOIN S [RANGE 5 WATTR t SLACK 9] AS m1 ON m0.x = m1.a JOIN S [ROWS 2] AS m2 ON m0.x = m2.a"
    )
    steps = [Step("install", "found", sql)]
    for t in (5, 3, 6, 2, 7, 4, 8, 1):
        for stream in ("R", "S"):
            steps.append(Step("tuple", stream, (t, t % 2, 0.0, "a", None)))
    expected = on_oracle(steps)
    assert len(expected[0]["found"]) > 20
    with low_thresholds():
        for size in (1, 5):
            assert on_engine(steps, [size], compile_predicates=False)[0] == expected[0]


def test_a_window_that_is_packed_is_indexed_anew() -> None:
    """One tuple of R is far ahead, so that those behind it expire in the middle of the window."""
    sql = (
        "SELECT m0.t AS t0, m1.t AS t1, m2.t AS t2 FROM R [RANGE 3 WATTR t SLACK 90] AS m0 "
        "JOIN S [RANGE 90 WATTR t] AS m1 ON m0.x = m1.a JOIN Q [RANGE 90 WATTR t] AS m2 "
        "ON m0.x = m2.c"
    )
    steps = [Step("install", "found", sql), Step("tuple", "R", (60, 1, 0.0, "a", None))]
    for t in range(1, 62):
        for stream in ("R", "S", "Q")[t > 40 :]:
            steps.append(Step("tuple", stream, (t, t % 7, 0.0, "a", None)))
    expected = on_oracle(steps)
    assert any(row[0] == 60 for _, row in expected[0]["found"])
    packs = 0
    pack = StoredWindow.pack

    def counted(self: StoredWindow) -> None:
        nonlocal packs
        packs += self.index == 0
        pack(self)

    with pytest.MonkeyPatch.context() as patch, low_thresholds():
        patch.setattr(StoredWindow, "pack", counted)
        for size in (1, 5):
            assert on_engine(steps, [size], compile_predicates=False)[0] == expected[0]
    assert packs > 2
