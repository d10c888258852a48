r"""SQL literals in scripts and dead letters: parsing and formatting.

A string with line breaks is written ``E'…'`` with the escapes ``\n \r \t \\ \uXXXX``, so that a row
is always one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams.clock import (
    DAY,
    UNITS_PER_SECOND,
    format_date,
    format_timestamp,
    parse_moment,
)
from penstock.streams.schema import type_name


@dataclass(frozen=True)
class ParsedLiteral:
    """A literal as it was written.

    ``kind``: null, boolean, number, string, date, timestamp, binary or interval. ``value`` is None,
    a bool, a Decimal (a float for NaN and infinities), a str (for dates and timestamps: the text
    between the quotes), bytes, or microseconds.
    """

    kind: str
    value: object
    text: str


_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
_QUOTED = r"'(?:[^']|'')*'"
_TOKEN = re.compile(
    rf"""(?P<interval>INTERVAL\s+(?:'[^']*'|-?[0-9]+)\s+\w+)
    |(?P<timestamp>TIMESTAMP\s*{_QUOTED})
    |(?P<date>DATE\s*{_QUOTED})
    |(?P<binary>X'(?:[0-9A-F]{{2}})*')
    |(?P<escaped>E'(?:[^'\\]|''|\\[^'])*')
    |(?P<string>{_QUOTED})
    |(?P<special>(?:NaN|[+-]?Infinity)(?!\w))
    |(?P<null>NULL(?!\w))
    |(?P<boolean>(?:TRUE|FALSE)(?!\w))
    |(?P<number>{_NUMBER})""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"''|\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_UNPRINTABLE = "[\\x00-\\x1f\\x7f-\\x{9f}\\x{2028}\\x{2029}]"
_BREAKS_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WIDE = Context(prec=100)
_INTERVAL_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 10**3,
    "SECOND": 10**6,
    "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
    "DAY": DAY * 10**6,
}


def parse_values(text: str) -> list[ParsedLiteral]:
    """Parse the comma-separated literals of a line. Raises ValueError with the place and the text.

    >>> [literal.value for literal in parse_values("1, 'it''s', NULL, TRUE")]
    [Decimal('1'), "it's", None, True]
    """
    literals, end = parse_prefix(text)
    if end != len(text):
        raise ValueError(f"{text[end:].strip()!r} is no literal, nor a comma and a literal")
    return literals


def parse_prefix(text: str) -> tuple[list[ParsedLiteral], int]:
    """The literals at the start of a text, and where they and the spaces after them end."""
    literals: list[ParsedLiteral] = []
    position = _skip(text, 0)
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            shown = text[position:].split(",")[0].strip()
            raise ValueError(f"{shown!r} is no literal" if shown else "a literal is missing")
        literals.append(_literal(str(match.lastgroup), match[0]))
        position = _skip(text, match.end())
        if position == len(text) or text[position] != ",":
            return literals, position
        position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _literal(kind: str, text: str) -> ParsedLiteral:
    if kind == "number":
        return ParsedLiteral("number", read_number(text), text)
    if kind == "special":
        return ParsedLiteral("number", float(text), text)
    if kind == "null":
        return ParsedLiteral("null", None, text)
    if kind == "boolean":
        return ParsedLiteral("boolean", text.upper() == "TRUE", text)
    if kind == "interval":
        return ParsedLiteral("interval", _interval(text), text)
    inner = text[text.index("'") + 1 : -1]
    if kind == "binary":
        return ParsedLiteral("binary", bytes.fromhex(inner), text)
    if kind == "escaped":
        return ParsedLiteral("string", _ESCAPE.sub(_unescape, inner), text)
    if kind == "string":
        return ParsedLiteral("string", inner.replace("''", "'"), text)
    parse_moment(inner)
    return ParsedLiteral(kind, inner, text)


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        return "'"
    if len(escape) == 1:
        return _ESCAPES.get(escape, escape)
    code = int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"'\\{escape}' is no character")
    return chr(code)


