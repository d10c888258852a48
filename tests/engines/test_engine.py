"""The embedded engine as its user meets it: statements, input of every kind, handles, refusals."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.engines.spark.in_process import Cluster, standing_in

import penstock as ps
from penstock.engines.local.engine import Engine
from penstock.errors import InputError, PenstockError, SqlError
from penstock.streams.events import End, Punctuation, Tuples

PAIRS = "SELECT r.id AS r, s.id AS s FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON r.x < s.a"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with ps.connect("local", compile_predicates=False) as connected:
        connected.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)")
        yield connected


def refusal(action: Callable[[], Any], kind: type[PenstockError] = InputError) -> str:
    """The whole message of the error that the action must raise."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


def push_pair(engine: Engine) -> None:
    engine.push("R", [{"id": 1, "x": 10}])
    engine.push("S", [{"id": 7, "a": 11}])


# -- statements -----------------------------------------------------------------------------


def test_the_example_of_the_readme_runs() -> None:
    with ps.connect("local", compile_predicates=False) as engine:
        assert engine.sql("CREATE STREAM R (id BIGINT, x INT)") is None
        engine.stream("S", pa.schema({"id": pa.int64(), "a": pa.int32()}))
        q = engine.install(PAIRS, name="pairs")
        push_pair(engine)
        engine.end()
        assert (q.name, q.text) == ("pairs", PAIRS)
        assert q.schema == pa.schema({"r": pa.int64(), "s": pa.int64()})
        assert q.rows().to_pylist() == [{"r": 1, "s": 7}]
        assert q.rows().num_rows == 0
        assert q.rows().schema == q.schema


def test_a_text_gives_what_its_last_statement_gives(engine: Engine) -> None:
    q = engine.sql("CREATE STREAM T (x INT); SELECT x FROM T;")
    assert (q.name, q.text) == ("q1", "SELECT x FROM T")
    assert engine.sql("SELECT x FROM T; CREATE STREAM U (x INT)") is None
    assert list(engine.queries) == ["q1", "q2"]


def test_show_and_describe_give_tables(engine: Engine) -> None:
    engine.sql("CREATE STREAM T (ts TIMESTAMP(3), p DECIMAL(6, 2)) TIMESTAMP BY ts")
    engine.sql("CREATE STREAM big AS SELECT id, x FROM R WHERE x > 10")
    engine.install(PAIRS, name="pairs")
    assert engine.sql("SHOW STREAMS").to_pydict() == {
        "stream": ["R", "S", "T", "big"],
        "definition": [
            "Stream R (id int64, x int32)",
            "Stream S (id int64, a int32)",
            "Stream T (ts timestamp(3), p decimal(6, 2)) TIMESTAMP BY ts",
            "Stream big (id int64, x int32)",
        ],
    }
    assert engine.sql("SHOW QUERIES").to_pydict() == {
        "query": ["big", "pairs"],
        "text": ["SELECT id, x FROM R WHERE x > 10", PAIRS],
    }
    assert engine.sql("DESCRIBE T").to_pydict() == {
        "column": ["ts", "p"],
        "type": ["timestamp(3)", "decimal(6, 2)"],
    }
    assert engine.sql("DESCRIBE PAIRS").to_pydict() == {"column": ["r", "s"], "type": ["int64"] * 2}
    assert engine.sql("DESCRIBE big").to_pydict() == {
        "column": ["id", "x"],
        "type": ["int64", "int32"],
    }


def test_explain_installs_nothing_and_says_plan_program_and_kernel(engine: Engine) -> None:
    text = engine.sql(f"EXPLAIN {PAIRS} AND r.x > 3")
    assert engine.queries == {}
    lines = text.splitlines()
    assert lines[0] == "plan"
    assert "  #2 join inner of #0 and #1" in lines
    assert "       filter left: (r.x > 3)" in lines
    assert "       compiled: (r.x < s.a)" in lines
    assert lines[-3:] == [
        "kernel sorted: one-sided inequality of (r.x < s.a)",
        "order none",
        "flow three-step on 1 core: nothing else is asked for, and one core needs no sharing",
    ]
    assert engine.install(f"{PAIRS} AND r.x > 3").explain() == text


