"""A few cases of the campaign of hostile input: ``python -m tests.campaigns hostile`` runs more."""

from __future__ import annotations

from tests.campaigns import hostile


def test_hostile_input_is_accepted_or_refused_by_an_error_of_ours() -> None:
    assert hostile.run(seed=7, count=200) == 0
