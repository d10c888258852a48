"""FLOOR, CEIL, ROUND and SQRT."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from decimal import Context as DecimalContext
from fractions import Fraction

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions import decimals, integers
from penstock.kernels.expressions.context import Context, Operation
from penstock.kernels.expressions.decimals import fit_decimals, rescaled, scale_of
from penstock.kernels.expressions.floats import (
    as_doubles,
    clear_steps,
    ratio,
    ratio_of_singles,
    shortest_texts,
    to_singles,
)
from penstock.kernels.expressions.vector import Numbers, Vector, null_vector
from penstock.sql.expressions import Call, Literal

ROUNDING = DecimalContext(prec=1200, rounding=ROUND_HALF_UP)
"""Enough digits for any float at any number of places that changes it."""
MOST_PLACES = 400


def _floor_or_ceil(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    if pa.types.is_decimal(vector.type):
        power = decimals.power_array(scale_of(vector.type), context.length)
        values = vector.values if call.op == "floor" else -vector.values
        values = values // power
        return fit_decimals(
            values if call.op == "floor" else -values, call.type, vector.valid, context
        )
    if vector.values.dtype.kind == "f":
        whole = np.floor(vector.values) if call.op == "floor" else np.ceil(vector.values)
        values, bad = integers.from_floats(whole, np.dtype(np.int64))
    else:
        values, bad = integers.narrowed(vector.values, np.dtype(np.int64))
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


def _round(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    places = 0
    if len(call.args) > 1:
        argument = call.args[1]
        if not isinstance(argument, Literal) or argument.value is None:
            return null_vector(call.type, context.length)
        assert isinstance(argument.value, int)
        places = max(-MOST_PLACES, min(MOST_PLACES, argument.value))
    if pa.types.is_decimal(vector.type):
        return _round_decimals(call, vector, places, context)
    if vector.values.dtype.kind == "f":
        return Vector(_round_floats(vector.values, places), vector.valid, call.type)
    if places >= 0:
        return vector
    tens = rescaled(rescaled(decimals.wide(vector.values), 0, places), places, 0)
    values, bad = integers.narrowed(tens, vector.values.dtype)
    valid = vector.valid if bad is None else context.fail(bad, vector.valid)
    return Vector(values, valid, call.type)


def _round_decimals(call: Call, vector: Vector, places: int, context: Context) -> Vector:
    scale = scale_of(vector.type)
    places = min(places, scale)
    values = rescaled(rescaled(vector.values, scale, places), places, scale_of(call.type))
    return fit_decimals(values, call.type, vector.valid, context)


def _round_floats(values: Numbers, places: int) -> Numbers:
    """By arithmetic where that is sure to agree with the shortest text, else by the text."""
    done = ~np.isfinite(values)
    if places >= 0:
        done |= values == np.trunc(values)
    result = values.copy()
    steps, clear = clear_steps(values, places)
    clear &= ~done
    if clear.any():
        result[clear] = _steps_as_floats(steps[clear], places, values.dtype == np.float32)
        done |= clear
    rows = np.flatnonzero(~done)
    if len(rows):
        result[rows] = _round_texts(values[rows], places)
    # -0.0 is not a decimal, so no rounding gives it.
    return np.where(result == 0, values.dtype.type(0), result)


def _steps_as_floats(steps: Numbers, places: int, single: bool) -> Numbers:
    """``steps / 10**places``, rounded once."""
    if places >= 0:
        return ratio_of_singles(steps, 10**places) if single else ratio(steps, 10**places)
    doubles = steps.astype(np.float64) * 10.0**-places
    if single:
        return to_singles(doubles, lambda row: Fraction(int(steps[row]) * 10**-places))
    return doubles


def _round_texts(values: Numbers, places: int) -> Numbers:
    step = Decimal((0, (1,), -places))
    rounded = [Decimal(text).quantize(step, context=ROUNDING) for text in shortest_texts(values)]
    doubles = np.array([float(number) for number in rounded])
    if values.dtype == np.float32:
        return to_singles(doubles, lambda row: Fraction(rounded[row]))
    return doubles


def _sqrt(call: Call, context: Context) -> Vector:
    vector = as_doubles(context.vector(call.args[0]))
    return Vector(np.sqrt(vector.values), vector.valid, call.type)


OPERATIONS: dict[str, Operation] = {
    "floor": _floor_or_ceil,
    "ceil": _floor_or_ceil,
    "round": _round,
    "sqrt": _sqrt,
}
