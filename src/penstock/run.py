"""Run a query over bounded streams: files or tables in, rows out."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engines.spark.flow import SHARED_BY_ALL
from penstock.errors import BufferFull, InputError, QueryFailed, ResultDoesNotFit
from penstock.program.flow_choice import ANY_FLOW, FlowChoice, check_joins
from penstock.run_inputs import (
    COMMAND_LINE,
    PYTHON,
    Wording,
    check_unordered,
    first_kernel,
    silent,
    streams_read,
)
from penstock.run_letters import LETTERS, RunLetter, WriteLetters, letters_batch
from penstock.run_setup import BATCH_ROWS, Installed, install
from penstock.run_spark import SparkOptions, SparkRun
from penstock.run_summary import Summary
from penstock.streams.events import Merged, Tuples
from penstock.streams.files import Source
from penstock.streams.merge import Arrival, merge
from penstock.streams.order import order_columns
from penstock.streams.sinks import FileSink
from penstock.streams.tables import counted

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query


@dataclass
class Run:
    """A query that is installed and has its sources, ready to be executed."""

    engine: Engine
    query: Query[Any]
    sources: list[Source]
    order_by: str | None
    summary: Summary

    def execute(
        self,
        write: Callable[[pa.RecordBatch], None],
        progress: Callable[[int], None] = lambda tuples: None,
        write_letters: WriteLetters = lambda letters: None,
    ) -> Summary:
        """Feed everything and hand each batch of the result to ``write``, and all letters on."""
        started = time.perf_counter()
        punctuated = silent(self.query, self.order_by)
        with self.engine:
            for event in merge(self.sources, self.order_by, BATCH_ROWS, punctuated):
                self._feed(event, write, write_letters)
                if isinstance(event, Tuples | Merged):
                    self.summary.tuples_in += len(event)
                    progress(len(event))
            self._until_taken(self.engine.wait, write, write_letters)
            metrics = self.query.metrics()
            self.summary.cores, self.summary.shed = metrics["cores"], sum(metrics["shed"].values())
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _feed(
        self,
        event: Arrival,
        write: Callable[[pa.RecordBatch], None],
        write_letters: WriteLetters,
    ) -> None:
        """One event, taken whole."""
        pending: list[Arrival] = [event]

        def feed() -> None:
            # The buffer was empty before the event, so the event is taken, whatever happens; what
            # is left of its work goes on after draining.
            given = list(pending)
            pending.clear()
            self.engine.feed(given)

        self._until_taken(feed, write, write_letters)

    def _until_taken(
        self,
        work: Callable[[], None],
        write: Callable[[pa.RecordBatch], None],
        write_letters: WriteLetters,
    ) -> None:
        """Do it; whenever the query's buffer is full, it is drained and the engine goes on."""
        while True:
            try:
                work()
            except BufferFull:
                self._drain(write, write_letters)
            else:
                self._drain(write, write_letters)
                return

    def _drain(
        self,
        write: Callable[[pa.RecordBatch], None],
        write_letters: WriteLetters,
    ) -> None:
        for result in self.query.drain():
            self.summary.rows_out += result.batch.num_rows
            write(result.batch)
        for query in self.engine.queries.values():
            letters = [RunLetter(query.name, letter) for letter in query.drain_letters()]
            write_letters(letters)
            self.summary.count(letters)


def prepare(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    wording: Wording = COMMAND_LINE,
    kernel: str | None = None,
    spark: SparkOptions | None = None,
    flow: FlowChoice = ANY_FLOW,
) -> Run | SparkRun:
    """As :func:`install`, and find what the query reads: it must all be there, and in order.

    The run is on Spark if there are options for it, else on the embedded engine.
    """
    # The engine that tries out what Spark will be told needs none of the cores of a flow.
    here = flow if spark is None else replace(flow, name=None)
    ready = install(text, streams, order_by, order, wording, kernel, flow=here)
    if spark is not None:
        check_joins(flow, ready.query.program, SHARED_BY_ALL)
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
    if spark is not None:
        asked: dict[str, Any] = {"query": text, "order_by": order_by, "order": order}
        asked |= {"kernel": kernel, "precision": flow.precision}
        run = SparkRun(spark, ready, sources, order_by, asked)
        _warm_up(ready, sources)
        return run
    _warm_up(ready, sources)
    chosen = first_kernel(ready.query)
    decided = ready.query.pipeline.flow
    summary = Summary("local", chosen, decided.name if ready.query.program.joins else None)
    return Run(ready.engine, ready.query, sources, order_by, summary)


def _warm_up(ready: Installed, sources: list[Source]) -> None:
    """Compile what the query needs, on another engine with a few tuples: that is start-up."""
    if first_kernel(ready.query) is None:
        return
    first: list[Tuples] = []
    for source in sources:
        parts = (part.event for part in source.parts(BATCH_ROWS))
        first += itertools.islice((event for event in parts if isinstance(event, Tuples)), 1)
    # What fails here need not fail there, since the tuples come in another order.
    with suppress(QueryFailed), ready.start_again() as engine:
        for row in range(2):
            for event in first:
                engine.feed([Tuples(event.stream, event.batch.slice(row, 1))])


def total_rows(sources: Sequence[Source]) -> int | None:
    """How many tuples will come, if the sources know."""
    counts = [source.rows() for source in sources]
    return None if None in counts else sum(count or 0 for count in counts)


def execute(
    run: Run | SparkRun,
    out: str | Path | None,
    progress: Callable[[int], None] = lambda tuples: None,
    letters: str | Path | None = None,
) -> tuple[Summary, pa.Table | None]:
    """The run's rows in the file ``out``, or in a table; its letters in the file ``letters``."""
    batches: list[pa.RecordBatch] = []
    write: Callable[[pa.RecordBatch], None] = batches.append
    letter_sink: FileSink | None = None

    def write_letters(found: list[RunLetter]) -> None:
        if letter_sink is not None:
            letter_sink.write(letters_batch(found))

    with ExitStack() as opened:
        if out is not None:
            write = opened.enter_context(FileSink(out, run.query.schema)).write
        if letters is not None:
            letter_sink = opened.enter_context(FileSink(letters, LETTERS))
        try:
            summary = run.execute(write, progress, write_letters)
        except QueryFailed as failed:
            # One query was asked for: what its user must know is the reason.
            if isinstance(failed.__cause__, ResultDoesNotFit):
                raise failed.__cause__ from None
            raise
    table = None if out is not None else pa.Table.from_batches(batches, run.query.schema)
    return summary, table


def run_tables(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None = None,
    order: str | None = None,
    kernel: str | None = None,
    flow: FlowChoice = ANY_FLOW,
) -> pa.Table:
    """All rows of a query over tables or paths; what is late, dead or shed is a warning."""
    run = prepare(text, streams, order_by, order, PYTHON, kernel, flow=flow)
    summary, table = execute(run, None)
    if summary.letters:
        warnings.warn(
            f"{counted(summary.late, 'late tuple')} and "
            f"{counted(summary.dead_letters, 'dead letter')}; the first: {summary.letters[0]}",
            stacklevel=3,
        )
    if summary.shed:
        warnings.warn(
            f"{counted(summary.shed, 'tuple')} shed; admission='wait' sheds none", stacklevel=3
        )
    assert table is not None
    return table
