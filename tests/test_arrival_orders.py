"""Aggregates do not depend on the order of arrival, as long as disorder stays within the slack."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engines.local.engine import Engine
from penstock.oracle.oracle import Oracle
from penstock.program.isa.instructions import CreateStream, Install
from penstock.streams.events import End, Tuples
from penstock.streams.literals import physical_list
from penstock.streams.schema import Stream
from tests.test_random_aggregates import same

SLACK = 60
ORDERS = 50
R = Stream.of(
    "R",
    pa.schema(
        {
            "t": pa.int64(),
            "x": pa.int64(),
            "y": pa.float64(),
            "d": pa.decimal128(9, 2),
            "k": pa.string(),
        }
    ),
    bounded=True,
)
CALLS = (
    "COUNT(*) AS n, SUM(x) AS sx, AVG(x) AS ax, MIN(x) AS lo, MAX(y) AS hi, SUM(y) AS sy, "
    "AVG(y) AS ay, VAR_SAMP(y) AS vy, STDDEV_POP(x) AS dx, SUM(d) AS sd, AVG(d) AS ad, "
    "COUNT(DISTINCT x) AS ux, MIN(k) AS k1, FIRST(t) AS f, LAST(t) AS l"
)
QUERIES = {
    "sliding": f"SELECT {CALLS}, window_start FROM R [RANGE 600 SLIDE 60 WATTR t SLACK {SLACK}]",
    "grouped": f"SELECT k AS g, {CALLS}, window_end FROM R "
    f"[RANGE 100 SLIDE 70 WATTR t SLACK {SLACK}] WHERE x <> 3 GROUP BY k HAVING COUNT(*) > 1",
    "sampled": f"SELECT {CALLS} FROM R [RANGE 10 SLIDE 45 START AT 7 WATTR t SLACK {SLACK}]",
}


def tuples(count: int) -> list[tuple[Any, ...]]:
    """In order of time, with ties; the floats are of sizes that do not go well together."""
    source = random.Random(6)
    found, now = [], 10
    for _ in range(count):
        now += source.choice((0, 0, 1, 1, 3, 25))
        y = source.choice((1.0, -1.0)) * source.random() * 10.0 ** source.randrange(-12, 13)
        cents = Decimal(source.randrange(-99_999, 99_999)).scaleb(-2)
        found.append((now, source.randrange(20), y, cents, source.choice("abc")))
    return found


def disordered(rows: list[tuple[Any, ...]], seed: int) -> pa.RecordBatch:
    """The tuples in an order in which none is more than SLACK behind one before it."""
    source = random.Random(seed)
    return batch_of(sorted(rows, key=lambda row: row[0] + source.random() * SLACK))


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, R.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=R.schema)


def on_engine(batch: pa.RecordBatch, piece: int) -> dict[str, list[Any]]:
    """The rows of every query, fed in batches of some size; no tuple is late."""
    engine = Engine()
    engine.feed([CreateStream(R), *(Install(name, text) for name, text in QUERIES.items())])
    for start in range(0, batch.num_rows, piece):
        engine.feed([Tuples("R", batch.slice(start, piece))])
    engine.feed([End("R")])
    found: dict[str, list[Any]] = {}
    for name, query in engine.queries.items():
        rows = found[name] = []
        for result in query.drain():
            rows += zip(*map(physical_list, result.batch.columns), strict=True)
        assert query.drain_letters() == []
    return found


def on_oracle(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    oracle = Oracle()
    oracle.create_stream(R)
    for name, text in QUERIES.items():
        oracle.install(name, text)
    oracle.tuples("R", batch)
    oracle.end()
    assert not any(oracle.late.values())
    return {name: [row for _, row in rows] for name, rows in oracle.rows.items()}


def check(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert rows
        assert len(found[name]) == len(rows)
        for row, other in zip(found[name], rows, strict=True):
            assert all(map(same, row, other)), f"{name}: {row} is not {other}"


@pytest.fixture(scope="module")
def in_order() -> dict[str, list[Any]]:
    """The rows of tuples that come in order of their time."""
    return on_engine(batch_of(tuples(250)), 250)


@pytest.mark.parametrize("order", range(ORDERS))
def test_the_engine_gives_the_same_rows_in_every_order(
    in_order: dict[str, list[Any]], order: int
) -> None:
    piece = random.Random(order).choice((50, 250, 250))
    check(on_engine(disordered(tuples(250), order), piece), in_order)


@pytest.mark.parametrize("order", range(3))
def test_so_does_the_oracle(order: int) -> None:
    check(on_oracle(disordered(tuples(40), order)), on_oracle(batch_of(tuples(40))))
