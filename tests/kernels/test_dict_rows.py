"""Lists of dicts by compiled code: what they are by the general way, or left to it."""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import tuning
from penstock.kernels.dict_rows import DictReader, DictRows
from penstock.streams.convert import to_batches
from penstock.streams.events import Tuples
from penstock.streams.schema import Stream, parse_type

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = [*INTEGERS, "float", "double", "string", "bool", "decimal(10, 2)"]
EDGES = [
    edge + by
    for bits in (7, 8, 15, 24, 31, 32, 53, 63, 64)
    for edge in (2**bits,)
    for by in (-1, 0, 1)
]
INTS = st.one_of(
    st.integers(-130, 130), st.sampled_from(EDGES), st.sampled_from(EDGES).map(int.__neg__)
)
FLOATS = st.one_of(st.floats(), st.sampled_from([-0.0, 1e39, 3.4028235e38, 3.4028236e38, 1e-46]))
CHANGES = ["value", "odd", "drop", "more", "other", "type"]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=2),
    st.sampled_from([Decimal("1.5"), np.int64(3), np.float32(0.5), b"b", [1], 2**70]),
)


def stream_of(kinds: list[str]) -> Stream:
    columns = {f"C{i}": parse_type(kind) for i, kind in enumerate(kinds)}
    return Stream.of("R", pa.schema(columns))


def shown(batch: pa.RecordBatch) -> str:
    """The batch with all that ``equals`` does not compare: signs of zeros, NaN."""
    return f"{batch.schema} {batch.to_pydict()!r}"


@st.composite
def fitting(draw: st.DrawFn, kind: str) -> object:
    if kind in INTEGERS:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return draw(
            st.one_of(st.integers(int(low), int(high)), st.sampled_from([low, high]).map(int))
        )
    if kind in ("float", "double"):
        return draw(st.one_of(FLOATS, st.integers(-(2**24), 2**24)))
    if kind == "bool":
        return draw(st.booleans())
    return draw(st.text(max_size=3)) if kind == "string" else Decimal(draw(st.integers(-99, 99)))


