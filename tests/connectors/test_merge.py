"""Files merged by an order column: the arrival order, whatever the batches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.files import FileSource
from penstock.connectors.merge import merge
from penstock.errors import InputError
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples


def source(folder: Path, name: str, times: object, kind: pa.DataType | None = None) -> FileSource:
    array = pa.array(times, kind)
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"ts": array, "row": pa.array(range(len(array)), pa.int64())}), path)
    return FileSource.open(name, path)


def arrivals(sources: list[FileSource], order_by: str | None, batch: int) -> list[object]:
    """Tuples as (stream, row), dead letters as text, Ends as the stream's name."""
    found: list[object] = []
    for event in merge(sources, order_by, batch):
        if isinstance(event, Tuples):
            found.extend((event.stream, row) for row in event.batch.column("row").to_pylist())
        elif isinstance(event, Merged):
            rows = [iter(b.column("row").to_pylist()) for b in event.batches]
            found.extend((event.streams[w], next(rows[w])) for w in event.which)
            assert all(next(left, None) is None for left in rows)
        elif isinstance(event, Malformed):
            found.append(event.text)
        elif isinstance(event, End):
            found.append(event.stream)
    return found


TIMES = st.lists(st.none() | st.integers(0, 6), max_size=9).map(
    lambda times: _sorted_but_nulls(times)
)


def _sorted_but_nulls(times: list[int | None]) -> list[int | None]:
    ordered = iter(sorted(t for t in times if t is not None))
    return [None if t is None else next(ordered) for t in times]


@given(st.lists(TIMES, min_size=2, max_size=3), st.integers(1, 4))
def test_arrival_order_does_not_depend_on_the_batches(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[int | None]], batch: int
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    sources = [source(folder, f"S{i}", times, pa.int32()) for i, times in enumerate(lists)]
    merged = arrivals(sources, "ts", batch)
    assert merged == arrivals(sources, "ts", 1000)
    expected = sorted(
        (t, i, row) for i, times in enumerate(lists) for row, t in enumerate(times) if t is not None
    )
    tuples = [event for event in merged if isinstance(event, tuple)]
    assert tuples == [(f"S{i}", row) for _, i, row in expected]
    nulls = [f"NULL, {row}" for times in lists for row, t in enumerate(times) if t is None]
    assert sorted(e for e in merged if isinstance(e, str) and e.startswith("NULL")) == sorted(nulls)
    for i in range(len(lists)):
        assert [e for e in merged if e == f"S{i}" or e[0] == f"S{i}"][-1] == f"S{i}"  # type: ignore[index]


@given(st.lists(TIMES, min_size=2, max_size=3), st.integers(1, 4))
def test_punctuations_hold(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[int | None]], batch: int
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    sources = [source(folder, f"S{i}", times, pa.int32()) for i, times in enumerate(lists)]
    punctuated: dict[str, int] = {}
    for event in merge(sources, "ts", batch, {s.stream.name for s in sources}):
        if isinstance(event, Punctuation):
            assert event.attribute == "ts"
            assert isinstance(event.value, int)
            assert event.value >= punctuated.get(event.stream, event.value)
            punctuated[event.stream] = event.value
        if isinstance(event, Tuples):
            event = Merged((event.stream,), (event.batch,), np.zeros(len(event), np.int8))
        if isinstance(event, Merged):
            for name, b in zip(event.streams, event.batches, strict=True):
                assert min(b.column("ts").to_pylist()) >= punctuated.get(name, 0)


