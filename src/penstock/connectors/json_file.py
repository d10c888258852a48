"""JSON Lines files: one object per line. A missing key is NULL.

Arrow reads a block of lines. A block that it refuses is read again line by line, so that a bad
record becomes a dead letter and leaves the rest of the file alone.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from penstock.connectors.csv_file import type_of_texts
from penstock.errors import InputError, printable
from penstock.streams.convert import (
    Converted,
    SourceEvent,
    columns_and_left_out,
    convert_array,
    convert_columns,
    cut_out,
    left_out_fields,
)
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import format_value, read_number
from penstock.streams.rows import columns_of, columns_text, literal_of, python_to_array
from penstock.streams.schema import Stream
from penstock.tuning import TUNING

DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
SPECIAL_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class _Block:
    """Lines of a file without the blank ones; ``numbers`` are their line numbers, from 1.

    ``objects``: every line starts and ends like an object.
    """

    lines: list[bytes]
    numbers: list[int]
    objects: bool


def _blocks(path: Path) -> Iterator[_Block]:
    number = 1
    with pa.input_stream(str(path), compression="detect") as raw:
        reader = io.BufferedReader(raw, TUNING.json_block)  # type: ignore[type-var]
        while lines := reader.readlines(TUNING.json_block):
            not_blank = [
                (i, line, s) for i, line in enumerate(lines, number) if (s := line.strip())
            ]
            number += len(lines)
            if not_blank:
                numbers, whole, stripped = zip(*not_blank, strict=True)
                objects = all(s[0] == 123 and s[-1] == 125 for s in stripped)  # { and }
                yield _Block(list(whole), list(numbers), objects)


# Maps characters to digits and points, exponents, signs, or blanks. Searching the result is faster
# than a regular expression.
_SHAPES = bytes(
    ord("0") if c in b"0123456789." else ord("e") if c in b"eE" else ord("+") if c in b"+-" else 32
    for c in range(256)
)


def _has_far_decimals(data: bytes) -> bool:
    """Whether JSON text may contain a number with a large exponent or with many digits.

    Arrow's reader reads out of bounds when such a number becomes a decimal.
    """
    if b"\\u00" in data:  # an escape of any character
        return True
    shape = data.translate(_SHAPES)
    return b"0e00" in shape or b"0e+00" in shape or b"0" * 38 in shape


def _parse(block: _Block, schema: pa.Schema | None, extra: str) -> pa.Table | None:
    """Parse the block with Arrow; None if Arrow does not take it as one object per line."""
    # Arrow crashes on a file that begins with null, and counts other values as records.
    if not block.objects:
        return None
    data = b"".join(block.lines)
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    decimals = [] if schema is None else [k for k in schema.types if pa.types.is_decimal(k)]
    if decimals and _has_far_decimals(data):
        return None
    if any(kind.precision + kind.scale > 38 for kind in decimals):
        return None  # Arrow returns a wrong number for one that does not fit
    source: Any = pa.BufferReader(data)
    try:
        table = pajson.read_json(
            source,
            read_options=pajson.ReadOptions(block_size=len(data) + 1),
            parse_options=pajson.ParseOptions(
                explicit_schema=schema,
                unexpected_field_behavior=extra,  # type: ignore[arg-type]
            ),
        )
        table.validate(full=True)
    except (pa.ArrowException, ValueError):
        return None
    return table if table.num_rows == len(block.lines) else None


def _read(block: _Block, known: pa.Schema, stream: Stream, declared: bool) -> pa.Table | None:
    """Read the block with Arrow; None if one of its records must be read on its own."""
    json_schema = pa.schema([pa.field(f.name, _type_in_json(f.type)) for f in known])
    table = _parse(block, json_schema, "error")
    if table is None and declared and not _respelled(block, known):
        table = _parse(block, json_schema, "ignore")
    elif table is None and stream.left_out:
        table = _parse(block, json_schema, "infer")
        ignored = {*known.names, *(name for name, _ in stream.left_out)}
        if table is not None and not ignored.issuperset(table.column_names):
            return None
    if table is None:
        return None
    columns: list[pa.Array[Any]] = []
    for field in known:
        column, reasons = convert_array(_whole(table.column(field.name)), field.type)
        # A number beyond the range of a float is no error to Arrow.
        if reasons or (pa.types.is_floating(field.type) and pc.any(pc.is_inf(column)).as_py()):
            return None
        columns.append(column)
    return pa.table(columns, schema=known)


def _whole(column: Any) -> Any:
    """A column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _type_in_json(kind: pa.DataType) -> pa.DataType:
    """The type that JSON has for values of this type: dates, timestamps and bytes are strings."""
    types = pa.types
    text = types.is_date(kind) or types.is_timestamp(kind) or types.is_binary(kind)
    return pa.string() if text else kind


