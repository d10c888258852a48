"""Types, and the values of constants by their types, as JSON."""

from __future__ import annotations

import base64
import functools
import math
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.sql.expressions import Literal
from penstock.streams.schema import parse_type, type_name

type_meaning = (
    "names: `int64`, `decimal(12, 2)`, `timestamp(6, 'UTC')`, `interval`, ...; `arrow:` and a "
    "serialized Arrow schema for a type of Spark that is only handed on"
)
value_meaning = (
    "null; true or false; a whole number for integers, dates (days), timestamps (units) and "
    'intervals (microseconds); a number or `"nan"`, `"inf"`, `"-inf"` for floats; a text for '
    "strings and decimals; hexadecimal digits for binaries"
)
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_BITS: dict[pa.DataType, tuple[int, int]] = {
    kind: (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))
} | {
    kind: (0, (1 << bits) - 1)
    for kind, bits in ((pa.uint8(), 8), (pa.uint16(), 16), (pa.uint32(), 32), (pa.uint64(), 64))
}


_UNDECLARED: dict[str, pa.DataType] = {"null": pa.null(), "interval": pa.duration("us")}
"""Types of expressions that no column is declared with."""
_ARROW = "arrow:"
"""The prefix of the serialized form of a type that Penstock only passes on."""


@functools.lru_cache(maxsize=256)
def name_of_type(kind: pa.DataType) -> str:
    """The name of a type; of one without a name, its Arrow form.

    >>> name_of_type(pa.decimal128(12, 2)), name_of_type(pa.list_(pa.int8()))[:6]
    ('decimal(12, 2)', 'arrow:')
    """
    name = type_name(kind)
    if _declared(name) == kind:
        return name
    form = pa.schema([pa.field("", kind)]).serialize().to_pybytes()
    return _ARROW + base64.b64encode(form).decode()


def type_of_name(name: str) -> pa.DataType | None:
    """The type of a name from :func:`name_of_type`; None for any other text."""
    kind = _serialized(name) if name.startswith(_ARROW) else _declared(name)
    return kind if kind is not None and name_of_type(kind) == name else None


def _declared(name: str) -> pa.DataType | None:
    try:
        return _UNDECLARED[name] if name in _UNDECLARED else parse_type(name)
    except InputError:
        return None


def _serialized(name: str) -> pa.DataType | None:
    try:
        form = base64.b64decode(name.removeprefix(_ARROW), validate=True)
        schema = pa.ipc.read_schema(pa.py_buffer(form))
    except (ValueError, OSError, pa.ArrowException):
        return None
    return schema.field(0).type if len(schema) == 1 else None


def constant_of(literal: Literal) -> Any:
    """The value of a constant as JSON."""
    value: Any = literal.value
    if value is None:
        return None
    if pa.types.is_floating(literal.type):
        return float(value) if math.isfinite(value) else repr(float(value))
    if pa.types.is_decimal(literal.type):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def constant_from(found: Any, kind: pa.DataType) -> Any:
    """The value of a constant of that type; a ValueError says what was expected."""
    types = pa.types
    if found is None:
        return None
    if types.is_boolean(kind):
        return _of(found, bool, "true or false")
    if types.is_floating(kind):
        return _float(found)
    if types.is_decimal(kind):
        return _decimal(_of(found, str, "a decimal as a text"), kind)
    if types.is_string(kind):
        return _text(_of(found, str, "a text"))
    if types.is_binary(kind):
        return _binary(_of(found, str, "hexadecimal digits"))
    if types.is_null(kind):
        raise ValueError("null")
    number = _of(found, int, "a whole number")
    least, most = _BITS.get(kind, _BITS[pa.int32()] if types.is_date(kind) else _BITS[pa.int64()])
    if not least <= number <= most:
        raise ValueError(f"a number from {least} to {most}")
    return number


def _of(found: Any, kind: type[Any], expected: str) -> Any:
    if type(found) is not kind:
        raise ValueError(expected)
    return found


def _float(found: Any) -> float:
    if isinstance(found, str) and found in _NOT_FINITE:
        return _NOT_FINITE[found]
    number: float = _of(found, float, "a number with a point, or nan, inf, -inf")
    return number


def _decimal(text: str, kind: Any) -> Decimal:
    expected = f"a decimal of at most {kind.precision} digits, {kind.scale} of them after the point"
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(expected) from None
    if not value.is_finite() or str(value) != text:
        raise ValueError(expected)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole = len(digits) + exponent if value else 0
    if exponent < -kind.scale or whole > kind.precision - kind.scale:
        raise ValueError(expected)
    return value


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text of whole characters") from None
    return text


def _binary(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        raise ValueError("hexadecimal digits") from None
    if value.hex() != text:
        raise ValueError("hexadecimal digits in lower case, without spaces")
    return value