def _interval(text: str) -> int:
    match = re.fullmatch(r"INTERVAL\s+('[^']*'|-?[0-9]+)\s+(\w+)", text, re.IGNORECASE)
    assert match is not None
    number, name = match[1].strip("'").strip(), match[2].upper().removesuffix("S")
    if name not in _INTERVAL_UNITS:
        raise ValueError(f"{text!r} is no interval: the units are DAYS to MICROSECONDS")
    if not re.fullmatch(_NUMBER, number):
        raise ValueError(f"{text!r} is no interval: {match[1]} is no number")
    amount = read_number(number)
    if amount.adjusted() > 20 or len(number) > 100:
        raise ValueError(f"{text!r} is longer than any interval")
    microseconds = Fraction(amount) * _INTERVAL_UNITS[name] if amount.adjusted() > -20 else None
    if microseconds is None or microseconds.denominator != 1:
        raise ValueError(f"{text!r} is finer than a microsecond")
    if abs(microseconds) >= 2**63:
        raise ValueError(f"{text!r} is longer than any interval")
    return int(microseconds)


def read_number(text: str) -> Decimal:
    """Read a number exactly; an exponent beyond the range of Decimal becomes ±1e±999999.

    >>> read_number("1e99999999999999999999"), read_number("-1.5e2")
    (Decimal('1E+999999'), Decimal('-1.5E+2'))
    """
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-0")) <= 6:
        return Decimal(text)
    if not mantissa.strip("+-0."):
        return Decimal(0)
    sign = "-" if mantissa.startswith("-") else ""
    return Decimal(f"{sign}1e{'-' if exponent.startswith('-') else ''}999999")


def canonical(literal: ParsedLiteral) -> tuple[str, object]:
    """A key that is equal for literals of the same value, however they are written."""
    value = literal.value
    if literal.kind == "number" and value != value:
        return "number", "NaN"
    if literal.kind in ("date", "timestamp"):
        seconds, picoseconds, offset = parse_moment(str(value))
        return literal.kind, (seconds, picoseconds, offset is None)
    return literal.kind, value


def to_physical(literal: ParsedLiteral, kind: pa.DataType) -> object:
    """The physical value of a literal in type ``kind``.

    Raises ValueError with the reason if it does not fit. Only floats are rounded; nothing is
    truncated.

    >>> to_physical(parse_values("1e2")[0], pa.int8())
    100
    """
    if literal.kind == "null":
        return None
    shown = f"{literal.text} does not fit {type_name(kind)}"
    value = literal.value
    if literal.kind == "number":
        return number_to_physical(value, kind, shown)
    if pa.types.is_boolean(kind) and literal.kind == "boolean":
        return value
    if pa.types.is_string(kind) and literal.kind == "string":
        return value
    if pa.types.is_binary(kind) and literal.kind == "binary":
        return value
    if pa.types.is_duration(kind) and literal.kind == "interval":
        return value
    if literal.kind in ("date", "timestamp", "string"):
        if pa.types.is_date(kind):
            return moment_to_date(str(value), shown)
        if pa.types.is_timestamp(kind):
            return moment_to_timestamp(str(value), kind, shown)
    raise ValueError(shown)


def number_to_physical(value: object, kind: pa.DataType, shown: str) -> object:
    """A Decimal, int or float as a value of a number type; ValueError(shown) if it does not fit."""
    if pa.types.is_floating(kind):
        try:
            wide = float(value)  # type: ignore[arg-type]
        except (OverflowError, ValueError):
            raise ValueError(shown) from None
        with np.errstate(over="ignore"):
            result = float(np.float32(wide)) if pa.types.is_float32(kind) else wide
        if np.isinf(result) and not (isinstance(value, float) and np.isinf(value)):
            raise ValueError(shown)
        return result
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)  # type: ignore[arg-type]
    if not exact.is_finite() or (exact and exact.adjusted() > 40):
        raise ValueError(shown)
    if not exact:
        exact = Decimal(0)
    if pa.types.is_integer(kind):
        low, high = integer_range(kind)
        if exact != exact.to_integral_value() or not low <= exact <= high:
            raise ValueError(shown)
        return int(exact)
    if pa.types.is_decimal(kind):
        return _to_decimal(exact, kind, shown)
    raise ValueError(shown)


def _to_decimal(exact: Decimal, kind: Any, shown: str) -> Decimal:
    if exact and not -kind.scale <= exact.adjusted() < kind.precision - kind.scale:
        raise ValueError(shown)
    fitting = exact.quantize(Decimal((0, (1,), -kind.scale)), context=_WIDE)
    if fitting != exact:
        raise ValueError(shown)
    return fitting


