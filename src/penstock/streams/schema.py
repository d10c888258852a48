"""What a stream is: a name, typed columns, and perhaps a time attribute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.clock import is_zone

TYPE_NAMES: dict[str, pa.DataType] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    **dict.fromkeys(("TINYINT", "INT8", "BYTE"), pa.int8()),
    **dict.fromkeys(("SMALLINT", "INT16", "SHORT"), pa.int16()),
    **dict.fromkeys(("INT", "INTEGER", "INT32"), pa.int32()),
    **dict.fromkeys(("BIGINT", "INT64", "LONG"), pa.int64()),
    **dict.fromkeys(("UTINYINT", "UINT8"), pa.uint8()),
    **dict.fromkeys(("USMALLINT", "UINT16"), pa.uint16()),
    **dict.fromkeys(("UINTEGER", "UINT32", "UINT"), pa.uint32()),
    **dict.fromkeys(("UBIGINT", "UINT64"), pa.uint64()),
    **dict.fromkeys(("FLOAT", "REAL", "FLOAT32"), pa.float32()),
    **dict.fromkeys(("DOUBLE", "FLOAT64", "DOUBLE PRECISION"), pa.float64()),
    **dict.fromkeys(("DECIMAL", "NUMERIC"), pa.decimal128(10, 0)),
    "DATE": pa.date32(),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ", "DATETIME"), pa.timestamp("us")),
    **dict.fromkeys(
        ("TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP WITH TIME ZONE"), pa.timestamp("us", "UTC")
    ),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT", "CHAR"), pa.string()),
    **dict.fromkeys(("BINARY", "BYTES", "BLOB", "VARBINARY"), pa.binary()),
}
"""The SQL and the Arrow names of the types, in upper case."""

TIMESTAMP_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
TYPE_HELP = (
    "Write one of: boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float, "
    "double, decimal(p, s), date, timestamp, timestamp(0|3|6|9), timestamp(6, 'zone'), string, "
    "binary."
)
ZONE_HELP = "Write a name of the IANA database, such as 'Europe/Berlin', or an offset: '+02:00'."


def parse_type(text: str) -> pa.DataType:
    """The Arrow type that a SQL or Arrow type name stands for.

    >>> parse_type("bigint"), parse_type("decimal(12, 2)"), parse_type("TIMESTAMP(3)")
    (DataType(int64), Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[ms]))
    """
    match = re.fullmatch(r"\s*([A-Za-z_0-9 ]+?)\s*(?:\(([^)]*)\))?\s*", text)
    name = re.sub(r"\s+", " ", match[1]).upper() if match else ""
    if match is None or name not in TYPE_NAMES:
        raise InputError(f"unknown type {text.strip()!r}", TYPE_HELP)
    base = TYPE_NAMES[name]
    if match[2] is None:
        return base
    parameters = [part.strip().strip("'\"") for part in match[2].split(",")]
    if pa.types.is_decimal(base) and len(parameters) <= 2 and all(map(str.isdigit, parameters)):
        precision, scale = int(parameters[0]), int(parameters[1]) if len(parameters) > 1 else 0
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if pa.types.is_timestamp(base) and parameters[0] in TIMESTAMP_UNITS and len(parameters) <= 2:
        unit: Any = TIMESTAMP_UNITS[parameters[0]]
        if len(parameters) > 1 and not is_zone(parameters[1]):
            raise InputError(f"unknown time zone {parameters[1]!r}", ZONE_HELP)
        zoned: pa.DataType = pa.timestamp(unit, parameters[1] if len(parameters) > 1 else base.tz)
        return zoned
    if pa.types.is_string(base) and len(parameters) == 1 and parameters[0].isdigit():
        return base
    raise InputError(f"unknown type {text.strip()!r}", TYPE_HELP)


def type_name(kind: pa.DataType) -> str:
    """The name to write for an Arrow type; the inverse of :func:`parse_type`.

    >>> type_name(pa.timestamp("ms")), type_name(pa.decimal128(12, 2)), type_name(pa.float32())
    ('timestamp(3)', 'decimal(12, 2)', 'float')
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        digits = {unit: digits for digits, unit in TIMESTAMP_UNITS.items()}[kind.unit]
        if kind.tz is not None:
            return f"timestamp({digits}, '{kind.tz}')"
        return "timestamp" if kind.unit == "us" else f"timestamp({digits})"
    if pa.types.is_duration(kind):
        return "interval"
    names = {"bool": "boolean", "date32[day]": "date", "halffloat": "float16"}
    return names.get(str(kind), str(kind))


