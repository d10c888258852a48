"""Results as files: Parquet, CSV and JSON Lines, written batch by batch.

A file is complete or absent: rows go to a temporary file beside it, which is renamed after the last
row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock import leftovers
from penstock.errors import InputError
from penstock.streams.clock import format_date, format_timestamp
from penstock.streams.display import listed
from penstock.streams.literals import format_array, physical_list


def check_columns(schema: pa.Schema) -> None:
    """Refuse a result with two columns of the same name."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise InputError(
                f"the result has two columns named {name!r}",
                f"Give them aliases: SELECT r.{name} AS r_{name}, s.{name} AS s_{name}.",
            )
        seen.add(name.lower())


def check_outputs(
    outputs: Mapping[str, Path], query: Path, streams: Mapping[str, str | Path]
) -> None:
    """Refuse outputs that would overwrite an input or each other, before anything runs.

    ``outputs`` has the paths by option, ``streams`` the input files and directories by stream.
    """
    seen: dict[str, Path] = {}
    for option, path in outputs.items():
        if not path.parent.is_dir():
            raise InputError(
                f"{path} cannot be written: there is no directory {path.parent}",
                "Name a file in a directory that exists.",
            )
        if _same(path, query):
            raise InputError(f"{option} {path} is the query itself", "Name another file.")
        for name, source in streams.items():
            _check_apart(f"{option} {path}", path, name, Path(source))
        for other, earlier in seen.items():
            if _same(path, earlier):
                raise InputError(
                    f"{other} and {option} are both {path}", "Name a file for each of them."
                )
        seen[option] = path


def _check_apart(output: str, path: Path, stream: str, source: Path) -> None:
    if _same(path, source) and not source.is_dir():
        raise InputError(
            f"{output} is a file that stream {stream} is read from",
            "Name another file; this one would be replaced.",
        )
    if source.is_dir() and path.resolve().is_relative_to(source.resolve()):
        raise InputError(
            f"{output} lies in {source}, which stream {stream} is read from",
            "Name a file elsewhere; all files in that directory are input.",
        )


def _same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)
    return path.resolve() == other.resolve()


class FileSink:
    """A file of rows that appears when it is complete.

    Parameters
    ----------
    path
        Its name says the format: .parquet, .csv or .jsonl.
    schema
        The columns. Names that repeat are an InputError.

    Leaving the context completes the file; leaving it with an error removes it.
    """

    def __init__(self, path: str | Path, schema: pa.Schema) -> None:
        self.path = Path(path)
        writer = WRITERS.get(self.path.suffix.lower())
        if writer is None:
            raise InputError(
                f"{path} has no format that Penstock writes", f"Name it {listed(WRITERS, 'or')}."
            )
        check_columns(schema)
        if self.path.is_dir():
            raise InputError(f"{path} is a directory", "Name a file in it.")
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        leftovers.note(self._temporary)
        try:
            self._file = self._temporary.open("wb")
        except OSError as error:
            leftovers.forget(self._temporary)
            raise InputError(
                f"{path} cannot be written: {error.strerror}",
                "Name a file in a directory that exists and that you may write to.",
            ) from error
        self._writer = writer(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write(batch)

    def __enter__(self) -> FileSink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._writer.close()
            self._file.close()
            if kind is None:
                os.replace(self._temporary, self.path)
        finally:
            self._file.close()
            leftovers.remove(self._temporary)


class _ParquetWriter:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _CsvWriter:
    """Writes CSV. Strings are quoted, so that NULL (nothing) and the empty string ("") differ."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        fields = [pa.field(f.name, _csv_type(f.type)) for f in schema]
        self._schema = pa.schema(fields)
        self._writer: Any = pacsv.CSVWriter(file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [
            array if array.type.equals(f.type) else pa.array(_texts(array), pa.string())
            for array, f in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    plain = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_floating)
    return kind if any(test(kind) for test in plain) else pa.string()


class _JsonWriter:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file
        self._keys = [json.dumps(name, ensure_ascii=False) + ": " for name in schema.names]

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            [key + cell for cell in _json_cells(array)]
            for key, array in zip(self._keys, batch.columns, strict=True)
        ]
        lines = ["{" + ", ".join(cells) + "}\n" for cells in zip(*columns, strict=True)]
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        pass  # nothing is buffered


def _json_cells(array: pa.Array[Any]) -> list[str]:
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return [cell.lower() for cell in format_array(array)]
    if pa.types.is_floating(kind):
        # JSON has no NaN and no infinities: they are written as strings.
        odd = {"NULL": "null", "NaN": '"NaN"', "Infinity": '"Infinity"', "-Infinity": '"-Infinity"'}
        return [odd.get(cell, cell) for cell in format_array(array)]
    return [
        "null" if text is None else json.dumps(text, ensure_ascii=False) for text in _texts(array)
    ]


def _texts(array: pa.Array[Any]) -> list[str | None]:
    """Values as plain text, without quotes and type names; binaries in hexadecimal."""
    kind: Any = array.type
    text: Callable[[Any], str]
    if pa.types.is_date(kind):
        text = format_date
    elif pa.types.is_timestamp(kind):
        text = lambda units: format_timestamp(units, kind)  # noqa: E731
    elif pa.types.is_binary(kind):
        text = bytes.hex
    elif pa.types.is_duration(kind):
        text = lambda microseconds: format_array(pa.array([microseconds], kind))[0]  # noqa: E731
    elif pa.types.is_decimal(kind):
        text = lambda value: f"{value:f}"  # noqa: E731
    else:
        text = str
    values: list[Any] = physical_list(array)
    return [None if value is None else text(value) for value in values]


WRITERS: dict[str, Any] = {".parquet": _ParquetWriter, ".csv": _CsvWriter, ".jsonl": _JsonWriter}
