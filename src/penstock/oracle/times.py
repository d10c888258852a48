"""Calendar and time zones for the date and timestamp functions.

A *clock reading* is the number of nanoseconds since 1970-01-01 00:00 that a clock in the zone
shows. The calendar is Gregorian for all years, also before 1582 and after 9999.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.oracle.arithmetic import Failure
from penstock.oracle.values import Type

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
NANOSECONDS = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
FOUR_CENTURIES = 146_097  # in days: the period of the calendar
EPOCH = datetime(1970, 1, 1)


def civil(days: int) -> tuple[int, int, int]:
    """The year, month and day of a number of days since 1970-01-01.

    >>> civil(0), civil(-1), civil(19_782)
    ((1970, 1, 1), (1969, 12, 31), (2024, 2, 29))
    """
    cycles, rest = divmod(days, FOUR_CENTURIES)
    day = EPOCH + timedelta(days=rest)
    return day.year + 400 * cycles, day.month, day.day


def days_of(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date; a date that does not exist fails.

    >>> days_of(2024, 2, 29), days_of(-1, 12, 31)
    (19782, -719529)
    """
    cycles = (year - 1970) // 400
    try:
        return (datetime(year - 400 * cycles, month, day) - EPOCH).days + cycles * FOUR_CENTURIES
    except ValueError:
        raise Failure from None


def last_day(year: int, month: int) -> int:
    """The number of days of a month."""
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return days_of(*following, 1) - days_of(year, month, 1)


def zone_of(name: str) -> tzinfo:
    """The zone with this Arrow name: a name of the IANA database or a fixed offset."""
    fixed = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if fixed:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-offset if fixed[1] == "-" else offset)
    return UTC if name == "UTC" else ZoneInfo(name)


def _within_datetime(nanoseconds: int) -> datetime:
    """The datetime of a count, shifted by multiples of 400 years into Python's range."""
    days = nanoseconds // DAY
    if not days_of(2, 1, 1) <= days < days_of(9999, 1, 1):
        near = days_of(9170 if days > 0 else 370, 1, 1)
        nanoseconds += (near + days % FOUR_CENTURIES - days) * DAY
    return EPOCH + timedelta(seconds=nanoseconds // SECOND)


def offset_at(instant: int, zone: str | None) -> int:
    """The zone's offset from UTC at an instant, in nanoseconds."""
    if zone is None:
        return 0
    offset = _within_datetime(instant).replace(tzinfo=UTC).astimezone(zone_of(zone)).utcoffset()
    assert offset is not None
    return round(offset.total_seconds()) * SECOND


def instant_of(clock: int, zone: str | None) -> int:
    """The instant at which a zone's clocks show ``clock``.

    If they show it twice, the first; if they skip it, as though they had not been put forward.
    """
    if zone is None:
        return clock
    offset = _within_datetime(clock).replace(tzinfo=zone_of(zone), fold=0).utcoffset()
    assert offset is not None
    return clock - round(offset.total_seconds()) * SECOND


def clock_of(value: int, kind: Type) -> int:
    """The clock reading of a date (midnight) or a timestamp (in its zone)."""
    if pa.types.is_date32(kind):
        return value * DAY
    instant = value * NANOSECONDS[kind.unit]
    return instant + offset_at(instant, kind.tz)


def truncated(clock: int, unit: str) -> int:
    """A clock reading truncated to its year, quarter, month, week, day, hour, …"""
    if unit in ("hour", "minute", "second"):
        return clock - clock % ({"hour": 3600, "minute": 60, "second": 1}[unit] * SECOND)
    days = clock // DAY
    year, month, _ = civil(days)
    if unit == "year":
        days = days_of(year, 1, 1)
    elif unit == "quarter":
        days = days_of(year, (month - 1) // 3 * 3 + 1, 1)
    elif unit == "month":
        days = days_of(year, month, 1)
    elif unit == "week":
        days -= (days + 3) % 7  # 1970-01-01 was a Thursday
    return days * DAY


def date_trunc(value: int, kind: Type, unit: str) -> int:
    """The start of the unit that ``value`` falls into, as an instant in nanoseconds."""
    clock = clock_of(value, kind)
    start = truncated(clock, unit)
    if pa.types.is_date32(kind):
        return start
    instant = value * NANOSECONDS[kind.unit]
    offset = clock - instant
    if unit in ("hour", "minute", "second") and offset_at(start - offset, kind.tz) == offset:
        # An hour that the clocks repeat is two hours.
        return start - offset
    return instant_of(start, kind.tz)


def date_text(days: int) -> str:
    """A date as text: ``2024-01-31``; years above 9999 and below 0 have a sign."""
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def timestamp_text(value: int, kind: Type) -> str:
    """A timestamp as text: ``2024-01-31 12:00:00.5+02:00``.

    >>> timestamp_text(1_500, pa.timestamp("ms", "Europe/Berlin"))
    '1970-01-01 01:00:01.5+01:00'
    """
    instant = value * NANOSECONDS[kind.unit]
    offset = offset_at(instant, kind.tz)
    days, rest = divmod(instant + offset, DAY)
    seconds, fraction = divmod(rest, SECOND)
    text = f"{date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        text += "." + f"{fraction:09d}".rstrip("0")
    if kind.tz is None:
        return text
    sign, ahead = "-" if offset < 0 else "+", abs(offset) // SECOND
    text += f"{sign}{ahead // 3600:02d}:{ahead // 60 % 60:02d}"
    return text + (f":{ahead % 60:02d}" if ahead % 60 else "")


DATE = re.compile(r"([+-]?\d{4,12})-(\d\d)-(\d\d)", re.ASCII)
TIME = re.compile(
    r"(?P<date>[+-]?\d{4,12}-\d\d-\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<zh>\d\d):(?P<zm>\d\d)(?::(?P<zs>\d\d))?)?)?",
    re.ASCII,
)


def read_date(text: str) -> int:
    """The days of a date in text; any other text fails."""
    match = DATE.fullmatch(text)
    if match is None:
        raise Failure
    return days_of(int(match[1]), int(match[2]), int(match[3]))


def read_timestamp(text: str, kind: Type) -> int:
    """The units of a timestamp in text, finer fractions rounded down; any other text fails.

    A text without an offset is UTC. A text with an offset needs a type with a zone.
    """
    match = TIME.fullmatch(text)
    if match is None or (match["zone"] and kind.tz is None):
        raise Failure
    nanoseconds = read_date(match["date"]) * DAY
    if match["hour"]:
        hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
        if hour > 23 or minute > 59 or second > 59:
            raise Failure
        fraction = int(((match["fraction"] or "") + "0" * 9)[:9])
        nanoseconds += (hour * 3600 + minute * 60 + second) * SECOND + fraction
    if match["sign"]:
        ahead = int(match["zh"]) * 3600 + int(match["zm"]) * 60 + int(match["zs"] or 0)
        if int(match["zh"]) > 23 or int(match["zm"]) > 59 or int(match["zs"] or 0) > 59:
            raise Failure
        nanoseconds -= ahead * SECOND * (-1 if match["sign"] == "-" else 1)
    return nanoseconds // NANOSECONDS[kind.unit]
