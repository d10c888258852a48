"""A query that fails is stopped, and the others continue."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.oracle.oracle import Oracle
from penstock.streams.events import End, Tuples
from penstock.streams.schema import Stream

COLUMNS = pa.schema({"x": pa.int64(), "t": pa.int64()})
MOST = 2**63 - 1


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"x": x, "t": t} for x, t in rows], COLUMNS)


def started() -> Oracle:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", COLUMNS, bounded=True))
    windows = "FROM R [RANGE 10 SLIDE 10 WATTR t]"
    oracle.derive("sums", f"SELECT SUM(x) AS s, window_end AS w {windows}")
    oracle.install("above", "SELECT s FROM sums")
    oracle.install("counts", f"SELECT COUNT(*) AS n, window_start {windows}")
    return oracle


ERROR = (
    "SUM(x) of the window [10, 20) is 9223372036854775808, which does not fit int64\n"
    "Sum a decimal: SUM(CAST(x AS decimal(38, 0)))."
)


def test_other_queries_have_processed_the_whole_batch_when_the_error_is_raised() -> None:
    oracle = started()
    with pytest.raises(PenstockError) as error:
        oracle.tuples("R", batch((5, 1), (MOST, 12), (1, 13), (7, 20), (8, 30)))
    assert str(error.value) == ERROR
    assert oracle.rows["counts"] == [(5, (1, 0)), (7, (2, 10)), (8, (1, 20))]
    # Earlier rows stay, the query emits no more, and its readers go on waiting.
    assert oracle.rows["sums"] == [(5, (5, 10))]
    oracle.end()
    assert oracle.rows["sums"] == oracle.rows["sums"][:1]
    assert oracle.rows["above"] == [(5, (5,))]
    assert oracle.rows["counts"][3:] == [(9, (1, 30))]


def test_events_after_the_one_that_stops_a_query_are_processed() -> None:
    oracle = started()
    first, second = batch((MOST, 12), (1, 13)), batch((7, 20))
    with pytest.raises(PenstockError) as error:
        oracle.feed([Tuples("R", first), Tuples("R", second), End("R")])
    assert str(error.value) == ERROR
    assert oracle.rows["counts"] == [(6, (2, 10)), (7, (1, 20))]


def test_a_change_may_stop_it_too() -> None:
    oracle = started()
    oracle.install("q", "SELECT SUM(x) AS s FROM R [RANGE 20 SLIDE 10 WATTR t]")
    oracle.drop("above")
    oracle.drop("sums")
    oracle.tuples("R", batch((-1, 5), (MOST, 12), (1, 13), (7, 21)))
    with pytest.raises(PenstockError) as error:
        oracle.change("q", "SELECT SUM(x) AS s FROM R [RANGE 10 SLIDE 10 WATTR t]")
    assert str(error.value) == ERROR


def test_rows_of_windows_before_the_one_that_stops_it_are_emitted() -> None:
    oracle = Oracle()
    oracle.create_stream(Stream.of("R", COLUMNS, bounded=True))
    oracle.install("q", "SELECT SUM(x) AS s FROM R [RANGE 10 SLIDE 10 WATTR t SLACK 99]")
    oracle.tuples("R", batch((MOST, 12), (5, 1), (1, 13), (7, 20)))
    with pytest.raises(PenstockError) as error:
        oracle.end()
    assert str(error.value) == ERROR
    assert oracle.rows["q"] == [(6, (5,))]
