"""What an order guarantees, on the rows as they come, not sorted."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.flows.ways import ORDERED, WAYS, Way
from tests.thresholds import low_thresholds

import penstock as ps
from penstock import tuning
from penstock.streams.events import Merged

SCHEMA = pa.schema({"id": pa.int64(), "t": pa.int64(), "x": pa.int64()})
WINDOWS = {
    "rows": ("[ROWS 9]", "[ROWS 14]"),
    "range": ("[RANGE 9 WATTR t]", "[RANGE 14 WATTR t]"),
    "disorder": ("[RANGE 9 WATTR t SLACK 6]", "[RANGE 14 WATTR t SLACK 6]"),
    "both": ("[ROWS 9]", "[RANGE 14 WATTR t SLACK 6]"),
}
PREDICATES = {"nested-loop": "r.x <> s.x", "hash": "r.x = s.x", "band": "ABS(r.x - s.x) <= 1"}


@pytest.fixture(scope="module", autouse=True)
def eager_indexes() -> Iterator[None]:
    # So few that a chunk is cut where stars are not, and windows are divided often.
    with low_thresholds(ranks_per_chunk=50, celljoin_k=7):
        yield


@dataclass(frozen=True)
class Row:
    """A pair: the position it belongs to, and the number of the older tuple in its stream."""

    arrival: int
    partner: int


def arrivals(seed: int, count: int = 110) -> list[tuple[str, tuple[int, int, int]]]:
    """Tuples of both streams, some of them out of order; ``id`` is the number in the stream."""
    chance = random.Random(seed)
    seen = {"R": 0, "S": 0}
    made = []
    for now in range(count):
        stream = chance.choice("RS")
        time = now // 2 - chance.choice((0, 0, 0, 3, 5))
        made.append((stream, (seen[stream], time, chance.randrange(3))))
        seen[stream] += 1
    return made


def rows_of(
    way: Way, order: str, windows: str, predicate: str, seed: int, **more: Any
) -> list[Row]:
    """The rows in the order in which they came, of input in pieces of changing sizes."""
    left, right = WINDOWS[windows]
    text = (
        f"SELECT r.id AS r, s.id AS s FROM R {left} AS r JOIN S {right} AS s "
        f"ON {PREDICATES[predicate]}"
    )
    chance = random.Random(seed)
    waiting = arrivals(seed)
    kernel = {"hash": "hash", "band": "band"}.get(predicate, "nested-loop")
    found: list[Row] = []
    with ps.connect("local", compile_predicates=False) as engine:
        for name in "RS":
            engine.stream(name, SCHEMA)
        query = engine.install(text, order=order, kernel=kernel, **way.options(**more))
        start, sides = engine.position, [stream for stream, _ in waiting]
        while waiting:
            size = chance.choice((1, 2, 31, 120))
            piece, waiting = waiting[:size], waiting[size:]
            batches = [
                pa.RecordBatch.from_pylist(
                    [dict(zip(SCHEMA.names, row, strict=True)) for s, row in piece if s == name],
                    SCHEMA,
                )
                for name in "RS"
            ]
            which = np.array(["RS".index(s) for s, _ in piece], np.int8)
            engine.feed([Merged(("R", "S"), tuple(batches), which)])
        engine.end()
        for result in query.drain():
            pairs = result.batch.to_pylist()
            for position, pair in zip((result.positions - start).tolist(), pairs, strict=True):
                partner = pair["s"] if sides[position] == "R" else pair["r"]
                found.append(Row(position, partner))
    return found


def by_arrival(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.arrival, row.partner))


def is_ordered_outer(rows: list[Row], precision: int = 1) -> bool:
    """No row comes after one of an arrival that is ``precision`` or more later."""
    latest = -1
    for row in rows:
        if latest - row.arrival >= precision:
            return False
        latest = max(latest, row.arrival)
    return True


def is_ordered_inner(rows: list[Row], candidates: int = 1) -> bool:
    """Outer order; and no partner comes after one that is ``candidates`` or more younger."""
    latest: dict[int, int] = {}
    for row in rows:
        if latest.get(row.arrival, row.partner) - row.partner >= candidates:
            return False
        latest[row.arrival] = max(latest.get(row.arrival, row.partner), row.partner)
    return is_ordered_outer(rows)


CASES = [
    ("rows", "nested-loop"),
    ("rows", "hash"),
    ("range", "band"),
    ("disorder", "band"),
    ("both", "nested-loop"),
]


@functools.cache
def meant(windows: str, predicate: str, seed: int) -> list[Row]:
    """The rows in the order in which one core finds them, which is the inner one."""
    return rows_of(Way("three-step", 1), "inner", windows, predicate, seed)


@pytest.mark.parametrize("way", ORDERED, ids=str)
@pytest.mark.parametrize(("windows", "predicate"), CASES)
def test_inner_order_is_that_of_arrivals_and_partners(
    way: Way, windows: str, predicate: str
) -> None:
    rows = rows_of(way, "inner", windows, predicate, 1)
    assert rows == meant(windows, predicate, 1)
    assert len(rows) > 100
    assert is_ordered_inner(rows)


@pytest.mark.parametrize("way", ORDERED, ids=str)
@pytest.mark.parametrize(("windows", "predicate"), CASES)
def test_outer_order_is_that_of_arrivals_over_both_streams(
    way: Way, windows: str, predicate: str
) -> None:
    rows = rows_of(way, "outer", windows, predicate, 2)
    assert by_arrival(rows) == meant(windows, predicate, 2)
    assert is_ordered_outer(rows)


@pytest.mark.parametrize("way", ORDERED, ids=str)
@pytest.mark.parametrize("precision", [2, 5, 1000])
def test_outer_order_with_a_precision_mixes_no_more_arrivals_than_that(
    way: Way, precision: int
) -> None:
    rows = rows_of(way, "outer", "disorder", "band", 3, precision=precision)
    assert by_arrival(rows) == meant("disorder", "band", 3)
    assert is_ordered_outer(rows, precision)


@pytest.mark.parametrize("way", ORDERED, ids=str)
@pytest.mark.parametrize("precision", [2, 5, 1000])
def test_inner_order_with_a_precision_mixes_no_more_candidates_than_that(
    way: Way, precision: int
) -> None:
    """One star every ``precision`` comparisons of each core."""
    rows = rows_of(way, "inner", "rows", "nested-loop", 4, precision=precision)
    assert by_arrival(rows) == meant("rows", "nested-loop", 4)
    assert is_ordered_inner(rows, precision * way.cores)


SHARED_OUT = [way for way in ORDERED if way.flow in ("splitjoin", "celljoin") and way.cores > 1]


@pytest.mark.parametrize("way", SHARED_OUT, ids=str)
def test_a_precision_of_several_arrivals_is_made_use_of(way: Way) -> None:
    assert not is_ordered_outer(rows_of(way, "outer", "rows", "band", 5, precision=20))
    assert is_ordered_outer(rows_of(way, "outer", "rows", "band", 5, precision=1))


@pytest.mark.parametrize("way", [w for w in SHARED_OUT if w.flow == "splitjoin"], ids=str)
def test_a_precision_of_several_comparisons_is_made_use_of(way: Way) -> None:
    assert not is_ordered_inner(rows_of(way, "inner", "rows", "band", 6, precision=20))
    assert is_ordered_inner(rows_of(way, "inner", "rows", "band", 6, precision=1))


def test_neighbours_in_a_core_are_in_order_whatever_the_precision() -> None:
    """CellJoin: the parts of a window follow one another, and so does what is found in them."""
    way = Way("celljoin", 3)
    assert is_ordered_inner(rows_of(way, "inner", "rows", "band", 6, precision=1000))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_without_an_order_the_rows_are_the_same(way: Way) -> None:
    rows = rows_of(way, "none", "disorder", "band", 7)
    assert by_arrival(rows) == meant("disorder", "band", 7)


def test_the_judges_can_say_no() -> None:
    early, late = Row(1, 0), Row(4, 0)
    assert not is_ordered_outer([late, early], 3)
    assert is_ordered_outer([late, early], 4)
    assert not is_ordered_inner([Row(1, 5), Row(1, 2)], 3)
    assert is_ordered_inner([Row(1, 5), Row(1, 2)], 4)
    assert not is_ordered_inner([late, early], 4)


@pytest.mark.parametrize("order", ["outer", "inner"])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@tuning.given(pairs_per_message=8)
def test_a_stream_that_finds_no_partner_does_not_hold_up_the_other(kind: str, order: str) -> None:
    """Its stars come down without results, or the other's results would wait for ever."""
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, x INT)")
        q = engine.install(
            f"SELECT r.id FROM R [ROWS 60] r {kind} S [ROWS 60] s ON r.x <> s.x",
            order=order,
            flow="splitjoin",
            cores=2,
        )
        for stream in "RS":
            engine.push(stream, [{"id": i, "x": int(stream == "S")} for i in range(60)])
        assert q.rows().num_rows == 3600
