"""Selections that a block evaluates together: the rows of each are those of its condition alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock import tuning
from penstock.blocks import select
from penstock.engines.local.engine import Engine
from penstock.errors import QueryFailed
from penstock.processor.op_block import shared_selections
from penstock.processor.op_block.shared_selections import SharedSelections, Tail
from penstock.sql.expressions import Call, Column, walk

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "j": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(6, 2),
        "b": pa.bool_(),
    }
)
VALUES: dict[str, Sequence[Any]] = {
    "i": (None, -3, 0, 1, 2, 3, 7),
    "j": (None, -(2**63), 0, 1, 2, 2**63 - 1),
    "f": (None, -math.inf, -0.0, 0.0, 0.5, 1.5, math.nan, math.inf),
    "s": (None, "", "a", "ab", "b", "é"),
    "d": (None, Decimal("-1.50"), Decimal("0.00"), Decimal("0.25"), Decimal("9999.99")),
    "b": (None, True, False),
}
CONSTANTS = {
    "i": ("0", "2", "5", "-3"),
    "j": ("0", "2", "9223372036854775807"),
    "f": ("0", "0.5", "-1.5", "2e300"),
    "s": ("'a'", "'ab'", "'c'", "''"),
    "d": ("0.25", "-1.5", "10"),
    "i % 3": ("0", "1", "-1"),
    "10 / i": ("5", "10"),
    "j + 1": ("1", "3"),
}
OUTPUTS = ("i, s", "i, s", "*", "j + 1 AS k, s", "s", "1 AS one", "10 % i AS rest, j")


@st.composite
def comparisons(draw: Any) -> str:
    what = draw(st.sampled_from((*CONSTANTS, "b")))
    if what == "b":
        return draw(st.sampled_from(("b", "NOT b", "b IS NULL")))
    constants = st.sampled_from(CONSTANTS[what])
    form = draw(st.integers(0, 9))
    if form == 0:
        return f"{what} IN ({', '.join(draw(st.lists(constants, min_size=1, max_size=4)))})"
    if form == 1:
        return f"{what} BETWEEN {draw(constants)} AND {draw(constants)}"
    if form == 2:
        return f"{what} IS {draw(st.sampled_from(('', 'NOT ')))}NULL"
    op = draw(st.sampled_from(("=", "=", "=", "<>", "<", "<=", ">", ">=")))
    return f"{what} {op} {draw(constants)}"


@st.composite
def conditions(draw: Any) -> str:
    if draw(st.integers(0, 9)) == 0:  # no conjunction of sets
        return draw(st.sampled_from(("i < j", "s LIKE 'a%'", "i = 1 OR s = 'a'", "1 = 1")))
    terms = draw(st.lists(comparisons(), min_size=1, max_size=3))
    text = draw(st.sampled_from((" AND ", " AND ", " OR "))).join(f"({one})" for one in terms)
    return f"NOT ({text})" if draw(st.integers(0, 5)) == 0 else text


def tables(draw: Any, count: int) -> pa.RecordBatch:
    columns = [
        draw(st.lists(st.sampled_from(VALUES[field.name]), min_size=count, max_size=count))
        for field in SCHEMA
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def outcome(
    texts: list[str], changes: list[tuple[int, str]], batches: list[pa.RecordBatch], fewest: int
) -> list[Any]:
    """Rows, positions and counts of queries; one changes before each batch but the first."""
    found = []
    with (
        tuning.given(fewest_shared_selections=fewest),
        Engine(topology="fqp:chain:2:60", compile_predicates=False) as engine,
    ):
        engine.stream("R", SCHEMA)
        queries = [engine.install(text) for text in texts]
        for number, batch in enumerate(batches):
            if 0 < number <= len(changes):
                which, text = changes[number - 1]
                queries[which % len(queries)].change(text)
            engine.push("R", batch)
        engine.end()
        for query in queries:
            results = query.drain()
            rows = [
                [tuple(map(repr, row.values())) for row in r.batch.to_pylist()] for r in results
            ]
            positions = [p for r in results for p in r.positions.tolist()]
            metrics = query.metrics()
            counts = {key: metrics[key] for key in ("rows_out", "expression_failures", "accounts")}
            found.append((query.name, rows, positions, counts))
    return found


@examples(150)
@given(st.data())
def test_rows_and_counts_are_those_of_each_condition_alone(data: st.DataObject) -> None:
    def text() -> str:
        outputs, condition = data.draw(st.sampled_from(OUTPUTS)), data.draw(conditions())
        return f"SELECT {outputs} FROM R WHERE {condition}"

    texts = [text() for _ in range(data.draw(st.integers(2, 8)))]
    sizes = data.draw(st.lists(st.sampled_from((0, 1, 3, 20)), min_size=1, max_size=4))
    batches = [tables(data.draw, size) for size in sizes]
    changes = [(data.draw(st.integers(0, 7)), text()) for _ in sizes[1:]]
    alone = outcome(texts, changes, batches, 10**6)
    assert outcome(texts, changes, batches, 1) == alone


COUNT = 50


def engine_with_equalities(**options: Any) -> tuple[Engine, list[Any]]:
    engine = Engine(topology="fqp:chain:1", **options)
    engine.sql("CREATE STREAM R (id BIGINT, k INT, v INT)")
    texts = [f"SELECT id, v FROM R WHERE k = {n}" for n in range(COUNT)]
    return engine, [engine.install(text) for text in texts]


def keys(*numbers: int, v: int = 1) -> pa.Table:
    return pa.table({"id": range(len(numbers)), "k": list(numbers), "v": [v] * len(numbers)})


def test_a_run_is_evaluated_once_for_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, parts = [], []
    evaluate, through = SharedSelections.evaluate, Tail.through

    def counted(self: SharedSelections, run: Any) -> Any:
        runs.append(len(run))
        return evaluate(self, run)

    def computed(self: Tail, first: int, after: int, run: Any) -> Any:
        parts.append(len(run))
        return through(self, first, after, run)

    monkeypatch.setattr(SharedSelections, "evaluate", counted)
    monkeypatch.setattr(Tail, "through", computed)
    engine, queries = engine_with_equalities()
    engine.push("R", keys(*range(COUNT), *range(COUNT)))
    assert runs == [2 * COUNT]
    assert parts == [2 * COUNT]
    assert [q.rows().to_pylist() for q in queries] == [
        [{"id": n, "v": 1}, {"id": n + COUNT, "v": 1}] for n in range(COUNT)
    ]


def test_queries_without_rows_cost_nothing_and_wide_conditions_come_in_arrival_order() -> None:
    engine, queries = engine_with_equalities()
    wide = engine.install("SELECT id FROM R WHERE k < 3 OR k = 40")
    every = engine.install("SELECT id FROM R WHERE k >= 0")
    none = engine.install("SELECT id FROM R WHERE k = 1 AND k = 2")
    engine.push("R", keys(40, 2, 9, 1, 40, 0))
    assert wide.rows()["id"].to_pylist() == [0, 1, 3, 4, 5]
    assert every.rows()["id"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert none.rows().num_rows == 0
    assert [n for n, q in enumerate(queries) if q.rows().num_rows] == [0, 1, 2, 9, 40]


def test_an_error_of_one_expression_is_that_of_its_query_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, queries = engine_with_equalities()
    bad = engine.install("SELECT id FROM R WHERE v = 3")

    def broken(original: Any) -> Any:
        """An evaluator that fails on column 2, which is v."""

        def wrapped(*arguments: Any) -> Any:
            [asked] = [one for one in arguments if isinstance(one, Column | Call)]
            if any(isinstance(one, Column) and one.index == 2 for one in walk(asked)):
                raise ArithmeticError("broken")
            return original(*arguments)

        return wrapped

    monkeypatch.setattr(shared_selections, "evaluate", broken(shared_selections.evaluate))
    parts = engine._processor.blocks[1].queries.parts  # type: ignore[union-attr]
    alone: Any = next(iter(parts[COUNT].blocks.values()))
    monkeypatch.setattr(alone, "_evaluate", broken(select.select))
    with pytest.raises(QueryFailed, match="ArithmeticError: broken"):
        engine.push("R", keys(1, 2))
    assert bad.state == "failed"
    assert [q.rows().num_rows for q in queries[:4]] == [0, 1, 1, 0]
    engine.push("R", keys(3))
    assert queries[3].rows().num_rows == 1


def test_failures_of_a_shared_select_list_are_counted_by_the_query_that_has_them() -> None:
    with Engine(topology="fqp:chain:1") as engine:
        engine.sql("CREATE STREAM R (k INT, v INT)")
        queries = [engine.install(f"SELECT 10 / v AS q FROM R WHERE k = {n}") for n in range(6)]
        engine.push("R", pa.table({"k": [0, 1, 2, 2], "v": [5, 0, 0, 2]}))
        assert [q.rows()["q"].to_pylist() for q in queries[:3]] == [[2.0], [None], [None, 5.0]]
        assert [q.metrics()["expression_failures"] for q in queries[:4]] == [0, 1, 1, 0]


def test_rows_of_a_derived_stream_are_counted_once() -> None:
    for topology in (None, "fqp:chain:2", "fqp:partial:2x2"):
        with Engine(topology=topology) as engine:
            engine.sql("CREATE STREAM R (k INT, v INT)")
            derived = engine.sql("CREATE STREAM D AS SELECT k FROM R WHERE v > 2")
            query = engine.install("SELECT k FROM D WHERE k > 1")
            engine.push("R", pa.table({"k": range(10), "v": range(10)}))
            assert derived.metrics()["rows_out"] == 7
            assert query.metrics()["tuples_in"] == {"D": 7}


def test_a_block_needs_several_selections_to_evaluate_them_together() -> None:
    with Engine(topology="fqp:chain:1") as engine:
        engine.sql("CREATE STREAM R (k INT)")
        block = engine._processor.blocks[1]  # type: ignore[union-attr]
        for n in range(4):
            units = block.queries.units()
            assert not any(isinstance(unit, SharedSelections) for unit in units)
            engine.install(f"SELECT k FROM R WHERE k = {n}", name=f"q{n}")
        assert [type(unit) for unit in block.queries.units()] == [SharedSelections]
        engine.drop("q2")
        assert len(block.queries.units()) == 3


def test_rows_of_many_queries_come_in_several_parts() -> None:
    rng = np.random.default_rng(4)
    table = pa.table(
        {"id": np.arange(200_000), "k": rng.integers(0, COUNT, 200_000), "v": [0] * 200_000}
    )
    engine, queries = engine_with_equalities(batch_rows=1 << 20)
    engine.push("R", table)
    at = table["k"].to_numpy()
    for n, query in enumerate(queries):
        [result] = query.drain()
        assert result.positions[0] == COUNT + 1 + np.flatnonzero(at == n)[0]
        assert (result.batch.column("id").to_numpy() == np.flatnonzero(at == n)).all()
