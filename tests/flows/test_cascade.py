"""The cascade: rows of the oracle and of mjoin, in order, whatever the order of its steps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.engines.test_state import saved_and_restored
from tests.flows.designs import searching
from tests.flows.test_random_designs import SCRIPTS, mjoin_on_large_batches, on_large_batches
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, SIZES, check, compare, on_oracle, run_on
from tests.thresholds import low_thresholds

from penstock.blocks.multiway import design_revision
from penstock.engines.local.engine import Engine
from penstock.flows import cascade as cascade_module
from penstock.flows import make
from penstock.flows.cascade import Cascade
from penstock.program.choose.design import ASSUMPTIONS, DesignChoice
from penstock.program.choose.probe_order import JoinTerms
from penstock.streams.events import Merged


@pytest.fixture(params=[1, 3, 1 << 20])
def pairs_in_a_step(request: pytest.FixtureRequest) -> Iterator[None]:
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
    steps: list[Step], sizes: list[int], batch_rows: int, chance: random.Random
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


@pytest.mark.product(4)
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_large_batches_give_the_rows_of_mjoin_in_order(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = mjoin_on_large_batches()
    monkeypatch.setattr(cascade_module, "cascade_order", lambda terms: order)
    with searching(Cascade):
        found, _ = on_large_batches()
    assert found == expected


@examples(40)
@given(SCRIPTS, SIZES, BATCHES, st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_when_the_design_is_revised(
    steps: list[Step], sizes: list[int], batch_rows: int, chance: random.Random
) -> None:
    def by_chance(*given: Any) -> DesignChoice:
        return DesignChoice(chance.choice(("mjoin", "cascade", "shared")), "by chance")

    with pytest.MonkeyPatch.context() as patch, low_thresholds(last_order_revision=1):
        patch.setattr(design_revision, "choose_design", by_chance)
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


@pytest.mark.parametrize("most", [0, 3, 20])
@examples(20)
@given(SCRIPTS, SIZES, BATCHES)
def test_rows_are_the_oracles_when_a_cascade_that_was_not_asked_for_gives_up(
    most: int, steps: list[Step], sizes: list[int], batch_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, low_thresholds(pairs_per_step=2):
        patch.setattr(make, "MOST_COMBINATIONS", most)
        patch.setattr(
            design_revision, "choose_design", lambda *given: DesignChoice("cascade", "always")
        )
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)


THREE = "; ".join(f"CREATE STREAM {name} (t BIGINT, k BIGINT)" for name in "ABC")
CHAIN = """SELECT a.t AS a, b.t AS b, c.t AS c FROM A [ROWS 8000] AS a
    JOIN B [ROWS 8000] AS b ON a.k {0} b.k JOIN C [ROWS 8000] AS c ON b.k {0} c.k"""


def arrivals(values: int, count: int = 12_000, seed: int = 1) -> Merged:
    chance = np.random.default_rng(seed)
    which = chance.integers(0, 3, count).astype(np.int8)
    batches = tuple(
        pa.RecordBatch.from_pydict({"t": mine, "k": chance.integers(0, values, len(mine))})
        for mine in (np.flatnonzero(which == i) for i in range(3))
    )
    return Merged(tuple("ABC"), batches, which)


def test_auto_turns_to_a_cascade_and_back_and_says_why() -> None:
    """With a nested loop and few partners stored pairs are few; in small batches steps cost."""
    with Engine(buffer_rows=1 << 24) as engine:
        engine.sql(THREE)
        text = CHAIN.format("=")
        auto = engine.install(text, kernel="nested-loop")
        mjoin = engine.install(text, kernel="nested-loop", design="mjoin")
        told = auto.explain().splitlines()
        assert (
            "design mjoin on 1 core: estimated cost of an arrival, in comparisons: 16,000 (mjoin), "
            f"14,819 (cascade, which stores 8,000 combinations); {ASSUMPTIONS}"
        ) in told
        assert "design revised while it runs: samples of arrivals measure the match rates" in told
        found = []
        for number, count in enumerate((30_000, 30_000, *[30] * 50)):
            engine.feed([arrivals(80_000, count, seed=number)])
            assert auto.rows() == mjoin.rows()
            found.append([line.split(":")[0] for line in auto.metrics()["designs"]])
        assert found[1] == ["design cascade"]
        assert found[-1] == ["design mjoin"]
        [why] = auto.metrics()["designs"]
        assert why.endswith("; measured with 256 tuples")
        assert why in auto.explain().splitlines()


def test_a_cascade_tells_how_many_combinations_it_has_stored() -> None:
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        query = engine.install(CHAIN.format("="), design="cascade")
        engine.push("A", [{"t": 1, "k": 1}, {"t": 2, "k": 1}])
        engine.push("B", [{"t": 3, "k": 1}])
        assert query.metrics()["cores"][0]["combinations"] == [2]
        engine.push("C", [{"t": 4, "k": 1}])
        assert query.rows().to_pylist() == [{"a": 1, "b": 3, "c": 4}, {"a": 2, "b": 3, "c": 4}]
        assert "cascade: A (1) with B (2), then with C (3)" in query.explain().splitlines()


def test_a_change_makes_the_stored_combinations_anew() -> None:
    """What a row needs is decided by the program in force when its youngest member arrives."""
    with Engine(compile_predicates=False) as engine:
        engine.sql(THREE)
        query = engine.install(CHAIN.format("="), design="cascade")
        engine.push("A", [{"t": 1, "k": 1}, {"t": 2, "k": 2}])
        engine.push("B", [{"t": 3, "k": 2}])
        query.change(CHAIN.format("<"))
        engine.push("C", [{"t": 4, "k": 3}])
        assert query.rows().to_pylist() == [{"a": 1, "b": 3, "c": 4}]
