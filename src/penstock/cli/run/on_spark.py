"""Runs a query on Spark: files go to the log, the rows of the streaming query to the sink.

Why a run that was killed can be run again: setup and files are one sequence of events, the same
every time, and the log knows how many of its positions it holds, so a run feeds those after them.
The results of Spark are kept batch by batch, each batch once by its number, and a run passes all of
them to its sink from the first one on. The sink's file gets its name after the last row. So the
file is complete, with each row once, or absent.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.checkpoint_match import PROGRAMS, CommandRecord
from penstock.cli.run.inputs import first_kernel, unpunctuated_streams
from penstock.cli.run.setup import InstalledQuery
from penstock.cli.run.summary import RunLetter, Sinks, Summary
from penstock.connectors.files import FileSource, Source
from penstock.connectors.merge import merge
from penstock.engines.shared.input_slices import Event, cut
from penstock.engines.spark.flow import decide_on_spark, flow_of
from penstock.engines.spark.resident.query import join_cores
from penstock.program.isa.instructions import Derive, Install, Instruction
from penstock.streams.events import Merged, Tuples
from penstock.tuning import TUNING

if TYPE_CHECKING:
    from penstock.engines.spark.core.output_batch import Batch
    from penstock.engines.spark.engine import Engine

_LOOK_AGAIN = 0.2
"""Seconds between two reads of the results while a run waits for the cores."""


@dataclass(frozen=True)
class SparkOptions:
    """The Spark settings of a run or replay; None means the default of ``ps.connect("spark")``."""

    cores: int = 1
    master: str | None = None
    rows_per_trigger: int = 1_048_576
    checkpoint: Path | None = None

    def connect(self, **options: Any) -> Engine:
        """Start an engine that keeps its results and whose ``feed`` waits for the cores."""
        from penstock.engines.spark.engine import Engine

        return Engine(
            cores=self.cores,
            master=self.master,
            rows_per_trigger=self.rows_per_trigger,
            checkpoint=self.checkpoint,
            keep_results=True,
            push_timeout=math.inf,
            **options,
        )


class SparkRun:
    """A query that an embedded engine has accepted, to run on Spark over the same sources.

    ``command`` has the arguments of the command, by which a checkpoint recognises its run.
    """

    def __init__(
        self,
        options: SparkOptions,
        ready: InstalledQuery,
        sources: list[Source],
        order_by: str | None,
        command: dict[str, Any],
    ) -> None:
        self.query = ready.query
        self.sources = sources
        self.order_by = order_by
        self._options = options
        self._setup = ready.setup
        self._punctuated = unpunctuated_streams(ready.engine, ready.query, order_by)
        self._topology = ready.engine.topology
        chosen = first_kernel(ready.query)
        program = ready.query.program
        design = decide_on_spark(program, options.cores).design if program.most_joined > 2 else None
        flow = flow_of(program)
        if self._topology is not None and program.joins:
            flow = ready.query.pipeline.flow.name  # as in any process
        self.summary = Summary("spark", chosen, flow, design)
        programs = {name: query.program.digest for name, query in ready.engine.queries.items()}
        command = {**command, PROGRAMS: programs, "files": _files(sources)}
        self._record = CommandRecord(options.checkpoint, options.cores, command, self._topology)

    def execute(self, sinks: Sinks) -> Summary:
        """Feed the events that are not in the log yet, and pass all rows and letters on."""
        options: dict[str, Any] = {"windows_required": False, "order_column": self.order_by}
        options["topology"] = self._topology
        self._record.begin()
        with self._options.connect(**options) as engine:
            fed = FedEngine(engine)
            fed.feed(self._setup)
            # Timing starts when the workers run and have the query.
            engine.wait()
            started = time.perf_counter()
            reader = _Reader(fed, sinks, keeps_results=self._options.checkpoint is not None)
            self._feed(fed, reader)
            while engine.progress < engine.position:
                engine.wait_for(engine.position, _LOOK_AGAIN)
                reader.read()
            reader.read()
            self.summary.seconds = time.perf_counter() - started
            self.summary.batches = engine.batches
            self.summary.spark_version = engine.spark_version
        return self.summary

    def _feed(self, fed: FedEngine, reader: _Reader) -> None:
        arrivals = merge(self.sources, self.order_by, TUNING.run_batch_rows, self._punctuated)
        for event in arrivals:
            tuples = len(event) if isinstance(event, Tuples | Merged) else 0
            if not tuples:
                reader.others.append(fed.position)
            self.summary.tuples_in += tuples
            self.summary.tuples_before += min(tuples, fed.ahead)
            fed.feed([event])
            reader.read()


class _Reader:
    """Passes the batches of an engine to the sinks, each once.

    The result is the query that was installed last. ``keeps_results``: another run may need them.
    """

    def __init__(self, fed: FedEngine, sinks: Sinks, keeps_results: bool) -> None:
        self._fed = fed
        self._sinks = sinks
        self._keeps_results = keeps_results
        self._result = len(fed.names) - 1
        self._position = fed.engine.progress  # what was processed before is no progress
        self.others: deque[int] = deque()
        """The positions of events other than tuples that are fed but not yet processed."""
        self._by_core: dict[int, dict[str, Any]] = {}

    def read(self) -> None:
        """Pass on all results so far."""
        engine, sinks = self._fed.engine, self._sinks
        for batch in self._fed.batches():
            for result in batch.rows.get(self._result, []):
                sinks.take_rows(result.batch)
            letters = [
                RunLetter(self._fed.names[query], letter)
                for query, found in batch.letters.items()
                for letter in found
            ]
            sinks.take_letters(sorted(letters, key=lambda found: found.letter.position))
            self._by_core |= {
                core: measures for q, core, measures in batch.measures if q == self._result
            }
            sinks.summary.cores = join_cores(self._by_core)
            sinks.summary.expression_failures = sum(
                measures.get("expression_failures", 0) for measures in self._by_core.values()
            )
            for measures in self._by_core.values():
                sinks.summary.revise_design(measures.get("designs", ()))
            if not self._keeps_results:
                engine.forget(batch.number + 1)
        now = engine.progress
        tuples = now - self._position
        while self.others and self.others[0] < now:
            tuples -= self.others.popleft() >= self._position
        if tuples > 0:
            sinks.progress(tuples)
        self._position = max(self._position, now)


class FedEngine:
    """An engine that a command feeds from its first event on, and reads from its first batch on.

    The log of the engine's checkpoint may hold the first of these events already: those are
    skipped. ``position`` is after the events so far; ``names`` has the queries by their numbers.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.position = 0
        self.names: list[str] = []
        self._next = 0

    @property
    def ahead(self) -> int:
        """How many positions from here on the log holds already."""
        return self.engine.position - self.position

    def feed(self, events: Sequence[Event | Instruction]) -> None:
        """Feed the next events."""
        for event in events:
            if isinstance(event, Install | Derive):
                self.names.append(event.query if isinstance(event, Install) else event.name)
        try:
            self.engine.feed(events_from(events, self.ahead))
        except BaseException:
            self.position = self.engine.position
            raise
        self.position += sum(map(_size, events))

    def batches(self) -> Iterator[Batch]:
        """The batches since the last call; raises the failure of a query in one."""
        for batch in self.engine.made(self._next):
            for failure in batch.failures.values():
                raise failure
            yield batch
            self._next = batch.number + 1


def events_from(
    events: Iterable[Event | Instruction], position: int
) -> Iterator[Event | Instruction]:
    """The events of a sequence from that position on; an event that spans it is cut."""
    at = 0
    for event in events:
        size = _size(event)
        if at >= position:
            yield event
        elif at + size > position and isinstance(event, Tuples | Merged):
            yield cut(event, position - at, size)
        at += size


def _size(event: Event | Instruction) -> int:
    """The number of positions that an event takes."""
    return len(event) if isinstance(event, Tuples | Merged) else 1


def _files(sources: list[Source]) -> dict[str, list[list[Any]]]:
    """Paths, sizes and modification times, which tell whether files are still the same."""
    return {
        source.stream.name: [
            [str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns]
            for path in source.files
        ]
        for source in sources
        if isinstance(source, FileSource)
    }