def integer_range(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def moment_to_date(text: str, shown: str) -> int:
    """Days since 1970 of a text; ValueError if it has a zone or a time other than midnight."""
    seconds, picoseconds, offset = parse_moment(text)
    days, rest = divmod(seconds, DAY)
    if rest or picoseconds or offset is not None or not -(2**31) <= days < 2**31:
        raise ValueError(shown)
    return days


def moment_to_timestamp(text: str, kind: pa.TimestampType, shown: str) -> int:
    """Units since 1970 of a text. If the type has a zone, a text without one is UTC."""
    seconds, picoseconds, offset = parse_moment(text)
    if offset is not None and kind.tz is None:
        raise ValueError(f"{shown}: it has a time zone")
    per_second = UNITS_PER_SECOND[kind.unit]
    fraction, lost = divmod(picoseconds, 10**12 // per_second)
    units = seconds * per_second + fraction
    if lost or not -(2**63) <= units < 2**63:
        raise ValueError(shown)
    return units


def physical_array(values: Iterable[object], kind: pa.DataType) -> pa.Array[Any]:
    """An Arrow array from physical values."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def physical_list(array: pa.Array[Any]) -> list[object]:
    """The inverse of :func:`physical_array`."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.view(pa.int64())
    values: list[object] = array.to_pylist()
    return values


def format_value(value: object, kind: pa.DataType) -> str:
    """The literal for a physical value or an Arrow scalar, on one line.

    >>> format_value("it's", pa.string()), format_value(0, pa.date32())
    ("'it''s'", "DATE '1970-01-01'")
    """
    if isinstance(value, pa.Scalar):
        return format_array(pa.array([value], value.type))[0]
    return format_array(physical_array([value], kind))[0]


def format_rows(batch: pa.RecordBatch) -> list[str]:
    """Every row of a batch as literals: ``1, 'x', NULL``."""
    if batch.num_columns == 0:
        return [""] * int(batch.num_rows)
    return [", ".join(cells) for cells in zip(*map(format_array, batch.columns), strict=True)]


def format_array(array: pa.Array[Any]) -> list[str]:
    """Every value of an array as a literal."""
    kind = array.type
    texts: list[Any]
    if array.null_count == len(array):
        return ["NULL"] * len(array)
    if pa.types.is_integer(kind):
        texts = pc.cast(array, pa.string()).to_pylist()
    elif pa.types.is_boolean(kind):
        texts = pc.if_else(array, "TRUE", "FALSE").to_pylist()
    elif pa.types.is_string(kind):
        texts = _format_strings(array)
    else:
        texts = [None if v is None else _format_one(v, kind) for v in physical_list(array)]
    if array.null_count:
        return ["NULL" if text is None else text for text in texts]
    return list(texts)


def _format_strings(array: pa.Array[Any]) -> list[str | None]:
    doubled = pc.replace_substring(array, "'", "''")
    texts: list[str | None] = pc.call_function(
        "binary_join_element_wise", [pa.scalar("'"), doubled, pa.scalar("'"), pa.scalar("")]
    ).to_pylist()
    unprintable = pc.match_substring_regex(array, _UNPRINTABLE)
    for index in np.flatnonzero(unprintable.fill_null(False).to_numpy(zero_copy_only=False)):
        texts[index] = _escaped(str(array[int(index)].as_py()))
    return texts


def _escaped(text: str) -> str:
    names = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    body = _BREAKS_LINE.sub(lambda m: names.get(m[0], f"\\u{ord(m[0]):04x}"), doubled)
    return f"E'{body}'"


def _format_one(value: object, kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return format_float(float(value), kind)  # type: ignore[arg-type]
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_date(kind):
        return f"DATE '{format_date(int(value))}'"  # type: ignore[call-overload]
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMP '{format_timestamp(int(value), kind)}'"  # type: ignore[call-overload]
    if pa.types.is_duration(kind):
        return _format_interval(int(value))  # type: ignore[call-overload]
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return str(value)  # of a type that is only passed through and has no literal


def format_float(value: float, kind: pa.DataType) -> str:
    """The shortest text that parses back to the same float; NaN, Infinity."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return str(np.float32(value)) if pa.types.is_float32(kind) else repr(value)


def _format_interval(microseconds: int) -> str:
    for name, size in reversed(_INTERVAL_UNITS.items()):
        if microseconds % size == 0 and (microseconds or name == "SECOND"):
            return f"INTERVAL {microseconds // size} {name}S"
    raise AssertionError("every number is a multiple of one")
