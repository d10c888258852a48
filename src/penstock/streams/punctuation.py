"""Punctuations from Python values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams.events import Punctuation
from penstock.streams.literals import physical_list
from penstock.streams.schema import Stream, type_name


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
            return Punctuation(stream.name, value)
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
    if isinstance(value, int) and not isinstance(value, bool) and _is_moment(field.type):
        return Punctuation(stream.name, value, field.name)
    given: Any = [value]
    try:
        physical = physical_list(pa.array(given).cast(field.type))[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the punctuation {value!r} is no {type_name(field.type)}, which the attribute "
            f"{field.name} of stream {stream.name} is",
            f"Write a value of the type {type_name(field.type)}.",
        ) from error
    return Punctuation(stream.name, physical, field.name)


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
