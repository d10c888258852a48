"""Run a query over bounded streams: files or tables in, rows out."""

from __future__ import annotations

import itertools
import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import penstock
from penstock.errors import BufferFull, InputError, SqlError
from penstock.program.instructions import CreateStream, Derive
from penstock.run_inputs import (
    COMMAND_LINE,
    PYTHON,
    Wording,
    check_unordered,
    first_kernel,
    silent,
    streams_read,
)
from penstock.sql import statements
from penstock.sql.parse import parse
from penstock.streams.events import Merged, Tuples
from penstock.streams.files import FileSource, Source, TableSource
from penstock.streams.merge import Arrival, merge
from penstock.streams.order import order_columns
from penstock.streams.schema import Stream
from penstock.streams.sinks import FileSink
from penstock.streams.tables import counted

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query
    from penstock.engines.shared.running import Letter

BATCH_ROWS = 65_536
KEPT_LETTERS = 10
RESULT = "result"
_LETTER_FIELDS: list[tuple[str, pa.DataType]] = [
    ("kind", pa.string()),
    ("stream", pa.string()),
    ("position", pa.int64()),
    ("reason", pa.string()),
    ("tuple", pa.string()),
]
LETTER_COLUMNS = pa.schema(_LETTER_FIELDS)


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
    query: Query[Any]
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
        write_letters: Callable[[list[Letter]], None] = lambda letters: None,
    ) -> Summary:
        """Feed everything and hand each batch of the result to ``write``, and all letters on."""
        started = time.perf_counter()
        punctuated = silent(self.query, self.order_by)
        for event in merge(self.sources, self.order_by, BATCH_ROWS, punctuated):
            self._feed(event, write, write_letters)
            if isinstance(event, Tuples | Merged):
                self.summary.tuples_in += len(event)
                progress(len(event))
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _feed(
        self,
        event: Arrival,
        write: Callable[[pa.RecordBatch], None],
        write_letters: Callable[[list[Letter]], None],
    ) -> None:
        """One event; whenever the query's buffer is full, it is drained and the engine goes on."""
        pending: list[Arrival] = [event]
        while True:
            try:
                self.engine.feed(pending)
            except BufferFull:
                # The buffer was empty before the event, so the event is taken; what is left of
                # its work goes on after draining.
                pending = []
                self._drain(write, write_letters)
            else:
                self._drain(write, write_letters)
                return

    def _drain(
        self,
        write: Callable[[pa.RecordBatch], None],
        write_letters: Callable[[list[Letter]], None],
    ) -> None:
        for result in self.query.drain():
            self.summary.rows_out += result.batch.num_rows
            write(result.batch)
        for query in self.engine.queries.values():
            letters = query.drain_letters()
            write_letters(letters)
            for letter in letters:
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
    query: Query[Any]
    sources: dict[str, Source]
    start_again: Callable[[], Engine]


def install(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    engine: str = "local",
    wording: Wording = COMMAND_LINE,
    kernel: str | None = None,
    explained: bool = False,
) -> Installed:
    """Declare the streams and install the last SELECT of the text.

    ``streams`` has paths or data by name. A stream that the text does not declare has the columns
    of its file or table. ``wording`` tells how to give a stream that is not there. ``explained``
    takes the SELECT of an EXPLAIN as well.
    """
    found = parse(text)
    select = _last_select(found, wording, explained)
    declared = {
        s.stream.name.lower(): s.stream for s in found if isinstance(s, statements.CreateStream)
    }
    sources = _open_sources(streams, declared)

    def start() -> Engine:
        started: Engine = penstock.connect(
            engine,
            # More than any event has, so that an event is taken whole or not at all.
            batch_rows=max(1 << 20, BATCH_ROWS * (len(streams) + 1)),
            push_timeout=0.0,
            windows_required=False,
            order_column=order_by,
        )
        _create(started, text, found, declared, sources)
        started.install(_in_place(text, select.text), RESULT, order, kernel)
        return started

    try:
        started = start()
    except SqlError as error:
        if not error.what.startswith("unknown stream '"):
            raise
        missing = wording.stream.format(name=error.what.split("'")[1])
        raise SqlError(error.what, missing) from None
    return Installed(started, started.queries[RESULT], sources, start)


