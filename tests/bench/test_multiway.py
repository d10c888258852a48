"""A short run of the benchmark of joins of three and more streams; and its errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bench import multiway


@pytest.mark.long
def test_all_of_it_runs() -> None:
    found = multiway.run(quick=True)
    assert all(found["rows_checked"].values())
    told = [(entry["streams"], round(entry["probes_per_arrival"], 1)) for entry in found["chains"]]
    assert told == [(3, 1.2), (6, 1.0), (6, 1.2), (6, 17.0), (3, 1.2)]
    assert found["chains"][-1]["kernels"] == [("nested-loop",) * 3]
    for entry in (*found["beside_cascade"], *found["star"]):
        assert entry["rows_checked"] > 0
        assert entry["one"]["state_bytes"] > 0 and entry["cascade"]["state_bytes"] > 0
        shares = entry["one"]["punctuation_share"], entry["cascade"]["punctuation_share"]
        assert 0 <= shares[0] < shares[1] < 1
    for entry in found["beside_mjoin"]:
        named = [(one["design"], one["cores"]) for one in entry["designs"]]
        assert named == list(multiway.CONTENDERS)
        assert entry["designs"][0]["ratio"] == 1
        assert entry["two_threads"] > 0
    for entry in found["single_pushes"]:
        assert 0 < entry["p50_us"] <= entry["p99_us"]


def test_a_design_with_other_rows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    contenders = (("mjoin", 1), ("parallel-as-published", 2))
    monkeypatch.setattr(multiway, "CONTENDERS", contenders)
    with pytest.raises(AssertionError) as error:
        multiway.beside_mjoin(multiway.Workload(3, 0.01, 256, 4096), 1, 1)
    assert re.fullmatch(
        r"the designs have different numbers of rows: \[\d+, \d+\]", str(error.value)
    )


def test_other_rows_than_a_plain_search_has_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiway, "plain_rows", lambda *_: [(1, 2, 3)])
    with pytest.raises(AssertionError) as error:
        multiway.check(3, "v")
    assert str(error.value) == "3-way, v = k, None: other rows than expected"


def test_a_cascade_with_other_rows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    same = multiway.cascade

    def shorter(streams: int, size: int, left: str, shown: str) -> list[str]:
        return same(streams, size // 2, left, shown)

    monkeypatch.setattr(multiway, "cascade", shorter)
    with pytest.raises(AssertionError) as error:
        multiway.beside_cascade(multiway.Timed(3, "v", 300, 20, 1), 100, 1)
    assert str(error.value) == "3-way, v = k: the cascade has other rows"


def test_probes_of_an_arrival_grow_with_the_match_probability() -> None:
    loads: list[Any] = [multiway.Workload(6, mp) for mp in (1e-6, 1e-5, 1e-4)]
    assert [round(load.probes, 1) for load in loads] == [1.0, 1.2, 16.9]


def test_timing_punctuations_leaves_joins_as_they_were() -> None:
    before = vars(multiway.OutputPunctuations).copy()
    with pytest.raises(ZeroDivisionError), multiway.timed_punctuations() as seconds:
        assert vars(multiway.OutputPunctuations) != before
        assert not seconds
        raise ZeroDivisionError
    assert vars(multiway.OutputPunctuations) == before
