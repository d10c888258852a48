"""The cascade: rows of the oracle and of mjoin, in order, whatever the order of its steps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.flows.designs import searching
from tests.flows.test_random_designs import SCRIPTS, on_large_batches
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, compare, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock.engines.local.engine import Engine
from penstock.flows import cascade as cascade_module
from penstock.flows.cascade import Cascade
from penstock.program.choose.probe_order import JoinTerms


@pytest.fixture(params=[1, 3, 1 << 20])
def pairs_in_a_step(request: pytest.FixtureRequest):
    with low_thresholds(pairs_per_step=request.param):
        yield


@pytest.mark.usefixtures("pairs_in_a_step")
@examples(40)
@given(SCRIPTS, SIZES, BATCHES)
def test_rows_are_the_oracles(steps: list[Step], sizes: list[int], batch_rows: int) -> None:
    with searching(Cascade):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@pytest.mark.usefixtures("pairs_in_a_step")
@examples(40)
@given(SCRIPTS, SIZES, BATCHES, st.randoms(use_true_random=False))
def test_rows_are_the_oracles_in_whatever_order_inputs_join(
    steps: list[Step], sizes: list[int], batch_rows: int, chance
) -> None:
    def any_order(terms: JoinTerms) -> tuple[int, ...]:
        return tuple(chance.sample(range(terms.join.core), terms.join.core))

    with pytest.MonkeyPatch.context() as patch, searching(Cascade):
        patch.setattr(cascade_module, "cascade_order", any_order)
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@examples(25)
@given(scripts(multiway=True), SIZES)
def test_rows_are_the_oracles_after_a_save_and_a_restore(
    steps: list[Step], sizes: list[int]
) -> None:
    """After every batch; the combinations are made anew from the windows."""
    steps = [step for step in steps if step.verb != "drop"]

    def again(engine: Engine) -> Engine:
        return saved_and_restored(engine, compile_predicates=False)

    with searching(Cascade):
        found = run_on(Engine(compile_predicates=False), steps, sizes, settle=again)
    check(steps, on_oracle(steps), found)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_large_batches_give_the_rows_of_mjoin_in_order(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = on_large_batches()
    monkeypatch.setattr(cascade_module, "cascade_order", lambda terms: order)
    with searching(Cascade):
        found, metrics = on_large_batches()
    assert found == expected
