"""Run a query over bounded streams: files or tables in, rows out."""

from __future__ import annotations

import itertools
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock
from penstock.errors import BufferFull, InputError, SqlError
from penstock.program.blocks import JoinStreams, SetWindow
from penstock.program.instructions import CreateStream, Derive
from penstock.sql import statements
from penstock.sql.parse import parse
from penstock.streams.events import Merged, Tuples
from penstock.streams.files import FileSource, Source, TableSource
from penstock.streams.merge import Arrival, merge
from penstock.streams.order import order_columns
from penstock.streams.schema import Stream
from penstock.streams.sinks import FileSink
from penstock.streams.windows import Range, Unbounded

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.local.query import Letter, Query

BATCH_ROWS = 65_536
KEPT_LETTERS = 10
RESULT = "result"


@dataclass
class Summary:
    """What a run did. :meth:`as_json` has the keys of ``--summary``."""

    engine: str
    kernel: str | None
    flow: str | None
    tuples_in: int = 0
    rows_out: int = 0
    late: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    letters: list[Letter] = field(default_factory=list)

    @property
    def tuples_per_second(self) -> float:
        return self.tuples_in / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, object]:
        """The numbers, without the letters."""
        return {
            "engine": self.engine,
            "kernel": self.kernel,
            "flow": self.flow,
            "tuples_in": self.tuples_in,
            "rows_out": self.rows_out,
            "late": self.late,
            "dead_letters": self.dead_letters,
            "seconds": self.seconds,
            "tuples_per_second": self.tuples_per_second,
        }


@dataclass
class Run:
    """A query that is installed and has its sources, ready to be executed."""

    engine: Engine
    query: Query
    sources: list[Source]
    order_by: str | None
    summary: Summary

    @property
    def total_rows(self) -> int | None:
        """How many tuples will come, if the sources know."""
        counts = [source.rows() for source in self.sources]
        return None if None in counts else sum(count or 0 for count in counts)

    def execute(
        self,
        write: Callable[[pa.RecordBatch], None],
        progress: Callable[[int], None] = lambda tuples: None,
    ) -> Summary:
        """Feed everything and hand each batch of the result to ``write``."""
        started = time.perf_counter()
        punctuated = _silent(self.query, self.order_by)
        for event in merge(self.sources, self.order_by, BATCH_ROWS, punctuated):
            self._feed(event, write)
            if isinstance(event, Tuples | Merged):
                self.summary.tuples_in += len(event)
                progress(len(event))
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _feed(self, event: Arrival, write: Callable[[pa.RecordBatch], None]) -> None:
        """One event; whenever the query's buffer is full, it is drained and the engine goes on."""
        pending: list[Arrival] = [event]
        while True:
            try:
                self.engine.feed(pending)
            except BufferFull:
                # The buffer was empty before the event, so the event is taken; what is left of
                # its work goes on after draining.
                pending = []
                self._drain(write)
            else:
                self._drain(write)
                return

    def _drain(self, write: Callable[[pa.RecordBatch], None]) -> None:
        for result in self.query.drain():
            self.summary.rows_out += result.batch.num_rows
            write(result.batch)
        for query in self.engine.queries.values():
            for letter in query.drain_letters():
                self._count(letter)

    def _count(self, letter: Letter) -> None:
        if letter.kind == "late":
            self.summary.late += 1
        else:
            self.summary.dead_letters += 1
        if len(self.summary.letters) < KEPT_LETTERS:
            self.summary.letters.append(letter)


@dataclass(frozen=True)
class Installed:
    """The result query of a text on an engine that knows its streams, and where they come from.

    ``start_again`` makes another engine like it.
    """

    engine: Engine
    query: Query
    sources: dict[str, Source]
    start_again: Callable[[], Engine]


FROM_COMMAND_LINE = "Pass its file: --stream {name}=path."
FROM_PYTHON = "Pass its table or path: ps.sql(..., {name}=...)."


