"""Builds punctuations from Python values."""

from __future__ import annotations

import math

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.events import Punctuation
from penstock.streams.literals import ParsedLiteral, parse_values, to_physical
from penstock.streams.rows import literal_of
from penstock.streams.schema import Stream, type_name

LIMIT = 10**38
"""An integer too large for every type but the floats."""


def to_punctuation(stream: Stream, value: object, attribute: str | None = None) -> Punctuation:
    """A punctuation on an attribute of a stream, its value converted to the attribute's type.

    Without ``attribute`` it is on the declared time attribute. Without that either: a number
    punctuates the attribute that a query's window is on, and a date or timestamp the only attribute
    of the stream with such a type.

    >>> stream = Stream.of("R", pa.schema({"t": pa.timestamp("ms"), "x": pa.int32()}))
    >>> import datetime
    >>> to_punctuation(stream, datetime.datetime(1970, 1, 1, 0, 0, 2))
    Punctuation(stream='R', value=2000, attribute='t')
    """
    literal = literal_of(value)
    shown = repr(value) if isinstance(value, float) else literal.text
    if literal.kind == "null" or (isinstance(value, float) and value != value):
        raise InputError(
            f"a punctuation of stream {stream.name} cannot be {value}",
            "Give the value that no further tuple is below.",
        )
    attribute = attribute or stream.time
    if attribute is None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Punctuation(stream.name, _on_any_attribute(stream, value, shown))
        moments = [f.name for f in stream.schema if _is_moment(f.type)]
        if len(moments) != 1:
            raise InputError(
                f"the punctuation {shown} of stream {stream.name} is on no particular attribute",
                "Say which: punctuate(stream, value, attribute=...), or declare the stream's time "
                "attribute with TIMESTAMP BY.",
            )
        attribute = moments[0]
    index = stream.index_of(attribute)
    if index is None:
        raise InputError(
            f"stream {stream.name} has no attribute {attribute!r}",
            f"Punctuate one of: {', '.join(stream.schema.names)}.",
        )
    field = stream.schema.field(index)
    try:
        physical = _physical(value, literal, field.type)
    except ValueError as error:
        raise InputError(
            f"the punctuation {shown} is no {type_name(field.type)}, which the attribute "
            f"{field.name} of stream {stream.name} is",
            f"Write a value of the type {type_name(field.type)}.",
        ) from error
    return Punctuation(stream.name, physical, field.name)


def _on_any_attribute(stream: Stream, value: int | float, shown: str) -> int | float:
    """Check a number that punctuates no named attribute; each query applies it to its own."""
    if math.isinf(value) if isinstance(value, float) else abs(value) >= LIMIT:
        raise InputError(
            f"a punctuation of stream {stream.name} cannot be {shown}",
            "Give a value that tuples may have, or end the stream if no further one comes.",
        )
    return value


def _physical(value: object, literal: ParsedLiteral, kind: pa.DataType) -> object:
    """The value in the attribute's type; ValueError if it does not fit."""
    if isinstance(value, str) and not _is_moment(kind):
        (literal,) = parse_values(value)
    if not isinstance(value, int) or isinstance(value, bool) or not _is_moment(kind):
        return to_physical(literal, kind)
    bits = 32 if pa.types.is_date32(kind) else 64
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
