"""Trees of joins in the embedded engine: the oracle's rows, in steps of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import random_multiway
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.random_multiway import Shape, join_kinds
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, compare, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.engines.local.engine import Engine
from penstock.testing import replay_text

SHAPES = random_multiway.shapes


@st.composite
def trees(draw: Any, derived: tuple[str, ...] = ()) -> Shape:
    """Joins of three and more streams that are not all inner."""
    shape: Shape = draw(SHAPES(derived))
    if shape.kinds:
        return shape
    rows = (False,) * len(shape.rows) if shape.whole else shape.rows
    return replace(shape, kinds=draw(join_kinds(rows)))


@pytest.fixture(autouse=True)
def trees_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(random_multiway, "shapes", trees)
    yield


@pytest.fixture(params=[1, 2, 5])
def few_pairs_in_a_step(request: pytest.FixtureRequest) -> Iterator[None]:
    with low_thresholds(pairs_per_step=request.param):
        yield


@pytest.mark.usefixtures("few_pairs_in_a_step")
@examples(100)
@given(scripts(multiway=True), SIZES, BATCHES)
def test_the_rows_do_not_depend_on_the_size_of_a_step(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@examples(100)
@given(scripts(derived=True, multiway=True), SIZES, BATCHES)
def test_rows_over_derived_streams_are_the_oracles(
    steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


def test_combinations_follow_tuples_that_get_new_numbers() -> None:
    script = Path(__file__).parents[1] / "conformance" / "tree-out-of-order.flow"
    with low_thresholds():
        assert (
            replay_text(script.read_text(encoding="utf-8"), engine="local", batch=1).failures == []
        )


@pytest.mark.parametrize("packs", [1, 1000])
@examples(60)
@given(scripts(multiway=True), SIZES)
def test_combinations_are_restored_from_saved_state(
    packs: int, steps: list[Step], sizes: list[int]
) -> None:
    """After every batch. The rows of a dropped query are not saved."""
    steps = [step for step in steps if step.verb != "drop"]

    def again(engine: Engine) -> Engine:
        return saved_and_restored(engine, compile_predicates=False)

    with tuning.given(tuples_to_pack=packs):
        found = run_on(Engine(compile_predicates=False), steps, sizes, settle=again)
    check(steps, on_oracle(steps), found)
