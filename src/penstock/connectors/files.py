"""Files and tables as streams: Parquet, CSV and JSON Lines, and directories of them.

A file is read a batch at a time. A record that does not fit the stream becomes a dead letter with
its row or line number, at its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors import csv_file, json_file
from penstock.errors import SURROGATE, InputError
from penstock.streams.convert import (
    SourceEvent,
    batch_to_events,
    check_types,
    columns_and_left_out,
    left_out_fields,
    match_columns,
    to_batches,
    to_table,
)
from penstock.streams.display import listed
from penstock.streams.events import Malformed, Tuples
from penstock.streams.schema import Stream

# Arrow's exceptions for malformed bytes; ValueError for malformed names, too.
UNREADABLE = (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Format:
    """A file format: how to find the columns of a file and read its events.

    ``suffixes`` are those of its files, the usual one first. ``schema`` finds the columns of a
    file, or None if it has no records. ``read`` yields its
    events, each with the row or line (``unit``) at which it begins, from 1.
    """

    suffixes: tuple[str, ...]
    schema: Callable[[Path], pa.Schema | None]
    read: Callable[[Path, Stream, int, bool], Iterator[tuple[int, SourceEvent]]]
    unit: str


def _read_parquet(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, SourceEvent]]:
    with pq.ParquetFile(path) as file:
        names = match_columns(stream, file.schema_arrow.names, str(path), extra=declared)
        found = pa.schema([file.schema_arrow.field(name) for name in names])
        check_types(stream, found, str(path))
        row = 1
        for batch in file.iter_batches(batch_size=batch_rows, columns=names):
            for event in batch_to_events(stream, batch.select(names)):
                yield row, event
                row += len(event) if isinstance(event, Tuples) else 1


PARQUET = Format((".parquet", ".pq"), pq.read_schema, _read_parquet, "row")
CSV = Format((".csv",), csv_file.schema, csv_file.read, "row")
JSON = Format((".jsonl", ".ndjson", ".json"), json_file.schema, json_file.read, "line")
FORMATS = (PARQUET, CSV, JSON)
FORMAT_OF_SUFFIX = {suffix: one for one in FORMATS for suffix in one.suffixes}
KNOWN_FORMATS = (
    f"Penstock reads {listed(one.suffixes[0] for one in FORMATS)} files, and directories of them."
)


@dataclass(frozen=True)
class Part:
    """Tuples or a dead letter, with their origin and the number of their first row, from 1.

    Errors name ``origin``, dead letters name ``short``. ``unit`` is what the numbers count: rows or
    lines.
    """

    event: SourceEvent
    origin: str
    short: str
    first_row: int
    unit: str = "row"


class Source(Protocol):
    """A source of a stream's tuples."""

    @property
    def stream(self) -> Stream:
        """The stream."""

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """Yield all tuples and dead letters in order, a batch at a time."""

    def rows(self) -> int | None:
        """The number of rows, if it is known without reading them."""


