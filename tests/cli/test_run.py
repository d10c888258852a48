"""Queries over bounded tables and files, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.cli.run.inputs import unpunctuated_streams
from penstock.cli.run.setup import install
from penstock.connectors.sinks import FileSink
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


def test_the_run_punctuates_streams_that_nothing_else_does() -> None:
    """A derived selection has no punctuator, and a window over it waits for one."""
    text = (
        "CREATE STREAM D AS SELECT ts, x FROM R WHERE x > 0 UNION ALL SELECT ts, x FROM S; "
        "CREATE STREAM C AS SELECT r.ts AS ts FROM R [RANGE 2] AS r JOIN T [ROWS 1] AS t ON TRUE; "
        "SELECT d.x FROM D [RANGE 2 WATTR ts] AS d JOIN C [RANGE 2 WATTR ts] AS c ON TRUE"
    )
    ready = install(text, {"R": R, "S": S, "T": S}, "ts")
    assert unpunctuated_streams(ready.engine, ready.query, "ts") == {"R", "S", "T"}
    assert unpunctuated_streams(ready.engine, ready.query, None) == set()
    joined = install("SELECT r.x FROM R [RANGE 2] AS r JOIN S [RANGE 2] AS s ON TRUE",
                     {"R": R, "S": S}, "ts")  # fmt: skip
    assert unpunctuated_streams(joined.engine, joined.query, "ts") == set()


def test_what_does_not_fit_is_a_warning() -> None:
    text = "CREATE STREAM R (x int8); SELECT x FROM R"
    with pytest.warns(UserWarning) as caught:
        table = ps.sql(text, R=pd.DataFrame({"x": [1, 300]}))
    assert table.to_pydict() == {"x": [1]}
    assert [one.filename for one in caught] == [__file__]
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
        "Sort it by ts. Or, if its tuples arrived in this order, merge by a column that tells "
        "when, and write ts as WATTR with SLACK: that is for times that go back as tuples arrive."
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
        "Pass the column that they are sorted by, one of ts, x: order_by='COLUMN'."
    )
    three = "SELECT r.x FROM R [ROWS 1] AS r, S [ROWS 1] AS s, T [ROWS 1] AS t WHERE r.x = s.x"
    with pytest.raises(InputError) as several:
        ps.sql(f"{three} AND s.x = t.x", R=R, S=S, T=S)
    assert str(several.value) == (
        "the windows of the query need an arrival order of R, S and T, and none is given\n"
        "Pass the column that they are sorted by, one of ts, x: order_by='COLUMN'."
    )


def test_columns_of_one_name_have_the_same_names_everywhere(tmp_path: Path) -> None:
    r, s = pa.table({"id": [1], "x": [5]}), pa.table({"id": [2], "a": [5]})
    pairs = "SELECT * FROM R {0} AS r JOIN S {0} AS s ON r.x = s.a"
    expected = [{"r_id": 1, "x": 5, "s_id": 2, "a": 5}]
    assert ps.sql(pairs.format(""), R=r, S=s).to_pylist() == expected
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (id BIGINT, x BIGINT)")
    engine.sql("CREATE STREAM S (id BIGINT, a BIGINT)")
    query = engine.install(pairs.format("[ROWS 1]"), name="pairs")
    engine.sql(f"CREATE STREAM both AS {pairs.format('[ROWS 1]')}")
    derived = engine.install("SELECT s_id, r_id FROM both", name="derived")
    engine.push("R", r)
    engine.push("S", s)
    rows = query.rows()
    assert rows.to_pylist() == expected
    assert derived.rows().to_pylist() == [{"s_id": 2, "r_id": 1}]
    with FileSink(tmp_path / "out.csv", rows.schema) as sink:
        for batch in rows.to_batches():
            sink.write(batch)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == '"r_id","x","s_id","a"'


def test_a_column_without_a_type_is_an_error_only_where_it_is_read() -> None:
    data = pa.table({"id": [1, 2], "tags": [[1], [2]]})
    assert ps.sql("SELECT id FROM R", R=data).to_pylist() == [{"id": 1}, {"id": 2}]
    why = "column 'tags' of R has the type list<item: int64>, which Penstock does not have"
    with pytest.raises(ps.SqlError) as error:
        ps.sql("SELECT tags FROM R", R=data)
    assert str(error.value) == (
        f"{why} at line 1, column 8\n  SELECT tags FROM R\n         ^^^^\n"
        "Leave it out of the query, or give it a type that Penstock has: cast it before, or "
        "declare the stream."
    )
    with pytest.raises(ps.SqlError) as error:
        ps.sql("SELECT * FROM R", R=data)
    assert str(error.value) == (
        f"* stands for all columns, and {why} at line 1, column 8\n  SELECT * FROM R\n         ^\n"
        "Name those that are wanted: id."
    )


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_nan_is_summed_alike_from_every_container(make: Any) -> None:
    total = ps.sql("SELECT SUM(x) AS s FROM R", R=make({"x": [1.0, float("nan")]}))
    assert repr(total.to_pylist()) == "[{'s': nan}]"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT r.x FROM R [RANGE 5 WATTR x] AS r JOIN S [RANGE 5 WATTR x] AS s ON TRUE", "x"),
        (
            "CREATE STREAM R (ts int64, x int64) TIMESTAMP BY ts; SELECT r.x FROM R [RANGE 5] AS r "
            "JOIN S [RANGE 5 WATTR ts] AS s ON TRUE",
            "ts",
        ),
        ("SELECT r.x FROM R [ROWS 5] AS r JOIN S [ROWS 5] AS s ON TRUE", "COLUMN"),
    ],
)
def test_the_order_that_is_proposed_is_a_time_of_the_query(text: str, column: str) -> None:
    with pytest.raises(InputError) as unordered:
        ps.sql(text, R=R, S=S.rename_columns(["ts", "x"]))
    assert str(unordered.value) == (
        "the windows of the query need an arrival order of R and S, and none is given\n"
        f"Pass the column that they are sorted by, one of ts, x: order_by='{column}'."
    )


def test_a_single_stream_without_the_order_column_is_read_in_its_own_order() -> None:
    text = "CREATE STREAM R (x int64); SELECT x FROM R [ROWS 2]"
    with pytest.warns(UserWarning) as warned:
        assert ps.sql(text, R=R, order_by="ts").num_rows == R.num_rows
    assert [one.filename for one in warned] == [__file__]
    assert [str(one.message) for one in warned] == [
        "stream R has no column 'ts'; it is the only stream, so it is taken as it comes"
    ]


def test_a_change_into_a_cross_product_is_a_warning() -> None:
    linked = "SELECT a.x FROM R [ROWS 2] a JOIN R [ROWS 3] b ON a.x = b.x JOIN R [ROWS 4] c ON {}"
    with ps.connect("local") as engine:
        engine.stream("R", R.schema)
        query = engine.install(linked.format("b.x = c.x"), name="q")
        with pytest.warns(UserWarning) as warned:
            query.change(linked.format("TRUE"))
    assert [one.filename for one in warned] == [__file__]
    assert [str(one.message) for one in warned] == [
        "query 'q': no condition links R (3) with R AS a (1): an arrival can make up to 12 rows"
    ]


def test_a_cross_product_is_a_warning() -> None:
    text = (
        "SELECT a.x FROM R [ROWS 2] AS a JOIN R [ROWS 30] AS b ON a.x < b.x "
        "JOIN R [ROWS 50] AS c ON TRUE JOIN R [{}] AS d ON c.x = d.x"
    )
    for window, rows in (
        ("ROWS 1", "up to 3,000 rows"),
        ("RANGE 1 WATTR ts", "as many rows as the other windows have combinations"),
    ):
        with pytest.warns(UserWarning) as warned:
            ps.sql(text.format(window), R=R)
        message = (
            f"no condition links R AS c (3), R AS d (4) with R AS a (1): an arrival can make {rows}"
        )
        assert [str(one.message) for one in warned] == [message]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT x FROM R", "there is neither a join nor an aggregate to share"),
        (
            "SELECT COUNT(DISTINCT x) AS n FROM R [ROWS 2 SLIDE 2]",
            "threads cannot share COUNT(DISTINCT x)",
        ),
    ],
)
def test_idle_cores_are_a_warning(text: str, why: str) -> None:
    message = f"2 cores are asked for, and one is used: {why}"
    with pytest.warns(UserWarning) as warned:
        ps.sql(text, R=R, cores=2)
    assert [one.filename for one in warned] == [__file__]
    assert [str(one.message) for one in warned] == [message]
    with ps.connect("local") as engine, pytest.warns(UserWarning) as warned:
        engine.stream("R", R.schema)
        engine.install(text, name="q", cores=2)
    assert [one.filename for one in warned] == [__file__]
    assert [str(one.message) for one in warned] == [f"query 'q': {message}"]