def test_a_derived_stream_is_read_like_any_other(engine: Engine) -> None:
    big = engine.sql("CREATE STREAM big AS SELECT id, x FROM R WHERE x > 10")
    q = engine.sql("SELECT b.id, s.id AS s FROM big [ROWS 1] AS b JOIN S [ROWS 1] AS s ON TRUE")
    engine.push("R", [{"id": 1, "x": 10}, {"id": 2, "x": 20}, {"id": 3, "x": 5}])
    engine.push("S", [{"id": 7, "a": 0}])
    assert q.rows().to_pylist() == [{"id": 2, "s": 7}]
    assert big.rows().num_rows == 0
    assert big.metrics()["rows_out"] == 1


# -- input ----------------------------------------------------------------------------------

ROWS = [{"id": 1, "x": 10}, {"id": 2, "x": None}, {"id": 3, "x": 30}]
TABLE = pa.Table.from_pylist(ROWS, pa.schema({"id": pa.int64(), "x": pa.int32()}))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TABLE, id="table"),
        pytest.param(pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]), id="chunked"),
        pytest.param(TABLE.to_batches()[0], id="batch"),
        pytest.param(TABLE.select(["x", "id"]), id="other order"),
        pytest.param(TABLE.rename_columns(["ID", "X"]), id="other case"),
        pytest.param(TABLE.cast(pa.schema({"id": pa.int8(), "x": pa.int64()})), id="other types"),
        pytest.param(pd.DataFrame({"id": [1, 2, 3], "x": [10, None, 30]}), id="pandas"),
        pytest.param(pl.from_arrow(TABLE), id="polars"),
        pytest.param(ROWS, id="dicts"),
        pytest.param([{"id": 1, "x": 10}, {"id": 2}, {"x": 30, "id": 3}], id="missing key"),
    ],
)
def test_push_takes_every_kind_of_table(engine: Engine, data: object) -> None:
    q = engine.install("SELECT id, x FROM R")
    engine.push("r", data)
    assert q.rows() == TABLE
    assert engine.position == 2 + 1 + 3


def test_nothing_pushed_is_nothing(engine: Engine) -> None:
    q = engine.install("SELECT id FROM R")
    for data in ([], TABLE.slice(0, 0), pl.from_arrow(TABLE.slice(0, 0))):
        engine.push("R", data)
    assert (engine.position, q.rows().num_rows) == (3, 0)


def test_what_does_not_fit_is_a_dead_letter_at_its_place(engine: Engine) -> None:
    q = engine.install("SELECT id FROM R", name="q")
    other = engine.install("SELECT id FROM S")
    engine.push("R", [{"id": 1, "x": 1}, {"id": 2, "x": 2**31}, {"id": "?", "x": 1}])
    assert q.rows().to_pydict() == {"id": [1]}
    assert q.metrics()["dead_letters"] == 2
    assert q.dead_letters().to_pylist() == [
        {
            "stream": "R",
            "position": 5,
            "reason": "column x: 2147483648 does not fit int32",
            "tuple": "2, 2147483648",
        },
        {
            "stream": "R",
            "position": 6,
            "reason": "column id: '?' does not fit int64",
            "tuple": "'?', 1",
        },
    ]
    assert q.dead_letters().num_rows == 0
    assert q.late().num_rows == 0
    assert other.metrics()["dead_letters"] == 0


def test_data_that_is_no_table_of_the_stream_is_refused_whole(engine: Engine) -> None:
    q = engine.install("SELECT id FROM R")
    assert refusal(lambda: engine.push("R", 3)) == (
        "stream R cannot take int\n"
        "Give a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, or a list of dicts."
    )
    assert refusal(lambda: engine.push("R", TABLE.select(["id"]))) == (
        "the data for stream R lacks column x\nIts columns must be: id, x."
    )
    words = pa.table({"id": ["a"], "x": [1]})
    assert refusal(lambda: engine.push("R", words)) == (
        "column id of stream R is int64, and the data has string there\n"
        "Cast the column to int64 first."
    )
    assert (engine.position, q.rows().num_rows) == (3, 0)


# -- punctuations, late tuples, ends --------------------------------------------------------


