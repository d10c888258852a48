"""Values of every type that can be a key, and how SQL compares them."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.kernels.expressions.vector import Vector, vector_of

NAN = math.nan
words = st.sampled_from(["", "a", "aa", "é", "z", "\ue000", "\U0001f600"]) | st.text(max_size=3)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1)),
    "uint64": (pa.uint64(), st.integers(0, 3) | st.integers(0, (1 << 64) - 1)),
    "int16": (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    "uint32": (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    "float64": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, NAN, -NAN])),
    "float32": (pa.float32(), st.floats(width=32)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "timestamp": (pa.timestamp("us"), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),
    "decimal": (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    "wide": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "string": (pa.string(), words),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "null": (pa.null(), st.none()),
}


def plain(value: Any) -> Any:
    """Equal if SQL says so."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def sort_key(row: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """NULL first, NaN last; strings of Python compare by code point."""
    return [
        (0, 0) if value is None else (2, 0) if plain(value) == "NaN" else (1, value)
        for value in row
    ]


def columns(types: list[pa.DataType], rows: list[tuple[Any, ...]]) -> list[Vector]:
    return [
        vector_of(pa.array([row[place] for row in rows], kind)) for place, kind in enumerate(types)
    ]
