"""Derived streams in ``pss.sql``, without Spark: the oracle's rows, however the input is cut."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import types
from tests.campaigns import dataframes
from tests.engines.spark.dataframes.in_process import COLUMNS, Cluster, job_of, source

from penstock.engines.spark.dataframes.columns import DataFrameStream
from penstock.engines.spark.dataframes.partition import on_one_core
from penstock.engines.spark.dataframes.script import parse_script
from penstock.errors import PenstockError, StateError

PAIRS = (
    "CREATE STREAM bp AS SELECT b.id, b.ts AS ts FROM b [RANGE 1000 WATTR ts SLACK 0] "
    "JOIN p [RANGE 1000 WATTR ts SLACK 0] ON b.id = p.id; "
)
COUNTS = "SELECT window_end, COUNT(*) AS n FROM bp [RANGE 10 SLIDE 10 WATTR ts]"
MOMENT = {**COLUMNS, "ts": types.TimestampType()}


def test_scripts_with_derived_streams_give_the_oracles_rows() -> None:
    assert dataframes.run(random.randrange(2**32), 30) == 0


def test_no_row_of_a_join_is_late_because_of_another() -> None:
    job = job_of(PAIRS + COUNTS, source("b"), source("p"))
    cluster = Cluster(job, 4)
    assert cluster.cores == 1
    cluster.trigger([(0, [(10, 1, 0, ""), (20, 2, 0, "")]), (1, [(30, 2, 0, "")])])
    cluster.forget()
    cluster.trigger([(1, [(40, 1, 0, "")])])
    assert cluster.letters("late") == cluster.letters("dead") == cluster.rows() == []
    cluster.trigger([(0, [(2000, 3, 0, "")]), (1, [(2000, 3, 0, "")])])
    assert cluster.rows() == [(20, 1), (30, 1)]


def test_letters_are_of_the_stream_they_are_of() -> None:
    text = PAIRS + COUNTS.replace("ts]", "ts SLACK 0]")
    cluster = Cluster(job_of(text, source("b"), source("p"), letters=True), 1)
    cluster.trigger([(0, [(10, 1, 0, ""), (20, 2, 0, "")]), (1, [(30, 2, 0, "")])])
    made = cluster.trigger([(0, [(None, 4, 0, ""), (5, 5, 0, "")]), (1, [(40, 1, 0, "")])])
    letters = {(one.kind, one.stream): one.count for one in made if one.kind in ("late", "dead")}
    assert letters == {("late", "b"): 1, ("dead", "b"): 1, ("late", "bp"): 1}
    assert cluster.letters("late")[-1] == (
        "bp",
        "1, 10",
        "ts = 10 is before the punctuation 20: it missed the window [10, 20)",
    )


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_a_watermark_reaches_the_windows_over_a_selection() -> None:
    text = (
        "CREATE STREAM small AS SELECT ts, x FROM r WHERE x < 3; "
        "CREATE STREAM both AS SELECT ts, x FROM small UNION ALL SELECT ts, x FROM s; "
        "SELECT COUNT(*) AS n FROM both [RANGE 2 SECONDS SLIDE 2 SECONDS WATTR ts]"
    )
    sources = [source(name, MOMENT, watermark=("ts", 1000)) for name in "rs"]
    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", "UTC")),
            ("id", pa.int64()),
            ("x", pa.int32()),
            ("note", pa.string()),
        ]
    )
    cluster = Cluster(job_of(text, *sources), 2, schema=schema)

    def take(*streams: list[tuple[int | None, int]]) -> list[tuple[int]]:
        before = len(cluster.rows())
        rows = [[(None if t is None else at(t), 0, x, "") for t, x in one] for one in streams]
        cluster.trigger(list(enumerate(rows)))
        return cluster.rows()[before:]

    assert take([(1, 0), (4, 9), (None, 0)], [(0, 1)]) == []  # s has come to second -1
    assert take([], [(6, 0)]) == [(2,)]  # [0, 2), since both have passed second 2
    cluster.forget()
    assert take([(9, 0)], []) == []  # s is at second 5 still
    assert take([(2, 0)], [(9, 1)]) == [(1,)]  # [6, 8) has one; [2, 4) is closed, so 2 is late
    assert [letter[:2] for letter in cluster.letters("late")] == [
        ("both", "TIMESTAMP '1970-01-01 00:00:02+00:00', 0")
    ]
    assert cluster.trigger([]) and cluster.rows() == [(2,), (1,)]


def test_the_state_of_another_script_is_refused() -> None:
    def cluster(text: str) -> Cluster:
        return Cluster(job_of(text, source("b"), source("p")), 1)

    changed = PAIRS.replace("b.id =", "b.x =")
    one, other = cluster(PAIRS + COUNTS), cluster(changed + COUNTS)
    one.trigger([(0, [(1, 1, 1, "")])])
    other.stores = one.stores
    with pytest.raises(StateError) as error:
        other.trigger([(0, [(2, 1, 1, "")])])
    assert str(error.value) == (
        f"the checkpoint is of another query\n  then: {PAIRS}{COUNTS}\n  now:  {changed}{COUNTS}\n"
        "  differs: 'id' was, 'x' is\n"
        "Give the query a checkpointLocation of its own, or run the one that it is of."
    )


@pytest.mark.parametrize(
    ("text", "sources", "message"),
    [
        (
            "CREATE STREAM d AS SELECT id FROM r",
            [source("r")],
            "no query after it at line 1, column 1\n"
            "  CREATE STREAM d AS SELECT id FROM r\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "Add what reads it: SELECT ... FROM d.",
        ),
        (
            "SELECT id FROM r; SELECT x FROM r",
            [source("r")],
            "a query before the last statement at line 1, column 1\n"
            "  SELECT id FROM r; SELECT x FROM r\n"
            "  ^^^^^^^^^^^^^^^^\n"
            "Name it: CREATE STREAM t AS SELECT .... Write CREATE STREAM ... AS SELECT ...; for "
            "each derived stream, and one SELECT at the end.",
        ),
        (
            "CREATE STREAM r (id int); SELECT id FROM r",
            [source("r")],
            "a DataFrame declares its columns itself at line 1, column 1\n"
            "  CREATE STREAM r (id int); SELECT id FROM r\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "Leave the statement out, and pass the DataFrame: pss.sql(..., r=df).",
        ),
        (
            "CREATE STREAM r (ts int) TIMESTAMP BY ts; SELECT ts FROM r",
            [source("r")],
            "a DataFrame declares its columns itself at line 1, column 1\n"
            "  CREATE STREAM r (ts int) TIMESTAMP BY ts; SELECT ts FROM r\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "Leave the statement out, and pass the DataFrame: pss.sql(..., r=df). Name the time in "
            "the window clause: WATTR ts.",
        ),
        (
            "EXPLAIN SELECT id FROM r",
            [source("r")],
            "neither a query nor a derived stream at line 1, column 1\n"
            "  EXPLAIN SELECT id FROM r\n"
            "  ^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "Write CREATE STREAM ... AS SELECT ...; for each derived stream, and one SELECT at the "
            "end. pss.explain explains them.",
        ),
        (" ", [source("r")], "no query at line 1, column 1\n   \n  ^\nWrite SELECT ... FROM ...."),
        (
            "CREATE STREAM d AS SELECT id FROM e; CREATE STREAM e AS SELECT id FROM r; "
            "SELECT id FROM d",
            [source("r")],
            "e is read before it is derived\n"
            "Write CREATE STREAM e AS ... before the statement that reads it.",
        ),
        (
            "CREATE STREAM d AS SELECT id FROM r; SELECT id FROM r",
            [source("r")],
            "nothing reads the derived stream d\nLeave its statement out, or name it in FROM.",
        ),
        (
            "CREATE STREAM d AS SELECT id FROM r; SELECT id FROM d",
            [source("r"), source("D")],
            "D is a DataFrame and a derived stream\n"
            "Give one of them another name; names are compared without regard to case.",
        ),
        (
            "CREATE STREAM d AS SELECT ts, id FROM r; "
            "SELECT COUNT(*) AS n FROM d [RANGE 2 SLIDE 2 WATTR ts]",
            [source("r")],
            "the time window of stream d would never close: nothing says how far ts has come\n"
            "Write SLACK in the window clause, for instance SLACK 0 if no row is out of order, or "
            "derive the stream from a time window and select the time of that.",
        ),
        (
            "CREATE STREAM d AS SELECT tags FROM r; SELECT tags FROM d",
            [source("r", {**COLUMNS, "tags": types.ArrayType(types.StringType())})],
            "column 'tags' of stream d has the type list<element: string>, which Penstock does not "
            "have\n"
            "Leave the column out, or cast it to a type Penstock has. Write one of: boolean, int8, "
            "int16, int32, int64, uint8, uint16, uint32, uint64, float, double, decimal(p, s), "
            "date, timestamp, timestamp(0|3|6|9), timestamp(6, 'zone'), string, binary.",
        ),
    ],
)
def test_a_script_that_cannot_run_is_refused(
    text: str, sources: list[DataFrameStream], message: str
) -> None:
    with pytest.raises(PenstockError) as error:
        job_of(text, *sources)
    assert str(error.value) == message


def test_advice_to_write_slack_works() -> None:
    text = "CREATE STREAM d AS SELECT ts, id FROM r; "
    text += "SELECT COUNT(*) AS n FROM d [RANGE 2 SLIDE 2 WATTR ts SLACK 0]"
    cluster = Cluster(job_of(text, source("r")), 1)
    cluster.trigger([(0, [(5, 1, 0, ""), (1, 1, 0, ""), (0, 1, 0, "")])])
    assert cluster.rows() == [(2,)]


def test_columns_that_no_statement_reads_stay_in_spark() -> None:
    job = job_of(PAIRS + COUNTS, source("b"), source("p"))
    assert [lane.stream.schema.names for lane in job.lanes] == [["ts", "id"], ["ts", "id"]]
    assert [lane.delay for lane in job.lanes] == [0, 0]
    assert job.streams == ["b", "p", "bp"]


def test_the_reads_of_a_script_are_those_that_nothing_derives() -> None:
    script = parse_script("CREATE STREAM d AS SELECT x FROM R; SELECT 1 AS x FROM s JOIN D ON TRUE")
    assert script.reads == ["R", "s"]


def test_it_is_said_why_one_core_has_all_of_it() -> None:
    assert str(on_one_core(["d"])) == (
        "distribution: one core; the rows of the derived stream d and their punctuations come in "
        "one order there"
    )
    assert "the derived streams d, e and" in str(on_one_core(["d", "e"]))
