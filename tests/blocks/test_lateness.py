"""The letters of late tuples."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import penstock as ps
from penstock.blocks import lateness


def joined(kind: str, size: str) -> tuple[ps.Engine, ps.Query]:
    engine = ps.connect("local")
    for name in "rs":
        engine.sql(f"CREATE STREAM {name} (t {kind}, x BIGINT)")
    clause = f"[RANGE {size} WATTR t SLACK 0]"
    text = f"SELECT r.x FROM r {clause} AS r JOIN s {clause} AS s ON r.x = s.x"
    return engine, engine.install(text)


def reasons(query: ps.Query) -> list[Any]:
    return query.late().column("reason").to_pylist()


@pytest.mark.parametrize(
    ("kind", "size", "times", "first", "second"),
    [
        ("BIGINT", "5", [10, 3, 20, 4, 4], "t = 3 is before the punctuation 10", "20"),
        ("DOUBLE", "5", [9.5, 3, 20, 4, 4], "t = 3.0 is before the punctuation 9.5", "20.0"),
        (
            "DATE",
            "5 DAYS",
            [datetime.date(2024, 1, day) for day in (10, 3, 20, 4, 4)],
            "t = DATE '2024-01-03' is before the punctuation DATE '2024-01-10'",
            "DATE '2024-01-20'",
        ),
    ],
)
def test_a_letter_has_the_punctuation_that_its_tuple_is_before(
    kind: str, size: str, times: list[Any], first: str, second: str
) -> None:
    engine, query = joined(kind, size)
    engine.push("r", [{"t": time, "x": 1} for time in times])
    found = reasons(query)
    assert found[0] == first
    assert [reason.rpartition(" punctuation ")[2] for reason in found[1:]] == [second, second]


def test_a_letter_says_that_the_stream_has_passed_all_times() -> None:
    engine, query = joined("DOUBLE", "5")
    engine.punctuate("r", float("inf"), "t")
    engine.push("r", [{"t": 1.5, "x": 1}])
    assert reasons(query) == ["t = 1.5 is before the punctuation at its end"]


def test_the_letters_of_a_batch_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, format_array = [0], lateness.format_array

    def noted(array: Any) -> list[str]:
        calls[0] += 1
        return format_array(array)

    monkeypatch.setattr(lateness, "format_array", noted)
    engine, query = joined("BIGINT", "5")
    engine.push("r", [{"t": i - i % 2 * 9, "x": 1} for i in range(400)])
    assert len(reasons(query)) == 200
    assert calls[0] <= 4
