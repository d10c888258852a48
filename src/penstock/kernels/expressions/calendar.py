"""Days, months, units and time zones of dates and timestamps.

Zones are read through ``zoneinfo``, so that the machine needs no database of its own.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from penstock.errors import InputError
from penstock.kernels.expressions import integers
from penstock.kernels.expressions.vector import Numbers, Vector

DAY = 86_400
CYCLE = 146_097 * DAY
"""The calendar, weekdays included, repeats every 400 years, and so do the rules of a zone."""
EARLIEST = -62_104_060_800
LATEST = 221_845_392_000
"""Years 2 and 9000, well within what ``datetime`` can do."""


@lru_cache(maxsize=256)
def zone_named(name: str) -> ZoneInfo | int:
    """A zone, or the seconds of a fixed offset such as ``+02:00``."""
    if name in ("UTC", "Z"):
        return 0
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if match:
        seconds = int(match[2]) * 3600 + int(match[3]) * 60
        return -seconds if match[1] == "-" else seconds
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(
            f"unknown time zone {name!r}",
            "Write a name of the IANA database, such as 'Europe/Berlin', or an offset: '+02:00'.",
        ) from error


def offsets(seconds: Numbers, name: str | None) -> Numbers:
    """The UTC offsets, in seconds, at instants given in seconds since 1970."""
    zone = 0 if name is None else zone_named(name)
    if isinstance(zone, int):
        return np.broadcast_to(np.int64(zone), seconds.shape)
    days, places = np.unique(seconds // DAY, return_inverse=True)
    morning = np.array([_offset(zone, day * DAY) for day in days.tolist()], np.int64)
    evening = np.array([_offset(zone, day * DAY + DAY - 1) for day in days.tolist()], np.int64)
    result = morning[places] if len(days) else np.zeros(0, np.int64)
    for row in np.flatnonzero((morning != evening)[places]) if len(days) else ():
        result[row] = _offset(zone, int(seconds[row]))
    return result


def instants(readings: Numbers, name: str | None) -> Numbers:
    """The instants at which clocks show ``readings`` (both in seconds).

    Of two instants the earlier; for a reading that is skipped, that of the offset before the skip.
    """
    zone = 0 if name is None else zone_named(name)
    if isinstance(zone, int):
        return readings - zone
    distinct, places = np.unique(readings, return_inverse=True)
    found = [reading - _offset_of_reading(zone, reading) for reading in distinct.tolist()]
    return np.array(found, np.int64)[places] if found else readings


def _within(seconds: int) -> int:
    """An instant with the same offset, in the years that ``datetime`` supports."""
    if seconds > LATEST:
        return LATEST + (seconds - LATEST) % CYCLE
    return max(seconds, EARLIEST)


def _offset(zone: ZoneInfo, seconds: int) -> int:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_within(seconds))
    return _whole_seconds(instant.astimezone(zone).utcoffset())


def _offset_of_reading(zone: ZoneInfo, reading: int) -> int:
    clock = datetime(1970, 1, 1) + timedelta(seconds=_within(reading))
    return _whole_seconds(clock.replace(tzinfo=zone, fold=0).utcoffset())


def _whole_seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset.days * DAY + offset.seconds


PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def units_per_second(kind: Any) -> int:
    """The units per second of a timestamp or interval type."""
    return PER_SECOND[kind.unit]


def in_units(values: Numbers, units: int, new_units: int) -> integers.Checked:
    """Times counted in other units per second; coarser ones round down."""
    if new_units >= units:
        return integers.scale_up(values, new_units // units)
    return values // (units // new_units), None


def zone_of(kind: pa.DataType) -> str | None:
    """The zone of a timestamp, if it has one."""
    return kind.tz if pa.types.is_timestamp(kind) else None


def months_of_days(days: Numbers) -> Numbers:
    """Months since January 1970 that days since 1970-01-01 fall in."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def days_of_months(months: Numbers) -> Numbers:
    """The first day of each month."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def dates_of_days(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Year, month and day."""
    months = months_of_days(days)
    return months // 12 + 1970, months % 12 + 1, days - days_of_months(months) + 1


def days_of_date(year: int, month: int, day: int) -> int | None:
    """The days since 1970-01-01 of a date of the calendar; None if there is no such day.

    >>> days_of_date(1970, 1, 1), days_of_date(2024, 2, 29), days_of_date(2023, 2, 29)
    (0, 19782, None)
    """
    if not 1 <= month <= 12:
        return None
    months = np.array([(year - 1970) * 12 + month - 1, (year - 1970) * 12 + month])
    first, end = days_of_months(months).tolist()
    return first + day - 1 if 1 <= day <= end - first else None


def readings(vector: Vector) -> tuple[Numbers, Numbers]:
    """Local date and time in the vector's zone: days, and seconds of the day."""
    if pa.types.is_date32(vector.type):
        return vector.values.astype(np.int64), np.broadcast_to(np.int64(0), (len(vector),))
    seconds = vector.values // units_per_second(vector.type)
    zone = zone_of(vector.type)
    if zone is not None:
        seconds = seconds + offsets(seconds, zone)
    days = seconds // DAY
    return days, seconds - days * DAY
