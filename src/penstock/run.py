"""Run a query over bounded streams: files or tables in, rows out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from penstock.streams.schema import Stream
from penstock.streams.sinks import FileSink
from penstock.streams.windows import Unbounded

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
        for event in merge(self.sources, self.order_by, BATCH_ROWS):
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
                pending = []  # the event is taken; what is left of it goes on after draining
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


def prepare(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    engine: str = "local",
    missing: str = "Pass its file: --stream {name}=path.",
) -> Run:
    """Declare the streams, install the last SELECT of the text, and open what it reads.

    ``streams`` has paths or data by name. A stream that the text does not declare has the columns
    of its file or table. ``missing`` tells how to give a stream that is not there.
    """
    found = parse(text)
    started: Any = penstock.connect(
        engine,
        batch_rows=max(1 << 20, BATCH_ROWS * (len(streams) + 1)),
        push_timeout=0.0,
        windows_required=False,
        order_column=order_by,
    )
    declared = {
        s.stream.name.lower(): s.stream for s in found if isinstance(s, statements.CreateStream)
    }
    sources = _open_sources(streams, declared)
    selects = [s for s in found if isinstance(s, statements.QueryText)]
    if not selects:
        raise InputError("the text has no SELECT", "Write the query whose rows are the result.")
    try:
        _create(started, found, declared, sources)
        query: Query = started.install(selects[-1].text, RESULT, order)
    except SqlError as error:
        unknown = error.what.startswith("unknown stream '")
        name = error.what.split("'")[1] if unknown else ""
        raise SqlError(error.what, missing.format(name=name) if unknown else error.remedy) from None
    read = [_source(name, sources, missing) for name in _streams_read(started, query)]
    if order_by is None and len(read) > 1:
        _check_unordered(started, query)
    return Run(started, query, read, order_by, Summary(engine, _kernel(query), _flow(query)))


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


def _create(
    engine: Engine,
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
            engine.feed([Derive(statement.name, statement.query.text)])


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


def _source(name: str, sources: Mapping[str, Source], missing: str) -> Source:
    if name.lower() not in sources:
        raise InputError(f"stream {name} has no data", missing.format(name=name))
    return sources[name.lower()]


def _check_unordered(engine: Engine, query: Query) -> None:
    """Streams that are read one after another have no arrival order that a window could mean."""
    programs = [query.program, *(q.program for q in engine.queries.values() if q.derived)]
    for program in programs:
        for instruction in program.instructions:
            if isinstance(instruction, SetWindow) and not isinstance(instruction.window, Unbounded):
                raise InputError(
                    f"the window {instruction.window} needs an arrival order of the streams, and "
                    "none is given",
                    "Pass the column that they are ordered by: --order-by ts, or order_by='ts' in "
                    "Python.",
                )


def _kernel(query: Query) -> str | None:
    joins = [i for i in query.program.instructions if isinstance(i, JoinStreams)]
    return joins[0].kernel if joins else None


def _flow(query: Query) -> str | None:
    return "three-step" if _kernel(query) is not None else None


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
    run = prepare(
        text, streams, order_by, missing="Pass its table or path: ps.sql(..., {name}=...)."
    )
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
