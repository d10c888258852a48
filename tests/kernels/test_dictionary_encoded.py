"""Expressions over dictionary-encoded columns give the values and failures of plain ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.streams.batches import plain
from penstock.streams.schema import Stream

SCHEMA = pa.schema({"s": pa.string(), "n": pa.int64()})
WORDS = ["12", "ab", None, "x", "12", "", "ab", None, "7", "x", "12", "12"]
EXPRESSIONS = [
    "s = 'ab'",
    "s <> 'ab'",
    "s IN ('x', '7', NULL)",
    "s LIKE '%b'",
    "s IS NULL",
    "s = 'ab' AND n > 3",
    "NOT (s > '7')",
    "CAST(s AS int64) + n",
    "CASE WHEN s = 'ab' THEN 1 ELSE CAST(s AS int64) END",
    "COALESCE(s, 'none') = 'none'",
    "upper(s)",
    "s",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint16()])
def test_words_give_what_rows_give(text: str, index: pa.DataType) -> None:
    catalog = Catalog([Stream.of("R", SCHEMA)])
    (select,) = bind(parse_query(f"SELECT {text} AS e FROM R"), catalog).selects
    expression = select.columns[0].expression
    coded = pa.array(WORDS).dictionary_encode().cast(pa.dictionary(index, pa.string()))
    batch = pa.RecordBatch.from_arrays([coded, pa.array(range(len(WORDS)))], names=SCHEMA.names)
    counted, expected = Failures(), Failures()
    found = evaluate(expression, [batch], counted).to_arrow()
    assert (
        found.to_pylist() == evaluate(expression, [plain(batch)], expected).to_arrow().to_pylist()
    )
    assert counted == expected
