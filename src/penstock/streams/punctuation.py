"""Punctuations from Python values."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.events import Punctuation
from penstock.streams.literals import number_to_physical, physical_list
from penstock.streams.schema import Stream, type_name

LIMIT = 10**38
"""No type but the floats holds an integer this large."""


def to_punctuation(stream: Stream, value: object, attribute: str | None = None) -> Punctuation:
    """A promise on an attribute of a stream, its value converted to the attribute's type.

    Without an attribute it is on the declared time attribute; without that, on whatever attribute
    a query's window is on, if the value is a number, or on the only attribute that is a date or
    timestamp, if the value is one.

    >>> stream = Stream.of("R", pa.schema({"t": pa.timestamp("ms"), "x": pa.int32()}))
    >>> import datetime
    >>> to_punctuation(stream, datetime.datetime(1970, 1, 1, 0, 0, 2))
    Punctuation(stream='R', value=2000, attribute='t')
    """
    if value is None or value != value:
        raise InputError(
            f"a punctuation of stream {stream.name} cannot be {value}",
            "Give the value that no further tuple is below.",
        )
    attribute = attribute or stream.time
    if attribute is None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Punctuation(stream.name, _on_any_attribute(stream, value))
        moments = [f.name for f in stream.schema if _is_moment(f.type)]
        if len(moments) != 1:
            raise InputError(
                f"the punctuation {value!r} of stream {stream.name} is on no particular attribute",
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
        physical = _physical(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the punctuation {value!r} is no {type_name(field.type)}, which the attribute "
            f"{field.name} of stream {stream.name} is",
            f"Write a value of the type {type_name(field.type)}.",
        ) from error
    return Punctuation(stream.name, physical, field.name)


def _on_any_attribute(stream: Stream, value: int | float) -> int | float:
    """A number that some attribute may have; which one is for each query to say."""
    if math.isinf(value) if isinstance(value, float) else abs(value) >= LIMIT:
        raise InputError(
            f"a punctuation of stream {stream.name} cannot be {value}",
            "Give a value that tuples may have, or end the stream if no further one comes.",
        )
    return value


def _physical(value: object, kind: pa.DataType) -> object:
    """The value in the attribute's type; an exception says that it is none of it."""
    if not isinstance(value, int) or isinstance(value, bool):
        given: Any = [value]
        return physical_list(pa.array(given).cast(kind))[0]
    if not _is_moment(kind):
        return number_to_physical(value, kind, "")
    bits = 32 if pa.types.is_date32(kind) else 64
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
