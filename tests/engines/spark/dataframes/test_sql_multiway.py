"""Joins of three and more DataFrames on Spark: the oracle's rows, each once across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.engines.spark.dataframes.files import Folder, cut, rows, run
from tests.engines.spark.dataframes.in_process import NAMES
from tests.engines.spark.dataframes.test_sql import expected, table

import penstock.spark as pss
from penstock.engines.spark.session import Session
from penstock.errors import InputError
from penstock.program.isa.flow import DesignName

TIMED = (
    "SELECT r.id, s.id, u.id FROM r [RANGE 5 SECONDS] JOIN s [RANGE 9 SECONDS] ON r.x = s.x "
    "JOIN u [RANGE 7 SECONDS] ON s.x = u.x AND u.id <> r.id"
)
COUNTED = (
    "SELECT r.id, s.id, u.id FROM r [ROWS 20] JOIN s [RANGE 9 SECONDS] ON r.x = s.x "
    "JOIN u [ROWS 15] ON u.x BETWEEN s.x - 1 AND s.x + 1"
)
FIVE = (
    "SELECT r.id, s.id, u.id, v.id, w.id FROM r, s, u, v, w "
    "WHERE r.x = s.x AND s.x = u.x AND u.id = v.id AND v.x = w.x AND w.id < 5"
)


@pytest.fixture(scope="module")
def spark(session: Session) -> SparkSession:
    """The user's session: with Spark's own number of partitions and state store."""
    return session.spark.newSession()


@pytest.mark.parametrize("sql", [TIMED, COUNTED], ids=["partitioned", "broadcast"])
def test_each_row_comes_once_across_restarts(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    jitter, slack = (2000, 2000) if sql == TIMED else (0, 0)
    tables = [table(seed, 120, jitter=jitter) for seed in (11, 12, 13)]
    pieces = [cut(t, 30, 40) for t in tables]
    folders = [Folder(tmp_path / n).add(*p[:2]) for n, p in zip("rsu", pieces, strict=True)]

    def joined() -> Any:
        streams = [f.stream(spark).withWatermark("ts", f"{slack} milliseconds") for f in folders]
        given = dict(zip("rsu", streams, strict=True))
        told = pss.explain(sql, order_by="ts", cores=2, **given).splitlines()
        assert told[-1].startswith(
            "distribution: partition by r.x = s.x = u.x among 2 cores"
            if sql == TIMED
            else "distribution: broadcast to 2 cores, each tuple of one stream stored and "
            "processed on one, those of the others on all (the design parallel); no partition by "
            "key: "
        )
        lines = [line for line in told if line.startswith("design ")]
        if sql == TIMED:
            assert [line.partition(":")[0] for line in lines] == [
                "design mjoin",
                "design revised while it runs",
            ]
        else:
            assert lines == ["design parallel: the one with which Spark's cores share it"]
        design: DesignName = "mjoin" if sql == TIMED else "parallel"
        return pss.sql(sql, order_by="ts", cores=2, design=design, **given)

    run(joined(), tmp_path)
    for folder, piece in zip(folders, pieces, strict=True):
        folder.add(piece[2])
    query = run(joined(), tmp_path)
    with_slack = sql.replace("SECONDS]", f"SECONDS SLACK {slack // 1000} SECONDS]")
    wanted = expected(with_slack, *tables, delay=None if sql == TIMED else 0)
    assert len(wanted) > 50
    assert rows(spark, tmp_path) == sorted(wanted, key=str)
    counts = query.lastProgress["observedMetrics"]["penstock"].asDict()
    assert [counts[f"late_{name}"] for name in "rsu"] == [0, 0, 0]


def test_a_design_that_the_query_cannot_have_is_refused(spark: SparkSession) -> None:
    r = spark.createDataFrame([(1,)], "x bigint")
    with pytest.raises(InputError) as error:
        pss.sql("SELECT r.x, s.x AS y FROM r, s WHERE r.x = s.x", r=r, s=r, design="circular")
    assert str(error.value) == (
        "the design circular is asked for, and the query joins fewer than three streams\n"
        "Leave the design out; cores share a join of two streams by a flow (flow=, --flow)."
    )
    with pytest.raises(InputError) as error:
        pss.explain("SELECT x FROM r", r=r, design="ring")  # type: ignore[arg-type]
    assert str(error.value) == (
        "unknown design 'ring'\nWrite one of: auto, mjoin, cascade, shared, parallel, "
        "parallel-circular, parallel-stashed, stashed, "
        "circular, linear."
    )


def test_static_dataframes_give_the_rows_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(seed, 30) for seed in range(5)]
    frames = {n: Folder(tmp_path / n).add(t) for n, t in zip(NAMES, tables, strict=True)}
    found = pss.sql(FIVE, {n: f.table(spark) for n, f in frames.items()}, cores=2).collect()
    with duckdb.connect() as connection:
        for name, given in zip(NAMES, tables, strict=True):
            connection.register(name, given)
        wanted = connection.sql(FIVE).fetchall()
    assert len(wanted) > 10
    assert sorted(map(tuple, found), key=str) == sorted(wanted, key=str)


def test_a_cross_product_is_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    frame = Folder(tmp_path / "r").add(table(1, 10)).stream(spark)
    sql = "SELECT r.id FROM r [ROWS 20], s [ROWS 30], u [ROWS 40] WHERE r.x = s.x"
    with pytest.warns(UserWarning) as warned:
        pss.sql(sql, r=frame, s=frame, u=frame, order_by="ts", cores=2)
    assert [(one.filename, str(one.message)) for one in warned] == [
        (__file__, "no condition links u (3) with r (1): an arrival can make up to 1,200 rows")
    ]
