"""A CSV file of which only the beginning is wanted: its reader, which is ahead, comes to an end."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from penstock.streams import csv_file
from penstock.streams.csv_quotes import WatchedFile
from penstock.streams.schema import Stream


def test_a_reader_that_is_left_early_reads_no_more(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a,v\n" + "".join(f"{i},1\n" for i in range(600_000)))
    schema = csv_file.schema(path)
    assert schema == pa.schema([("a", pa.int64()), ("v", pa.int64())])
    reads: list[float] = []
    ends: list[bytes] = []
    read = WatchedFile.read

    def noted(self: WatchedFile, size: int = -1) -> bytes:
        found = read(self, size)
        reads.append(time.monotonic())
        ends.append(found)
        return found

    with patch.object(WatchedFile, "read", noted):
        events = csv_file.read(path, Stream.of("R", schema), 1, declared=False)
        assert next(events)[0] == 1
        events.close()  # type: ignore[attr-defined]
        left = time.monotonic()
        time.sleep(0.2)
    assert ends[-1] == b"", "its thread has seen an end"
    assert max(reads) <= left, "and has not asked again"
