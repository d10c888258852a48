"""Data that can be pushed, and dead letters for values that do not fit."""

from __future__ import annotations

import datetime as dt
from collections import UserDict
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.streams.convert import columns_and_left_out, to_batches
from penstock.streams.events import Malformed, Tuples
from penstock.streams.rows import convert_literals, literal_of, python_to_array
from penstock.streams.schema import Stream, type_name

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
        (pa.array([Decimal("7")]), pa.decimal128(38, 38), "7", "7 does not fit decimal(38, 38)"),
        (pa.array([7]), pa.decimal128(38, 38), "7", "7 does not fit decimal(38, 38)"),
        (pa.array([Decimal("9" * 18)]), pa.decimal128(38, 30), "9" * 18,
         f"{'9' * 18} does not fit decimal(38, 30)"),
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


NAN = float("nan")


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"x": [1.0, NAN, 2.0]}),
        pd.DataFrame({"x": pd.Series([1.0, NAN, 2.0], dtype=object)}),
        pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(pa.array([1.0, NAN, 2.0]))}),
        pl.DataFrame({"x": [1.0, NAN, 2.0]}),
        pa.table({"x": [1.0, NAN, 2.0]}),
        [{"x": 1.0}, {"x": NAN}, {"x": 2.0}],
    ],
)
def test_nan_is_nan_in_a_column_of_floats_from_every_container(data: object) -> None:
    for kind in (pa.float64(), pa.float32()):
        assert repr(rows(to_batches(one(kind), data))) == "[{'x': 1.0}, {'x': nan}, {'x': 2.0}]"
    table, left_out = columns_and_left_out("R", data)
    assert (repr(table.column(0).to_pylist()), left_out) == ("[1.0, nan, 2.0]", {})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (pd.DataFrame({"x": pd.array([1.0, None], dtype="Float64")}), pa.float64()),
        (pd.DataFrame({"x": pd.Series([1.0, None], dtype=object)}), pa.float64()),
        (pd.DataFrame({"x": pd.Series([1.0, pd.NA], dtype=object)}), pa.float64()),
        (pd.DataFrame({"x": [1.0, NAN]}), pa.int32()),
        (pd.DataFrame({"x": [1.0, NAN]}), pa.decimal128(4, 1)),
        (pd.DataFrame({"x": pd.Series(["1", NAN])}), pa.string()),
        (pd.DataFrame({"x": pd.to_datetime(["2024-01-31", None])}), pa.timestamp("us")),
        (pl.DataFrame({"x": [1.0, None]}), pa.float64()),
        ([{"x": 1.0}, {"x": pd.NaT}], pa.float64()),
    ],
)
def test_what_is_missing_is_null(data: object, kind: pa.DataType) -> None:
    first, second = rows(to_batches(one(kind), data))
    assert first["x"] is not None
    assert second == {"x": None}


WORDS = ["a", "word that is longer than twelve bytes", None]


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"x": pl.Series(WORDS, dtype=pl.Categorical)}),
        pl.DataFrame({"x": pl.Series(WORDS, dtype=pl.Enum(WORDS[:2]))}),
        pl.DataFrame({"x": WORDS}),
        pd.DataFrame({"x": pd.Categorical(WORDS)}),
        pd.DataFrame({"x": pd.Series(WORDS, dtype="string")}),
        pd.DataFrame({"x": pd.Series(WORDS, dtype="string[pyarrow]")}),
        pa.table({"x": pa.array(WORDS, pa.string_view())}),
        pa.table({"x": pa.array(WORDS, pa.large_string())}),
        pa.table({"x": pa.array(WORDS).dictionary_encode()}),
        pa.table({"x": pa.array(WORDS, pa.large_string()).dictionary_encode()}),
        pa.table({"x": pc.call_function("run_end_encode", [pa.array(WORDS)])}),
        pa.table({"x": pa.array([None if w is None else w.encode() for w in WORDS])}),
        pa.table(
            {"x": pa.array([None if w is None else w.encode() for w in WORDS], pa.binary_view())}
        ),
    ],
)
@pytest.mark.parametrize("dictionaries", [True, False])
def test_strings_of_every_kind_are_accepted(data: object, dictionaries: bool) -> None:
    events = to_batches(one(pa.string()), data, dictionaries)
    assert [row["x"] for row in rows(events)] == WORDS


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"x": [1], "tags": [[1, 2]], "took": [dt.timedelta(1)], "all": [object()]}),
        pl.DataFrame({"x": [1], "tags": [[1, 2]], "took": [dt.timedelta(1)], "all": [object()]}),
        pa.table({"x": [1], "tags": [[1, 2]], "took": [dt.timedelta(1)]}),
    ],
)
def test_unknown_columns_of_frames_are_ignored(data: object) -> None:
    assert rows(to_batches(one(pa.int64()), data)) == [{"x": 1}]
    table, left_out = columns_and_left_out("R", data)
    assert repr(Stream.of_columns("R", table.schema, left_out)) == "Stream R (x int64)"


