"""Windows of aggregates: lengths in the units of the attribute, and where they begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import Aggregate, Plan, Scan, Select
from penstock.streams.schema import Stream
from penstock.streams.windows import Sliding, SlidingRows, TimeAttribute

COLUMNS = {
    "i8": pa.int8(),
    "u": pa.uint32(),
    "i": pa.int64(),
    "p": pa.decimal128(10, 2),
    "d": pa.date32(),
    "s": pa.timestamp("s"),
    "ms": pa.timestamp("ms"),
    "ns": pa.timestamp("ns"),
    "utc": pa.timestamp("us", "UTC"),
    "rome": pa.timestamp("s", "Europe/Rome"),
}
STREAM = Stream.of("R", pa.schema(COLUMNS))


def aggregate(clause: str, stream: Stream = STREAM, order: str | None = None) -> Aggregate:
    query = parse_query(f"SELECT COUNT(*) FROM R [{clause}]")
    source = bind(query, Catalog([stream]), order_column=order).selects[0].source
    assert isinstance(source, Aggregate)
    return source


WINDOWS = {
    "RANGE 600 SLIDE 60 WATTR i": Sliding(600, 60),
    "RANGE 10 MINUTES SLIDE 1 MINUTE WATTR u": Sliding(600, 60),
    "RANGE 10 SLIDE 20 WATTR i8 SLACK 0": Sliding(10, 20, None, 0),
    "RANGE 1.5 SLIDE 0.25 WATTR p SLACK 1": Sliding(150, 25, None, 100),
    "RANGE 90 SECONDS SLIDE 1 SECOND WATTR p": Sliding(9000, 100),
    "RANGE 1 WEEK SLIDE 1 DAY WATTR d SLACK 48 HOURS": Sliding(7, 1, None, 2),
    "RANGE 1 MINUTE SLIDE 1 SECOND WATTR s": Sliding(60, 1),
    "RANGE 1.5 SECONDS SLIDE 250 MILLISECONDS WATTR ms": Sliding(1500, 250),
    "RANGE 1 MICROSECOND SLIDE 1 NANOSECOND WATTR ns": Sliding(1000, 1),
    "RANGE 1 DAY SLIDE 1 HOUR WATTR utc": Sliding(86_400_000_000, 3_600_000_000),
    "RANGE 7 SLIDE 7 START AT -3 WATTR i": Sliding(7, 7, -3),
    "RANGE 7 SLIDE 7 START AT 0 SLACK 1 WATTR i": Sliding(7, 7, 0, 1),
    "RANGE 7 SLIDE 7 WATTR p START AT 2.5": Sliding(700, 700, 250),
    "RANGE 7 SLIDE 7 WATTR p START AT 3": Sliding(700, 700, 300),
    "RANGE 1 DAY SLIDE 1 DAY WATTR d START AT DATE '1970-01-03'": Sliding(1, 1, 2),
    "RANGE 1 DAY SLIDE 1 DAY WATTR d START AT '1970-01-03'": Sliding(1, 1, 2),
    "RANGE 1 DAY SLIDE 1 DAY WATTR d START AT TIMESTAMP '1970-01-03 00:00'": Sliding(1, 1, 2),
    "RANGE 1 DAY SLIDE 1 DAY WATTR s START AT DATE '1970-01-03'": Sliding(86400, 86400, 172800),
    "RANGE 1 DAY SLIDE 1 DAY WATTR ms START AT '1970-01-01 00:01'": (
        Sliding(86_400_000, 86_400_000, 60_000)
    ),
    "RANGE 1 DAY SLIDE 1 DAY WATTR s START AT TIMESTAMP '1970-01-01 00:01'": (
        Sliding(86400, 86400, 60)
    ),
    "RANGE 1 DAY SLIDE 1 DAY WATTR rome START AT TIMESTAMP '1970-01-01 01:01+01:00'": (
        Sliding(86400, 86400, 60)
    ),
    "ROWS 100 SLIDE 10": SlidingRows(100, 10),
    "ROWS 1 SLIDE 7": SlidingRows(1, 7),
}  # fmt: skip


@pytest.mark.parametrize("clause", WINDOWS)
def test_lengths_are_in_units_of_the_attribute(clause: str) -> None:
    found = aggregate(clause)
    assert found.window == WINDOWS[clause]
    if isinstance(found.window, Sliding):
        assert found.window.text == f"[{clause}]"
        assert found.time is not None and (type(found.time.factor), found.time.factor) == (int, 1)
    else:
        assert found.time is None
    assert isinstance(found.source, Scan)
    assert (found.source.window, found.source.time) == (None, None)


def test_the_attribute_may_be_declared() -> None:
    stream = Stream.of("R", pa.schema(COLUMNS), "ms")
    found = aggregate("RANGE 1 MINUTE SLIDE 1 MINUTE", stream, "i")
    assert found.time == TimeAttribute(6, "ms", 1)
    assert aggregate("RANGE 5 SLIDE 5 WATTR I", stream).time == TimeAttribute(2, "i", 1)


def test_the_attribute_may_be_the_order_column() -> None:
    assert aggregate("RANGE 5 SLIDE 5", order="I").time == TimeAttribute(2, "i", 1)


def test_a_stream_may_bring_its_slack() -> None:
    stream = replace(Stream.of("R", pa.schema(COLUMNS), "s"), slack=Fraction(3, 2))
    clause = "RANGE 1 MINUTE SLIDE 1 MINUTE"
    assert aggregate(clause, stream).window == Sliding(60, 60, None, 2)
    assert aggregate(f"{clause} SLACK 5 SECONDS", stream).window == Sliding(60, 60, None, 5)
    assert aggregate(f"{clause} WATTR i", stream).window == Sliding(60, 60)


def test_a_derived_stream_is_aggregated_by_its_columns(plan: Callable[[str], Plan]) -> None:
    inner = plan("SELECT window_end AS e, COUNT(*) AS n FROM T [RANGE 60 SLIDE 60]")
    stream = Stream.of("R", inner.schema, derived=True)
    found = aggregate("RANGE 600 SLIDE 60 WATTR e", stream)
    assert found.window == Sliding(600, 60, derived=True)


def test_an_alias_may_follow(select: Callable[[str], Select]) -> None:
    found = select("SELECT COUNT(w.id) FROM T [RANGE 6 SLIDE 6] w")
    assert isinstance(found.source, Aggregate) and isinstance(found.source.source, Scan)
    assert found.source.source.alias == "w"
