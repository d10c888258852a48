"""One thread that sweeps a run gives the rows that lasting indexes give, and the oracle's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.flows.test_shared import PREDICATES, WINDOWS, joined, tuples
from tests.random_scripts import Step, scripts
from tests.test_random_scripts import BATCHES, compare
from tests.thresholds import low_thresholds

from penstock import tuning
from penstock.blocks.join.matcher import Matcher

ALWAYS = {"most_live_per_arrival": 1e9, "smallest_part": 1, "runs_before_sweep": 0}
KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "full": "FULL JOIN"}


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each sweep has found."""
    found, sweep = [], Matcher.sweep

    def noted(self: Matcher, *given: Any) -> Any:
        found.append(sweep(self, *given))
        return found[-1]

    monkeypatch.setattr(Matcher, "sweep", noted)
    return found


def text(kind: str, predicate: str, window: str) -> str:
    return (
        f"SELECT r.t, r.k, s.t AS st, s.v FROM R {WINDOWS[window]} AS r "
        f"{KINDS[kind]} S {WINDOWS[window]} AS s ON {PREDICATES[predicate]}"
    )


@pytest.mark.product(3)
@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("predicate", [*PREDICATES])
@pytest.mark.parametrize("window", [*WINDOWS])
@tuning.given(longest_tail=64, candidate_share=2.0)
def test_a_sweep_gives_the_rows_of_lasting_indexes(
    kind: str, predicate: str, window: str, swept: list[Any]
) -> None:
    query, given = text(kind, predicate, window), tuples(2_400, 50 if window == "disorder" else 0)
    with tuning.given(most_live_per_arrival=-1.0):
        expected = joined(query, 800, given)
    assert not swept
    for batch, stretch in ((2_400, 500), (2_400, 1 << 17), (211, 100)):
        with tuning.given(**ALWAYS, swept_arrivals=stretch, swept_per_live=0):
            found = joined(query, batch, given)
        assert found[0].equals(expected[0])
        assert found[1:] == expected[1:]
    # Times out of order are compared one by one; and one predicate offers nothing to index by.
    assert bool(swept) == (window != "disorder" and predicate != "nothing")


def test_a_sweep_with_too_many_pairs_is_repeated_in_smaller_steps(swept: list[Any]) -> None:
    query, given = text("inner", "equality", "rows"), tuples(2_400, 0)
    expected = joined(query, 800, given)
    with tuning.given(**ALWAYS, pairs_per_step=100, longest_tail=64):
        found = joined(query, 2_400, given)
    assert found[0].equals(expected[0])
    assert found[1:] == expected[1:]
    assert any(pairs is None for pairs in swept)
    assert max(len(pairs[0]) for pairs in swept if pairs is not None) <= 100


def test_runs_after_a_crowded_one_are_not_swept(swept: list[Any]) -> None:
    query, given = text("inner", "equality", "rows"), tuples(2_400, 0, keys=2)
    with tuning.given(**ALWAYS, longest_tail=64, candidate_share=2.0):
        joined(query, 300, given)
    # Of eight runs: the first has some 33 comparisons per arrival, the second 100.
    assert len(swept) == 2


@pytest.mark.parametrize(
    ("window", "is_swept"), [("[ROWS 300]", True), ("[ROWS 301]", False)], ids=["half", "more"]
)
@tuning.given(longest_tail=64, smallest_part=16, runs_before_sweep=0)
def test_a_batch_is_swept_if_it_has_twice_the_tuples_of_the_windows(
    window: str, is_swept: bool, swept: list[Any]
) -> None:
    query = f"SELECT r.t, s.t AS st FROM R {window} AS r JOIN S {window} AS s ON r.k = s.k"
    joined(query, 1_200, tuples(1_200, 0))
    assert bool(swept) == is_swept


def test_the_first_run_is_left_to_the_lasting_indexes(swept: list[Any]) -> None:
    query, given = text("inner", "equality", "rows"), tuples(2_400, 0)
    with tuning.given(most_live_per_arrival=1e9, smallest_part=1, longest_tail=64):
        joined(query, 2_400, given)
        assert not swept
        joined(query, 1_200, given)
        assert len(swept) == 1


@examples(100)
@given(scripts(), st.lists(st.sampled_from((3, 7, 50)), min_size=1, max_size=3), BATCHES)
def test_swept_rows_are_the_oracles(steps: list[Step], sizes: list[int], batch_rows: int) -> None:
    with low_thresholds(**ALWAYS, swept_arrivals=2, swept_per_live=0, pairs_per_step=3):
        compare(steps, sizes, batch_rows=batch_rows, compile_predicates=False)
