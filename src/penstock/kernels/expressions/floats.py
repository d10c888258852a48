"""Numbers as floats, correctly rounded, and floats as their shortest decimal text."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.vector import Mask, Numbers, Vector, bounds

EXACT_INTEGER = 2**53
EXACT_POWER = 10**22
"""Up to these, integers and powers of ten are doubles, and their quotient is rounded once."""


CLEAR_OF_HALF = 1e-3
CLEAR_BELOW = {np.dtype(np.float64): 2.0**40, np.dtype(np.float32): 2.0**14}
"""Below this, the product with a power of ten and the shortest text are both within half of
CLEAR_OF_HALF of the float: a value further from a half than that is rounded by its product."""


def clear_steps(values: Numbers, places: int) -> tuple[Numbers, Mask]:
    """``values * 10**places`` rounded, and the mask where that equals rounding the shortest texts.

    Elsewhere, and everywhere with more than 15 places, the number is 0.
    """
    if abs(places) > 15:
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    sizes = np.abs(values.astype(np.float64))
    sizes = sizes * 10.0**places if places >= 0 else sizes / 10.0**-places
    clear: Mask = np.abs(sizes - np.floor(sizes) - 0.5) > CLEAR_OF_HALF
    clear &= sizes < CLEAR_BELOW[values.dtype]
    steps = np.copysign(np.floor(np.where(clear, sizes, 0.0) + 0.5), values)
    return steps.astype(np.int64), clear


def as_doubles(vector: Vector) -> Vector:
    """A number of any type as a double, to nearest, ties to even."""
    scale = vector.type.scale if pa.types.is_decimal(vector.type) else 0
    return Vector(ratio(vector.values, 10**scale), vector.valid, pa.float64())


def ratio(values: Numbers, divisor: int) -> Numbers:
    """``values / divisor`` as doubles, rounded once."""
    if divisor == 1:
        return values.astype(np.float64, copy=False)
    if values.dtype != object and divisor <= EXACT_POWER:
        low, high = bounds(values)
        if low >= -EXACT_INTEGER and high <= EXACT_INTEGER:
            return np.asarray(values / float(divisor))
    return np.array([value / divisor for value in values.tolist()], dtype=np.float64)


def ratio_of_singles(values: Numbers, divisor: int) -> Numbers:
    """``values / divisor`` as 32-bit floats, rounded once."""
    if divisor == 1 and values.dtype != object:
        return values.astype(np.float32)
    return to_singles(ratio(values, divisor), lambda row: Fraction(int(values[row]), divisor))


def to_singles(doubles: Numbers, exact: Callable[[int], Fraction]) -> Numbers:
    """32-bit floats of numbers of which ``doubles`` are the nearest doubles.

    Rounding twice is wrong only if the double lies halfway between two singles and the number
    itself does not; ``exact(row)`` is the number.
    """
    singles = doubles.astype(np.float32)
    back = singles.astype(np.float64)
    toward = np.where(doubles > back, np.float32(np.inf), np.float32(-np.inf))
    other = np.nextafter(singles, toward)
    halfway = (back + other.astype(np.float64)) / 2 == doubles
    for row in np.flatnonzero(halfway & (back != doubles)):
        number, middle = exact(int(row)), Fraction(float(doubles[row]))
        if number != middle:
            pair = (float(singles[row]), float(other[row]))
            singles[row] = max(pair) if number > middle else min(pair)
    return singles


def shortest_texts(values: Numbers) -> list[str]:
    """The shortest text that reads back as the same float of its width, as Python writes it.

    >>> shortest_texts(np.array([0.1, 123456789, 1e20], np.float32))
    ['0.1', '123456790.0', '1e+20']
    """
    if values.dtype == np.float64:
        return [repr(value) for value in values.tolist()]
    # A single needs at most nine digits, which a double preserves.
    return [repr(float(str(value))) for value in values]