def test_punctuations_are_ints_or_moments() -> None:
    engine = ps.connect("local", compile_predicates=False)
    engine.sql("CREATE STREAM R (t TIMESTAMP); CREATE STREAM S (n BIGINT, t TIMESTAMP)")
    q = engine.install(
        "SELECT s.n FROM R [RANGE 10 SECONDS WATTR t] AS r "
        "RIGHT JOIN S [RANGE 10 SECONDS WATTR t] AS s ON TRUE"
    )
    start = datetime.datetime(2026, 1, 1)
    engine.push("S", [{"n": i, "t": start + datetime.timedelta(seconds=i)} for i in range(4)])
    engine.punctuate("R", start + datetime.timedelta(seconds=10))
    assert q.rows().to_pydict() == {"n": [0]}
    engine.punctuate("R", datetime.datetime(2026, 1, 1, 0, 0, 11), attribute="t")
    assert q.rows().to_pydict() == {"n": [1]}
    micros = int((start - datetime.datetime(1970, 1, 1)).total_seconds()) * 1_000_000
    engine.punctuate("R", micros + 12_000_000, attribute="T")
    assert q.rows().to_pydict() == {"n": [2]}
    engine.punctuate("R", start)
    assert q.rows().num_rows == 0
    engine.end("R")
    assert q.rows().to_pydict() == {"n": [3]}


def test_a_punctuation_that_goes_back_is_ignored_counted_and_warned_of_once() -> None:
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (t TIMESTAMP, x INT) TIMESTAMP BY t; CREATE STREAM S (x INT)")
    n = engine.sql("SELECT COUNT(*) FROM R [RANGE 1 SECOND SLIDE 1 SECOND WATTR t]")
    start = datetime.datetime(2026, 1, 1)
    engine.push("R", [{"t": start, "x": 1}])
    engine.punctuate("R", start + datetime.timedelta(seconds=2))
    assert len(n.rows()) == 1
    with pytest.warns(UserWarning) as found:
        engine.punctuate("R", start)
        engine.punctuate("R", start)
        engine.punctuate("S", 5, attribute="x")
        engine.punctuate("S", 4, attribute="x")
        engine.punctuate("S", 5, attribute="x")
        other = ps.connect("local")
        other.sql("CREATE STREAM S (x DOUBLE)")
        other.punctuate("S", 2.5)
        other.punctuate("S", 1.5)
    assert {one.filename for one in found} == {__file__}
    assert [str(one.message) for one in found] == [
        "a punctuation of stream R goes back, from TIMESTAMP '2026-01-01 00:00:02' to TIMESTAMP "
        "'2026-01-01 00:00:00', and is ignored; the engine's ignored_punctuations counts all that "
        "do",
        "a punctuation of stream S goes back, from 2.5 to 1.5, and is ignored; the engine's "
        "ignored_punctuations counts all that do",
    ]
    assert engine.ignored_punctuations == 3


def test_a_punctuation_must_be_on_an_attribute_and_of_its_type(engine: Engine) -> None:
    assert refusal(lambda: engine.punctuate("R", 1, attribute="z")) == (
        "stream R has no attribute 'z'\nPunctuate one of: id, x."
    )
    assert refusal(lambda: engine.punctuate("R", "now")) == (
        "the punctuation 'now' of stream R is on no particular attribute\n"
        "Say which: punctuate(stream, value, attribute=...), or declare the stream's time "
        "attribute with TIMESTAMP BY."
    )
    assert refusal(lambda: engine.punctuate("R", "now", attribute="id")) == (
        "the punctuation 'now' is no int64, which the attribute id of stream R is\n"
        "Write a value of the type int64."
    )
    assert engine.position == 2


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_punctuation_without_a_value_is_refused(engine: Engine, value: object) -> None:
    engine.sql("CREATE STREAM F (t DOUBLE) TIMESTAMP BY t")
    assert refusal(lambda: engine.punctuate("F", value)) == (
        f"a punctuation of stream F cannot be {value}\n"
        "Give the value that no further tuple is below."
    )


def test_late_tuples_have_their_reason(engine: Engine) -> None:
    q = engine.install(
        "SELECT r.id, s.id AS s FROM R [RANGE 5 WATTR x] AS r JOIN S [RANGE 5 WATTR a] AS s ON TRUE"
    )
    engine.punctuate("R", 100, attribute="x")
    engine.push("R", [{"id": 1, "x": 99}, {"id": 2, "x": 100}])
    assert q.metrics()["late"] == 1
    assert q.late().to_pylist() == [
        {
            "stream": "R",
            "position": 4,
            "reason": "x = 99 is before the punctuation 100",
            "tuple": "1, 99",
        }
    ]
    assert q.late().num_rows == 0
    assert q.metrics()["late"] == 1


