"""The choice of a stash: which pair, which size, or none; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.program.choose.stash import StashPlan, check_stash, stash_plan

A, B, C = 0, 1, 2


@pytest.mark.parametrize(
    ("streams", "size", "message"),
    [
        (
            4,
            None,
            "the design stashed joins three streams, and the query joins 4\n"
            "Ask for the design circular, or leave the design out.",
        ),
        (3, 0, "a stash of 0 pairs holds nothing\nWrite 1 or more, or leave the size out."),
        (3, -5, "a stash of -5 pairs holds nothing\nWrite 1 or more, or leave the size out."),
        (3, 2.5, "the size of a stash is 2.5\nWrite a whole number."),
    ],
)
def test_a_stash_that_cannot_be_is_refused(streams: int, size: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_stash(streams, size)
    assert str(caught.value) == message


def match(ab: float, bc: float, ac: float) -> dict[frozenset[int], float]:
    return {frozenset((A, B)): ab, frozenset((B, C)): bc, frozenset((A, C)): ac}


def test_the_busiest_stream_has_no_part_in_the_pair() -> None:
    rates = match(1e-6, 1e-6, 1e-6)
    for busy in range(3):
        shares = [0.6 if stream == busy else 0.2 for stream in range(3)]
        assert stash_plan([1 << 14] * 3, shares, rates).third == busy


def test_a_pair_without_a_condition_has_no_stash() -> None:
    found = stash_plan([1 << 14] * 3, [0.1, 0.8, 0.1], match(1e-6, 1e-6, 1.0))
    assert {found.first, found.second} != {A, C} and found.size is not None


def test_the_pair_in_use_stays_if_another_gains_little() -> None:
    rates, windows = match(1e-6, 1e-6, 1e-6), [1 << 14] * 3
    now = stash_plan(windows, [0.3, 0.3, 0.4], rates)
    assert now.third == C
    assert stash_plan(windows, [0.35, 0.33, 0.32], rates, now=now).roles == now.roles
    assert stash_plan(windows, [0.35, 0.33, 0.32], rates).third == A
    assert stash_plan(windows, [0.8, 0.1, 0.1], rates, now=now).third == A


def test_a_stash_is_made_anew_if_it_is_too_small_or_much_too_large() -> None:
    windows, shares = [1 << 14] * 3, [0.2, 0.2, 0.6]
    rates = match(1e-6, 1e-6, 1e-6)
    plans = {
        size: stash_plan(windows, shares, rates, now=StashPlan(1, 0, C, size, "made by hand"))
        for size in (256, 512, 2048, 4096)
    }
    assert {size: plan.size for size, plan in plans.items()} == {
        256: 512, 512: 512, 2048: 2048, 4096: 512,
    }  # fmt: skip


def test_a_size_that_is_asked_for_holds_whatever_the_estimates() -> None:
    many = match(1e-3, 1e-3, 1e-3)
    assert stash_plan([1 << 14] * 3, [0.6, 0.2, 0.2], many).size is None
    asked = stash_plan([1 << 14] * 3, [0.6, 0.2, 0.2], many, asked=9)
    assert (asked.third, asked.size) == (A, 9)


@pytest.mark.parametrize(
    ("probability", "size"), [(1e-6, 512), (1e-5, 4096), (5e-5, None), (1e-4, None)]
)
def test_a_stash_must_be_smaller_than_the_windows(probability: float, size: int | None) -> None:
    """As in Fig. 6.5.12c: from a match probability of 0.01 % on, there are too many pairs."""
    rates = match(probability, probability, probability)
    assert stash_plan([1 << 14] * 3, [1 / 3] * 3, rates).size == size
