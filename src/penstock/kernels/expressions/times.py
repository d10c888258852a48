"""Dates, timestamps and intervals: their sums and differences, their fields, DATE_TRUNC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions import integers
from penstock.kernels.expressions.calendar import (
    DAY,
    dates_of_days,
    days_of_months,
    in_units,
    instants,
    months_of_days,
    offsets,
    readings,
    units_per_second,
    zone_of,
)
from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.text import constant_of
from penstock.kernels.expressions.vector import Mask, Numbers, Vector, both
from penstock.sql.expressions import Call

MICROSECONDS = 1_000_000
INT64 = np.dtype(np.int64)


def _result(
    values: Numbers, bad: Mask | None, valid: Mask | None, call: Call, context: Context
) -> Vector:
    return Vector(values, valid if bad is None else context.fail(bad, valid), call.type)


def _add_duration(call: Call, context: Context) -> Vector:
    time, interval = map(context.vector, call.args)
    units = units_per_second(call.type)
    start, bad = in_units(time.values, units_per_second(time.type), units)
    length, too_long = in_units(interval.values, units_per_second(interval.type), units)
    values, too_large = integers.add(start, length)
    bad = integers.either(integers.either(bad, too_long), too_large)
    return _result(values, bad, both(time.valid, interval.valid), call, context)


def _add_days(call: Call, context: Context) -> Vector:
    date, days = map(context.vector, call.args)
    values, bad = integers.narrowed(date.values.astype(INT64) + days.values, np.dtype(np.int32))
    return _result(values, bad, both(date.valid, days.valid), call, context)


def _add_months(call: Call, context: Context) -> Vector:
    """The same day of another month, or its last; the time of day stays."""
    time, count = map(context.vector, call.args)
    is_date = pa.types.is_date32(time.type)
    per_day = 1 if is_date else DAY * units_per_second(time.type)
    days = time.values.astype(INT64) // per_day
    rest = time.values - days * per_day
    months = months_of_days(days)
    day = days - days_of_months(months)
    months = months + count.values
    first = days_of_months(months)
    last = days_of_months(months + 1) - first - 1
    start, bad = integers.scale_up(first + np.minimum(day, last), per_day)
    values, too_large = integers.add(start, rest)
    bad = integers.either(bad, too_large)
    if is_date:
        values, too_large = integers.narrowed(values, np.dtype(np.int32))
        bad = integers.either(bad, too_large)
    return _result(values, bad, both(time.valid, count.valid), call, context)


def _sub_times(call: Call, context: Context) -> Vector:
    left, right = map(context.vector, call.args)
    valid = both(left.valid, right.valid)
    if pa.types.is_date32(left.type):
        days = left.values.astype(INT64) - right.values
        values, bad = integers.scale_up(days, DAY * MICROSECONDS)
        return _result(values, bad, valid, call, context)
    units = units_per_second(left.type)
    if units > MICROSECONDS:
        # The difference of nanoseconds may not fit in 64 bits although that in microseconds does.
        per = units // MICROSECONDS
        rest = left.values % per - right.values % per
        values = left.values // per - right.values // per + rest // per
        return _result(values, None, valid, call, context)
    difference, bad = integers.subtract(left.values, right.values)
    values, too_large = in_units(difference, units, MICROSECONDS)
    return _result(values, integers.either(bad, too_large), valid, call, context)


CLOCK_UNITS = {"hour": 3600, "minute": 60, "second": 1}
MONTHS_IN = {"year": 12, "quarter": 3, "month": 1}
MONDAY = 4
"""1970-01-05, the first Monday, as days since 1970-01-01."""
THURSDAY = 4
"""The weekday of 1970-01-01, in days since a Sunday."""


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
    """To hours, minutes or seconds of the local clock.

    The offset is kept, unless the clock never shows the result with it.
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
    "add_duration": _add_duration,
    "add_days": _add_days,
    "add_months": _add_months,
    "sub_times": _sub_times,
}
