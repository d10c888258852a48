"""Streams on disk, a session, and streaming queries over them, trigger by trigger."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
WARM = 2
"""The first triggers, in which workers start and predicates are compiled, do not count."""


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A local session with a thread per core, as Penstock would start it."""
    from penstock.engines.spark.session import open_session

    session = open_session(CORES)
    try:
        yield session.root
    finally:
        session.close()


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder for streams and checkpoints."""
    path = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass
class Stored:
    """A stream as Parquet files; a trigger reads ``files`` of them."""

    path: Path
    files: int = 1
    tables: list[pa.Table] = field(default_factory=list)

    def write(self, table: pa.Table) -> None:
        """Add a file; the source orders files by their times."""
        self.path.mkdir(parents=True, exist_ok=True)
        number = len(self.tables)
        name = self.path / f"{number:05d}.parquet"
        pq.write_table(table, name)
        os.utime(name, (1_000_000_000 + number, 1_000_000_000 + number))
        self.tables.append(table)

    def read(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame of the files in order, ``files`` per trigger."""
        schema = spark.read.parquet(str(self.path)).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", self.files)
        return reader.parquet(str(self.path))


@dataclass(frozen=True)
class Triggers:
    """Spark's progress of all triggers of a query that has run to its end."""

    progress: list[dict[str, Any]]
    warm: int = WARM

    @property
    def counted(self) -> list[dict[str, Any]]:
        """The triggers with input, without the first ones."""
        return [one for one in self.progress if one["numInputRows"]][self.warm :]

    def seconds(self, part: str = "triggerExecution") -> list[float]:
        return [one["durationMs"].get(part, 0) / 1000 for one in self.counted]

    def rate(self) -> dict[str, Any]:
        """Rows per second: the median of the triggers, and the slowest and the fastest."""
        rates = [
            one["numInputRows"] / (one["durationMs"]["triggerExecution"] / 1000)
            for one in self.counted
        ]
        return {
            "median": statistics.median(rates),
            "slowest": min(rates),
            "fastest": max(rates),
            "triggers": len(rates),
            "rows_per_trigger": statistics.median(one["numInputRows"] for one in self.counted),
        }

    def total(self, metric: str, name: str = "penstock") -> int:
        """A count of the query's own metrics, over all triggers."""
        found = (one["observedMetrics"].get(name) for one in self.progress)
        return sum(getattr(row, metric) for row in found if row is not None)

    def median(self, metric: str, name: str = "penstock") -> float:
        """A metric of the query's own, for a trigger."""
        found = (one["observedMetrics"].get(name) for one in self.counted)
        return statistics.median(getattr(row, metric) for row in found if row is not None)


def run_to_end(frame: DataFrame, checkpoint: Path, sink: str = "noop", out: str = "") -> Triggers:
    """Run a streaming query over the available input, and wait for it."""
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(*([out] if out else []))
    query.awaitTermination()
    return Triggers(query.recentProgress)


def processor_seconds() -> float:
    """The processor's time of all processes below this one: the JVM, its workers, those it had."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= found
    return sum(ticks.get(pid, 0) for pid in below - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


def together(runs: Iterable[Triggers]) -> Triggers:
    """The measured triggers of several runs."""
    return Triggers([one for run in runs for one in run.counted], warm=0)


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def stock_session(spark: SparkSession, own_files: bool = True) -> SparkSession:
    """A session of the same context with Spark's defaults, but as many partitions as cores.

    With the default of 200 partitions Spark is several times slower on few cores. With
    ``own_files`` it uses its default checkpoint file manager, else that of Penstock.
    """
    stock = spark.newSession()
    if own_files:
        stock.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    stock.conf.set("spark.sql.shuffle.partitions", str(CORES))
    return stock