def _last_select(
    found: list[statements.Statement], wording: Wording, explained: bool
) -> statements.QueryText:
    selects: list[statements.QueryText] = []
    for statement in found:
        if isinstance(statement, statements.QueryText):
            selects.append(statement)
        elif explained and isinstance(statement, statements.Explain):
            selects.append(statement.query)
    if selects:
        return selects[-1]
    if any(isinstance(statement, statements.Explain) for statement in found):
        raise InputError(
            "the text has no SELECT but one to EXPLAIN, which makes no rows",
            f"Leave EXPLAIN out, or use {wording.explain} to see its plan.",
        )
    raise InputError("the text has no SELECT", "Write the query whose rows are the result.")


def prepare(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    engine: str = "local",
    wording: Wording = COMMAND_LINE,
    kernel: str | None = None,
) -> Run:
    """As :func:`install`, and find what the query reads: it must all be there, and in order."""
    ready = install(text, streams, order_by, order, engine, wording, kernel)
    names = list(streams_read(ready.engine, ready.query))
    for name in names:
        if name.lower() not in ready.sources:
            raise InputError(f"stream {name} has no data", wording.stream.format(name=name))
    sources = [ready.sources[name.lower()] for name in names]
    read = [source.stream for source in sources]
    if order_by is None and len(names) > 1:
        check_unordered(ready.engine, ready.query, read, wording)
    elif order_by is not None:
        order_columns(read, order_by)
    _warm_up(ready, sources)
    chosen = first_kernel(ready.query)
    # Local joins are the three-step procedure (Teubner & Mueller 2011, §2.2) on one core.
    summary = Summary(engine, chosen, "three-step" if chosen else None)
    return Run(ready.engine, ready.query, sources, order_by, summary)


def _warm_up(ready: Installed, sources: list[Source]) -> None:
    """Compile what the query needs, on another engine with a few tuples: that is start-up."""
    if first_kernel(ready.query) is None:
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
    run: Run,
    out: str | Path | None,
    progress: Callable[[int], None] = lambda tuples: None,
    letters: str | Path | None = None,
) -> tuple[Summary, pa.Table | None]:
    """The run's rows in the file ``out``, or in a table; its letters in the file ``letters``."""
    batches: list[pa.RecordBatch] = []
    write: Callable[[pa.RecordBatch], None] = batches.append
    write_letters: Callable[[list[Letter]], None] = lambda letters: None  # noqa: E731
    with ExitStack() as opened:
        opened.enter_context(run.engine)
        if out is not None:
            write = opened.enter_context(FileSink(out, run.query.schema)).write
        if letters is not None:
            letter_sink = opened.enter_context(FileSink(letters, LETTER_COLUMNS))
            write_letters = lambda found: letter_sink.write(_letter_batch(found))  # noqa: E731
        summary = run.execute(write, progress, write_letters)
    table = None if out is not None else pa.Table.from_batches(batches, run.query.schema)
    return summary, table


def _letter_batch(letters: list[Letter]) -> pa.RecordBatch:
    columns: list[list[object]] = [
        [letter.kind for letter in letters],
        [letter.stream for letter in letters],
        [letter.position for letter in letters],
        [letter.reason for letter in letters],
        [letter.text for letter in letters],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LETTER_COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LETTER_COLUMNS)


def run_tables(text: str, streams: Mapping[str, object], order_by: str | None = None) -> pa.Table:
    """All rows of a query over tables or paths; late tuples and dead letters are a warning."""
    run = prepare(text, streams, order_by, wording=PYTHON)
    summary, table = execute(run, None)
    if summary.letters:
        first = summary.letters[0]
        warnings.warn(
            f"{counted(summary.late, 'late tuple')} and "
            f"{counted(summary.dead_letters, 'dead letter')}; the first: "
            f"{first.kind} {first.stream}: {first.text} ({first.reason})",
            stacklevel=3,
        )
    assert table is not None
    return table
