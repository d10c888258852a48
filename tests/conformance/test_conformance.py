"""Every script means the same on every engine, whatever the size of its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ScriptError
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


@pytest.mark.product(3, by="script")
@pytest.mark.parametrize("batch", BATCHES)
def test_local_engine_meets_the_expectations(script: str, meant: ReplayResult, batch: int) -> None:
    result = replay_text(script, engine="local", batch=batch)
    assert result.failures == []
    assert result.lines == meant.lines


SLIDING = "the kernel 'wid' has modules for windows of a RANGE that slides"
SIZES = "query 'sums' runs on the kernel 'wid', whose modules have taken tuples in for the windows"
NOT_FOR_MODULES = {
    "aggregate-change-range": SIZES,
    "aggregate-change-range-larger": SIZES,
    "aggregate-change-rows": SLIDING,
    "aggregate-change-whole": SLIDING,
    "aggregate-dead-time": SLIDING,
    "aggregate-first-last-of-rows": SLIDING,
    "aggregate-install-mid-stream": SLIDING,
    "aggregate-joined": "the kernel 'wid' is for aggregates, and the query has none",
    "aggregate-of-a-join-at-end": SLIDING,
    "aggregate-punctuation-before-install": SLIDING,
    "aggregate-rows": SLIDING,
    "aggregate-rows-where": SLIDING,
}
"""Scripts of aggregates with a query that window modules refuse, and what they say."""
FOR_MODULES = [p for p in SCRIPTS if p.stem.startswith("aggregate-")]


@pytest.mark.parametrize("path", FOR_MODULES, ids=lambda path: path.stem)
def test_window_modules_meet_the_expectations(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    refused = NOT_FOR_MODULES.get(path.stem)
    if refused is not None:
        with pytest.raises(ScriptError, match=refused):
            replay_text(text, engine="local", batch=1000, kernel="wid")
        return
    meant = run_on_oracle(text)
    for batch in (1, 1000):
        result = replay_text(text, engine="local", batch=batch, kernel="wid")
        assert (result.failures, result.lines) == ([], meant.lines)


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
