"""Time zones: how far clocks in a zone are ahead of UTC. Read through ``zoneinfo``, so that no
database is needed on the machine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from penstock.errors import InputError
from penstock.kernels.vector import Numbers

DAY = 86_400
CYCLE = 146_097 * DAY
"""The calendar, weekdays included, repeats every 400 years, and so do the rules of a zone."""
EARLIEST = -62_104_060_800
LATEST = 221_845_392_000
"""Years 2 and 9000, well within what ``datetime`` can do."""


@lru_cache(maxsize=256)
def zone_named(name: str) -> ZoneInfo | int:
    """A zone, or the seconds that a fixed offset such as ``+02:00`` is ahead."""
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
    """The seconds that clocks are ahead of UTC at instants given in seconds since 1970."""
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
    """The instants at which clocks show ``readings`` (both in seconds): of two the earlier; for a
    reading that is skipped, the one they would show it at had they not been moved.
    """
    zone = 0 if name is None else zone_named(name)
    if isinstance(zone, int):
        return readings - zone
    distinct, places = np.unique(readings, return_inverse=True)
    found = [reading - _offset_of_reading(zone, reading) for reading in distinct.tolist()]
    return np.array(found, np.int64)[places] if found else readings


def _within(seconds: int) -> int:
    """An instant with the same offset in the years that ``datetime`` has."""
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
