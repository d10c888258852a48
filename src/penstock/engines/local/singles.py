"""Tuples that are pushed one by one: past the machinery for batches where every reader allows it.

A stream is examined once it has had a number of such tuples, since the functions that take them
have to be compiled, and again after each instruction. It qualifies if all queries that read it are
inner joins of two streams. A tuple must then have exactly the columns of its stream, of exactly the
Python types that stand for them. For everything else, and for whatever a query refuses, the tuple
goes the way of a batch, which is where errors, dead letters and NULLs are dealt with. It is decided
before anything has been changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.join import JoinBlock
from penstock.blocks.project import ProjectBlock
from penstock.blocks.run import Run
from penstock.blocks.select import SelectBlock
from penstock.blocks.single import SingleJoin
from penstock.engines.local.physical import PythonForm, one_row_bytes, python_form, with_type
from penstock.engines.shared.failure import failure_of
from penstock.engines.shared.loose_rows import LooseRows, Source
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.processing import Processing
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.program.blocks import (
    JoinStreams,
    ProjectColumns,
    ScanStream,
    SelectRows,
    SetWindow,
)
from penstock.sql.expressions import TRUE, Column
from penstock.streams.batches import without_columns
from penstock.streams.schema import Stream

LocalQuery = Query[Pipeline]
SHAPE = (ScanStream, ScanStream, JoinStreams, SetWindow, SetWindow, SelectRows, ProjectColumns)
"""The program of a query that joins two streams."""

WORTH_COMPILING = 256
"""After so many single tuples, a stream is thought to go on like that."""


class Singles:
    """The streams of an engine whose tuples come one by one.

    ``taken`` counts the tuples that did not have to go the way of a batch.
    """

    def __init__(
        self,
        registry: Registry[LocalQuery],
        processing: Processing[LocalQuery],
        window_memory: int | None,
    ) -> None:
        self._registry = registry
        self._processing = processing
        self._window_memory = window_memory
        self._pushes: dict[str, int] = {}
        self._ways: dict[str, _Way | None] = {}
        self._joins: dict[int, tuple[SingleJoin, SingleJoin]] = {}
        self._fresh = False
        self.patience = WORTH_COMPILING
        self.taken = 0

    def forget(self) -> None:
        """An instruction has come: streams and queries may not be what they were."""
        self._ways.clear()
        self._joins.clear()

    def expect_changes(self) -> None:
        """Somebody else is about to send tuples or punctuations through the queries."""
        self._fresh = False

    def take(self, stream: str, data: object) -> bool:
        """Take the data if it is a tuple of the right kind; False: nothing has been done."""
        if type(data) is not list or len(data) != 1:
            return False
        way = self._ways.get(stream)
        if way is None:
            way = self._examine(stream)
            if way is None:
                return False
        values = way.values(data[0])
        if values is None:
            return False
        if not self._fresh:
            self._freshen()
        if not way.ready:
            return False
        for query in way.queries:
            if query._is_pressed():
                return False
        return self._send(way, values)

    def _send(self, way: _Way, values: tuple[Any, ...]) -> bool:
        """Take a tuple into every join that reads it, or into none."""
        readers = way.readers
        if len(readers) > 1 and not all(reader.join.accepts(values) for reader in readers):
            return False
        position = self._processing.position
        failed: list[LocalQuery] = []
        began = time.monotonic_ns()
        for reader in readers:
            found = reader.join.take(values)
            if found < 0:
                assert reader is readers[0], "a join has refused what it had accepted"
                return False
            query = reader.query
            query._saw(way.name, 1)
            taken = time.monotonic_ns() - began
            reader.latency.processing.add(taken)
            if found:
                reader.latency.visiting.add(taken, found)
                try:
                    reader.emit(position, values, found)
                except Exception as error:  # as for batches: the other queries must not miss it
                    query.failure = failure_of(query, error)
                    failed.append(query)
        self._processing.position = position + 1
        self.taken += 1
        if self._window_memory is not None:
            self._look_at_memory(way)
        for query in failed:
            assert query.failure is not None
            raise query.failure
        return True

    def _look_at_memory(self, way: _Way) -> None:
        """Windows have grown if a join had to make room or to index what it holds."""
        mended = sum(reader.join.mended for reader in way.readers)
        if mended != way.mended:
            way.mended = mended
            self._fresh = False

    # -- examining --------------------------------------------------------------------------

    def _examine(self, name: str) -> _Way | None:
        """The way of a stream's tuples, once it has had enough of them."""
        if name in self._ways:
            return None
        pushes = self._pushes[name] = self._pushes.get(name, 0) + 1
        if pushes <= self.patience:
            return None
        stream = self._registry.catalog.get(name)
        way = None
        if stream is not None and name.lower() not in self._registry.queries:
            way = self._way(stream)
        self._ways[name] = way
        self._fresh = False
        return way

    def _way(self, stream: Stream) -> _Way | None:
        forms = [python_form(field.type) for field in stream.schema]
        reading = [
            query
            for query in self._registry.queries.values()
            if any(s.stream.name.lower() == stream.name.lower() for s in query.program.scans)
        ]
        readers = [self._reader(query, stream) for query in reading]
        if None in forms or not readers or None in readers:
            return None
        return _Way(
            stream,
            [form for form in forms if form is not None],
            [reader for reader in readers if reader is not None],
            list(self._registry.queries.values()),
        )

    def _reader(self, query: LocalQuery, stream: Stream) -> _Reader | None:
        program = query.program
        names = [scan.stream.name.lower() for scan in program.scans]
        if query.derived or tuple(map(type, program.instructions)) != SHAPE or len(set(names)) < 2:
            return None
        [join] = query.pipeline.joins
        if join.front is not None:
            return None
        if id(join) not in self._joins:
            left, right = SingleJoin(join, 0), SingleJoin(join, 1)
            left.twin, right.twin = right, left
            self._joins[id(join)] = left, right
        side = names.index(stream.name.lower())
        single = self._joins[id(join)][side]
        return _Reader(query, single, side) if single.serves else None

    def _freshen(self) -> None:
        """Find out which streams can go on, and let every join look where its buffers are."""
        for joins in self._joins.values():
            for join in joins:
                join.stale = True
        for way in self._ways.values():
            if way is not None:
                way.ready = self._is_ready(way)
        self._fresh = True

    def _is_ready(self, way: _Way) -> bool:
        if way.name.lower() in self._registry.ended:
            return False
        if any(reader.query.failure is not None for reader in way.readers):
            return False
        if self._window_memory is None:
            return True
        return way.nbytes is not None and all(
            reader.query.pipeline.nbytes + way.nbytes <= self._window_memory
            for reader in way.readers
        )


