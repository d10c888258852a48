"""Hostile input: texts, SQL, scripts, files and Python values, all from one random generator."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.streams.schema import type_name

TYPES: tuple[pa.DataType, ...] = (
    pa.bool_(),
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 38),
    pa.decimal128(38, 0),
    pa.date32(),
    pa.timestamp("s"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.string(),
    pa.binary(),
)

NUMBERS = (
    "0", "1", "-1", "+1", "007", "1.5", ".5", "5.", "-0.0", "1e2", "1E-2", "1e+2", "3E", "1e", "e5",
    "1e999999999", "1e-999999999", "-1e-999999999", "1e99999999999999999999", "0e999999999",
    "1e400",
    "1e38", "1e39", "1e-38", "1e-39", "9" * 18, "9" * 19, "9" * 38, "9" * 39, "9" * 300, "9" * 5000,
    "0." + "0" * 50 + "1", "0." + "9" * 38, "0." + "9" * 100, "1_000", "1,5", "0x10", "0xFF", "0X",
    "0b1", "0o7", "127", "128", "-128", "-129", "255", "256", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
    "18446744073709551616", "NaN", "nan", "-nan", "NaN(1)", "nan123", "sNaN", "inf", "-inf",
    "Infinity", "-Infinity", "+inf", "1.7976931348623157e308", "1.8e308", "3.5e38", "1e-46",
    "\u0663",
    "1\u0663", "\u00b2", "\uff11", "1\u00a02", "\u2212" + "1", "--1", "1-", "1..2", "1.2.3", "1/2",
    "1 2", " 1", "1 ", "\t1", "1\x00", "true", "FALSE", "t", "yes", "Y", "0x1p3", "1d", "1f", "1L",
)  # fmt: skip
MOMENTS = (
    "2024-01-31", "2024-02-30", "2024-13-01", "0000-01-01", "0001-01-01", "9999-12-31",
    "10000-01-01", "-0001-01-01", "+2024-01-31", "999999999999-01-01", "9" * 5000 + "-01-01",
    "2024-1-1", "20240131", "2024-01-31 12:00", "2024-01-31 12", "2024-01-31T12:00:00",
    "2024-01-31 12:00:00.5", "2024-01-31 12:00:00.123456789", "2024-01-31 12:00:00.1234567891234",
    "2024-01-31 24:00:00", "2024-01-31 23:59:60", "2024-01-31 12:00:00Z", "2024-01-31 12:00:00+02",
    "2024-01-31 12:00:00+02:00", "2024-01-31T12:00:00-0330", "2024-01-31 12:00:00+99:99",
    "2024-01-31 12:00:00 UTC", "2024-01-31 12:00:00 Europe/Berlin", "18:59:40.02", "12:00",
    "1677-09-21 00:12:43", "2262-04-11 23:47:16.854775808", "2262-04-12", "\u0662024-01-01",
    "2024-03-31 02:30:00", "1970-01-01", "now", "2024-01-31 12:00:00.", "2024-01-31 ", "24-01-31",
)  # fmt: skip
WORDS = (
    "", " ", "a", "it's", '"', "''", "NULL", "null", "None", "a,b", "a\nb", "a\r\nb", "a;b", "#",
    "\\",
    "\x00", "\x07", "\u2028", "\ufeff", "\U0001f600", "\U0010ffff", "e\u0301", "%", "_", "[", "]",
    "{", "}", "--", "/*", "*/", "x" * 3000, "\u00e9" * 100, "\ud7ff", "\ufffd", "\u202e", "$1", "?",
)  # fmt: skip
SURROGATES = ("\ud800", "a\udfffb", "\udcff", "\ud83d")


def text(draw: Random, surrogates: bool = False) -> str:
    """A text that some type or another may take, or not."""
    groups = (NUMBERS, MOMENTS, WORDS, SURROGATES if surrogates else WORDS)
    chosen = draw.choice(draw.choice(groups))
    if draw.random() < 0.2:
        chosen += draw.choice(draw.choice(groups))
    if draw.random() < 0.1 and chosen:
        place = draw.randrange(len(chosen))
        chosen = (
            chosen[:place] + draw.choice(("", " ", "e", "-", ".", "0", "\u0660")) + chosen[place:]
        )
    return chosen


# -- SQL ------------------------------------------------------------------------------------

QUERIES = (
    "SELECT id , x + 1 AS y FROM R WHERE x > 5 AND name LIKE 'a%' OR p IS NULL",
    "SELECT id , CAST ( name AS decimal ( 10 , 2 ) ) AS d , t + INTERVAL 1 DAYS AS u FROM R",
    "SELECT x , COUNT ( * ) AS n , SUM ( x ) AS s FROM R [ RANGE 10 SLIDE 5 WATTR id ] GROUP BY x",
    "SELECT MAX ( x ) , window_start FROM R [ RANGE 10 MINUTES SLIDE 1 MINUTES WATTR t "
    "SLACK 5 SECONDS ] HAVING COUNT ( * ) > 1 ORDER BY 1 LIMIT 3",
    "SELECT AVG ( p ) AS a FROM R [ ROWS 4 SLIDE 2 ] WHERE x IN ( 1 , 2.5 , 1e3 )",
    "SELECT r . id , s . id FROM R [ RANGE 10 SECONDS WATTR t ] AS r LEFT JOIN S [ ROWS 4 WATTR t "
    "] AS s ON r . x BETWEEN s . a - 1 AND s . a + 1 WHERE r . x IS NOT NULL EMIT ORDER outer "
    "PRECISION 4",
    "SELECT * FROM R [ RANGE 5 WATTR id SLACK 2 ] AS r JOIN S [ RANGE 5 WATTR id ] AS s ON r . x = "
    "s . a",
    "SELECT CASE WHEN x = 1 THEN 'one' ELSE name END AS c , DATE '2024-01-31' AS d , "
    "TIMESTAMP '2024-01-31 12:00:00' AS t FROM R UNION ALL SELECT name , d , t FROM R",
    "CREATE STREAM q ( a int , b decimal ( 10 , 2 ) , c timestamp ( 6 , 'UTC' ) ) TIMESTAMP BY a",
    "CREATE STREAM q AS SELECT id , x FROM R WHERE ROUND ( z , 2 ) > 1.5",
    "SHOW STREAMS ; DESCRIBE R ; EXPLAIN SELECT SUBSTRING ( name , 2 , 3 ) AS n FROM R",
)
PIECES = (
    "SELECT", "FROM", "R", "S", "r", "id", "x", "name", ",", "(", ")", "[", "]", ".", ";", "*", "+",
    "-", "/", "%", "||", "::", "=", "<>", "<", "AND", "NOT", "NULL", "ROWS", "RANGE", "SLIDE",
    "WATTR", "SLACK", "START AT", "NOW", "UNBOUNDED", "EMIT ORDER inner", "EMIT EMPTY", "SECONDS",
    "MONTHS", "GROUP BY", "DISTINCT", "FILTER ( WHERE", "INTERVAL", "CAST (", "AS int", "X'0F'",
    "X'0'", "'", '"', "`", "--", "/*", "*/", "CASE", "END", "JOIN", "ON", "UNION ALL", "LIMIT",
    "3E",
    "SLACK 3EMIT", "OVER", "IN (", "BETWEEN", "COUNT ( * )", "window_start", "AS", "\u0663", "$1",
    "{", "}", "\\", "@", "!", "~", "^", "&", "|", "\x00", "\u00a0", "\ufeff",
)  # fmt: skip
UNITS = ("", "SECONDS", "MINUTES", "DAYS", "MONTHS", "WEEKS", "NANOSECONDS", "LIGHTYEARS")


def sql(draw: Random) -> str:
    """A statement with some of its words replaced, doubled, moved or made hostile."""
    words = draw.choice(QUERIES).split(" ")
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(words))
        kind = draw.randrange(7)
        if kind == 0:
            words[place] = draw.choice(PIECES)
        elif kind == 1:
            words.insert(place, draw.choice(PIECES))
        elif kind == 2:
            del words[place]
        elif kind == 3:
            numbers = [i for i, word in enumerate(words) if word[:1].isdigit()] or [place]
            words[draw.choice(numbers)] = f"{draw.choice(NUMBERS)} {draw.choice(UNITS)}"
        elif kind == 4:
            quoted = text(draw, surrogates=draw.random() < 0.3).replace("'", "''")
            words[place] = (
                draw.choice(("", "DATE ", "TIMESTAMP ", "INTERVAL ", "X")) + f"'{quoted}'"
            )
        elif kind == 5:
            words[place] = f'"{text(draw, surrogates=draw.random() < 0.3)}"'
        else:
            depth = draw.choice((2, 30, 3000))
            words[place] = f"{'(' * depth}{words[place]}{')' * depth}"
        if not words:
            words = [""]
    return " ".join(words)


SCRIPT = (
    "stream R (id int64, x int32) TIMESTAMP BY id",
    "CREATE STREAM S (id int64, name string, p decimal(10, 2), d date, t timestamp)",
    "install q: SELECT id FROM R WHERE x > 1",
    "R: 1, 10",
    "S: 1, 'a', 1.5, DATE '2024-01-31', TIMESTAMP '2024-01-31 12:00:00'",
    "S: 2, E'a\\n\\u0041', NULL, NULL, NULL",
    "punctuate R: 120",
    "punctuate R.id: 5",
    "change q: SELECT id FROM R WHERE x > 2",
    "expect q: 1; 2",
    "expect dead q: R: 1, NULL (reason)",
    "drop q",
    "end R",
    "end",
)


def script(draw: Random) -> str:
    """Lines of a script, some with hostile literals, some cut or joined."""
    lines = [line for line in SCRIPT if draw.random() < 0.8]
    for _ in range(draw.randint(1, 3)):
        if not lines:
            break
        place = draw.randrange(len(lines))
        line = lines[place]
        head, _, tail = line.partition(":")
        kind = draw.randrange(5)
        if kind == 0:
            quoted = text(draw, surrogates=draw.random() < 0.3)
            frames = ("{}", "'{}'", "E'{}'", "INTERVAL '{}' DAYS", "DATE '{}'", "X'{}'")
            literal = draw.choice(frames).replace("{}", quoted)
            lines[place] = f"{head}: {literal}{',' + tail if draw.random() < 0.5 else ''}"
        elif kind == 1:
            cut = draw.randrange(len(line) + 1)
            lines[place] = line[:cut]
        elif kind == 2:
            cut = draw.randrange(len(line) + 1)
            lines[place] = (
                line[:cut] + draw.choice(("\\", "#", "'", '"', ";", ":", "\r", "\x00")) + line[cut:]
            )
        elif kind == 3:
            lines.insert(place, draw.choice(SCRIPT))
        else:
            lines[place] = line.replace(
                "int", draw.choice(("decimal(\u0663)", "timestamp(6, '\x00')", "text"))
            )
    return draw.choice(("\n", "\r\n", "\r")).join(lines)


# -- files ----------------------------------------------------------------------------------


def schema(draw: Random) -> pa.Schema:
    """Some columns."""
    return pa.schema([(f"c{i}", draw.choice(TYPES)) for i in range(draw.randint(1, 4))])


def csv_file(draw: Random, columns: pa.Schema) -> bytes:
    """A CSV file in which much is wrong."""
    lines = [",".join(columns.names)]
    for _ in range(draw.randint(0, 8)):
        fields = [_csv_field(draw) for _ in columns]
        if draw.random() < 0.1:
            fields.append("extra")
        elif draw.random() < 0.1:
            fields.pop()
        lines.append(",".join(fields))
    newline = draw.choice(("\n", "\n", "\r\n", "\r"))
    data = newline.join(lines).encode("utf-8", "surrogatepass")
    return _damaged(draw, data + newline.encode() * draw.randint(0, 2))


def _csv_field(draw: Random) -> str:
    field = text(draw, surrogates=draw.random() < 0.05)
    kind = draw.random()
    if kind < 0.5:
        return field.replace("\n", " ").replace("\r", " ").replace(",", ";").replace('"', "'")
    if kind < 0.9:
        return '"' + field.replace('"', '""') + '"'
    return field


def json_lines(draw: Random, columns: pa.Schema) -> bytes:
    """A file of JSON Lines in which much is wrong."""
    lines = []
    for _ in range(draw.randint(0, 8)):
        record = {name: _json_value(draw) for name in columns.names if draw.random() < 0.9}
        if draw.random() < 0.1:
            record[draw.choice(("C0", "extra", "\ud800", ""))] = _json_value(draw)
        line = json.dumps(record, ensure_ascii=draw.random() < 0.7)
        for number in ("1e-999999999", "9" * 50, "1e400"):
            if draw.random() < 0.03:
                line = line.replace("1.5", number, 1).replace(": 7", f": {number}", 1)
        lines.append(line if draw.random() < 0.95 else text(draw).replace("\n", " "))
    newline = draw.choice(("\n", "\n", "\r\n"))
    return _damaged(draw, newline.join(lines).encode("utf-8", "surrogatepass"))


def _json_value(draw: Random) -> object:
    return draw.choice(
        (None, True, 7, -(2**63), 2**64, 1.5, 1e300, float("nan"), [], {}, {"a": [1]},
         text(draw, surrogates=draw.random() < 0.1), draw.choice(NUMBERS), draw.choice(MOMENTS))
    )  # fmt: skip


def parquet_file(draw: Random) -> bytes:
    """A Parquet file, perhaps damaged."""
    rows = draw.randint(0, 6)
    arrays: dict[str, Any] = {
        "c0": pa.array([draw.choice((None, 1, 2**40)) for _ in range(rows)], pa.int64()),
        "c1": pa.array([draw.choice((None, b"a", b"\xff")) for _ in range(rows)], pa.binary()).view(
            pa.string()
        ),
        "c2": pa.array([[1]] * rows, pa.list_(pa.int64())),
        "c3": pa.array([Decimal("1.50")] * rows, pa.decimal128(38, 2)),
        "c4": pa.array([1.5] * rows).dictionary_encode() if rows else pa.array([], pa.float64()),
    }
    chosen = {name: array for name, array in arrays.items() if draw.random() < 0.8} or arrays
    sink = io.BytesIO()
    pq.write_table(pa.table(chosen), sink, write_page_checksum=draw.random() < 0.5)
    return _damaged(draw, sink.getvalue())


INSERTED = (b"\xff", b"\x00", b'"', b"\r", b"\n", b",", b"\xed\xa0\x80", b"\xef\xbb\xbf")


def _damaged(draw: Random, data: bytes) -> bytes:
    """The bytes, every second time with some flipped, cut out, doubled or inserted."""
    if draw.random() < 0.5 or not data:
        return data
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(changed) + 1)
        kind = draw.randrange(4)
        if kind == 0 and place < len(changed):
            changed[place] = draw.randrange(256)
        elif kind == 1:
            del changed[place : place + draw.randint(1, 20)]
        elif kind == 2:
            changed[place:place] = draw.choice(INSERTED)
        else:
            changed[place:place] = bytes(changed[place : place + 30])
        if not changed:
            break
    return bytes(changed)


# -- Python values --------------------------------------------------------------------------


class Odd:
    """A value that nothing has been made for."""

    def __repr__(self) -> str:
        return "Odd \ud800"


def value(draw: Random) -> object:
    """A Python value of any kind."""
    plain: tuple[object, ...] = (
        None, True, False, 0, 1, -1, 127, 128, 255, 2**31, -(2**63), 2**63, 2**64, 10**38, 10**39,
        10**400, 10**5000, 0.0, -0.0, 1.5, 1e38, 1e39, 1e300, 5e-324, float("nan"), float("inf"),
        Decimal("1.50"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"),
        Decimal("1e-999999999"),
        Decimal("1e999999"), Decimal("1e999999999"), Decimal("0e999999999"),
        Decimal("0." + "9" * 60),
        Decimal("9" * 5000), b"", b"ab", b"\xff", bytearray(b"x"), memoryview(b"x"),
        dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2024, 1, 31, tzinfo=dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
        dt.datetime(2024, 1, 31, tzinfo=dt.timezone(dt.timedelta(seconds=3723, microseconds=5))),
        dt.time(1, 2), dt.timedelta(days=1), dt.timedelta.max, dt.timedelta.min, pd.NA, pd.NaT,
        pd.Timestamp("2024-01-31"), pd.Timestamp("2024-01-31", tz="Europe/Berlin"), pd.Timedelta(1),
        np.int8(1), np.uint64(2**63), np.float16(1.5), np.float32(1.5), np.float64("nan"),
        np.bool_(True),
        np.str_("a"), np.bytes_(b"a"), np.datetime64("2024-01-31"), np.datetime64("NaT"),
        np.datetime64("2024-01-31T12:00:00.123456789"), np.datetime64(2**62, "Y"),
        np.datetime64("2024"),
        np.timedelta64(1, "D"), np.array([1, 2]), np.array(1), np.ma.masked, 1j, [], {}, set(),
        (), Odd(), Odd,
        Ellipsis, pa.scalar(1), pa.scalar("a"), range(3),
    )  # fmt: skip
    return draw.choice(plain) if draw.random() < 0.6 else text(draw, surrogates=True)


def rows_of(draw: Random, columns: pa.Schema) -> list[Any]:
    """Dicts for a stream, some with keys that it does not have, or without those it has."""
    rows: list[Any] = []
    for _ in range(draw.randint(0, 5)):
        row: dict[Any, object] = {
            name.upper() if draw.random() < 0.1 else name: value(draw)
            for name in columns.names
            if draw.random() < 0.9
        }
        if draw.random() < 0.1:
            row[draw.choice(("extra", "C0", 5, None, "\ud800", b"c0", (1,), Odd()))] = value(draw)
        rows.append(row)
    return rows


def container(draw: Random, columns: pa.Schema) -> object:
    """The same sort of values in something else than dicts; None if it takes none of them."""
    count = draw.randint(0, 4)
    makers = (_pandas, _polars, _arrow)
    make = draw.choice(makers)
    try:
        return make(draw, columns.names, count)
    except (Exception, pl.exceptions.PanicException):  # it is the container that refuses
        return None


def _pandas(draw: Random, names: list[str], count: int) -> object:
    columns: dict[str, Any] = {}
    for name in [*names, *(["extra"] if draw.random() < 0.3 else [])]:
        values = [value(draw) for _ in range(count)]
        if draw.random() < 0.5:
            first = draw.choice((1, 1.5, "a", None, float("nan"), dt.datetime(2024, 1, 31)))
            values = [draw.choice((first, None, first)) for _ in range(count)]
        columns[name] = pd.Series(values, dtype=draw.choice((None, object, "category")))
    return pd.DataFrame(columns)


def _polars(draw: Random, names: list[str], count: int) -> object:
    kinds = (pl.Int64, pl.UInt8, pl.Float32, pl.String, pl.Categorical, pl.Binary, pl.Date,
             pl.Datetime("ns"), pl.Duration, pl.Time, pl.Boolean, pl.List(pl.Int64),
             pl.Decimal(10, 2),
             pl.Object, pl.Int128, pl.Null)  # fmt: skip
    columns: dict[str, Any] = {}
    for name in [*names, *(["extra"] if draw.random() < 0.3 else [])]:
        values = [value(draw) for _ in range(count)]
        columns[name] = pl.Series(name, values, dtype=draw.choice(kinds), strict=False)
    return pl.DataFrame(columns)


def _arrow(draw: Random, names: list[str], count: int) -> object:
    kinds: tuple[Any, ...] = (
        *TYPES, pa.string_view(), pa.large_string(), pa.binary_view(), pa.large_binary(),
        pa.float16(),
        pa.date64(), pa.time64("us"), pa.duration("s"), pa.null(), pa.decimal256(76, 40),
        pa.decimal32(5, 2),
        pa.decimal128(5, -3), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]),
        pa.dictionary(pa.int8(), pa.string()), pa.month_day_nano_interval(),
    )  # fmt: skip
    arrays: dict[str, Any] = {}
    for name in [*names, *(["extra"] if draw.random() < 0.3 else [])]:
        kind = draw.choice(kinds)
        arrays[name] = pa.array([_for_arrow(draw, kind) for _ in range(count)], kind)
        if draw.random() < 0.1:
            arrays[name] = pa.array([b"\xff"] * count).view(pa.string())
    table = pa.table(arrays)
    return table if draw.random() < 0.5 or not table.num_rows else table.to_batches()[0]


def _for_arrow(draw: Random, kind: Any) -> object:
    """A value that an array of this type takes, mostly."""
    for _ in range(20):
        candidate = value(draw)
        if isinstance(candidate, Decimal | pa.Scalar) or (
            pa.types.is_decimal(kind) and isinstance(candidate, str)
        ):
            continue  # of some Arrow makes a crash of its own, or goes on for ever
        try:
            pa.array([candidate], kind)
        except Exception:
            continue
        return candidate
    return None


def declaration(columns: pa.Schema) -> str:
    """The statement that creates a stream R of these columns."""
    return f"CREATE STREAM R ({', '.join(f'{f.name} {type_name(f.type)}' for f in columns)})"
