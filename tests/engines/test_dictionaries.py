"""Dictionary-encoded columns: any query gives the rows of plain ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.streams.events import Tuples

STREAM = "CREATE STREAM T (s VARCHAR, n BIGINT, t BIGINT)"
QUERIES = [
    "SELECT s, n FROM T WHERE s <> 'b'",
    "SELECT a.s, a.n, b.n AS m FROM T [ROWS 3] AS a JOIN T [ROWS 3] AS b ON a.s = b.s",
    "SELECT s, COUNT(*) AS c, MAX(s) AS m, FIRST(s) AS f FROM T [RANGE 4 SLIDE 2 WATTR t] "
    "WHERE s >= 'a' GROUP BY s",
    "SELECT COUNT(*) AS c, window_end FROM T [RANGE 4 SLIDE 2 WATTR t] WHERE s = 'a'",
    "SELECT COUNT(DISTINCT s) AS c FROM T [RANGE 4 SLIDE 2 WATTR t] GROUP BY upper(s)",
]
BATCHES = [
    pa.record_batch(
        {"s": pa.array(words).dictionary_encode(), "n": [1, 2, 3, 4], "t": [t, t + 1, t + 2, t]}
    )
    for t, words in ((0, ["a", "b", None, "a"]), (3, ["c", "a", "a", "é"]), (1, ["b"] * 4))
]


def outcome(query: str, batches: list[pa.RecordBatch], feeds: bool) -> tuple[object, ...]:
    with ps.connect("local", batch_rows=6) as engine:
        engine.sql(STREAM)
        installed = engine.install(query)
        if feeds:
            engine.feed([Tuples("T", batch) for batch in batches])
        else:
            for batch in batches:
                engine.push("T", batch)
        engine.end()
        rows = installed.rows()
        assert not any(pa.types.is_dictionary(kind) for kind in rows.schema.types)
        return rows.to_pylist(), installed.late().to_pylist()


@pytest.mark.parametrize("feeds", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_rows_and_letters_are_those_of_plain_columns(query: str, feeds: bool) -> None:
    plain = [
        pa.record_batch(
            {**dict(zip(b.schema.names, b.columns, strict=True)), "s": b["s"].dictionary_decode()}
        )
        for b in BATCHES
    ]
    assert outcome(query, BATCHES, feeds) == outcome(query, plain, feeds)
