"""Compiled kernels against brute force over every pair of random tuples."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.engines.local.engine import Engine
from penstock.kernels.predicate.generate import Shape, generate
from penstock.kernels.predicate.predicate import Predicate
from penstock.oracle.evaluate import Failures, evaluate
from penstock.oracle.oracle import Oracle
from penstock.oracle.values import batch_rows
from penstock.program.isa.instructions import CreateStream, Install
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import Join
from penstock.streams.events import Tuples
from penstock.streams.literals import physical_list
from penstock.streams.schema import Stream

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "i": pa.int32(),
        "j": pa.int64(),
        "u": pa.uint64(),
        "f": pa.float32(),
        "g": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "e": pa.decimal128(12, 4),
        "t": pa.timestamp("us"),
        "m": pa.timestamp("ms"),
        "day": pa.date32(),
        "b": pa.bool_(),
    }
)
STREAMS = (Stream.of("R", SCHEMA), Stream.of("S", SCHEMA))
QUERY = "SELECT r.n AS r, s.n AS s FROM R [ROWS {w}] AS r JOIN S [ROWS {w}] AS s ON {on}"
COUNT = 60
NAN = float("nan")
EPOCH = datetime.datetime(2026, 1, 1)
CHOICES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -3, 7, 2**31 - 1, -(2**31)],
    "j": [0, 1, -1, 5, 10**9],
    "u": [0, 1, 2**63, 2**64 - 1],
    "f": [0.0, -0.0, 0.1, 1.5, -2.0, NAN, float("inf"), float("-inf")],
    "g": [0.0, -0.0, 0.1, 1.5, 1e300, NAN, float("inf"), float("-inf")],
    "s": ["", "a", "b", "ab", "é", "A"],
    "d": [decimal.Decimal(x) for x in ("0", "0.50", "-1.25", "3", "1234567.89")],
    "e": [decimal.Decimal(x) for x in ("0", "0.5000", "-1.2500", "0.0001", "3")],
    "t": [EPOCH + datetime.timedelta(seconds=s) for s in (0, 1, 30, 61, 3600)],
    "m": [EPOCH + datetime.timedelta(milliseconds=s) for s in (0, 1, 1000)],
    "day": [EPOCH.date() + datetime.timedelta(days=s) for s in (0, 1, 31)],
    "b": [True, False],
}


def random_batch(seed: int, nulls: bool, **other: list[Any]) -> pa.RecordBatch:
    source = random.Random(seed)
    columns = [pa.array(range(COUNT), pa.int64())]
    for field in list(SCHEMA)[1:]:
        choices = other.get(field.name, CHOICES[field.name])
        values = source.choices([*choices, None] if nulls else choices, k=COUNT)
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def brute_force(on: str, r: pa.RecordBatch, s: pa.RecordBatch) -> list[tuple[int, int]]:
    """All pairs, by the number in R and then in S."""
    plan = bind(parse_query(QUERY.format(w=COUNT, on=on)), Catalog(list(STREAMS)))
    join = plan.selects[0].source
    assert isinstance(join, Join)
    lefts, rights = batch_rows(r, STREAMS[0]), list(batch_rows(s, STREAMS[1]))
    return [
        (int(left[0]), int(right[0]))  # type: ignore[arg-type]
        for left in lefts
        for right in rights
        if evaluate(join.on, (left, right), Failures()) is True
    ]


def engine_with(on: str, w: int = COUNT) -> Engine:
    engine = Engine()
    engine.feed([*map(CreateStream, STREAMS), Install("q", QUERY.format(w=w, on=on))])
    return engine


def found(engine: Engine) -> list[tuple[int, int]]:
    rows = engine.queries["q"].rows()
    return list(zip(rows["r"].to_pylist(), rows["s"].to_pylist(), strict=True))


PREDICATES = (
    "r.i < s.i",
    "r.i <> s.i OR r.j = s.j",
    "r.i BETWEEN s.i - 2 AND s.i + 2",
    "r.j >= s.j AND r.u <= s.u",
    "r.f = s.f",
    "r.f >= s.g",
    "NOT (r.g < s.g)",
    "r.g - s.g <= 1.5",
    "ABS(r.f - s.f) > CAST(0.5 AS FLOAT)",
    "r.s = s.s",
    "r.s <> s.s AND r.b = s.b",
    "r.d <= s.e",
    "r.t > s.t AND r.m <= s.t",
    "r.t - s.t < INTERVAL '30' SECOND",
    "r.day = s.day",
    "r.b OR s.b",
    "r.i IN (s.i, 1, NULL)",
    "r.i NOT IN (s.i, 1)",
    "(r.j * s.j + 1 > -4) AND r.j - s.j < 3",
)


@pytest.mark.product(9)
@pytest.mark.parametrize("on", PREDICATES)
def test_a_compiled_predicate_is_its_meaning(on: str) -> None:
    for nulls in (True, False):
        r, s = random_batch(1, nulls), random_batch(2, nulls)
        expected = brute_force(on, r, s)
        assert 0 < len(expected) < COUNT * COUNT
        forth, back = engine_with(on), engine_with(on)
        forth.feed([Tuples("S", s), Tuples("R", r)])
        back.feed([Tuples("R", r), Tuples("S", s)])
        assert found(forth) == expected
        assert found(back) == sorted(expected, key=lambda pair: (pair[1], pair[0]))
        for engine in (forth, back):
            (join,) = engine.queries["q"].pipeline.of_kind("join")
            assert join.matcher.residual.is_true, "the whole predicate is compiled"
            assert join.matcher.in_range()


LARGE = {"i": [2**31 - 1, -(2**31), 1, -1], "j": [2**63 - 1, -(2**63), 1, -1, 2**32]}


@pytest.mark.parametrize(
    "on",
    ["r.i + s.i > 0", "r.i - s.i <= 1", "r.j + s.j > 0", "r.j * s.j <> 1", "ABS(r.j - s.j) > 1"],
)
def test_where_sums_overflow_pairs_are_evaluated_instead(on: str) -> None:
    """A sum that does not fit is NULL; a kernel that wrapped around would find pairs."""
    r, s = random_batch(3, True, **LARGE), random_batch(4, True, **LARGE)
    expected = brute_force(on, r, s)
    assert 0 < len(expected) < COUNT * COUNT
    engine = engine_with(on)
    engine.feed([Tuples("S", s), Tuples("R", r)])
    (join,) = engine.queries["q"].pipeline.of_kind("join")
    assert not join.matcher.in_range()
    assert found(engine) == expected


def test_a_kernel_steps_back_when_the_large_number_comes() -> None:
    small = {"i": [1, 2, 3]}
    on = "r.i + s.i >= 4"
    engine = engine_with(on)
    (join,) = engine.queries["q"].pipeline.of_kind("join")
    first = random_batch(5, False, **small), random_batch(6, False, **small)
    engine.feed([Tuples("R", first[0]), Tuples("S", first[1])])
    assert join.matcher.in_range()
    assert sorted(found(engine)) == brute_force(on, *first)
    large = random_batch(7, False, i=[2**31 - 1, 1])
    engine.feed([Tuples("R", large)])
    assert not join.matcher.in_range()
    assert found(engine) == brute_force(on, large, first[1])


@pytest.mark.parametrize("w", [0, 1, 2])
@pytest.mark.parametrize("on", ["r.i <= s.i", "r.s = s.s"])
def test_windows_of_hardly_any_tuples(w: int, on: str) -> None:
    r, s = random_batch(8, True), random_batch(9, True)
    events = [
        Tuples(name, batch.slice(i, 2))
        for i in range(0, COUNT, 2)
        for name, batch in (("R", r), ("S", s))
    ]
    oracle = Oracle()
    for stream in STREAMS:
        oracle.create_stream(stream)
    oracle.install("q", QUERY.format(w=w, on=on))
    oracle.feed(events)
    engine = engine_with(on, w)
    engine.feed(events)
    results = engine.queries["q"].drain()
    rows = [
        (position, row)
        for result in results
        for position, row in zip(
            result.positions.tolist(),
            zip(*map(physical_list, result.batch.columns), strict=True),
            strict=True,
        )
    ]
    assert rows == oracle.rows["q"]
    assert bool(rows) == (w > 0)


@pytest.mark.product(2)
@pytest.mark.parametrize("on", ["r.i <= s.i OR r.b", "r.s = s.s AND r.i <> s.i", "TRUE"])
@pytest.mark.parametrize("windows", [("RANGE 9", "RANGE 4"), ("RANGE 9", "ROWS 20")])
def test_times_out_of_order_are_told_inside_the_kernel(on: str, windows: tuple[str, str]) -> None:
    source = random.Random(10)
    shuffled = [i + source.randint(-8, 0) for i in range(COUNT)]
    r, s = (random_batch(seed, True).set_column(0, "n", pa.array(shuffled)) for seed in (11, 12))
    left, right = (f"[{w} WATTR n SLACK 9]" if "RANGE" in w else f"[{w}]" for w in windows)
    sql = f"SELECT r.n AS r, s.n AS s FROM R {left} AS r JOIN S {right} AS s ON {on}"
    events = [
        Tuples(name, batch.slice(i, 5))
        for i in range(0, COUNT, 5)
        for name, batch in (("R", r), ("S", s))
    ]
    oracle, engine = Oracle(), Engine()
    for stream in STREAMS:
        oracle.create_stream(stream)
    oracle.install("q", sql)
    oracle.feed(events)
    engine.feed([*map(CreateStream, STREAMS), Install("q", sql), *events])
    assert found(engine) == [row for _, row in oracle.rows["q"]]
    assert len(oracle.rows["q"]) > 20
    assert not oracle.late["q"]


def source_of(on: str, probe: int = 0, nulls: bool = False) -> str:
    plan = bind(parse_query(QUERY.format(w=1, on=on)), Catalog(list(STREAMS)))
    join = plan.selects[0].source
    assert isinstance(join, Join)
    predicate = Predicate.of(join.on)
    left, right = ((nulls,) * len(keys) for keys in predicate.keys)
    return generate(predicate, Shape(probe, (left, right)))


def test_other_constants_share_a_kernel() -> None:
    assert source_of("r.j - s.j < 3") == source_of("r.j - s.j < 4000")
    assert source_of("r.i <= s.i + 1") == source_of("r.j <= s.j * 7")


def test_both_directions_of_a_comparison_share_a_kernel() -> None:
    assert source_of("r.i = s.i", probe=0) == source_of("r.i = s.i", probe=1)
    assert source_of("r.i < s.i", probe=0) == source_of("r.i > s.i", probe=1)
    assert source_of("r.i < s.i", probe=0) != source_of("r.i < s.i", probe=1)


def test_columns_without_nulls_cost_nothing_for_them() -> None:
    assert "av0" in source_of("r.i = s.i", nulls=True)
    assert "cv0" in source_of("r.i = s.i", nulls=True)
    assert "v0" not in source_of("r.i = s.i", nulls=False)