def _respelled(block: _Block, known: pa.Schema) -> bool:
    """Whether a record may spell a column differently, for example with a capital."""
    text = b"".join(block.lines).decode("utf-8", "replace")
    if "\\u" in text:
        return True
    spellings = re.compile(
        f'"({"|".join(map(re.escape, known.names))})"\\s*:', re.IGNORECASE
    ).findall(text)
    return not set(known.names).issuperset(spellings)


def schema(path: Path) -> pa.Schema | None:
    """The keys of the file's first block, with the types of their values; None without records.

    A string counts as a date or timestamp where it would in a CSV file.
    """
    for block in _blocks(path):
        left_out: list[pa.Field[Any]] = []
        table = _parse(block, None, "infer")
        if table is not None:
            # Arrow drops the time zone of what it takes for a timestamp.
            names = table.column_names
            texts = [f.with_type(pa.string()) for f in table.schema if _is_text(f.type)]
            table = _parse(block, pa.schema(texts), "infer")
            table = None if table is None else table.select(names)
        if table is None:
            records = [r for r in map(_loads, block.lines) if isinstance(r, dict)]
            table, reasons = _infer(path, records)
            left_out = left_out_fields(records, reasons)
        fields = [pa.field(n, _column_type(table.column(n))) for n in table.column_names]
        return pa.schema(fields + left_out)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_timestamp(kind)


def _column_type(column: Any) -> Any:
    if pa.types.is_null(column.type):
        return pa.string()
    if not pa.types.is_string(column.type):
        return column.type
    found = type_of_texts(text for text in column.to_pylist() if text is not None)
    return found if pa.types.is_date(found) or pa.types.is_timestamp(found) else pa.string()


def _infer(path: Path, records: list[dict[str, object]]) -> tuple[pa.Table, dict[str, str]]:
    if not records:
        raise pa.ArrowInvalid("its first lines are no JSON objects")
    return columns_and_left_out(str(path), records)


def _loads(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def read(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, SourceEvent]]:
    """Yield the file's events, each with the line at which it begins."""
    del batch_rows  # blocks are cut by bytes
    known: pa.Schema | None = None
    for block in _blocks(path):
        if known is None:
            known = _spelled(path, stream, block)
        table = _read(block, known, stream, declared)
        if table is None:
            yield from _one_by_one(stream, block, declared)
            continue
        columns = table.select(known.names).combine_chunks()
        for batch in columns.to_batches():
            renamed = pa.RecordBatch.from_arrays(batch.columns, schema=stream.schema)
            yield from _split(block, Tuples(stream.name, renamed))


def _split(block: _Block, tuples: Tuples) -> Iterator[tuple[int, SourceEvent]]:
    """Cut the tuples at blank lines, so that the rows of a part are consecutive lines."""
    start = 0
    for index in range(1, len(block.numbers)) if _has_gaps(block) else ():
        if block.numbers[index] != block.numbers[index - 1] + 1:
            yield block.numbers[start], _slice(tuples, start, index)
            start = index
    yield block.numbers[start], _slice(tuples, start, len(tuples))


def _has_gaps(block: _Block) -> bool:
    return block.numbers[-1] - block.numbers[0] + 1 != len(block.numbers)


