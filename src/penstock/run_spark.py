"""A run on Spark: files to the log, the rows of the streaming query to the sink.

Why a run that was killed can be run again. Setup and files are one sequence of events, the same
every time, and the log knows how many positions of it it holds: a run feeds what comes after them.
What Spark made of the log is kept batch by batch, each batch once by its number, and a run hands
all of them to its sink from the first one on. The sink's file gets its name when the last row is in
it. So the file is there whole, with each row once, or not at all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.continued import Continued
from penstock.engines.shared.pieces import Event, cut
from penstock.engines.spark.flow import FLOW
from penstock.engines.spark.query import join_cores
from penstock.program.instructions import Derive, Install, Instruction
from penstock.run_inputs import first_kernel, silent
from penstock.run_letters import RunLetter, WriteLetters
from penstock.run_setup import BATCH_ROWS, Installed
from penstock.run_summary import Summary
from penstock.streams.events import Merged, Tuples
from penstock.streams.files import FileSource, Source
from penstock.streams.merge import merge

if TYPE_CHECKING:
    from penstock.engines.spark.engine import Engine

_LOOK_AGAIN = 0.2
"""Seconds after which a run that waits for the cores writes what has come."""


@dataclass(frozen=True)
class SparkOptions:
    """How a run or replay uses Spark; None: as ``ps.connect("spark")`` does by itself."""

    cores: int = 1
    master: str | None = None
    rows_per_trigger: int = 1_048_576
    checkpoint: Path | None = None

    def connect(self, **options: Any) -> Engine:
        """An engine that keeps its results, and lets ``feed`` wait for the cores."""
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
    """A query that an embedded engine has accepted, to be run on Spark over the same sources.

    ``asked`` is what the command says, by which a checkpoint knows its run again.
    """

    def __init__(
        self,
        options: SparkOptions,
        ready: Installed,
        sources: list[Source],
        order_by: str | None,
        asked: dict[str, Any],
    ) -> None:
        self.query = ready.query
        self.sources = sources
        self.order_by = order_by
        self._options = options
        self._setup = ready.setup
        # By the numbers that the cores know them by.
        self.names = [
            i.name if isinstance(i, Derive) else i.query
            for i in ready.setup
            if isinstance(i, Install | Derive)
        ]
        chosen = first_kernel(ready.query)
        self.summary = Summary("spark", chosen, FLOW if ready.query.program.joins else None)
        self._continued = Continued(options.checkpoint, {**asked, "files": _files(sources)})

    def execute(
        self,
        write: Callable[[pa.RecordBatch], None],
        progress: Callable[[int], None] = lambda tuples: None,
        write_letters: WriteLetters = lambda letters: None,
    ) -> Summary:
        """Feed what is not in the log yet, and hand all rows and letters on."""
        options = {"windows_required": False, "order_column": self.order_by}
        with self._options.connect(**options) as engine:
            self._continued.begin(engine.position)
            reader = _Reader(engine, self, write, write_letters, progress)
            engine.feed(beyond(self._setup, engine.position))
            # The clock starts when the workers run and have the query.
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
        punctuated = silent(self.query, self.order_by)
        arrivals = merge(self.sources, self.order_by, BATCH_ROWS, punctuated)
        at = len(self._setup)
        for event in arrivals:
            tuples = len(event) if isinstance(event, Tuples | Merged) else 0
            self.summary.tuples_in += tuples
            self.summary.tuples_before += min(tuples, max(0, before - at))
            engine.feed(beyond([event], before - at))
            at += tuples or 1
            reader.read()

    @property
    def result(self) -> int:
        """The number that the cores know the result's query by."""
        return len(self.names) - 1

    @property
    def keeps_results(self) -> bool:
        """Whether another run may need what this one has written."""
        return self._options.checkpoint is not None


class _Reader:
    """Takes the batches of an engine to the sinks, each once."""

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
        self._by_core: dict[int, dict[str, Any]] = {}

    def skip(self, position: int) -> None:
        """What was processed before is no progress of this run."""
        self._position = position

    def read(self) -> None:
        """All that has come by now."""
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
            self._by_core |= {core: said for q, core, said in batch.measures if q == run.result}
            run.summary.cores = join_cores(self._by_core)
            self._next = batch.number + 1
            if not run.keeps_results:
                self._engine.forget(self._next)
        now = self._engine.progress
        if now > self._position:
            self._progress(now - self._position)
            self._position = now


def beyond(events: Iterable[Event | Instruction], position: int) -> Iterator[Event | Instruction]:
    """The events of a sequence from that position on; one that stands across it is cut."""
    at = 0
    for event in events:
        size = len(event) if isinstance(event, Tuples | Merged) else 1
        if at >= position:
            yield event
        elif at + size > position and isinstance(event, Tuples | Merged):
            yield cut(event, position - at, size)
        at += size


def _files(sources: list[Source]) -> dict[str, list[list[Any]]]:
    """What tells that files are still the same, without reading them."""
    return {
        source.stream.name: [
            [str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns]
            for path in source.files
        ]
        for source in sources
        if isinstance(source, FileSource)
    }
