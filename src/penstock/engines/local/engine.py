"""The embedded engine: streams in, queries over them, rows out, inside one process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.run import Control, Ended, Promise, Run, concatenate, empty_run
from penstock.engines.local.pieces import Event, Piece, pieces
from penstock.engines.local.pipeline import Pipeline
from penstock.engines.local.query import Letter, Query
from penstock.errors import BufferFull, InputError, MemoryLimit, PenstockError
from penstock.program.blocks import Program
from penstock.program.compile import check_change, compile_plan
from penstock.program.explain import explain
from penstock.program.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
)
from penstock.sql import statements
from penstock.sql.bind import bind
from penstock.sql.catalog import Catalog
from penstock.sql.parse import parse, parse_query
from penstock.sql.plan import Plan
from penstock.streams.convert import to_batches
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream, type_name


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
        if batch_rows < 1 or buffer_rows < 1:
            raise InputError(
                f"batch_rows is {batch_rows} and buffer_rows is {buffer_rows}",
                "Both must be 1 or more.",
            )
        self.batch_rows = batch_rows
        self.buffer_rows = buffer_rows
        self.push_timeout = push_timeout
        self.window_memory = window_memory
        self.compile_predicates = compile_predicates
        self.order_column = order_column
        self.catalog = Catalog(windows_required=windows_required)
        self.position = 0
        self.ignored_punctuations = 0
        self._queries: dict[str, Query] = {}
        self._dropped: list[Query] = []
        self._promises: dict[str, dict[int | None, Any]] = {}
        self._ended: set[str] = set()
        self._lock = threading.RLock()
        self._unfinished: Iterator[Query] | None = None
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
        self.close()

    def close(self) -> None:
        """Drop every query and refuse further input. What was made can still be drained."""
        with self._lock:
            self._closed = True
            self._unfinished = None

    @property
    def queries(self) -> dict[str, Query]:
        """The running queries and derived streams by name, oldest first."""
        return {query.name: query for query in self._queries.values()}

    @property
    def dropped(self) -> list[Query]:
        """Queries that have been dropped and still hold something that nobody has drained."""
        self._dropped = [query for query in self._dropped if query.undrained]
        return list(self._dropped)

    # -- statements -------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run statements separated by ``;`` and return what the last one gives.

        A stream declaration gives None, a derived stream or a SELECT its handle, SHOW and DESCRIBE
        a table, EXPLAIN a text.
        """
        result: Any = None
        for statement in parse(text):
            result = self._statement(statement)
        return result

    def _statement(self, statement: statements.Statement) -> Any:
        if isinstance(statement, statements.CreateStream):
            self.feed([CreateStream(statement.stream)])
            return None
        if isinstance(statement, statements.DeriveStream):
            self.feed([Derive(statement.name, statement.query.text)])
            return self._queries[statement.name.lower()]
        if isinstance(statement, statements.QueryText):
            return self.install(statement.text)
        if isinstance(statement, statements.ShowStreams):
            return _table([(s.name, repr(s)) for s in self.catalog], ("stream", "definition"))
        if isinstance(statement, statements.ShowQueries):
            return _table([(q.name, q.text) for q in self._queries.values()], ("query", "text"))
        if isinstance(statement, statements.Describe):
            return self._describe(statement.name)
        return self.explain(statement.query.text)

    def _describe(self, name: str) -> pa.Table:
        stream = self.catalog.get(name)
        query = self._queries.get(name.lower())
        if stream is None and query is None:
            raise self._unknown(name)
        schema = stream.schema if stream is not None else query.schema  # type: ignore[union-attr]
        return _table([(f.name, type_name(f.type)) for f in schema], ("column", "type"))

    def stream(
        self, name: str, schema: pa.Schema, time: str | None = None, bounded: bool = False
    ) -> Stream:
        """Declare a stream by an Arrow schema; ``time`` is its time attribute."""
        stream = Stream.of(name, schema, time, bounded)
        self.feed([CreateStream(stream)])
        return stream

    def install(self, sql: str, name: str | None = None, order: str | None = None) -> Query:
        """Start a query, with empty windows, exactly here in the input."""
        with self._lock:
            while name is None:
                self._names += 1
                made_up = f"q{self._names}"
                name = None if made_up in self._queries or made_up in self.catalog else made_up
            self.feed([Install(name, sql, order)])
            return self._queries[name.lower()]

    def change(self, name: str, sql: str) -> None:
        """Give a running query another text."""
        self.feed([Change(name, sql)])

    def drop(self, name: str) -> None:
        """Stop a query, or forget a derived stream that nobody reads."""
        self.feed([Drop(name)])

    def explain(self, sql: str) -> str:
        """The plan, program and kernel of a query over the streams there are."""
        plan = self._bind(sql)
        return explain(plan, compile_plan(plan))

    def _bind(self, sql: str) -> Plan:
        return bind(parse_query(sql), self.catalog, order_column=self.order_column)

    # -- input ------------------------------------------------------------------------------

    def push(self, stream: str, data: object) -> None:
        """Append tuples to a stream, in arrival order.

        ``data``: an Arrow table or batch, a pandas or Polars frame, a list of dicts. A record that
        does not fit the stream's types becomes a dead letter; the others go on.
        """
        self.feed(to_batches(self._stream(stream), data))

    def punctuate(self, stream: str, value: object, attribute: str | None = None) -> None:
        """Promise that no further tuple of the stream is before ``value``."""
        self.feed([to_punctuation(self._stream(stream), value, attribute)])

    def end(self, stream: str | None = None) -> None:
        """End a stream, or all of them."""
        with self._lock:
            names = [stream] if stream is not None else self._open_streams()
            self.feed([End(name) for name in names])

    def _open_streams(self) -> list[str]:
        derived = {query.name.lower() for query in self._queries.values() if query.derived}
        closed = derived | self._ended
        return [s.name for s in self.catalog if s.name.lower() not in closed]

    def feed(self, events: Iterable[Event | Instruction]) -> None:
        """Take events and instructions, in arrival order; each gets the next position."""
        taken = 0
        with self._lock:
            if self._closed:
                raise InputError("the engine is closed", "Connect a new one: ps.connect('local').")
            self._finish(taken)
            for piece in pieces(events, self.batch_rows):
                self._check(piece)
                if piece.instruction is None:
                    for query in self._queries.values():
                        self._wait_for(query, taken)
                taken += piece.records
                self._unfinished = self._execute(piece)
                self._finish(taken)

    def _finish(self, taken: int) -> None:
        """Do the work under way, waiting for room where a query's output is full."""
        while self._unfinished is not None:
            full = self._resume(self._unfinished)
            if full is not None:
                self._wait_for(full, taken)

    def _wait_for(self, query: Query, taken: int) -> None:
        """Wait until the query has room; it is an error if nobody makes it in time."""
        if query._is_full() and not query._wait_for_room(self.push_timeout):
            raise BufferFull(
                f"query {query.name!r} holds {query._waiting_rows} rows and "
                f"{query._waiting_letters} letters that nobody has drained in "
                f"{self.push_timeout:g} seconds; {taken} tuples of this push were taken",
                f"Call rows(), late() and dead_letters() of {query.name!r}, then push the rest; "
                "or connect with a larger buffer_rows or push_timeout.",
                taken,
            )

    def _resume(self, work: Iterator[Query]) -> Query | None:
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

    def _check(self, piece: Piece) -> None:
        """Refuse a piece before anything of it is taken."""
        for event in piece.events:
            for name in event.streams if isinstance(event, Merged) else (event.stream,):
                self._stream(name)
                if name.lower() in self._ended:
                    raise InputError(
                        f"stream {name} has ended",
                        "Push before end(); a stream that has ended stays so.",
                    )
        if self.window_memory is not None and piece.tuples:
            self._check_memory(piece)

    def _check_memory(self, piece: Piece) -> None:
        sizes: dict[str, int] = {}
        for event in piece.events:
            if isinstance(event, Tuples):
                sizes[event.stream.lower()] = (
                    sizes.get(event.stream.lower(), 0) + event.batch.nbytes
                )
            elif isinstance(event, Merged):
                for name, batch in zip(event.streams, event.batches, strict=True):
                    sizes[name.lower()] = sizes.get(name.lower(), 0) + batch.nbytes
        for query in self._queries.values():
            if not query.pipeline.joins:
                continue
            arriving = sum(sizes.get(name, 0) for name in self._sources(query))
            held = query.pipeline.nbytes
            if self.window_memory is not None and arriving and held + arriving > self.window_memory:
                raise MemoryLimit(
                    f"the windows of query {query.name!r} hold {held} bytes; with the "
                    f"{arriving} bytes that arrive they would pass the limit of "
                    f"{self.window_memory}",
                    "Make its windows smaller with change(), or connect with a larger "
                    "window_memory.",
                )

    def _sources(self, query: Query) -> set[str]:
        """The streams with tuples of their own that reach a query, directly or derived."""
        reached: set[str] = set()
        for scan in query.program.scans:
            name = scan.stream.name.lower()
            derived = self._queries.get(name)
            reached |= {name} if derived is None else self._sources(derived)
        return reached

    def _stream(self, name: str) -> Stream:
        stream = self.catalog.get(name)
        if stream is None:
            raise self._unknown(name)
        query = self._queries.get(name.lower())
        if query is not None and query.derived:
            raise InputError(
                f"stream {name} is derived; nothing can be pushed to it",
                f"Push to what it reads: {', '.join(s.stream.name for s in query.program.scans)}.",
            )
        return stream

    def _unknown(self, name: str) -> InputError:
        known = ", ".join(s.name for s in self.catalog) or "none yet"
        return InputError(
            f"unknown stream {name!r}",
            f"Create it first: CREATE STREAM {name} (...). Streams there are: {known}.",
        )

    # -- processing -------------------------------------------------------------------------

    def _execute(self, piece: Piece) -> Iterator[Query]:
        """Process a piece; yields a query whenever its output is full."""
        if piece.instruction is not None:
            position, self.position = self.position, self.position + 1
            try:
                yield from self._instruct(piece.instruction, position)
            except PenstockError:
                self.position = position  # an instruction that was refused never arrived
                raise
            return
        runs, dead = self._runs(piece.events)
        yield from self._process(runs, dead)

    def _runs(self, events: list[Event]) -> tuple[dict[str, Run], list[tuple[int, Malformed]]]:
        """One run per stream, and the records that are no tuples, with their positions."""
        batches: dict[str, list[tuple[pa.RecordBatch, np.ndarray[Any, Any]]]] = {}
        controls: dict[str, list[Control]] = {}
        dead: list[tuple[int, Malformed]] = []
        for event in events:
            start = self.position
            if isinstance(event, Tuples):
                self.position += len(event)
                span = np.arange(start, self.position, dtype=np.int64)
                batches.setdefault(event.stream.lower(), []).append((event.batch, span))
            elif isinstance(event, Merged):
                self.position += len(event)
                for i, (name, batch) in enumerate(zip(event.streams, event.batches, strict=True)):
                    span = start + np.flatnonzero(event.which == i)
                    batches.setdefault(name.lower(), []).append((batch, span))
            else:
                self.position += 1
                if isinstance(event, Malformed):
                    dead.append((start, event))
                else:
                    control = self._control(event, start)
                    controls.setdefault(event.stream.lower(), []).extend(control)
        runs = {}
        for name in dict.fromkeys((*batches, *controls)):
            stream = self.catalog.get(name)
            assert stream is not None
            parts = [Run((b,), p) for b, p in batches.get(name, [])]
            run = concatenate(parts) if parts else empty_run(stream.schema)
            runs[name] = Run(run.inputs, run.positions, tuple(controls.get(name, ())))
        return runs, dead

    def _control(self, event: Punctuation | End, position: int) -> list[Control]:
        name = event.stream.lower()
        if isinstance(event, End):
            self._ended.add(name)
            return [Ended(position)]
        stream = self.catalog.get(name)
        assert stream is not None
        attribute = event.attribute or stream.time
        column = stream.index_of(attribute) if attribute is not None else None
        known = self._promises.setdefault(name, {})
        value: Any = event.value
        if column in known and value <= known[column]:
            self.ignored_punctuations += int(value < known[column])
            return []
        known[column] = event.value
        return [Promise(position, column, event.value)]

    def _process(
        self, runs: dict[str, Run], dead: list[tuple[int, Malformed]], only: Query | None = None
    ) -> Iterator[Query]:
        """Send the runs through every query that reads them, oldest query first."""
        for query in list(self._queries.values()) if only is None else [only]:
            reads = {scan.stream.name.lower() for scan in query.program.scans}
            query._take_letters(
                Letter("dead", position, m.stream, m.text, m.reason)
                for position, m in dead
                if m.stream.lower() in reads
            )
            if not reads & runs.keys():
                continue
            made = []
            for run in self._through(query, runs):
                query._take_run(run)
                if query.derived:
                    made.append(run)
                elif query._is_full():
                    yield query
            if query.derived:
                self._note(query.name.lower(), made, runs)

    def _through(self, query: Query, runs: dict[str, Run]) -> Iterator[Run]:
        for name in dict.fromkeys(scan.stream.name for scan in query.program.scans):
            if name.lower() in runs:
                query._saw(name, len(runs[name.lower()]))
        return query.pipeline.process(runs)

    def _note(self, name: str, made: list[Run], runs: dict[str, Run]) -> None:
        """A derived stream has run on: its readers come next, and its promises are kept."""
        run = concatenate(made)
        for control in run.controls:
            if isinstance(control, Ended):
                self._ended.add(name)
            else:
                self._promises.setdefault(name, {})[control.column] = control.value
        if len(run) or run.controls:
            runs[name] = Run(run.inputs, run.positions, run.controls)

    # -- instructions -----------------------------------------------------------------------

    def _instruct(self, instruction: Instruction, position: int) -> Iterator[Query]:
        if isinstance(instruction, CreateStream):
            self._check_free(instruction.stream.name)
            self.catalog.add(instruction.stream)
        elif isinstance(instruction, Install):
            self._check_free(instruction.query)
            program = self._program(instruction.text, instruction.order)
            yield from self._start(
                instruction.query, program, position, derived=False, order=instruction.order
            )
        elif isinstance(instruction, Derive):
            self._check_free(instruction.name)
            plan = self._bind(instruction.text)
            bounded = all(scan.stream.bounded for scan in plan.scans)
            stream = Stream.of(instruction.name, plan.schema, bounded=bounded)
            yield from self._start(stream.name, compile_plan(plan), position, derived=True)
            self.catalog.add(stream)
        elif isinstance(instruction, Change):
            yield from self._change(instruction, position)
        else:
            self._drop(instruction)

    def _program(self, text: str, order: str | None) -> Program:
        plan = self._bind(text)
        if order is not None:
            from dataclasses import replace

            if order not in ("none", "outer", "inner"):
                raise InputError(f"unknown order {order!r}", "Write none, outer or inner.")
            plan = replace(plan, order=order)
        return compile_plan(plan)

    def _check_free(self, name: str) -> None:
        if name.lower() in self._queries or name in self.catalog:
            raise InputError(
                f"there is a stream or query named {name!r} already",
                "Choose another name, or drop that one first.",
            )

    def _start(
        self,
        name: str,
        program: Program,
        position: int,
        derived: bool,
        order: str | None = None,
    ) -> Iterator[Query]:
        pipeline = Pipeline(program, self.compile_predicates)
        query = Query(self, name, pipeline, derived, self.buffer_rows)
        query.order = order
        self._queries[name.lower()] = query
        known: dict[str, Run] = {}
        for scan in program.scans:
            stream = scan.stream.name.lower()
            controls: list[Control] = [
                Promise(position, column, value)
                for column, value in self._promises.get(stream, {}).items()
            ]
            if stream in self._ended:
                controls.append(Ended(position))
            if controls:
                known[stream] = Run(
                    empty_run(scan.stream.schema).inputs, np.empty(0, np.int64), tuple(controls)
                )
        if known:
            yield from self._process(known, [], only=query)

    def _change(self, instruction: Change, position: int) -> Iterator[Query]:
        query = self._query(instruction.query)
        program = self._program(instruction.text, query.order)
        check_change(query.name, query.program, program)
        if query.derived and not program.schema.equals(query.schema):
            raise PenstockError(
                f"stream {query.name} has the columns {_columns(query.schema)}; a change cannot "
                f"make them {_columns(program.schema)}, since queries may read it",
                "Keep its columns, or derive a new stream.",
            )
        runs: dict[str, Run] = {}
        made = []
        for run in query.pipeline.change(program, position):
            query._take_run(run)
            made.append(run)
            if not query.derived and query._is_full():
                yield query
        if query.derived and any(len(run) or run.controls for run in made):
            self._note(query.name.lower(), made, runs)
            yield from self._process(runs, [])

    def _drop(self, instruction: Drop) -> None:
        query = self._query(instruction.query)
        name = query.name.lower()
        readers = [
            reader.name
            for reader in self._queries.values()
            if any(scan.stream.name.lower() == name for scan in reader.program.scans)
        ]
        if query.derived and readers:
            raise InputError(
                f"stream {query.name} is read by {', '.join(readers)}",
                "Drop the queries that read it first.",
            )
        del self._queries[name]
        self._dropped = [*self.dropped, query]
        if query.derived:
            self.catalog.remove(query.name)
            self._promises.pop(name, None)
            self._ended.discard(name)

    def _query(self, name: str) -> Query:
        query = self._queries.get(name.lower())
        if query is None:
            known = ", ".join(q.name for q in self._queries.values()) or "none"
            raise InputError(f"unknown query {name!r}", f"Queries there are: {known}.")
        return query

    # -- state ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write streams, programs, windows and undrained results to a file."""
        from penstock.engines.local.state import save

        with self._lock:
            self._finish(0)
            save(self, Path(path))


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {type_name(f.type)}" for f in schema) + ")"


def _table(rows: list[tuple[str, str]], names: tuple[str, str]) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.Table.from_arrays(columns, names=list(names))
