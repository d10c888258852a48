"""Remedies of errors at run time work: following one succeeds.

Remedies of SQL errors are in ``tests/sql/test_advice.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engines.local.engine import Engine

JOIN = "SELECT r.x AS x, s.y AS y FROM R [ROWS 4] AS r {kind} JOIN S [ROWS 4] AS s ON {on}"
INNER = JOIN.format(kind="", on="r.x = s.y")
LEFT = JOIN.format(kind="LEFT", on="r.x = s.y")
BAND = JOIN.format(kind="", on="r.x < s.y")
HOURLY = "SELECT window_end, COUNT(*) AS n FROM T [RANGE {range} MINUTES SLIDE 4 MINUTES WATTR t]"


def engine(**options: object) -> Engine:
    opened = ps.connect("local", **options)  # type: ignore[call-overload]
    assert isinstance(opened, Engine)
    opened.sql(
        "CREATE STREAM R (x BIGINT); CREATE STREAM S (y BIGINT); "
        "CREATE STREAM T (x INT, t TIMESTAMP)"
    )
    return opened


def refused(action: Callable[[], object], kind: type[ps.PenstockError] = ps.InputError) -> str:
    with pytest.raises(kind) as error:
        action()
    return error.value.remedy


def test_the_engines_that_are_named_start() -> None:
    remedy = refused(lambda: ps.connect("locl"))  # type: ignore[call-overload]
    assert "ps.connect('local')" in remedy
    ps.connect("local").close()


def test_a_closed_engine_is_followed_by_a_new_one() -> None:
    closed = engine()
    closed.close()
    assert refused(lambda: closed.push("R", [{"x": 1}])) == (
        "Connect a new one: ps.connect('local')."
    )
    engine().push("R", [{"x": 1}])


def test_the_streams_that_a_derived_one_reads_can_be_pushed_to() -> None:
    with engine() as opened:
        opened.sql("CREATE STREAM big AS SELECT x FROM R WHERE x > 1")
        remedy = refused(lambda: opened.push("big", [{"x": 1}]))
        opened.push(remedy.removeprefix("Push to what it reads: ").rstrip("."), [{"x": 1}])


def test_a_stream_is_dropped_after_what_reads_it() -> None:
    with engine() as opened:
        opened.sql("CREATE STREAM big AS SELECT x FROM R WHERE x > 1")
        reader = opened.install("SELECT x FROM big")
        assert refused(lambda: opened.drop("big")) == "Drop the queries that read it first."
        reader.drop()
        opened.drop("big")


def test_a_full_query_goes_on_when_it_is_drained() -> None:
    with engine(buffer_rows=2, batch_rows=1, push_timeout=0.0) as opened:
        query = opened.install("SELECT x FROM R", name="q")
        rows = [{"x": n} for n in range(5)]
        with pytest.raises(ps.BufferFull) as full:
            opened.push("R", rows)
        assert full.value.remedy.startswith("Call rows(), late() and dead_letters() of 'q', then")
        taken = query.rows().to_pylist()
        opened.push("R", rows[full.value.taken :])
        assert taken + query.rows().to_pylist() == rows


def test_windows_that_are_too_large_are_made_smaller_or_allowed() -> None:
    rows = [{"x": n} for n in range(2_000)]
    for limit in (20_000, 1 << 30):
        with engine(window_memory=limit) as opened:
            query = opened.install(INNER.replace("[ROWS 4]", "[ROWS 100000]"))
            if limit > 20_000:
                opened.push("R", rows)
                continue
            with pytest.raises(ps.MemoryLimit) as full:
                opened.push("R", rows)
            assert "smaller with change()" in full.value.remedy
            assert "a larger window_memory" in full.value.remedy
            query.change(INNER)
            opened.push("R", rows[full.value.taken :][:200])


@pytest.mark.parametrize(
    ("sql", "options", "remedy", "others"),
    [
        (BAND, {"kernel": "hash"}, "or write nested-loop", {"kernel": "nested-loop"}),
        (BAND, {"kernel": "hash"}, "leave the kernel out", {}),
        (INNER, {"kernel": "panes"}, "nested-loop, hash, band, sorted", {"kernel": "hash"}),
        (INNER, {"flow": "three-step", "cores": 2}, "flow shared", {"flow": "shared", "cores": 2}),
        (INNER, {"flow": "shared", "branching": 2}, "flow splitjoin", {"flow": "splitjoin"}),
        (
            INNER,
            {"flow": "handshake", "order": "outer", "cores": 2},
            "the flow splitjoin",
            {"flow": "splitjoin", "order": "outer", "cores": 2},
        ),
        (
            INNER,
            {"flow": "handshake", "order": "outer", "cores": 2},
            "the order none",
            {"flow": "handshake", "order": "none", "cores": 2},
        ),
        (LEFT, {"flow": "shared", "cores": 2}, "splitjoin", {"flow": "splitjoin", "cores": 2}),
        (LEFT, {"flow": "shared", "cores": 2}, "three-step", {"flow": "three-step"}),
        (INNER, {"precision": 3}, "outer or inner", {"precision": 3, "order": "outer"}),
        (INNER, {"flow": "split"}, "splitjoin", {"flow": "splitjoin", "cores": 2}),
        (INNER, {"kernel": "hsh"}, "hash", {"kernel": "hash"}),
        (INNER, {"admission": "drop"}, "wait or shed", {"admission": "shed"}),
        (INNER, {"order": "up"}, "none, outer or inner", {"order": "inner"}),
        ("SELECT x FROM R", {"flow": "shared"}, "Leave the flow out", {}),
        (
            "SELECT COUNT(*) AS n FROM T [ROWS 2 SLIDE 2]",
            {"kernel": "wid"},
            "[RANGE ... SLIDE ...]",
            {},
        ),
    ],
)
def test_the_options_that_errors_propose_are_accepted(
    sql: str, options: dict[str, object], remedy: str, others: dict[str, object]
) -> None:
    with engine() as opened:
        assert remedy in refused(lambda: opened.install(sql, **options))  # type: ignore[arg-type]
        opened.install(sql, **others)  # type: ignore[arg-type]


def test_a_sum_that_does_not_fit_is_one_of_decimals() -> None:
    table = pa.table({"x": pa.array([2**62, 2**62], pa.int64())})
    query = "SELECT SUM(x) AS s FROM R"
    remedy = refused(lambda: ps.sql(query, R=table), ps.ResultDoesNotFit)
    instead = remedy.removeprefix("Sum a decimal: ").removesuffix(".")
    assert ps.sql(query.replace("SUM(x)", instead), R=table).to_pylist() == [{"s": 2**63}]


def test_a_change_that_is_refused_can_be_installed_beside() -> None:
    with engine() as opened:
        query = opened.install(INNER, name="q")
        remedy = refused(lambda: query.change("SELECT x FROM R"), ps.ChangeRefused)
        assert remedy == "Install it as a new query and drop this one."
        opened.install("SELECT x FROM R", name="q2")
        query.drop()


def test_the_windows_that_a_change_may_have_are_accepted() -> None:
    with engine() as opened:
        query = opened.install(HOURLY.format(range=8))
        remedy = refused(lambda: query.change(HOURLY.format(range=10)), ps.ChangeRefused)
        assert remedy.startswith("Write as RANGE ")
        length = remedy.removeprefix("Write as RANGE ").partition("; or")[0]
        assert length == "a multiple of SLIDE"
        query.change(HOURLY.format(range=12))


def test_data_with_the_named_columns_is_accepted() -> None:
    with engine() as opened:
        remedy = refused(lambda: opened.push("T", pa.table({"x": [1]})))
        names = remedy.removeprefix("Its columns must be: ").rstrip(".").split(", ")
        opened.push("T", pa.table({name: pa.nulls(1) for name in names}))


def test_the_cast_that_an_error_proposes_is_accepted() -> None:
    with engine() as opened:
        texts = pa.table({"x": ["1", "2"]})
        remedy = refused(lambda: opened.push("R", texts))
        assert remedy == "Cast the column to int64 first."
        opened.push("R", texts.cast(pa.schema({"x": pa.int64()})))


def test_a_punctuation_with_its_attribute_is_accepted() -> None:
    with engine() as opened:
        opened.sql("CREATE STREAM U (a int, b timestamp)")
        remedy = refused(lambda: opened.punctuate("U", 5, attribute="c"))
        assert remedy == "Punctuate one of: a, b."
        opened.punctuate("U", 5, attribute="a")


def test_a_state_is_saved_where_there_is_a_folder(tmp_path: Path) -> None:
    with engine() as opened:
        path = tmp_path / "missing" / "state"
        remedy = refused(lambda: opened.save(path), ps.StateError)
        assert remedy == "Create the folder first, or save elsewhere."
        path.parent.mkdir()
        opened.save(path)
        ps.restore(path).close()


def test_streams_that_need_an_order_are_given_one() -> None:
    r, s = pa.table({"ts": [1, 3], "x": [1, 2]}), pa.table({"ts": [2], "y": [1]})
    query = "SELECT x FROM R [ROWS 1] JOIN S [ROWS 1] ON x = y"
    assert "order_by=" in refused(lambda: ps.sql(query, R=r, S=s))
    assert ps.sql(query, R=r, S=s, order_by="ts").to_pylist() == [{"x": 1}]


def test_a_stream_sorted_as_an_error_proposes_is_accepted() -> None:
    r, s = pa.table({"ts": [3, 1], "x": [1, 2]}), pa.table({"ts": [2], "y": [1]})
    query = "SELECT x FROM R [ROWS 1] JOIN S [ROWS 1] ON x = y"
    remedy = refused(lambda: ps.sql(query, R=r, S=s, order_by="ts"))
    assert remedy.startswith("Sort it by ts")
    ps.sql(query, R=r.sort_by("ts"), S=s, order_by="ts")


def test_a_stream_without_data_is_given_some() -> None:
    remedy = refused(lambda: ps.sql("SELECT x FROM R"), ps.SqlError)
    assert remedy == "Pass its table or path: ps.sql(..., R=...)."
    assert ps.sql("SELECT x FROM R", R=[{"x": 1}]).to_pylist() == [{"x": 1}]


def test_unknown_names_come_with_those_there_are() -> None:
    with engine() as opened:
        opened.install("SELECT x FROM R", name="q")
        remedy = refused(lambda: opened.push("Rr", [{"x": 1}]))
        assert remedy == "Create it first: CREATE STREAM Rr (...). Streams there are: R, S, T."
        opened.sql("CREATE STREAM Rr (x int)")
        opened.push("Rr", [{"x": 1}])
        assert refused(lambda: opened.drop("qq")) == "Queries there are: q."
        opened.drop("q")


R = pa.table({"x": [1, 2, 2, 3, None, 5], "y": [1, 9, 2, 3, 4, 5]})
S = pa.table({"a": [2, 3, 3, 7], "b": [1, 1, 2, 9]})


@pytest.mark.parametrize(
    ("condition", "rest"),
    [
        ("x IN (SELECT a FROM S)", ""),
        ("x NOT IN (SELECT a FROM S)", " WHERE R.x IS NOT NULL"),
        ("NOT x IN (SELECT a FROM S)", " WHERE R.x IS NOT NULL"),
        ("x IN (SELECT a FROM S WHERE b = 1 OR b = 9)", ""),
        ("(x, y) IN (SELECT a, b FROM S)", ""),
        ("x + 1 IN (SELECT a FROM S) AND y > 1", " WHERE y > 1"),
        ("EXISTS (SELECT 1 FROM S WHERE S.a = R.x AND b > 1)", ""),
        ("NOT EXISTS (SELECT 1 FROM S WHERE S.a = R.x)", ""),
    ],
)
def test_a_join_in_place_of_a_sub_query_gives_its_rows(condition: str, rest: str) -> None:
    query = f"SELECT x, y FROM R WHERE {condition}"
    remedy = refused(lambda: ps.sql(query, R=R, S=S), ps.SqlError)
    join = remedy.removeprefix("Write ").partition(", with the windows")[0]
    ours = ps.sql(f"SELECT x, y {join.replace(' [ROWS 1000]', '')}{rest}", R=R, S=S)
    assert rows_of(ours) == rows_of(duckdb_rows(query))


def test_a_sub_query_beside_or_is_two_joins() -> None:
    query = "SELECT x, y FROM R WHERE x IN (SELECT a FROM S) OR y > 4"
    remedy = refused(lambda: ps.sql(query, R=R, S=S), ps.SqlError)
    assert "UNION ALL" in remedy
    join = remedy.removeprefix("Write ").partition(", with the windows")[0]
    join = join.replace(" [ROWS 1000]", "")
    other = join.replace("SEMI", "ANTI")
    ours = ps.sql(f"SELECT x, y {join} UNION ALL SELECT x, y {other} WHERE y > 4", R=R, S=S)
    assert rows_of(ours) == rows_of(duckdb_rows(query))


def duckdb_rows(query: str) -> pa.Table:
    connection = duckdb.connect()
    connection.register("R", R)
    connection.register("S", S)
    return connection.sql(query).to_arrow_table()


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def test_the_tuple_that_arrived_last_is_joined() -> None:
    with engine() as opened:
        remedy = refused(
            lambda: opened.install("SELECT R.x FROM R ASOF JOIN S ON R.x >= S.y"), ps.SqlError
        )
        source = remedy.partition("write ")[2].partition(". By key")[0]
        assert source == "FROM R [NOW] JOIN S [ROWS 1] ON TRUE"
        last = opened.install(f"SELECT x, y {source}")
        opened.push("S", [{"y": 1}, {"y": 2}])
        opened.push("R", [{"x": 10}])
        opened.push("S", [{"y": 3}])
        opened.push("R", [{"x": 20}, {"x": 30}])
        assert last.rows().to_pylist() == [{"x": 10, "y": 2}, {"x": 20, "y": 3}, {"x": 30, "y": 3}]


def test_the_last_row_of_a_sub_query_is_joined() -> None:
    with engine() as opened:
        text = "SELECT x FROM R WHERE x > (SELECT MAX(y) AS top FROM S [ROWS 9 SLIDE 1])"
        remedy = refused(lambda: opened.install(text), ps.SqlError)
        named = remedy.removeprefix("Name it first, ").partition("; join")[0]
        source = remedy.partition("its last row, ")[2].partition(" (no windows")[0]
        opened.sql(named)
        above = opened.install(f"SELECT x {source} WHERE x > sub.top")
        opened.push("S", [{"y": 5}])
        opened.push("R", [{"x": 4}, {"x": 6}])
        opened.push("S", [{"y": 7}])
        opened.push("R", [{"x": 6}, {"x": 8}])
        assert above.rows().to_pylist() == [{"x": 6}, {"x": 8}]


def rows(sql: str) -> list[dict[str, object]]:
    data = pa.table({"k": ["a", "b", "a", "b"], "x": [1, 2, 3, 6]})
    found = ps.sql(sql, R=data, S=data, T=data).to_pylist()
    return sorted(found, key=lambda row: list(map(str, row.values())))


@pytest.mark.parametrize(
    ("sql", "pieces", "followed"),
    [
        (
            "SELECT k, x FROM R WHERE x > (SELECT AVG(x) FROM R)",
            ["CREATE STREAM sub AS SELECT AVG(x) AS v FROM R; ", "(no windows for streams that "],
            "CREATE STREAM sub AS SELECT AVG(x) AS v FROM R; "
            "SELECT k, x FROM R JOIN sub ON TRUE WHERE x > sub.v",
        ),
        (
            "SELECT k, (SELECT MAX(x) FROM S) AS top FROM R",
            ["CREATE STREAM sub AS SELECT MAX(x) AS v FROM S; ", "write sub.v where"],
            "CREATE STREAM sub AS SELECT MAX(x) AS v FROM S; "
            "SELECT k, sub.v AS top FROM R JOIN sub ON TRUE",
        ),
        (
            "SELECT R.k, x, SUM(x) OVER (PARTITION BY R.k) AS s FROM R",
            [
                "CREATE STREAM g AS SELECT k, ... AS v FROM R GROUP BY k; ",
                "FROM R JOIN g ON R.k = g.k.",
            ],
            "CREATE STREAM g AS SELECT k, SUM(x) AS v FROM R GROUP BY k; "
            "SELECT R.k, x, v AS s FROM R JOIN g ON R.k = g.k",
        ),
        (
            "SELECT k FROM R UNION SELECT k FROM S",
            ["SELECT DISTINCT ... FROM u [", "(none for streams that end)."],
            "CREATE STREAM u AS SELECT k FROM R UNION ALL SELECT k FROM S; "
            "SELECT DISTINCT k FROM u",
        ),
    ],
)
def test_the_sql_that_an_error_proposes_gives_the_wanted_rows(
    sql: str, pieces: list[str], followed: str
) -> None:
    remedy = refused(lambda: rows(sql), ps.SqlError)
    assert [piece for piece in pieces if piece not in remedy] == []
    data = pa.table({"k": ["a", "b", "a", "b"], "x": [1, 2, 3, 6]})
    with duckdb.connect() as database:
        for name in "RST":
            database.register(name, data)
        asked = database.sql(sql).to_arrow_table().to_pylist()
    assert rows(followed) == sorted(asked, key=lambda row: list(map(str, row.values())))


MIXED = ['{"id": 1, "x": 1.5}', '{"id": "seven", "x": 2}', '{"id": 3, "x": "?"}']
DECLARED = (
    "Declare the stream before the query, with one type for each column; what has another is a "
    "dead letter then: CREATE STREAM f ("
)


def test_a_mixed_column_is_described_without_the_words_of_a_library(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text("\n".join(f'{record[:-1]}, "my y": 1}}' for record in MIXED))
    for data in (path, [json.loads(line) for line in path.read_text().splitlines()]):
        with pytest.raises(ps.SqlError) as error:
            ps.sql("SELECT * FROM f", f=data)
        assert str(error.value) == (
            "* stands for all columns, and column 'id' of f has values of several types: most are "
            "int64, and 'seven' is not at line 1, column 8\n  SELECT * FROM f\n         ^\n"
            f'{DECLARED}"my y" int64, id int64, x double);'
        )
        declared = error.value.remedy.partition("then: ")[2]
        with pytest.warns(UserWarning, match="2 dead letters"):
            table = ps.sql(f"{declared} SELECT * FROM f", f=data)
        assert table.to_pylist() == [{"my y": 1, "id": 1, "x": 1.5}]
        with pytest.raises(ps.SqlError) as error:
            ps.sql("SELECT x FROM f", f=data)
        assert str(error.value) == (
            "column 'x' of f has values of several types: most are double, and '?' is not at "
            "line 1, column 8\n  SELECT x FROM f\n         ^\n"
            f'{DECLARED}"my y" int64, id int64, x double);'
        )
