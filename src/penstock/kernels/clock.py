"""Days, months and units: what dates and timestamps are counted in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.vector import Numbers, Vector
from penstock.kernels.zones import DAY, offsets

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def units_per_second(kind: Any) -> int:
    """How many units of a timestamp or interval make a second."""
    return PER_SECOND[kind.unit]


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
    """What calendar and clock show in the vector's zone: days, and seconds of the day."""
    if pa.types.is_date32(vector.type):
        return vector.values.astype(np.int64), np.broadcast_to(np.int64(0), (len(vector),))
    seconds = vector.values // units_per_second(vector.type)
    zone = zone_of(vector.type)
    if zone is not None:
        seconds = seconds + offsets(seconds, zone)
    days = seconds // DAY
    return days, seconds - days * DAY