def describe(schema: pa.Schema) -> str:
    """The columns of a schema, as one would declare them.

    >>> describe(pa.schema({"id": pa.int64(), "x": pa.float32()}))
    '(id int64, x float)'
    """
    return "(" + ", ".join(f"{f.name} {type_name(f.type)}" for f in schema) + ")"


def normal_type(kind: pa.DataType) -> pa.DataType | None:
    """The type Penstock keeps a column of Arrow type ``kind`` in, or None if it has none."""
    if pa.types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if (
        pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return pa.binary()
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    plain = (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )
    return kind if plain else None


def is_time_type(kind: pa.DataType) -> bool:
    """Whether a column of this type can tell the time of a tuple."""
    types = pa.types
    whole = types.is_integer(kind) and not types.is_uint64(kind)
    short = types.is_decimal(kind) and kind.precision <= 18
    moment = types.is_date(kind) or types.is_timestamp(kind)
    return bool(whole or types.is_floating(kind) or short or moment)


TIME_TYPES = (
    "Use an integer up to int64, a float, a decimal of at most 18 digits, a date or a timestamp."
)


def _check_time(name: str, fields: list[pa.Field[Any]], time: str) -> None:
    """Refuse a time attribute that is not there, or whose values are no times."""
    field = next((field for field in fields if field.name.lower() == time.lower()), None)
    if field is None:
        raise InputError(
            f"stream {name} has no column {time!r} to be its time attribute",
            f"Write TIMESTAMP BY one of: {', '.join(field.name for field in fields)}.",
        )
    if not is_time_type(field.type):
        raise InputError(
            f"column {field.name} of {name} is {type_name(field.type)} and cannot be a time "
            "attribute",
            TIME_TYPES,
        )


@dataclass(frozen=True)
class Stream:
    """A stream's name and columns.

    Parameters
    ----------
    name
        As written in ``FROM``; names are compared without regard to case.
    schema
        The columns, in Penstock's types (:func:`normal_type`).
    time
        The declared time attribute (``TIMESTAMP BY``), if there is one.
    bounded
        Whether the stream is known to end, so that ``[UNBOUNDED]`` may be asked of it.
    derived
        Whether its tuples are the rows of a query, so that it has no declaration.
    slack
        By how many seconds ``time`` may be out of order, where a window clause has no SLACK.

    >>> Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int32()}))
    Stream R (id int64, x int32)
    """

    name: str
    schema: pa.Schema
    time: str | None = None
    bounded: bool = False
    derived: bool = False
    slack: Fraction | None = None

    @classmethod
    def of(
        cls,
        name: str,
        schema: pa.Schema,
        time: str | None = None,
        bounded: bool = False,
        derived: bool = False,
    ) -> Stream:
        """Check and normalise: unknown types and zones and repeated names are errors."""
        fields: list[pa.Field[Any]] = []
        seen: set[str] = set()
        for field in schema:
            kind = normal_type(field.type)
            if kind is None:
                raise InputError(
                    f"column {field.name!r} of stream {name} has the type {field.type}, "
                    "which Penstock does not have",
                    "Leave the column out, or cast it to a type Penstock has. " + TYPE_HELP,
                )
            if pa.types.is_timestamp(kind) and kind.tz is not None and not is_zone(kind.tz):
                raise InputError(
                    f"column {field.name!r} of stream {name} has the unknown time zone {kind.tz!r}",
                    ZONE_HELP,
                )
            if field.name.lower() in seen:
                raise InputError(
                    f"stream {name} has two columns named {field.name!r}",
                    "Rename one of them; names are compared without regard to case.",
                )
            seen.add(field.name.lower())
            fields.append(pa.field(field.name, kind))
        if time is not None:
            _check_time(name, fields, time)
        return cls(name, pa.schema(fields), time, bounded, derived)

    def __repr__(self) -> str:
        time = f" TIMESTAMP BY {self.time}" if self.time else ""
        return f"Stream {self.name} {describe(self.schema)}{time}"

    def index_of(self, column: str) -> int | None:
        """The position of a column, or None; without regard to case."""
        for index, name in enumerate(self.schema.names):
            if name.lower() == column.lower():
                return index
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are strings or binaries, of any length."""
    return pa.types.is_string(kind) or pa.types.is_binary(kind)
