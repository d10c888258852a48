"""The fields of dates and timestamps, and DATE_TRUNC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.kernels import integers
from penstock.kernels.clock import (
    dates_of_days,
    days_of_months,
    months_of_days,
    readings,
    units_per_second,
    zone_of,
)
from penstock.kernels.context import Context, Operation
from penstock.kernels.ops_text import constant_of
from penstock.kernels.vector import Numbers, Vector
from penstock.kernels.zones import DAY, instants, offsets
from penstock.sql.expressions import Call

CLOCK_UNITS = {"hour": 3600, "minute": 60, "second": 1}
MONTHS_IN = {"year": 12, "quarter": 3, "month": 1}
MONDAY = 4
"""1970-01-05, the first Monday, as days since 1970-01-01."""
THURSDAY = 4
"""What 1970-01-01 was, in days since a Sunday."""


def _date_field(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    days, _ = readings(vector)
    if call.op == "day_of_week":
        field = (days + THURSDAY) % 7 + 1
    else:
        year, month, day = dates_of_days(days)
        field = {"year": year, "month": month, "day": day}[call.op]
    values, bad = integers.narrowed(field, np.dtype(np.int32))
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


def _clock_field(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    _, seconds = readings(vector)
    if call.op == "hour":
        field = seconds // 3600
    elif call.op == "minute":
        field = seconds // 60 % 60
    else:
        field = seconds % 60
    return Vector(field.astype(np.int32), vector.valid, call.type)


def _date_trunc(call: Call, context: Context) -> Vector:
    unit = str(constant_of(call.args[0])).lower()
    vector = context.vector(call.args[1])
    if unit in CLOCK_UNITS and pa.types.is_timestamp(vector.type):
        return _truncate_clock(call, vector, CLOCK_UNITS[unit], context)
    days, _ = readings(vector)
    seconds, bad = integers.scale_up(_first_days(days, unit), DAY)
    zone = zone_of(vector.type)
    if zone is not None:
        seconds = instants(seconds, zone)
    values, too_large = integers.scale_up(seconds, units_per_second(call.type))
    bad = integers.either(bad, too_large)
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


def _first_days(days: Numbers, unit: str) -> Numbers:
    """The first day of the year, quarter, month or week that each day is in."""
    if unit == "week":
        return np.asarray(days - (days - MONDAY) % 7)
    if unit in MONTHS_IN:
        months = months_of_days(days)
        return days_of_months(months - months % MONTHS_IN[unit])
    return days


def _truncate_clock(call: Call, vector: Vector, step: int, context: Context) -> Vector:
    """To hours, minutes or seconds of the clock in the zone.

    The offset stays what it is, unless the clock never shows the result with it.
    """
    units = units_per_second(vector.type)
    zone = zone_of(vector.type)
    seconds = vector.values // units
    ahead = offsets(seconds, zone)
    rest = (seconds + ahead) % step
    values, bad = integers.subtract(vector.values, rest * units + vector.values % units)
    if zone is not None:
        start = seconds - rest
        for row in np.flatnonzero(offsets(start, zone) != ahead):
            reading = (start + ahead)[row : row + 1]
            values[row] = int(instants(reading, zone)[0]) * units
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("year", "month", "day", "day_of_week"), _date_field),
    **dict.fromkeys(CLOCK_UNITS, _clock_field),
    "date_trunc": _date_trunc,
}
