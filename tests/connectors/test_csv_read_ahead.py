"""The read-ahead thread of a CSV file ends when the rest of the file is not read."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from penstock import tuning
from penstock.connectors import csv_file
from penstock.connectors.csv_file import RecordReader
from penstock.streams.schema import Stream

BLOCK = 4096


def test_a_reader_ends_when_the_rest_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a,v\n" + "".join(f"{i},1\n" for i in range(300_000)))
    pieces: list[bytes] = []
    read = RecordReader.read

    def recording_read(self: RecordReader, size: int = -1) -> bytes:
        pieces.append(read(self, size))
        return pieces[-1]

    with (
        tuning.given(csv_block=BLOCK),
        patch.object(RecordReader, "read", recording_read),
    ):
        schema = csv_file.schema(path)
        assert schema == pa.schema([("a", pa.int64()), ("v", pa.int64())])
        assert BLOCK < sum(map(len, pieces)) <= 2 * BLOCK, "what it takes to know the columns"
        events = csv_file.read(path, Stream.of("R", schema), 1, declared=False)
        assert next(events)[0] == 1
        assert isinstance(events, Generator)
        events.close()
        assert pieces[-1] == b"", "its thread has seen an end and reads no more"
    assert sum(map(len, pieces)) < path.stat().st_size / 2, "and not that of the file"
