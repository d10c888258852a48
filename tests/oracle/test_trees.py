"""Trees of joins over time windows: the rows of SQL, with the reach of the windows in each ON."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st
from tests.effort import examples

from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

COLUMNS = pa.schema({"id": pa.int64(), "k": pa.int64(), "t": pa.int64()})
NAMES = "ABCD"
ONS = (
    "{0}.k = {1}.k",
    "{0}.k = {1}.k",
    "{0}.k <= {1}.k",
    "{0}.k = {1}.k AND {1}.id % 2 = 0",
    "TRUE",
)
FIRST = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
LATER = ("INNER", "LEFT", "SEMI", "ANTI")
Tuple = tuple[int, int | None, int]


@st.composite
def trees(draw: Any) -> tuple[str, str]:
    """A tree of joins, and the query of DuckDB with the same rows."""
    count = draw(st.integers(3, 4))
    sizes = [draw(st.integers(1, 6)) for _ in range(count)]
    ours = f"A [RANGE {sizes[0]} WATTR t SLACK 99] AS a"
    theirs, visible, special = "A AS a", [0], False
    for number in range(1, count):
        kind = draw(st.sampled_from(LATER if special else FIRST))
        special |= kind != "INNER"
        name, alias = NAMES[number], NAMES[number].lower()
        left = NAMES[draw(st.sampled_from(visible))].lower()
        on = draw(st.sampled_from(ONS)).format(left, alias)
        ours += f" {kind} JOIN {name} [RANGE {sizes[number]} WATTR t SLACK 99] AS {alias} ON {on}"
        reach = [
            f"({other}.t IS NULL OR ({other}.t < {alias}.t + {sizes[number]}"
            f" AND {alias}.t < {other}.t + {sizes[one]}))"
            for one in visible
            for other in NAMES[one].lower()
        ]
        theirs += f" {kind} JOIN {name} AS {alias} ON {' AND '.join((on, *reach))}"
        if kind not in ("SEMI", "ANTI"):
            visible.append(number)
    columns = ", ".join(f"{NAMES[one].lower()}.id AS i{one}" for one in visible)
    return f"SELECT {columns} FROM {ours}", f"SELECT {columns} FROM {theirs}"


TUPLES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from((None, 0, 0, 1, 2)), st.integers(0, 9)),
    max_size=14,
)


@examples(400)
@given(trees(), TUPLES)
def test_the_rows_of_a_tree_are_those_of_sql(
    queries: tuple[str, str], arrivals: list[tuple[str, int | None, int]]
) -> None:
    ours, theirs = queries
    note(f"{ours}\n{theirs}")
    oracle = Oracle()
    for name in NAMES:
        oracle.create_stream(Stream.of(name, COLUMNS))
    oracle.install("q", ours)
    tables: dict[str, list[Tuple]] = {name: [] for name in NAMES}
    for number, (name, key, time) in enumerate(arrivals):
        tables[name].append((number, key, time))
        oracle.tuples(name, _batch([(number, key, time)]))
    oracle.end(None)
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.register(name, pa.Table.from_batches([_batch(rows)]))
        expected = database.sql(theirs).fetchall()
    assert Counter(row for _, row in oracle.rows["q"]) == Counter(expected)


def _batch(rows: list[Tuple]) -> Any:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
