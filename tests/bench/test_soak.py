"""A short soak run; and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.soak import bounded, conserved, growth, main

METRICS: dict[str, Any] = {
    "window_tuples": [3, 4],
    "expired_tuples": [10, 20],
    "shed": {"R": 5},
    "late": 2,
    "dead_letters": 1,
}


@pytest.mark.long
def test_five_seconds_at_full_load(tmp_path: Path) -> None:
    main(["--seconds", "5", "--flow", "splitjoin", "--out", str(tmp_path / "soak.json")])
    found = json.loads((tmp_path / "soak.json").read_text())["soak"]
    assert found["checks"] >= 1
    assert found["rows"] > 0
    assert found["rows_lost"] == 0
    assert min(found["late"], found["dead_letters"], *found["shed"].values()) > 0


def test_every_tuple_is_somewhere() -> None:
    conserved(METRICS, 45)
    with pytest.raises(AssertionError) as error:
        conserved(METRICS, 46)
    assert str(error.value) == (
        "46 tuples came in, but there are "
        "{'live': 7, 'expired': 30, 'shed': 5, 'late': 2, 'dead': 1}"
    )


def test_windows_hold_no_more_than_they_should() -> None:
    bounded([98_304, 131_072])
    with pytest.raises(AssertionError) as error:
        bounded([98_305, 0])
    said = "the windows hold [98305, 0] tuples, but should at most [98304, 131072]"
    assert str(error.value) == said


def test_growth_is_that_since_the_second_minute() -> None:
    assert growth([50, 100, 90, 110]) == pytest.approx(1.1)
    assert growth([50, 100]) is None
