"""Literals: numbers, dates, timestamps and lengths of time, from the text they are written as."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

import pyarrow as pa

from penstock.sql.arrow_types import DOUBLE, INT32, INT64, timestamp_type, unit_of, zone_of
from penstock.sql.expressions import Literal

WIDE = Context(prec=100)
"""Arithmetic on decimals that never rounds: Python's own stops at 28 digits."""

EPOCH = date(1970, 1, 1).toordinal()
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIT_SECONDS = {
    "NANOSECOND": Fraction(1, 10**9),
    "MICROSECOND": Fraction(1, 10**6),
    "MILLISECOND": Fraction(1, 10**3),
    "SECOND": Fraction(1),
    "MINUTE": Fraction(60),
    "HOUR": Fraction(3600),
    "DAY": Fraction(86400),
    "WEEK": Fraction(7 * 86400),
}
"""How long a unit is. Months and years are not here: their lengths vary."""

MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}

TIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[ T](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,9}))?)?)?"
    r"(?P<zone>\s*Z|\s*[+-]\d{2}:?\d{2})?",
    re.IGNORECASE,
)


def number(text: str, negative: bool = False) -> Literal | None:
    """A number's literal: int32, int64, decimal or double. None if no type has it.

    >>> number("10"), number("1.50"), number("2.5e3")
    (Literal(value=10, type=DataType(int32)),
     Literal(value=Decimal('1.50'), type=Decimal128Type(decimal128(3, 2))),
     Literal(value=2500.0, type=DataType(double)))
    """
    text = f"-{text}" if negative else text
    try:
        if "e" in text.lower():
            value = float(text)
            return Literal(value, DOUBLE) if math.isfinite(value) else None
        exact = Decimal(text)
    except (ValueError, InvalidOperation):  # two points in a number are read as one word
        return None
    scale = max(0, -int(exact.as_tuple().exponent))
    if scale == 0 and "." not in text:
        whole = int(text)
        for kind, limit in ((INT32, 2**31), (INT64, 2**63)):
            if -limit <= whole < limit:
                return Literal(whole, kind)
    digits = len(str(abs(int(exact.scaleb(scale, WIDE)))))
    precision = max(digits, scale, 1)
    return Literal(exact, pa.decimal128(precision, scale)) if precision <= 38 else None


def read_time(text: str, kind: pa.DataType) -> int | None:
    """The physical value of a date or timestamp, or None if the text is none of that type."""
    match = TIME.fullmatch(text.strip())
    if match is None:
        return None
    try:
        days = date.fromisoformat(match["date"]).toordinal() - EPOCH
    except ValueError:
        return None
    if pa.types.is_date(kind):
        return days if match["hour"] is None and match["zone"] is None else None
    seconds = seconds_of(match)
    if seconds is None or (match["zone"] is not None and zone_of(kind) is None):
        return None
    ticks = (days * 86400 + seconds) * UNITS_PER_SECOND[unit_of(kind)]
    return int(ticks) if ticks.denominator == 1 else None


def seconds_of(match: re.Match[str]) -> Fraction | None:
    """The time of day, in seconds of UTC; None if a clock does not show it."""
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    part = Fraction(int((match["part"] or "0").ljust(9, "0")), 10**9)
    zone = (match["zone"] or "Z").strip().replace(":", "")
    offset = 0
    if zone.upper() != "Z":
        hours, minutes = int(zone[1:3]), int(zone[3:5])
        if hours > 18 or minutes > 59:
            return None
        offset = (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60)
    return hour * 3600 + minute * 60 + second + part - offset


def timestamp(text: str) -> Literal | None:
    """``TIMESTAMP '…'``: in microseconds, in UTC if a zone is written; finer ones in nanoseconds.

    >>> timestamp("1970-01-01 00:00:01.5")
    Literal(value=1500000, type=TimestampType(timestamp[us]))
    """
    match = TIME.fullmatch(text.strip())
    zone = "UTC" if match and match["zone"] else None
    for unit in ("us", "ns"):
        kind = timestamp_type(unit, zone)
        value = read_time(text, kind)
        if value is not None:
            return Literal(value, kind)
    return None


def singular(unit: str) -> str:
    """The unit's name in upper case without a plural's s."""
    return unit.upper().removesuffix("S")


def seconds(amount: str | Decimal, unit: str) -> Fraction | None:
    """How many seconds that is, or None if it is no number or the unit has no fixed length."""
    length = UNIT_SECONDS.get(singular(unit))
    try:
        return Fraction(amount) * length if length is not None else None
    except ValueError:
        return None