@given(st.data())
def test_a_list_is_read_as_in_general_or_left(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    stream = stream_of(kinds)
    keys = data.draw(st.permutations([name.lower() for name in stream.schema.names]))
    rows: list[Any] = []
    for _ in range(data.draw(st.integers(1, 6))):
        row = {key: data.draw(fitting(kinds[int(key[1:])])) for key in keys}
        rows.append(row)
    for change in data.draw(st.lists(st.sampled_from(CHANGES), max_size=2)):
        index, key = data.draw(st.sampled_from(range(len(rows)))), data.draw(st.sampled_from(keys))
        if change == "value":
            rows[index][key] = data.draw(st.one_of(INTS, FLOATS))
        elif change == "odd":
            rows[index][key] = data.draw(ODD)
        elif change == "drop":
            rows[index].pop(key, None)
        elif change == "more":
            rows[index]["x"] = 1
        elif change == "other":
            rows[index]["x"] = rows[index].pop(key, 1)
        else:
            rows[index] = OrderedDict(rows[index])
    found = DictReader(stream, tuple(rows[0]))
    batch = found.batch(rows) if found.serves else None
    if batch is None:
        return
    [expected] = to_batches(stream, rows)
    assert isinstance(expected, Tuples)
    assert shown(batch) == shown(expected.batch)


@pytest.mark.parametrize("kind", ["int8", "uint64", "float", "double", "string"])
@given(data=st.data())
def test_rows_that_fit_are_read(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(fitting(kind).filter(lambda v: v is not None), min_size=1))
    stream = stream_of(["int64", kind])
    rows = [{"c0": index, "C1": value} for index, value in enumerate(values)]
    batch = DictReader(stream, ("c0", "C1")).batch(rows)
    expected = to_batches(stream, rows)
    if len(expected) == 1 and isinstance(expected[0], Tuples):
        assert batch is not None and shown(batch) == shown(expected[0].batch)
    else:
        assert batch is None


def test_a_null_stops_its_column_only() -> None:
    stream = stream_of(["int64", "double", "string"])
    rows: list[dict[str, Any]] = [
        {"C0": 1, "C1": 1.5, "C2": None},
        {"C0": None, "C1": 2, "C2": "a"},
    ]
    batch = DictReader(stream, ("C0", "C1", "C2")).batch(rows)
    assert batch is not None
    assert batch.to_pylist() == rows


@pytest.mark.parametrize("kind", ["int64", "double", "int32"])
def test_a_column_holds_no_memory_of_others(kind: str) -> None:
    keys = tuple(f"C{i}" for i in range(20))
    rows = [dict.fromkeys(keys, 1)] * 2_000
    reader = DictReader(stream_of([kind] * len(keys)), keys)
    reader.batch(rows)
    tracemalloc.start()
    batch = reader.batch(rows)
    assert batch is not None
    columns = [batch.column(0)]
    del batch
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(columns[0]) == len(rows) and held < 2 * 8 * len(rows)


def test_no_reference_is_kept_or_lost() -> None:
    stream, value = stream_of(["double", "int64"]), math.pi * 1e3
    number = 2**61 + 5
    row = {"C0": value, "C1": number}
    rows = [row] * 1000
    found = DictReader(stream, ("C0", "C1"))
    found.batch(rows)
    things = [rows, row, value, number]
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(50):
        found.batch(rows)
    assert [sys.getrefcount(thing) for thing in things] == before


def test_a_key_may_empty_the_list_while_it_is_looked_up() -> None:
    class Foreign:
        def __hash__(self) -> int:
            return hash("C1")

        def __eq__(self, other: object) -> bool:
            rows.clear()
            return False

    stream = stream_of(["int64", "int64"])
    rows: list[Any] = [{"C0": 1, "C1": 2}, {"C0": 3, Foreign(): 4}, {"C0": 5, "C1": 6}]
    assert DictReader(stream, ("C0", "C1")).batch(rows) is None
    assert rows == []


def test_other_code_reads_lists_before_and_without_compiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, rows = stream_of(["int64"]), [{"C0": 1}, {"C0": 2}]
    with tuning.given(lists_to_compile=1):
        pushed = DictRows()
        assert pushed.batch(stream, rows) is None
        assert pushed.batch(stream, rows) is not None
        monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
        assert pushed.batch(stream, rows) is None


@pytest.mark.parametrize("lists", [0, 3])
def test_an_engine_takes_the_same_tuples(lists: int) -> None:
    pushes: list[list[dict[str, Any]]] = [
        [{"id": 1, "y": 0.5}, {"id": 2, "y": 1}],
        [{"ID": 3, "y": 1.5}, {"ID": 4, "y": None}],
        [{"id": 5}, {"id": 6}],
        [{"y": 2.5, "id": 7}, {"y": "no", "id": 8}, {"y": 3.5, "id": 9}],
        [{"id": 10, "y": 1.0, "z": 1}, {"id": 2**40, "y": 1.0}, {"id": 12, "y": math.inf}],
    ]
    with tuning.given(lists_to_compile=lists), ps.connect("local") as engine:
        engine.sql("CREATE STREAM R (id INT, y DOUBLE)")
        query = engine.install("SELECT id, y FROM R")
        for push in pushes:
            engine.push("R", push)
        assert [tuple(row.values()) for row in query.rows().to_pylist()] == [
            (1, 0.5), (2, 1.0), (3, 1.5), (4, None), (5, None), (6, None), (7, 2.5), (9, 3.5),
            (12, math.inf),
        ]  # fmt: skip
        assert query.dead_letters()["reason"].to_pylist() == [
            "column y: 'no' does not fit double",
            "unknown column z",
            "column id: 1099511627776 does not fit int32",
        ]
