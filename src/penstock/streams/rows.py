"""Rows of Python values: dicts into columns, columns into Arrow arrays, misfits named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InputError
from penstock.streams.literals import ParsedLiteral, format_value, physical_array, to_physical
from penstock.streams.schema import Stream


def columns_of(stream: Stream, rows: Sequence[object]) -> tuple[list[list[object]], dict[int, str]]:
    """The values column by column, and for each row with unknown or repeated keys the reason."""
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
            mappings[keys] = _match_keys(stream, keys)
        mapping, problem = mappings[keys]
        if problem:
            reasons[index] = problem
        for column, key in zip(columns, mapping, strict=True):
            column.append(row.get(key))
    return columns, reasons


def _match_keys(stream: Stream, keys: tuple[object, ...]) -> tuple[list[object], str | None]:
    """The key of each column (its own name where there is none), and what is wrong with them."""
    found: dict[str, object] = {}
    unknown: list[str] = []
    for key in keys:
        if not isinstance(key, str) or stream.index_of(key) is None:
            unknown.append(str(key))
        elif key.lower() in found:
            return [name for name in stream.schema.names], f"two values for column {key.lower()}"
        else:
            found[key.lower()] = key
    mapping = [found.get(name.lower(), name) for name in stream.schema.names]
    return mapping, f"unknown {listed(unknown)}" if unknown else None


def python_to_array(
    values: list[object], kind: pa.DataType
) -> tuple[pa.Array[Any], dict[int, str]]:
    """As :func:`convert_literals`, for Python values."""
    exact = _PYTHON_TYPES.get(_family(kind), frozenset())
    if set(map(type, values)) <= exact:
        try:
            array: Any = pa.array(values, kind)
            if not pa.types.is_float32(kind) or not pc.any(pc.is_inf(array)).as_py():
                return array, {}
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            pass  # some value does not fit: find out which
    return convert_literals([literal_of(value) for value in values], kind)


# Which Python types pyarrow turns into a type without bending a value.
_PYTHON_TYPES: dict[str, frozenset[type]] = {
    "integer": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
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


def literal_of(value: object) -> ParsedLiteral:
    """A Python value as a literal; one that has none is its representation, of no type."""
    if isinstance(value, np.generic):
        value = value.item() if not isinstance(value, np.datetime64) else str(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ParsedLiteral("null", None, "NULL")
    if isinstance(value, bool):
        return ParsedLiteral("boolean", value, "TRUE" if value else "FALSE")
    if isinstance(value, float):
        return ParsedLiteral("number", value, format_value(value, pa.float64()))
    if isinstance(value, (int, Decimal)):
        return ParsedLiteral("number", value, str(value))
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
        return ParsedLiteral(
            "interval", microseconds, format_value(microseconds, pa.duration("us"))
        )
    return ParsedLiteral("unknown", value, _string_literal(repr(value)).text)


def _string_literal(text: str) -> ParsedLiteral:
    # A lone surrogate is a str to Python, but no string to Arrow.
    whole = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    shown = format_value(whole, pa.string())
    return ParsedLiteral("string" if whole == text else "unknown", text, shown)


def convert_literals(
    literals: Sequence[ParsedLiteral], kind: pa.DataType
) -> tuple[pa.Array[Any], dict[int, str]]:
    """An array of ``kind``, and the reason for each literal that does not fit (and is NULL)."""
    values: list[object] = []
    reasons: dict[int, str] = {}
    for index, literal in enumerate(literals):
        try:
            values.append(to_physical(literal, kind))
        except ValueError as reason:
            values.append(None)
            reasons[index] = str(reason)
    return physical_array(values, kind), reasons


def listed(names: Sequence[str]) -> str:
    """``column a`` or ``columns a, b``."""
    return ("column " if len(names) == 1 else "columns ") + ", ".join(names)
