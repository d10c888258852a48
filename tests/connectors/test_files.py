"""Files as streams: valid files, malformed records, and files that cannot be read."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import tuning
from penstock.connectors.csv_file import QuoteTracker
from penstock.connectors.files import FileSource
from penstock.errors import InputError
from penstock.streams.events import Malformed, Tuples
from penstock.streams.schema import Stream, type_name

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
def test_bad_csv_records_are_dead_letters_at_their_places(tmp_path: Path, block: int) -> None:
    with tuning.given(csv_block=block):
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
def test_bad_json_records_are_dead_letters_at_their_places(tmp_path: Path, block: int) -> None:
    with tuning.given(json_block=block):
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


@tuning.given(json_block=30)
def test_json_columns_are_inferred_and_later_keys_are_dead_letters(tmp_path: Path) -> None:
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


def test_directories_are_read_by_name_without_hidden_files(tmp_path: Path) -> None:
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
    tmp_path: Path, block: int, text: str, line: int
) -> None:
    with tuning.given(csv_block=block):
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
        watch = QuoteTracker()
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


def test_decimals_with_large_exponents_are_dead_letters(tmp_path: Path) -> None:
    stream = Stream.of("R", pa.schema({"d": pa.decimal128(10, 2)}))
    texts = ["1e-999999999", "1e999999999", "0." + "0" * 60 + "1", "1" * 60, "1e2", "1.50"]
    csv = write(tmp_path / "r.csv", "d\n" + "".join(f"{text}\n" for text in texts))
    lines = write(tmp_path / "r.jsonl", "".join(f'{{"d": {text}}}\n' for text in texts))
    quoted = write(tmp_path / "q.jsonl", "".join(f'{{"d": "{text}"}}\n' for text in texts))
    escaped = write(tmp_path / "e.jsonl", '{"d": "1\\u0065-999999999"}\n')
    for path in (csv, lines, quoted):
        found = read(FileSource.open("R", path, stream))
        assert found[4:] == [[Decimal("100.00")], [Decimal("1.50")]]
        for place, (text, letter) in enumerate(zip(texts, found[:4], strict=False), 1):
            assert isinstance(letter, Malformed)
            shown = text if path is lines else f"'{text}'"
            unit = "row" if path is csv else "line"
            if path is csv:
                assert letter.reason == (
                    f"column d: {shown} does not fit decimal(10, 2) ({path.name}, {unit} {place})"
                )
            assert letter.reason.endswith(
                f"does not fit decimal(10, 2) ({path.name}, {unit} {place})"
            )
    (letter,) = read(FileSource.open("R", escaped, stream))
    assert isinstance(letter, Malformed)


def test_csv_records_of_the_wrong_length_that_are_not_utf_8_are_dead_letters(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(b"id,name\n1,a\n2,\xff,3\n3,\xfe\n4,b\xf4\x8f\xbf\xbf\n")
    stream = Stream.of("R", pa.schema({"id": pa.int64(), "name": pa.string()}))
    expected = [
        [1, "a"],
        Malformed("R", "X'322CFF2C33'", "the record has 3 fields, not 2 (r.csv, row 2)"),
        Malformed("R", "3, X'FE'",
                  "column name: X'FE' does not fit string: it is not UTF-8 (r.csv, row 3)"),
        [4, "b\U0010ffff"],
    ]  # fmt: skip
    assert read(FileSource.open("R", path, stream)) == expected
    assert read(FileSource.open("R", path)) == expected
    binary = Stream.of("R", pa.schema({"id": pa.int64(), "name": pa.binary()}))
    assert read(FileSource.open("R", path, binary))[2:] == [[3, b"\xfe"], [4, b"b\xf4\x8f\xbf\xbf"]]


def test_a_csv_header_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(b"id,n\xe9\n1,2\n")
    with pytest.raises(InputError) as error:
        FileSource.open("R", path)
    assert str(error.value) == (
        f"the header of {path} is not UTF-8\nWrite the file in UTF-8, its header at least."
    )


@pytest.mark.parametrize("declared", [True, False])
@tuning.given(csv_block=100)
def test_fields_far_longer_than_a_block_are_read(tmp_path: Path, declared: bool) -> None:
    long, quoted = "z" * 1000, "a\n" * 500
    path = write(tmp_path / "r.csv", f'id,name\n1,{long}\n2,"{quoted}"\n3,{long},4\n4,d\n')
    stream = Stream.of("R", pa.schema({"id": pa.int64(), "name": pa.string()}))
    found = read(FileSource.open("R", path, stream if declared else None))
    assert found == [
        [1, long],
        [2, quoted],
        Malformed("R", f"'3,{long},4'", "the record has 3 fields, not 2 (r.csv, row 3)"),
        [4, "d"],
    ]


def test_columns_without_a_type_are_left_out(tmp_path: Path) -> None:
    parquet = tmp_path / "r.parquet"
    pq.write_table(pa.table({"id": [1], "tags": [[1, 2]], "took": [dt.timedelta(1)]}), parquet)
    lines = write(tmp_path / "r.jsonl", '{"id": 1, "tags": [1, 2], "took": {}}\n')
    mixed = write(
        tmp_path / "m.jsonl", '{"id": 1, "tags": 1, "took": [1]}\n{"id": 2, "tags": "a"}\n'
    )
    for path, rows in ((parquet, 1), (lines, 1), (mixed, 2)):
        source = FileSource.open("R", path)
        assert repr(source.stream) == "Stream R (id int64)"
        assert read(source) == [[1], [2]][:rows]
    assert FileSource.open("R", parquet).stream.left_out == (
        ("tags", "has the type list<element: int64>, which Penstock does not have"),
        ("took", "has the type duration[us], which Penstock does not have"),
    )


def test_text_in_parquet_that_is_not_utf_8_is_a_dead_letter(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"name": pa.array([b"a", b"\xff"]).view(pa.string())}), path)
    assert read(FileSource.open("R", path)) == [
        ["a"],
        Malformed("R", "X'FF'", "column name: X'FF' does not fit string (r.parquet, row 2)"),
    ]


TEXTS = [
    (["18:59:40.02"], "string"),
    (["2024-01-31"], "date"),
    (["2024-01-31 18:59:40"], "timestamp(0)"),
    (["2024-01-31 18:59:40", "2024-01-31T18:59:40.02"], "timestamp(9)"),
    (["2024-01-31", "2024-01-31 18:59"], "timestamp(0)"),
    (["2024-01-31T18:59:40Z", "2024-01-31 18:59:40+02:00"], "timestamp(0, 'UTC')"),
    (["2024-01-31 18:59:40", "2024-01-31 18:59:40Z"], "string"),
    (["2024-01-31", "soon"], "string"),
]


@pytest.mark.parametrize(("texts", "kind"), TEXTS)
def test_dates_and_timestamps_are_inferred_alike_from_csv_and_json(
    tmp_path: Path, texts: list[str], kind: str
) -> None:
    csv = write(tmp_path / "r.csv", "k,t\n" + "".join(f"1,{text}\n" for text in texts))
    lines = [json.dumps({"k": 1, "t": text}) + "\n" for text in texts]
    plain = write(tmp_path / "r.jsonl", "".join(lines))
    # A line that pyarrow does not take, so that Python reads them all.
    slow = write(tmp_path / "s.jsonl", "".join(lines) + '{"k": NaN, "t": null}\n')
    found = [FileSource.open("R", path) for path in (csv, plain, slow)]
    assert [type_name(source.stream.schema.field("t").type) for source in found] == [kind] * 3
    rows = [[row[1] for row in read(source)][: len(texts)] for source in found]
    assert rows[0] == rows[1] == rows[2]


def test_columns_of_json_by_other_spellings_are_not_lost(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        '{"ID": 1, "x": 1}\n{"id": 2, "X": 2, "y": 0}\n{"Id": 3, "x": 3, "x": 4}\n',
    )
    assert read(FileSource.open("R", path, DECLARED)) == [
        [1, 1],
        [2, 2],
        Malformed("R", "'{\"Id\": 3, \"x\": 3, \"x\": 4}'",
                  "the record has the key 'x' twice (r.jsonl, line 3)"),
    ]  # fmt: skip


def test_what_becomes_of_a_json_record_does_not_depend_on_the_others(tmp_path: Path) -> None:
    stream = Stream.of(
        "R",
        pa.schema({"f": pa.float32(), "d": pa.date32(), "t": pa.timestamp("us"), "b": pa.binary()}),
    )
    lines = [
        '{"f": 1e300}', '{"f": 1.5}', '{"d": 5}', '{"d": "2024-01-31"}', '{"t": 7}',
        '{"t": "2024-01-31 18"}', '{"b": "ab"}', '{"f": "NaN"}', '{"t": "2024-01-31T01:02:03Z"}',
    ]  # fmt: skip
    empty = '{"f": null, "d": null, "t": null, "b": null}\n'
    together = write(tmp_path / "r.jsonl", empty + "".join(f"{line}\n" for line in lines))
    found = [
        e.text if isinstance(e, Malformed) else str(e)
        for e in read(FileSource.open("R", together, stream))[1:]
    ]
    alone = []
    for line in lines:
        one = write(tmp_path / "one.jsonl", empty + line)
        (event,) = read(FileSource.open("R", one, stream))[1:]
        alone.append(event.text if isinstance(event, Malformed) else str(event))
    assert found == alone


def test_a_file_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r\udcff.csv"
    path.write_text("id,x\n1,1\n")
    for source in (path, tmp_path):
        with pytest.raises(InputError) as error:
            FileSource.open("R", source)
        shown = str(path).replace("\udcff", "\ufffd")
        assert str(error.value) == (f"the name of the file {shown} is not UTF-8\nRename the file.")


def test_decimals_that_do_not_fit_are_never_another_number(tmp_path: Path) -> None:
    kinds = {"a": pa.decimal128(38, 38), "b": pa.decimal128(38, 30), "c": pa.decimal128(10, 2)}
    texts = {"a": "7", "b": "9" * 18, "c": "1234567890"}
    for name, kind in kinds.items():
        stream = Stream.of("R", pa.schema({name: kind}))
        csv = write(tmp_path / "r.csv", f"{name}\n{texts[name]}\n")
        lines = write(tmp_path / "r.jsonl", f'{{"{name}": {texts[name]}}}\n')
        for path in (csv, lines):
            (letter,) = read(FileSource.open("R", path, stream))
            assert isinstance(letter, Malformed)
            assert f"does not fit {type_name(kind)}" in letter.reason
        good = write(tmp_path / "r.csv", f"{name}\n0.5\n-00.25\n")
        assert read(FileSource.open("R", good, stream)) == [[Decimal("0.5")], [Decimal("-0.25")]]


def test_json_lines_that_are_no_objects_are_dead_letters_whatever_stands_beside_them(
    tmp_path: Path,
) -> None:
    lines = ["null", '{"id": 1, "x": 1}', " null ", '{"id": 2, "x": 2} null', '{"id":', "3}"]
    path = tmp_path / "r.jsonl"
    path.write_bytes("\n".join(lines).encode() + b'\n{"id": 4, "x": 4, "more": "\xff"}\n')
    no_object = "the record is no JSON object (r.jsonl, line {})"
    assert read(FileSource.open("R", path, DECLARED)) == [
        Malformed("R", "'null'", no_object.format(1)),
        [1, 1],
        Malformed("R", "'null'", no_object.format(3)),
        Malformed("R", "'{\"id\": 2, \"x\": 2} null'",
                  "the record is not JSON: Extra data at column 19 (r.jsonl, line 4)"),
        Malformed("R", "'{\"id\":'",
                  "the record is not JSON: Expecting value at column 7 (r.jsonl, line 5)"),
        Malformed("R", "'3}'", "the record is not JSON: Extra data at column 2 (r.jsonl, line 6)"),
        Malformed("R", "'{\"id\": 4, \"x\": 4, \"more\": \"\ufffd\"}'",
                  "the record is not UTF-8 (r.jsonl, line 7)"),
    ]  # fmt: skip
    alone = write(tmp_path / "a.jsonl", "null\n")
    with pytest.raises(InputError) as error:
        FileSource.open("R", alone)
    assert str(error.value) == (
        f"{alone} cannot be read: its first lines are no JSON objects\n{REMEDY}"
    )
