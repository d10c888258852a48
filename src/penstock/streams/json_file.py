"""Read JSON Lines: an object a line. A missing key is NULL.

A block of lines is read by pyarrow; one that it refuses is read again line by line, so that a bad
record costs itself and not the file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from penstock.errors import InputError
from penstock.streams.convert import Converted, cut_out
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import format_value
from penstock.streams.rows import columns_of, listed, literal_of, python_to_array
from penstock.streams.schema import Stream

BLOCK_BYTES = 1 << 22
SPECIAL_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class _Block:
    """Whole lines of a file, without its blank ones; ``numbers`` counts lines from 1."""

    lines: list[bytes]
    numbers: list[int]


def _blocks(path: Path) -> Iterator[_Block]:
    number = 1
    with pa.input_stream(str(path), compression="detect") as raw:
        reader = io.BufferedReader(raw, BLOCK_BYTES)  # type: ignore[type-var]
        while lines := reader.readlines(BLOCK_BYTES):
            kept = [(i, line) for i, line in enumerate(lines, number) if line.strip()]
            number += len(lines)
            if kept:
                numbers, whole = zip(*kept, strict=True)
                yield _Block(list(whole), list(numbers))


def _parse(block: _Block, schema: pa.Schema | None, extra: str) -> pa.Table | None:
    """The block by pyarrow, or None if it does not take it as one object a line."""
    data = b"".join(block.lines)
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
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table if table.num_rows == len(block.lines) else None


def schema(path: Path) -> pa.Schema | None:
    """The keys of the file's first block, with the types pyarrow infers for them.

    None if the file has no records.
    """
    for block in _blocks(path):
        table = _parse(block, None, "infer")
        if table is None:
            records = [r for r in map(_loads, block.lines) if isinstance(r, dict)]
            table = _infer(path, records)
        fields = [
            pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type)
            for f in table.schema
        ]
        return pa.schema(fields)
    return None


def _infer(path: Path, records: list[dict[str, object]]) -> pa.Table:
    if not records:
        raise pa.ArrowInvalid("its first lines are no JSON objects")
    try:
        return pa.Table.from_pylist(records)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"the columns of {path} cannot be inferred: {error}",
            "Declare the stream in the query file: CREATE STREAM name (column type, ...);",
        ) from error


def _loads(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def read(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, Converted]]:
    """The file's events, each with the line it begins at."""
    del batch_rows  # blocks are cut by bytes
    known: pa.Schema | None = None
    for block in _blocks(path):
        if known is None:
            known = _spelled(path, stream, block)
        table = _parse(block, known, "ignore" if declared else "error")
        if table is None:
            yield from _one_by_one(stream, block, declared)
            continue
        columns = table.select(known.names).combine_chunks()
        for batch in columns.to_batches():
            renamed = pa.RecordBatch.from_arrays(batch.columns, schema=stream.schema)
            yield from _split(block, Tuples(stream.name, renamed))


def _split(block: _Block, tuples: Tuples) -> Iterator[tuple[int, Converted]]:
    """Cut where blank lines are, so that the rows of a part are consecutive lines."""
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
            f"{path} for stream {stream.name} lacks {listed(missing)}",
            f"Its columns must be: {', '.join(stream.schema.names)}.",
        )
    return pa.schema([pa.field(spelled[f.name.lower()], f.type) for f in stream.schema])


def _one_by_one(stream: Stream, block: _Block, declared: bool) -> Iterator[tuple[int, Converted]]:
    """The block's events from Python's own parser."""
    records: list[dict[str, object]] = []
    bad: dict[int, str] = {}
    texts: dict[int, str] = {}
    for index, line in enumerate(block.lines):
        record, reason = _record(line)
        records.append(record)
        if reason:
            bad[index] = reason
            texts[index] = _shown(line)
    if declared:
        records = [_known(stream, record) for record in records]
    columns, unknown = columns_of(stream, records)
    arrays: list[pa.Array[Any]] = []
    for values, field in zip(columns, stream.schema, strict=True):
        if pa.types.is_floating(field.type):
            values = [SPECIAL_FLOATS.get(v, v) if isinstance(v, str) else v for v in values]
        array, reasons = python_to_array(values, field.type)
        arrays.append(array)
        for row, reason in reasons.items():
            bad.setdefault(row, f"column {field.name}: {reason}")
    bad = {**unknown, **bad}
    for row in bad:
        texts.setdefault(row, ", ".join(literal_of(column[row]).text for column in columns))
    batch = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    index = 0
    for event in cut_out(stream, batch, bad, texts):
        if isinstance(event, Malformed):
            yield block.numbers[index], event
            index += 1
        else:
            rest = _Block([], block.numbers[index : index + len(event)])
            yield from _split(rest, event)
            index += len(event)


def _record(line: bytes) -> tuple[dict[str, object], str | None]:
    try:
        # Without its end: an error there is to have a column of this line, not of the next.
        record = json.loads(line.rstrip(b"\r\n"), parse_float=Decimal)
    except UnicodeDecodeError:
        return {}, "the record is not UTF-8"
    except json.JSONDecodeError as error:
        return {}, f"the record is not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError):
        return {}, "the record is not JSON that can be read"
    if not isinstance(record, dict):
        return {}, "the record is no JSON object"
    return record, None


def _known(stream: Stream, record: dict[str, object]) -> dict[str, object]:
    return {key: v for key, v in record.items() if stream.index_of(key) is not None}


def _shown(line: bytes) -> str:
    return format_value(line.decode("utf-8", "replace").strip(), pa.string())
