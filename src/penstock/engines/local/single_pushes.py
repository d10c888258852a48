"""Single-tuple pushes: a compiled step per query instead of the path for batches.

A stream is examined after a number of single-tuple pushes, since the steps have to be compiled, and
again after each instruction. It qualifies if, in every query that reads it, the block that reads it
offers a compiled step and the blocks after that one fuse with it. A tuple must then have exactly
the columns of its stream, with exactly the Python types that stand for them; these need no
conversion that could fail (:mod:`penstock.streams.convert` knows the rest). Every other tuple, and
one that a step refuses, goes through the path for batches, which handles errors, dead letters and
NULLs. The choice is made before any state changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pyarrow as pa

from penstock.blocks.contract import IN, Batch, Block, CompiledStep
from penstock.blocks.loose_rows import ColumnSource, ColumnSources
from penstock.engines.shared.failure import failure_of, interrupted_failure
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.processing import Processing
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.errors import InputError, QueryFailed
from penstock.signals import uninterrupted
from penstock.streams.schema import Stream

LocalQuery = Query[Pipeline]
WORTH_COMPILING = 256
"""Single-tuple pushes to a stream before its steps are compiled."""


def at_work() -> InputError:
    """The error of a call that comes from a signal handler, in the middle of another call."""
    return InputError(
        "the engine is in the middle of a call that this one interrupts",
        "Do not use the engine in the handler of a signal; let the handler set a flag, and look at "
        "it after the call.",
    )


class SinglePushes:
    """The streams of an engine that are pushed to one tuple at a time.

    ``fast_tuples`` counts the tuples that went through compiled steps. ``failures`` collects the
    failures of queries that a later call raises.
    """

    def __init__(
        self,
        registry: Registry[LocalQuery],
        processing: Processing[LocalQuery],
        window_memory: int | None,
        failures: list[QueryFailed],
    ) -> None:
        self._registry = registry
        self._failures = failures
        self._sending: tuple[_Route, tuple[Any, ...]] | None = None
        self._is_interrupted = False
        self._processing = processing
        self._window_memory = window_memory
        self._pushes: dict[str, int] = {}
        self._routes: dict[str, _Route | None] = {}
        self._is_current = False
        self.patience = WORTH_COMPILING
        self.fast_tuples = 0

    def forget(self) -> None:
        """Drop all routes: an instruction may have changed streams and queries."""
        self._routes.clear()

    def expect_changes(self) -> None:
        """Expect that a batch or a punctuation changes the state of the queries."""
        self._is_current = False

    @property
    def left(self) -> int:
        """The number of tuples, 0 or 1, that an interrupted push has left for the next call."""
        if self._sending is None or not self._is_interrupted:
            return 0
        position = self._processing.position
        return int(any(reader.has_begun(position) for reader in self._sending[0].readers))

    def finish(self) -> None:
        """Finish a tuple whose push was interrupted."""
        if self._is_interrupted:
            uninterrupted(self._finish)
        elif self._sending is not None:
            raise at_work()

    def _finish(self) -> None:
        """Take the interrupted tuple into all joins if any has it, else into none."""
        assert self._sending is not None
        route, values = self._sending
        position = self._processing.position
        self._is_current = False
        try:
            for reader in route.readers:
                reader.step.repair()
            if any(reader.has_begun(position) for reader in route.readers):
                for reader in route.readers:
                    reader.resume(position, values)
                self._count(position)
        except BaseException as error:
            for reader in route.readers:
                reader.fail(position, error)
            self._count(position)
            raise
        finally:
            self._sending, self._is_interrupted = None, False
            failed = [reader.query.failure for reader in route.readers]
            self._failures += [one for one in failed if one is not None]

    def _count(self, position: int) -> None:
        # No call comes between these, so a signal does not either.
        self._processing.position = position + 1
        self.fast_tuples += 1
        self._sending = None

    def take(self, stream: str, data: object) -> bool:
        """Take the data if it is a tuple that qualifies; False: nothing has changed."""
        if self._sending is not None:
            self.finish()
            return False
        if type(data) is not list or len(data) != 1:
            return False
        route = self._routes.get(stream)
        if route is None:
            route = self._examine(stream)
            if route is None:
                return False
        values = route.values(data[0])
        if values is None:
            return False
        if not self._is_current:
            self._refresh()
        if not route.ready:
            return False
        for query in route.queries:
            if query._is_pressed():
                return False
        return self._send(route, values)

    def _send(self, route: _Route, values: tuple[Any, ...]) -> bool:
        """Take a tuple into every join that reads it, or into none.

        A signal may interrupt it at any point: deferring signals would cost more than the push. An
        interrupted tuple is finished afterwards, see :class:`_Reader`.
        """
        readers = route.readers
        self._sending = route, values
        try:
            if len(readers) > 1 and not all(reader.step.accepts(values) for reader in readers):
                self._sending = None
                return False
            position = self._processing.position
            failed = False
            began = time.monotonic_ns()
            for reader in readers:
                found = reader.step.take(position, values)
                if found < 0:
                    assert reader is readers[0], "a join has refused what it had accepted"
                    self._sending = None
                    return False
                taken = time.monotonic_ns() - began
                reader.latency.processing.add(taken)
                query = reader.query
                if found:
                    reader.latency.visiting.add(taken, found)
                    try:
                        reader.emit(position, values, found)
                    except Exception as error:  # as for batches: other queries must not miss it
                        query.failure = failure_of(query, error)
                        failed = True
                query._count_input(route.name, 1)
                reader.done = position  # no call comes after the last one in _count_input
            self._processing.position = position + 1
            self.fast_tuples += 1
            self._sending = None
        except BaseException:
            self._is_interrupted = True
            self.finish()
            raise
        if self._window_memory is not None:
            self._look_at_memory(route)
        if failed:
            self._is_current = False
            raise next(r.query.failure for r in readers if r.query.failure is not None)
        return True

    def _look_at_memory(self, route: _Route) -> None:
        """Check the memory limit again if a join had to grow its buffers or an index."""
        mended = sum(reader.step.mended for reader in route.readers)
        if mended != route.mended:
            route.mended = mended
            self._is_current = False

    # -- examining --------------------------------------------------------------------------

    def _examine(self, name: str) -> _Route | None:
        """The route of a stream, once it has had enough single-tuple pushes."""
        if name in self._routes:
            return None
        pushes = self._pushes[name] = self._pushes.get(name, 0) + 1
        if pushes <= self.patience:
            return None
        stream = self._registry.streams.get(name)
        route = None
        # MAX LEAD is checked in the path for batches.
        leads = stream is not None and stream.max_lead is not None
        if stream is not None and not leads and name.lower() not in self._registry.queries:
            route = self._route(stream)
        self._routes[name] = route
        self._is_current = False
        return route

    def _route(self, stream: Stream) -> _Route | None:
        forms = [python_form(field.type) for field in stream.schema]
        reading = [
            query
            for query in self._registry.queries.values()
            if any(s.stream.name.lower() == stream.name.lower() for s in query.program.scans)
        ]
        readers = [self._reader(query, stream) for query in reading]
        if None in forms or not readers or None in readers:
            return None
        return _Route(
            stream,
            [form for form in forms if form is not None],
            [reader for reader in readers if reader is not None],
            list(self._registry.queries.values()),
        )

    def _reader(self, query: LocalQuery, stream: Stream) -> _Reader | None:
        pipeline, name = query.pipeline, stream.name.lower()
        mentions = [one for one in pipeline.mentions if one.stream.lower() == name]
        following = pipeline.after(mentions[0].reader)
        # The blocks of a query that was broken off may be in the middle of a change.
        broken = query.failure is not None
        if broken or query.derived or len(mentions) > 1 or following is None:
            return None
        if any(block.traits().fuses is None for block in following):
            return None
        reader, slot = mentions[0].reader, mentions[0].slot
        offer = pipeline.blocks[reader].traits().compiled_step
        step = None if offer is None else offer(slot)
        return None if step is None else _Reader(query, stream.name, step, following)

    def _refresh(self) -> None:
        """Find out which routes are ready."""
        for route in self._routes.values():
            if route is not None:
                route.ready = self._is_ready(route)
                for reader in route.readers:
                    reader.note_stored()
        self._is_current = True

    def _is_ready(self, route: _Route) -> bool:
        if route.name.lower() in self._registry.ended:
            return False
        if any(reader.query.failure is not None for reader in route.readers):
            return False
        if self._window_memory is None:
            return True
        return route.nbytes is not None and all(
            reader.query.pipeline.nbytes + route.nbytes <= self._window_memory
            for reader in route.readers
        )


class _Route:
    """The columns and types that a tuple of a stream must have, and the readers of the stream."""

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
    """A query that reads the stream: a compiled step, and the blocks that are fused with it.

    The progress of an interrupted tuple can be reconstructed. The join's window shows whether the
    tuple is stored, since the query counts it last; from then on ``done`` is its position. Its
    partners can be computed again as long as no other tuple has arrived. The position of the
    youngest row shows whether its rows are made.
    """

    def __init__(
        self,
        query: LocalQuery,
        stream: str,
        step: CompiledStep,
        following: list[Block],
    ) -> None:
        self.query = query
        self.step = step
        self.done = -1
        self._stream = stream
        self._before = 0
        self._following = following
        self._sources = _copied(step, following)
        self.latency = step.latency

    def note_stored(self) -> None:
        """Remember, between two tuples, how many more are stored than the query has counted."""
        self._before = self.step.stored - self.query._tuples_in.get(self._stream, 0)

    @property
    def _is_stored(self) -> bool:
        counted = self.query._tuples_in.get(self._stream, 0)
        return self.step.stored - self._before > counted

    def has_begun(self, position: int) -> bool:
        """Whether an interrupted tuple has changed anything here."""
        return self.done == position or self._is_stored

    def resume(self, position: int, values: tuple[Any, ...]) -> None:
        """Finish an interrupted tuple."""
        query = self.query
        if self.done == position or query.failure is not None:
            return
        found = self.step.resume(position, values, self._is_stored)
        assert found >= 0, "a join has refused what it had accepted"
        if found and query._last_position != position:
            try:
                self.emit(position, values, found)
            except Exception as error:
                query.failure = failure_of(query, error)
        query._count_input(self._stream, 1)
        self.done = position

    def fail(self, position: int, error: BaseException) -> None:
        """Let the query fail, since an interrupted tuple could not be finished."""
        if self.done != position and self.query.failure is None:
            self.query.failure = interrupted_failure(self.query, error)
            if self._is_stored:
                self.query._count_input(self._stream, 1)

    def emit(self, position: int, values: tuple[Any, ...], found: int) -> None:
        """Give the query the rows of a tuple that has found partners."""
        if self._sources is not None:
            partners = self.step.partners(found)
            self.query._take_pairs(position, found, values, partners, self._sources)
            return
        rows = self.step.rows(position, values, found)
        made = [Batch(position, position + 1, (rows,))]
        for block in self._following:
            made = [sent for batch in made for _, sent in block.step(IN, batch)]
        for batch in made:
            self.query._take_run(batch.run)


def _copied(step: CompiledStep, following: list[Block]) -> Sequence[ColumnSource] | None:
    """The sources of a query's columns; None if any column is computed."""
    sources: ColumnSources | None = step.sources
    for block in following:
        fuses = block.traits().fuses
        assert fuses is not None
        sources = None if sources is None else fuses(sources)
    return None if sources is None else sources[0]


