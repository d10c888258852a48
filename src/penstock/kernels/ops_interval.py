"""Arithmetic between dates, timestamps and intervals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.kernels import integers
from penstock.kernels.clock import days_of_months, months_of_days, units_per_second
from penstock.kernels.context import Context, Operation
from penstock.kernels.vector import Mask, Numbers, Vector, both
from penstock.kernels.zones import DAY
from penstock.sql.expressions import Call

MICROSECONDS = 1_000_000
INT64 = np.dtype(np.int64)


def _in_units(values: Numbers, units: int, new_units: int) -> integers.Checked:
    """A length of time counted in other units per second; coarser ones round down."""
    if new_units >= units:
        return integers.scale_up(values, new_units // units)
    return values // (units // new_units), None


def _result(
    values: Numbers, bad: Mask | None, valid: Mask | None, call: Call, context: Context
) -> Vector:
    return Vector(values, valid if bad is None else context.fail(bad, valid), call.type)


def _add_duration(call: Call, context: Context) -> Vector:
    time, interval = map(context.vector, call.args)
    units = units_per_second(call.type)
    start, bad = _in_units(time.values, units_per_second(time.type), units)
    length, too_long = _in_units(interval.values, units_per_second(interval.type), units)
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
    values, too_large = _in_units(difference, units, MICROSECONDS)
    return _result(values, integers.either(bad, too_large), valid, call, context)


OPERATIONS: dict[str, Operation] = {
    "add_duration": _add_duration,
    "add_days": _add_days,
    "add_months": _add_months,
    "sub_times": _sub_times,
}
