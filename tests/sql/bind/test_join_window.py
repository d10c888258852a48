"""Window clauses: sizes in ticks, and which column is a tuple's time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import SqlError
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import Join, Scan
from penstock.streams.schema import Stream
from penstock.streams.windows import Range, Rows, TimeAttribute, Unbounded

COLUMNS = {
    "i8": pa.int8(),
    "i": pa.int64(),
    "u": pa.uint32(),
    "f": pa.float32(),
    "g": pa.float64(),
    "p": pa.decimal128(10, 2),
    "q": pa.decimal128(12, 3),
    "d": pa.date32(),
    "s": pa.timestamp("s"),
    "ms": pa.timestamp("ms"),
    "us": pa.timestamp("us"),
    "ns": pa.timestamp("ns"),
    "utc": pa.timestamp("s", "UTC"),
    "rome": pa.timestamp("ms", "Europe/Rome"),
}


def join(left: str, right: str, order_column: str | None = None) -> Join:
    catalog = Catalog([Stream.of("R", pa.schema(COLUMNS)), Stream.of("S", pa.schema(COLUMNS))])
    query = parse_query(f"SELECT R.i FROM R {left} JOIN S {right} ON TRUE")
    source = bind(query, catalog, order_column=order_column).selects[0].source
    assert isinstance(source, Join)
    return source


CLOCKS = [
    ("RANGE 10 WATTR i", "RANGE 20 WATTR i8 SLACK 5", Range(10), Range(20, 5), 1, 1),
    ("RANGE 10 MINUTES WATTR u", "ROWS 5 WATTR i", Range(600), Rows(5), 1, 1),
    ("RANGE 1.25 WATTR p", "RANGE 3 WATTR i", Range(125), Range(300), 1, 100),
    ("RANGE 1.25 WATTR p", "RANGE 1.125 WATTR q", Range(1250), Range(1125), 10, 1),
    ("RANGE 1.5 SECONDS WATTR p", "NOW WATTR p", Range(150), Rows(0), 1, 1),
    ("RANGE 1 SECOND WATTR s", "RANGE 2 SECONDS WATTR s", Range(1), Range(2), 1, 1),
    ("RANGE 1 SECOND WATTR s", "RANGE 2 SECONDS WATTR us", Range(10**6), Range(2 * 10**6), 10**6,
     1),
    ("RANGE 1 SECOND WATTR s SLACK 1 MILLISECOND", "ROWS 1 WATTR s", Range(1000, 1), Rows(1), 1000,
     1000),
    ("RANGE 1 NANOSECOND WATTR us", "ROWS 1 WATTR ms", Range(1), Rows(1), 1000, 10**6),
    ("RANGE 1 SECOND INCLUSIVE WATTR s SLACK 0", "RANGE 0 INCLUSIVE WATTR s",
     Range(1, 0, inclusive=True), Range(0, inclusive=True), 1, 1),
    ("RANGE 7 DAYS WATTR d", "RANGE 1 WEEK WATTR d", Range(7), Range(7), 1, 1),
    ("RANGE 36 HOURS WATTR d", "RANGE 1 WEEK WATTR d", Range(129600), Range(604800), 86400, 86400),
    ("RANGE 1 DAY WATTR d", "RANGE 1 HOUR WATTR ms", Range(86400000), Range(3600000), 86400000, 1),
    ("RANGE 1 MINUTE WATTR utc", "ROWS 1 WATTR rome", Range(60000), Rows(1), 1000, 1),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "first", "second", "factor", "other"), CLOCKS)
def test_exact_clocks(
    left: str, right: str, first: Range, second: Range | Rows, factor: int, other: int
) -> None:
    bound = join(f"[{left}]", f"[{right}]")
    assert (bound.inputs[0].window, bound.inputs[1].window) == (first, second)
    assert bound.inputs[0].time and bound.inputs[1].time
    assert (bound.inputs[0].time.factor, bound.inputs[1].time.factor) == (factor, other)
    assert not bound.float_clock
    assert all(scan.time and isinstance(scan.time.factor, int) for scan in bound.inputs)


def test_a_float_attribute_makes_the_whole_clock_a_float_one() -> None:
    bound = join("[RANGE 2.5 WATTR f]", "[RANGE 3 WATTR i SLACK 1]")
    assert bound.float_clock
    assert bound.inputs[0].window == Range(2.5)
    assert bound.inputs[1].window == Range(3.0, 1.0)
    assert isinstance(bound.inputs[1].window.size, float)
    assert bound.inputs[0].time == TimeAttribute(3, "f", 1.0)
    assert bound.inputs[1].time == TimeAttribute(1, "i", 1.0)
    decimal = join("[RANGE 2 WATTR g]", "[ROWS 3 WATTR p]")
    assert decimal.inputs[1].time == TimeAttribute(5, "p", 0.01)


def test_count_windows_have_no_time() -> None:
    bound = join("[ROWS 0]", "[NOW]")
    assert (bound.inputs[0].window, bound.inputs[1].window) == (Rows(0), Rows(0))
    assert (bound.inputs[0].time, bound.inputs[1].time) == (None, None)


R = pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.int64(), "o": pa.int64()})
S = pa.schema({"b": pa.int64(), "x": pa.int64(), "o": pa.int64()})


def times(
    left: str, right: str, order: str | None = None, declared: str | None = None
) -> tuple[str, str]:
    catalog = Catalog([Stream.of("R", R, declared), Stream.of("S", S)])
    query = parse_query(f"SELECT a FROM R {left} JOIN S {right} ON TRUE")
    source = bind(query, catalog, order_column=order).selects[0].source
    assert isinstance(source, Join)
    left, right = (scan.time for scan in source.inputs)
    assert left and right
    return left.name, right.name


def test_a_streams_own_wattr_comes_first() -> None:
    assert times("[RANGE 5 WATTR A]", "[RANGE 5 WATTR x]", "o", "c") == ("a", "x")
    assert times("[ROWS 5 WATTR a]", "[RANGE 5 WATTR x]", "o", "c") == ("a", "x")


def test_then_its_declared_time_attribute() -> None:
    assert times("[RANGE 5]", "[RANGE 5 WATTR b]", "o", "c") == ("c", "b")


def test_then_the_name_of_the_other_sides_wattr() -> None:
    assert times("[RANGE 5]", "[RANGE 5 WATTR b]", "o") == ("b", "b")
    assert times("[RANGE 5 WATTR b]", "[NOW]", "o") == ("b", "b")


def test_then_the_order_column() -> None:
    assert times("[RANGE 5]", "[RANGE 5]", "o") == ("o", "o")
    assert times("[RANGE 5]", "[RANGE 5 WATTR x]", "O") == ("o", "x")
    assert times("[RANGE 5 WATTR a]", "[ROWS 5]", "o") == ("a", "o")


def test_bounded_streams_need_no_windows_where_none_are_required() -> None:
    streams = [Stream.of("R", R, bounded=True), Stream.of("S", S, bounded=True)]
    catalog = Catalog(streams, windows_required=False)
    source = (
        bind(parse_query("SELECT a FROM R JOIN S [ROWS 2] ON a = x"), catalog).selects[0].source
    )
    assert isinstance(source, Join)
    assert [scan.window for scan in source.inputs] == [Unbounded(), Rows(2)]


def test_a_bounded_stream_may_have_an_unbounded_window() -> None:
    catalog = Catalog([Stream.of("R", R, bounded=True), Stream.of("S", S)])
    query = parse_query("SELECT a FROM R [UNBOUNDED] JOIN S [NOW] ON a = x")
    source = bind(query, catalog).selects[0].source
    assert isinstance(source, Join)
    assert [scan.window for scan in source.inputs] == [Unbounded(), Rows(0)]


def test_a_window_without_a_join_is_kept() -> None:
    catalog = Catalog([Stream.of("R", R)])
    sql = "SELECT a FROM R [RANGE 5 WATTR a SLACK 1] AS other"
    source = bind(parse_query(sql), catalog).selects[0].source
    assert isinstance(source, Scan)
    assert (source.alias, source.window, source.time) == ("other", Range(5, 1), None)


def test_a_stream_that_ends_may_be_kept_whole() -> None:
    catalog = Catalog([Stream.of("R", pa.schema(COLUMNS), bounded=True)])
    with pytest.raises(SqlError) as caught:
        bind(parse_query("SELECT a.i FROM R AS a JOIN R [NOW] AS b ON TRUE"), catalog)
    assert str(caught.value) == (
        "join without a window on stream R at line 1, column 17\n"
        "  SELECT a.i FROM R AS a JOIN R [NOW] AS b ON TRUE\n"
        "                  ^\n"
        "Write R [ROWS 1000] or R [RANGE 10 SECONDS WATTR d], or R [UNBOUNDED] to keep all of it."
    )


def test_a_derived_stream_has_no_declaration_to_be_mended() -> None:
    catalog = Catalog([Stream.of("big", pa.schema(COLUMNS), derived=True)])
    with pytest.raises(SqlError) as caught:
        bind(parse_query("SELECT i FROM big [RANGE 5]"), catalog)
    assert str(caught.value) == (
        "the time attribute of stream big is not known at line 1, column 15\n"
        "  SELECT i FROM big [RANGE 5]\n"
        "                ^^^^^^^^^^^^^\n"
        "Write big [RANGE 5 WATTR d] (or another column with its time); a derived stream has no "
        "declaration."
    )
