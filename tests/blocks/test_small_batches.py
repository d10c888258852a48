"""Small batches of a join are taken by one compiled call, and give what a run gives."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.thresholds import low_thresholds

from penstock.blocks.join.block import JoinBlock
from penstock.engines.local.engine import Engine

SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "x": pa.int32(),
        "f": pa.float32(),
        "s": pa.string(),
        "b": pa.bool_(),
        "d": pa.decimal128(9, 2),
        "u": pa.uint64(),
        "w": pa.date32(),
    }
)
WINDOWS = (
    "[ROWS 0]",
    "[ROWS 1]",
    "[ROWS 4]",
    "[UNBOUNDED]",
    "[RANGE 0 INCLUSIVE WATTR t]",
    "[RANGE 3 WATTR t]",
    "[RANGE 3 INCLUSIVE WATTR t SLACK 0]",
    "[RANGE 7 WATTR t SLACK 2]",
    "[RANGE 2 WATTR f SLACK 1]",
)
PREDICATES = (
    "r.x = s.x",
    "r.x BETWEEN s.x - 1 AND s.x + 1",
    "r.s = s.s",
    "r.s = s.s AND r.x < s.x",
    "r.x + 1 > s.x AND r.b",
    "r.f <= s.f AND s.x > 0",
    "r.d = s.d",
    "r.u = s.u AND r.w <> s.w",
    "r.x <> s.x",
)
SELECTED = (
    "r.t AS rt, s.t AS st, r.x AS rx, s.x AS sx",
    "r.s AS rs, s.s AS ss, s.d AS d, r.b AS b, r.u AS u, s.w AS w",
    "r.x + s.x AS sum, r.f AS f",
)


@st.composite
def tuples(draw: st.DrawFn, clock: list[int], nulls: bool) -> dict[str, Any]:
    clock[0] += draw(st.sampled_from((0, 0, 1, 1, 2, 5)))
    back = draw(st.sampled_from((0, 0, 0, 0, 0, 0, 1, 4)))
    row = {
        "t": clock[0] - back,
        "x": draw(st.sampled_from((-1, 0, 1, 2, 2**31 - 1))),
        "f": draw(st.sampled_from((0.0, -0.0, 0.5, 1.0, 2.5, float("inf"), float("nan")))),
        "s": draw(st.sampled_from(("a", "b", "", "ab"))),
        "b": draw(st.booleans()),
        "d": draw(st.sampled_from((Decimal("0.00"), Decimal("1.50"), Decimal("-9999999.99")))),
        "u": draw(st.sampled_from((0, 1, 2**63, 2**64 - 1))),
        "w": draw(st.integers(0, 2)),
    }
    row["f"] = float(row["t"]) if draw(st.booleans()) else row["f"]
    if nulls and draw(st.integers(0, 9)) == 0:
        row[draw(st.sampled_from(SCHEMA.names))] = None
    return row


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, list[dict[str, Any]]]]:
    clock, nulls = [0], draw(st.booleans())
    batches = draw(st.lists(st.tuples(st.sampled_from("RS"), st.integers(0, 6)), max_size=14))
    return [(name, [draw(tuples(clock, nulls)) for _ in range(size)]) for name, size in batches]


def outcome(
    script: list[tuple[str, list[dict[str, Any]]]], text: str, **options: Any
) -> tuple[Any, int]:
    """Rows with their positions, letters and accounts; and the tuples that were taken at once."""
    engine = Engine(**{"compile_predicates": False} | options)
    for name in "RS":
        engine.stream(name, SCHEMA, bounded=True)
    query = engine.install(text, "q")
    engine.sql("CREATE STREAM D AS " + text)
    for name, rows in script:
        engine.push(name, pa.RecordBatch.from_pylist(rows, SCHEMA))
    accounts = query.metrics()["accounts"]
    engine.end()
    rows = [
        row
        for result in query.drain()
        for row in zip(
            result.positions.tolist(),
            *(column.to_pylist() for column in result.batch.columns),
            strict=True,
        )
    ]
    letters = [query.late().to_pylist(), query.dead_letters().to_pylist()]
    punctuations = engine._registry.punctuations
    blocks = [b for b in query.pipeline.blocks.values() if isinstance(b, JoinBlock)]
    engine.close()
    return (repr(rows), letters, accounts, punctuations), sum(b.tuples_at_once for b in blocks)


@examples(150)
@given(
    scripts(),
    st.sampled_from(WINDOWS),
    st.sampled_from(WINDOWS),
    st.sampled_from(PREDICATES),
    st.sampled_from(SELECTED),
    st.sampled_from((1, 3, 1000)),
)
def test_a_small_batch_gives_what_a_run_gives(
    script: list[tuple[str, list[dict[str, Any]]]],
    left: str,
    right: str,
    on: str,
    columns: str,
    batch_rows: int,
) -> None:
    if ("WATTR f" in left) != ("WATTR f" in right):
        right = left
    text = f"SELECT {columns} FROM R {left} AS r JOIN S {right} AS s ON {on}"
    with low_thresholds(small_batch=0):
        expected, none = outcome(script, text, batch_rows=batch_rows)
    with low_thresholds():
        found, _ = outcome(script, text, batch_rows=batch_rows)
    assert found == expected
    assert none == 0


def in_order(seed: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Batches without NULLs, in order."""
    rng = random.Random(seed)
    return [
        (
            "RS"[number % 2],
            [
                {
                    "t": number + i // 3,
                    "x": rng.randint(0, 2),
                    "f": float(number + i // 3),
                    "s": rng.choice("ab"),
                    "b": rng.random() < 0.5,
                    "d": Decimal(rng.randint(0, 2)),
                    "u": rng.randint(0, 2),
                    "w": rng.randint(0, 2),
                }
                for i in range(6)
            ],
        )
        for number in range(30)
    ]


@pytest.mark.parametrize("on", PREDICATES)
@pytest.mark.parametrize("window", WINDOWS)
def test_tuples_in_order_are_taken_at_once(window: str, on: str) -> None:
    script = in_order(len(window) + len(on))
    columns = f"{SELECTED[0]}, {SELECTED[1]}"
    text = f"SELECT {columns} FROM R {window} AS r JOIN S {window} AS s ON {on}"
    with low_thresholds(small_batch=0):
        expected, _ = outcome(script, text)
    with low_thresholds():
        found, at_once = outcome(script, text)
    assert found == expected
    assert at_once > 100


@pytest.mark.parametrize("window", ["[ROWS 4]", "[RANGE 7 WATTR t SLACK 2]"])
@pytest.mark.parametrize("on", ["r.s = s.s AND s.b", "ABS(r.x - s.x) <= 1 AND r.u = s.u"])
def test_machine_code_gives_the_same(window: str, on: str) -> None:
    text = f"SELECT {SELECTED[1]} FROM R {window} AS r JOIN S {window} AS s ON {on}"
    with low_thresholds(small_batch=0):
        expected, _ = outcome(in_order(7), text)
    with low_thresholds():
        found, at_once = outcome(in_order(7), text, compile_predicates=True)
    assert found == expected
    assert at_once > 100
