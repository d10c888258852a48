"""From what a user has to tuples of a stream: Arrow, pandas, Polars, or a list of dicts.

Columns are matched by name and cast in bulk. Only when a batch has a value that does not fit is it
read value by value; the rows with such values become dead letters at their place in the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InputError
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import (
    ParsedLiteral,
    format_array,
    format_rows,
    format_value,
    parse_values,
)
from penstock.streams.rows import (
    columns_of,
    convert_literals,
    listed,
    literal_of,
    python_to_array,
)
from penstock.streams.schema import Stream, is_text, type_name

Converted = Tuples | Malformed


def to_batches(stream: Stream, data: object, dictionaries: bool = False) -> list[Converted]:
    """The tuples of ``data`` in order, and a dead letter for each row that is none.

    With ``dictionaries``, strings and binaries that come dictionary-encoded stay so.

    ``data`` is a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, anything else with
    ``__arrow_c_stream__``, or a list of dicts (a missing key is NULL). Nothing is copied where the
    types are already the stream's.

    >>> to_batches(Stream.of("R", pa.schema({"x": pa.int8()})), [{"x": 300}])
    [Malformed(stream='R', text='300', reason='column x: 300 does not fit int8')]
    """
    if isinstance(data, (list, tuple)):
        return _rows_to_events(stream, data)
    table = to_table(stream.name, data)
    table = table.select(match_columns(stream, table.column_names, "the data"))
    check_types(stream, table.schema, "the data")
    events: list[Converted] = []
    for batch in table.to_batches():
        events.extend(batch_to_events(stream, batch, dictionaries))
    return events


def to_table(name: str, data: object) -> pa.Table:
    """Data for the stream ``name`` as an Arrow table, in the types it has."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    try:
        if type(data).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if isinstance(data, list):
            return pa.Table.from_pylist(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the data for stream {name} cannot be read as Arrow: {error}",
            "Give every column one type, or declare the stream and give a list of dicts.",
        ) from error
    raise InputError(
        f"stream {name} cannot take {type(data).__name__}",
        "Give a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, or a list of dicts.",
    )


def match_columns(
    stream: Stream, names: Sequence[str], source: str, extra: bool = False
) -> list[str]:
    """Which of the names stand for the stream's columns, without regard to case.

    Missing names are an InputError; so are unknown ones, unless ``extra`` is allowed.
    """
    by_lower: dict[str, list[str]] = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    wanted = [name.lower() for name in stream.schema.names]
    missing = [name for name in stream.schema.names if name.lower() not in by_lower]
    unknown = [] if extra else [name for name in names if name.lower() not in wanted]
    twice = [name for name in stream.schema.names if len(by_lower.get(name.lower(), ())) > 1]
    problems = [
        f"{what} {listed(found)}"
        for what, found in (("lacks", missing), ("has the unknown", unknown), ("has twice", twice))
        if found
    ]
    if problems:
        raise InputError(
            f"{source} for stream {stream.name} {', and '.join(problems)}",
            f"Its columns must be: {', '.join(stream.schema.names)}.",
        )
    return [by_lower[name][0] for name in wanted]


def check_types(stream: Stream, schema: pa.Schema, source: str) -> None:
    """Refuse columns whose type can never be made the stream's; ``schema`` is in its order."""
    for field, found in zip(stream.schema, schema, strict=True):
        if not _convertible(found.type, field.type):
            raise InputError(
                f"column {field.name} of stream {stream.name} is {type_name(field.type)}, "
                f"and {source} has {type_name(found.type)} there",
                f"Cast the column to {type_name(field.type)} first.",
            )


def _convertible(source: Any, target: Any) -> bool:
    types = pa.types
    if types.is_dictionary(source):
        return _convertible(source.value_type, target)
    if source.equals(target) or types.is_null(source):
        return True
    number = (types.is_integer, types.is_floating, types.is_decimal)
    text = (types.is_string, types.is_large_string, types.is_string_view)
    raw = (
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_binary_view,
    )
    if any(test(source) for test in number):
        return any(test(target) for test in number)
    if any(test(source) for test in text):
        readable = (types.is_string, types.is_binary, types.is_date, types.is_timestamp)
        return any(test(target) for test in readable)
    if any(test(source) for test in raw):
        return bool(types.is_binary(target) or types.is_string(target))
    if types.is_date(source):
        return bool(types.is_date(target) or types.is_timestamp(target))
    if types.is_timestamp(source):
        zone_lost = source.tz is not None and (types.is_date(target) or target.tz is None)
        return bool(types.is_timestamp(target) or types.is_date(target)) and not zone_lost
    return False