def test_time_columns_of_different_units_are_compared_as_instants(tmp_path: Path) -> None:
    coarse = source(tmp_path, "A", [0, 1, 2], pa.timestamp("ms"))
    fine = source(tmp_path, "B", [500, 1000, 2500], pa.timestamp("us"))
    days = source(tmp_path, "C", [dt.date(1970, 1, 1), dt.date(1970, 1, 2)])
    found = [e for e in arrivals([coarse, fine, days], "ts", 2) if isinstance(e, tuple)]
    assert found == [
        ("A", 0), ("C", 0), ("B", 0), ("A", 1), ("B", 1), ("A", 2), ("B", 2), ("C", 1)
    ]  # fmt: skip
    punctuations = {
        (e.stream, e.value)
        for e in merge([coarse, fine], "ts", 3, {"A", "B"})
        if isinstance(e, Punctuation)
    }
    assert punctuations == {("A", 2), ("B", 2000), ("B", 2500)}


@pytest.mark.parametrize(
    ("left", "right"),
    [(pa.uint64(), pa.int64()), (pa.float64(), pa.int64()), (pa.decimal128(10, 0), pa.int8())],
)
def test_numbers_of_different_types_are_compared_exactly(
    tmp_path: Path, left: pa.DataType, right: pa.DataType
) -> None:
    sources = [source(tmp_path, "A", [1, 3], left), source(tmp_path, "B", [0, 2, 3], right)]
    found = [e for e in arrivals(sources, "ts", 10) if isinstance(e, tuple)]
    assert found == [("B", 0), ("A", 0), ("B", 1), ("A", 1), ("B", 2)]


def test_strings_order_by_code_point(tmp_path: Path) -> None:
    sources = [source(tmp_path, "A", ["B", "b"]), source(tmp_path, "B", ["a", "é"])]
    found = [e for e in arrivals(sources, "ts", 10) if isinstance(e, tuple)]
    assert found == [("A", 0), ("B", 0), ("A", 1), ("B", 1)]


def test_null_and_nan_in_the_order_column_are_dead_letters(tmp_path: Path) -> None:
    one = source(tmp_path, "A", [2.0, None, float("nan"), 1.0])
    letters = [e for e in merge([one], "ts") if isinstance(e, Malformed)]
    assert letters == [
        Malformed("A", "NULL, 1", "NULL in order column ts (A.parquet, row 2)"),
        Malformed("A", "NaN, 2", "NaN in order column ts (A.parquet, row 3)"),
    ]


def test_a_single_stream_is_read_in_its_own_order(tmp_path: Path) -> None:
    one = source(tmp_path, "A", [2, 1])
    assert arrivals([one], "ts", 10) == [("A", 0), ("A", 1), "A"]
    assert not any(isinstance(e, Punctuation) for e in merge([one], "ts"))


def test_without_an_order_column_streams_come_one_after_another(tmp_path: Path) -> None:
    both = [source(tmp_path, "A", [2, 1]), source(tmp_path, "B", [0])]
    assert arrivals(both, None, 10) == [("A", 0), ("A", 1), "A", ("B", 0), "B"]


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_a_file_that_is_not_sorted_is_refused_with_its_row(tmp_path: Path, batch: int) -> None:
    both = [source(tmp_path, "A", [1, 3, 2, 0]), source(tmp_path, "B", [9])]
    with pytest.raises(InputError) as caught:
        list(merge(both, "ts", batch))
    assert str(caught.value) == (
        f"{tmp_path}/A.parquet is not sorted by ts: row 3 has 2 after 3\n"
        "Sort it by ts. Or, if its tuples arrived in this order, merge by a column that tells "
        "when, and write ts as WATTR with SLACK: that is for times that go back as tuples arrive."
    )


def test_an_order_column_that_is_missing_or_not_comparable_is_refused(tmp_path: Path) -> None:
    number, text = source(tmp_path, "A", [1]), source(tmp_path, "B", ["x"])
    with pytest.raises(InputError) as caught:
        list(merge([number, text], "time"))
    assert str(caught.value) == (
        "stream A has no column 'time' to order by\n"
        "Order by a column that all streams have; A has ts, row."
    )
    with pytest.raises(InputError) as caught:
        list(merge([number, text], "ts"))
    assert str(caught.value) == (
        "order column 'ts' is int64 in stream A and string in stream B\n"
        "Declare both with CREATE STREAM as types that can be compared."
    )
