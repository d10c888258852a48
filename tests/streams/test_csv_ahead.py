"""A CSV file that is left before its end: its reader, which is ahead, comes to an end as well."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from penstock.streams import csv_file
from penstock.streams.csv_quotes import WatchedFile
from penstock.streams.schema import Stream

BLOCK = 4096


def test_a_reader_that_is_left_early_comes_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a,v\n" + "".join(f"{i},1\n" for i in range(300_000)))
    pieces: list[bytes] = []
    read = WatchedFile.read

    def noted(self: WatchedFile, size: int = -1) -> bytes:
        pieces.append(read(self, size))
        return pieces[-1]

    with patch.object(csv_file, "BLOCK_BYTES", BLOCK), patch.object(WatchedFile, "read", noted):
        schema = csv_file.schema(path)
        assert schema == pa.schema([("a", pa.int64()), ("v", pa.int64())])
        assert sum(map(len, pieces)) == 2 * BLOCK, "what it takes to know the columns"
        events = csv_file.read(path, Stream.of("R", schema), 1, declared=False)
        assert next(events)[0] == 1
        assert isinstance(events, Generator)
        events.close()
        assert pieces[-1] == b"", "its thread has seen an end, so it will ask no more"
    assert sum(map(len, pieces)) < path.stat().st_size / 2, "and not that of the file"
