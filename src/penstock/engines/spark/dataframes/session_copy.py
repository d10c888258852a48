"""A copy of the user's session in which a query of ours can run.

A stateful operator takes the number of its partitions and its state store from the session that its
DataFrame belongs to. The user's session keeps its own settings: the DataFrames go on in a copy of
it, which has the same context, catalog, views and settings but for those that our operators need.
"""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock import leftovers
from penstock.engines.spark.core.frames import MOST_TUPLES
from penstock.engines.spark.session import STREAMING, quick_files
from penstock.errors import EnvironmentProblem, InputError

SETTINGS = {
    **STREAMING,
    # A frame has as many tuples as Spark hands over at once; bytes bound the batches of frames.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(MOST_TUPLES),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}


_NO_LIMIT = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""With this very number Spark does not ask, after every row, how large the batch is by now; that
takes it as long as to write the row."""


class SessionCopy:
    """A copy of a session for ``cores`` cores: of this process, or of Spark Connect.

    ``bounded``: the largest number of rows in a batch cannot take much memory.
    """

    def __init__(self, spark: SparkSession, cores: int, bounded: bool = False) -> None:
        self.spark: Any = _copy_remote(spark) if _is_remote(spark) else _copy_local(spark)
        files = {} if _is_remote(spark) else quick_files(spark)
        for name, value in {**SETTINGS, **files, **(_NO_LIMIT if bounded else {})}.items():
            self.spark.conf.set(name, value)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(cores))

    def move(self, frame: DataFrame) -> DataFrame:
        """The same DataFrame in this session."""
        if _is_remote(self.spark):
            return type(frame)(frame._plan, self.spark)
        classic = self.spark._jvm.org.apache.spark.sql.classic.Dataset
        plan = frame._jdf.queryExecution().logical()
        while plan.nodeName() == "EventTimeWatermark":
            # Its delay is in the schema and has been read. Spark would check every row for it,
            # and run a trigger without rows after each that moved it.
            plan = plan.child()
        return DataFrame(classic.ofRows(self.spark._jsparkSession, plan), self.spark)


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session's context runs at once."""
    if _is_remote(spark):
        raise InputError(
            "Spark Connect does not tell how many cores there are",
            "Pass a number: pss.sql(..., cores=4).",
        )
    return int(spark.sparkContext.defaultParallelism)


def check_workers(spark: SparkSession) -> None:
    """Refuse a session on this machine whose Python workers have no Penstock."""
    if _is_remote(spark) or not str(spark.sparkContext.master).startswith("local"):
        return
    python = str(spark.sparkContext.pythonExec)
    found = shutil.which(python) or python
    if Path(found).parent != Path(sys.executable).parent and not _has_penstock(found):
        raise EnvironmentProblem(
            f"the session's Python workers would run {found}, which has no Penstock",
            f"Set PYSPARK_PYTHON={sys.executable} before the session is started, or let "
            "pss.session() start it.",
        )


@functools.cache
def _has_penstock(python: str) -> bool:
    try:
        return leftovers.run([python, "-c", "import penstock"]).returncode == 0
    except OSError:
        return False


def _is_remote(spark: SparkSession) -> bool:
    return not hasattr(spark, "_jsparkSession")


def _copy_local(spark: SparkSession) -> SparkSession:
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def _copy_remote(spark: SparkSession) -> SparkSession:
    remote: Any = spark
    copy: SparkSession = remote.cloneSession()
    return copy
