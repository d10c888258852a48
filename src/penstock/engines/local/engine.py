"""The embedded engine: streams in, queries over them, rows out, inside one process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from penstock.engines.local.memory import check_memory
from penstock.engines.local.singles import Singles
from penstock.engines.shared.pieces import Event, Piece, pieces
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.processing import Processing
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.statements import run_statements
from penstock.errors import InputError, QueryFailed
from penstock.program.blocks import Program
from penstock.program.compile import compile_plan
from penstock.program.explain import explain
from penstock.program.flow_choice import Flow, FlowChoice
from penstock.program.flow_reason import explain_flow
from penstock.program.instructions import (
    Change,
    CreateStream,
    Drop,
    Install,
    Instruction,
    Reset,
)
from penstock.sql.catalog import Catalog
from penstock.streams.convert import to_batches
from penstock.streams.events import End
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream


class Engine:
    """Streams and queries in one process.

    Parameters
    ----------
    batch_rows
        How many tuples are processed at once. The rows do not depend on it.
    buffer_rows
        How many rows (and late tuples, and dead letters) a query holds for its user. When it holds
        more, ``push`` waits until somebody drains it.
    push_timeout
        How many seconds ``push`` waits before it gives up with :class:`BufferFull`.
    window_memory
        How many bytes the windows of one query may take; None: as many as they need.
    compile_predicates
        False evaluates join predicates without compiling them: slower in the long run, but nothing
        to wait for at the start.
    windows_required
        False lets a join of bounded streams do without window clauses.
    order_column
        The column that tells the time of a stream for which a query names none.

    >>> import penstock as ps
    >>> with ps.connect("local") as engine:
    ...     _ = engine.sql("CREATE STREAM R (id BIGINT, x INT)")
    ...     _ = engine.sql("CREATE STREAM S (id BIGINT, a INT)")
    ...     q = engine.install("SELECT r.id AS r, s.id AS s FROM R [ROWS 4] r JOIN S [ROWS 4] s "
    ...                        "ON r.x < s.a")
    ...     engine.push("R", [{"id": 1, "x": 10}])
    ...     engine.push("S", [{"id": 7, "a": 11}])
    ...     q.rows().to_pylist()
    [{'r': 1, 's': 7}]
    """

    def __init__(
        self,
        *,
        batch_rows: int = 65_536,
        buffer_rows: int = 1_048_576,
        push_timeout: float = 30.0,
        window_memory: int | None = None,
        compile_predicates: bool = True,
        windows_required: bool = True,
        order_column: str | None = None,
    ) -> None:
        limits = {"batch_rows": batch_rows, "buffer_rows": buffer_rows}
        limits |= {} if window_memory is None else {"window_memory": window_memory}
        for name, value in limits.items():
            if value < 1:
                raise InputError(f"{name} is {value}", "It must be 1 or more.")
        if push_timeout < 0:
            raise InputError(f"push_timeout is {push_timeout}", "It must be 0 or more seconds.")
        self.batch_rows = batch_rows
        self.buffer_rows = buffer_rows
        self.push_timeout = push_timeout
        self.window_memory = window_memory
        self.compile_predicates = compile_predicates
        self._registry: Registry[Query[Pipeline]] = Registry(
            windows_required, order_column, self._new_query
        )
        self._processing = Processing(self._registry)
        self._singles = Singles(self._registry, self._processing, window_memory)
        self._lock = threading.RLock()
        self._unfinished: Iterator[Query[Pipeline]] | None = None
        self._closed = False
        self._names = 0

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(kind is None)

    def close(self) -> None:
        """Drop every query and refuse further input. What was made can still be drained.

        What a push that ended with :class:`BufferFull` has left to do is given up.
        """
        self._close(True)

    def _close(self, completed: bool) -> None:
        """Close the engine; ``completed``: after making the rows that a flow has not found yet."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if completed and self._unfinished is None:
                    for _ in self._processing.complete():
                        pass  # nobody is waited for any more, and no row is lost
            finally:
                self._unfinished = None
                for query in self._registry.queries.values():
                    query.pipeline.close()

    @property
    def queries(self) -> dict[str, Query[Pipeline]]:
        """The running queries and derived streams by name, oldest first."""
        return {query.name: query for query in self._registry.queries.values()}

    @property
    def dropped(self) -> list[Query[Pipeline]]:
        """Queries that have been dropped and still hold something that nobody has drained."""
        held = [query for query in self._registry.dropped if query.undrained]
        self._registry.dropped = held
        return list(held)

    @property
    def registry(self) -> Registry[Query[Pipeline]]:
        """The streams and queries, and what is known of them."""
        return self._registry

    @property
    def catalog(self) -> Catalog:
        """The streams, derived ones included."""
        return self._registry.catalog

    @property
    def position(self) -> int:
        """The position that the next event will have."""
        return self._processing.position

    @property
    def ignored_punctuations(self) -> int:
        """How many punctuations said less than an earlier one."""
        return self._processing.backwards.count

    def _new_query(self, name: str, program: Program, derived: bool, flow: Flow) -> Query[Pipeline]:
        pipeline = Pipeline(program, self.compile_predicates, flow=flow, promises=derived)
        sheds = flow.admission == "shed"
        return Query(self, name, pipeline, derived, self.buffer_rows, sheds)

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
    ) -> Query[Pipeline]:
        """Start a query, with empty windows, exactly here in the input.

        Parameters
        ----------
        order, precision
            Override its EMIT ORDER.
        kernel
            Forces nested-loop, hash, band or sorted of its joins; panes or wid of its aggregates.
        flow, cores, branching
            How so many cores share its joins: three-step, shared, splitjoin (whose distribution
            tree branches so many ways), celljoin, handshake or low-latency-handshake. Cores alone
            also divide the batches of an aggregate that reads a stream.
        admission
            ``wait``: while its output is full, ``push`` waits. ``shed``: its input is dropped.
        """
        choice = FlowChoice(flow, cores, branching, precision, admission)
        with self._lock:
            while name is None:
                self._names += 1
                name = self._registry.free_name(f"q{self._names}")
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
        program = compile_plan(plan, kernel)
        flow = explain_flow(choice, self._registry.decide(choice, program), program)
        return f"{explain(plan, program)}\n{flow}"

    # -- input ------------------------------------------------------------------------------

    def push(self, stream: str, data: object) -> None:
        """Append tuples to a stream, in arrival order.

        :class:`QueryFailed` is raised if a query fails by them; all others have taken them.

        ``data``: an Arrow table or batch, a pandas or Polars frame, a list of dicts. A record that
        does not fit the stream's types becomes a dead letter; the others go on.
        """
        with self._lock:
            idle = self._unfinished is None and not self._closed
            if idle and self._singles.take(stream, data):
                return
        self.feed(to_batches(self._registry.stream(stream), data, dictionaries=True))

    def punctuate(self, stream: str, value: object, attribute: str | None = None) -> None:
        """Promise that no further tuple of the stream is before ``value``."""
        self.feed([to_punctuation(self._registry.stream(stream), value, attribute)])

    def end(self, stream: str | None = None) -> None:
        """End a stream, or all of them."""
        with self._lock:
            names = [stream] if stream is not None else self._registry.open_streams()
            self.feed([End(name) for name in names])

    def wait(self, timeout: float | None = None) -> None:
        """Return when every row of what was pushed has been made.

        Only the flow handshake has any left, since its tuples meet late. Engines elsewhere need the
        wait for all flows, and ``timeout`` is for them.
        """
        with self._lock:
            self._finish(0)
            if not self._closed:
                self._unfinished = self._processing.complete()
                self._finish(0)

    def feed(self, events: Iterable[Event | Instruction]) -> None:
        """Take events and instructions, in arrival order; each gets the next position."""
        taken = 0
        failure: QueryFailed | None = None
        with self._lock:
            if self._closed:
                raise InputError("the engine is closed", "Connect a new one: ps.connect('local').")
            self._singles.expect_changes()
            self._finish(taken)
            for piece in pieces(events, self.batch_rows):
                self._check(piece, taken)
                if piece.instruction is None:
                    for query in self._registry.queries.values():
                        self._wait_for(query, taken)
                else:
                    self._singles.forget()
                taken += piece.records
                self._unfinished = self._processing.execute(piece)
                try:
                    self._finish(taken)
                except QueryFailed as error:
                    failure = failure or error  # the other queries must not miss the rest
        if failure is not None:
            raise failure

    def _finish(self, taken: int) -> None:
        """Do the work under way, waiting for room where a query's output is full."""
        while self._unfinished is not None:
            full = self._resume(self._unfinished)
            if full is not None:
                self._wait_for(full, taken)

    def _wait_for(self, query: Query[Pipeline], taken: int) -> None:
        """Wait until the query has room; it is an error if nobody makes it in time."""
        if query._is_full() and not query._wait_for_room(self.push_timeout):
            raise query._full_error(self.push_timeout, taken)

    def _resume(self, work: Iterator[Query[Pipeline]]) -> Query[Pipeline] | None:
        """Go on until a query's output is full (then that query) or all is done (then None)."""
        try:
            return next(work)
        except StopIteration:
            self._unfinished = None
        except BaseException:
            self._unfinished = None
            raise
        return None

    def _go_on(self) -> None:
        """Somebody has drained: use the room for work that was given up half-way."""
        if self._unfinished is None or not self._lock.acquire(blocking=False):
            return
        try:
            while self._unfinished is not None:
                full = self._resume(self._unfinished)
                if full is not None and full._is_full():
                    break
        finally:
            self._lock.release()

    def _check(self, piece: Piece, taken: int) -> None:
        """Refuse a piece before anything of it is taken."""
        self._registry.check(piece)
        if self.window_memory is not None and piece.tuples:
            check_memory(self._registry, piece, taken, self.window_memory)

    # -- state ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write streams, programs, windows and undrained results to a file."""
        from penstock.engines.local.state import save

        with self._lock:
            self.wait()
            save(self, Path(path))
