"""Continuous SQL over DataFrames, on Spark: the oracle's rows, each once, after any failure."""

from __future__ import annotations

import datetime
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.engines.spark.dataframes.files import Folder, cut, rows, run
from tests.engines.spark.dataframes.in_process import NAMES

import penstock.spark as pss
from penstock.engines.spark.dataframes.script import parse_script
from penstock.engines.spark.session import Session
from penstock.errors import EnvironmentProblem, InputError
from penstock.oracle.oracle import Oracle
from penstock.streams.schema import Stream

COUNT = (
    "SELECT r.id, s.id FROM r [ROWS 20] JOIN s [ROWS 30] ON r.x BETWEEN s.x - 1 AND s.x + 1 "
    "AND r.x <> 3"
)
OUTER = "SELECT r.id, s.id FROM r [RANGE 5 SECONDS] FULL JOIN s [RANGE 9 SECONDS] ON r.x = s.x"


@pytest.fixture(scope="module")
def spark(session: Session) -> SparkSession:
    """The user's session: with Spark's own number of partitions and state store."""
    return session.spark.newSession()


def table(seed: int, size: int = 200, jitter: int = 0) -> pa.Table:
    """Tuples by time, with ties, and out of order by at most a number of milliseconds."""
    chance = np.random.default_rng(seed)
    ts = np.cumsum(chance.integers(0, 3, size)) * 500
    order = np.argsort(ts + chance.integers(0, jitter + 1, size), kind="stable")
    columns = {
        "ts": pa.array(ts * 1000, pa.timestamp("us", "UTC")),
        "id": pa.array(np.arange(size)),
        "x": pa.array(chance.integers(0, 12, size), pa.int32()),
    }
    return pa.table(columns).take(order)


def expected(sql: str, *tables: pa.Table, delay: int | None, end: bool = False) -> list[Any]:
    """The oracle's rows. ``delay``: tuples up to the frontier alone, None for all of them."""
    oracle = Oracle(order_column="ts")
    found = []
    for number, given in enumerate(tables):
        oracle.create_stream(Stream.of(NAMES[number], given.schema, time="ts"))
        found += [(row["ts"], number, row["id"], row) for row in given.to_pylist()]
    frontier = min(max(row[0] for row in found if row[1] == n) for n in range(len(tables)))
    script = parse_script(sql)
    for statement in script.derived:
        oracle.derive(statement.name, statement.query.text)
    oracle.install("q", script.query.text)
    for ts, number, _, row in sorted(found, key=lambda one: one[:3]):
        if delay is None or ts < frontier - datetime.timedelta(milliseconds=delay):
            batch = pa.RecordBatch.from_pylist([row], schema=tables[0].schema)
            oracle.tuples(NAMES[number], batch)
    if end:
        oracle.end(None)
    return [row for _, row in oracle.rows["q"]]


@pytest.mark.parametrize("files", [3])
def test_a_count_window_gives_each_row_once_across_restarts(
    spark: SparkSession, tmp_path: Path, files: int
) -> None:
    tables = [table(seed) for seed in (1, 2)]
    pieces = [cut(tables[0], 50, 7), cut(tables[1], 90, 60)]
    folders = [Folder(tmp_path / name).add(*p[:2]) for name, p in zip("rs", pieces, strict=True)]

    def pairs() -> Any:
        left, right = (folder.stream(spark, files) for folder in folders)
        return pss.sql(COUNT, r=left, s=right, order_by="ts", cores=2)

    run(pairs(), tmp_path)
    for folder, piece in zip(folders, pieces, strict=True):
        folder.add(piece[2])
    query = run(pairs(), tmp_path)
    assert rows(spark, tmp_path) == sorted(expected(COUNT, *tables, delay=0), key=str)
    counts = query.lastProgress["observedMetrics"]["penstock"].asDict()
    taken = expected("SELECT id FROM r UNION ALL SELECT id FROM s", *tables, delay=0)
    held = sum(t.num_rows for t in tables) - len(taken)
    assert (counts["late"], counts["dead"], counts["held"]) == (0, 0, held)


