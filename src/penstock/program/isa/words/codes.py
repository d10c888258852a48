"""Codes of operators and types, and constants as bits of the field ``value``."""

from __future__ import annotations

import struct

import pyarrow as pa
from pyarrow import types as arrow

from penstock.program.isa.values import constant_from, name_of_type, type_of_name
from penstock.sql.expressions import COMPARISONS, Literal

OPERATORS = ("eq", "ne", "lt", "le", "gt", "ge", "is_null", "is_not_null")
"""The operators of comparisons, by their bits; the first six compare with a value."""
FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The operator with its sides exchanged."""
TYPES = (
    "boolean",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float",
    "double",
    "date",
    "interval",
    "timestamp(0)",
    "timestamp(3)",
    "timestamp",
    "timestamp(9)",
    "string",
    "binary",
)
"""The types that a field ``type`` can say, by their bits. Any other is said by a table."""
_CODES = {name: code for code, name in enumerate(TYPES)}
_FLOATS: dict[pa.DataType, tuple[str, int]] = {pa.float32(): (">f", 32), pa.float64(): (">d", 64)}

assert set(OPERATORS[:6]) == COMPARISONS == set(FLIPPED)


def type_code(kind: pa.DataType) -> int | None:
    """The bits of a type; None: it has none."""
    return _CODES.get(name_of_type(kind))


def type_of_code(code: int) -> pa.DataType:
    """The type of these bits."""
    kind = type_of_name(TYPES[code])
    assert kind is not None
    return kind


def value_bits(constant: Literal, width: int) -> int | None:
    """A constant as that many bits; None: it does not fit them.

    Numbers, dates and times are in two's complement, floats in IEEE 754.

    >>> value_bits(Literal(-1, pa.int64()), 8), value_bits(Literal(200, pa.int64()), 8)
    (255, None)
    """
    kind, value = constant.type, constant.value
    if value is None:
        return None
    if isinstance(value, float):
        form, bits = _FLOATS[kind]
        if bits > width:
            return None
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            return None
        # A constant that the type cannot hold exactly is one all the same.
        same = repr(struct.unpack(form, packed)[0]) == repr(value)
        return int.from_bytes(packed) if same else None
    if not isinstance(value, int):
        return None
    least = -(1 << (width - 1)) if _is_signed(kind) else 0
    return value & ((1 << width) - 1) if least <= value < least + (1 << width) else None


def constant_of_bits(bits: int, kind: pa.DataType, width: int) -> Literal:
    """The constant of that type; a ValueError says what was expected."""
    if kind in _FLOATS:
        form, size = _FLOATS[kind]
        if size > width:
            raise ValueError(f"a type of at most {width} bits")
        if bits >> size:
            raise ValueError(f"{width - size} zeros before the {size} bits of a {kind}")
        value = struct.unpack(form, bits.to_bytes(size // 8))[0]
        return Literal(value, kind)
    if arrow.is_boolean(kind):
        if bits > 1:
            raise ValueError("0 or 1")
        return Literal(bool(bits), kind)
    if arrow.is_string(kind) or arrow.is_binary(kind):
        raise ValueError("a type of numbers or times")
    if _is_signed(kind) and bits >> (width - 1):
        bits -= 1 << width
    return Literal(constant_from(bits, kind), kind)


def _is_signed(kind: pa.DataType) -> bool:
    return not (arrow.is_boolean(kind) or arrow.is_unsigned_integer(kind))
