"""Window clauses that errors suggest: a query with one can be installed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.bind.window_examples import join_examples, likely_time, sliding_example
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream

STRING, INT, FLOAT = pa.string(), pa.int32(), pa.float32()
STREAMS = {
    "by its type": (Stream.of("R", pa.schema({"id": INT, "d": pa.timestamp("s")})), "d"),
    "by its name": (Stream.of("R", pa.schema({"Price": INT, "Time": INT})), "Time"),
    "declared": (Stream.of("R", pa.schema({"t": INT, "n": INT}), "N"), "n"),
    "the first": (Stream.of("R", pa.schema({"s": STRING, "a": INT, "b": INT})), "a"),
    "a date": (Stream.of("R", pa.schema({"a": INT, "b": pa.date32()})), "b"),
    "a float": (Stream.of("R", pa.schema({"s": STRING, "f": FLOAT})), "f"),
    "a declared float": (Stream.of("R", pa.schema({"f": FLOAT, "n": INT}), "f"), "f"),
    "a decimal": (Stream.of("R", pa.schema({"p": pa.decimal128(9, 2)})), "p"),
    "a word of the language": (Stream.of("R", pa.schema({"when": INT})), "when"),
    "two words": (Stream.of("R", pa.schema({"the time": INT})), "the time"),
    "none": (Stream.of("R", pa.schema({"s": STRING, "u": pa.uint64()})), None),
}


@pytest.mark.parametrize("case", STREAMS)
def test_what_is_suggested_can_be_installed(case: str) -> None:
    stream, time = STREAMS[case]
    catalog = Catalog([stream])
    assert likely_time(stream) == time
    bind(parse_query(f"SELECT COUNT(*), window_end FROM {sliding_example(stream)}"), catalog)
    examples = join_examples(stream).split(" or ")
    assert len(examples) == (1 if time is None else 2)
    for example in examples:
        sql = f"SELECT 1 AS one FROM {example} AS x JOIN {example} AS y ON TRUE"
        bind(parse_query(sql), catalog)