_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
EXACT = 1 << 53
"""Up to here every integer is a double."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class PythonForm:
    """The Python type for a column, and the conversion to its physical values.

    ``physical`` raises ValueError for a value that the path for batches must convert; None if the
    value is stored as it is.
    """

    type: type
    physical: Callable[[Any], Any] | None = None


def python_form(kind: pa.DataType) -> PythonForm | None:
    """The form for a type; None if its values need the path for batches."""
    types = pa.types
    if types.is_integer(kind):
        return PythonForm(int)
    if types.is_floating(kind):
        return PythonForm(float)
    if types.is_boolean(kind):
        return PythonForm(bool, int)
    if types.is_string(kind):
        return PythonForm(str, _whole_text)
    if types.is_binary(kind):
        return PythonForm(bytes)
    if types.is_date32(kind):
        return PythonForm(date, _days)
    if types.is_timestamp(kind) and kind.unit == "us" and kind.tz is None:
        return PythonForm(datetime, _microseconds)
    if types.is_decimal128(kind):
        return PythonForm(Decimal, _unscaled(kind.precision, kind.scale))
    return None


def with_type(value: Any, wanted: type) -> Any:
    """The value as that type: an integer may stand for a float. Else a ValueError."""
    if type(value) is wanted:
        return value
    if type(value) is int and wanted is float and -EXACT <= value <= EXACT:
        return float(value)
    raise ValueError("another type")


def one_row_bytes(schema: pa.Schema) -> int | None:
    """The size of one tuple without NULLs as an Arrow batch; None if it depends on the tuple."""
    widths = [
        None if pa.types.is_string(f.type) or pa.types.is_binary(f.type) else f.type.bit_width
        for f in schema
    ]
    return None if None in widths else sum((width + 7) // 8 for width in widths if width)


def _whole_text(value: str) -> str:
    if not value.isascii():
        value.encode()  # a lone surrogate is a str to Python, but no string to Arrow
    return value


def _days(value: date) -> int:
    return value.toordinal() - _FIRST_DAY


def _microseconds(value: datetime) -> int:
    if value.tzinfo is not None:
        raise ValueError("a time with a zone")
    return (value - _EPOCH) // _MICROSECOND


def _unscaled(precision: int, scale: int) -> Callable[[Decimal], int]:
    limit = 10**precision

    def physical(value: Decimal) -> int:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int) or exponent < -scale or exponent > precision:
            raise ValueError("no decimal, or more digits than the column has")
        number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
        if number >= limit:
            raise ValueError("more digits than the column has")
        return -number if sign else number

    return physical