def install(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    engine: str = "local",
    missing: str = FROM_COMMAND_LINE,
    kernel: str | None = None,
) -> Installed:
    """Declare the streams and install the last SELECT of the text.

    ``streams`` has paths or data by name. A stream that the text does not declare has the columns
    of its file or table. ``missing`` tells how to give a stream that is not there.
    """
    found = parse(text)
    selects = [s for s in found if isinstance(s, statements.QueryText)]
    if not selects:
        raise InputError("the text has no SELECT", "Write the query whose rows are the result.")
    declared = {
        s.stream.name.lower(): s.stream for s in found if isinstance(s, statements.CreateStream)
    }
    sources = _open_sources(streams, declared)

    def start() -> Engine:
        started = penstock.connect(
            engine,
            # More than any event has, so that an event is taken whole or not at all.
            batch_rows=max(1 << 20, BATCH_ROWS * (len(streams) + 1)),
            push_timeout=0.0,
            windows_required=False,
            order_column=order_by,
        )
        _create(started, text, found, declared, sources)
        started.install(_in_place(text, selects[-1].text), RESULT, order, kernel)
        return started

    try:
        started = start()
    except SqlError as error:
        if not error.what.startswith("unknown stream '"):
            raise
        raise SqlError(error.what, missing.format(name=error.what.split("'")[1])) from None
    return Installed(started, started.queries[RESULT], sources, start)


def prepare(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    engine: str = "local",
    missing: str = FROM_COMMAND_LINE,
    kernel: str | None = None,
) -> Run:
    """As :func:`install`, and find what the query reads: it must all be there, and in order."""
    ready = install(text, streams, order_by, order, engine, missing, kernel)
    names = list(_streams_read(ready.engine, ready.query))
    for name in names:
        if name.lower() not in ready.sources:
            raise InputError(f"stream {name} has no data", missing.format(name=name))
    sources = [ready.sources[name.lower()] for name in names]
    if order_by is None and len(names) > 1:
        _check_unordered(ready, names)
    elif order_by is not None:
        order_columns([source.stream for source in sources], order_by)
    _warm_up(ready, sources)
    chosen = _kernel(ready.query)
    # Local joins are the three-step procedure (Teubner & Mueller 2011, §2.2) on one core.
    summary = Summary(engine, chosen, "three-step" if chosen else None)
    return Run(ready.engine, ready.query, sources, order_by, summary)


def _warm_up(ready: Installed, sources: list[Source]) -> None:
    """Compile what the query needs, on another engine with a few tuples: that is start-up."""
    if _kernel(ready.query) is None:
        return
    first: list[Tuples] = []
    for source in sources:
        parts = (part.event for part in source.parts(BATCH_ROWS))
        first += itertools.islice((event for event in parts if isinstance(event, Tuples)), 1)
    with ready.start_again() as engine:
        for row in range(2):
            for event in first:
                engine.feed([Tuples(event.stream, event.batch.slice(row, 1))])


def _open_sources(
    streams: Mapping[str, object], declared: Mapping[str, Stream]
) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for name, data in streams.items():
        if name.lower() in sources:
            raise InputError(f"stream {name} is given twice", "Give each stream once.")
        known = declared.get(name.lower())
        if isinstance(data, (str, Path)):
            sources[name.lower()] = FileSource.open(name, data, known)
        else:
            sources[name.lower()] = TableSource.open(name, data, known)
    return sources


def _in_place(text: str, statement: str) -> str:
    """The statement alone, at its place in the text, so that errors tell its line in the file."""
    return re.sub(r"[^\n]", " ", text[: text.rindex(statement)]) + statement


