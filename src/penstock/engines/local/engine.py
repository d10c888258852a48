"""The embedded engine: streams in, queries over them, rows out, inside one process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict

import pyarrow as pa

from penstock.blocks.contract import Site
from penstock.engines.local.single_pushes import SinglePushes, at_work
from penstock.engines.shared.engine import (
    change_query,
    check_limits,
    declare_stream,
    engine_html,
    install_query,
    run_statements,
    show_engine,
    warn_of,
)
from penstock.engines.shared.input_slices import Event, InputSlice, slices
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.placed_network import network_maker
from penstock.engines.shared.processing import Processing, Work
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.silent_windows import warn_of_silent_windows
from penstock.engines.shared.sql_compiler import SqlCompiler, check_program
from penstock.errors import BufferFull, InputError, MemoryLimit, PenstockError, QueryFailed
from penstock.flows.network.inline import Inline
from penstock.flows.network.network import Driver, Network
from penstock.kernels.dict_rows import DictRows
from penstock.processor.fqp.processor import Processor
from penstock.processor.query_assigner.query_assigner import QueryAssigner
from penstock.processor.topology.load import load_topology
from penstock.processor.topology.topology import Topology
from penstock.program.choose.explain import Explanation, ExplanationParts
from penstock.program.choose.flow import explain_flow, warnings_of
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import (
    Admission,
    DesignName,
    Flow,
    FlowChoice,
    FlowName,
    Order,
    ProbeOrderName,
)
from penstock.program.isa.instructions import Drop, Instruction, Reset
from penstock.program.isa.kernels import Kernel
from penstock.signals import uninterrupted
from penstock.sql.bind.catalog import Catalog
from penstock.streams.convert import PushData, to_batches
from penstock.streams.events import End, Merged, Tuples
from penstock.streams.lead import Lead
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream


class LocalOptions(TypedDict, total=False):
    """The options of the embedded :class:`Engine`, for callers that pass them on."""

    batch_rows: int
    buffer_rows: int
    push_timeout: float
    window_memory: int | None
    compile_predicates: bool
    windows_required: bool
    order_column: str | None
    topology: Topology | str | Path | None


class Engine:
    """Streams and queries in one process.

    Parameters
    ----------
    batch_rows
        How many tuples are processed at once. The rows do not depend on it.
    buffer_rows
        How many rows (and late tuples, and dead letters) a query buffers for its user. When it
        holds more, ``push`` waits until the query is drained.
    push_timeout
        How many seconds ``push`` waits before it gives up with :class:`BufferFull`.
    window_memory
        The memory limit for the windows of one query, in bytes; None: no limit.
    compile_predicates
        False runs the generated loops of joins as plain Python instead of compiling them: no
        compile time at the start, but the interpreter makes every comparison.
    windows_required
        False lets a join of bounded streams do without window clauses.
    order_column
        The column that tells the time of a stream for which a query names none.
    topology
        The topology that queries stand on: a preset such as ``fqp:chain:4``, the path of a TOML
        file, or a Topology. None: every query has the blocks that it needs.

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
        topology: Topology | str | Path | None = None,
    ) -> None:
        limits = {"batch_rows": batch_rows, "buffer_rows": buffer_rows}
        limits |= {} if window_memory is None else {"window_memory": window_memory}
        check_limits(limits, push_timeout)
        self.batch_rows = batch_rows
        self.buffer_rows = buffer_rows
        self.push_timeout = push_timeout
        self.window_memory = window_memory
        self.compile_predicates = compile_predicates
        # What runs the blocks of the queries installed from here on; tests give other drivers.
        self._drive: Callable[[Network], Driver] = Inline
        self._compiler = SqlCompiler(windows_required, order_column)
        self.topology = None if topology is None else load_topology(topology)
        self._processor = None if self.topology is None else Processor(self.topology, self._drive)
        self._registry: Registry[Query[Pipeline]] = Registry(
            self._installed,
            compile=self._compiler.program,
            assigner=None if self.topology is None else QueryAssigner(self.topology),
        )
        self._processing = Processing(self._registry, self._processor)
        self._dict_rows = DictRows()
        self._failures: list[QueryFailed] = []
        self._single_pushes = SinglePushes(
            self._registry, self._processing, window_memory, self._failures
        )
        self._lock = threading.RLock()
        self._agenda: deque[Work[Query[Pipeline]]] = deque()
        self._closed = False

    def __repr__(self) -> str:
        return show_engine("local", self._closed, self._registry, [f"position {self.position:,}"])

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
        self._close(kind is None)

    def close(self) -> None:
        """Drop every query and refuse further input. Buffered results can still be drained.

        The rest of a push that ended with :class:`BufferFull` is not processed.
        """
        self._close(True)

    def _close(self, completed: bool) -> None:
        """Close the engine; ``completed``: after all pending rows are made."""
        with self._lock:
            if self._closed:
                return
            try:
                if completed:
                    self._complete_for_close()
            finally:
                uninterrupted(self._let_go)

    def _let_go(self) -> None:
        """Refuse further input, and end the threads of flows."""
        self._closed = True
        self._agenda.clear()
        for query in self._registry.queries.values():
            query.pipeline.close()

    def _complete_for_close(self) -> None:
        """Process the rest of the input without waiting for room in buffers; no row is lost."""
        if self._single_pushes.left:
            self._single_pushes.finish()
        if self._agenda:
            self._go_on()
            return
        work = self._processing.complete()
        while not work.done:
            uninterrupted(partial(self._processing.advance, work))
        for failure in work.failures:
            raise failure

    @property
    def queries(self) -> dict[str, Query[Pipeline]]:
        """The running queries and derived streams by name, oldest first."""
        return {query.name: query for query in list(self._registry.queries.values())}

    @property
    def dropped(self) -> list[Query[Pipeline]]:
        """Dropped queries that still have undrained results."""
        undrained = [query for query in self._registry.dropped if query.undrained]
        self._registry.dropped = undrained
        return list(undrained)

    @property
    def registry(self) -> Registry[Query[Pipeline]]:
        """The streams and queries, and the punctuations and ends of the streams."""
        return self._registry

    @property
    def catalog(self) -> Catalog:
        """The streams, derived ones included."""
        return self._compiler.catalog(self._registry.streams)

    @property
    def position(self) -> int:
        """The position of the next event, after those that an interrupted call has left to do."""
        waiting = [work for work in list(self._agenda) if work.is_taken and not work.begun]
        left = sum(work.piece.positions for work in waiting if work.piece is not None)
        return self._processing.position + left + self._single_pushes.left

    @property
    def ignored_punctuations(self) -> int:
        """The number of punctuations that went back and were ignored."""
        return self._processing.punctuation_order.count

    def _installed(self, name: str, program: Program, derived: bool, flow: Flow) -> Query[Pipeline]:
        """Create the handle of a new query, and warn of windows that cannot close."""
        warn_of_silent_windows(self._registry, name, program)
        return self._new_query(name, program, derived, flow)

    def _new_query(self, name: str, program: Program, derived: bool, flow: Flow) -> Query[Pipeline]:
        site = Site(flow, compiles=self.compile_predicates, is_read=derived)
        sheds = flow.admission == "shed"
        network = network_maker(self._processor, name if derived else None, self._drive)
        pipeline = Pipeline(program, site, network)
        return Query(self, name, pipeline, derived, self.buffer_rows, sheds)

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
    ) -> Query[Pipeline]:
        """Start a query, with empty windows, exactly here in the input.

        Parameters
        ----------
        sql
            A SELECT, or several with UNION ALL; or a program, over streams that are there.
        name
            Its name in ``engine.queries`` and in messages; None: q1, q2, and so on.
        order
            ``none``, ``outer`` or ``inner``; None: as EMIT ORDER says.
        kernel
            Forces ``nested-loop``, ``hash``, ``band`` or ``sorted`` of its joins; ``panes`` or
            ``wid`` of its aggregates. None: the planner chooses.
        flow
            How cores share its joins: ``three-step``, ``shared``, ``splitjoin``, ``celljoin``,
            ``handshake`` or ``low-latency-handshake``; ``chain-as-published`` gives other rows.
            None: ``three-step`` on one core; with ``cores`` ``shared``, or ``splitjoin`` for outer,
            semi and anti joins.
        cores
            How many cores share them; alone, it also divides the batches of an aggregate that reads
            a stream. None: 1, or those of the machine if a flow is asked for.
        branching
            How many ways the distribution tree of ``splitjoin`` branches; None: 8.
        precision
            As in EMIT ORDER, which it overrides; None: as that says.
        admission
            ``wait`` (None): while its output is full, ``push`` waits. ``shed``: its input is
            dropped and counted.
        design
            How a join of three and more streams is run: ``mjoin`` and ``cascade`` on one core,
            ``shared`` and ``parallel`` on any number, ``stashed``, ``circular`` and ``linear`` as
            pipelines; ``parallel-as-published`` loses rows. None, ``auto``: ``shared`` with
            ``cores``, else ``mjoin`` or ``cascade`` by estimates, revised while it runs.
        probe_order
            How such a join orders its probes: ``measured`` (None) by the predicate and by match
            rates, ``fixed`` by the places in FROM, around from each stream, as the hardware does.
        stash
            How many pairs the stash of ``stashed`` has room for; None: by the windows, at most
            4,096.
        """
        choice = FlowChoice(
            flow, cores, branching, precision, admission, design, probe_order, stash
        )
        check_program(sql, kernel)
        with self._lock:
            query: Query[Pipeline] = install_query(self, sql, name, order, kernel, choice)
        warn_of(query.name, warnings_of(query.program))
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
        return self._explain(sql, order, kernel, choice).text

    def _explain(
        self, sql: str | Program, order: str | None, kernel: str | None, choice: FlowChoice
    ) -> ExplanationParts:
        plan, program = self._compiler.planned(sql, self._registry.streams, order, kernel, choice)
        program, placed = self._registry.as_placed(program)
        flow = self._registry.decide(program)
        said = (explain_flow(flow, program), *placed)
        return ExplanationParts(plan, program, flow, said)

    # -- input ------------------------------------------------------------------------------

    def push(self, stream: str, data: PushData) -> None:
        """Append tuples to a stream, in arrival order.

        Parameters
        ----------
        stream
            The stream's name, without regard to case.
        data
            A pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame,
            anything else with ``__arrow_c_stream__``, or a list of dicts, in which a missing key is
            NULL. Columns are found by name. A record that does not fit the stream's types becomes a
            dead letter; the others go on.

        Raises
        ------
        BufferFull
            A query's output was full for ``push_timeout`` seconds; ``taken`` says how many tuples
            were taken.
        MemoryLimit
            The windows of a query would need more than ``window_memory``.
        QueryFailed
            A query fails by these tuples; all others have taken them.
        InputError
            The data cannot be read at all, or lacks a column; nothing was taken.
        """
        with self._lock:
            idle = not self._agenda and not self._closed
            if idle and self._single_pushes.take(stream, data):
                return
        known = self._stream(stream)
        rows = self._dict_rows.batch(known, data) if isinstance(data, list) else None
        whole = None if rows is None else [Tuples(known.name, rows)]
        self.feed(whole or to_batches(known, data, dictionaries=True))

    def punctuate(self, stream: str, value: object, attribute: str | None = None) -> None:
        """Send a punctuation: no further tuple of the stream is before ``value``."""
        self.feed([to_punctuation(self._stream(stream), value, attribute)])

    def _stream(self, name: str) -> Stream:
        """A stream, which the rest of an interrupted call may have yet to create."""
        with self._lock:
            if self._agenda and not self._closed:
                self._finish_earlier()
            return self._registry.stream(name)

    def end(self, stream: str | None = None) -> None:
        """End a stream, or all of them."""
        with self._lock:
            if not self._closed:
                self._finish_earlier()
            names = [stream] if stream is not None else self._registry.open_streams()
            self.feed([End(name) for name in names])

    def wait(self, timeout: float | None = None) -> None:
        """Return when every row of what was pushed has been made.

        Here, only the flow handshake and an interrupted push have rows left to make. ``timeout`` is
        for engines that process in the background.
        """
        with self._lock:
            if not self._closed:
                self._finish_earlier()
                self._agenda.append(self._processing.complete())
                self._finish(0)
            self._raise_failure()

    def feed(self, events: Iterable[Event | Instruction]) -> None:
        """Take events and instructions, in arrival order; each gets the next position.

        A list is taken as a push is. An iterator is read one slice at a time, and each slice that
        was read is taken.
        """
        with self._lock:
            if self._closed:
                raise InputError("the engine is closed", "Connect a new one: ps.connect('local').")
            self._single_pushes.expect_changes()
            self._finish_earlier()
            if isinstance(events, list | tuple):
                self._take(list(slices(events, self.batch_rows)), 0)
            else:
                taken = 0
                for piece in slices(events, self.batch_rows):
                    self._take([piece], taken)
                    taken += piece.records
            self._raise_failure()

    def _take(self, those: list[InputSlice], before: int) -> None:
        """Process slices; ``before`` is the number of records that the call has taken before."""
        works: list[Work[Query[Pipeline]]] = []
        works += [Work(piece, works) for piece in those]
        self._agenda.extend(works)
        try:
            self._finish(before)
        except PenstockError:
            self._agenda = deque(work for work in self._agenda if work.begun)
            raise

    def _finish_earlier(self) -> None:
        """Finish the work of an earlier call that was interrupted or met a full output."""
        self._single_pushes.finish()
        while self._agenda and not self._agenda[-1].is_taken:
            self._agenda.pop()  # it was interrupted before it had begun
        try:
            self._finish(0)
        except BufferFull:
            raise
        except PenstockError as error:
            # The call that brought them has ended with another error: count them here.
            refused = [work.piece for work in self._agenda if not work.begun and work.piece]
            lost = sum(piece.records for piece in refused)
            self._agenda = deque(work for work in self._agenda if work.begun)
            if not isinstance(error, MemoryLimit):
                raise
            raise MemoryLimit(
                f"{error.what}; what arrives is the rest of a push that was interrupted, and the "
                f"{lost} tuples that are left of it are given up",
                error.remedy,
                0,
            ) from None

    def _finish(self, taken: int) -> None:
        """Process the agenda, waiting for room where a query's output is full."""
        while self._agenda:
            work = self._agenda[0]
            if not work.begun:
                self._admit(work, taken)
                taken += 0 if work.piece is None else work.piece.records
            while not work.done:
                if work.full is not None:
                    self._wait_for(work.full, taken)
                uninterrupted(partial(self._advance, work))
            self._put_away(work)

    def _put_away(self, work: Work[Query[Pipeline]]) -> None:
        """Remove a finished work; a signal handler may have used the engine since."""
        if self._agenda and self._agenda[0] is work:
            self._failures += work.failures
            work.failures = []
            self._agenda.popleft()
            work.release()

    def _advance(self, work: Work[Query[Pipeline]]) -> None:
        """Advance a work until a query's output is full, or until it is done."""
        if work.is_running:
            raise at_work()
        if work.piece is not None and work.piece.instruction is not None:
            self._single_pushes.forget()
        self._processing.advance(work)

    def _admit(self, work: Work[Query[Pipeline]], taken: int) -> None:
        """Wait until there is room for the output of a work, or refuse it."""
        if work.piece is None:
            return
        self._check(work.piece, taken)
        if work.piece.instruction is None:
            for query in self._registry.queries.values():
                self._wait_for(query, taken)
            # The next step takes the slice; nothing can refuse it in between.
            work.piece, self._registry.furthest = self._registry.within_lead(work.piece)

    def _raise_failure(self) -> None:
        """Raise the failure of a query; all other queries have taken the input."""
        if self._failures:
            failure = self._failures[0]
            del self._failures[:]
            raise failure

    def _wait_for(self, query: Query[Pipeline], taken: int) -> None:
        """Wait until the query has room, at most ``push_timeout`` seconds."""
        if query._is_full() and not query._wait_for_room(self.push_timeout):
            raise query._full_error(self.push_timeout, taken)

    def _go_on(self) -> None:
        """A query was drained: use the room for works that are not finished."""
        left = self._agenda or self._single_pushes.left
        if not left or not self._lock.acquire(blocking=False):
            return
        try:
            if self._single_pushes.left:
                self._single_pushes.finish()
            self._go_on_while_there_is_room()
        finally:
            self._lock.release()

    def _go_on_while_there_is_room(self) -> None:
        while self._agenda:
            work = self._agenda[0]
            if not work.is_taken or (not work.begun and not self._has_room_for(work)):
                return
            while not work.done:
                if work.full is not None and work.full._is_full():
                    return
                uninterrupted(partial(self._advance, work))
            self._put_away(work)

    def _has_room_for(self, work: Work[Query[Pipeline]]) -> bool:
        """Whether a work can begin now."""
        if any(query._is_full() for query in self._registry.queries.values()):
            return False
        try:
            if work.piece is not None:
                self._check(work.piece, 0)
        except PenstockError:
            return False  # the next call that brings input raises the error
        return True

    def _check(self, piece: InputSlice, taken: int) -> None:
        """Refuse a slice before anything of it is taken."""
        self._registry.check(piece)
        if self.window_memory is not None and piece.tuples:
            check_memory(self._registry, piece, taken, self.window_memory)

    # -- state ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write streams, programs, windows and undrained results to a file."""
        from penstock.engines.local.state import as_path, save

        with self._lock:
            self.wait()
            uninterrupted(partial(save, self, as_path(path)))


