"""What is wrong with a query over DataFrames is said before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types
from tests.engines.spark.dataframes.in_process import COLUMNS, job_of, source

from penstock.engines.spark.dataframes.columns import DataFrameStream
from penstock.engines.spark.dataframes.partition import Distribution, check_update
from penstock.errors import InputError, PenstockError

COUNT = "SELECT r.id, s.id FROM r [ROWS 2] JOIN s [ROWS 2] ON r.x = s.x"
TIME = "SELECT r.id, s.id FROM r [RANGE 1 MINUTE] JOIN s [RANGE 1 MINUTE] ON r.x = s.x"
MOMENT = {**COLUMNS, "ts": types.TimestampType()}
NESTED = {**COLUMNS, "tags": types.ArrayType(types.StringType())}
STRANGE = {**COLUMNS, "age": types.YearMonthIntervalType()}
R, S = source("r"), source("s")


@pytest.mark.parametrize(
    ("sql", "sources", "options", "message"),
    [
        (
            COUNT,
            [R],
            {},
            "the query reads s, for which there is no DataFrame\nPass it: pss.sql(..., s=df).",
        ),
        (
            "SELECT id FROM r",
            [R, S],
            {},
            "the query does not read s\nLeave that DataFrame out, or name it in FROM.",
        ),
        (
            COUNT,
            [source("r", bounded=True), S],
            {"order_by": "ts"},
            "r is a static DataFrame and s a streaming one: a window over a table that does not "
            "move has no meaning\n"
            "Read r with spark.readStream, or read both with spark.read, or join the table with "
            "the result in Spark.",
        ),
        (
            COUNT,
            [R, S],
            {},
            "a join with a window that counts arrivals needs an arrival order, and the rows of a "
            "DataFrame have none\n"
            "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
            "trigger by trigger, in the order of their content, with merge='arrival'.",
        ),
        (
            "SELECT id FROM r EMIT ORDER outer",
            [R],
            {},
            "ordered output needs an arrival order, and the rows of a DataFrame have none\n"
            "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
            "trigger by trigger, in the order of their content, with merge='arrival'.",
        ),
        (
            COUNT,
            [R, S],
            {"order_by": "at"},
            "stream r has no column 'at' to order by\n"
            "It has ts, id, x, note; give a column for each stream with "
            "order_by={'stream': 'column', ...}.",
        ),
        (
            COUNT,
            [R, S],
            {"order_by": "note"},
            "order column 'note' of stream r is string, which has no order in time\n"
            "Order by an integer, a float, a date or a timestamp.",
        ),
        (
            COUNT,
            [source("r", MOMENT), S],
            {"order_by": "ts"},
            "order column 'ts' is timestamp(6, 'UTC') in stream r and int64 in stream s\n"
            "Declare both with CREATE STREAM as types that can be compared.",
        ),
        (
            COUNT,
            [R, S],
            {"order_by": {"r": "ts"}},
            "order_by has no column for stream s\nWrite order_by={'r': ..., 's': ...}.",
        ),
        (
            COUNT,
            [R, S],
            {"order_by": {"r": "ts", "s": "ts", "t": "ts"}},
            "order_by has t, which the query does not read\nWrite order_by={'r': ..., 's': ...}.",
        ),
        (
            COUNT,
            [R, S],
            {"order_by": "ts", "merge": "arrival", "idle_timeout": 1000},
            "idle_timeout has no effect: no stream of this query waits for another\nLeave it out.",
        ),
        (
            TIME,
            [source("r", MOMENT, watermark=("ts", 1000)), source("s", MOMENT)],
            {"order_by": "ts"},
            "the time window of stream s has no watermark on ts\n"
            "Say how late a tuple may be: df.withWatermark('ts', '10 seconds') before pss.sql, or "
            "SLACK in the window clause (SLACK 0 if none is).",
        ),
        (
            "SELECT id FROM r WHERE tags = note",
            [source("r", NESTED)],
            {},
            "column 'tags' of stream r has the type array<string>, which Penstock does not "
            "compute with\n"
            "Select it as it is, or take what you need out of it in Spark first: "
            "df.withColumn(...).",
        ),
        (
            "SELECT r.id, UPPER(r.Tags) AS t FROM r [ROWS 1] JOIN s [ROWS 1] ON TRUE",
            [source("r", NESTED), S],
            {"order_by": "ts"},
            "column 'tags' of stream r has the type array<string>, which Penstock does not "
            "compute with\n"
            "Select it as it is, or take what you need out of it in Spark first: "
            "df.withColumn(...).",
        ),
        (
            "SELECT age FROM r",
            [source("r", STRANGE)],
            {},
            "column 'age' of stream r has the type interval year to month, which cannot leave the "
            "JVM\n"
            "Leave it out, or cast it in Spark first: df.withColumn(...).",
        ),
        (
            "SELECT * FROM r",
            [source("r", STRANGE)],
            {},
            "column 'age' of stream r has the type interval year to month, which cannot leave the "
            "JVM\n"
            "Leave it out, or cast it in Spark first: df.withColumn(...).",
        ),
        (
            "SELECT COUNT(*) FROM r [ROWS 10 SLIDE 5]",
            [R],
            {},
            "an aggregate over a window that counts arrivals needs an arrival order, and the rows "
            "of a DataFrame have none\n"
            "Name the column that has it: pss.sql(..., order_by='ts'); or take the rows "
            "trigger by trigger, in the order of their content, with merge='arrival'.",
        ),
        (
            "SELECT COUNT(*) FROM r [RANGE 10 SLIDE 5 WATTR ts]",
            [R],
            {},
            "the time window of stream r does not say how late a tuple may be\n"
            "Write SLACK in the window clause, for instance SLACK 10, or SLACK 0 if none is late.",
        ),
        (
            "SELECT COUNT(*) FROM r [RANGE 7 DAYS SLIDE 1 DAY WATTR day]",
            [source("r", {**COLUMNS, "day": types.DateType()})],
            {},
            "the time window of stream r does not say how late a tuple may be\n"
            "Write SLACK in the window clause, for instance SLACK 1 DAY, or SLACK 0 if none is "
            "late.",
        ),
        (
            "SELECT COUNT(*) FROM r [RANGE 10 SLIDE 5 WATTR exact]",
            [source("r", {**COLUMNS, "exact": types.DecimalType(10, 2)})],
            {},
            "the time window of stream r does not say how late a tuple may be\n"
            "Write SLACK in the window clause, for instance SLACK 10, or SLACK 0 if none is late.",
        ),
        (
            "SELECT id AS k, x AS K FROM r",
            [R],
            {},
            "two columns of the result are named 'K' at line 1, column 22\n"
            "  SELECT id AS k, x AS K FROM r\n"
            "                       ^\n"
            "Give one of them another name.",
        ),
    ],
)
def test_a_query_that_cannot_run_is_refused(
    sql: str, sources: list[DataFrameStream], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PenstockError) as error:
        job_of(sql, *sources, **options)
    assert str(error.value) == message


def test_columns_that_nothing_reads_stay_in_spark() -> None:
    job = job_of("SELECT r.note FROM r [ROWS 2] JOIN s [ROWS 2] ON r.x = s.x", order_by="ts")
    assert [lane.stream.schema.names for lane in job.lanes] == [["ts", "x", "note"], ["ts", "x"]]


def test_letters_show_every_column_that_can_leave_the_jvm() -> None:
    job = job_of("SELECT id FROM r", source("r", {**NESTED, **STRANGE}), letters=True)
    assert job.lanes[0].stream.schema.names == ["ts", "id", "x", "note", "tags"]


def test_names_that_repeat_get_their_streams_name() -> None:
    assert job_of(COUNT, order_by="ts").names == ("r_id", "s_id")


def test_the_delay_of_a_watermark_is_the_slack_of_a_window() -> None:
    sources = [source(name, MOMENT, watermark=("ts", 1500)) for name in "rs"]
    job = job_of(TIME, *sources)
    assert not job.by_key
    assert [lane.stream.slack for lane in job.lanes] == [1.5, 1.5]
    assert [lane.delay for lane in job.lanes] == [1_500_000, 1_500_000]


def test_the_order_waits_for_the_delay_of_a_watermark_and_the_window_does_not_wait_again() -> None:
    sources = [source(name, MOMENT, watermark=("ts", 1500)) for name in "rs"]
    job = job_of(TIME + " EMIT ORDER outer", *sources, order_by="ts")
    assert job.by_key
    assert [lane.stream.slack for lane in job.lanes] == [None, None]
    assert [lane.delay for lane in job.lanes] == [1_500_000, 1_500_000]


def test_slack_in_the_clause_wins_over_the_watermark() -> None:
    sources = [source(name, MOMENT, watermark=("ts", 1500)) for name in "rs"]
    job = job_of(TIME.replace("MINUTE]", "MINUTE SLACK 3 SECONDS]"), *sources)
    assert [lane.delay for lane in job.lanes] == [3_000_000, 3_000_000]


def test_the_order_waits_for_slack_without_a_watermark_too() -> None:
    sql = "SELECT r.id FROM r [RANGE 5 WATTR ts SLACK 7] JOIN s [ROWS 3] ON r.x = s.x"
    assert [lane.delay for lane in job_of(sql, order_by="ts").lanes] == [7, 0]


def test_rows_that_change_are_those_of_partial_results() -> None:
    with pytest.raises(InputError) as error:
        check_update(True, True, Distribution(None, 1, "one core"))
    assert str(error.value) == (
        "output='update' over a static DataFrame, whose rows come once\n"
        "Leave it out, or read the DataFrame with spark.readStream."
    )
    with pytest.raises(InputError) as error:
        check_update(False, False, Distribution(None, 1, "every task by itself"))
    assert str(error.value) == (
        "output='update' of a query without an aggregate, whose rows never change\nLeave it out."
    )
    with pytest.raises(InputError) as error:
        check_update(False, True, Distribution(None, 1, "one core"))
    assert str(error.value) == (
        "output='update' is for aggregates whose partial results are merged (one core)\n"
        "Leave it out: the rows come when their windows close."
    )