def test_an_ended_stream_takes_nothing_more(engine: Engine) -> None:
    message = "stream S has ended\nPush before end(); a stream that has ended stays so."
    engine.end("S")
    assert refusal(lambda: engine.push("S", [{"id": 1, "a": 1}])) == message
    assert refusal(lambda: engine.punctuate("S", 1)) == message
    assert refusal(lambda: engine.end("S")) == message
    engine.push("R", ROWS)
    engine.end()
    engine.end()
    assert engine.position == 2 + 1 + 3 + 1


def test_nothing_comes_after_an_end_in_one_feed_either(engine: Engine) -> None:
    q = engine.install("SELECT id FROM R")
    tuples = Tuples("R", TABLE.to_batches()[0])
    message = "stream R has ended\nPush before end(); a stream that has ended stays so."
    assert refusal(lambda: engine.feed([End("R"), tuples])) == message
    assert refusal(lambda: engine.feed([tuples, End("r"), Punctuation("R", 1)])) == message
    assert refusal(lambda: engine.feed([End("S"), End("S")])) == message.replace(" R ", " S ")
    assert (engine.position, q.rows().num_rows) == (3, 0)


def test_end_pads_what_waits(engine: Engine) -> None:
    q = engine.install(PAIRS.replace("JOIN", "FULL JOIN"))
    engine.push("R", [{"id": 1, "x": 5}])
    engine.push("S", [{"id": 7, "a": 0}])
    assert q.rows().num_rows == 0
    engine.end()
    assert q.rows().to_pylist() == [{"r": None, "s": 7}, {"r": 1, "s": None}]


# -- handles --------------------------------------------------------------------------------


def test_rows_stop_at_a_change_of_columns(engine: Engine) -> None:
    q = engine.install("SELECT id FROM R", name="q")
    engine.push("R", [{"id": 1, "x": 10}])
    q.change("SELECT id FROM R WHERE x > 0")
    engine.push("R", [{"id": 2, "x": 20}, {"id": 3, "x": -1}])
    q.change("SELECT x AS double FROM R")
    engine.push("R", [{"id": 4, "x": 40}])
    assert (q.text, q.schema.names) == ("SELECT x AS double FROM R", ["double"])
    assert q.rows().to_pydict() == {"id": [1, 2]}
    assert q.rows().to_pydict() == {"double": [40]}
    assert q.rows().schema.names == ["double"]


def test_drain_gives_positions(engine: Engine) -> None:
    q = engine.install(PAIRS)
    push_pair(engine)
    engine.push("S", [{"id": 8, "a": 12}])
    results = q.drain()
    assert [p for result in results for p in result.positions.tolist()] == [4, 5]
    assert [r["s"] for result in results for r in result.batch.to_pylist()] == [7, 8]
    assert q.drain() == []


def test_a_query_without_a_join_has_no_latency(engine: Engine) -> None:
    assert engine.install("SELECT id FROM R").metrics()["latency"] == {}


def test_metrics_count(engine: Engine) -> None:
    q = engine.install(PAIRS)
    push_pair(engine)
    engine.push("S", [{"id": 8, "a": 1}])
    metrics = q.metrics()
    assert metrics.pop("window_bytes") > 0
    assert metrics.pop("latency")["processing"]["count"] == 3
    [core] = metrics.pop("cores")
    assert core == {
        "core": 0,
        "stored": [1, 2],
        "probed": [1, 2],
        "matched": 1,
        "comparisons": 2,
        "window": [1, 2],
    }
    assert metrics == {
        **{name: [] for name in ("groups", "panes", "modules", "windows_open")},
        "tuples_in": {"R": 1, "S": 2},
        "accounts": [
            {
                **dict.fromkeys(("expired", "passed", "late", "dead", "shed"), 0),
                **{"stream": stream, "in": tuples, "stored": tuples},
            }
            for stream, tuples in (("R", 1), ("S", 2))
        ],
        "rows_out": 1,
        "shed": {},
        "late": 0,
        "dead_letters": 0,
        "expression_failures": 0,
        "comparisons": 2,
        "kernels": [("nested-loop", "nested-loop")],
        "matches": 1,
        "window_tuples": [1, 2],
        "expired_tuples": [0, 0],
        "undrained_rows": 1,
        "undrained_letters": 0,
        "failure": None,
    }
    q.rows()
    assert (q.metrics()["undrained_rows"], q.metrics()["rows_out"]) == (0, 1)


