"""Files as streams: good ones, bad records, and files that cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import InputError
from penstock.streams import csv_file, json_file
from penstock.streams.csv_quotes import QuoteWatch
from penstock.streams.events import Malformed, Tuples
from penstock.streams.files import FileSource
from penstock.streams.schema import Stream

DECLARED = Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int8()}))


def read(source: FileSource, batch_rows: int = 65_536) -> list[object]:
    """Rows as lists of values, dead letters as they are."""
    found: list[object] = []
    for part in source.parts(batch_rows):
        if isinstance(part.event, Tuples):
            found.extend(list(row.values()) for row in part.event.batch.to_pylist())
        else:
            found.append(part.event)
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_parquet_is_read_in_batches_with_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"x": [1, 2, 300, 4, 5], "other": ["a"] * 5, "ID": range(5)}), path)
    parts = list(FileSource.open("R", path, DECLARED).parts(batch_rows=2))
    assert [part.first_row for part in parts] == [1, 3, 4, 5]
    assert parts[1].event == Malformed(
        "R", "2, 300", "column x: 300 does not fit int8 (r.parquet, row 3)"
    )
    assert FileSource.open("R", path, DECLARED).rows() == 5


def test_an_undeclared_stream_has_the_columns_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": pa.array(["x"], pa.large_string()), "b": [1.5]}), path)
    source = FileSource.open("R", path)
    assert repr(source.stream) == "Stream R (a string, b double)"
    assert source.stream.bounded
    assert read(source) == [["x", 1.5]]


def test_csv_columns_are_inferred(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.csv",
        'id,x,name,at,nothing\n1,1.5,"a, ""b""\nc",2024-01-31 12:00:00,\n2,,"",,\n',
    )
    source = FileSource.open("R", path)
    assert (
        repr(source.stream)
        == "Stream R (id int64, x double, name string, at timestamp(0), nothing string)"
    )
    rows = read(source)
    assert rows[0][2] == 'a, "b"\nc'  # type: ignore[index]
    assert rows[1] == [2, None, "", None, None]


@pytest.mark.parametrize("block", [1 << 21, 40])
def test_bad_csv_records_are_dead_letters_at_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", block)
    text = "x,id\n1,1\n 2,2\n3,3,3\n300,4\n5\n,6\n7,\xe9\n+8,8\nx,9\n10,10,\n"
    path = tmp_path / "r.csv"
    path.write_bytes(text.encode("latin-1"))
    assert read(FileSource.open("R", path, DECLARED)) == [
        [1, 1],
        [2, 2],
        Malformed("R", "'3,3,3'", "the record has 3 fields, not 2 (r.csv, row 3)"),
        Malformed("R", "4, '300'", "column x: '300' does not fit int8 (r.csv, row 4)"),
        Malformed("R", "'5'", "the record has 1 fields, not 2 (r.csv, row 5)"),
        [6, None],
        Malformed("R", "X'E9', 7",
                  "column id: X'E9' does not fit int64: it is not UTF-8 (r.csv, row 7)"),
        [8, 8],
        Malformed("R", "9, 'x'", "column x: 'x' does not fit int8 (r.csv, row 9)"),
        Malformed("R", "'10,10,'", "the record has 3 fields, not 2 (r.csv, row 10)"),
    ]  # fmt: skip


@pytest.mark.parametrize("block", [1 << 22, 30])
def test_bad_json_records_are_dead_letters_at_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(json_file, "BLOCK_BYTES", block)
    lines = [
        '{"ID": 1, "x": 1, "more": [1]}',
        "",
        '{"ID": 2, "x": 300}',
        '{"ID": 3, "x": "3"}',
        "[4]",
        '{"ID": 5, "x": }',
        '{"ID": 6}',
        '{"ID": 7, "x": 7.0}',
        '{"ID": 8, "x',
    ]
    path = write(tmp_path / "r.jsonl", "\n".join(lines))
    assert read(FileSource.open("R", path, DECLARED)) == [
        [1, 1],
        Malformed("R", "2, 300", "column x: 300 does not fit int8 (r.jsonl, line 3)"),
        Malformed("R", "3, '3'", "column x: '3' does not fit int8 (r.jsonl, line 4)"),
        Malformed("R", "'[4]'", "the record is no JSON object (r.jsonl, line 5)"),
        Malformed("R", "'{\"ID\": 5, \"x\": }'",
                  "the record is not JSON: Expecting value at column 16 (r.jsonl, line 6)"),
        [6, None],
        [7, 7],
        Malformed("R", "'{\"ID\": 8, \"x'",
                  "the record is not JSON: Unterminated string starting at at column 11 "
                  "(r.jsonl, line 9)"),
    ]  # fmt: skip


def test_json_columns_are_inferred_and_later_keys_are_dead_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "BLOCK_BYTES", 30)
    path = write(
        tmp_path / "r.jsonl",
        '{"a": 1, "t": "2024-01-31 12:00:00"}\n{"a": 2, "t": null}\n{"a": 3, "b": 1}\n',
    )
    source = FileSource.open("R", path)
    assert repr(source.stream) == "Stream R (a int64, t timestamp(0))"
    found = read(source)
    assert found[1:] == [
        [2, None],
        Malformed("R", "3, NULL", "unknown column b (r.jsonl, line 3)"),
    ]


def test_parts_of_a_json_file_are_consecutive_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", '{"a": 1}\n{"a": 2}\n\n\n{"a": 3}\n')
    parts = list(FileSource.open("R", path).parts())
    assert [(part.first_row, len(part.event)) for part in parts] == [(1, 2), (5, 1)]  # type: ignore[arg-type]


def test_special_floats_are_read_from_json(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", '{"a": 1.5}\n{"a": "Infinity"}\n{"a": -Infinity}\n')
    stream = Stream.of("R", pa.schema({"a": pa.float64()}))
    found = read(FileSource.open("R", path, stream))
    assert found == [[1.5], [float("inf")], [float("-inf")]]


def test_directories_are_read_by_name_and_hidden_files_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", "id,x\n3,3\n")
    write(tmp_path / "c.jsonl", json.dumps({"id": 4, "x": 4}))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,x\n1,1\n2,2\n"))
    assert read(FileSource.open("R", tmp_path)) == [[1, 1], [2, 2], [3, 3], [4, 4]]


def test_a_csv_file_with_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "id,x\n")
    assert read(FileSource.open("R", path, DECLARED)) == []


REMEDY = "Write the file again; it is truncated, damaged, or not what its name says."


def test_files_that_cannot_be_read_say_what_and_where(tmp_path: Path) -> None:
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table({"id": range(1000), "x": pa.array([1] * 1000, pa.int8())}), good)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(good.read_bytes()[:-20])
    text = write(tmp_path / "text.csv", "id\n1\n")
    wrong = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"id": [1], "x": ["1"]}), wrong)
    zipped = tmp_path / "cut.csv.gz"
    zipped.write_bytes(gzip.compress(b"id,x\n" + b"1,1\n" * 100_000)[:-50])
    lines = write(tmp_path / "r.jsonl", '{"id": 1}\n')
    (tmp_path / "none").mkdir()
    formats = "Penstock reads .parquet, .csv and .jsonl files, and directories of them."
    cases = {
        tmp_path / "no.csv": f"there is no file {tmp_path}/no.csv\nCheck the path. {formats}",
        tmp_path / "none": f"the directory {tmp_path}/none holds no files\n{formats}",
        write(
            tmp_path / "r.txt", "1"
        ): f"{tmp_path}/r.txt has no format that Penstock reads\n{formats}",
        write(tmp_path / "e.csv", ""): f"{tmp_path}/e.csv is empty\n"
        "Write the file again; one without rows still has its header.",
        text: f"{text} for stream R lacks column x\nIts columns must be: id, x.",
        lines: f"{lines} for stream R lacks column x\nIts columns must be: id, x.",
        wrong: f"column x of stream R is int8, and {wrong} has string there\n"
        "Cast the column to int8 first.",
    }
    for path, message in cases.items():
        with pytest.raises(InputError) as caught:
            read(FileSource.open("R", path, DECLARED))
        assert str(caught.value) == message
    for path in (cut, zipped):
        with pytest.raises(InputError) as caught:
            read(FileSource.open("R", path, DECLARED))
        assert caught.value.what.startswith(f"{path} cannot be read: ")
        assert caught.value.remedy == REMEDY


@pytest.mark.parametrize("block", [1 << 21, 64])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('ts,x\n1,"abc\n2,3\n', 2),
        ('ts,x\n1,"ab""c\n2,3\n', 2),
        ('ts,x\n1,a\n2,"', 3),
        ('ts,x\n1,"a"""\n"2,3\n', 3),
        ('ts,"x\n1,2\n', 1),
        ('\ufeff"ts,x\n1,2\n', 1),
        ('ts,x\n1,5" wide\n2,"a"b"\n3,"c\n', 4),
        ('ts,x\n1,"\n\n2,"\n3,"abc' + "\n4,d" * 100, 5),
    ],
)
def test_a_csv_file_that_ends_inside_a_quote_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, text: str, line: int
) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", block)
    path = write(tmp_path / "r.csv", text)
    declared = Stream.of("R", pa.schema({"ts": pa.int64(), "x": pa.string()}))
    with pytest.raises(InputError) as error:
        read(FileSource.open("R", path, declared))
    assert str(error.value) == (
        f"{path} ends inside a value whose quote was opened in line {line}\n"
        'Close the quote; a " inside a value is written twice.'
    )
    with pytest.raises(InputError):
        read(FileSource.open("R", path))


