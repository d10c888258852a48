"""The Spark engine: streams in, queries over them, rows out, by one Structured Streaming query.

Everything that is pushed, instructions too, is appended to a log on disk, and the Spark query reads
the log. Instructions are checked here before they are written, against a registry of the same kind
as the cores keep, so the cores never meet one that they must refuse.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engines.shared.pieces import Event, pieces
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.statements import run_statements
from penstock.engines.spark.batch import Batch
from penstock.engines.spark.checkpoint import Checkpoint
from penstock.engines.spark.delivery import Deliveries
from penstock.engines.spark.explaining import explain_plan
from penstock.engines.spark.flow import decide_on_spark
from penstock.engines.spark.frames import Frame
from penstock.engines.spark.host import HostOptions
from penstock.engines.spark.keeping import Keeping
from penstock.engines.spark.query import Placed
from penstock.engines.spark.registry import Recorder
from penstock.engines.spark.resident import Resident
from penstock.engines.spark.session import open_session
from penstock.errors import BufferFull, EngineFailure, InputError, PenstockError
from penstock.program.flow_choice import FlowChoice
from penstock.program.instructions import Change, CreateStream, Drop, Install, Instruction, Reset
from penstock.sql.catalog import Catalog
from penstock.streams.convert import to_batches
from penstock.streams.events import End
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_AGAIN = 0.5
"""Seconds after which somebody who waits for the cores looks whether they still live."""


class Engine:
    """Streams and queries in one long-lived Structured Streaming query.

    Parameters
    ----------
    session
        The user's SparkSession; None: one of ours, or the one that runs in this process.
    master
        Where a session of ours runs; None: in this process, with a thread per core.
    checkpoint
        A folder for log, state and results. An engine that is connected with the folder of an
        earlier one goes on where that one stopped, or was killed. None: a temporary folder.
    cores
        How many tasks share the work.
    rows_per_trigger
        How many tuples one micro-batch takes at most.
    backlog_rows
        How far the log may be ahead of the cores; when it is further, ``push`` waits for them.
    keep_results
        True leaves the results in files for :meth:`made`, and gives the handles none.
    batch_rows, buffer_rows, push_timeout, compile_predicates, windows_required, order_column
        As in the embedded engine.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        checkpoint: str | Path | None = None,
        cores: int = 1,
        rows_per_trigger: int = 1_048_576,
        backlog_rows: int = 8_388_608,
        keep_results: bool = False,
        batch_rows: int = 65_536,
        buffer_rows: int = 1_048_576,
        push_timeout: float = 30.0,
        compile_predicates: bool = True,
        windows_required: bool = True,
        order_column: str | None = None,
    ) -> None:
        limits = {
            "cores": cores,
            "rows_per_trigger": rows_per_trigger,
            "backlog_rows": backlog_rows,
            "batch_rows": batch_rows,
            "buffer_rows": buffer_rows,
        }
        for name, value in limits.items():
            if value < 1:
                raise InputError(f"{name} is {value}", "It must be 1 or more.")
        if push_timeout < 0:
            raise InputError(f"push_timeout is {push_timeout}", "It must be 0 or more seconds.")
        self.cores = cores
        self.rows_per_trigger = rows_per_trigger
        self.backlog_rows = backlog_rows
        self.batch_rows = batch_rows
        self.buffer_rows = buffer_rows
        self.push_timeout = push_timeout
        self._lock = threading.RLock()
        self._closed = False
        self._checkpoint = Checkpoint(None if checkpoint is None else Path(checkpoint), cores)
        self._registry: Registry[Query[Placed]] = Registry(
            windows_required,
            order_column,
            lambda *query: self._recorder.new_query(*query),
            lambda choice, program: decide_on_spark(choice, program, cores),
        )
        self._recorder = Recorder(self, self._registry, self._checkpoint, buffer_rows)
        options = (batch_rows, compile_predicates, windows_required, order_column)
        with ExitStack() as undo:
            undo.callback(self._checkpoint.close)
            self._recorder.recover()
            folder = self._checkpoint.results
            self._deliveries: Deliveries | Keeping = (
                Keeping(folder, cores)
                if keep_results
                else Deliveries(folder, self._recorder.handles, cores)
            )
            self._progress = self._deliveries.progress
            self._session = open_session(cores, master, session)
            undo.callback(self._session.close)
            self._resident = Resident(
                self._session.spark,
                self._checkpoint,
                HostOptions(self._checkpoint.id, cores, 0, *options),
                rows_per_trigger,
                self._deliveries.take,
            )
            undo.pop_all()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark query, and the session if it is ours.

        What was made can still be drained. With a checkpoint, what was pushed and not yet
        processed is processed by the next engine that uses it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._resident.stop()
            self._session.close()
            self._checkpoint.close()

    @property
    def registry(self) -> Registry[Query[Placed]]:
        """The streams and queries, and what is known of them."""
        return self._registry

    @property
    def queries(self) -> dict[str, Query[Placed]]:
        """The running queries and derived streams by name, oldest first."""
        return {query.name: query for query in self._registry.queries.values()}

    @property
    def dropped(self) -> list[Query[Placed]]:
        """Queries that have been dropped and still hold something that nobody has drained."""
        return [query for query in self._registry.dropped if query.undrained]

    @property
    def catalog(self) -> Catalog:
        """The streams, derived ones included."""
        return self._registry.catalog

    @property
    def position(self) -> int:
        """The position that the next event will have."""
        return self._recorder.position

    @property
    def ignored_punctuations(self) -> int:
        """How many punctuations said less than an earlier one, since this engine was connected."""
        return self._recorder.backwards.count

    @property
    def run_id(self) -> str:
        """Spark's name for the run of the query; the same as long as this engine is open."""
        return self._resident.run_id

    @property
    def progress(self) -> int:
        """Everything before this position has been processed."""
        return self._progress.position

    @property
    def batches(self) -> int:
        """How many micro-batches there have been, over the whole life of the checkpoint."""
        return self._deliveries.batches

    @property
    def spark_version(self) -> str:
        """The version of Spark that the engine runs on."""
        return str(self._session.spark.version)

    # -- statements -------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run statements separated by ``;`` and return what the last one gives.

        A stream declaration gives None, a derived stream or a SELECT its handle, SHOW and DESCRIBE
        a table, EXPLAIN a text.
        """
        return run_statements(self, text)

    def stream(
        self, name: str, schema: pa.Schema, time: str | None = None, bounded: bool = False
    ) -> Stream:
        """Declare a stream by an Arrow schema; ``time`` is its time attribute."""
        stream = Stream.of(name, schema, time, bounded)
        self.feed([CreateStream(stream)])
        return stream

    def install(
        self,
        sql: str,
        name: str | None = None,
        order: str | None = None,
        kernel: str | None = None,
        *,
        flow: str | None = None,
        cores: int | None = None,
        branching: int | None = None,
        precision: int | None = None,
        admission: str | None = None,
    ) -> Query[Placed]:
        """Start a query, with empty windows, exactly here in the input.

        The options are those of the embedded engine. The flow here is ``splitjoin``, and what only
        other flows have is refused with the reason.
        """
        choice = FlowChoice(flow, cores, branching, precision, admission)
        with self._lock:
            while name is None:
                self._recorder.names += 1
                name = self._registry.free_name(f"q{self._recorder.names}")
            self.feed([Install(name, sql, order, kernel, choice)])
            return self._registry.queries[name.lower()]

    def change(self, name: str, sql: str) -> None:
        """Give a running query another text."""
        self.feed([Change(name, sql)])

    def drop(self, name: str) -> None:
        """Stop a query, or forget a derived stream that nobody reads."""
        self.feed([Drop(name)])

    def reset(self) -> None:
        """Forget every query and every stream, exactly here in the input."""
        self.feed([Reset()])

    def explain(
        self,
        sql: str,
        kernel: str | None = None,
        *,
        order: str | None = None,
        flow: str | None = None,
        cores: int | None = None,
        branching: int | None = None,
        precision: int | None = None,
        admission: str | None = None,
    ) -> str:
        """The plan, program, kernel and flow of a query over the streams there are."""
        choice = FlowChoice(flow, cores, branching, precision, admission)
        return self._explain(sql, order, kernel, choice)

    def _explain(self, sql: str, order: str | None, kernel: str | None, choice: FlowChoice) -> str:
        plan = self._registry.plan(sql, order, choice)
        return explain_plan(plan, kernel, choice, self.cores)

    # -- input ------------------------------------------------------------------------------

    def push(self, stream: str, data: object) -> None:
        """Append tuples to a stream, in arrival order; returns once they are in the log.

        ``data``: an Arrow table or batch, a pandas or Polars frame, a list of dicts. A record that
        does not fit the stream's types becomes a dead letter; the others go on.
        """
        self.feed(to_batches(self._registry.stream(stream), data))

    def punctuate(self, stream: str, value: object, attribute: str | None = None) -> None:
        """Promise that no further tuple of the stream is before ``value``."""
        self.feed([to_punctuation(self._registry.stream(stream), value, attribute)])

    def end(self, stream: str | None = None) -> None:
        """End a stream, or all of them."""
        with self._lock:
            names = [stream] if stream is not None else self._registry.open_streams()
            self.feed([End(name) for name in names])

    def feed(self, events: Iterable[Event | Instruction]) -> None:
        """Append events and instructions to the log, in arrival order.

        One that is refused is not in the log, nor is anything after it; what came before it is.
        """
        taken = 0
        with self._lock:
            self._check_alive()
            frames: list[Frame] = []
            try:
                for piece in pieces(events, min(self.batch_rows, self.rows_per_trigger)):
                    if piece.instruction is None:
                        self._wait_for_drain(taken)
                        self._wait_for_cores(taken, len(frames))
                    frames.extend(self._recorder.record(piece))
                    taken += piece.records
                    if sum(frame.count for frame in frames) >= self.rows_per_trigger:
                        self._recorder.append(frames)
                        frames = []
            finally:
                self._recorder.append(frames)

    def _wait_for_drain(self, taken: int) -> None:
        """Wait while a query holds more than its buffer; it is an error if nobody drains it."""
        for query in self._registry.queries.values():
            if query._is_full() and not query._wait_for_room(self.push_timeout):
                raise query._full_error(self.push_timeout, taken)

    def _wait_for_cores(self, taken: int, unwritten: int) -> None:
        """Wait while the log is too far ahead of the cores.

        What is not written yet the cores cannot take, so nobody waits for that.
        """
        enough = self.position - self.backlog_rows
        if unwritten or self.wait_for(enough, self.push_timeout):
            return
        raise BufferFull(
            f"the cores are at position {self._progress.position} and the log at {self.position}, "
            f"after {self.push_timeout:g} seconds; {taken} tuples of this push were taken",
            "Push the rest more slowly, or connect with more cores, a larger backlog_rows or a "
            "larger push_timeout.",
            taken,
        )

    def wait_for(self, position: int, timeout: float) -> bool:
        """Wait until everything before ``position`` is processed; False if that takes longer."""
        until = time.monotonic() + timeout
        while not self._progress.wait_for(position, min(_LOOK_AGAIN, until - time.monotonic())):
            self._check_alive()
            if time.monotonic() >= until:
                return False
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until what was pushed is processed; :class:`QueryFailed` if a query has failed."""
        position = self.position
        if not self.wait_for(position, math.inf if timeout is None else timeout):
            raise EngineFailure(
                f"after {timeout:g} seconds the cores are at position "
                f"{self._progress.position} of {position}",
                "Wait longer, or push less at a time.",
            )
        failures = [q.failure for q in self._registry.queries.values() if q.failure is not None]
        if failures:
            raise failures[0]

    def made(self, since: int = 0) -> Iterator[Batch]:
        """The micro-batches from number ``since`` on that have come by now: see keep_results."""
        if not isinstance(self._deliveries, Keeping):
            raise InputError(
                "this engine hands its results to the handles of its queries",
                "Use their rows(), or connect with keep_results=True.",
            )
        return self._deliveries.opened(since)

    def forget(self, before: int) -> None:
        """Delete the micro-batches below number ``before``: nobody will ask :meth:`made` again."""
        if isinstance(self._deliveries, Keeping):
            self._deliveries.forget(before)

    def save(self, path: str | Path) -> None:
        """Refused: the checkpoint is the saved state."""
        raise InputError(
            f"an engine on Spark is not saved to a file such as {path}",
            "Connect with checkpoint=FOLDER; another engine with that folder goes on.",
        )

    def _go_on(self) -> None:
        """Somebody has drained a query."""
        self._deliveries.tidy()

    def _check_alive(self) -> None:
        if self._closed:
            raise InputError("the engine is closed", "Connect a new one: ps.connect('spark').")
        failure: PenstockError | None = self._resident.failure()
        if failure is not None:
            raise failure
