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
    "r.x > 0",
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


@pytest.mark.product(2, by="on")
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


CHAINED = (
    "r.k = s.k",
    "r.k = s.k AND r.m = s.m",
    "r.k BETWEEN s.k - 1 AND s.k + 1 AND r.y BETWEEN s.y - 1 AND s.y + 1",
    "r.y >= s.y AND r.y <= s.z",
    "ABS(r.y - s.y) <= 1.5",
    "r.m < s.m AND r.k > s.k",
)
"""By an equality; by ranges in one and two dimensions, of one key and of two; one-sided."""


def spread(seed: int, drift: float, nulls: bool) -> list[tuple[str, list[dict[str, Any]]]]:
    """Batches whose keys are spread, and drift; a range of two keys grows wider.

    Where keys drift down, R is behind S by nearly a window.
    """
    rng = random.Random(seed)
    script, odd = [], [float("inf"), float("-inf"), float("nan"), -0.0]
    for number in range(60):
        rows = []
        for i in range(rng.randint(1, 12)):
            y = drift * number + rng.uniform(0, 40)
            y = rng.choice(odd) if rng.random() < 0.02 else y
            k = int(drift * number) + rng.randint(0, 40)
            z = y + rng.uniform(0, 0.05 * number)
            z = rng.choice(odd) if drift == 0 and rng.random() < 0.005 else z
            t = number + i // 3 - (18 if drift < 0 and number % 2 == 0 else 0)
            row = {"t": t, "k": k, "m": rng.randint(0, 40), "y": y, "z": z}
            if nulls and rng.random() < 0.01:
                row[rng.choice("kmyz")] = None
            rows.append(row)
        script.append(("RS"[number % 2], rows))
    return script


@pytest.mark.product(6, by="on")
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("drift", [0.0, 2.0, -2.0])
@pytest.mark.parametrize("on", CHAINED)
@pytest.mark.parametrize("window", ["[ROWS 100]", "[RANGE 20 WATTR t]", "[UNBOUNDED]"])
def test_entries_behind_a_segment_are_found_in_chains(
    window: str, on: str, drift: float, nulls: bool
) -> None:
    kinds = {"t": pa.int64(), "k": pa.int32(), "m": pa.uint64(), "y": pa.float32()}
    schema = pa.schema(kinds | {"z": pa.float32()})
    columns = "r.t AS rt, s.t AS st, r.k AS rk, s.k AS sk, r.y AS ry, s.y AS sy"
    text = f"SELECT {columns} FROM R {window} AS r JOIN S {window} AS s ON {on}"
    found: list[Any] = []
    steps: list[Any] = []
    script = spread(len(on), drift, nulls)
    for small_batch, wasted in ((0, 0), (1000, 1 << 13), (1000, 5)):
        with (
            low_thresholds(longest_tail=12, small_batch=small_batch, most_wasted=wasted),
            Engine(compile_predicates=False) as engine,
        ):
            for name in "RS":
                engine.stream(name, schema, bounded=True)
            query = engine.install(text)
            for name, rows in script:
                engine.push(name, pa.RecordBatch.from_pylist(rows, schema))
                block = next(b for b in query.pipeline.blocks.values() if isinstance(b, JoinBlock))
                indexes = [stored.keys.index for stored in block.matcher.keys]
                chains = [index.chains() for index in indexes if index]
                steps += [(small_batch, one.progress[0] - one.first) for one in chains if one]
            found.append(query.rows().to_pylist())
    assert repr(found[1]) == repr(found[0])
    assert repr(found[2]) == repr(found[0])
    assert found[0]
    if not nulls:
        assert max(linked for small_batch, linked in steps if small_batch) > 10
    assert not any(linked for small_batch, linked in steps if not small_batch)


