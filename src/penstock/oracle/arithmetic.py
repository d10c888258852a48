"""Numbers: the range of a type, rounding an exact result to it, and floats as text."""

from __future__ import annotations

import math
import re
import struct
from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.oracle.values import Type, Value

# More digits than any step needs: decimals have at most 38, and results are rounded once.
EXACT = Context(prec=200)


class Failure(Exception):
    """An operation that gives NULL and counts as an expression failure."""


def integer_in(value: int, kind: Type) -> int:
    """The value, if it fits ``kind`` (an integer type, date, timestamp or interval)."""
    bits = 32 if pa.types.is_date32(kind) else kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        low, high = 0, 2**bits - 1
    else:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if not low <= value <= high:
        raise Failure
    return value


def half_away(value: Fraction) -> int:
    """The nearest integer; ties go away from zero.

    >>> half_away(Fraction(5, 2)), half_away(Fraction(-5, 2)), half_away(Fraction(7, 3))
    (3, -3, 2)
    """
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def decimal_in(value: Fraction, kind: Type) -> Decimal:
    """The exact ``value`` rounded half away from zero to a decimal type, if it fits.

    >>> decimal_in(Fraction(-1, 8), pa.decimal128(5, 2))
    Decimal('-0.13')
    """
    unscaled = half_away(value * 10**kind.scale)
    if abs(unscaled) >= 10**kind.precision:
        raise Failure
    return Decimal(unscaled).scaleb(-kind.scale, EXACT)


def single(value: float) -> float:
    """The nearest 32-bit float, ties to even; infinity beyond the largest.

    >>> single(0.1), single(-1e40)
    (0.10000000149011612, -inf)
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def nearest_double(value: Fraction) -> float:
    """The double nearest to an exact value."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def nearest_single(value: Fraction) -> float:
    """The 32-bit float nearest to an exact value, ties to even.

    Going through a double would round twice, so the neighbours of that result are compared too.

    >>> nearest_single(Fraction(2**24 + 1) + Fraction(1, 2**40))
    16777218.0
    """
    near = single(nearest_double(value))
    if math.isinf(near):
        # Values from halfway between the largest float and the next power of two round to infinity.
        limit = 2**128 - 2**103
        largest = float(2**128 - 2**104)
        return near if abs(value) >= limit else math.copysign(largest, near)
    bits = struct.unpack("<I", struct.pack("<f", abs(near)))[0]
    candidates = [pattern for pattern in (bits - 1, bits, bits + 1) if 0 <= pattern < 0x7F800000]
    best = min(candidates, key=lambda pattern: (abs(_magnitude(pattern) - abs(value)), pattern % 2))
    result = float(_magnitude(best))
    return -result if value < 0 else result


def _magnitude(pattern: int) -> Fraction:
    return Fraction(struct.unpack("<f", struct.pack("<I", pattern))[0])


def float_in(value: Fraction, kind: Type) -> float:
    """The float or double nearest to an exact value."""
    return nearest_single(value) if pa.types.is_float32(kind) else nearest_double(value)


def float_text(value: float, kind: Type) -> str:
    """The shortest text that parses back to the same float, in Python's notation.

    >>> float_text(single(0.1), pa.float32()), float_text(0.1, pa.float64()), float_text(1e20, None)
    ('0.1', '0.1', '1e+20')
    """
    if kind is None or not pa.types.is_float32(kind) or not math.isfinite(value) or value == 0:
        return repr(value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        if nearest_single(Fraction(text)) == value:
            return repr(float(text))
    raise AssertionError(f"nine digits do not tell {value!r} apart")


def exact(value: Value, kind: Type) -> Fraction:
    """A number as a fraction; a float is the number that its shortest text denotes.

    NaN and the infinities fail.
    """
    if pa.types.is_floating(kind):
        if not math.isfinite(value):
            raise Failure
        return Fraction(float_text(value, kind))
    return Fraction(value)


NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
# Far outside every type, and small enough that its power of ten fits in memory.
FAR = 5000


def read_number(text: str) -> Decimal:
    """The number written in ``text``, exactly; Failure if it is no number.

    >>> read_number("-1.50"), read_number("+.5e3")
    (Decimal('-1.50'), Decimal('5E+2'))
    """
    match = NUMBER.fullmatch(text)
    if match is None:
        raise Failure
    sign, mantissa, exponent = match[1], match[2], Decimal(match[3] or 0)
    near = max(Decimal(-FAR - len(mantissa)), min(Decimal(FAR), exponent))
    return Decimal(f"{sign}{mantissa}e{int(near)}")


def read_float(text: str, kind: Type) -> float:
    """The float or double nearest to the number in ``text``, which may be ``nan`` or ``inf``."""
    named = re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.ASCII | re.IGNORECASE)
    if named is not None:
        return float(text)
    number = read_number(text)
    result = float_in(Fraction(number), kind)
    return -0.0 if result == 0 and number.is_signed() else result
