"""Fields, truncation and arithmetic of dates and timestamps, by hand-written cases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.sql.expressions import Literal

INT32, INT64, STRING, DATE = pa.int32(), pa.int64(), pa.string(), pa.date32()
MICROS, NANOS, SECONDS = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s")
INTERVAL = pa.duration("us")
BERLIN = pa.timestamp("s", "Europe/Berlin")
SECOND, DAY = 1_000_000, 86_400_000_000


def seconds(text: str) -> int:
    """Seconds since 1970 of a clock reading in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("2024-02-29 23:59:58", {"year": 2024, "month": 2, "day": 29, "day_of_week": 5}),
        ("2024-02-29 23:59:58", {"hour": 23, "minute": 59, "second": 58}),
        ("1969-12-31 23:59:59", {"year": 1969, "month": 12, "day": 31, "day_of_week": 4}),
        ("1969-12-31 23:59:59", {"hour": 23, "minute": 59, "second": 59}),
        ("0001-01-01 00:00:00", {"year": 1, "month": 1, "day": 1, "day_of_week": 2}),
    ],
)
def test_fields(run: Any, text: str, fields: dict[str, int]) -> None:
    value = seconds(text)
    for op, expected in fields.items():
        # Half a second later is still the same second.
        column = (MICROS, [value * SECOND + 500_000, None])
        assert run(op, INT32, column) == ([expected, None], 0)
        assert run(op, INT32, (SECONDS, [value])) == ([expected], 0)
        date = (DATE, [value // 86400])
        on_date = 0 if op in ("hour", "minute", "second") else expected
        assert run(op, INT32, date) == ([on_date], 0)


def test_fields_are_read_in_the_zone(run: Any) -> None:
    # New Year in Berlin, before and after summer time began, and a fixed offset.
    column = (BERLIN, [seconds("2023-12-31 23:30"), seconds("2024-03-31 00:59:59")])
    assert run("year", INT32, column) == ([2024, 2024], 0)
    assert run("hour", INT32, column) == ([0, 1], 0)
    after = (BERLIN, [seconds("2024-03-31 01:00")])
    assert run("hour", INT32, after) == ([3], 0)
    fixed = (pa.timestamp("ms", "-03:30"), [0])
    assert run("hour", INT32, fixed) == ([20], 0)
    assert run("minute", INT32, fixed) == ([30], 0)


def test_a_year_that_does_not_fit_fails(run: Any) -> None:
    assert run("year", INT32, (SECONDS, [2**63 - 1, 0])) == ([None, 1970], 1)


def test_an_unknown_zone_is_an_error(run: Any) -> None:
    with pytest.raises(InputError) as caught:
        run("hour", INT32, (pa.timestamp("s", "Mars/Olympus"), [0]))
    assert str(caught.value) == (
        "unknown time zone 'Mars/Olympus'\n"
        "Write a name of the IANA database, such as 'Europe/Berlin', or an offset: '+02:00'."
    )


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("year", "2024-01-01 00:00"), ("quarter", "2024-04-01 00:00"),
        ("month", "2024-05-01 00:00"), ("week", "2024-05-13 00:00"), ("day", "2024-05-19 00:00"),
        ("hour", "2024-05-19 13:00"), ("minute", "2024-05-19 13:14"),
        ("SECOND", "2024-05-19 13:14:15"),
    ],
)  # fmt: skip
def test_date_trunc(run: Any, unit: str, expected: str) -> None:
    value = seconds("2024-05-19 13:14:15")  # a Sunday
    literal = Literal(unit, STRING)
    for kind, units in ((SECONDS, 1), (MICROS, SECOND), (NANOS, 10**9)):
        column = (kind, [value * units + units - 1, None])
        assert run("date_trunc", kind, literal, column) == ([seconds(expected) * units, None], 0)
    date = (DATE, [value // 86400])
    midnight = seconds(expected) // 86400 * 86400 * SECOND
    assert run("date_trunc", MICROS, literal, date) == ([midnight], 0)


def test_date_trunc_before_1970_goes_down(run: Any) -> None:
    column = (MICROS, [-1])
    assert run("date_trunc", MICROS, Literal("second", STRING), column) == ([-SECOND], 0)
    assert run("date_trunc", MICROS, Literal("day", STRING), column) == ([-DAY], 0)
    assert run("date_trunc", MICROS, Literal("day", STRING), (MICROS, [-(2**63)])) == ([None], 1)
    assert run("date_trunc", MICROS, Literal("hour", STRING), (MICROS, [-(2**63)])) == ([None], 1)


def test_date_trunc_in_a_zone(run: Any) -> None:
    def truncated(unit: str, zone: str, instant: str) -> int:
        kind = pa.timestamp("s", zone)
        values, failures = run(
            "date_trunc", kind, Literal(unit, STRING), (kind, [seconds(instant)])
        )
        assert failures == 0
        return int(values[0])

    assert truncated("day", "Europe/Berlin", "2024-07-01 21:59") == seconds("2024-06-30 22:00")
    assert truncated("month", "Europe/Berlin", "2024-11-15 12:00") == seconds("2024-10-31 23:00")
    # 02:30 comes twice on this day; each is cut to its own 02:00.
    assert truncated("hour", "Europe/Berlin", "2024-10-27 00:30") == seconds("2024-10-27 00:00")
    assert truncated("hour", "Europe/Berlin", "2024-10-27 01:30") == seconds("2024-10-27 01:00")
    # Half past five in India is a whole hour in UTC.
    assert truncated("hour", "Asia/Kolkata", "2024-01-01 00:10") == seconds("2023-12-31 23:30")
    # On Lord Howe clocks went from 02:00 to 02:30, so that 02:45 has no hour to begin.
    zone = "Australia/Lord_Howe"
    assert truncated("hour", zone, "2024-10-05 15:45") == seconds("2024-10-05 15:30")
    # Havana has two midnights on this day, and none on that: clocks go from 00:00 to 01:00.
    assert truncated("day", "America/Havana", "2024-11-03 18:00") == seconds("2024-11-03 04:00")
    assert truncated("day", "America/Havana", "2024-03-10 18:00") == seconds("2024-03-10 05:00")


def test_add_duration_makes_the_unit_finer(run: Any) -> None:
    times, lengths = (SECONDS, [10, 10, None]), (INTERVAL, [1, -SECOND, 1])
    expected = [10 * SECOND + 1, 9 * SECOND, None]
    assert run("add_duration", MICROS, times, lengths) == (expected, 0)
    assert run("add_duration", SECONDS, times, Literal(SECOND, INTERVAL)) == ([11, 11, None], 0)
    assert run("add_duration", NANOS, (NANOS, [5]), Literal(1, INTERVAL)) == ([1005], 0)


def test_add_duration_fails_where_it_does_not_fit(run: Any) -> None:
    last = (MICROS, [2**63 - 1, 0])
    assert run("add_duration", MICROS, last, Literal(1, INTERVAL)) == ([None, 1], 1)
    assert run("add_duration", NANOS, (NANOS, [0]), Literal(2**62, INTERVAL)) == ([None], 1)
    assert run("add_duration", MICROS, (SECONDS, [2**62]), Literal(0, INTERVAL)) == ([None], 1)


def test_add_days(run: Any) -> None:
    dates, days = (DATE, [0, 2**31 - 1, None]), (INT32, [-3, 1, 1])
    assert run("add_days", DATE, dates, days) == ([-3, None, None], 1)


def test_add_months_cuts_the_day(run: Any) -> None:
    dates = (DATE, [seconds(text) // 86400 for text in ("2024-01-31", "2023-01-31", "2024-03-31")])
    expected = [seconds(text) // 86400 for text in ("2024-02-29", "2023-02-28", "2024-02-29")]
    assert run("add_months", DATE, dates, (INT32, [1, 1, -1])) == (expected, 0)
    last = (DATE, [2**31 - 1, -(2**31)])
    assert run("add_months", DATE, last, (INT32, [1, -1])) == ([None, None], 2)


def test_add_months_keeps_the_time_of_day(run: Any) -> None:
    start = seconds("1968-02-29 23:59:59") * SECOND + 7
    end = seconds("1967-02-28 23:59:59") * SECOND + 7
    assert run("add_months", MICROS, (MICROS, [start]), (INT32, [-12])) == ([end], 0)
    assert run("add_months", MICROS, (MICROS, [2**63 - 1]), (INT32, [1])) == ([None], 1)


def test_differences_of_times(run: Any) -> None:
    dates = (DATE, [1, 2**31 - 1]), (DATE, [3, -(2**31)])
    assert run("sub_times", INTERVAL, *dates) == ([-2 * DAY, None], 1)
    assert run("sub_times", INTERVAL, (SECONDS, [5]), (SECONDS, [3])) == ([2 * SECOND], 0)
    assert run("sub_times", INTERVAL, (NANOS, [0, 1500]), (NANOS, [1, 0])) == ([-1, 1], 0)
    ends = (NANOS, [2**63 - 1]), (NANOS, [-(2**63)])
    assert run("sub_times", INTERVAL, *ends) == ([(2**64 - 1) // 1000], 0)
    ends = (MICROS, [2**63 - 1]), (MICROS, [-1])
    assert run("sub_times", INTERVAL, *ends) == ([None], 1)


def test_intervals_are_integers(run: Any) -> None:
    lengths = (INTERVAL, [2**63 - 1, 5, None])
    assert run("add", INTERVAL, lengths, Literal(1, INTERVAL)) == ([None, 6, None], 1)
    assert run("mul", INTERVAL, lengths, (INT64, [2, -2, 2])) == ([None, -10, None], 1)
    assert run("abs", INTERVAL, (INTERVAL, [-5])) == ([5], 0)
    assert run("lt", pa.bool_(), lengths, Literal(6, INTERVAL)) == ([False, True, None], 0)


def test_a_difference_of_nanoseconds_is_rounded_down_once(run: Any) -> None:
    low, high = -(2**63), 2**63 - 1
    pairs = [(high, low), (low, high), (high, -1), (1_999, 2_000), (0, low), (None, low)]
    left, right = (NANOS, [a for a, _ in pairs]), (NANOS, [b for _, b in pairs])
    expected = [None if a is None else (a - b) // 1000 for a, b in pairs]
    assert run("sub_times", INTERVAL, left, right) == (expected, 0)


def test_a_difference_of_seconds_may_not_fit(run: Any) -> None:
    left, right = (SECONDS, [2**63 - 1, 2**62, 7]), (SECONDS, [-1, 0, 5])
    assert run("sub_times", INTERVAL, left, right) == ([None, None, 2 * SECOND], 2)
