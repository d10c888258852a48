"""Results as files: a reader gets the rows that were written; no incomplete file is left."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.files import FileSource
from penstock.connectors.sinks import FileSink
from penstock.errors import InputError
from penstock.streams.events import Tuples
from penstock.streams.schema import Stream

TABLE = pa.table(
    {
        "i": pa.array([1, None], pa.int32()),
        "f": pa.array([1.5, float("nan")], pa.float64()),
        "s": pa.array(['a "b",\nö', ""]),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "b": pa.array([True, None]),
        "at": pa.array([dt.datetime(2024, 1, 31, 12, 0, 0, 500_000), None], pa.timestamp("us")),
        "day": pa.array([dt.date(2024, 1, 31), None]),
    }
)


def write(path: Path, table: pa.Table) -> None:
    with FileSink(path, table.schema) as sink:
        for batch in table.to_batches(max_chunksize=1):
            sink.write(batch)


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TABLE)
    stream = Stream.of("R", TABLE.schema)
    parts = FileSource.open("R", tmp_path / name, stream).parts()
    batches = [part.event.batch for part in parts if isinstance(part.event, Tuples)]
    # repr, because NaN does not equal itself
    assert repr(pa.Table.from_batches(batches).to_pylist()) == repr(TABLE.to_pylist())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_csv_is_as_others_write_it(tmp_path: Path) -> None:
    write(tmp_path / "out.csv", TABLE)
    assert (tmp_path / "out.csv").read_text() == (
        '"i","f","s","d","b","at","day"\n'
        '1,1.5,"a ""b"",\nö","1.50",true,"2024-01-31 12:00:00.5","2024-01-31"\n'
        ',nan,"",,,,\n'
    )


def test_json_is_valid_json(tmp_path: Path) -> None:
    write(tmp_path / "out.jsonl", TABLE)
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"i": 1, "f": 1.5, "s": "a \\"b\\",\\nö", "d": 1.50, "b": true, '
        '"at": "2024-01-31 12:00:00.5", "day": "2024-01-31"}\n'
        '{"i": null, "f": "NaN", "s": "", "d": null, "b": null, "at": null, "day": null}\n'
    )


def test_binary_and_intervals_are_text_in_text_files(tmp_path: Path) -> None:
    table = pa.table({"b": [b"\x00\xff"], "t": pa.array([90_000_000], pa.duration("us"))})
    write(tmp_path / "out.csv", table)
    write(tmp_path / "out.jsonl", table)
    assert (tmp_path / "out.csv").read_text() == '"b","t"\n"00ff","INTERVAL 90 SECONDS"\n'
    assert (tmp_path / "out.jsonl").read_text() == '{"b": "00ff", "t": "INTERVAL 90 SECONDS"}\n'


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_no_rows_is_a_file_too(tmp_path: Path, name: str) -> None:
    with FileSink(tmp_path / name, TABLE.schema):
        pass
    assert (tmp_path / name).exists()


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write(path, pa.table({"old": [1]}))
    with pytest.raises(RuntimeError), FileSink(path, TABLE.schema) as sink:
        sink.write(TABLE.to_batches()[0])
        raise RuntimeError
    assert pq.read_table(path).column_names == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "dir.csv").mkdir()
    twice = pa.schema([("id", pa.int64()), ("ID", pa.int64())])
    one = pa.schema([("id", pa.int64())])
    cases = [
        (tmp_path / "o.csv", twice,
         "the result has two columns named 'ID'\n"
         "Give them aliases: SELECT r.ID AS r_ID, s.ID AS s_ID."),
        (tmp_path / "o.xlsx", one,
         f"{tmp_path}/o.xlsx has no format that Penstock writes\n"
         "Name it .parquet, .csv or .jsonl."),
        (tmp_path / "dir.csv", one, f"{tmp_path}/dir.csv is a directory\nName a file in it."),
        (tmp_path / "no" / "o.csv", one,
         f"{tmp_path}/no/o.csv cannot be written: No such file or directory\n"
         "Name a file in a directory that exists and that you may write to."),
    ]  # fmt: skip
    for path, schema, message in cases:
        with pytest.raises(InputError) as caught:
            FileSink(path, schema)
        assert str(caught.value) == message