def test_failed_expressions_are_counted(engine: Engine) -> None:
    q = engine.install("SELECT 10 / x AS y FROM R")
    engine.push("R", [{"id": 1, "x": 0}, {"id": 2, "x": 5}])
    assert [row["y"] is None for row in q.rows().to_pylist()] == [True, False]
    assert q.metrics()["expression_failures"] == 1


def test_a_dropped_query_can_be_drained_and_its_name_used_again(engine: Engine) -> None:
    q = engine.install(PAIRS, name="pairs")
    push_pair(engine)
    q.drop()
    assert engine.queries == {}
    again = engine.install(PAIRS, name="pairs")
    engine.push("S", [{"id": 8, "a": 12}])
    assert q.rows().to_pylist() == [{"r": 1, "s": 7}]
    assert again.rows().num_rows == 0
    assert refusal(lambda: engine.drop("gone")) == (
        "unknown query 'gone'\nQueries there are: pairs."
    )


def test_a_refused_statement_takes_no_position_and_changes_nothing(engine: Engine) -> None:
    q = engine.install(PAIRS, name="pairs")
    with pytest.raises(SqlError):
        engine.install("SELECT nothing FROM R")
    with pytest.raises(SqlError):
        q.change("SELECT r.z FROM R [ROWS 4] AS r JOIN S [ROWS 4] AS s ON TRUE")
    assert engine.position == 3
    assert (list(engine.queries), q.text) == (["pairs"], PAIRS)
    push_pair(engine)
    assert q.rows().num_rows == 1


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pairs", "PAIRS", "R", "s"])
def test_a_name_is_taken_once(engine: Engine, name: str) -> None:
    engine.install(PAIRS, name="pairs")
    remedy = "Choose another name, or leave it out: a stream that is there stays."
    if name.lower() == "pairs":
        remedy = "Choose another name, or drop that one first."
    message = f"there is a stream or query named {name!r} already\n{remedy}"
    assert refusal(lambda: engine.install("SELECT id FROM R", name=name)) == message
    assert refusal(lambda: engine.sql(f"CREATE STREAM {name} (x INT)")) == message
    assert refusal(lambda: engine.sql(f"CREATE STREAM {name} AS SELECT id FROM R")) == message
    assert refusal(lambda: engine.stream(name, pa.schema({"x": pa.int32()}))) == message
    assert engine.position == 3


def test_a_name_that_is_made_up_is_free(engine: Engine) -> None:
    engine.install("SELECT id FROM R", name="q1")
    engine.sql("CREATE STREAM q2 (x INT)")
    assert engine.install("SELECT x FROM R").name == "q3"


def test_unknown_streams_and_queries(engine: Engine) -> None:
    unknown = (
        "unknown stream 'nix'\nCreate it first: CREATE STREAM nix (...). Streams there are: R, S."
    )
    assert refusal(lambda: engine.push("nix", ROWS)) == unknown
    assert refusal(lambda: engine.punctuate("nix", 1)) == unknown
    assert refusal(lambda: engine.end("nix")) == unknown
    assert refusal(lambda: engine.sql("DESCRIBE nix")) == unknown
    assert refusal(lambda: engine.change("nix", PAIRS)) == (
        "unknown query 'nix'\nQueries there are: none."
    )
    assert refusal(lambda: ps.connect("local").push("nix", ROWS)) == (
        "unknown stream 'nix'\n"
        "Create it first: CREATE STREAM nix (...). Streams there are: none yet."
    )


def test_a_derived_stream_takes_no_events_and_stays_while_it_is_read(engine: Engine) -> None:
    engine.sql("CREATE STREAM both AS SELECT id FROM R UNION ALL SELECT id FROM S")
    over = engine.install("SELECT id FROM both", name="over")
    message = "stream both is derived; nothing can be pushed to it\nPush to what it reads: R, S."
    assert refusal(lambda: engine.push("both", [{"id": 1}])) == message
    assert refusal(lambda: engine.punctuate("both", 1)) == message
    assert refusal(lambda: engine.end("both")) == message
    assert refusal(lambda: engine.drop("both")) == (
        "stream both is read by over\nDrop the queries that read it first."
    )
    push_pair(engine)
    assert over.rows().to_pydict() == {"id": [1, 7]}
    over.drop()
    engine.drop("both")
    assert refusal(lambda: engine.push("both", [{"id": 1}])) == (
        "unknown stream 'both'\nCreate it first: CREATE STREAM both (...). Streams there are: R, S."
    )