@dataclass(frozen=True)
class FileSource:
    """A stream that is read from files, in the order of their names.

    ``declared``: the query declares the columns, and other columns of the files are ignored.
    Otherwise the columns are those of the first file that has any.
    """

    stream: Stream
    files: tuple[Path, ...]
    declared: bool

    @classmethod
    def open(cls, name: str, path: str | Path, declared: Stream | None = None) -> FileSource:
        """Find the files and, if the stream is not declared, its columns.

        Raises InputError for a path that does not exist or holds no file that Penstock reads.
        """
        files = find_files(Path(path))
        if declared is not None:
            return cls(replace(declared, bounded=True), files, True)
        schema = next(filter(None, map(read_schema, files)), None)
        if schema is None:
            raise InputError(
                f"{path} has no records that would tell the columns of stream {name}",
                f"Declare the stream in the query: CREATE STREAM {name} (column type, ...);",
            )
        return cls(Stream.of_columns(name, schema), files, False)

    @property
    def inferred(self) -> bool:
        """Whether the column types were inferred from values. Parquet files declare theirs."""
        return not self.declared and _format(self.files[0]) is not PARQUET

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """Yield everything in the files, a batch at a time."""
        for path in self.files:
            try:
                yield from self._read(path, _format(path), batch_rows)
            except UNREADABLE as error:
                raise _unreadable(path, error) from error

    def _read(self, path: Path, form: Format, batch_rows: int) -> Iterator[Part]:
        for row, event in form.read(path, self.stream, batch_rows, self.declared):
            if isinstance(event, Malformed):
                reason = f"{event.reason} ({path.name}, {form.unit} {row})"
                event = Malformed(event.stream, event.text, reason)
            yield Part(event, str(path), path.name, row, form.unit)

    def rows(self) -> int | None:
        """The number of rows, if the files are Parquet, whose metadata has it."""
        if any(_format(path) is not PARQUET for path in self.files):
            return None
        return sum(pq.read_metadata(path).num_rows for path in self.files)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _format(path: Path) -> Format:
    return FORMAT_OF_SUFFIX[_suffix(path)]


def find_files(path: Path) -> tuple[Path, ...]:
    """The file itself or, for a directory, all files in it, sorted by name.

    An empty file is an error unless it is JSON Lines, where it means no records.
    """
    if not path.exists():
        raise InputError(f"there is no file {path}", "Check the path. " + KNOWN_FORMATS)
    files = [path]
    if path.is_dir():
        files = [f for f in sorted(path.rglob("*")) if f.is_file() and not _hidden(f, path)]
        if not files:
            raise InputError(f"the directory {path} holds no files", KNOWN_FORMATS)
    for file in files:
        if SURROGATE.search(str(file)):
            raise InputError(f"the name of the file {file} is not UTF-8", "Rename the file.")
        if _suffix(file) not in FORMAT_OF_SUFFIX:
            raise InputError(f"{file} has no format that Penstock reads", KNOWN_FORMATS)
        if file.stat().st_size == 0 and _format(file) is not JSON:
            raise InputError(
                f"{file} is empty", "Write the file again; one without rows still has its header."
            )
    return tuple(files)


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def read_schema(path: Path) -> pa.Schema | None:
    """The columns of a file: declared in Parquet, inferred elsewhere. None without records."""
    try:
        return _format(path).schema(path)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(
        f"{path} cannot be read: {detail}",
        "Write the file again; it is truncated, damaged, or not what its name says.",
    )


@dataclass(frozen=True)
class TableSource:
    """A stream that is read from data in memory: anything that can be pushed."""

    stream: Stream
    data: object

    @classmethod
    def open(cls, name: str, data: object, declared: Stream | None = None) -> TableSource:
        """Read data as a stream; a stream that is not declared has the columns of the data."""
        if declared is not None:
            # Data that can be read only once is read now.
            rereadable = isinstance(data, list) or hasattr(data, "columns")
            table = data if rereadable else to_table(name, data)
            return cls(replace(declared, bounded=True), table)
        table, left_out = columns_and_left_out(name, data)
        if not isinstance(data, (list, tuple)):
            return cls(Stream.of_columns(name, table.schema, left_out), table)
        schema = pa.schema([*table.schema, *left_out_fields(data, left_out)])
        return cls(Stream.of_columns(name, schema), table)

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """Yield everything in the data, at most ``batch_rows`` rows at a time."""
        name = f"the data of stream {self.stream.name}"
        row = 1
        for event in to_batches(self.stream, self.data):
            if isinstance(event, Malformed):
                yield Part(event, name, self.stream.name, row)
                row += 1
                continue
            for start in range(0, len(event), batch_rows):
                piece = Tuples(event.stream, event.batch.slice(start, batch_rows))
                yield Part(piece, name, self.stream.name, row)
                row += len(piece)

    def rows(self) -> int | None:
        """The number of rows, if the data has a length."""
        return len(self.data) if isinstance(self.data, Sized) else None
