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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.cli.checkpoint_match import PROGRAMS, CommandRecord
from penstock.cli.run.inputs import first_kernel, unpunctuated_streams
from penstock.cli.run.setup import InstalledQuery
from penstock.cli.run.summary import RunLetter, Summary, WriteLetters
from penstock.connectors.files import FileSource, Source
from penstock.connectors.merge import merge
from penstock.engines.shared.input_slices import Event, cut
from penstock.engines.spark.flow import FLOW
from penstock.engines.spark.resident.query import join_cores
from penstock.program.isa.instructions import Derive, Install, Instruction
from penstock.streams.events import Merged, Tuples
from penstock.tuning import TUNING

if TYPE_CHECKING:
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
        # In the order of the query numbers that the cores use.
        self.names = [
            i.name if isinstance(i, Derive) else i.query
            for i in ready.setup
            if isinstance(i, Install | Derive)
        ]
        chosen = first_kernel(ready.query)
        self.summary = Summary("spark", chosen, FLOW if ready.query.program.joins else None)
        programs = {name: query.program.digest for name, query in ready.engine.queries.items()}
        command = {**command, PROGRAMS: programs, "files": _files(sources)}
        self._record = CommandRecord(options.checkpoint, options.cores, command)

    def execute(
        self,
        write: Callable[[pa.RecordBatch], None],
        progress: Callable[[int], None] = lambda tuples: None,
        write_letters: WriteLetters = lambda letters: None,
    ) -> Summary:
        """Feed the events that are not in the log yet, and pass all rows and letters on."""
        options = {"windows_required": False, "order_column": self.order_by}
        self._record.begin()
        with self._options.connect(**options) as engine:
            reader = _Reader(engine, self, write, write_letters, progress)
            engine.feed(events_from(self._setup, engine.position))
            # Timing starts when the workers run and have the query.
            engine.wait()
            started = time.perf_counter()
            reader.skip(engine.progress)
            self._feed(engine, reader)
            while engine.progress < engine.position:
                engine.wait_for(engine.position, _LOOK_AGAIN)
                reader.read()
            reader.read()
            self.summary.seconds = time.perf_counter() - started
            self.summary.batches = engine.batches
            self.summary.spark_version = engine.spark_version
        return self.summary

    def _feed(self, engine: Engine, reader: _Reader) -> None:
        before = engine.position
        arrivals = merge(self.sources, self.order_by, TUNING.run_batch_rows, self._punctuated)
        at = len(self._setup)
        for event in arrivals:
            tuples = len(event) if isinstance(event, Tuples | Merged) else 0
            if not tuples:
                reader.others.append(at)
            self.summary.tuples_in += tuples
            self.summary.tuples_before += min(tuples, max(0, before - at))
            engine.feed(events_from([event], before - at))
            at += tuples or 1
            reader.read()

    @property
    def result(self) -> int:
        """The query number of the result."""
        return len(self.names) - 1

    @property
    def keeps_results(self) -> bool:
        """Whether another run may need the results of this one."""
        return self._options.checkpoint is not None


class _Reader:
    """Passes the batches of an engine to the sinks, each once."""

    def __init__(
        self,
        engine: Engine,
        run: SparkRun,
        write: Callable[[pa.RecordBatch], None],
        write_letters: WriteLetters,
        progress: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._run = run
        self._write = write
        self._write_letters = write_letters
        self._progress = progress
        self._next = 0
        self._position = 0
        self.others: deque[int] = deque()
        """The positions of events other than tuples that are fed but not yet processed."""
        self._by_core: dict[int, dict[str, Any]] = {}

    def skip(self, position: int) -> None:
        """Leave out what was processed before this run from its progress."""
        self._position = position

    def read(self) -> None:
        """Pass on all results so far."""
        run = self._run
        for batch in self._engine.made(self._next):
            for failure in batch.failures.values():
                raise failure
            for result in batch.rows.get(run.result, []):
                run.summary.rows_out += result.batch.num_rows
                self._write(result.batch)
            letters = [
                RunLetter(run.names[query], letter)
                for query, found in batch.letters.items()
                for letter in found
            ]
            letters.sort(key=lambda found: found.letter.position)
            self._write_letters(letters)
            run.summary.count(letters)
            self._by_core |= {
                core: measures for q, core, measures in batch.measures if q == run.result
            }
            run.summary.cores = join_cores(self._by_core)
            run.summary.expression_failures = sum(
                measures.get("expression_failures", 0) for measures in self._by_core.values()
            )
            self._next = batch.number + 1
            if not run.keeps_results:
                self._engine.forget(self._next)
        now = self._engine.progress
        tuples = now - self._position
        while self.others and self.others[0] < now:
            tuples -= self.others.popleft() >= self._position
        if tuples > 0:
            self._progress(tuples)
        self._position = max(self._position, now)


def events_from(
    events: Iterable[Event | Instruction], position: int
) -> Iterator[Event | Instruction]:
    """The events of a sequence from that position on; an event that spans it is cut."""
    at = 0
    for event in events:
        size = len(event) if isinstance(event, Tuples | Merged) else 1
        if at >= position:
            yield event
        elif at + size > position and isinstance(event, Tuples | Merged):
            yield cut(event, position - at, size)
        at += size


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