def _create(
    engine: Engine,
    text: str,
    found: list[statements.Statement],
    declared: Mapping[str, Stream],
    sources: Mapping[str, Source],
) -> None:
    for name, source in sources.items():
        if name not in declared:
            engine.feed([CreateStream(source.stream)])
    for statement in found:
        if isinstance(statement, statements.CreateStream):
            engine.feed([CreateStream(replace(statement.stream, bounded=True))])
        elif isinstance(statement, statements.DeriveStream):
            engine.feed([Derive(statement.name, _in_place(text, statement.query.text))])


def _streams_read(engine: Engine, query: Query) -> Iterator[str]:
    """The streams with tuples of their own that a query reads, in the order of its text."""
    seen: set[str] = set()
    waiting = [query]
    while waiting:
        current = waiting.pop(0)
        derived: list[Query] = []
        for scan in current.program.scans:
            name = scan.stream.name
            if name.lower() in seen:
                continue
            seen.add(name.lower())
            if name in engine.queries:
                derived.append(engine.queries[name])
            else:
                yield name
        waiting = derived + waiting


def _check_unordered(ready: Installed, names: list[str]) -> None:
    """Streams that are read one after another have no arrival order that a window could mean."""
    derived = [query.program for query in ready.engine.queries.values() if query.derived]
    windows = [
        instruction.window
        for program in [ready.query.program, *derived]
        for instruction in program.instructions
        if isinstance(instruction, SetWindow)
    ]
    if any(not isinstance(window, Unbounded) for window in windows):
        raise InputError(
            f"the windows of the query need an arrival order of {' and '.join(names)}, and none is "
            "given",
            "Pass the column that they are ordered by: --order-by ts, or order_by='ts' in Python.",
        )


def _silent(query: Query, order_by: str | None) -> set[str]:
    """The streams that would promise nothing by themselves, beside a time window that waits for it.

    A count window has no punctuator of its own. Its stream is sorted by the order column, so the
    run can promise in its place.
    """
    program = query.program
    scans = {scan.block: scan.stream.name for scan in program.scans}
    joins = [i for i in program.instructions if isinstance(i, JoinStreams)]
    return {
        scans[join.inputs[window.side]]
        for join in joins
        for window in program.instructions
        if isinstance(window, SetWindow)
        and window.block == join.block
        and not isinstance(window.window, Range)
        and window.time is not None
        and order_by is not None
        and window.time.name.lower() == order_by.lower()
    }


def _kernel(query: Query) -> str | None:
    joins = [i for i in query.program.instructions if isinstance(i, JoinStreams)]
    return joins[0].kernel if joins else None


def run_files(
    text: str,
    streams: Mapping[str, str | Path],
    order_by: str | None = None,
    out: str | Path | None = None,
    order: str | None = None,
    engine: str = "local",
    progress: Callable[[int], None] = lambda tuples: None,
) -> tuple[Summary, pa.Table | None]:
    """Run a query over files. The rows go to the file ``out`` or, without one, into a table."""
    run = prepare(text, streams, order_by, order, engine)
    return execute(run, out, progress)


def execute(
    run: Run, out: str | Path | None, progress: Callable[[int], None] = lambda tuples: None
) -> tuple[Summary, pa.Table | None]:
    """The run's rows in the file ``out``, or in a table."""
    with run.engine:
        if out is not None:
            with FileSink(out, run.query.schema) as sink:
                return run.execute(sink.write, progress), None
        batches: list[pa.RecordBatch] = []
        summary = run.execute(batches.append, progress)
        return summary, pa.Table.from_batches(batches, run.query.schema)


def run_tables(text: str, streams: Mapping[str, object], order_by: str | None = None) -> pa.Table:
    """All rows of a query over tables or paths; late tuples and dead letters are a warning."""
    run = prepare(text, streams, order_by, missing=FROM_PYTHON)
    summary, table = execute(run, None)
    if summary.letters:
        first = summary.letters[0]
        warnings.warn(
            f"{summary.late} late tuples and {summary.dead_letters} dead letters; the first: "
            f"{first.kind} {first.stream}: {first.text} ({first.reason})",
            stacklevel=3,
        )
    assert table is not None
    return table
