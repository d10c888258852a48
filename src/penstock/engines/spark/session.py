"""The Spark session an engine works in: one of ours, or one that its user already has."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engines.spark.java import find_java, java_home
from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
QUIET = Path(__file__).with_name("quiet.properties")

_ATTEMPTS = 4
"""Of a task, before its query fails; Spark's own default for clusters."""

STREAMING = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A frame is up to 65,536 tuples already; frames must not pile up to batches of thousands.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.adaptive.enabled": "false",
}
"""What a session needs for our queries; set on a session of our own beside the user's."""

_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_QUICK_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""How checkpoints are written on one machine. Where Spark would choose for itself, it runs a
program ten times to write one file: eight times readlink and twice chmod."""

_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Columns that Spark writes for Python are not checked at every value."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The rows of a micro-batch come to the driver; a limit would stop a query for good, since a
    # micro-batch that has been planned is done again as it is.
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


class Session:
    """A Spark session for one engine.

    ``root`` is the user's session, or the one that we started. ``spark`` shares its context but has
    settings of its own, so that nothing the user has set is changed. A context that we started is
    stopped once the last engine that uses it is closed.
    """

    def __init__(self, spark: SparkSession, cores: int, ours: bool) -> None:
        self.root = spark
        self._ours = ours
        self._open = True
        self.spark = spark.newSession()
        for name, value in {**STREAMING, **quick_files(spark)}.items():
            self.spark.conf.set(name, value)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(cores))

    def close(self) -> None:
        """Leave the context; ours is stopped when nobody is left."""
        if self._open:
            self._open = False
            _USERS.leave(self.root, self._ours)


class _Users:
    """How many engines use the context we started: it is one per process, as the JVM is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def enter(self, master: str | None) -> tuple[SparkSession, bool]:
        from pyspark import SparkContext

        with self._lock:
            if self._count:
                self._count += 1
                return _running(), True
            if SparkContext._active_spark_context is not None:
                return _running(), False
            spark = _start(master)
            self._count = 1
            return spark, True

    def leave(self, spark: SparkSession, ours: bool) -> None:
        with self._lock:
            if ours:
                self._count -= 1
                if not self._count:
                    spark.stop()


_USERS = _Users()


def open_session(
    cores: int, master: str | None = None, session: SparkSession | None = None
) -> Session:
    """A session for an engine of so many cores: in the user's, in a running one, or a new one.

    ``master`` is that of a new one; by default local, with a thread per core, and a task that fails
    is tried again, as it is on a cluster.
    """
    if session is not None:
        if not hasattr(session, "_jsparkSession"):
            raise EnvironmentProblem(
                "the engine cannot run through Spark Connect, whose client has no streaming "
                "callbacks into this process",
                "Pass a session that runs in this process, or a master: "
                "ps.connect('spark', master=...).",
            )
        return Session(session, cores, ours=False)
    spark, ours = _USERS.enter(master or f"local[{max(2, cores)},{_ATTEMPTS}]")
    return Session(spark, cores, ours)


def session(master: str | None = None) -> SparkSession:
    """The session that runs in this process, or a new one: with Java, workers and log set up.

    ``master`` is that of a new one; by default this machine, with all its cores. Stop it with its
    ``stop()``.
    """
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        return _running()
    return _start(master or f"local[{os.cpu_count() or 1},{_ATTEMPTS}]")


def _running() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _start(master: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    java = java_home(find_java())
    options = f"-Dlog4j2.configurationFile=file:{QUIET} {_ARROW}"
    builder = SparkSession.builder.master(master or "local[2]").appName("penstock")
    for name, value in _LOCAL.items():
        builder = builder.config(name, value)
    if _is_local(master):
        builder = builder.config(_FILES, _QUICK_FILES)  # for the logs of sources too
    builder = builder.config("spark.driver.extraJavaOptions", options)
    builder = builder.config("spark.driver.memory", os.environ.get("SPARK_DRIVER_MEMORY", "2g"))
    # Workers must find what this interpreter finds; a bare python3 may be another one.
    with _environment(
        JAVA_HOME=str(java), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"
    ):
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise EnvironmentProblem(
                f"Spark does not start ({type(error).__name__}: {error})",
                "Set PENSTOCK_SPARK_LOG to a file and try again; the file then has the reason.",
            ) from error


def quick_files(spark: SparkSession) -> dict[str, str]:
    """The setting by which a session on this machine writes checkpoints faster, or none.

    A choice of the user's stays. On a cluster Spark's own choice does, since checkpoints are on a
    file system that has a better way to replace a file.
    """
    chosen = spark.conf.get(_FILES, None)
    return {_FILES: _QUICK_FILES} if chosen is None and _is_local(spark.sparkContext.master) else {}


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


@contextmanager
def _environment(**settings: str) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
