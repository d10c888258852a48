"""Window aggregates of streaming DataFrames: Penstock on Spark and stock Spark, in one run.

COUNT and SUM over ten minutes, every minute, with a watermark of 60 seconds: of all tuples, and of
10,000 keys. A tuple every millisecond, each up to 60 seconds out of order. Then the same with a
window every second, where Spark copies each row 600 times.

A trigger reads two Parquet files, one per core; the sink discards the rows. Their number, and the
sum of their counts, are compared between the two. The figure is the median of triggers; the first
run of each warms up the JVM and does not count. Spark also runs with the one setting by which
Penstock writes checkpoints faster, to show the effect of that setting alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.spark_joins import PARTS
from bench.spark_runs import (
    CORES,
    Stored,
    Triggers,
    folder,
    median,
    run_to_end,
    spark_session,
    stock_session,
    together,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 10_000
DISORDER = 60_000_000
"""Microseconds that a tuple may be behind the latest one; also the delay of the watermark."""


@dataclass(frozen=True)
class Work:
    """One line of the table."""

    slide: int
    grouped: bool
    rows_per_trigger: int
    triggers: int

    @property
    def text(self) -> str:
        key, group = ("k, ", " GROUP BY k") if self.grouped else ("", "")
        return (
            f"SELECT {key}COUNT(*) AS n, SUM(x) AS total, window_start, window_end "
            f"FROM r [RANGE 600 SECONDS SLIDE {self.slide} SECONDS WATTR at]{group}"
        )

    def stock(self, frame: DataFrame) -> DataFrame:
        """The same as a Spark query."""
        from pyspark.sql import functions as F

        window = F.window("at", "600 seconds", f"{self.slide} seconds")
        grouped = frame.groupBy(window, *(["k"] if self.grouped else []))
        made = grouped.agg(F.count("*").alias("n"), F.sum("x").alias("total"))
        return made.select(*(["k"] if self.grouped else []), "n", "total", "window.*")


def stream(path: Path, rows: int, triggers: int) -> Stored:
    """Tuples with a time, a key and a value, with one file per core and trigger."""
    rng = np.random.default_rng(4)
    stored = Stored(path, files=CORES)
    size = rows // CORES
    for number in range(triggers * CORES):
        ids = np.arange(number * size, (number + 1) * size)
        at = ids * 1000 - rng.integers(0, DISORDER, size) + DISORDER
        columns = {
            "at": pa.array(at.astype("datetime64[us]"), pa.timestamp("us", tz="UTC")),
            "k": rng.integers(0, KEYS, size),
            "x": rng.integers(0, 1000, size),
        }
        stored.write(pa.table(columns))
    return stored


def counted(frame: DataFrame) -> DataFrame:
    """The result, with metrics to compare it by."""
    from pyspark.sql import functions as F

    n, total = F.coalesce(F.sum("n"), F.lit(0)), F.coalesce(F.sum("total"), F.lit(0))
    return frame.observe("made", F.count(F.lit(1)).alias("rows"), n.alias("n"), total.alias("x"))


def made_by(triggers: Triggers) -> tuple[int, int, int]:
    """The number of rows, the sum of their counts, and of their sums."""
    return tuple(triggers.total(one, "made") for one in ("rows", "n", "x"))  # type: ignore[return-value]


def compare(spark: SparkSession, work: Work, times: int) -> dict[str, Any]:
    """Both rates, alternating, and their ratio."""
    import penstock.spark as pss

    ours: list[Triggers] = []
    stock: list[Triggers] = []
    helped: list[Triggers] = []
    with folder() as path:
        stored = stream(path / "r", work.rows_per_trigger, work.triggers)
        for number in range(times):
            for runs, own_files in ((stock, True), (helped, False)):
                theirs = stored.read(stock_session(spark, own_files))
                result = work.stock(theirs.withWatermark("at", "60 seconds"))
                runs.append(run_to_end(counted(result), path / f"stock-{number}-{own_files}"))
            mine = stored.read(spark).withWatermark("at", "60 seconds")
            result = pss.sql(work.text, r=mine, cores=CORES)
            ours.append(run_to_end(counted(result), path / f"ours-{number}"))
            found = [made_by(runs[-1]) for runs in (ours, stock, helped)]
            assert found[0] == found[1] == found[2], f"{found[0]}, but Spark has {found[1:]}"
        source = run_to_end(stored.read(spark), path / "source")
    ours, stock, helped = (runs[1:] if times > 1 else runs for runs in (ours, stock, helped))
    pairs = list(zip(ours, stock, strict=True))
    return {
        "rows": found[0][0],
        "penstock": together(ours).rate(),
        "stock": together(stock).rate(),
        "stock, checkpoints written as ours": together(helped).rate(),
        "times stock": median(a.rate()["median"] / b.rate()["median"] for a, b in pairs),
        "seconds": breakdown(together(ours), source),
    }


def breakdown(made: Triggers, source: Triggers) -> dict[str, float]:
    """Median seconds of a trigger: the parts of the slowest core, and the rest.

    "Between JVM and Python" includes the folding in the tasks of the first stage.
    """
    whole, work = median(made.seconds()), median(made.seconds("addBatch"))
    parts = {part: made.median(f"{part}_ms") / 1000 for part in PARTS}
    read = median(source.seconds("addBatch"))
    return {
        "trigger": whole,
        "planning, offsets and logs": whole - work,
        "source": read,
        "between JVM and Python": work - read - sum(parts.values()),
        **parts,
    }


def finer(spark: SparkSession, works: tuple[Work, Work], times: int) -> dict[str, Any]:
    """Our rates for two slides, alternating, and their ratio.

    Stock Spark would take too long: it copies a row for every window.
    """
    import penstock.spark as pss

    runs: tuple[list[Triggers], list[Triggers]] = ([], [])
    rows: list[int] = []
    with folder() as path:
        stored = stream(path / "r", works[0].rows_per_trigger, works[0].triggers)
        for number in range(times):
            for work, made in zip(works, runs, strict=True):
                mine = stored.read(spark).withWatermark("at", "60 seconds")
                result = pss.sql(work.text, r=mine, cores=CORES)
                made.append(run_to_end(counted(result), path / f"{work.slide}-{number}"))
        rows = [made_by(made[-1])[0] for made in runs]
    few, many = (made[1:] for made in runs)
    pairs = list(zip(many, few, strict=True))
    return {
        "rows": rows,
        **{
            f"{work.slide} s": together(made[1:]).rate()
            for work, made in zip(works, runs, strict=True)
        },
        "times": median(a.rate()["median"] / b.rate()["median"] for a, b in pairs),
    }


def run() -> dict[str, Any]:
    """The figures."""
    with spark_session() as spark:
        return {
            "10 min by 1 min, 1 M rows a trigger": compare(spark, Work(60, False, 1 << 20, 6), 4),
            "by 10,000 keys, 1 M rows a trigger": compare(spark, Work(60, True, 1 << 20, 5), 3),
            "every second instead of every minute": finer(
                spark, (Work(60, False, 1 << 20, 5), Work(1, False, 1 << 20, 5)), 3
            ),
        }