def test_columns_of_dicts_are_those_of_all_rows() -> None:
    table, left_out = columns_and_left_out("R", [{"a": 1}, {"b": 2, "c": 1}, {"c": "x"}])
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}, {"a": None, "b": None}]
    assert list(left_out) == ["c"]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-300, 300),
    st.sampled_from([2**53 + 1, 2**24 + 1, 10**400]),
    st.floats(),
    st.floats(width=32),
    st.text(max_size=2),
    st.sampled_from([Decimal("1.5"), np.int8(3), np.float32(0.1), pd.NA, pd.NaT, "\ud800", b"a"]),
)
SCHEMA = pa.schema({"a": pa.int8(), "b": pa.uint64(), "c": pa.float32(), "d": pa.string()})
KEYS = st.sampled_from(["a", "b", "c", "d", "A", "x"])


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=5), min_size=1, max_size=4))
def test_dicts_are_read_as_other_mappings_are(data: list[dict[str, object]]) -> None:
    stream = Stream.of("R", SCHEMA)
    expected = to_batches(stream, [UserDict(row) for row in data])
    assert repr(to_batches(stream, data)) == repr(expected)


PYTHON_COLUMNS = st.one_of(*(
    st.lists(values, min_size=1, max_size=5)
    for values in (VALUES, st.integers(-(2**65), 2**65), st.integers(-200, 300) | st.none(),
                   st.floats() | st.integers(-(2**60), 2**60), st.floats() | st.none())
))  # fmt: skip
TYPES = [
    pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
    pa.bool_(), pa.string(), pa.decimal128(10, 2),
]  # fmt: skip


@given(PYTHON_COLUMNS, st.sampled_from(TYPES))
def test_a_column_in_bulk_is_the_column_value_by_value(
    values: list[object], kind: pa.DataType
) -> None:
    array, reasons = python_to_array(values, kind)
    expected, why = convert_literals([literal_of(value) for value in values], kind)
    assert (array.type, repr(array.to_pylist())) == (kind, repr(expected.to_pylist()))
    assert reasons == why


FAR = [
    10**5000, -(10**5000), Decimal("1e-999999999"), Decimal("1e999999"), Decimal("NaN"),
    Decimal("sNaN"), Decimal("0." + "0" * 60 + "1"), Decimal("1" * 60),
]  # fmt: skip


@pytest.mark.parametrize("value", FAR, ids=range(len(FAR)))
@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.int64()])
def test_numbers_far_beyond_a_type_are_dead_letters(value: object, kind: pa.DataType) -> None:
    (bad,) = to_batches(one(kind), [{"x": value}])
    assert isinstance(bad, Malformed)
    assert bad.reason == f"column x: {bad.text} does not fit {type_name(kind)}"
    (bad,) = to_batches(one(pa.float64()), [{"x": 10**400}])
    assert isinstance(bad, Malformed)


def test_damaged_arrow_data_is_refused_and_text_that_is_none_a_dead_letter() -> None:
    indices = pa.array([0, 7])
    beyond = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    with pytest.raises(InputError) as error:
        to_batches(one(pa.string()), pa.table({"x": beyond}))
    assert str(error.value).startswith("column x of the data for stream R is damaged: ")
    text = pa.array([b"a", b"\xff"]).view(pa.string())
    good, bad = to_batches(one(pa.string()), pa.table({"x": text}))
    assert rows([good]) == [{"x": "a"}]
    assert bad == Malformed("R", "X'FF'", "column x: X'FF' does not fit string")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([np.datetime64("2024-01-31"), None], [dt.datetime(2024, 1, 31), None]),
        ([np.datetime64("NaT"), np.float32(1.5)], [None, 1.5]),
        ([pa.scalar(1), 2, np.int8(3)], [1, 2, 3]),
        (["a", pd.NA], ["a", None]),
        ([bytearray(b"a"), memoryview(b"b")], [b"a", b"b"]),
        ([np.datetime64("2024-01-31"), np.float32(1.5), "a", ...], None),
        ([1, [2]], None),
        ([1, Decimal("1e999999999")], None),
        ([1, Decimal("1e-999999999")], None),
    ],
)
def test_columns_of_objects_have_a_type_if_their_values_do(
    values: list[object], found: list[object] | None
) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    for data in (frame, [{"x": value} for value in values]):
        table, left_out = columns_and_left_out("R", data)
        assert (table.column(0).to_pylist() if table.num_columns else None) == found
        assert bool(left_out) == (found is None)


def test_missing_numpy_times_and_arrow_scalars_are_values() -> None:
    rows_given = [{"x": np.datetime64("NaT")}, {"x": np.datetime64("2024-01-31")}, {"x": "NaT"}]
    events = to_batches(one(pa.date32()), rows_given)
    assert rows(events[:1]) == [{"x": None}, {"x": dt.date(2024, 1, 31)}]
    assert events[1] == Malformed("R", "'NaT'", "column x: 'NaT' is no date or timestamp")
    assert rows(to_batches(one(pa.int64()), [{"x": pa.scalar(5)}])) == [{"x": 5}]


@pytest.mark.parametrize("data", [[], [{}, {}]])
def test_rows_without_columns_need_a_declared_stream(data: object) -> None:
    with pytest.raises(InputError) as error:
        columns_and_left_out("R", data)
    assert str(error.value) == (
        "the data for stream R has no columns\n"
        "Declare the stream in the query: CREATE STREAM name (column type, ...);"
    )
