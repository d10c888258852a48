"""Queries over bounded tables and files, in one call."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import InputError

R = pa.table({"ts": [1, 3, 5], "x": [1, 2, 3]})
S = pa.table({"ts": [2, 4], "x": [1, 3]})
JOIN = "SELECT r.x FROM R [ROWS 1] AS r JOIN S [ROWS 1] AS s ON r.x = s.x"


def test_tables_are_merged_by_the_order_column(tmp_path: Path) -> None:
    pq.write_table(S, tmp_path / "s.parquet")
    for s in (S, pl.from_arrow(S), S.to_pandas(), tmp_path / "s.parquet", S.to_pylist()):
        assert ps.sql(JOIN, R=R, S=s, order_by="ts").to_pydict() == {"x": [1, 3]}


def test_a_join_of_whole_tables_needs_no_windows_and_no_order() -> None:
    table = ps.sql("SELECT r.x FROM R AS r JOIN S AS s ON r.x = s.x", R=R, S=S)
    assert sorted(table["x"].to_pylist()) == [1, 3]


def test_the_order_column_is_the_time_where_no_other_is_named() -> None:
    table = ps.sql(
        "SELECT r.x, s.x AS y FROM R [RANGE 2] AS r JOIN S [RANGE 2] AS s ON TRUE",
        R=R, S=S, order_by="ts",
    )  # fmt: skip
    assert table.to_pylist() == [
        {"x": 1, "y": 1}, {"x": 2, "y": 1}, {"x": 2, "y": 3}, {"x": 3, "y": 3},
    ]  # fmt: skip


def test_what_does_not_fit_is_a_warning() -> None:
    text = "CREATE STREAM R (x int8); SELECT x FROM R"
    with pytest.warns(UserWarning) as caught:
        table = ps.sql(text, R=pd.DataFrame({"x": [1, 300]}))
    assert table.to_pydict() == {"x": [1]}
    assert str(caught[0].message) == (
        "0 late tuples and 1 dead letter; the first: dead R: 300 (column x: 300 does not fit int8)"
    )


def test_the_options_of_install_are_options_here_too() -> None:
    options = {"order": "outer", "precision": 2, "flow": "splitjoin", "cores": 2, "branching": 2}
    table = ps.sql(JOIN, R=R, S=S, order_by="ts", kernel="nested-loop", **options)
    assert table.to_pydict() == {"x": [1, 3]}
    flow = pa.table({"x": [1, 2]})
    assert ps.sql("SELECT x FROM flow", Flow=flow).to_pydict() == {"x": [1, 2]}
    with pytest.raises(ps.InputError) as error:
        ps.sql(JOIN, R=R, S=S, order_by="ts", order="outer", flow="handshake")
    assert str(error.value) == (
        "the flow handshake does not offer the order outer: its rows come when two tuples meet\n"
        "Ask for the order none, or for the flow splitjoin."
    )


def test_tuples_that_were_shed_are_a_warning() -> None:
    few, many = pa.table({"x": range(300)}), pa.table({"x": range(8000)})
    text = "SELECT r.x FROM R AS r JOIN S AS s ON r.x >= 0"
    with pytest.warns(UserWarning, match="tuples shed; admission='wait' sheds none"):
        table = ps.sql(text, R=few, S=many, admission="shed")
    assert 1_048_576 * 7 // 8 <= table.num_rows <= 1_048_576


def test_a_reader_is_read_once() -> None:
    text = "CREATE STREAM R (ts int64, x int64); " + JOIN
    assert ps.sql(text, R=R.to_reader(), S=S, order_by="ts").num_rows == 2


def test_no_rows_have_columns_too() -> None:
    assert ps.sql("SELECT x FROM R WHERE x > 9", R=R).schema.names == ["x"]


def test_unsorted_tables_and_missing_streams_say_so() -> None:
    with pytest.raises(InputError) as caught:
        ps.sql(JOIN, R=R.sort_by([("ts", "descending")]), S=S, order_by="ts")
    assert str(caught.value) == (
        "the data of stream R is not sorted by ts: row 2 has 3 after 5\n"
        "Sort it by ts; streams that are merged must be in order."
    )
    with pytest.raises(ps.SqlError) as missing:
        ps.sql("SELECT x FROM R")
    assert str(missing.value) == (
        "unknown stream 'R' at line 1, column 15\n  SELECT x FROM R\n                ^\n"
        "Pass its table or path: ps.sql(..., R=...)."
    )
    with pytest.raises(InputError) as unordered:
        ps.sql(JOIN, R=R, S=S)
    assert str(unordered.value) == (
        "the windows of the query need an arrival order of R and S, and none is given\n"
        "Pass the column that they are sorted by, one of ts, x: order_by='ts'."
    )
