"""Files as streams: Parquet, CSV and JSON Lines, and directories of them.

A file is read a batch at a time. A record that is no tuple of the stream becomes a dead letter
with its row or line number, at its place in the order; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import InputError
from penstock.streams import csv_file, json_file, parquet_file
from penstock.streams.convert import Converted, to_batches, to_table
from penstock.streams.events import Malformed, Tuples
from penstock.streams.schema import Stream, normal_type

READERS: dict[str, Any] = {
    ".parquet": parquet_file,
    ".pq": parquet_file,
    ".csv": csv_file,
    ".jsonl": json_file,
    ".ndjson": json_file,
    ".json": json_file,
}
FORMATS = "Penstock reads .parquet, .csv and .jsonl files, and directories of them."


@dataclass(frozen=True)
class Part:
    """Tuples or a dead letter, with what they were read from and the row they begin at, from 1.

    ``origin`` is what an error calls it, ``short`` what a dead letter does; ``unit`` is what the
    numbers count: rows, or lines.
    """

    event: Converted
    origin: str
    short: str
    first_row: int
    unit: str = "row"


class Source(Protocol):
    """Where the tuples of a stream come from."""

    @property
    def stream(self) -> Stream:
        """What they are tuples of."""

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """All of them in order, a batch at a time."""

    def rows(self) -> int | None:
        """How many rows there are, if that can be told without reading them."""


@dataclass(frozen=True)
class FileSource:
    """A stream that is read from files, in the order of their names.

    ``declared``: the stream's columns were written down, so that others in the file are passed
    over; else they are those of the first file that has any.
    """

    stream: Stream
    files: tuple[Path, ...]
    declared: bool

    @classmethod
    def open(cls, name: str, path: str | Path, declared: Stream | None = None) -> FileSource:
        """Find the files and, for a stream that is not declared, its columns.

        Raises InputError for a path that is not there or that holds nothing Penstock reads.
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
        fields = [pa.field(f.name, normal_type(f.type) or f.type) for f in schema]
        return cls(Stream.of(name, pa.schema(fields), bounded=True), files, False)

    @property
    def inferred(self) -> bool:
        """Whether the types of the columns were guessed from values: Parquet files have them."""
        return not self.declared and READERS[_suffix(self.files[0])] is not parquet_file

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """Everything in the files, a batch at a time."""
        for path in self.files:
            reader = READERS[_suffix(path)]
            try:
                yield from self._numbered(path, reader, batch_rows)
            except (pa.ArrowInvalid, OSError, EOFError) as error:
                raise _unreadable(path, error) from error

    def _numbered(self, path: Path, reader: Any, batch_rows: int) -> Iterator[Part]:
        where = "line" if reader is json_file else "row"
        for row, event in reader.read(path, self.stream, batch_rows, self.declared):
            if isinstance(event, Malformed):
                reason = f"{event.reason} ({path.name}, {where} {row})"
                event = Malformed(event.stream, event.text, reason)
            yield Part(event, str(path), path.name, row, where)

    def rows(self) -> int | None:
        """How many rows there are, if the files say so without being read."""
        if any(READERS[_suffix(path)] is not parquet_file for path in self.files):
            return None
        return sum(parquet_file.count_rows(path) for path in self.files)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def find_files(path: Path) -> tuple[Path, ...]:
    """The file itself or, of a directory, all files in it by name.

    None of them is empty, but for JSON: no records are no lines.
    """
    if not path.exists():
        raise InputError(f"there is no file {path}", "Check the path. " + FORMATS)
    files = [path]
    if path.is_dir():
        files = [f for f in sorted(path.rglob("*")) if f.is_file() and not _hidden(f, path)]
        if not files:
            raise InputError(f"the directory {path} holds no files", FORMATS)
    for file in files:
        if _suffix(file) not in READERS:
            raise InputError(f"{file} has no format that Penstock reads", FORMATS)
        if file.stat().st_size == 0 and READERS[_suffix(file)] is not json_file:
            raise InputError(
                f"{file} is empty", "Write the file again; one without rows still has its header."
            )
    return tuple(files)


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def read_schema(path: Path) -> pa.Schema | None:
    """The columns of a file: a Parquet file has them, of the others they are inferred.

    None: it is JSON without records.
    """
    try:
        schema: pa.Schema | None = READERS[_suffix(path)].schema(path)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise _unreadable(path, error) from error
    return schema


def _unreadable(path: Path, error: Exception) -> InputError:
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(
        f"{path} cannot be read: {detail}",
        "Write the file again; it is truncated, damaged, or not what its name says.",
    )


@dataclass(frozen=True)
class TableSource:
    """A stream that is data in memory: whatever can be pushed."""

    stream: Stream
    data: object

    @classmethod
    def open(cls, name: str, data: object, declared: Stream | None = None) -> TableSource:
        """A stream that is not declared has the columns of the data."""
        if declared is not None:
            # A list may have values of all sorts; anything else is read once, here.
            kept = data if isinstance(data, list) else to_table(name, data)
            return cls(replace(declared, bounded=True), kept)
        table = to_table(name, data)
        return cls(Stream.of(name, table.schema, bounded=True), table)

    def parts(self, batch_rows: int = 65_536) -> Iterator[Part]:
        """Everything in the data, at most ``batch_rows`` at a time."""
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
        """How many rows there are."""
        return len(self.data) if isinstance(self.data, (pa.Table, list)) else None
