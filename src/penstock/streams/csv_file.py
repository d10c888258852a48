"""Read CSV with a header. An empty field is NULL, a quoted empty one the empty string.

Fields are read as bytes and converted here, so that a field that does not fit costs its own row
and not the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.streams.convert import Converted, cut_out, match_columns
from penstock.streams.csv_quotes import WatchedFile
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import (
    format_array,
    format_value,
    moment_to_date,
    moment_to_timestamp,
    number_to_physical,
    physical_array,
)
from penstock.streams.schema import Stream, type_name

BLOCK_BYTES = 1 << 21
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})


class _InvalidRows:
    """Collects the records with too few or too many fields."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def __call__(self, row: Any) -> Literal["skip", "error"]:
        self.found.append(row)
        return "skip"


@contextmanager
def _open(path: Path, types: dict[str, pa.DataType], invalid: _InvalidRows) -> Iterator[Any]:
    source: Any = pa.input_stream(str(path), compression="detect")
    watched = WatchedFile(path, source)
    try:
        with _reader(watched, types, invalid) as reader:
            try:
                yield reader
            finally:
                _finish(watched, reader)
    except pa.ArrowInvalid:
        # A value may be too long for Arrow just because its quote is not closed.
        watched.read_to_end(BLOCK_BYTES)
        raise


def _finish(watched: WatchedFile, reader: Any) -> None:
    """Let the reader come to an end, if nobody wants the rest of the file.

    It reads ahead in a thread of its own, which calls Python: if Python ended meanwhile, the whole
    process would be aborted.
    """
    watched.stop()
    with suppress(pa.ArrowException):
        for _ in reader:
            pass


def _reader(file: Any, types: dict[str, pa.DataType] | None, invalid: _InvalidRows) -> Any:
    return pacsv.open_csv(
        file,
        # One thread: only then do invalid rows come with their numbers.
        read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=invalid),
        convert_options=pacsv.ConvertOptions(
            column_types=types,
            include_columns=list(types) if types else None,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def schema(path: Path) -> pa.Schema:
    """The columns of the header, with types inferred from the file's first block."""
    found = _inferred(path)
    fields = [
        pa.field(
            f.name, pa.string() if pa.types.is_null(f.type) or pa.types.is_time(f.type) else f.type
        )
        for f in found
    ]
    return pa.schema(fields)


def _inferred(path: Path) -> pa.Schema:
    """The columns as Arrow sees them in the first block; what follows it is not parsed."""
    source: Any = pa.input_stream(str(path), compression="detect")
    watched = WatchedFile(path, source)
    head = b""
    try:
        while len(head) < 2 * BLOCK_BYTES and (piece := watched.read(BLOCK_BYTES)):
            head += piece
        # From memory, since a reader reads ahead in a thread of its own.
        with _reader(pa.BufferReader(head), None, _InvalidRows()) as reader:
            found: pa.Schema = reader.schema
    except pa.ArrowInvalid:
        watched.read_to_end(BLOCK_BYTES)  # as in _open
        raise
    finally:
        watched.close()
    return found


def read(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, Converted]]:
    """The file's events, each with the row (from 1, the header not counted) it begins at."""
    del batch_rows  # pyarrow cuts CSV by bytes
    names = match_columns(stream, _inferred(path).names, str(path), extra=declared)
    invalid = _InvalidRows()
    row, reported = 1, 0
    with _open(path, dict.fromkeys(names, pa.binary()), invalid) as reader:
        for batch in reader:
            start = 0
            # An invalid row is known as soon as its block is parsed, before the rows after it.
            while reported < len(invalid.found):
                before = invalid.found[reported].number - 1 - row
                if before > batch.num_rows - start:
                    break
                yield from _numbered(row, _events(stream, batch.slice(start, before)))
                start, row = start + before, row + before
                yield row, _malformed(stream, invalid.found[reported])
                row, reported = row + 1, reported + 1
            yield from _numbered(row, _events(stream, batch.slice(start)))
            row += batch.num_rows - start
    for record in invalid.found[reported:]:
        yield record.number - 1, _malformed(stream, record)


def _numbered(row: int, events: list[Converted]) -> Iterator[tuple[int, Converted]]:
    for event in events:
        yield row, event
        row += len(event) if isinstance(event, Tuples) else 1


def _malformed(stream: Stream, record: Any) -> Malformed:
    text = format_value(str(record.text), pa.string())
    reason = f"the record has {record.actual_columns} fields, not {record.expected_columns}"
    return Malformed(stream.name, text, reason)


def _events(stream: Stream, batch: pa.RecordBatch) -> list[Converted]:
    if batch.num_rows == 0:
        return []
    arrays: list[pa.Array[Any]] = []
    bad: dict[int, str] = {}
    for array, field in zip(batch.columns, stream.schema, strict=True):
        converted, reasons = convert_fields(array, field.type)
        arrays.append(converted)
        for row, reason in reasons.items():
            bad.setdefault(row, f"column {field.name}: {reason}")
    result = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    texts = {row: _row_text(batch, result, row) for row in bad}
    return cut_out(stream, result, bad, texts)


def _row_text(fields: pa.RecordBatch, converted: pa.RecordBatch, row: int) -> str:
    cells: list[str] = []
    for raw, array in zip(fields.columns, converted.columns, strict=True):
        fits = array[row].is_valid or not raw[row].is_valid
        cells.append(format_array(array.slice(row, 1))[0] if fits else _shown(raw[row].as_py()))
    return ", ".join(cells)


def _shown(field: Any) -> str:
    try:
        return format_value(field.decode(), pa.string())
    except UnicodeDecodeError:
        return format_value(field, pa.binary())


def convert_fields(array: Any, kind: pa.DataType) -> tuple[pa.Array[Any], dict[int, str]]:
    """Fields as values of ``kind``, and the reason for each that does not fit (and is NULL)."""
    if pa.types.is_binary(kind):
        return array, {}
    try:
        text = array.cast(pa.string())
        result: Any = text if pa.types.is_string(kind) else text.cast(kind)
        if not pa.types.is_floating(kind) or not pc.any(pc.is_inf(result)).as_py():
            return result, {}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # some field is not written as Arrow reads it, or does not fit
    values: list[object] = []
    reasons: dict[int, str] = {}
    for index, field in enumerate(array.to_pylist()):
        try:
            values.append(None if field is None else _read_field(field, kind))
        except ValueError as reason:
            values.append(None)
            reasons[index] = str(reason)
    return physical_array(values, kind), reasons


def _read_field(field: bytes, kind: Any) -> object:
    shown = f"{_shown(field)} does not fit {type_name(kind)}"
    try:
        text = field.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{shown}: it is not UTF-8") from None
    word = text.strip()
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        if word.lower() not in TRUE_WORDS | FALSE_WORDS:
            raise ValueError(shown)
        return word.lower() in TRUE_WORDS
    try:
        if pa.types.is_date(kind):
            return moment_to_date(word, shown)
        if pa.types.is_timestamp(kind):
            return moment_to_timestamp(word, kind, shown)
    except ValueError:
        raise ValueError(shown) from None
    try:
        number: object = Decimal(word)
    except InvalidOperation:
        raise ValueError(shown) from None
    if pa.types.is_floating(kind) and not Decimal(word).is_finite():
        number = float(word)
    return number_to_physical(number, kind, shown)