def batch_to_events(
    stream: Stream, batch: pa.RecordBatch, dictionaries: bool = False
) -> list[Converted]:
    """The events of a batch whose columns stand in the stream's order, by :func:`check_types`."""
    arrays: list[pa.Array[Any]] = []
    bad: dict[int, str] = {}
    for array, field in zip(batch.columns, stream.schema, strict=True):
        if dictionaries and _stays_encoded(array, field.type):
            arrays.append(array)
            continue
        converted, reasons = convert_array(array, field.type)
        arrays.append(converted)
        for row, reason in reasons.items():
            bad.setdefault(row, f"column {field.name}: {reason}")
    result = pa.RecordBatch.from_arrays(arrays, names=stream.schema.names)
    texts = {row: format_rows(_plain(batch.slice(row, 1)))[0] for row in bad}
    return cut_out(stream, result, bad, texts)


def _stays_encoded(array: Any, kind: pa.DataType) -> bool:
    """Whether an array is a dictionary of the right words; one that has NULL among them is not."""
    if not pa.types.is_dictionary(array.type) or not array.type.value_type.equals(kind):
        return False
    return is_text(kind) and not array.dictionary.null_count


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with dictionaries and the variants of strings made what literals are made of."""
    arrays = [_plain_array(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain_array(array: Any) -> Any:
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        return _plain_array(array.dictionary_decode())
    if types.is_large_string(kind) or types.is_string_view(kind):
        return array.cast(pa.string())
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return array.cast(pa.binary())
    if types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if types.is_date64(kind):
        return array.cast(pa.date32(), safe=False)
    return array.cast(pa.float32()) if types.is_float16(kind) else array


def cut_out(
    stream: Stream, batch: pa.RecordBatch, bad: Mapping[int, str], texts: Mapping[int, str]
) -> list[Converted]:
    """The batch with its bad rows replaced by dead letters, at their places."""
    events: list[Converted] = []
    start = 0
    for row in sorted(bad):
        if row > start:
            events.append(Tuples(stream.name, batch.slice(start, row - start)))
        events.append(Malformed(stream.name, texts[row], bad[row]))
        start = row + 1
    if start < batch.num_rows:
        events.append(Tuples(stream.name, batch.slice(start) if start else batch))
    return events


def convert_array(array: Any, kind: pa.DataType) -> tuple[pa.Array[Any], dict[int, str]]:
    """The array as one of ``kind``, and the reason for each that does not fit (and is NULL)."""
    if array.type.equals(kind):
        return array, {}
    array = _plain_array(array)
    bulk = _convert_all(array, kind)
    if bulk is not None:
        return bulk, {}
    if pa.types.is_binary(array.type):
        literals = [_decoded(value) for value in array.to_pylist()]
    else:
        literals = [parse_values(text)[0] for text in format_array(array)]
    return convert_literals(literals, kind)


def _decoded(value: bytes | None) -> ParsedLiteral:
    if value is None:
        return ParsedLiteral("null", None, "NULL")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ParsedLiteral("binary", value, format_value(value, pa.binary()))
    return ParsedLiteral("string", text, format_value(text, pa.string()))


def _convert_all(array: Any, kind: pa.DataType) -> pa.Array[Any] | None:
    """The whole array cast, or None if some value may not have come through as it was."""
    source, types = array.type, pa.types
    if source.equals(kind):
        return array  # type: ignore[no-any-return]
    rounds = types.is_floating(kind) and not types.is_null(source)
    try:
        result: Any = array.cast(kind, safe=not rounds)
        if types.is_float32(kind) and _overflowed(array, result):
            return None
        returns = types.is_decimal(kind) or types.is_date(kind)
        if returns and (types.is_floating(source) or types.is_timestamp(source)):
            same = pc.equal(result.cast(source, safe=False), array)
            return result if pc.all(same).as_py() in (True, None) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return result  # type: ignore[no-any-return]


def _overflowed(array: Any, result: Any) -> bool:
    infinite = pc.is_inf(result)
    if not pc.any(infinite).as_py():
        return False
    if not pa.types.is_floating(array.type):
        return True
    return bool(pc.any(pc.and_not(infinite, pc.is_inf(array))).as_py())


def _rows_to_events(stream: Stream, rows: Sequence[object]) -> list[Converted]:
    if not rows:
        return []
    columns, unknown = columns_of(stream, rows)
    arrays: list[pa.Array[Any]] = []
    bad: dict[int, str] = dict(unknown)
    for values, field in zip(columns, stream.schema, strict=True):
        array, reasons = python_to_array(values, field.type)
        arrays.append(array)
        for row, reason in reasons.items():
            bad.setdefault(row, f"column {field.name}: {reason}")
    texts = {row: ", ".join(literal_of(column[row]).text for column in columns) for row in bad}
    batch = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    return cut_out(stream, batch, bad, texts)