def test_a_watermark_is_the_slack_of_a_time_window(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(seed, jitter=2000) for seed in (3, 4)]
    pieces = [cut(t, 30, 110) for t in tables]
    folders = [Folder(tmp_path / name).add(*p[:2]) for name, p in zip("rs", pieces, strict=True)]

    def joined() -> Any:
        left, right = (f.stream(spark).withWatermark("ts", "2 seconds") for f in folders)
        return pss.sql(OUTER, r=left, s=right, cores=2)

    run(joined(), tmp_path)
    for folder, piece in zip(folders, pieces, strict=True):
        folder.add(piece[2])
    run(joined(), tmp_path)
    slack = OUTER.replace("SECONDS]", "SECONDS SLACK 2 SECONDS]")
    assert rows(spark, tmp_path) == sorted(expected(slack, *tables, delay=None), key=str)


def test_a_derived_stream_gives_each_row_once_across_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [table(seed, jitter=2000) for seed in (3, 4)]
    pieces = [cut(t, 30, 110) for t in tables]
    folders = [Folder(tmp_path / name).add(*p[:2]) for name, p in zip("rs", pieces, strict=True)]
    derive = (
        "CREATE STREAM d AS SELECT r.ts AS ts, r.x AS x FROM r [RANGE 5 SECONDS] JOIN "
        "s [RANGE 9 SECONDS] ON r.x < s.x; "
    )
    count = "SELECT x, COUNT(*) AS n FROM d [RANGE 4 SECONDS SLIDE 3 SECONDS WATTR ts] GROUP BY x"

    def counted(**options: Any) -> Any:
        left, right = (f.stream(spark).withWatermark("ts", "2 seconds") for f in folders)
        return pss.sql(derive + count, r=left, s=right, cores=2, **options)

    run(counted(), tmp_path)
    for folder, piece in zip(folders, pieces, strict=True):
        folder.add(piece[2])
    query = run(counted(), tmp_path)
    slack = derive.replace("SECONDS]", "SECONDS SLACK 2 SECONDS]")
    wanted = expected(slack + count, *tables, delay=None)
    assert len(wanted) > 100
    assert rows(spark, tmp_path) == sorted(wanted, key=str)
    assert query.lastProgress["observedMetrics"]["penstock"]["late_d"] == 0
    tables_ = {name: f.table(spark) for name, f in zip("rs", folders, strict=True)}
    static = pss.sql(derive + count, tables_, order_by="ts")
    every = expected(slack + count, *tables, delay=None, end=True)
    assert sorted(map(tuple, static.collect()), key=str) == sorted(every, key=str)


