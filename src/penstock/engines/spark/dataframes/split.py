"""``pss.split``: the rows, the late tuples and the dead letters of a batch."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.engines.spark.dataframes.packing import KIND, REASON, STREAM, TAGS, TUPLE
from penstock.errors import InputError


class Parts:
    """A batch in three DataFrames.

    ``rows`` has the query's columns; ``late`` and ``dead`` have ``stream``, ``tuple`` (as literals)
    and ``reason``. The batch is kept while it is used, since Spark would run the join once for
    every DataFrame that is written; ``close()``, or leaving the ``with`` block, lets it go.
    """

    def __init__(self, batch: DataFrame) -> None:
        self._batch = batch.persist()
        kind = F.col(KIND)
        self.rows = self._batch.where(kind == "row").drop(*TAGS)
        letters = [F.col(tag).alias(tag[1:]) for tag in (STREAM, TUPLE, REASON)]
        self.late = self._batch.where(kind == "late").select(*letters)
        self.dead = self._batch.where(kind == "dead").select(*letters)

    def __repr__(self) -> str:
        return f"<Parts: rows ({', '.join(self.rows.columns)}), late, dead>"

    def close(self) -> None:
        """Release the batch."""
        self._batch.unpersist()

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def split(batch: DataFrame) -> Parts:
    """Separate rows, late tuples and dead letters of ``pss.sql(..., letters=True)``.

    For ``foreachBatch``::

        def write(batch, number):
            with pss.split(batch) as parts:
                parts.rows.write.mode("append").parquet("rows")
                parts.late.write.mode("append").parquet("late")
    """
    if not hasattr(batch, "isStreaming"):
        raise InputError(
            f"the batch is {type(batch).__name__}, no DataFrame of Spark",
            "Pass what foreachBatch hands over: def write(batch, number), pss.split(batch).",
        )
    missing = [tag for tag in TAGS if tag not in batch.columns]
    if missing:
        raise InputError(
            f"the batch has no column {missing[0]}, which tells rows from letters",
            "Make it with pss.sql(..., letters=True), and keep its columns.",
        )
    return Parts(batch)
