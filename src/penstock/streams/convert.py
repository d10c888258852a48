"""Converts pushed data into tuples of a stream: Arrow, pandas, Polars, or a list of dicts.

Columns are matched by name and cast in bulk. A batch is read value by value only if one of its
values does not fit; the rows with such values become dead letters at their place in the order.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InputError, printable
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
    columns_text,
    convert_literals,
    literal_of,
    plain_value,
    python_to_array,
)
from penstock.streams.schema import LEFT_OUT, USUAL, Stream, is_text, normal_type, type_name

SourceEvent = Tuples | Malformed
Converted = tuple[Any, dict[int, str]]
"""An array, and a reason for each value that does not fit its type (and is NULL)."""


class ArrowStream(Protocol):
    """Data that exports its columns as Arrow: Polars, DuckDB, pyarrow and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Frame(Protocol):
    """A pandas DataFrame."""

    @property
    def iloc(self) -> Any: ...

    @property
    def columns(self) -> Any: ...


PushData = (
    pa.Table
    | pa.RecordBatch
    | pa.RecordBatchReader
    | ArrowStream
    | Frame
    | Sequence[Mapping[str, object]]
)
"""Data that can be pushed: Arrow, pandas and Polars DataFrames, a list of dicts."""


def to_batches(stream: Stream, data: object, dictionaries: bool = False) -> list[SourceEvent]:
    """The tuples of ``data`` in order, and a dead letter for each row that does not fit.

    With ``dictionaries``, dictionary-encoded strings and binaries stay encoded.

    ``data`` is a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, anything else with
    ``__arrow_c_stream__``, or a list of dicts (a missing key is NULL). Nothing is copied where the
    types are already the stream's.

    >>> to_batches(Stream.of("R", pa.schema({"x": pa.int8()})), [{"x": 300}])
    [Malformed(stream='R', text='300', reason='column x: 300 does not fit int8')]
    """
    if isinstance(data, (list, tuple)):
        return _rows_to_events(stream, data)
    whole = _as_declared(stream, data)
    if whole is not None:
        return [Tuples(stream.name, batch) for batch in whole]
    if _is_frame(data):
        names = match_columns(stream, _names_of(data), "the data", extra=True)
        table, left_out = _frame_to_table(data, names, stream.schema)
        for name, why in left_out.items():
            raise InputError(
                f"column {name} of the data for stream {stream.name} {why}",
                "Give every column one type, or push a list of dicts.",
            )
    else:
        table = to_table(stream.name, data)
        names = match_columns(stream, table.column_names, "the data", extra=True)
        table = table.select(names)
    check_types(stream, table.schema, "the data")
    events: list[SourceEvent] = []
    for batch in table.to_batches():
        events.extend(batch_to_events(stream, batch, dictionaries))
    return events


def _as_declared(stream: Stream, data: object) -> list[pa.RecordBatch] | None:
    """The batches of Arrow data that has the stream's own schema and is valid; else None."""
    if not isinstance(data, (pa.RecordBatch, pa.Table)):
        return None
    if not data.schema.equals(stream.schema, check_metadata=True):
        return None
    try:
        data.validate(full=True)
    except pa.ArrowInvalid:
        return None
    batches = [data] if isinstance(data, pa.RecordBatch) else data.to_batches()
    return [batch for batch in batches if batch.num_rows]


def columns_and_left_out(name: str, data: object) -> tuple[pa.Table, dict[str, str]]:
    """Data for the stream ``name`` as an Arrow table, and the columns left out for lack of a type.

    Each of these has a reason, phrased to follow the column's name in an error.
    """
    if _is_frame(data):
        return _frame_to_table(data, _names_of(data))
    if not isinstance(data, (list, tuple)):
        return to_table(name, data), {}
    keys: dict[str, None] = {}
    for index, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise InputError(
                f"row {index} of the data for stream {name} is {type(row).__name__}, not a dict",
                "Give dicts with the names of the columns as keys.",
            )
        keys.update(dict.fromkeys(map(str, row)))
    if not keys:
        raise InputError(
            f"the data for stream {name} has no columns",
            "Declare the stream in the query: CREATE STREAM name (column type, ...);",
        )
    return _arrays({key: [row.get(key) for row in data] for key in keys}, _infer_array)