def test_a_result_that_is_read_again_carries_its_punctuations(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [table(seed, jitter=2000) for seed in (3, 4)]
    folders = [
        Folder(tmp_path / name).add(*cut(t, 60)) for name, t in zip("rs", tables, strict=True)
    ]
    kept = "SELECT ts, id, x FROM r WHERE x <> 5"
    pair = "SELECT r.ts, s.id, r.id FROM r [RANGE 5 SECONDS] JOIN s [RANGE 9 SECONDS] ON r.x = s.x"
    count = (
        "SELECT COUNT(*) AS n, MIN(s_id) AS least FROM r "
        "[RANGE 4 SECONDS SLIDE 3 SECONDS WATTR ts{}]"
    )

    def pairs(left: Any, right: Any) -> Any:
        return pss.sql(pair, r=pss.sql(kept, r=left), s=right, order_by="ts", cores=2)

    streams = [f.stream(spark).withWatermark("ts", "2 seconds") for f in folders]
    made = pairs(*streams)
    query = run(pss.sql(count.format(""), r=made, cores=2), tmp_path)
    assert list(query.lastProgress["observedMetrics"]) == ["penstock"]
    script = (
        f"CREATE STREAM k AS {kept}; CREATE STREAM p AS SELECT r.ts, s.id AS s_id "
        "FROM k [RANGE 5 SECONDS WATTR ts SLACK 2 SECONDS] AS r "
        "JOIN s [RANGE 9 SECONDS SLACK 2 SECONDS] ON r.x = s.x; "
    ) + count.format("").replace("FROM r", "FROM p")
    wanted = sorted(expected(script, *tables, delay=None), key=str)
    assert len(wanted) > 10
    assert rows(spark, tmp_path) == wanted
    # What Spark has had a hand in is another DataFrame, with SLACK of its own and its own counts.
    other = pss.sql(count.format(" SLACK 20 SECONDS"), r=made.where("s_id >= 0"), cores=1)
    query = run(other, tmp_path / "other")
    assert sorted(query.lastProgress["observedMetrics"]) == ["penstock", "penstock_2"]
    assert {*rows(spark, tmp_path / "other")} < {*wanted}
    with pytest.raises(InputError) as error:
        pss.sql(
            "SELECT s_id FROM r EMIT ORDER outer",
            r=made.where("s_id > 0"),
            order_by="ts",
            name="penstock",
        )
    assert str(error.value) == (
        "name='penstock' is the name of the counts of a query that is read here\n"
        "Pass another one, or none: the names are made different then."
    )
    static = pss.sql(count.format(""), r=pairs(*(f.table(spark) for f in folders)), cores=1)
    every = expected(script, *tables, delay=None, end=True)
    assert sorted(map(tuple, static.collect()), key=str) == sorted(every, key=str)


def test_static_dataframes_give_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(seed) for seed in (5, 6)]
    left, right = (
        Folder(tmp_path / name).add(t).table(spark) for name, t in zip("rs", tables, strict=True)
    )
    pairs = pss.sql(COUNT + " EMIT ORDER inner", r=left, s=right, order_by="ts", cores=2)
    assert list(map(tuple, pairs.collect())) == expected(COUNT, *tables, delay=None, end=True)
    every = pss.sql(
        "SELECT r.id, s.x FROM r LEFT JOIN s ON r.x = s.x AND s.id < 20", r=left, s=right
    )
    spark_join = (
        left.alias("r")
        .join(right.alias("s"), F.expr("r.x = s.x AND s.id < 20"), "left")
        .selectExpr("r.id", "s.x")
    )
    assert sorted(every.collect(), key=str) == sorted(spark_join.collect(), key=str)


def test_ordered_output_comes_in_order_out_of_several_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [table(seed) for seed in (7, 8)]
    folders = [
        Folder(tmp_path / name).add(*cut(t, 120)) for name, t in zip("rs", tables, strict=True)
    ]
    left, right = (folder.stream(spark) for folder in folders)
    pairs = pss.sql(COUNT + " EMIT ORDER inner", r=left, s=right, order_by="ts", cores=2)
    found: list[Any] = []

    def keep(batch: Any, number: int) -> None:
        found.extend(map(tuple, batch.collect()))

    pairs.writeStream.foreachBatch(keep).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).trigger(availableNow=True).start().awaitTermination()
    assert found == expected(COUNT, *tables, delay=0)