def check_memory(
    registry: Registry[Query[Pipeline]], piece: InputSlice, taken: int, limit: int
) -> None:
    """Refuse a slice that would make the windows of a query pass the memory limit.

    The memory that an aggregate will need is not known in advance: its input is refused once it has
    passed the limit.
    """
    sizes = _sizes(piece)
    for query in registry.queries.values():
        pipeline = query.pipeline
        holds = {traits.holds for traits in pipeline.traits}
        if holds == {None}:
            continue
        arriving = sum(sizes.get(name, 0) for name in registry.sources(query))
        held = pipeline.nbytes
        if not arriving or (held + arriving if "tuples" in holds else held) <= limit:
            continue
        if "tuples" not in holds:
            raise MemoryLimit(
                f"the panes and groups of query {query.name!r} hold {held} bytes, more than the "
                f"limit of {limit}; {taken} tuples of this push were taken",
                "Make its windows smaller with change(), or connect with a larger window_memory; "
                "then push the rest.",
                taken,
            )
        raise MemoryLimit(
            f"the windows of query {query.name!r} hold {held} bytes; with the {arriving} bytes "
            f"that arrive they would pass the limit of {limit}; {taken} tuples of this push were "
            "taken",
            "Make its windows smaller with change(), or connect with a larger window_memory; then "
            "push the rest.",
            taken,
        )


def _sizes(piece: InputSlice) -> dict[str, int]:
    """The number of bytes that arrive, by stream."""
    sizes: dict[str, int] = {}
    for event in piece.events:
        if isinstance(event, Tuples):
            name = event.stream.lower()
            sizes[name] = sizes.get(name, 0) + event.batch.nbytes
        elif isinstance(event, Merged):
            for stream, batch in zip(event.streams, event.batches, strict=True):
                sizes[stream.lower()] = sizes.get(stream.lower(), 0) + batch.nbytes
    return sizes
