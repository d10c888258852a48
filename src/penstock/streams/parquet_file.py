"""Read Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.streams.convert import Converted, batch_to_events, check_types, match_columns
from penstock.streams.events import Tuples
from penstock.streams.schema import Stream


def schema(path: Path) -> pa.Schema:
    """The columns of the file."""
    return pq.read_schema(path)


def count_rows(path: Path) -> int:
    """How many rows the file has."""
    return int(pq.read_metadata(path).num_rows)


def read(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, Converted]]:
    """The file's events, each with the row (from 1) it begins at."""
    with pq.ParquetFile(path) as file:
        names = match_columns(stream, file.schema_arrow.names, str(path), extra=declared)
        found = pa.schema([file.schema_arrow.field(name) for name in names])
        check_types(stream, found, str(path))
        row = 1
        for batch in file.iter_batches(batch_size=batch_rows, columns=names):
            for event in batch_to_events(stream, batch.select(names)):
                yield row, event
                row += len(event) if isinstance(event, Tuples) else 1