def test_late_tuples_and_dead_letters_are_rows_of_the_same_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(*seconds: int | None) -> pa.Table:
        moments = [None if s is None else s * 1_000_000 for s in seconds]
        size = len(seconds)
        columns = [pa.array(moments, pa.timestamp("us", "UTC")), pa.array(range(size))]
        return pa.table([*columns, pa.array([1] * size, pa.int32())], ["ts", "id", "x"])

    left = Folder(tmp_path / "r").add(at(10, None), at(5, 11)).stream(spark)
    right = Folder(tmp_path / "s").add(at(10), at(11)).stream(spark)
    left, right = (df.withWatermark("ts", "1 second") for df in (left, right))
    both = pss.sql(OUTER.replace("FULL", "INNER"), r=left, s=right, cores=2, letters=True)
    found: dict[str, list[Any]] = {"rows": [], "late": [], "dead": []}

    def keep(batch: Any, number: int) -> None:
        with pss.split(batch) as parts:
            for name, kept in found.items():
                kept.extend(map(tuple, getattr(parts, name).collect()))

    query = both.writeStream.foreachBatch(keep).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(found["rows"]) == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert found["late"] == [
        (
            "r",
            "TIMESTAMP '1970-01-01 00:00:05+00:00', 0, 1",
            "ts = TIMESTAMP '1970-01-01 00:00:05+00:00' is before the punctuation "
            "TIMESTAMP '1970-01-01 00:00:09+00:00'",
        )
    ]
    assert found["dead"] == [("r", "NULL, 1, 1", "NULL in time attribute ts")]
    # Spark runs a trigger without rows after one that moved its watermark.
    busy = [progress for progress in query.recentProgress if progress["numInputRows"]]
    counts = [progress["observedMetrics"]["penstock"].asDict() for progress in busy]
    assert [(c["tuples_in"], c["rows_out"], c["late"], c["dead"]) for c in counts] == [
        (3, 1, 0, 1),
        (3, 3, 1, 0),
    ]


def test_the_driver_is_warned_of_tuples_that_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(*moments: int | None) -> pa.Table:
        return pa.table({"ts": pa.array(moments, pa.int64()), "id": range(len(moments))})

    folder = Folder(tmp_path / "r").add(at(10, None), at(5, 6, 11), at(1, 12, None))
    sql = "SELECT COUNT(*) AS n FROM r [RANGE 2 SLIDE 2 WATTR ts SLACK 1]"
    with pytest.warns(UserWarning) as told:
        listeners = spark.sparkContext._jsc.sc().listenerBus()
        run(pss.sql(sql, r=folder.stream(spark), cores=1, name="counts"), tmp_path)
        listeners.waitUntilEmpty(60_000)
        pss.sql(sql, r=folder.table(spark), cores=1).collect()
        listeners.waitUntilEmpty(60_000)
    texts = [re.sub(r"query [-0-9a-f]{36}", "query Q", str(one.message)) for one in told]
    assert texts == [
        "1 tuple of stream r is a dead letter of query Q, whose rows lack what it would have "
        "added. Get them as rows, each with its reason: pss.sql(..., letters=True). The progress "
        "of the query counts them: observedMetrics['counts']['dead_r'].",
        "2 tuples of stream r came too late for query Q, whose rows lack what they would have "
        "added. Allow for more disorder (SLACK, or withWatermark), or get them as rows: "
        "pss.sql(..., letters=True). The progress of the query counts them: "
        "observedMetrics['counts']['late_r'].",
        "2 tuples of stream r are dead letters of query Q in all, which has ended.",
        "3 tuples of stream r came too late for query Q in all, which has ended.",
        "2 tuples of stream r are dead letters of the static result, whose rows lack what they "
        "would have added. Get them as rows, each with its reason: pss.sql(..., letters=True).",
    ]
    assert {one.filename for one in told} == {__file__}


class FailOnce:
    """Fails in the middle of a batch, once: the file says that it has."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __call__(self, batches: Any) -> Any:
        import os

        for batch in batches:
            yield batch
            if not os.path.exists(self._marker):
                with open(self._marker, "w"):
                    raise RuntimeError("failed once")


class FailWhile:
    """Fails in the middle of a batch for as long as a file is there."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __call__(self, batches: Any) -> Any:
        import os

        for batch in batches:
            yield batch
            if os.path.exists(self._marker):
                raise RuntimeError("failed in the middle")


