"""Tuning constants: given to all threads for as long as a test needs them, by their names only."""

from __future__ import annotations

import ast
import inspect
import re
import threading
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from penstock import tuning
from penstock.errors import PenstockError
from penstock.tuning import TUNING, Tuning


def test_values_are_given_to_all_threads_until_the_end() -> None:
    seen = []
    with tuning.given(longest_tail=7, candidate_share=1):
        thread = threading.Thread(target=lambda: seen.append(TUNING.longest_tail))
        thread.start()
        thread.join()
        assert (TUNING.longest_tail, TUNING.candidate_share) == (7, 1.0)
        with tuning.given(longest_tail=3):
            assert (TUNING.longest_tail, TUNING.candidate_share) == (3, 1.0)
        assert TUNING.longest_tail == 7
    assert seen == [7]
    assert Tuning() == TUNING


def test_an_error_takes_the_values_back() -> None:
    with pytest.raises(ZeroDivisionError), tuning.given(longest_tail=7):
        raise ZeroDivisionError
    assert Tuning() == TUNING


@tuning.given(longest_tail=7)
def with_a_short_tail() -> int:
    return TUNING.longest_tail


def test_a_function_has_them_whenever_it_is_called() -> None:
    assert [with_a_short_tail(), TUNING.longest_tail, with_a_short_tail()] == [7, 1024, 7]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"longest_tails": 3},
            "there is no tuning constant 'longest_tails'\n"
            "Write longest_tail; penstock/tuning.py lists all.",
        ),
        (
            {"LONGEST_TAIL": 3},
            "there is no tuning constant 'LONGEST_TAIL'\npenstock/tuning.py lists all.",
        ),
        (
            {"longest_tail": 3.0},
            "the tuning constant longest_tail is a whole number, not 3.0\n"
            "Give a value like its default, 1024.",
        ),
        (
            {"longest_tail": True},
            "the tuning constant longest_tail is a whole number, not True\n"
            "Give a value like its default, 1024.",
        ),
        (
            {"candidate_share": "all"},
            "the tuning constant candidate_share is a number, not 'all'\n"
            "Give a value like its default, 0.25.",
        ),
    ],
)
def test_a_wrong_name_or_kind_is_an_error_and_gives_nothing(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(PenstockError) as caught, tuning.given(entries_in_cache=1, **values):
        pytest.fail("they were given")
    assert str(caught.value) == message
    assert Tuning() == TUNING


def test_nothing_else_changes_them() -> None:
    with pytest.raises(FrozenInstanceError):
        TUNING.longest_tail = 3  # type: ignore[misc]


def test_every_constant_is_explained_and_read() -> None:
    """A field without a line of explanation, or that no module reads, is a mistake."""
    (made,) = ast.parse(inspect.getsource(Tuning)).body
    assert isinstance(made, ast.ClassDef)
    explained = {
        one.target.id
        for one, after in zip(made.body, made.body[1:], strict=False)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }
    texts = [path.read_text() for path in Path(inspect.getfile(tuning)).parent.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bTUNING\.(\w+)", text)}
    assert explained == read == {field.name for field in fields(Tuning)}
