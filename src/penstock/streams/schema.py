"""A stream's schema: its name, typed columns, and optional time attribute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from penstock.errors import InputError, named
from penstock.streams.clock import is_zone
from penstock.streams.display import html_line, html_table
from penstock.streams.lead import Lead, lead_from_python, lead_text

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
"""SQL and Arrow names of the types, in upper case."""

TIMESTAMP_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
TYPE_HELP = (
    "Write one of: boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float, "
    "double, decimal(p, s), date, timestamp, timestamp(0|3|6|9), timestamp(6, 'zone'), string, "
    "binary."
)
# Metadata of the field of a column that is left out: the reason, and the usual type of its values.
LEFT_OUT = b"left out"
USUAL = b"usual type"

ZONE_HELP = "Write a name of the IANA database, such as 'Europe/Berlin', or an offset: '+02:00'."


def parse_type(text: str) -> pa.DataType:
    """The Arrow type for a SQL or Arrow type name.

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
    if pa.types.is_decimal(base) and re.fullmatch("[0-9]{1,9}(,[0-9]{1,9})?", ",".join(parameters)):
        precision, scale = int(parameters[0]), int(parameters[1]) if len(parameters) > 1 else 0
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if pa.types.is_timestamp(base) and parameters[0] in TIMESTAMP_UNITS and len(parameters) <= 2:
        unit: Any = TIMESTAMP_UNITS[parameters[0]]
        if len(parameters) > 1 and not is_zone(parameters[1]):
            raise InputError(f"unknown time zone {parameters[1]!r}", ZONE_HELP)
        zoned: pa.DataType = pa.timestamp(unit, parameters[1] if len(parameters) > 1 else base.tz)
        return zoned
    if pa.types.is_string(base) and len(parameters) == 1 and re.fullmatch("[0-9]+", parameters[0]):
        return base
    raise InputError(f"unknown type {text.strip()!r}", TYPE_HELP)


def type_name(kind: pa.DataType) -> str:
    """The type name for an Arrow type; the inverse of :func:`parse_type`.

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
    """The columns of a schema, as in a declaration.

    >>> describe(pa.schema({"id": pa.int64(), "x": pa.float32()}))
    '(id int64, x float)'
    """
    return "(" + ", ".join(f"{f.name} {type_name(f.type)}" for f in schema) + ")"


def normal_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which Penstock stores a column of Arrow type ``kind``, or None if it has none."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return normal_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return normal_type(kind.storage_type)
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
    """Whether a column of this type can be a time attribute."""
    types = pa.types
    whole = types.is_integer(kind) and not types.is_uint64(kind)
    short = types.is_decimal(kind) and kind.precision <= 18
    moment = types.is_date(kind) or types.is_timestamp(kind)
    return bool(whole or types.is_floating(kind) or short or moment)


TIME_TYPES = (
    "Use an integer up to int64, a float, a decimal of at most 18 digits, a date or a timestamp."
)


def _check_time(name: str, fields: list[pa.Field[Any]], time: str) -> None:
    """Refuse a time attribute that does not exist or has no time type."""
    wanted = named("column", time).lower()
    field = next((field for field in fields if field.name.lower() == wanted), None)
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


def _checked_lead(name: str, fields: list[pa.Field[Any]], time: str | None, lead: Lead) -> Fraction:
    """The lead of a stream; an InputError if the stream has no time attribute."""
    if time is None:
        raise InputError(
            f"stream {name} has a MAX LEAD and no time attribute",
            "Declare the column that it is of: TIMESTAMP BY t MAX LEAD 1 HOUR, or time='t'.",
        )
    kind = next(field.type for field in fields if field.name.lower() == time.lower())
    return lead_from_python(lead, kind)


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
        Whether the stream ends, so that ``[UNBOUNDED]`` windows are allowed.
    derived
        Whether its tuples are the rows of a query; it then has no declaration.
    slack
        How many seconds ``time`` may be out of order, where a window clause has no SLACK.
    left_out
        Columns of its source that have no type in Penstock, which no query can read. Each has a
        reason, phrased to follow the column's name in an error.
    usual
        The type of most values, for left-out columns whose values have several types.
    max_lead
        How far ahead of its stream ``time`` may be: see :mod:`penstock.streams.lead`.

    >>> Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int32()}))
    Stream R (id int64, x int32)
    """

    name: str
    schema: pa.Schema
    time: str | None = None
    bounded: bool = False
    derived: bool = False
    slack: Fraction | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    usual: tuple[tuple[str, str], ...] = ()
    max_lead: Fraction | None = None

    @classmethod
    def of(
        cls,
        name: str,
        schema: pa.Schema,
        time: str | None = None,
        bounded: bool = False,
        derived: bool = False,
        max_lead: Lead | None = None,
    ) -> Stream:
        """A stream with normalised types. Unknown types and zones and repeated names are errors."""
        if not isinstance(schema, pa.Schema):
            raise InputError(
                f"the schema of stream {name} is {type(schema).__name__}",
                "Give a pyarrow Schema: pa.schema([('id', pa.int64())]).",
            )
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
        lead = None if max_lead is None else _checked_lead(name, fields, time, max_lead)
        return cls(name, pa.schema(fields), time, bounded, derived, max_lead=lead)

    @classmethod
    def of_columns(
        cls, name: str, schema: pa.Schema, left_out: Mapping[str, str] = MappingProxyType({})
    ) -> Stream:
        """A bounded stream of the columns that have a type in Penstock; the others are left out."""
        typed = [field for field in schema if normal_type(field.type) is not None]
        untyped = {
            field.name: (field.metadata or {}).get(LEFT_OUT, b"").decode()
            or f"has the type {field.type}, which Penstock does not have"
            for field in schema
            if normal_type(field.type) is None
        }
        without = tuple({**untyped, **left_out}.items())
        if without and not typed:
            raise InputError(
                f"stream {name} has no column that Penstock has a type for: column "
                f"{without[0][0]} {without[0][1]}",
                "Declare the stream, or give it a column of one of the types. " + TYPE_HELP,
            )
        usual = tuple(
            (field.name, (field.metadata or {})[USUAL].decode())
            for field in schema
            if (field.metadata or {}).get(USUAL)
        )
        found = cls.of(name, pa.schema(typed), bounded=True)
        return replace(found, left_out=without, usual=usual)

    def __repr__(self) -> str:
        time = f" TIMESTAMP BY {self.time}" if self.time else ""
        lead = "" if self.max_lead is None else f" {self.lead_clause}"
        return f"Stream {self.name} {describe(self.schema)}{time}{lead}"

    @property
    def lead_clause(self) -> str:
        """The stream's ``MAX LEAD`` clause, such as ``MAX LEAD 1 HOUR``."""
        assert self.time is not None and self.max_lead is not None
        kind = self.schema.field(self.index_of(self.time) or 0).type
        return f"MAX LEAD {lead_text(self.max_lead, kind)}"

    def _repr_html_(self) -> str:
        rows = [
            (f.name, type_name(f.type), "time attribute" if f.name == self.time else "")
            for f in self.schema
        ]
        return html_line(f"Stream {self.name}") + html_table(("column", "type", ""), rows)

    def index_of(self, column: str) -> int | None:
        """The index of a column, or None; compared without regard to case."""
        return self._places.get(named("column", column).lower())

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each column by lower-case name; the first one if a name repeats."""
        names = enumerate(self.schema.names)
        return {name.lower(): index for index, name in reversed(list(names))}


def is_text(kind: pa.DataType) -> bool:
    """Whether the type is string or binary."""
    return pa.types.is_string(kind) or pa.types.is_binary(kind)
