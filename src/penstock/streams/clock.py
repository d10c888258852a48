"""Dates and timestamps read and written as text, in whole units since 1970, for any year."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
_DATE = r"([+-]?\d{4,12})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{2}(?!:)|\d{1,2}(?=:))(?::(\d{2})(?::(\d{2})(?:\.(\d{1,12}))?)?)?"
_ZONE = r"\s*(Z|z|UTC|[+-]\d{2}(?::?\d{2}(?::\d{2})?)?)"
_MOMENT = re.compile(rf"\s*{_DATE}(?:[ Tt]{_TIME}(?:{_ZONE})?)?\s*", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d{2})(?::?(\d{2})(?::(\d{2}))?)?", re.ASCII)
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The inverse of :func:`days_from_civil`."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def parse_moment(text: str) -> tuple[int, int, int | None]:
    """Seconds since 1970, the picoseconds after them, and the zone's offset in seconds or None.

    With a zone, the seconds are UTC. Raises ValueError if the text is no date or time.

    >>> parse_moment("1970-01-02 00:00:00.5+02:00")
    (79200, 500000000000, 7200)
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no date or timestamp")
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_LENGTHS[month - 1] + leap:
        raise ValueError(f"{text!r} is no day of the calendar")
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is no time of day")
    seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second
    offset = None if match[8] is None else _offset_seconds(match[8])
    return seconds - (offset or 0), int((match[7] or "0").ljust(12, "0")), offset


def _offset_seconds(zone: str) -> int:
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return 0
    hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
    return (-1 if match[1] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)


def format_date(days: int) -> str:
    """A date as ``2024-01-31``; years have four digits or more."""
    year, month, day = civil_from_days(days)
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(units: int, kind: pa.TimestampType) -> str:
    """A timestamp as ``2024-01-31 12:00:00[.fff]``, with the offset if its type has a zone."""
    per_second = UNITS_PER_SECOND[kind.unit]
    seconds, rest = divmod(units, per_second)
    suffix = ""
    if kind.tz is not None:
        offset = offset_at(kind.tz, seconds)
        seconds += offset
        suffix = _format_offset(offset)
    days, of_day = divmod(seconds, DAY)
    fraction = ""
    if rest:
        fraction = "." + str(rest).rjust(len(str(per_second)) - 1, "0").rstrip("0")
    clock = f"{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}"
    return f"{format_date(days)} {clock}{fraction}{suffix}"


def _format_offset(offset: int) -> str:
    sign, size = ("-", -offset) if offset < 0 else ("+", offset)
    seconds = f":{size % 60:02d}" if size % 60 else ""
    return f"{sign}{size // 3600:02d}:{size // 60 % 60:02d}{seconds}"


def offset_at(zone: str, seconds: int) -> int:
    """The zone's offset from UTC at an instant, in seconds; 0 for years that no calendar covers."""
    try:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        offset = instant.astimezone(_zone(zone)).utcoffset()
    except (OverflowError, ValueError, ZoneInfoNotFoundError):
        return 0
    return 0 if offset is None else int(offset.total_seconds())


def is_zone(name: str) -> bool:
    """Whether the zone exists: a name of the IANA database, or an offset like ``+02:00``.

    >>> is_zone("Europe/Berlin"), is_zone("-0330"), is_zone("+24:00"), is_zone("Mars/X")
    (True, True, False, False)
    """
    if name[:1] in ("+", "-"):
        return re.fullmatch(r"[+-]([01]\d|2[0-3]):?[0-5]\d", name, re.ASCII) is not None
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _zone(name: str) -> tzinfo:
    if _OFFSET.fullmatch(name):
        return timezone(timedelta(seconds=_offset_seconds(name)))
    return ZoneInfo(name)
