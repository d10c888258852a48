"""The walk of data through the files of the package."""

from __future__ import annotations

import pytest
from bench import walk


def test_crossings_are_calls_in_another_file_than_the_one_before() -> None:
    found = walk.Walk(("a", "a", "b", "a"))
    assert (found.files, found.crossings) == (["a", "b"], 2)


def test_calls_of_the_package_are_noted_and_no_others() -> None:
    def step() -> None:
        walk.ps.errors.named("query", "q")
        sorted([2, 1], key=lambda one: -one)

    assert walk.walk(step).calls == ("errors.py",)


def test_every_step_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    walk.main([])
    lines = capsys.readouterr().out.splitlines()
    steps = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert steps == [
        "install",
        "push 2,000 tuples",
        "take the rows",
        "push 2,000 tuples, later",
        "change",
        "push one tuple",
        "end",
    ]
    assert all(int(line.split(" | ")[1]) for line in lines[2:])
