"""Parses literals: numbers, dates, timestamps and lengths of time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.sql.arrow_types import DOUBLE, INT32, INT64, timestamp_type, unit_of, zone_of
from penstock.sql.expressions import Literal
from penstock.sql.parse.foreign_functions import misspelt
from penstock.streams.lead import UNIT_SECONDS

WIDE = Context(prec=100)
"""A context for decimals that never rounds: Python's default stops at 28 digits."""

EPOCH = date(1970, 1, 1).toordinal()
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}

SHORT_UNITS = {
    **dict.fromkeys(("NS", "NSEC", "NANO", "NANOSEC"), "NANOSECOND"),
    **dict.fromkeys(("US", "USEC", "MICRO", "MICROSEC"), "MICROSECOND"),
    **dict.fromkeys(("MS", "MSEC", "MILLI", "MILLISEC"), "MILLISECOND"),
    **dict.fromkeys(("S", "SEC"), "SECOND"),
    **dict.fromkeys(("M", "MIN"), "MINUTE"),
    **dict.fromkeys(("H", "HR"), "HOUR"),
    **dict.fromkeys(("D",), "DAY"),
    **dict.fromkeys(("W", "WK"), "WEEK"),
    **dict.fromkeys(("MO", "MON", "MTH"), "MONTH"),
    **dict.fromkeys(("Q", "QTR"), "QUARTER"),
    **dict.fromkeys(("Y", "YR"), "YEAR"),
}
"""Abbreviations of units that users and other engines write; here units are written out."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
FARTHEST = 40
"""A power of ten beyond every clock, count and decimal, and their fractions."""

MOST_DIGITS = 100
"""More digits than any number in range needs."""

TIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[ T](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,9}))?)?)?"
    r"(?P<zone>\s*Z|\s*[+-]\d{2}:?\d{2})?",
    re.IGNORECASE | re.ASCII,
)


def number(text: str, negative: bool = False) -> Literal | None:
    """A number's literal: int32, int64, decimal or double. None if no type holds it.

    >>> number("10"), number("1.50"), number("2.5e3")
    (Literal(value=10, type=DataType(int32)),
     Literal(value=Decimal('1.50'), type=Decimal128Type(decimal128(3, 2))),
     Literal(value=2500.0, type=DataType(double)))
    """
    text = f"-{text}" if negative else text
    if NUMBER.fullmatch(text) is None:  # the tokenizer reads a number with two points as one word
        return None
    if "e" in text.lower():
        value = float(text)
        return Literal(value, DOUBLE) if math.isfinite(value) else None
    if len(text) > MOST_DIGITS:
        return None
    exact = Decimal(text)
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
    """The physical value of a date or timestamp, or None if the text is not of that type."""
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
    """The time of day in seconds of UTC; None if it is invalid."""
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
    """``TIMESTAMP '…'``: in microseconds, in UTC if it has a zone; finer ones in nanoseconds.

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
    """The unit's name in upper case without a plural s."""
    return unit.upper().removesuffix("S")


def unit_meant(word: str) -> str | None:
    """The unit that a word abbreviates or misspells, in the plural; else None.

    >>> unit_meant("MINS"), unit_meant("minuets"), unit_meant("WATTR")
    ('MINUTES', 'MINUTES', None)
    """
    word = word.upper()
    if word in SHORT_UNITS or singular(word) in SHORT_UNITS:
        return f"{SHORT_UNITS.get(word) or SHORT_UNITS[singular(word)]}S"
    near = misspelt(word, [f"{unit}S" for unit in (*UNIT_SECONDS, *MONTHS)])
    return near[0] if near else None


def unit_remedy(word: str, units: Iterable[str]) -> str:
    """The remedy for a word that is no unit, given the possible units."""
    names = [f"{unit}S" for unit in units]
    meant = unit_meant(word)
    start = f"Write {meant}; the" if meant in names else "The"
    return f"{start} units are {', '.join(names[:-1])} and {names[-1]}."


def near_number(text: str) -> Decimal | None:
    """A number for exact arithmetic; None if it is too large, too small or too long.

    The text must match :data:`NUMBER`.

    >>> near_number("1.5e3"), near_number("1e999999999"), near_number("0e999999999")
    (Decimal('1.5E+3'), None, Decimal('0'))
    """
    mantissa, _, exponent = text.lower().partition("e")
    if not mantissa.strip("+-0."):
        return Decimal(0)
    if len(mantissa) > MOST_DIGITS or len(exponent.lstrip("+-0")) > len(str(FARTHEST)):
        return None
    number = Decimal(text)
    return number if -FARTHEST <= number.adjusted() <= FARTHEST else None


def whole_number(text: str) -> int | None:
    """A number of at most nineteen digits without a sign; None if the text is none."""
    return int(text) if re.fullmatch("[0-9]{1,19}", text) else None


def seconds(amount: Decimal, unit: str) -> Fraction | None:
    """The length in seconds, or None if the unit has no fixed length."""
    length = UNIT_SECONDS.get(singular(unit))
    return Fraction(amount) * length if length is not None else None
