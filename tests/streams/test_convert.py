"""What can be pushed, and what becomes of values that do not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.streams.convert import to_batches
from penstock.streams.events import Malformed, Tuples
from penstock.streams.schema import Stream

R = Stream.of("R", pa.schema({"id": pa.int64(), "x": pa.int32()}))


def one(kind: pa.DataType) -> Stream:
    return Stream.of("R", pa.schema({"x": kind}))


def rows(events: list[Tuples | Malformed]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for event in events:
        assert isinstance(event, Tuples)
        found.extend(event.batch.to_pylist())
    return found


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"X": pa.array([1, None], pa.int16()), "ID": [1, 2]}),
        pa.record_batch({"id": [1, 2], "x": pa.array([1, None])}),
        pd.DataFrame({"id": [1, 2], "x": [1.0, float("nan")]}, index=[7, 8]),
        pl.DataFrame({"x": [1, None], "id": [1, 2]}),
        [{"id": 1, "x": 1}, {"Id": 2}],
        [{"id": np.int64(1), "x": 1.0}, {"id": 2, "x": pd.NA}],
    ],
)
def test_columns_are_matched_by_name_and_cast(data: object) -> None:
    events = to_batches(R, data)
    assert rows(events) == [{"id": 1, "x": 1}, {"id": 2, "x": None}]
    assert all(event.batch.schema.equals(R.schema) for event in events)  # type: ignore[union-attr]


def test_nothing_is_copied_where_the_types_match() -> None:
    table = pa.table({"id": [1, 2], "x": pa.array([3, 4], pa.int32())})
    (event,) = to_batches(R, table)
    assert isinstance(event, Tuples)
    for name in ("id", "x"):
        got, given = event.batch.column(name), table.column(name).chunk(0)
        assert got.buffers()[1].address == given.buffers()[1].address


def test_a_row_that_does_not_fit_is_a_dead_letter_at_its_place() -> None:
    table = pa.table({"id": [1, 2, 3, 4], "x": [10, 2**31, 30, -(2**40)]})
    first, bad, second, last = to_batches(R, table)
    assert rows([first, second]) == [{"id": 1, "x": 10}, {"id": 3, "x": 30}]
    assert bad == Malformed("R", "2, 2147483648", "column x: 2147483648 does not fit int32")
    assert last == Malformed(
        "R", "4, -1099511627776", "column x: -1099511627776 does not fit int32"
    )


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([16_777_217]), pa.float32(), 16_777_216.0),
        (pa.array([0.1]), pa.float32(), float(np.float32(0.1))),
        (pa.array([2.0]), pa.int8(), 2),
        (pa.array([1.1]), pa.decimal128(4, 2), Decimal("1.10")),
        (pa.array([Decimal("1.5")]), pa.float64(), 1.5),
        (pa.array(["2024-01-31 12:00:00"]), pa.timestamp("ms"), dt.datetime(2024, 1, 31, 12)),
        (pa.array(["2024-01-31"]), pa.date32(), dt.date(2024, 1, 31)),
        (pa.array([dt.date(2024, 1, 31)]), pa.timestamp("s"), dt.datetime(2024, 1, 31)),
        (pa.array([dt.datetime(2024, 1, 31)]), pa.date32(), dt.date(2024, 1, 31)),
        (pa.array([b"ab"]), pa.string(), "ab"),
        (pa.array(["ab"], pa.large_string()), pa.binary(), b"ab"),
        (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
        (pa.array([None]), pa.bool_(), None),
        (pa.array([float("inf")]), pa.float32(), float("inf")),
    ],
)
def test_values_that_fit_are_cast(array: pa.Array, kind: pa.DataType, expected: object) -> None:
    assert rows(to_batches(one(kind), pa.table({"x": array}))) == [{"x": expected}]


@pytest.mark.parametrize(
    ("array", "kind", "text", "why"),
    [
        (pa.array([1.5]), pa.int32(), "1.5", "1.5 does not fit int32"),
        (pa.array([float("nan")]), pa.int32(), "NaN", "NaN does not fit int32"),
        (pa.array([1e300]), pa.float32(), "1e+300", "1e+300 does not fit float"),
        (pa.array([1.005]), pa.decimal128(4, 2), "1.005", "1.005 does not fit decimal(4, 2)"),
        (pa.array(["soon"]), pa.timestamp("us"), "'soon'", "'soon' is no date or timestamp"),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"),
         "TIMESTAMP '1970-01-01 00:00:00.000000001'",
         "TIMESTAMP '1970-01-01 00:00:00.000000001' does not fit timestamp"),
        (pa.array([1], pa.timestamp("s")), pa.date32(), "TIMESTAMP '1970-01-01 00:00:01'",
         "TIMESTAMP '1970-01-01 00:00:01' does not fit date"),
        (pa.array([b"\xff"]), pa.string(), "X'FF'", "X'FF' does not fit string"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_dead_letters(
    array: pa.Array, kind: pa.DataType, text: str, why: str
) -> None:
    # A good value beside it stays.
    both = pa.chunked_array([pa.concat_arrays([pa.nulls(1, array.type), array])])
    good, bad = to_batches(one(kind), pa.table({"x": both}))
    assert rows([good]) == [{"x": None}]
    assert bad == Malformed("R", text, f"column x: {why}")


@pytest.mark.parametrize(
    ("value", "kind", "text", "why"),
    [
        ("12", pa.int32(), "'12'", "'12' does not fit int32"),
        (True, pa.int32(), "TRUE", "TRUE does not fit int32"),
        (1, pa.bool_(), "1", "1 does not fit boolean"),
        (1.5, pa.int32(), "1.5", "1.5 does not fit int32"),
        (1, pa.timestamp("us"), "1", "1 does not fit timestamp"),
        (1e300, pa.float32(), "1e+300", "1e+300 does not fit float"),
        ([1], pa.int32(), "'[1]'", "'[1]' does not fit int32"),
        ("\ud800", pa.string(), "'\ufffd\ufffd\ufffd'", "'\ufffd\ufffd\ufffd' does not fit string"),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), pa.timestamp("us"),
         "TIMESTAMP '2024-01-01 00:00:00+00:00'",
         "TIMESTAMP '2024-01-01 00:00:00+00:00' does not fit timestamp: it has a time zone"),
    ],
)  # fmt: skip
def test_python_values_that_do_not_fit_are_dead_letters(
    value: object, kind: pa.DataType, text: str, why: str
) -> None:
    (bad,) = to_batches(one(kind), [{"x": value}])
    assert bad == Malformed("R", text, f"column x: {why}")


def test_unknown_and_repeated_keys_are_dead_letters() -> None:
    good, unknown, twice = to_batches(
        R, [{"id": 1, "x": 2}, {"id": 1, "x": 2, "y": 3}, {"id": 1, "x": 2, "X": 3}]
    )
    assert rows([good]) == [{"id": 1, "x": 2}]
    assert unknown == Malformed("R", "1, 2", "unknown column y")
    assert twice == Malformed("R", "1, 2", "two values for column x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({"id": [1], "z": [1]}),
         "the data for stream R lacks column x, and has the unknown column z\n"
         "Its columns must be: id, x."),
        (pa.table({"id": [1], "x": [1], "X": [1]}),
         "the data for stream R has twice column x\nIts columns must be: id, x."),
        (pa.table({"id": [1], "x": ["1"]}),
         "column x of stream R is int32, and the data has string there\n"
         "Cast the column to int32 first."),
        (7, "stream R cannot take int\n"
         "Give a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, or a list of dicts."),
        ([{"id": 1}, (1, 2)],
         "row 1 of the data pushed to stream R is tuple, not a dict\n"
         "Push dicts with the keys id, x."),
    ],
)  # fmt: skip
def test_data_of_the_wrong_shape_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        to_batches(R, data)
    assert str(caught.value) == message


def test_empty_data_is_no_events() -> None:
    assert to_batches(R, []) == []
    assert to_batches(R, pa.table(R.schema.empty_table())) == []
