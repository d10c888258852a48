"""Rows of Python values: dicts into columns, columns into Arrow arrays, reasons for misfits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InputError, printable
from penstock.streams.literals import ParsedLiteral, format_value, physical_array, to_physical
from penstock.streams.schema import Stream


def columns_of(stream: Stream, rows: Sequence[object]) -> tuple[list[list[object]], dict[int, str]]:
    """The values column by column, and a reason for each row with unknown or repeated keys."""
    alike = _columns_of_dicts(stream, rows)
    if alike is not None:
        return alike, {}
    names = stream.schema.names
    columns: list[list[object]] = [[] for _ in names]
    reasons: dict[int, str] = {}
    mappings: dict[tuple[object, ...], tuple[list[object], str | None]] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(
                f"row {index} of the data pushed to stream {stream.name} "
                f"is {type(row).__name__}, not a dict",
                f"Push dicts with the keys {', '.join(names)}.",
            )
        keys = tuple(row)
        if keys not in mappings:
            mappings[keys] = match_keys(stream, keys)
        mapping, problem = mappings[keys]
        if problem:
            reasons[index] = problem
        for column, key in zip(columns, mapping, strict=True):
            column.append(row.get(key))
    return columns, reasons


def _columns_of_dicts(stream: Stream, rows: Sequence[object]) -> list[list[object]] | None:
    """The values column by column, if all rows are dicts with the keys of the first one."""
    if set(map(type, rows)) != {dict}:
        return None
    dicts = cast(Sequence[dict[object, object]], rows)
    first = dicts[0]
    mapping, problem = match_keys(stream, tuple(first))
    if problem or sum(map(len, dicts)) != len(first) * len(dicts):
        return None
    nothing: list[object] = [None] * len(dicts)
    try:
        # Rows that have all these keys, and have no more keys in all, have no other key.
        return [[row[k] for row in dicts] if k in first else nothing for k in mapping]
    except KeyError:
        return None


def match_keys(stream: Stream, keys: tuple[object, ...]) -> tuple[list[object], str | None]:
    """The key for each column (its name if there is none), and what is wrong with the keys."""
    found: dict[str, object] = {}
    unknown: list[str] = []
    for key in keys:
        if not isinstance(key, str) or stream.index_of(key) is None:
            unknown.append(printable(str(key)))
        elif key.lower() in found:
            return [name for name in stream.schema.names], f"two values for column {key.lower()}"
        else:
            found[key.lower()] = key
    mapping = [found.get(name.lower(), name) for name in stream.schema.names]
    return mapping, f"unknown {columns_text(unknown)}" if unknown else None


def python_to_array(
    values: list[object], kind: pa.DataType
) -> tuple[pa.Array[Any], dict[int, str]]:
    """An array of ``kind``, and a reason for each Python value that does not fit (and is NULL)."""
    exact = _PYTHON_TYPES.get(_family(kind), frozenset())
    if set(map(type, values)) <= exact and not _has_far_decimals(values, kind):
        try:
            array: Any = _array_of(values, kind)
            if not pa.types.is_float32(kind) or not pc.any(pc.is_inf(array)).as_py():
                return array, {}
        except (pa.ArrowException, OverflowError, ValueError):
            pass  # a value does not fit: find out which
    return convert_literals([literal_of(value) for value in values], kind)


def _array_of(values: list[object], kind: pa.DataType) -> pa.Array[Any]:
    """An array of values of the Python types for ``kind``; an error if one does not fit."""
    if pa.types.is_integer(kind):
        try:
            # Twice as fast as Arrow, but has no NULL.
            numbers = cast(list[int], values)
            return pa.array(np.fromiter(numbers, kind.to_pandas_dtype(), len(numbers)))
        except TypeError:
            pass
    return pa.array(values, kind)


def _has_far_decimals(values: list[object], kind: pa.DataType) -> bool:
    """Whether a decimal has an exponent or many digits: Arrow reads out of bounds for those."""
    if not pa.types.is_decimal(kind):
        return False
    return any(isinstance(value, Decimal) and _is_far(value) for value in values)


def _is_far(value: Decimal) -> bool:
    text = str(value)
    return len(text) > 39 or "E" in text


# The Python types that pyarrow converts to an Arrow type without changing a value.
_PYTHON_TYPES: dict[str, frozenset[type]] = {
    "integer": frozenset({int, type(None)}),
    "float": frozenset({float, int, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "string": frozenset({str, type(None)}),
    "binary": frozenset({bytes, type(None)}),
    "date": frozenset({date, type(None)}),
    "decimal": frozenset({Decimal, type(None)}),
}


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    return {"bool": "boolean", "date32[day]": "date"}.get(str(kind), str(kind))


PLAIN = (bool, int, float, str, bytes, Decimal, date, time, timedelta)


def plain_value(value: object) -> object:
    """The value in one of Python's own types; TypeError if there is none."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]")
        value = moment.item() if moment == value or np.isnat(value) else None
        if value is None and not np.isnat(moment):
            raise TypeError("times finer than a microsecond")
    elif isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if value is not None and not isinstance(value, PLAIN):
        raise TypeError(f"values of the type {type(value).__name__}")
    if isinstance(value, Decimal) and _is_far(value):
        raise ValueError("a decimal with an exponent or many digits")
    return value


def literal_of(value: object) -> ParsedLiteral:
    """A Python value as a literal; a value without a literal is its repr, with kind ``unknown``."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else str(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ParsedLiteral("null", None, "NULL")
    if isinstance(value, bool):
        return ParsedLiteral("boolean", value, "TRUE" if value else "FALSE")
    if isinstance(value, float):
        return ParsedLiteral("number", value, format_value(value, pa.float64()))
    if isinstance(value, (int, Decimal)):
        # Through Decimal: Python's str of an int ends at 4,300 digits.
        return ParsedLiteral("number", value, str(Decimal(value)))
    if isinstance(value, str):
        return _string_literal(value)
    if isinstance(value, (bytes, bytearray)):
        return ParsedLiteral("binary", bytes(value), format_value(bytes(value), pa.binary()))
    if isinstance(value, (datetime, date)):
        kind = "timestamp" if isinstance(value, datetime) else "date"
        text = value.isoformat().replace("T", " ")
        return ParsedLiteral(kind, text, f"{kind.upper()} '{text}'")
    if isinstance(value, timedelta):
        microseconds = value // timedelta(microseconds=1)
        if -(2**63) <= microseconds < 2**63:
            shown = format_value(microseconds, pa.duration("us"))
            return ParsedLiteral("interval", microseconds, shown)
    return ParsedLiteral("unknown", value, _string_literal(repr(value)).text)


def _string_literal(text: str) -> ParsedLiteral:
    # A lone surrogate is valid in a Python str, but not in an Arrow string.
    whole = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    shown = format_value(whole, pa.string())
    return ParsedLiteral("string" if whole == text else "unknown", text, shown)


def convert_literals(
    literals: Sequence[ParsedLiteral], kind: pa.DataType
) -> tuple[pa.Array[Any], dict[int, str]]:
    """An array of ``kind``, and a reason for each literal that does not fit (and is NULL)."""
    values: list[object] = []
    reasons: dict[int, str] = {}
    for index, literal in enumerate(literals):
        try:
            values.append(to_physical(literal, kind))
        except ValueError as reason:
            values.append(None)
            reasons[index] = str(reason)
    return physical_array(values, kind), reasons


def columns_text(names: Sequence[str]) -> str:
    """``column a`` or ``columns a, b``."""
    return ("column " if len(names) == 1 else "columns ") + ", ".join(names)
