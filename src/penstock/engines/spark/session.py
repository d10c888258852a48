"""The Spark session of an engine: a new one, or the user's own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engines.spark.jvm import find_java, is_local, java_home, start_jvm
from penstock.engines.spark.resident.spark_files import RETAINED
from penstock.engines.spark.uninterrupted import awaited, settle
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

_PORT = "PYSPARK_GATEWAY_PORT"
"""The variable by which PySpark knows a JVM that runs already."""

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
        self.version = str(spark.version)
        for name, value in {**STREAMING, **quick_files(spark)}.items():
            self.spark.conf.set(name, value)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(cores))
        self.spark.conf.set("spark.sql.streaming.minBatchesToRetain", str(RETAINED))

    def close(self) -> None:
        """Leave the context; one that we started is stopped with its last engine."""
        if self._open:
            self._open = False
            _USERS.leave(self.root, self._ours)


class _Users:
    """Counts the engines that use the context we started: one per process, as the JVM is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def enter(self, master: str) -> tuple[SparkSession, bool]:
        from pyspark import SparkContext

        with self._lock:
            if self._count:
                self._count += 1
                return _running(), True
            if SparkContext._active_spark_context is not None:
                return _running(), False
            spark = awaited(lambda: _start(master), lambda unwanted: unwanted.stop())
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
    """A session for an engine with ``cores`` cores: from the user's, a running one, or a new one.

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

    settle()
    if SparkContext._active_spark_context is not None:
        return _running()
    master = master or f"local[{os.cpu_count() or 1},{_ATTEMPTS}]"
    started = awaited(lambda: _start(master), lambda unwanted: unwanted.stop())
    _cancel_jobs_on_interrupt(started)
    return started


def _cancel_jobs_on_interrupt(spark: SparkSession) -> None:
    """Let Ctrl-C cancel the jobs of a session that its user calls, as PySpark does."""

    def cancel(number: int, frame: Any) -> None:
        try:
            spark.sparkContext.cancelAllJobs()
        finally:
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, cancel)


def _running() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _start(master: str) -> SparkSession:
    """A new session; in a thread of its own (see :mod:`penstock.engines.spark.uninterrupted`).

    There PySpark leaves the handling of Ctrl-C alone, too: it would cancel all jobs.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": master,
        "spark.app.name": "penstock",
        **_LOCAL,
        **({_FILES: _QUICK_FILES} if is_local(master) else {}),  # for the logs of sources too
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{QUIET} {_ARROW}",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    environment = {
        "JAVA_HOME": str(java_home(find_java())),
        # Workers must find what this interpreter finds; a bare python3 may be another one.
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    try:
        # There may be a JVM: of an earlier session, or of spark-submit.
        if SparkContext._gateway is None and _PORT not in os.environ:
            gateway = start_jvm(settings, environment)
            environment |= {_PORT: str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
        with _environment(**environment):
            spark = builder.getOrCreate()
        server: Any = spark.sparkContext._accumulatorServer
        server.handle_error = _connection_failed
        logging.getLogger().addFilter(_is_no_lost_connection)
        # A program that ends after an interrupted close() ends the JVM while it is being stopped.
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
        return spark
    except EnvironmentProblem:
        raise
    except Exception as error:
        raise EnvironmentProblem(
            f"Spark does not start ({type(error).__name__}: {error})",
            "Set PENSTOCK_SPARK_LOG to a file and try again; the file then has the reason.",
        ) from error


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Py4J logs what it also raises, when the JVM ends while a command is under way."""
    return (record.module, record.msg) != ("java_gateway", "Exception while sending command.")


def _connection_failed(request: Any, address: Any) -> None:
    """Report a failure in PySpark's accumulator server, unless the JVM has just ended."""
    if not isinstance(sys.exc_info()[1], EOFError | OSError):
        traceback.print_exc()


def quick_files(spark: SparkSession) -> dict[str, str]:
    """The setting by which a session on this machine writes checkpoints faster, or none.

    A choice of the user's stays. On a cluster Spark's own choice does, since checkpoints are on a
    file system that has a better way to replace a file.
    """
    chosen = spark.conf.get(_FILES, None)
    return {_FILES: _QUICK_FILES} if chosen is None and is_local(spark.sparkContext.master) else {}


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
