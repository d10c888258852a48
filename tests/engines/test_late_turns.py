"""Late tuples between windows that close: the rows are the oracle's, however tuples are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.random_aggregates import D, R, aggregates, derived_aggregates
from tests.random_scripts import DECIMALS, NUMBERS, WORDS, Step
from tests.test_random_aggregates import check, of_one_size, on_oracle, run_on

from penstock.engines.local.engine import Engine


@st.composite
def late_scripts(draw: Any) -> list[Step]:
    """Aggregates over tuples of which about half are late, with some punctuations between them."""
    steps = [Step("derive", "D", draw(derived_aggregates())[1])]
    for i in range(draw(st.integers(1, 3))):
        steps.append(
            Step("install", f"q{i}", draw(aggregates(draw(st.sampled_from((R, R, D)))))[1])
        )
    now = 20
    for _ in range(draw(st.integers(10, 60))):
        now += draw(st.sampled_from((0, 1, 1, 2, 3, 9)))
        if draw(st.integers(0, 15)) == 0:
            steps.append(Step("punctuate", "R", now + draw(st.integers(-8, 8))))
        time = now - draw(st.sampled_from((0, 0, 0, 0, 1, 2, 3, 4, 5, 8)))
        values = (
            draw(NUMBERS),
            draw(st.sampled_from((0.5, -2.0, 3.25))),
            draw(WORDS),
            draw(DECIMALS),
        )
        steps.append(Step("tuple", "R", (time, *values)))
    return [*steps, Step("end")]


@pytest.mark.parametrize("kernel", ["panes", "wid"])
@examples(60)
@given(late_scripts(), st.sampled_from(([1000], [7, 20], [3])))
def test_late_tuples_count_in_windows_that_are_open_when_they_come(
    kernel: str, steps: list[Step], sizes: list[int]
) -> None:
    if kernel == "wid":
        steps = of_one_size(steps)
    found = run_on(Engine(compile_predicates=False), steps, sizes, kernel=kernel)
    check(steps, on_oracle(steps), found)