def _arrays(columns: Mapping[str, Any], read: Any) -> tuple[pa.Table, dict[str, str]]:
    """A table of the columns that can be read, and a reason for each of the others."""
    arrays: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, values in columns.items():
        try:
            name.encode()
            arrays[name] = read(values)
        except UnicodeEncodeError:
            left_out[printable(name)] = "has half of a character in its name or in a value"
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            usual = usual_type(values)
            left_out[name] = f"cannot be read as one type ({str(error).splitlines()[0]})"
            if usual is not None:
                left_out[name] = (
                    f"has values of several types: most are {type_name(usual[0])}, and {usual[1]} "
                    "is not"
                )
    return pa.table(arrays), left_out


def usual_type(values: Any) -> tuple[pa.DataType, str] | None:
    """The type of most values of a column, and the first value of another type, or None.

    >>> usual_type([1, "seven", None, 3])
    (DataType(int64), "'seven'")
    >>> usual_type(["seven", "eight", 10**5000])
    (DataType(string), 'an integer of more than 4,300 digits')
    """
    groups: dict[type, list[Any]] = {}
    try:
        plain = [value for value in map(plain_value, values) if value is not None]
        for value in plain:
            groups.setdefault(type(value), []).append(value)
        if int in groups and float in groups:
            groups[float] += groups.pop(int)
        most = max(groups.values(), key=len)
        kind = normal_type(pa.array(most).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    types = {type(value) for value in most}
    other = next((value for value in plain if type(value) not in types), None)
    return None if kind is None or other is None else (kind, _shown(other))


def _shown(value: object) -> str:
    """A value as text, cut if it is long."""
    try:
        return printable(reprlib.repr(value))
    except ValueError:  # Python does not write out an integer this long
        return "an integer of more than 4,300 digits"


def left_out_fields(rows: Sequence[Any], left_out: Mapping[str, str]) -> list[pa.Field[Any]]:
    """Fields for the columns that are left out; metadata has the reason and the usual type."""
    fields: list[pa.Field[Any]] = []
    for name, why in left_out.items():
        usual = usual_type([row.get(name) for row in rows])
        metadata = {LEFT_OUT: why, USUAL: "" if usual is None else type_name(usual[0])}
        fields.append(pa.field(name, pa.null(), metadata=metadata))
    return fields


def _infer_array(values: list[object]) -> Any:
    """A column of Python values, in the type that Arrow infers.

    Arrow gets values of Python's own types only: it crashes on some mixtures of others.
    """
    return pa.array([plain_value(value) for value in values])


def _infer_pandas_array(values: list[object]) -> Any:
    """A pandas column of objects, in the type that Arrow infers. NaN among non-numbers is NULL."""
    plain = [plain_value(value) for value in values]
    if not all(v is None or isinstance(v, (int, float)) for v in plain):
        plain = [None if isinstance(v, float) and v != v else v for v in plain]
    return pa.array(plain)


def _is_frame(data: object) -> bool:
    """Whether the data is a pandas or Polars DataFrame."""
    package = type(data).__module__.partition(".")[0]
    marks = {"pandas": "iloc", "polars": "get_column"}
    return package in marks and hasattr(data, marks[package]) and hasattr(data, "columns")


def _names_of(frame: Any) -> list[str]:
    return [str(name) for name in frame.columns]


def _frame_to_table(
    data: Any, names: Sequence[str], schema: pa.Schema | None = None
) -> tuple[pa.Table, dict[str, str]]:
    """A frame's columns as an Arrow table; ``schema`` has the stream's types, in their order.

    Each column is converted by itself, whatever the others hold. NaN stays NaN; where the stream's
    type has no NaN, it is pandas' mark for a missing value and becomes NULL.
    """
    if hasattr(data, "get_columns"):
        return _arrays({name: data.get_column(name) for name in names}, _polars_column)
    known = _names_of(data)
    columns = {name: data.iloc[:, known.index(name)] for name in names}
    table, left_out = _arrays(columns, _pandas_column)
    kinds = {} if schema is None else dict(zip(names, schema.types, strict=True))
    for place, name in enumerate(table.column_names):
        kind = kinds.get(name)
        column = table.column(place)
        if kind is None or pa.types.is_floating(kind) or not pa.types.is_floating(column.type):
            continue
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        table = table.set_column(place, name, column)
    return table, left_out


def _polars_column(series: Any) -> Any:
    if str(series.dtype) == "Object":
        raise TypeError("Python objects")
    return pa.chunked_array(series)


def _pandas_column(series: Any) -> Any:
    dtype = series.dtype
    if getattr(dtype, "kind", "") == "f" and isinstance(dtype, np.dtype):
        return pa.array(series.to_numpy(), from_pandas=False)
    words = getattr(dtype, "categories", series)
    if getattr(words.dtype, "kind", "") == "O" and not all(isinstance(w, str) for w in words):
        return _infer_pandas_array(series.tolist())
    return pa.Table.from_pandas(series.to_frame("x"), preserve_index=False).column(0)


def to_table(name: str, data: object) -> pa.Table:
    """Data for the stream ``name`` as an Arrow table, in its own types."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
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
    """The names that match the stream's columns, compared without regard to case.

    A missing column is an InputError. So is an unknown one, unless ``extra`` columns are ignored.
    """
    by_lower: dict[str, list[str]] = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    wanted = [name.lower() for name in stream.schema.names]
    missing = [name for name in stream.schema.names if name.lower() not in by_lower]
    ignored = {*wanted, *(name.lower() for name, _ in stream.left_out)}
    unknown = [name for name in names if name.lower() not in ignored]
    unknown = unknown if missing or not extra else []
    twice = [name for name in stream.schema.names if len(by_lower.get(name.lower(), ())) > 1]
    problems = [
        f"{what} {columns_text(found)}"
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
    """Refuse columns whose type cannot be converted to the stream's; ``schema`` is in its order."""
    for field, found in zip(stream.schema, schema, strict=True):
        if not _convertible(found.type, field.type):
            raise InputError(
                f"column {field.name} of stream {stream.name} is {type_name(field.type)}, "
                f"and {source} has {type_name(found.type)} there",
                f"Cast the column to {type_name(field.type)} first.",
            )


def _convertible(source: Any, target: Any) -> bool:
    types = pa.types
    if types.is_dictionary(source) or types.is_run_end_encoded(source):
        return _convertible(source.value_type, target)
    if isinstance(source, pa.BaseExtensionType):
        return _convertible(source.storage_type, target)
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
        if types.is_date(target):
            return source.tz is None
        return bool(types.is_timestamp(target)) and (source.tz is None or target.tz is not None)
    return False


def batch_to_events(
    stream: Stream, batch: pa.RecordBatch, dictionaries: bool = False
) -> list[SourceEvent]:
    """The events of a batch that has the stream's columns and passed :func:`check_types`."""

    def convert(array: Any, kind: pa.DataType) -> Converted:
        stays = dictionaries and _stays_encoded(array, kind)
        return (array, {}) if stays else convert_array(array, kind)

    batch = _validate(stream, batch)
    arrays, bad = convert_columns(stream, batch.columns, convert)
    result = pa.RecordBatch.from_arrays(arrays, names=stream.schema.names)
    texts = {row: format_rows(_plain(batch.slice(row, 1)))[0] for row in bad}
    return cut_out(stream, result, bad, texts)


def _stays_encoded(array: Any, kind: pa.DataType) -> bool:
    """Whether an array is a dictionary of the right type without a NULL in the dictionary."""
    if not pa.types.is_dictionary(array.type) or not array.type.value_type.equals(kind):
        return False
    return is_text(kind) and not array.dictionary.null_count


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in types that literals are written for: no dictionaries, no variants of strings."""
    arrays = [_plain_array(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _validate(stream: Stream, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with string columns that are not UTF-8 viewed as binary.

    Values from outside are unchecked, and Arrow's functions are undefined on invalid ones.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        arrays = [
            _validated(stream, *column) for column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
    return batch


def _validated(stream: Stream, field: pa.Field[Any], array: Any) -> Any:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        kind, types = array.type, pa.types
        if "UTF8" in str(error) and (types.is_string(kind) or types.is_large_string(kind)):
            return array.view(pa.binary() if types.is_string(kind) else pa.large_binary())
        raise InputError(
            f"column {field.name} of the data for stream {stream.name} is damaged: "
            f"{str(error).splitlines()[0]}",
            "Make the data again; Arrow itself finds it invalid.",
        ) from error
    return array


def _plain_array(array: Any) -> Any:
    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_array(array.storage)
    if types.is_run_end_encoded(kind):
        return _plain_array(pc.call_function("run_end_decode", [array]))
    if types.is_dictionary(kind):
        # The dictionary first: Arrow cannot decode one of string views.
        words = _plain_array(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, words).dictionary_decode()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return array.cast(pa.string())
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return array.cast(pa.binary())
    if types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if types.is_date64(kind):
        return array.cast(pa.date32(), safe=False)
    return array.cast(pa.float32()) if types.is_float16(kind) else array


def convert_columns(
    stream: Stream, columns: Iterable[Any], convert: Callable[[Any, pa.DataType], Converted]
) -> tuple[list[pa.Array[Any]], dict[int, str]]:
    """The columns in the stream's types, and by row why the first value that does not fit fails."""
    arrays: list[pa.Array[Any]] = []
    bad: dict[int, str] = {}
    for column, field in zip(columns, stream.schema, strict=True):
        array, reasons = convert(column, field.type)
        arrays.append(array)
        for row, reason in reasons.items():
            bad.setdefault(row, f"column {field.name}: {reason}")
    return arrays, bad


def cut_out(
    stream: Stream, batch: pa.RecordBatch, bad: Mapping[int, str], texts: Mapping[int, str]
) -> list[SourceEvent]:
    """The batch with its bad rows replaced by dead letters, at their places."""
    events: list[SourceEvent] = []
    start = 0
    for row in sorted(bad):
        if row > start:
            events.append(Tuples(stream.name, batch.slice(start, row - start)))
        events.append(Malformed(stream.name, texts[row], bad[row]))
        start = row + 1
    if start < batch.num_rows:
        events.append(Tuples(stream.name, batch.slice(start) if start else batch))
    return events


def convert_array(array: Any, kind: pa.DataType) -> Converted:
    """The array in type ``kind``."""
    if array.type.equals(kind):
        return array, {}
    array = _plain_array(array)
    bulk = _convert_all(array, kind)
    if bulk is not None:
        return bulk, {}
    if pa.types.is_binary(array.type):
        literals = [_bytes_literal(value) for value in array.to_pylist()]
    else:
        literals = [parse_values(text)[0] for text in format_array(array)]
    return convert_literals(literals, kind)


def _bytes_literal(value: bytes | None) -> ParsedLiteral:
    if value is None:
        return ParsedLiteral("null", None, "NULL")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ParsedLiteral("binary", value, format_value(value, pa.binary()))
    return ParsedLiteral("string", text, format_value(text, pa.string()))


def _convert_all(array: Any, kind: pa.DataType) -> pa.Array[Any] | None:
    """The whole array cast, or None if the cast may have changed a value."""
    source, types = array.type, pa.types
    if source.equals(kind):
        return array  # type: ignore[no-any-return]
    rounds = types.is_floating(kind) and not types.is_null(source)
    if types.is_decimal(source) and not _rescales(source, kind):
        return None
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


def _rescales(source: Any, kind: Any) -> bool:
    """Whether Arrow can cast these decimals exactly: its tables of powers of ten are limited."""
    if not 0 <= source.scale <= source.precision:
        return False
    return not pa.types.is_decimal(kind) or source.precision - source.scale + kind.scale <= 38


def _overflowed(array: Any, result: Any) -> bool:
    infinite = pc.is_inf(result)
    if not pc.any(infinite).as_py():
        return False
    if not pa.types.is_floating(array.type):
        return True
    return bool(pc.any(pc.and_not(infinite, pc.is_inf(array))).as_py())


def _rows_to_events(stream: Stream, rows: Sequence[object]) -> list[SourceEvent]:
    if not rows:
        return []
    columns, unknown = columns_of(stream, rows)
    arrays, bad = convert_columns(stream, columns, python_to_array)
    bad |= unknown
    texts = {row: ", ".join(literal_of(column[row]).text for column in columns) for row in bad}
    batch = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    return cut_out(stream, batch, bad, texts)
