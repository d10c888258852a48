"""The oracle: the rows of every query after any sequence of events and instructions."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.errors import ChangeRefused, InputError, PenstockError
from penstock.oracle.aggregate import QueryStopped
from penstock.oracle.change import check_change
from penstock.oracle.query import QueryRun
from penstock.oracle.stream_state import StreamState
from penstock.oracle.values import Row, Value, batch_rows
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import Plan
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.schema import Stream

Event = Tuples | Merged | Malformed | Punctuation | End


class Oracle:
    """Takes events and instructions one by one and computes the output of every query.

    Every tuple, punctuation, malformed record, end and instruction takes one position; one that is
    refused with an error takes none. A query that fails is stopped, and the error is raised after
    all other queries have processed the event.

    Parameters
    ----------
    windows_required
        Whether the streams of a join must have window clauses, as in a catalog.
    order_column
        The order column of the run: the time of a stream that has no other.

    Attributes
    ----------
    position
        The next position.
    rows
        By query name: its rows, each with its position, in inner order.
    late
        By query: its late tuples, as (position, stream, tuple).
    reasons
        By query: the reason of each late tuple.
    dead
        By query: its dead letters, as (position, stream, text or tuple, reason).
    schemas
        By query: its output schemas, each with the position from which it is in force.

    >>> oracle = Oracle()
    >>> oracle.create_stream(Stream.of("R", pa.schema({"x": pa.int32()})))
    >>> oracle.install("large", "SELECT x + 1 AS y FROM R WHERE x > 1")
    >>> oracle.tuples("R", pa.RecordBatch.from_pylist([{"x": 1}, {"x": 2}]))
    >>> oracle.rows["large"]
    [(3, (3,))]
    """

    def __init__(self, windows_required: bool = True, order_column: str | None = None) -> None:
        self.position = 0
        self.rows: dict[str, list[tuple[int, Row]]] = {}
        self.late: dict[str, list[tuple[int, str, Row]]] = {}
        self.reasons: dict[str, list[str]] = {}
        self.dead: dict[str, list[tuple[int, str, str | Row, str]]] = {}
        self.schemas: dict[str, list[tuple[int, pa.Schema]]] = {}
        self._catalog = Catalog(windows_required=windows_required)
        self._order_column = order_column
        self._sources: dict[str, StreamState] = {}
        # In order of installation, so that a derived stream comes before its readers.
        self._queries: dict[str, QueryRun] = {}
        self._stopped: QueryStopped | None = None

    def create_stream(self, stream: Stream) -> None:
        """Declare a stream that tuples can be pushed to."""
        self._check_new_name(stream.name)
        self._catalog.add(stream)
        self._sources[stream.name.lower()] = StreamState(stream)
        self._take_position()

    def derive(self, name: str, text: str) -> None:
        """Run ``CREATE STREAM name AS text``."""
        self._check_new_name(name)
        plan = self._bind(text)
        bounded = all(scan.stream.bounded for scan in plan.scans)
        stream = Stream.of(name, plan.schema, bounded=bounded, derived=True)
        self._catalog.add(stream)
        source = self._sources[name.lower()] = StreamState(stream, derived=True)
        self._punctuate_derived(self._start(name, plan), source)

    def install(self, name: str, text: str, order: str | None = None) -> None:
        """Start a query. Its rows are in inner order, whatever EMIT ORDER it has."""
        self._check_new_name(name)
        self._start(name, self._bind(text))

    def change(self, name: str, text: str) -> None:
        """Change a running query; it keeps its windows."""
        query = self._query(name)
        plan = self._bind(text)
        check_change(name, query.plan, plan)
        if name.lower() in self._sources and plan.schema != query.plan.schema:
            raise ChangeRefused(
                f"a change cannot give the derived stream {name} other columns",
                "Derive a stream of another name.",
            )
        position = self._take_position()
        if plan.schema != query.plan.schema:
            self.schemas[query.name].append((position, plan.schema))
        self._run(position, {}, changed=(query, plan))
        self._raise_stopped()

    def drop(self, name: str) -> None:
        """Stop a query, or drop a derived stream without readers."""
        self._query(name)
        readers = [query.name for query in self._queries.values() if name.lower() in query.reads]
        if readers:
            raise PenstockError(
                f"the derived stream {name} is read by {', '.join(readers)}", "Drop them first."
            )
        del self._queries[name.lower()]
        if name.lower() in self._sources:
            del self._sources[name.lower()]
            self._catalog.remove(name)
        self._take_position()

    def tuples(self, stream: str, batch: pa.RecordBatch) -> None:
        """Push tuples of one stream, in arrival order."""
        source = self._open(stream)
        for row in batch_rows(batch, source.stream):
            self._arrive(source, row)
        self._raise_stopped()

    def merged(
        self, streams: tuple[str, ...], batches: tuple[pa.RecordBatch, ...], which: Iterable[int]
    ) -> None:
        """Push tuples of several streams, interleaved as ``which`` says."""
        sources = [self._open(stream) for stream in streams]
        waiting = [
            iter(batch_rows(batch, source.stream))
            for batch, source in zip(batches, sources, strict=True)
        ]
        for index in which:
            self._arrive(sources[index], next(waiting[index]))
        self._raise_stopped()

    def _arrive(self, source: StreamState, row: Row) -> None:
        """Push a tuple, unless it is too far ahead of its stream."""
        position, reason = self._take_position(), source.too_far(row)
        if reason is None:
            self._run(position, {source.key: [row]})
            return
        for query in self._queries.values():
            if source.key in query.reads:
                query.dead.append((position, source.stream.name, row, reason))

    def malformed(self, stream: str, text: str, reason: str) -> None:
        """Push a record that does not fit the stream."""
        source = self._open(stream)
        position = self._take_position()
        for query in self._queries.values():
            if source.key in query.reads:
                query.malformed(position, source.stream.name, text, reason)

    def punctuate(self, stream: str, value: Value, attribute: str | None = None) -> None:
        """Push a punctuation: no further tuple has a smaller attribute."""
        source = self._open(stream)
        if attribute is not None and source.stream.index_of(attribute) is None:
            raise InputError(
                f"stream {stream} has no column {attribute!r} to punctuate",
                f"Write one of: {', '.join(source.stream.schema.names)}.",
            )
        if value is None or value != value:
            raise InputError(
                f"a punctuation of stream {stream} cannot be {value}",
                "Give the value that no further tuple is below.",
            )
        source.punctuate(attribute, value)
        self._run(self._take_position(), {})
        self._raise_stopped()

    def end(self, stream: str | None = None) -> None:
        """End a stream; without a name, end all streams."""
        pushed = [source for source in self._sources.values() if not source.derived]
        for source in [self._open(stream)] if stream is not None else pushed:
            if not source.ended:
                source.ended = True
                self._run(self._take_position(), {})
        self._raise_stopped()

    def feed(self, events: Iterable[Event]) -> None:
        """Process events in arrival order. Instructions have methods of their own."""
        stopped: QueryStopped | None = None
        for event in events:
            try:
                self._feed(event)
            except QueryStopped as error:
                stopped = stopped or error
        if stopped is not None:
            raise stopped

    def _feed(self, event: Event) -> None:
        if isinstance(event, Tuples):
            self.tuples(event.stream, event.batch)
        elif isinstance(event, Merged):
            self.merged(event.streams, event.batches, map(int, event.which))
        elif isinstance(event, Malformed):
            self.malformed(event.stream, event.text, event.reason)
        elif isinstance(event, Punctuation):
            self.punctuate(event.stream, event.value, event.attribute)
        else:
            self.end(event.stream)

    def failures(self, name: str) -> int:
        """The number of operations of a running query that gave NULL because they failed."""
        return self._query(name).failures.count

    def _run(
        self,
        position: int,
        arrivals: dict[str, list[Row]],
        changed: tuple[QueryRun, Plan] | None = None,
    ) -> None:
        """Process one event in every query; the rows of a derived stream arrive with it."""
        for key, query in self._queries.items():
            if query.failure is not None:
                continue
            try:
                if changed is not None and query is changed[0]:
                    out = query.change(position, changed[1])
                else:
                    out = query.step(position, arrivals)
            except QueryStopped as stopped:
                query.failure = stopped
                self._stopped = self._stopped or stopped
                continue
            if key in self._sources:
                arrivals[key] = out
                self._punctuate_derived(query, self._sources[key])

    def _raise_stopped(self) -> None:
        """Raise the error of a stopped query, after all others have processed the event."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            raise stopped

    def _punctuate_derived(self, query: QueryRun, source: StreamState) -> None:
        """Update a derived stream's punctuations and end after its rows."""
        names = source.stream.schema.names
        for name, value in zip(names, query.output_punctuations(), strict=True):
            if value is not None:
                source.punctuate(name, value)
        source.ended = query.ended

    def _start(self, name: str, plan: Plan) -> QueryRun:
        query = self._queries[name.lower()] = QueryRun(name, plan, self._sources)
        # A name that is used again after a drop continues the same lists.
        query.rows = self.rows.setdefault(name, query.rows)
        query.late = self.late.setdefault(name, query.late)
        query.reasons = self.reasons.setdefault(name, query.reasons)
        query.dead = self.dead.setdefault(name, query.dead)
        position = self._take_position()
        self.schemas.setdefault(name, []).append((position, plan.schema))
        # A query over ended streams is answered at once.
        query.step(position, {})
        return query

    def _bind(self, text: str) -> Plan:
        return bind(parse_query(text), self._catalog, order_column=self._order_column)

    def _take_position(self) -> int:
        self.position += 1
        return self.position - 1

    def _check_new_name(self, name: str) -> None:
        if name.lower() in self._queries or name.lower() in self._sources:
            raise PenstockError(
                f"there is a query or stream {name!r} already", "Choose another name."
            )

    def _query(self, name: str) -> QueryRun:
        if name.lower() not in self._queries:
            raise PenstockError(
                f"unknown query {name!r}",
                f"The queries are: {', '.join(query.name for query in self._queries.values())}.",
            )
        return self._queries[name.lower()]

    def _open(self, stream: str) -> StreamState:
        """The stream of an event: one that can be pushed to and has not ended."""
        source = self._sources.get(stream.lower())
        if source is None or source.derived:
            raise InputError(
                f"there is no stream {stream} that events can be sent to",
                "Create it first: CREATE STREAM ….",
            )
        if source.ended:
            raise InputError(f"stream {stream} has ended", "Send nothing after its end.")
        return source