def test_events_that_do_not_fit_their_stream_are_refused(engine: Engine) -> None:
    before = engine.position
    batch = pa.RecordBatch.from_pylist([{"y": 1}])
    assert refusal(lambda: engine.feed([Tuples("R", batch)])) == (
        "a batch has the columns (y int64), but stream R has (id int64, x int32)\n"
        "Use push(), which converts, or make the batch with the stream's schema."
    )
    assert refusal(lambda: engine.feed([Punctuation("R", "a")])) == (
        "the punctuation 'a' of stream R is no physical value\n"
        "Use punctuate(), which converts, or give a number."
    )
    assert refusal(lambda: engine.install("SELECT id FROM R", name=" ")) == (
        "a query or stream needs a name\nGive one, or none at all."
    )
    assert engine.position == before


@pytest.mark.long
def test_an_engine_is_connected_with_sense() -> None:
    assert refusal(lambda: ps.connect("steam")) == (
        "unknown engine 'steam'\nWrite ps.connect('local'), ps.connect('spark'), or pass a "
        "SparkSession."
    )
    assert refusal(lambda: ps.connect("local", batch_rows=0)) == (
        "batch_rows is 0\nIt must be 1 or more."
    )
    assert refusal(lambda: ps.connect("local", window_memory=-1)) == (
        "window_memory is -1\nIt must be 1 or more."
    )
    assert refusal(lambda: ps.connect("local", push_timeout=-1)) == (
        "push_timeout is -1\nIt must be 0 or more seconds."
    )
    with ps.connect() as engine:
        engine.stream("R", pa.schema({"x": pa.int32()}))
        assert refusal(lambda: engine.install("SELECT x FROM R", order="sideways")) == (
            "unknown order 'sideways'\nWrite none, outer or inner."
        )


def test_a_closed_engine_takes_nothing_and_can_be_drained() -> None:
    with ps.connect("local", compile_predicates=False) as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)")
        q = engine.install(PAIRS)
        push_pair(engine)
    message = "the engine is closed\nConnect a new one: ps.connect('local')."
    assert refusal(lambda: engine.push("R", ROWS)) == message
    assert refusal(lambda: engine.install(PAIRS)) == message
    assert refusal(q.drop) == message
    assert q.rows().to_pylist() == [{"r": 1, "s": 7}]


FAULTY = "SELECT a.zz\nFROM R [ROWS 2] a JOIN S [ROWS 2] b ON a.x = b.a"


@pytest.mark.parametrize(
    ("before", "query", "place", "shown"),
    [
        ("", FAULTY, "line 1, column 8", "SELECT a.zz"),
        ("CREATE STREAM H (x INT);\n\n", FAULTY, "line 3, column 8", "SELECT a.zz"),
        ("SHOW STREAMS; ", FAULTY, "line 1, column 22", "SHOW STREAMS; SELECT a.zz"),
        ("EXPLAIN\n", FAULTY, "line 2, column 8", "SELECT a.zz"),
        ("EXPLAIN ", FAULTY, "line 1, column 16", "EXPLAIN SELECT a.zz"),
        ("CREATE STREAM D AS ", FAULTY, "line 1, column 27", "CREATE STREAM D AS SELECT a.zz"),
        ("SHOW STREAMS;\nCREATE STREAM D AS\n", FAULTY, "line 3, column 8", "SELECT a.zz"),
    ],
)
@pytest.mark.parametrize("spark", [False, True])
def test_errors_of_a_statement_have_its_place_in_the_whole_text(
    spark: bool, before: str, query: str, place: str, shown: str
) -> None:
    with standing_in(Cluster()), ps.connect("spark" if spark else "local") as engine:
        engine.sql("CREATE STREAM R (id BIGINT, x INT); CREATE STREAM S (id BIGINT, a INT)")
        with pytest.raises(SqlError) as error:
            engine.sql(before + query)
        assert str(error.value) == (
            f"unknown column 'zz' of a at {place}\n  {shown}\n  {' ' * shown.index('a.zz')}^^^^\n"
            "The columns are a.id, a.x."
        )
