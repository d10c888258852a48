"""The Spark engine: streams in, queries over them, rows out, by one Structured Streaming query.

Everything that is pushed, instructions too, is appended to a log on disk, and the Spark query reads
the log. Instructions are checked here before they are written, against a registry like that of the
cores, so the cores never receive one that they would have to refuse.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from penstock.engines.shared.engine import (
    change_query,
    check_limits,
    declare_stream,
    engine_html,
    install_query,
    run_statements,
    show_engine,
)
from penstock.engines.shared.input_slices import Event, InputSlice, slices
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.sql_compiler import SqlCompiler, check_program
from penstock.engines.spark.core.frames import Frame
from penstock.engines.spark.core.output_batch import Batch
from penstock.engines.spark.core.trigger import CoreOptions
from penstock.engines.spark.flow import check_carried, decide_on_spark
from penstock.engines.spark.resident.checkpoint import Checkpoint
from penstock.engines.spark.resident.delivery import Deliveries, StoredBatches
from penstock.engines.spark.resident.distribution import explain_on_cores, warn_of_idle_cores
from penstock.engines.spark.resident.query import RemoteBlocks
from penstock.engines.spark.resident.recorder import Recorder, warn_of_installed
from penstock.engines.spark.resident.streaming_query import Resident
from penstock.engines.spark.session import Session, open_session
from penstock.engines.spark.uninterrupted import awaited, done_whole, settle
from penstock.errors import BufferFull, EngineFailure, InputError, PenstockError
from penstock.processor.query_assigner.query_assigner import QueryAssigner
from penstock.processor.topology.load import load_topology
from penstock.processor.topology.topology import Topology
from penstock.program.choose.explain import Explanation, ExplanationParts
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import (
    Admission,
    DesignName,
    FlowChoice,
    FlowName,
    Order,
    ProbeOrderName,
)
from penstock.program.isa.instructions import Drop, Instruction, Reset
from penstock.program.isa.kernels import Kernel
from penstock.sql.bind.catalog import Catalog
from penstock.streams.convert import PushData, to_batches
from penstock.streams.display import counted
from penstock.streams.events import End
from penstock.streams.lead import Lead
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream
from penstock.tuning import TUNING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkOptions(TypedDict, total=False):
    """The options of the Spark :class:`Engine`, for callers that pass them on."""

    master: str | None
    checkpoint: str | Path | None
    cores: int
    rows_per_trigger: int
    backlog_rows: int
    keep_results: bool
    batch_rows: int
    buffer_rows: int
    push_timeout: float
    compile_predicates: bool
    windows_required: bool
    order_column: str | None
    topology: Topology | str | Path | None


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
    topology
        As in the embedded engine. Each of its branches is in one of the cores.
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
        topology: Topology | str | Path | None = None,
    ) -> None:
        limits = {
            "cores": cores,
            "rows_per_trigger": rows_per_trigger,
            "backlog_rows": backlog_rows,
            "batch_rows": batch_rows,
            "buffer_rows": buffer_rows,
        }
        check_limits(limits, push_timeout)
        self.cores = cores
        self.rows_per_trigger = rows_per_trigger
        self.backlog_rows = backlog_rows
        self.batch_rows = batch_rows
        self.buffer_rows = buffer_rows
        self.push_timeout = push_timeout
        self._lock = threading.RLock()
        self._closed = False
        self._rest: deque[InputSlice] = deque()
        self._frames: list[Frame] = []
        settle()
        self.topology = None if topology is None else load_topology(topology)
        if self.topology is not None and cores > len(self.topology.branches):
            warn_of_idle_cores(self.topology, cores)
        folder = None if checkpoint is None else Path(checkpoint)
        self._checkpoint = Checkpoint(folder, cores, self.topology)
        self._compiler = SqlCompiler(windows_required, order_column)
        self._registry: Registry[Query[RemoteBlocks]] = Registry(
            lambda *query: self._recorder.new_query(*query),
            lambda program: decide_on_spark(program, cores),
            self._compiler.program,
            None if self.topology is None else QueryAssigner(self.topology),
        )
        self._recorder = Recorder(self, self._registry, self._checkpoint, buffer_rows)
        with ExitStack() as undo:
            undo.callback(self._checkpoint.close)
            self._recorder.recover()
            files = self._checkpoint.results
            self._deliveries: Deliveries | StoredBatches = (
                StoredBatches(files, cores)
                if keep_results
                else Deliveries(files, self._recorder.handles, cores)
            )
            self._progress = self._deliveries.progress
            host = CoreOptions(
                self._checkpoint.id,
                cores,
                batch_rows=batch_rows,
                compile_predicates=compile_predicates,
                topology=self.topology,
            )
            undo.pop_all()
        self._session, self._resident = awaited(
            lambda: self._begin(master, session, host), lambda begun: self._end(*begun)
        )

    def _begin(
        self, master: str | None, session: SparkSession | None, host: CoreOptions
    ) -> tuple[Session, Resident]:
        """Open the session and start the Spark query."""
        with ExitStack() as undo:
            undo.callback(self._checkpoint.close)
            opened = open_session(self.cores, master, session)
            undo.callback(opened.close)
            resident = Resident(
                opened.spark,
                self._checkpoint,
                host,
                self.rows_per_trigger,
                self._take,
            )
            undo.pop_all()
        return opened, resident

    def _end(self, session: Session, resident: Resident) -> None:
        """Stop the Spark query, and leave the session and the checkpoint."""
        with ExitStack() as each:
            each.callback(self._checkpoint.close)
            each.callback(session.close)
            resident.stop()
            self._checkpoint.spark_files.note(self._deliveries.batches - 1)

    def __repr__(self) -> str:
        figures = [counted(self.cores, "core"), f"position {self.position:,}"]
        figures.append(f"processed up to {self.progress:,}")
        return show_engine("spark", self._closed, self._registry, figures)

    def _repr_html_(self) -> str:
        return engine_html(repr(self), self._registry)

    @property
    def closed(self) -> bool:
        """Whether it takes no further input."""
        return self._closed

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
            try:
                if self._frames:  # an interrupt came before they were written
                    done_whole(self._write)
            finally:
                awaited(lambda: self._end(self._session, self._resident), lambda ended: None)

    @property
    def registry(self) -> Registry[Query[RemoteBlocks]]:
        """The streams and queries, and the punctuations and ends of the streams."""
        return self._registry

    @property
    def queries(self) -> dict[str, Query[RemoteBlocks]]:
        """The running queries and derived streams by name, oldest first."""
        return {query.name: query for query in self._registry.queries.values()}

    @property
    def dropped(self) -> list[Query[RemoteBlocks]]:
        """Dropped queries that still have undrained results."""
        return [query for query in self._registry.dropped if query.undrained]

    @property
    def catalog(self) -> Catalog:
        """The streams, derived ones included."""
        return self._compiler.catalog(self._registry.streams)

    @property
    def position(self) -> int:
        """The position that the next event will have.

        After an interrupted push it tells whether the push counts: it has moved by all of it, or
        not at all.
        """
        return self._recorder.position + sum(piece.positions for piece in list(self._rest))

    @property
    def ignored_punctuations(self) -> int:
        """The number of ignored punctuations, which went back, since this engine connected."""
        return self._recorder.punctuation_order.count

    @property
    def run_id(self) -> str:
        """Spark's name for the run of the query; the same as long as this engine is open."""
        return self._resident.run_id

    @property
    def progress(self) -> int:
        """The position up to which all cores have processed the input."""
        return self._progress.position

    @property
    def batches(self) -> int:
        """The number of micro-batches over the whole life of the checkpoint."""
        return self._deliveries.batches

    @property
    def spark_version(self) -> str:
        """The version of Spark that the engine runs on."""
        return self._session.version

    # -- statements -------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run statements separated by ``;`` and return what the last one gives.

        A stream declaration gives None, a derived stream or a SELECT its handle, SHOW and DESCRIBE
        a table, EXPLAIN a text.
        """
        return run_statements(self, text)

    def stream(
        self,
        name: str,
        schema: pa.Schema,
        time: str | None = None,
        bounded: bool = False,
        max_lead: Lead | None = None,
    ) -> Stream:
        """Declare a stream by an Arrow schema; ``time`` is its time attribute.

        ``max_lead``: how far ahead of the largest time so far a tuple's time may be; one that is
        further ahead is a dead letter. A timedelta, or a number: of seconds for dates and
        timestamps.
        """
        return declare_stream(self, name, schema, time, bounded, max_lead)

    def install(
        self,
        sql: str | Program,
        name: str | None = None,
        order: Order | None = None,
        kernel: Kernel | None = None,
        *,
        flow: FlowName | None = None,
        cores: int | None = None,
        branching: int | None = None,
        precision: int | None = None,
        admission: Admission | None = None,
        design: DesignName | None = None,
        probe_order: ProbeOrderName | None = None,
        stash: int | None = None,
    ) -> Query[RemoteBlocks]:
        """Start a query, with empty windows, exactly here in the input.

        The options are those of the embedded engine, so that a script runs on both; what is not
        here is refused with the reason.

        Parameters
        ----------
        sql, name, order, kernel, precision, design, probe_order, stash
            As in the embedded engine.
        flow
            ``splitjoin``, which is what there is on Spark; None: the same.
        cores
            None: those of ``ps.connect``.
        branching
            Not on Spark.
        admission
            ``wait``, which is what there is on Spark; None: the same.
        """
        choice = FlowChoice(
            flow, cores, branching, precision, admission, design, probe_order, stash
        )
        check_program(sql, kernel)
        check_carried(sql, choice)
        with self._lock:
            query: Query[RemoteBlocks] = install_query(self, sql, name, order, kernel, choice)
        warn_of_installed(query)
        return query

    def change(self, name: str, sql: str | Program) -> None:
        """Give a running query another text, or another program."""
        change_query(self, name, sql)

    def drop(self, name: str) -> None:
        """Stop a query, or remove a derived stream that no query reads."""
        self.feed([Drop(name)])

    def reset(self) -> None:
        """Remove every query and every stream, exactly here in the input."""
        self.feed([Reset()])

    def explain(
        self,
        sql: str | Program,
        kernel: Kernel | None = None,
        *,
        order: Order | None = None,
        flow: FlowName | None = None,
        cores: int | None = None,
        branching: int | None = None,
        precision: int | None = None,
        admission: Admission | None = None,
        design: DesignName | None = None,
        probe_order: ProbeOrderName | None = None,
        stash: int | None = None,
    ) -> Explanation:
        """What a query with these options, those of :meth:`install`, would become, and why.

        The plan, the program, the kernel and the flow. Nothing is started.
        """
        choice = FlowChoice(
            flow, cores, branching, precision, admission, design, probe_order, stash
        )
        check_program(sql, kernel)
        check_carried(sql, choice)
        return self._explain(sql, order, kernel, choice).text

    def _explain(
        self, sql: str | Program, order: str | None, kernel: str | None, choice: FlowChoice
    ) -> ExplanationParts:
        plan, program = self._compiler.planned(sql, self._registry.streams, order, kernel, choice)
        self._registry.check_design(program)
        program, placed = self._registry.as_placed(program)
        return explain_on_cores(plan, program, self.cores, placed, self.topology)

    # -- input ------------------------------------------------------------------------------

    def push(self, stream: str, data: PushData) -> None:
        """Append tuples to a stream, in arrival order; returns once they are in the log.

        Parameters
        ----------
        stream, data
            As in the embedded engine.

        Raises
        ------
        BufferFull
            A query's output was full, or the cores were more than ``backlog_rows`` behind, for
            ``push_timeout`` seconds; ``taken`` says how many tuples were taken.
        InputError
            The data cannot be read at all, or lacks a column; nothing was taken.
        """
        self.feed(to_batches(self._registry.stream(stream), data))

    def punctuate(self, stream: str, value: object, attribute: str | None = None) -> None:
        """Send a punctuation: no further tuple of the stream is before ``value``."""
        self.feed([to_punctuation(self._registry.stream(stream), value, attribute)])

    def end(self, stream: str | None = None) -> None:
        """End a stream, or all of them."""
        with self._lock:
            names = [stream] if stream is not None else self._registry.open_streams()
            self.feed([End(name) for name in names])

    def feed(self, events: Iterable[Event | Instruction]) -> None:
        """Append events and instructions to the log, in arrival order.

        One that is refused is not in the log, nor is anything after it; what came before it is.
        After an interrupt (KeyboardInterrupt) ``position`` has moved past all of the events or past
        none. In the former case, what is not in the log yet is written by the next call of
        ``feed``, ``push`` or ``wait``.
        """
        with self._lock:
            self._check_alive()
            self._feed_rest()
            todo = list(slices(events, min(self.batch_rows, self.rows_per_trigger)))
            self._rest.extend(todo)  # all of them, or none
            self._feed_rest()

    def _feed_rest(self) -> None:
        """Take all waiting slices, and write them to the log.

        Slices and frames stay in the engine's own lists until they are taken and written, and no
        interrupt can come in between, so none is lost and none is taken twice.
        """
        taken = 0
        try:
            while self._rest:
                if self._rest[0].instruction is None:
                    self._wait_for_drain(taken)
                    self._wait_for_cores(taken, len(self._frames))
                taken += done_whole(self._take_piece)
        except Exception:
            self._rest.clear()
            raise
        finally:
            if self._frames:
                done_whole(self._write)

    def _take_piece(self) -> int:
        """Take the next slice, and write if there is enough; returns its number of tuples."""
        piece = self._rest.popleft()
        self._frames.extend(self._recorder.record(piece))
        if sum(frame.count for frame in self._frames) >= self.rows_per_trigger:
            self._write()
        return piece.records

    def _write(self) -> None:
        """Write the taken frames to the log."""
        frames, self._frames = self._frames, []
        self._recorder.append(frames)

    def _wait_for_drain(self, taken: int) -> None:
        """Wait while the output of a query is full, at most ``push_timeout`` seconds."""
        for query in self._registry.queries.values():
            if query._is_full() and not query._wait_for_room(self.push_timeout):
                raise query._full_error(self.push_timeout, taken)

    def _wait_for_cores(self, taken: int, unwritten: int) -> None:
        """Wait while the log is too far ahead of the cores.

        Input that is not written yet does not count: the cores cannot read it.
        """
        enough = self._recorder.position - self.backlog_rows
        if unwritten or self.wait_for(enough, self.push_timeout):
            return
        raise BufferFull(
            f"the cores are at position {self._progress.position} and the log at "
            f"{self._recorder.position}, "
            f"after {self.push_timeout:g} seconds; {taken} tuples of this push were taken",
            "Push the rest more slowly, or connect with more cores, a larger backlog_rows or a "
            "larger push_timeout.",
            taken,
        )

    def wait_for(self, position: int, timeout: float) -> bool:
        """Wait until everything before ``position`` is processed; False if that takes longer."""
        until, longest = time.monotonic() + timeout, TUNING.alive_check_interval
        while not self._progress.wait_for(position, min(longest, until - time.monotonic())):
            self._check_alive()
            if time.monotonic() >= until:
                return False
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until what was pushed is processed; :class:`QueryFailed` if a query has failed."""
        with self._lock:
            self._feed_rest()
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
        """The micro-batches from number ``since`` on: see keep_results."""
        if not isinstance(self._deliveries, StoredBatches):
            raise InputError(
                "this engine hands its results to the handles of its queries",
                "Use their rows(), or connect with keep_results=True.",
            )
        return self._deliveries.opened(since)

    def forget(self, before: int) -> None:
        """Delete the micro-batches below number ``before``, which :meth:`made` then lacks."""
        if isinstance(self._deliveries, StoredBatches):
            self._deliveries.forget(before)

    def save(self, path: str | Path) -> None:
        """Refused: the checkpoint is the saved state."""
        raise InputError(
            f"an engine on Spark is not saved to a file such as {path}",
            "Connect with checkpoint=FOLDER; another engine with that folder goes on.",
        )

    def _take(self, number: int, table: pa.Table) -> None:
        """Take a batch from Spark."""
        self._deliveries.take(number, table)
        self._checkpoint.spark_files.note(number)

    def _go_on(self) -> None:
        """Record drained rows; results can be drained after ``close`` too."""
        if not self._closed:
            self._deliveries.tidy()
            return
        with self._lock:  # until it is closed
            if not self._checkpoint.is_gone:
                with self._checkpoint.again():
                    self._deliveries.check_unchanged()
                    self._deliveries.tidy()

    def _check_alive(self) -> None:
        if self._closed:
            raise InputError("the engine is closed", "Connect a new one: ps.connect('spark').")
        if self._recorder.position != self._recorder.written and not self._frames:
            raise EngineFailure(
                f"the engine has come to position {self._recorder.position}, and its log ends at "
                f"{self._recorder.written}: a push was interrupted, or could not be written",
                "Connect again with the same checkpoint, and push again from the position on that "
                "the engine then has.",
            )
        failure: PenstockError | None = self._resident.failure()
        if failure is not None:
            raise failure
