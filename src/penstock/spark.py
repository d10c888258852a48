"""Continuous SQL over DataFrames of Spark: ``import penstock.spark as pss``."""

from penstock.engines.spark.dataframes.split import Parts, split
from penstock.engines.spark.dataframes.sql import sql

__all__ = ["Parts", "split", "sql"]