def _slice(tuples: Tuples, start: int, end: int) -> Tuples:
    return Tuples(tuples.stream, tuples.batch.slice(start, end - start))


def _spelled(path: Path, stream: Stream, block: _Block) -> pa.Schema:
    """The stream's columns as the file spells them. A column that no record has is an error."""
    spelled: dict[str, str] = {}
    for line in block.lines:
        record = _loads(line)
        if isinstance(record, dict):
            for key in record:
                spelled.setdefault(key.lower(), key)
        if all(name.lower() in spelled for name in stream.schema.names):
            break
    missing = [name for name in stream.schema.names if name.lower() not in spelled]
    if missing:
        raise InputError(
            f"{path} for stream {stream.name} lacks {columns_text(missing)}",
            f"Its columns must be: {', '.join(stream.schema.names)}.",
        )
    return pa.schema([pa.field(spelled[f.name.lower()], f.type) for f in stream.schema])


def _one_by_one(stream: Stream, block: _Block, declared: bool) -> Iterator[tuple[int, SourceEvent]]:
    """Yield the block's events, parsed by Python's own parser."""
    records: list[dict[str, object]] = []
    bad: dict[int, str] = {}
    texts: dict[int, str] = {}
    for index, line in enumerate(block.lines):
        record, reason = _record(line)
        records.append(record)
        if reason:
            bad[index] = reason
            texts[index] = _shown(line)
    ignored = {name.lower() for name, _ in stream.left_out}
    if declared or ignored:
        records = [_known(stream, record, None if declared else ignored) for record in records]
    columns, unknown = columns_of(stream, records)
    arrays, unfit = convert_columns(stream, columns, _convert_values)
    bad = {**unknown, **unfit, **bad}
    for row in bad:
        texts.setdefault(row, ", ".join(literal_of(column[row]).text for column in columns))
    batch = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    index = 0
    for event in cut_out(stream, batch, bad, texts):
        if isinstance(event, Malformed):
            yield block.numbers[index], event
            index += 1
        else:
            rest = _Block([], block.numbers[index : index + len(event)], False)
            yield from _split(rest, event)
            index += len(event)


def _convert_values(values: list[Any], kind: pa.DataType) -> Converted:
    return python_to_array([_read_text(v, kind) if isinstance(v, str) else v for v in values], kind)


def _record(line: bytes) -> tuple[dict[str, object], str | None]:
    try:
        # Without the line break, so that an error at the end has a column of this line.
        record = json.loads(
            line.rstrip(b"\r\n"), parse_float=read_number, object_pairs_hook=_members
        )
    except _RepeatedKey as error:
        return {}, f"the record has the key {error} twice"
    except UnicodeDecodeError:
        return {}, "the record is not UTF-8"
    except json.JSONDecodeError as error:
        return {}, f"the record is not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError):
        return {}, "the record is not JSON that can be read"
    if not isinstance(record, dict):
        return {}, "the record is no JSON object"
    return record, None


class _RepeatedKey(Exception):
    """An object has the same key twice."""


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _RepeatedKey(printable(repr(twice)))
    return members


def _read_text(text: str, kind: pa.DataType) -> object:
    """The value that a JSON string stands for, in a column type that JSON does not have."""
    if pa.types.is_floating(kind):
        return SPECIAL_FLOATS.get(text, text)
    if pa.types.is_decimal(kind) and DECIMAL.fullmatch(text):
        return read_number(text)
    if pa.types.is_binary(kind):
        return text.encode("utf-8", "surrogatepass")
    return text


def _known(
    stream: Stream, record: dict[str, object], ignored: set[str] | None
) -> dict[str, object]:
    """The record without ignored keys: ``ignored``, or all unknown ones if that is None."""
    return {
        key: value
        for key, value in record.items()
        if stream.index_of(key) is not None or (ignored is not None and key.lower() not in ignored)
    }


def _shown(line: bytes) -> str:
    return format_value(line.decode("utf-8", "replace").strip(), pa.string())
