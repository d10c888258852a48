"""Dates, timestamps and intervals, with the results written as the clock shows them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.oracle.casts import cast
from penstock.oracle.evaluate import Failures, evaluate
from penstock.sql.expressions import Call, Literal

I32, TEXT, DATE, INTERVAL = pa.int32(), pa.string(), pa.date32(), pa.duration("us")
US, NS, SECONDS = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s")
BERLIN, UTC = pa.timestamp("s", "Europe/Berlin"), pa.timestamp("us", "UTC")


def at(text: str, kind: pa.DataType) -> Literal:
    return Literal(cast(text, TEXT, kind), kind)


def run(op: str, *args: Literal, result: pa.DataType) -> object:
    return evaluate(Call(op, args, result), (), Failures())


def shown(op: str, *args: Literal, result: pa.DataType) -> object:
    return cast(run(op, *args, result=result), result, TEXT)


PARTS = ("year", "month", "day", "hour", "minute", "second", "day_of_week")


@pytest.mark.parametrize(
    ("time", "parts"),
    [
        (at("2024-02-29 23:59:58.999999", US), (2024, 2, 29, 23, 59, 58, 5)),
        (at("1969-12-31 23:59:59.5", US), (1969, 12, 31, 23, 59, 59, 4)),
        (at("1900-03-01", DATE), (1900, 3, 1, 0, 0, 0, 5)),
        (at("0000-12-31 00:00:01", SECONDS), (0, 12, 31, 0, 0, 1, 1)),
        (at("2024-07-01 22:30:00Z", BERLIN), (2024, 7, 2, 0, 30, 0, 3)),
        (at("2024-01-01 23:30:00Z", BERLIN), (2024, 1, 2, 0, 30, 0, 3)),
        (at("12024-07-01 22:30:00Z", BERLIN), (12024, 7, 2, 0, 30, 0, 3)),
    ],
)
def test_parts_of_a_time(time: Literal, parts: tuple[int, ...]) -> None:
    assert tuple(run(op, time, result=I32) for op in PARTS) == parts


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("year", "2024-01-01 00:00:00"),
        ("quarter", "2024-04-01 00:00:00"),
        ("month", "2024-05-01 00:00:00"),
        ("week", "2024-05-13 00:00:00"),
        ("day", "2024-05-17 00:00:00"),
        ("hour", "2024-05-17 12:00:00"),
        ("minute", "2024-05-17 12:34:00"),
        ("second", "2024-05-17 12:34:56"),
    ],
)
def test_date_trunc(unit: str, expected: str) -> None:
    time = at("2024-05-17 12:34:56.789", US)
    assert shown("date_trunc", Literal(unit, TEXT), time, result=US) == expected


def test_date_trunc_of_a_date_is_a_timestamp() -> None:
    day = at("2024-05-19", DATE)  # a Sunday
    assert shown("date_trunc", Literal("week", TEXT), day, result=US) == "2024-05-13 00:00:00"


def test_date_trunc_before_1970_goes_down() -> None:
    time = at("1969-12-31 23:59:59.5", US)
    assert shown("date_trunc", Literal("second", TEXT), time, result=US) == "1969-12-31 23:59:59"


def test_date_trunc_follows_the_zone() -> None:
    def start(unit: str, text: str) -> object:
        return shown("date_trunc", Literal(unit, TEXT), at(text, BERLIN), result=BERLIN)

    assert start("day", "2024-03-31 20:00:00+02:00") == "2024-03-31 00:00:00+01:00"
    # The clocks show 02:30 twice that night; each is in an hour of its own.
    assert start("hour", "2024-10-27 00:30:00Z") == "2024-10-27 02:00:00+02:00"
    assert start("hour", "2024-10-27 01:30:00Z") == "2024-10-27 02:00:00+01:00"


def test_add_duration_to_the_unit_of_its_result() -> None:
    time = at("2024-01-01 00:00:00", SECONDS)
    half = Literal(500_000, INTERVAL)
    assert shown("add_duration", time, half, result=US) == "2024-01-01 00:00:00.5"
    back = Literal(-60_000_000, INTERVAL)
    assert shown("add_duration", time, back, result=SECONDS) == "2023-12-31 23:59:00"
    last = Literal(2**63 - 1, NS)
    assert run("add_duration", last, Literal(1, INTERVAL), result=NS) is None


def test_add_days_and_months() -> None:
    day = at("2024-01-31", DATE)
    assert shown("add_days", day, Literal(30, I32), result=DATE) == "2024-03-01"
    assert shown("add_months", day, Literal(1, I32), result=DATE) == "2024-02-29"
    assert shown("add_months", day, Literal(-2, I32), result=DATE) == "2023-11-30"
    assert shown("add_months", day, Literal(12, I32), result=DATE) == "2025-01-31"
    time = at("2024-01-31 10:00:00.5", US)
    assert shown("add_months", time, Literal(13, I32), result=US) == "2025-02-28 10:00:00.5"
    assert run("add_days", Literal(2**31 - 1, DATE), Literal(1, I32), result=DATE) is None


def test_sub_times() -> None:
    assert run("sub_times", at("1970-01-03", DATE), at("1970-01-01", DATE), result=INTERVAL) == (
        2 * 86_400_000_000
    )
    one, other = Literal(1_500, NS), Literal(3_001, NS)
    assert run("sub_times", one, other, result=INTERVAL) == -2
    far = Literal(2**62, SECONDS)
    assert run("sub_times", far, Literal(0, SECONDS), result=INTERVAL) is None


def test_a_year_that_does_not_fit_fails_once() -> None:
    failures = Failures()
    year = Call("year", (Literal(2**62, SECONDS),), I32)
    assert evaluate(year, (), failures) is None
    assert failures.count == 1
