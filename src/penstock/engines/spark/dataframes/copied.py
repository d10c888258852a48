"""A copy of the user's session in which a query of ours can run.

A stateful operator takes the number of its partitions and its state store from the session that its
DataFrame belongs to. The user's session keeps its own settings: the DataFrames go on in a copy of
it, which has the same context, catalog, views and settings but for those that our operators need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from penstock.engines.spark.frames import MOST_TUPLES
from penstock.engines.spark.session import STREAMING
from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS = {
    **STREAMING,
    # A frame has as many tuples as Spark hands over at once; bytes bound the batches of frames.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(MOST_TUPLES),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}


class Copied:
    """A copy of a session for so many cores."""

    def __init__(self, spark: SparkSession, cores: int) -> None:
        self.spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(cores))

    def move(self, frame: DataFrame) -> DataFrame:
        """The same DataFrame in this session."""
        jvm = self.spark._jvm
        assert jvm is not None
        classic = jvm.org.apache.spark.sql.classic.Dataset
        plan = frame._jdf.queryExecution().logical()
        return DataFrame(classic.ofRows(self.spark._jsparkSession, plan), self.spark)


def session_of(frames: Iterable[DataFrame]) -> SparkSession:
    """The session that the DataFrames are of."""
    spark = next(iter(frames)).sparkSession
    if not hasattr(spark, "_jsparkSession"):
        raise EnvironmentProblem(
            "pss.sql cannot run through Spark Connect, whose client cannot give a query settings "
            "of its own",
            "Run the program where the driver is, with spark-submit.",
        )
    return spark
