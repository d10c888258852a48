"""Runs a script of events on an engine or the oracle and checks its expectations.

The output does not depend on the number of events per ``feed``: rows are sorted by the arrival they
belong to, and an expectation compares those that belong before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

import penstock
from penstock.errors import PenstockError, ScriptError, SqlError
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.program.isa.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
)
from penstock.program.isa.kernels import JOIN_KERNELS
from penstock.sql.parse.parser import parse_query
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.literals import format_rows, physical_array, to_physical
from penstock.streams.schema import Stream
from penstock.testing.expectations import Expectations, Output
from penstock.testing.script import (
    ChangeStep,
    DeriveStep,
    DropStep,
    EndStep,
    ExpectStep,
    InstallStep,
    Line,
    PunctuateStep,
    Step,
    StreamStep,
    TupleStep,
)

if TYPE_CHECKING:
    from penstock.engines.shared.query import Result
    from penstock.engines.shared.running_query import Letter

Event = Tuples | Merged | Malformed | Punctuation | End | Instruction


class Target(Protocol):
    """Runs the events of a script: an engine, or the oracle."""

    @property
    def position(self) -> int:
        """The position of the next event; after an error, that of the event at fault."""

    def feed(self, events: Sequence[Event]) -> None:
        """Process events and instructions in order."""

    def outputs(self) -> list[Output]:
        """The outputs of every query since the last call."""


@dataclass(frozen=True)
class _Tuple:
    """A tuple that will be batched with its neighbours."""

    stream: Stream
    values: tuple[object, ...]


class Replay:
    """Runs a script on a target.

    Parameters
    ----------
    target
        The engine, or the oracle.
    batch
        The number of events per ``feed``.
    order
        Overrides the EMIT ORDER of every query.
    kernel
        Forces the kernel of every join, or of every aggregate. If any query has a join, a kernel
        for joins and a flow apply only to the queries that have one.
    print_line
        Called with every line of output.
    print_failure
        Called with the text of every expectation that fails.
    flow
        How cores share the joins of every query.
    """

    def __init__(
        self,
        target: Target,
        batch: int,
        order: str | None,
        kernel: str | None,
        print_line: Callable[[str], None],
        print_failure: Callable[[str], None],
        flow: FlowChoice = ANY_FLOW,
    ) -> None:
        self._target = target
        self._batch = batch
        self._options = QueryOptions(order, kernel, flow)
        self._texts: list[str] = []
        self._print_line = print_line
        self._expectations = Expectations(print_failure)
        self._streams: dict[str, Stream] = {}
        self._ended: set[str] = set()
        self._derived: set[str] = set()
        self._install_order: dict[str, int] = {}
        self._pending: list[tuple[Line, _Tuple | Event]] = []
        self._position = target.position

    def run(self, steps: Iterable[Step]) -> None:
        """Run all steps. A step that the target refuses is a ScriptError with its line."""
        steps = list(steps)
        self._texts = [step.sql for step in steps if isinstance(step, InstallStep)]
        for step in steps:
            try:
                self._take(step)
            except ScriptError:
                self._flush()
                raise
        self._flush()

    def _take(self, step: Step) -> None:
        if isinstance(step, TupleStep):
            self._send(step.line, self._tuple(step))
        elif isinstance(step, ExpectStep):
            if step.query.lower() not in self._install_order:
                raise _error(step.line, f"no query {step.query!r} was installed", "Install it.")
            self._expectations.add(step, self._position)
        elif isinstance(step, PunctuateStep):
            self._send(step.line, self._punctuation(step))
        elif isinstance(step, EndStep):
            for stream in self._to_end(step):
                self._ended.add(stream.name.lower())
                self._send(step.line, End(stream.name))
        else:
            self._instruct(step)

    def _instruct(
        self, step: StreamStep | DeriveStep | InstallStep | ChangeStep | DropStep
    ) -> None:
        if isinstance(step, StreamStep):
            self._send(step.line, CreateStream(step.stream))
            self._streams.setdefault(step.stream.name.lower(), step.stream)
        elif isinstance(step, DeriveStep):
            self._derived.add(step.name.lower())
            self._install_order[step.name.lower()] = len(self._install_order)
            self._send(step.line, Derive(step.name, step.sql))
        elif isinstance(step, InstallStep):
            self._install_order[step.query.lower()] = len(self._install_order)
            self._derived.discard(step.query.lower())
            options = options_for(step.sql, self._options, self._texts)
            install = Install(step.query, step.sql, options.order, options.kernel, options.flow)
            self._send(step.line, install)
        elif isinstance(step, ChangeStep):
            self._send(step.line, Change(step.query, step.sql))
        else:
            # Outputs are collected by query name, which another query may take after the drop.
            self._flush()
            self._send(step.line, Drop(step.query))

    def _send(self, line: Line, event: _Tuple | Event) -> None:
        self._pending.append((line, event))
        self._position += 1
        if len(self._pending) >= self._batch:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        start = self._target.position
        try:
            self._target.feed(_batch_tuples([event for _, event in pending]))
        except ScriptError:
            raise
        except PenstockError as error:
            index = min(self._target.position - start, len(pending) - 1)
            self._collect()
            self._expectations.check(self._target.position)
            raise _refused(pending[index][0], error) from error
        self._collect()
        self._expectations.check(self._position)

    def _collect(self) -> None:
        found = [
            output
            for output in self._target.outputs()
            if output.kind != "rows" or output.query.lower() not in self._derived
        ]
        rank = {"rows": 0, "late": 1, "dead": 2}
        found.sort(key=lambda o: (o.position, self._install_order[o.query.lower()], rank[o.kind]))
        for output in found:
            self._print_line(output.line)
        self._expectations.add_outputs(found)

    def _open(self, line: Line, name: str) -> Stream:
        stream = self._streams.get(name.lower())
        if stream is None:
            raise _error(
                line, f"there is no stream {name!r}", f"Declare it first: stream {name} (...)."
            )
        if name.lower() in self._ended:
            raise _error(line, f"stream {stream.name} has ended", "Put the line before its end.")
        return stream

    def _to_end(self, step: EndStep) -> list[Stream]:
        if step.stream is not None:
            return [self._open(step.line, step.stream)]
        return [s for key, s in self._streams.items() if key not in self._ended]

    def _tuple(self, step: TupleStep) -> _Tuple | Malformed:
        stream = self._open(step.line, step.stream)
        if len(step.values) != len(stream.schema):
            raise _error(
                step.line,
                f"stream {stream.name} has {len(stream.schema)} columns and the line "
                f"{len(step.values)} values",
                f"Write a value for each of: {', '.join(stream.schema.names)}.",
            )
        values: list[object] = []
        for literal, field in zip(step.values, stream.schema, strict=True):
            try:
                values.append(to_physical(literal, field.type))
            except ValueError as reason:
                text = ", ".join(value.text for value in step.values)
                return Malformed(stream.name, text, f"column {field.name}: {reason}")
        return _Tuple(stream, tuple(values))

    def _punctuation(self, step: PunctuateStep) -> Punctuation:
        stream = self._open(step.line, step.stream)
        name = step.attribute or stream.time
        if name is None:
            return Punctuation(stream.name, _any_time(step, stream))
        index = stream.index_of(name)
        if index is None:
            raise _error(
                step.line,
                f"stream {stream.name} has no column {name!r}",
                f"Write one of: {', '.join(stream.schema.names)}.",
            )
        try:
            value = to_physical(step.value, stream.schema.field(index).type)
        except ValueError as reason:
            raise _error(step.line, str(reason), f"Write a value of {name}'s type.") from None
        return Punctuation(stream.name, value, step.attribute and stream.schema.names[index])


def _any_time(step: PunctuateStep, stream: Stream) -> object:
    """The value of a punctuation without an attribute, in the units of the columns."""
    values: list[object] = []
    for field in stream.schema:
        if pa.types.is_string(field.type):
            continue
        try:
            values.append(to_physical(step.value, field.type))
        except ValueError:
            continue
    if not values or any(value != values[0] for value in values):
        raise _error(
            step.line,
            f"{step.value.text} can be meant for "
            f"{'several columns' if values else 'no column'} of stream {stream.name}",
            f"Write the attribute: punctuate {stream.name}.{stream.schema.names[0]}: ....",
        )
    return values[0]


def _batch_tuples(events: Sequence[_Tuple | Event]) -> list[Event]:
    """The events with adjacent tuples batched; tuples of several streams are interleaved."""
    grouped: list[Event] = []
    run: list[_Tuple] = []
    for event in events:
        if isinstance(event, _Tuple):
            run.append(event)
            continue
        if run:
            grouped.append(_batch(run))
            run = []
        grouped.append(event)
    return [*grouped, _batch(run)] if run else grouped


def _batch(run: list[_Tuple]) -> Tuples | Merged:
    streams = {item.stream.name.lower(): item.stream for item in run}
    batches = [
        _record_batch(stream, [item.values for item in run if item.stream is stream])
        for stream in streams.values()
    ]
    names = [stream.name for stream in streams.values()]
    if len(names) == 1:
        return Tuples(names[0], batches[0])
    which = np.array([names.index(item.stream.name) for item in run], dtype=np.int8)
    return Merged(tuple(names), tuple(batches), which)


def _record_batch(stream: Stream, rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = [
        physical_array([row[index] for row in rows], field.type)
        for index, field in enumerate(stream.schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=stream.schema)


def _error(line: Line, what: str, remedy: str) -> ScriptError:
    return ScriptError.at_line(line.number, line.text, what, remedy)


def _refused(line: Line, error: PenstockError) -> ScriptError:
    if isinstance(error, SqlError):  # it already shows its piece of the line
        what = re.sub(r" at line \d+, column \d+$", "", error.what, count=1, flags=re.MULTILINE)
        return ScriptError(f"line {line.number}: {what}", error.remedy)
    return _error(line, error.what, error.remedy)


@dataclass(frozen=True)
class QueryOptions:
    """The order, kernel and flow requested for the queries of a script."""

    order: str | None = None
    kernel: str | None = None
    flow: FlowChoice = ANY_FLOW

    def without_join(self) -> QueryOptions:
        """The options without those that only a join can have."""
        kernel = None if self.kernel in JOIN_KERNELS else self.kernel
        flow = replace(self.without_design().flow, name=None, branching=None)
        return replace(self, kernel=kernel, flow=flow)

    def without_design(self) -> QueryOptions:
        """The options without those that only a join of three and more streams can have."""
        return replace(self, flow=replace(self.flow, design=None, probe_order=None, stash=None))


def options_for(sql: str, options: QueryOptions, texts: Iterable[str]) -> QueryOptions:
    """The options for one query of a script with the queries ``texts``.

    Options for joins apply to the queries with a join, and those of a design to queries that join
    three and more streams. If none does, they stay and are refused.
    """
    most = max(map(streams_joined, texts), default=0)
    here = streams_joined(sql)
    if here < 3 <= most:
        options = options.without_design()
    return options.without_join() if here < 2 <= most else options


@lru_cache(maxsize=256)
def streams_joined(sql: str) -> int:
    """How many streams the largest join of the query itself has.

    >>> streams_joined("SELECT x FROM R"), streams_joined("SELECT x FROM R [ROWS 1], S [ROWS 1]")
    (1, 2)
    """
    try:
        query = parse_query(sql)
    except SqlError:
        return 0  # installing it raises the error
    return max(len(select.joins) + 1 for select in query.ast.selects)


def outputs_of(query: str, rows: Iterable[Result], letters: Iterable[Letter]) -> Iterator[Output]:
    """The outputs of a query, rows first."""
    for result in rows:
        texts = zip(result.positions.tolist(), format_rows(result.batch), strict=True)
        yield from (Output(position, query, "rows", text) for position, text in texts)
    for one in letters:
        yield Output(one.position, query, one.kind, one.text, one.stream, one.reason)


class EngineTarget:
    """An engine as a target of scripts: opened by name and closed, or borrowed open and reset.

    ``options`` are those of an engine that is opened.
    """

    def __init__(self, engine: Any, **options: Any) -> None:
        self._is_borrowed = not isinstance(engine, str)
        self._engine: Any = engine
        if not self._is_borrowed:
            self._engine = penstock.connect(engine, **options)
        self._queries: dict[str, Any] = {}

    @property
    def position(self) -> int:
        return int(self._engine.position)

    def feed(self, events: Sequence[Event]) -> None:
        try:
            self._engine.feed(events)
        finally:
            self._queries = dict(self._engine.queries)

    def outputs(self) -> list[Output]:
        self._engine.wait()
        found: list[Output] = []
        for name, query in self._queries.items():
            found += outputs_of(name, query.drain(), query.drain_letters())
        return found

    def __enter__(self) -> EngineTarget:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_borrowed:
            self._engine.reset()
        else:
            self._engine.close()
