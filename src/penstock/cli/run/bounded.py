"""Runs a query over bounded streams: files or tables in, rows out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.cli.run.inputs import (
    COMMAND_LINE,
    PYTHON,
    Wording,
    check_unordered,
    first_kernel,
    streams_read,
    unpunctuated_streams,
)
from penstock.cli.run.on_spark import SparkOptions, SparkRun
from penstock.cli.run.setup import InstalledQuery, install
from penstock.cli.run.summary import LETTERS, RunLetter, Sinks, Summary, letters_batch
from penstock.connectors.files import Source
from penstock.connectors.merge import Arrival, merge
from penstock.connectors.sinks import FileSink
from penstock.engines.spark.flow import decide_on_spark
from penstock.errors import BufferFull, InputError, QueryFailed, ResultDoesNotFit, warn
from penstock.processor.topology.topology import Topology
from penstock.program.choose.flow import warnings_of
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.streams.display import counted
from penstock.streams.events import Merged, Tuples
from penstock.streams.order import order_columns
from penstock.tuning import TUNING

if TYPE_CHECKING:
    from penstock.engines.local.engine import Engine
    from penstock.engines.shared.query import Query


@dataclass
class Run:
    """An installed query with its sources, ready to execute."""

    engine: Engine
    query: Query[Any]
    sources: list[Source]
    order_by: str | None
    summary: Summary

    def execute(self, sinks: Sinks) -> Summary:
        """Feed all events; ``sinks`` get what comes out."""
        started = time.perf_counter()
        punctuated = unpunctuated_streams(self.engine, self.query, self.order_by)
        with self.engine:
            for event in merge(self.sources, self.order_by, TUNING.run_batch_rows, punctuated):
                self._feed(event, sinks)
                if isinstance(event, Tuples | Merged):
                    self.summary.tuples_in += len(event)
                    sinks.progress(len(event))
            self._drain_while_full(self.engine.wait, sinks)
            metrics = self.query.metrics()
            self.summary.cores, self.summary.shed = metrics["cores"], sum(metrics["shed"].values())
            self.summary.expression_failures = metrics["expression_failures"]
            self.summary.revise_design(metrics.get("designs", ()))
        self.summary.seconds = time.perf_counter() - started
        return self.summary

    def _feed(self, event: Arrival, sinks: Sinks) -> None:
        """Feed one event, whole."""
        pending: list[Arrival] = [event]

        def feed() -> None:
            # The buffer was empty before the event, so the engine accepts the event; the
            # rest of its work continues after draining.
            given = list(pending)
            pending.clear()
            self.engine.feed(given)

        self._drain_while_full(feed, sinks)

    def _drain_while_full(self, work: Callable[[], None], sinks: Sinks) -> None:
        """Do the work; whenever the query's buffer is full, drain it and continue."""
        while True:
            try:
                work()
            except BufferFull:
                self._drain(sinks)
            else:
                self._drain(sinks)
                return

    def _drain(self, sinks: Sinks) -> None:
        for result in self.query.drain():
            sinks.take_rows(result.batch)
        for query in self.engine.queries.values():
            sinks.take_letters([RunLetter(query.name, one) for one in query.drain_letters()])


def prepare(
    text: str,
    streams: Mapping[str, object],
    order_by: str | None,
    order: str | None = None,
    wording: Wording = COMMAND_LINE,
    kernel: str | None = None,
    spark: SparkOptions | None = None,
    flow: FlowChoice = ANY_FLOW,
    topology: Topology | None = None,
) -> Run | SparkRun:
    """Install a query and find its sources, which must all be present and ordered.

    The run is on Spark if there are options for it, else on the embedded engine.
    """
    on_spark = spark is not None
    ready = install(
        text, streams, order_by, order, wording, kernel, False, flow, on_spark, topology
    )
    command: dict[str, Any] = {"query": text, "order_by": order_by, "order": order}
    command |= {"kernel": kernel, "precision": flow.precision}
    try:
        return _prepare_run(ready, order_by, wording, spark, flow, command)
    except BaseException:
        ready.engine.close()  # and the threads of its flow
        raise


def _prepare_run(
    ready: InstalledQuery,
    order_by: str | None,
    wording: Wording,
    spark: SparkOptions | None,
    flow: FlowChoice,
    command: dict[str, Any],
) -> Run | SparkRun:
    if spark is not None:
        decide_on_spark(ready.query.program.placed(flow), spark.cores)  # or an error
    else:
        for warning in warnings_of(ready.query.program):
            warn(warning)
    names = list(streams_read(ready.engine, ready.query))
    for name in names:
        if name.lower() not in ready.sources:
            raise InputError(f"stream {name} has no data", wording.stream.format(name=name))
    sources = [ready.sources[name.lower()] for name in names]
    read = [source.stream for source in sources]
    if order_by is None and len(names) > 1:
        check_unordered(ready.engine, ready.query, read, wording)
    elif order_by is not None and len(names) > 1:
        order_columns(read, order_by)
    elif order_by is not None and read[0].index_of(order_by) is None:
        warn(
            f"stream {read[0].name} has no column {order_by!r}; it is the only stream, so it is "
            "taken as it comes"
        )
    if spark is not None:
        run = SparkRun(spark, ready, sources, order_by, command)
        _warm_up(ready, sources)
        return run
    _warm_up(ready, sources)
    chosen = first_kernel(ready.query)
    decided = ready.query.pipeline.flow
    joined = ready.query.program.most_joined
    flow_name = decided.name if joined == 2 else None
    design = decided.design if joined > 2 else None
    summary = Summary("local", chosen, flow_name, design)
    return Run(ready.engine, ready.query, sources, order_by, summary)


def _warm_up(ready: InstalledQuery, sources: list[Source]) -> None:
    """Compile the query's kernels during start-up, on another engine with a few tuples."""
    if first_kernel(ready.query) is None:
        return
    first: list[Tuples] = []
    for source in sources:
        parts = (part.event for part in source.parts(TUNING.run_batch_rows))
        first += itertools.islice((event for event in parts if isinstance(event, Tuples)), 1)
    # A failure here need not occur in the run: the tuples come in another order.
    with suppress(QueryFailed), ready.start_again() as engine:
        for row in range(2):
            for event in first:
                engine.feed([Tuples(event.stream, event.batch.slice(row, 1))])


def total_rows(sources: Sequence[Source]) -> int | None:
    """The number of tuples to come, if the sources know it."""
    counts = [source.rows() for source in sources]
    return None if None in counts else sum(count or 0 for count in counts)


def execute(
    run: Run | SparkRun,
    out: str | Path | None,
    progress: Callable[[int], None] = lambda tuples: None,
    letters: str | Path | None = None,
) -> tuple[Summary, pa.Table | None]:
    """Write the run's rows to ``out`` or return a table; write its letters to ``letters``."""
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
            summary = run.execute(Sinks(run.summary, write, write_letters, progress))
        except QueryFailed as failed:
            # There is only one query, so its error says enough.
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
    """All rows of a query over tables or paths; warns of late, dead and shed tuples."""
    run = prepare(text, streams, order_by, order, PYTHON, kernel, flow=flow)
    summary, table = execute(run, None)
    if summary.letters:
        warn(
            f"{counted(summary.late, 'late tuple')} and "
            f"{counted(summary.dead_letters, 'dead letter')}; the first: {summary.letters[0]}"
        )
    if summary.shed:
        warn(f"{counted(summary.shed, 'tuple')} shed; admission='wait' sheds none")
    assert table is not None
    return table