class _Way:
    """What a tuple of a stream must look like, and who reads it."""

    def __init__(
        self,
        stream: Stream,
        forms: list[PythonForm],
        readers: list[_Reader],
        queries: list[LocalQuery],
    ) -> None:
        self.name = stream.name
        self.readers = readers
        self.queries = queries
        self.ready = False
        self.mended = 0
        self.nbytes = one_row_bytes(stream.schema)
        self._types = tuple(form.type for form in forms)
        self._physical = [form.physical for form in forms]
        self._plain = not any(self._physical)
        names = stream.schema.names
        self._pick: Callable[[Any], Any] = itemgetter(*names)
        self._alone = names[0] if len(names) == 1 else None

    def values(self, row: object) -> tuple[Any, ...] | None:
        """The physical values of a row that fits the stream, in the order of its columns."""
        if type(row) is not dict or len(row) != len(self._types):
            return None
        try:
            values = self._pick(row) if self._alone is None else (row[self._alone],)
            if tuple(map(type, values)) != self._types:
                values = tuple(map(with_type, values, self._types))
            if self._plain:
                return values
            return tuple(
                value if physical is None else physical(value)
                for value, physical in zip(values, self._physical, strict=True)
            )
        except (KeyError, ValueError):
            return None


class _Reader:
    """A query that reads the stream, on one side of its join."""

    def __init__(self, query: LocalQuery, join: SingleJoin, side: int) -> None:
        self.query = query
        self.join = join
        self._side = side
        self._block, self._select, self._project = query.pipeline.blocks.values()
        self._sources = self._stored_columns()
        assert isinstance(self._block, JoinBlock)
        self.latency = self._block.latency

    def _stored_columns(self) -> list[Source] | None:
        """Where the select list is to be found; None if it has more than columns to be copied."""
        *_, select, project = self.query.program.instructions
        assert isinstance(select, SelectRows) and isinstance(project, ProjectColumns)
        assert isinstance(self._block, JoinBlock)
        if select.condition != TRUE or select.columns is not None:
            return None
        sources: list[Source] = []
        for output in project.columns:
            column = output.expression
            if not isinstance(column, Column):
                return None
            index = self._block.columns[column.side][column.index]
            rows = self._block.sides[column.side].rows
            sources.append(Source(None if column.side == self._side else rows, index))
        return sources

    def emit(self, position: int, values: tuple[Any, ...], found: int) -> None:
        """Give the query the rows of a tuple that has found partners."""
        partners = self.join.partners(found)
        if self._sources is not None:
            self.query._take_pairs(position, values, partners, self._sources)
            return
        assert isinstance(self._block, JoinBlock)
        assert isinstance(self._select, SelectBlock) and isinstance(self._project, ProjectBlock)
        own, other = (self._block.sides[i].rows for i in (self._side, 1 - self._side))
        mine, theirs = (self._block.columns[i] for i in (self._side, 1 - self._side))
        batch = without_columns(found)
        if mine:
            copies = LooseRows(pa.schema([own.schema.field(c) for c in mine]))
            copies.add(position, values, partners, [Source(None, c) for c in mine])
            batch, _ = copies.batch()
        pair = (batch, other.take(partners + other.first, theirs))
        run = Run(pair if self._side == 0 else pair[::-1], np.full(found, position, np.int64))
        self.query._take_run(self._project.process(self._select.process(run)))
