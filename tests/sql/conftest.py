"""The streams in the tests of the SQL layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse, parse_query
from penstock.sql.parse.statements import CreateStream
from penstock.sql.plan import Plan, Select

STREAMS = """
CREATE STREAM R (id int64, x int32, y float, name string, t timestamp, d date, p decimal(10, 2),
                 b boolean, u uint64, tz timestamptz, bin binary, i8 int8, u8 uint8, z double);
CREATE STREAM S (id int64, a int32, z double, t timestamp(3), name string, f float);
CREATE STREAM T (id int, ts bigint) TIMESTAMP BY ts;
CREATE STREAM Windowed (window_start bigint, n int) TIMESTAMP BY window_start;
CREATE STREAM Days (name string, f float, day date);
CREATE STREAM Words (a string);
CREATE STREAM Waves (f float);
"""
BOUNDED = {"R": "Past", "S": "Older", "T": "Gone"}
"""Bounded streams with the columns of others."""


@pytest.fixture
def catalog() -> Catalog:
    streams = [s.stream for s in parse(STREAMS) if isinstance(s, CreateStream)]
    ending = [replace(s, name=BOUNDED[s.name], bounded=True) for s in streams if s.name in BOUNDED]
    return Catalog([*streams, *ending])


@pytest.fixture
def plan(catalog: Catalog) -> Callable[[str], Plan]:
    return lambda sql: bind(parse_query(sql), catalog)


@pytest.fixture
def select(plan: Callable[[str], Plan]) -> Callable[[str], Select]:
    return lambda sql: plan(sql).selects[0]