def test_a_batch_that_failed_in_the_middle_is_done_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [table(seed) for seed in (9, 10)]
    folders = [
        Folder(tmp_path / name).add(*cut(t, 80)) for name, t in zip("rs", tables, strict=True)
    ]

    def pairs() -> Any:
        left, right = (folder.stream(spark) for folder in folders)
        made = pss.sql(COUNT, r=left, s=right, order_by="ts", cores=2)
        return made.mapInArrow(FailWhile(tmp_path / "failed"), made.schema)

    (tmp_path / "failed").touch()
    with pytest.raises(StreamingQueryException, match="failed in the middle"):
        run(pairs(), tmp_path)
    (tmp_path / "failed").unlink()
    run(pairs(), tmp_path)
    assert rows(spark, tmp_path) == sorted(expected(COUNT, *tables, delay=0), key=str)


def test_a_checkpoint_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folders = [Folder(tmp_path / name).add(table(1)) for name in "rs"]

    def start(sql: str, cores: int) -> None:
        left, right = (folder.stream(spark) for folder in folders)
        run(pss.sql(sql, r=left, s=right, order_by="ts", cores=cores), tmp_path)

    start(COUNT, 2)
    for folder in folders:
        folder.add(table(2))
    with pytest.raises(StreamingQueryException) as error:  # the other reasons: test_worker.py
        start(COUNT, 3)
    assert (
        "the checkpoint was written with cores=2, and its windows are divided among so many; "
        "cores=3 cannot read them\nPass cores=2, or start with an empty checkpointLocation."
    ) in str(error.value)


