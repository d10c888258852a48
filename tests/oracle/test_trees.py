"""Trees of joins over time windows: the rows of SQL, with the reach of the windows in each ON.

Times are integers or floats. They come in any order with a large slack, or in order, with
punctuations of all streams before each tuple, so that everything is decided as early as it can be.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st
from tests.effort import examples

from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

NAMES = "ABCDE"
ONS = (
    "{0}.k = {1}.k",
    "{0}.k = {1}.k",
    "{0}.k <= {1}.k",
    "{0}.k = {1}.k AND {1}.id % 2 = 0",
    "TRUE",
)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
Tuple = tuple[int, int | None, float]


@dataclass(frozen=True)
class Tree:
    """A tree of joins, the query of DuckDB with the same rows, and how its tuples arrive.

    ``visible`` are the streams whose columns it gives. ``tick`` is the step of times: 1 or a float.
    """

    ours: str
    theirs: str
    visible: list[int]
    in_order: bool
    tick: float


@st.composite
def trees(draw: Any) -> Tree:
    """A tree of joins, and the query of DuckDB with the same rows."""
    count = draw(st.integers(3, 5))
    in_order, tick = draw(st.booleans()), draw(st.sampled_from((1, 1, 0.1)))
    sizes = [draw(st.integers(1, 6)) * tick for _ in range(count)]
    ends = [draw(st.sampled_from(("<", "<", "<="))) for _ in range(count)]
    windows = [
        f"[RANGE {size!r}{' INCLUSIVE' if end == '<=' else ''} WATTR t"
        f"{'' if in_order else ' SLACK 99'}]"
        for size, end in zip(sizes, ends, strict=True)
    ]
    ours, theirs, visible = f"A {windows[0]} AS a", "A AS a", [0]
    for number in range(1, count):
        kind = draw(st.sampled_from(KINDS))
        name, alias = NAMES[number], NAMES[number].lower()
        left = NAMES[draw(st.sampled_from(visible))].lower()
        on = draw(st.sampled_from(ONS)).format(left, alias)
        ours += f" {kind} JOIN {name} {windows[number]} AS {alias} ON {on}"
        reach = [
            f"({other}.t IS NULL OR"
            f" ({other}.t {ends[number]} {alias}.t + CAST({sizes[number]!r} AS {_type(tick)[0]})"
            f" AND {alias}.t {ends[one]} {other}.t + CAST({sizes[one]!r} AS {_type(tick)[0]})))"
            for one in visible
            for other in NAMES[one].lower()
        ]
        theirs += f" {kind} JOIN {name} AS {alias} ON {' AND '.join((on, *reach))}"
        if kind not in ("SEMI", "ANTI"):
            visible.append(number)
    ids, times = (
        ", ".join(f"{NAMES[one].lower()}.{column} AS {column}{one}" for one in visible)
        for column in ("id", "t")
    )
    return Tree(
        f"SELECT {ids}, {times} FROM {ours}",
        f"SELECT {ids}, {times} FROM {theirs}",
        visible,
        in_order,
        tick,
    )


TUPLES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from((None, 0, 0, 1, 2)), st.integers(0, 20)),
    min_size=3,
    max_size=16,
)


@examples(300)
@given(trees(), TUPLES)
def test_the_rows_of_a_tree_are_those_of_sql(
    tree: Tree, arrivals: list[tuple[str, int | None, int]]
) -> None:
    note(f"{tree.ours}\n{tree.theirs}")
    oracle = _oracle(tree)
    oracle.install("q", tree.ours)
    tables = _feed(oracle, tree, arrivals)
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.register(name, pa.Table.from_batches([_batch(rows, _schema(tree))]))
        expected = database.sql(tree.theirs).fetchall()
    assert Counter(row for _, row in oracle.rows["q"]) == Counter(expected)


@examples(200)
@given(trees(), TUPLES)
def test_no_row_of_a_tree_is_before_its_punctuation(
    tree: Tree, arrivals: list[tuple[str, int | None, int]]
) -> None:
    """The punctuation of each stream's time: nothing that reads it as a stream finds it late."""
    oracle = _oracle(tree)
    oracle.derive("j", tree.ours)
    for one in tree.visible:
        window = f"[RANGE {tree.tick} WATTR t{one}]"
        oracle.install(f"q{one}", f"SELECT j.t{one} FROM j {window} JOIN A [NOW WATTR t] ON FALSE")
    _feed(oracle, tree, arrivals)
    assert all(oracle.late[f"q{one}"] == [] for one in tree.visible)


def _oracle(tree: Tree) -> Oracle:
    oracle = Oracle()
    for name in NAMES:
        oracle.create_stream(Stream.of(name, _schema(tree)))
    return oracle


def _feed(
    oracle: Oracle, tree: Tree, arrivals: list[tuple[str, int | None, int]]
) -> dict[str, list[Tuple]]:
    """Push the tuples and the ends; gives the tuples by stream."""
    tables: dict[str, list[Tuple]] = {name: [] for name in NAMES}
    if tree.in_order:
        arrivals = sorted(arrivals, key=lambda arrival: arrival[2])
    for number, (name, key, time) in enumerate(arrivals):
        if tree.in_order:
            _punctuate(oracle, time * tree.tick)
        one = (number, key, time * tree.tick)
        tables[name].append(one)
        oracle.tuples(name, _batch([one], _schema(tree)))
    if tree.in_order and arrivals:
        for time in range(arrivals[-1][2], arrivals[-1][2] + 30, 3):
            _punctuate(oracle, time * tree.tick)
    oracle.end(None)
    return tables


def _punctuate(oracle: Oracle, time: float) -> None:
    for stream in NAMES:
        oracle.punctuate(stream, time)


def _schema(tree: Tree) -> pa.Schema:
    return pa.schema({"id": pa.int64(), "k": pa.int64(), "t": _type(tree.tick)[1]})


def _type(tick: float) -> tuple[str, pa.DataType]:
    """The type of times, in DuckDB and in Arrow."""
    return ("BIGINT", pa.int64()) if tick == 1 else ("DOUBLE", pa.float64())


def _batch(rows: list[Tuple], schema: pa.Schema) -> Any:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
