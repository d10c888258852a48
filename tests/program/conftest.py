"""Programs from texts, over streams that the tests of this layer name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.streams.schema import Stream

COLUMNS = pa.schema(
    {
        "k": pa.string(),
        "x": pa.int32(),
        "t": pa.timestamp("us"),
        "i": pa.int64(),
        "d": pa.date32(),
        "p": pa.decimal128(8, 2),
    }
)
CATALOG = Catalog([Stream.of("R", COLUMNS), Stream.of("B", COLUMNS, "i", bounded=True)])


@pytest.fixture
def program() -> Callable[..., Program]:
    def compiled(sql: str, kernel: str | None = None) -> Program:
        return compile_plan(bind(parse_query(sql), CATALOG), kernel)

    return compiled