@pytest.mark.parametrize(
    "text",
    [
        'ts,x\n1,5" wide\n2,"a"b"\n',
        'ts,x\n"1","a\n""\nb"\n"2",""""\n',
        '\ufeff"ts","x"\n"1",""\n"2",""',
        'ts,x\r\n1,"a"\r\n2,"b"',
    ],
)
def test_quotes_that_are_closed_are_fine(tmp_path: Path, text: str) -> None:
    assert len(read(FileSource.open("R", write(tmp_path / "r.csv", text)))) == 2


@pytest.mark.parametrize(
    "text", ['x,"a""b"\n5" wide,"c\n""",d"\n"e"f"\n"g\n', 'x\n"a"""\n"b"\n', '"a""""b"""\n"""']
)
def test_quotes_are_followed_over_any_pieces(text: str) -> None:
    def opened(*pieces: str) -> int | None:
        watch = QuoteWatch()
        for piece in pieces:
            watch.take(piece.encode())
        return watch.opened

    expected = opened(*text)
    assert {opened(text[:i], text[i:]) for i in range(len(text) + 1)} == {expected}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id":2,"x":', "Expecting value at column 13"),
        ('{"id":2,"x":\r', "Expecting value at column 13"),
        ('  {"id":2,"ö":', "Expecting value at column 15"),
        ('{"id":2', "Expecting ',' delimiter at column 8"),
        ('{"id":2} 3', "Extra data at column 10"),
    ],
)
def test_columns_of_json_errors_are_those_of_the_line(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = write(tmp_path / "r.jsonl", f'{{"id": 1, "x": 1}}\n{line}\n{{"id": 3, "x": 3}}\n')
    first, bad, last = read(FileSource.open("R", path, DECLARED))
    assert (first, last) == ([1, 1], [3, 3])
    assert isinstance(bad, Malformed)
    assert bad.reason == f"the record is not JSON: {reason} (r.jsonl, line 2)"


def test_json_without_records(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.jsonl", "")
    for file in (empty, write(tmp_path / "b.ndjson", "\n\n")):
        assert read(FileSource.open("R", file, DECLARED)) == []
        with pytest.raises(InputError) as error:
            FileSource.open("R", file)
        assert str(error.value) == (
            f"{file} has no records that would tell the columns of stream R\n"
            "Declare the stream in the query: CREATE STREAM R (column type, ...);"
        )
    write(tmp_path / "c.jsonl", '{"id": 1}\n')
    source = FileSource.open("R", tmp_path)
    assert repr(source.stream) == "Stream R (id int64)"
    assert read(source) == [[1]]
