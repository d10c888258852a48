"""Continuous SQL over Spark DataFrames: ``import penstock.spark as pss``."""

from penstock.engines.spark.dataframes.split import Parts, split
from penstock.engines.spark.dataframes.sql import explain, sql
from penstock.engines.spark.session import session

__all__ = ["Parts", "explain", "session", "split", "sql"]


def __dir__() -> list[str]:
    return list(__all__)
