"""Every script means the same on every engine, whatever the size of its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.testing import ReplayResult, replay_text, run_on_oracle

SCRIPTS = sorted(Path(__file__).parent.glob("*.flow"))
BATCHES = (1, 2, 3, 7, 1000)


@pytest.fixture(scope="module", params=SCRIPTS, ids=lambda path: path.stem)
def script(request: pytest.FixtureRequest) -> str:
    path: Path = request.param
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def meant(script: str) -> ReplayResult:
    """What the oracle makes of the script."""
    return run_on_oracle(script)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 40


def test_oracle_meets_the_expectations(meant: ReplayResult) -> None:
    assert meant.failures == []
    assert meant.lines


@pytest.mark.parametrize("batch", BATCHES)
def test_local_engine_meets_the_expectations(script: str, meant: ReplayResult, batch: int) -> None:
    result = replay_text(script, engine="local", batch=batch)
    assert result.failures == []
    assert result.lines == meant.lines


def test_script_expects_something_and_ends(script: str) -> None:
    lines = script.splitlines()
    assert lines[0].startswith("# "), "the first line says what the script shows"
    assert any(line.startswith("expect ") for line in lines)
    assert "end" in lines, "a script ends its streams, so that what waits comes out"


def test_a_wrong_expectation_fails() -> None:
    """The scripts can fail: on both, one row too many is told."""
    wrong = (
        "stream R (id int64)\n"
        "install q: SELECT id FROM R\n"
        "R: 1\n"
        "expect q: 1; 2\n"
        "end\n"
    )  # fmt: skip
    assert len(run_on_oracle(wrong).failures) == 1
    assert len(replay_text(wrong, engine="local", batch=1).failures) == 1
