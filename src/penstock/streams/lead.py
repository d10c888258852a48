"""``MAX LEAD``: how far ahead of its stream a tuple's time may be.

A lead is a Fraction, in seconds if the time attribute is a date or a timestamp, else in units of
the attribute.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.clock import DAY, UNITS_PER_SECOND

Lead = timedelta | int | float | Decimal | Fraction
"""Types in which a Python program may give a lead."""

UNIT_SECONDS = {
    "NANOSECOND": Fraction(1, 10**9),
    "MICROSECOND": Fraction(1, 10**6),
    "MILLISECOND": Fraction(1, 10**3),
    "SECOND": Fraction(1),
    "MINUTE": Fraction(60),
    "HOUR": Fraction(3600),
    "DAY": Fraction(DAY),
    "WEEK": Fraction(7 * DAY),
}
"""The length of each unit in seconds. Months and years are missing: their lengths vary."""


def is_moment(kind: pa.DataType) -> bool:
    """Whether the type is a date or a timestamp, so that its lengths of time have units."""
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def lead_from_sql(number: Decimal | Fraction, unit: str | None, kind: pa.DataType) -> Fraction:
    """The lead written as a number and perhaps a unit, in the singular and in upper case.

    >>> lead_from_sql(Decimal("1.5"), "HOUR", pa.date32())
    Fraction(5400, 1)
    """
    written = _plain(number) if isinstance(number, Fraction) else number
    text = f"MAX LEAD {written}{'' if unit is None else f' {unit}S'}"
    if number < 0:
        raise InputError(f"{text} is below 0", "Write how far ahead a time may be, 0 or more.")
    if unit is not None and unit not in UNIT_SECONDS:
        raise InputError(
            f"{text}: {unit.lower()}s differ in length", "Write it in DAYS, for instance 30 DAYS."
        )
    if unit is None and number and is_moment(kind):
        raise InputError(
            f"{text} of what? The time attribute is a date or a timestamp",
            f"Write a unit, for instance MAX LEAD {written} SECONDS.",
        )
    lead = Fraction(number) * (Fraction(1) if unit is None else UNIT_SECONDS[unit])
    if pa.types.is_integer(kind) and lead.denominator != 1:
        raise InputError(f"{text} is not whole", "Write a whole number, or whole seconds.")
    return lead


def lead_from_python(value: object, kind: pa.DataType) -> Fraction:
    """The lead given as a timedelta or a number; numbers are seconds for dates and timestamps.

    >>> lead_from_python(timedelta(hours=1), pa.timestamp("us"))
    Fraction(3600, 1)
    """
    if isinstance(value, timedelta):
        return lead_from_sql(Fraction(value // timedelta(microseconds=1), 10**6), "SECOND", kind)
    number = isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)
    finite = number and value == value and abs(value) != float("inf")  # type: ignore[arg-type]
    if not finite:
        raise InputError(
            f"max_lead is {value!r}", "Give a timedelta, or a number: of seconds for timestamps."
        )
    exact: Any = value
    return lead_from_sql(Fraction(exact), "SECOND" if is_moment(kind) else None, kind)


def lead_text(lead: Fraction, kind: pa.DataType) -> str:
    """The lead as SQL text.

    >>> lead_text(Fraction(5400), pa.date32()), lead_text(Fraction(5, 2), pa.float64())
    ('90 MINUTES', '2.5')
    """
    if is_moment(kind) and lead:
        unit, long = next(
            (unit, long)
            for unit, long in reversed([*UNIT_SECONDS.items()][:-1])
            if (lead / long).denominator == 1 or unit == "NANOSECOND"
        )
        number = lead / long
        return f"{_plain(number)} {unit}{'' if number == 1 else 'S'}"
    return _plain(lead)


def _plain(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{exact.normalize():f}"


def lead_units(lead: Fraction, kind: Any) -> int | float:
    """The lead in units of the time attribute, rounded down.

    >>> lead_units(Fraction(3, 2), pa.timestamp("ms")), lead_units(Fraction(3, 2), pa.decimal128(9))
    (1500, 1)
    """
    if pa.types.is_floating(kind):
        return float(lead)
    if pa.types.is_date(kind):
        return int(lead / DAY)
    if pa.types.is_timestamp(kind):
        return int(lead * UNITS_PER_SECOND[kind.unit])
    return int(lead * 10 ** (kind.scale if pa.types.is_decimal(kind) else 0))