def test_every_type_passes_and_the_session_stays_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = spark.conf.getAll
    values = {
        "k": pa.array([1, 2], pa.int8()),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "day": pa.array([datetime.date(2024, 2, 29), None]),
        "b": pa.array([b"\x00", None]),
        "f": pa.array([0.5, float("inf")], pa.float32()),
        "t": pa.array([True, None]),
        "tags": pa.array([["a", None], None]),
        "at": pa.array([{"x": 1, "y": None}, None]),
        "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    left = Folder(tmp_path / "r").add(pa.table(values)).table(spark)
    names = ", ".join(f"a.{name}" for name in values)
    sql = f"SELECT {names}, b.k + 1 AS next FROM r AS a JOIN r AS b ON a.k = b.k"
    out = pss.sql(sql, r=left, cores=2)
    assert [f.dataType for f in out.schema][:-1] == [f.dataType for f in left.schema]
    wanted = left.withColumn("next", F.expr("k + 1"))
    assert sorted(out.collect(), key=str) == sorted(wanted.collect(), key=str)
    assert spark.conf.getAll == before
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"


def test_a_selection_needs_no_order_and_no_state(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "r").add(*cut(table(1), 50))
    out = pss.sql("SELECT id * 2 AS twice FROM r WHERE x > 5", r=folder.stream(spark))
    query = run(out, tmp_path)
    wanted = folder.table(spark).where("x > 5").selectExpr("id * 2 AS twice")
    assert rows(spark, tmp_path) == sorted(map(tuple, wanted.collect()), key=str)
    assert query.lastProgress["stateOperators"] == []


def test_the_tags_of_letters_are_asked_for_and_free(spark: SparkSession) -> None:
    with pytest.raises(InputError) as error:
        pss.split(spark.range(1))
    assert str(error.value) == (
        "the batch has no column _kind, which tells rows from letters\n"
        "Make it with pss.sql(..., letters=True), and keep its columns."
    )
    with pytest.raises(InputError) as error:
        pss.sql("SELECT id AS _kind FROM r", r=spark.range(1), letters=True)
    assert str(error.value) == (
        "with letters=True the result has a column _kind of its own\n"
        "Give yours another name in the select list: SELECT _kind AS name."
    )


WHERES = (
    "x < 3 AND y > 0",
    "x >= 3 AND f <= 1.5",
    "3 > x AND y = 0",
    "y < 2 OR x = 3",
    "f = f",
    "TRUE",
)
LISTS = (
    "x, y, f",
    "x + 1 AS a, x - 1 AS b, x * 2 AS c, l * 3 AS d",
    "y / 3 AS a, y / y AS b, f + f AS c, f * f AS d, y - y AS e",
    "x / 2 AS a, x < 3 AS b, l + x AS c, ABS(x) AS d",
    "x + 2000000000 + 2000000000 AS a, x * 2000000000 * 0 AS b, x * 2 + 1 AS c, 1 + (2 - x) AS d",
)


def test_what_spark_computes_itself_is_what_the_oracle_does(spark: SparkSession) -> None:
    most = 2**31 - 1
    values = [None, float("nan"), -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 3.4e38]
    schema = pa.schema(
        [("x", pa.int32()), ("l", pa.int64()), ("y", pa.float64()), ("f", pa.float32())]
    )
    given = [
        {"x": x, "l": None if x is None else x * 2**32, "y": y, "f": f}
        for x in (None, -most - 1, 0, 3, most)
        for y, f in zip(values, reversed(values), strict=True)
    ]
    tuples = pa.RecordBatch.from_pylist(given, schema=schema)
    rows_ = [tuple(row.values()) for row in tuples.to_pylist()]
    frame = spark.createDataFrame(rows_, "x int, l long, y double, f float")
    for where in WHERES:
        for columns in LISTS:
            text = f"SELECT {columns} FROM r WHERE {where}"
            oracle = Oracle()
            oracle.create_stream(Stream.of("r", schema))
            oracle.install("q", text)
            oracle.tuples("r", tuples)
            found = sorted(str(tuple(row)) for row in pss.sql(text, r=frame).collect())
            assert found == sorted(str(row) for _, row in oracle.rows["q"]), text


def test_workers_without_penstock_are_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(EnvironmentProblem) as error:
        pss.sql("SELECT id FROM r", r=spark.range(3))
    assert str(error.value) == (
        f"the session's Python workers would run {bare}, which has no Penstock\n"
        f"Set PYSPARK_PYTHON={sys.executable} before the session is started, or let pss.session() "
        "start it."
    )


def test_rows_leave_the_jvm_only_if_they_must(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "CAST(id AS INT) AS x")

    def python(text: str) -> bool:
        plan = pss.sql(text, r=frame)._jdf.queryExecution().executedPlan().toString()
        return "MapInArrow" in plan

    assert not python("SELECT x * 2 + 1 AS y, id FROM r WHERE x < 2 AND id >= 0")
    assert python("SELECT ABS(x) AS y FROM r WHERE x < 2")
    assert python("SELECT id FROM r UNION ALL SELECT id FROM r")
    tagged = pss.sql("SELECT id FROM r WHERE x = 1", r=frame, letters=True)
    assert list(map(tuple, tagged.collect())) == [(1, "row", None, None, None)]


def test_explain_says_how_the_cores_share_a_query(spark: SparkSession, tmp_path: Path) -> None:
    frame = Folder(tmp_path / "r").add(table(1, 10)).stream(spark)
    sql = (
        "SELECT r.id, s.id FROM r [RANGE 4 SECONDS SLACK 1 SECOND] "
        "JOIN s [RANGE 3 SECONDS SLACK 1 SECOND] "
    )
    found = [
        pss.explain(sql + f"ON r.x {op} s.x", r=frame, s=frame, order_by="ts", cores=2)
        for op in ("=", "<")
    ]
    assert [text.splitlines()[-1] for text in found] == [
        "distribution: partition by r.x = s.x among 2 cores",
        "distribution: broadcast to 2 cores, each tuple stored on one (SplitJoin); "
        "no partition by key: no equality between the streams",
    ]
    script = f"CREATE STREAM d AS {sql}ON r.x = s.x; SELECT r_id FROM d WHERE s_id > 1"
    steps = pss.explain(script, r=frame, s=frame, order_by="ts", cores=2)
    assert steps.startswith("stream d\nplan\n  project r.id AS ")
    assert "\n\nplan\n  project r_id" in steps
    assert steps.splitlines()[-1] == (
        "distribution: one core; the rows of the derived stream d and their punctuations come in "
        "one order there"
    )
    assert found[0].startswith("plan\n  project r.id AS r_id, s.id AS s_id\n")