@pytest.mark.parametrize(("end", "inside"), [(15.5, 2), (float("inf"), 3), (float("nan"), 3)])
def test_a_range_that_is_wider_than_any_before_is_found_in_chains(end: float, inside: int) -> None:
    schema = pa.schema({"y": pa.float64(), "z": pa.float64()})
    text = "SELECT r.y, s.y AS start FROM R [ROWS 99] AS r JOIN S [ROWS 99] AS s ON {on}"
    text = text.format(on="r.y >= s.y AND r.y <= s.z")
    found = []
    for small_batch in (0, 1000):
        with (
            low_thresholds(longest_tail=12, small_batch=small_batch),
            Engine(compile_predicates=False) as engine,
        ):
            for name in "RS":
                engine.stream(name, schema)
            query = engine.install(text)

            def push(name: str, rows: list[tuple[float, float]], to: Engine = engine) -> None:
                columns = [pa.array(column) for column in zip(*rows, strict=True)]
                to.push(name, pa.RecordBatch.from_arrays(columns, schema=schema))

            push("S", [(float(i), i + 0.5) for i in range(20)])
            push("R", [(float(i), 0.0) for i in range(20)])
            push("S", [(3.0, 3.5), (4.0, end), (5.0, 5.5)])
            query.rows()
            push("R", [(float("inf"), 0.0), (end, 0.0), (15.0, 0.0)])
            found.append(query.rows().to_pylist())
    assert repr(found[1]) == repr(found[0])
    assert [row["start"] for row in found[1]].count(4.0) == inside


def tails(on: str, drift: float, single: bool, **thresholds: float) -> tuple[int, int]:
    """The most entries behind the newest segment, and the times that chains were given up."""
    schema = pa.schema({"k": pa.int64(), "y": pa.float64()})
    rng, longest, given_up = random.Random(7), 0, set()
    with (
        low_thresholds(longest_tail=40, fewest_linked=8, **thresholds),
        Engine(compile_predicates=False) as engine,
    ):
        for name in "RS":
            engine.stream(name, schema)
        text = f"SELECT r.k FROM R [ROWS 1000] AS r JOIN S [ROWS 1000] AS s ON {on}"
        query = engine.install(text)
        for number in range(300):
            rows = [{"k": rng.randint(0, 999), "y": drift * number + rng.uniform(0, 100)}]
            rows *= 1 if single and number > 20 else 8
            for name in "RS":
                batch = pa.RecordBatch.from_pylist(rows, schema)
                engine.push(name, rows if len(rows) == 1 else batch)
            query.rows()
            block = next(b for b in query.pipeline.blocks.values() if isinstance(b, JoinBlock))
            for keys in (stored.keys for stored in block.matcher.keys):
                if keys.index is not None and keys.index.segments:
                    chains = keys.index.chains()
                    assert chains is not None
                    following = keys.first + len(keys.columns[0].values)
                    longest = max(longest, following - chains.first)
                    given_up |= {(keys.side, chains.first)} if chains.progress[2] else set()
    return longest, len(given_up)


@pytest.mark.parametrize("single", [False, True])
def test_chains_are_used_while_they_are_short(single: bool) -> None:
    longest, given_up = tails("ABS(r.y - s.y) <= 1", 0.0, single, most_wasted=200)
    assert longest > 80
    assert given_up == 0


def test_chains_are_given_up_when_keys_drift_out_of_the_layout() -> None:
    longest, given_up = tails("ABS(r.y - s.y) <= 1", 20.0, False, most_wasted=200)
    assert longest < 200
    assert given_up > 10


@pytest.mark.long
def test_chains_are_given_up_when_probes_touch_many_of_them() -> None:
    on = "ABS(r.y - s.y) <= 40 AND ABS(r.k - s.k) <= 400"
    longest, _ = tails(on, 0.0, False)
    assert longest < 200


@pytest.mark.product(1)
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


def test_a_new_dictionary_is_seen_by_the_next_small_batch() -> None:
    """Texts that no stored tuple has fill the dictionary; a batch that starts a new one goes on."""
    schema = pa.schema({"k": pa.string(), "x": pa.int64()})
    found = []
    for small_batch in (0, 1000):
        rng = random.Random(3)
        with (
            low_thresholds(small_batch=small_batch, smallest_dictionary=4),
            Engine(compile_predicates=False) as engine,
        ):
            for name in "RS":
                engine.stream(name, schema, bounded=True)
            query = engine.install(
                "SELECT r.x, s.x AS y FROM R [ROWS 5] AS r JOIN S [ROWS 5] AS s ON r.k = s.k"
            )
            for number in range(40):
                for name in "RS":
                    keys = [f"{3 * number + rng.randint(0, 5)}" for _ in range(3)]
                    rows = [{"k": key, "x": 3 * number + i} for i, key in enumerate(keys)]
                    engine.push(name, pa.RecordBatch.from_pylist(rows, schema))
            (block,) = (b for b in query.pipeline.blocks.values() if isinstance(b, JoinBlock))
            assert len(block.matcher.dictionary) < 60  # of 120 texts
            assert (block.tuples_at_once > 100) == (small_batch > 0)
            found.append(query.rows().to_pylist())
    assert found[0] == found[1]
    assert found[0]
