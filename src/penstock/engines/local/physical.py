"""Python values of single tuples as the physical values that blocks store.

Only what needs no judgement: the one Python type that stands for a column's type, and values that
the column holds as they are. :mod:`penstock.streams.convert` knows the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
EXACT = 1 << 53
"""Up to here every integer is a double."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class PythonForm:
    """The Python type for a column, and what makes physical values of it.

    ``physical`` raises ValueError for what must be looked at more closely; None if nothing is to be
    done.
    """

    type: type
    physical: Callable[[Any], Any] | None = None


def python_form(kind: pa.DataType) -> PythonForm | None:
    """The form for a type; None if there is none so simple."""
    types = pa.types
    if types.is_integer(kind):
        return PythonForm(int)
    if types.is_floating(kind):
        return PythonForm(float)
    if types.is_boolean(kind):
        return PythonForm(bool, int)
    if types.is_string(kind):
        return PythonForm(str, _whole_text)
    if types.is_binary(kind):
        return PythonForm(bytes)
    if types.is_date32(kind):
        return PythonForm(date, _days)
    if types.is_timestamp(kind) and kind.unit == "us" and kind.tz is None:
        return PythonForm(datetime, _microseconds)
    if types.is_decimal128(kind):
        return PythonForm(Decimal, _unscaled(kind.precision, kind.scale))
    return None


def with_type(value: Any, wanted: type) -> Any:
    """The value, of that type: a whole number may stand for a float. Else a ValueError."""
    if type(value) is wanted:
        return value
    if type(value) is int and wanted is float and -EXACT <= value <= EXACT:
        return float(value)
    raise ValueError("another type")


def one_row_bytes(schema: pa.Schema) -> int | None:
    """What one tuple without NULLs takes as an Arrow batch; None if that depends on the tuple."""
    widths = [
        None if pa.types.is_string(f.type) or pa.types.is_binary(f.type) else f.type.bit_width
        for f in schema
    ]
    return None if None in widths else sum((width + 7) // 8 for width in widths if width)


def _whole_text(value: str) -> str:
    if not value.isascii():
        value.encode()  # a lone surrogate is a str to Python, but no string to Arrow
    return value


def _days(value: date) -> int:
    return value.toordinal() - _FIRST_DAY


def _microseconds(value: datetime) -> int:
    if value.tzinfo is not None:
        raise ValueError("a time with a zone")
    return (value - _EPOCH) // _MICROSECOND


def _unscaled(precision: int, scale: int) -> Callable[[Decimal], int]:
    limit = 10**precision

    def physical(value: Decimal) -> int:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int) or exponent < -scale or exponent > precision:
            raise ValueError("no decimal, or more digits than the column has")
        number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
        if number >= limit:
            raise ValueError("more digits than the column has")
        return -number if sign else number

    return physical
