"""Processing the input slice by slice: data through the queries, instructions to them.

Why an interrupted call loses no tuple. A :class:`Work` records which queries have still to take a
slice, and which one is taking it. Whatever interrupts it (an error, KeyboardInterrupt, an exception
set by another thread), the waiting queries are given the slice when the work is resumed, finished
queries are not given it again, and the query in between fails: its blocks may be in the middle of a
step, and its error says so. A slice that is interrupted before its events are sorted by stream is
lost to all queries that read its streams, and these fail. An instruction that has changed nothing
is started again; otherwise it is finished, or the query that it is for fails.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.blocks.contract import LETTERS, Batch
from penstock.blocks.run import (
    ColumnPunctuation,
    Control,
    EndOfStream,
    Positions,
    Run,
    concatenate,
    empty_run,
)
from penstock.engines.shared.failure import failure_of, interrupted_failure
from penstock.engines.shared.freed_memory import keep_freed_memory
from penstock.engines.shared.input_slices import Event, InputSlice, streams_of
from penstock.engines.shared.pipeline import QueryOutput
from penstock.engines.shared.registry import PunctuationOrder, Registry, column_of
from penstock.engines.shared.running_query import Letter, RunningQuery
from penstock.errors import PenstockError, QueryFailed
from penstock.kernels.merging import places_of
from penstock.processor.fqp.processor import MadeStream, Processor
from penstock.processor.op_block.messages import FAILED, SharedRows
from penstock.processor.op_block.messages import QueryOutput as PlacedOutput
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import Flow
from penstock.program.isa.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
    Reset,
)
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.tuning import TUNING

Q = TypeVar("Q", bound=RunningQuery)


@dataclass(eq=False)
class Work(Generic[Q]):
    """A slice of the input, and its progress through the queries.

    Parameters
    ----------
    piece
        The slice to process; None: let every query make its pending rows.
    call
        All works of the same call, in order: once the first has begun, all are taken.
    begun
        Whether its events have positions, or its instruction was started.
    read
        Whether ``runs``, ``dead`` and ``waiting`` are complete.
    first
        The position of its first event.
    runs
        The run of each stream; a derived stream's run is added once it is made.
    dead
        The records that are no tuples, with their positions.
    waiting, completing, leaving
        The queries that have still to take the runs; to make their pending rows; to do so and then
        release their blocks.
    at
        The query that is in a step, if any; of a topology, all that are.
    full
        The query that has to be drained before the work can continue.
    done
        Whether there is nothing left to do.
    failures
        The failures of queries during this work.
    until
        When it is to pause, by the clock.
    """

    piece: InputSlice | None
    call: list[Work[Q]] = field(default_factory=list)
    begun: bool = False
    read: bool = False
    first: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    dead: list[tuple[int, Malformed]] = field(default_factory=list)
    waiting: deque[Q] = field(default_factory=deque)
    completing: deque[Q] = field(default_factory=deque)
    leaving: deque[Q] = field(default_factory=deque)
    at: tuple[Q, ...] = ()
    full: Q | None = None
    done: bool = False
    failures: list[QueryFailed] = field(default_factory=list)
    steps: Generator[Q, None, None] | None = None
    until: float = 0.0

    def release(self) -> None:
        """Release the tuples of a finished work, and the references to other works."""
        self.runs, self.dead, self.call, self.steps = {}, [], [], None

    @property
    def is_taken(self) -> bool:
        """Whether its call has begun: then it will be done, by this call or a later one."""
        return self.begun or (bool(self.call) and self.call[0].begun)

    @property
    def is_interrupted(self) -> bool:
        """Whether an exception has ended it before it was done."""
        if self.steps is None or self.done:
            return False
        return inspect.getgeneratorstate(self.steps) == inspect.GEN_CLOSED

    @property
    def is_running(self) -> bool:
        """Whether a step of it is running further down the call stack."""
        if self.steps is None:
            return False
        return inspect.getgeneratorstate(self.steps) == inspect.GEN_RUNNING


class Processing(Generic[Q]):
    """Gives every event its position and sends it where it belongs.

    Parameters
    ----------
    registry
        The streams and queries; instructions change it.
    processor
        The topology that queries stand on; None: each has a network of its own.
    """

    def __init__(self, registry: Registry[Q], processor: Processor | None = None) -> None:
        keep_freed_memory()
        self._registry = registry
        self._processor = processor
        self.position = 0
        self.punctuation_order = PunctuationOrder()

    def execute(self, piece: InputSlice) -> Iterator[Q]:
        """Process a slice; yields a query whenever its output is full."""
        work: Work[Q] = Work(piece)
        while not work.done:
            self.advance(work)
            if work.full is not None:
                yield work.full
        for failure in work.failures:
            raise failure

    def advance(self, work: Work[Q]) -> None:
        """Advance until a query's output is full (``work.full``), for some time, or until the end.

        Signals are handled in a pause. A refused instruction raises, and takes no position.
        """
        if work.is_interrupted:
            self._mend(work, None)
        if work.steps is None:
            work.steps = self._steps(work)
        work.full = None
        work.until = time.monotonic() + TUNING.longest_step
        try:
            next(work.steps, None)
        except BaseException as error:
            if work.is_interrupted:
                self._mend(work, error)
            raise

    def _mend(self, work: Work[Q], error: BaseException | None) -> None:
        """After an interruption, fail the queries that were in a step; the rest can continue."""
        damaged = list(work.at)
        if work.begun and not work.read:
            assert work.piece is not None
            instruction = work.piece.instruction
            if instruction is None:
                damaged += self._readers(work.piece)
            elif not work.at and self._has_never_arrived(instruction):
                work.begun = False
                work.leaving.clear()
            else:
                damaged += self._made_by(instruction)
                self.position += 1
            work.waiting.clear()
        for query in damaged:
            if query.failure is None:
                query.failure = interrupted_failure(query, error)
                work.failures.append(query.failure)
        if self._processor is not None and damaged:
            self._processor.restart()
        work.at, work.read, work.steps = (), work.begun, None

    def _readers(self, piece: InputSlice) -> list[Q]:
        streams = {name.lower() for event in piece.events for name in streams_of(event)}
        return [q for q in self._registry.queries.values() if streams & q.pipeline.reads]

    def _has_never_arrived(self, instruction: Instruction) -> bool:
        """Whether an interrupted instruction has changed nothing and can be started again."""
        registry = self._registry
        if isinstance(instruction, CreateStream):
            return instruction.stream.name not in registry.streams
        if isinstance(instruction, Derive):
            if instruction.name not in registry.streams:
                registry.queries.pop(instruction.name.lower(), None)
            return instruction.name.lower() not in registry.queries
        if isinstance(instruction, Install):
            return instruction.query.lower() not in registry.queries
        if isinstance(instruction, Drop):
            return instruction.query.lower() in registry.queries
        if isinstance(instruction, Reset) and not registry.queries:
            registry.reset()
            return False
        return True

    def _made_by(self, instruction: Instruction) -> list[Q]:
        """The query that an instruction has created."""
        if not isinstance(instruction, Install | Derive):
            return []
        name = instruction.query if isinstance(instruction, Install) else instruction.name
        return [self._registry.queries[name.lower()]]

    def _steps(self, work: Work[Q]) -> Generator[Q, None, None]:
        if not work.begun:
            if work.piece is None:
                work.completing.extend(self._registry.queries.values())
                work.begun = work.read = True
            elif work.piece.instruction is None:
                self._read(work, work.piece)
            else:
                yield from self._instruct(work, work.piece.instruction)
        yield from self._send(work)
        for query in list(work.completing):
            yield from self._complete(work, query)
            work.completing.remove(query)
        while work.leaving:
            yield from self._leave(work, work.leaving[0])
        work.done = True

    def _read(self, work: Work[Q], piece: InputSlice) -> None:
        """Give the events of a slice their positions, and collect the runs of the queries."""
        start, size = self.position, sum(map(_size, piece.events))
        # No call comes between these: see penstock.signals.
        self.position = start + size
        work.begun, work.first = True, start
        work.runs, work.dead = self._runs(piece.events, start)
        work.waiting.extend(self._registry.queries.values())
        work.read = True

    def _runs(
        self, events: list[Event], start: int
    ) -> tuple[dict[str, Run], list[tuple[int, Malformed]]]:
        """One run per stream, and the malformed records with their positions."""
        batches: dict[str, list[tuple[pa.RecordBatch, Positions | range]]] = {}
        controls: dict[str, list[Control]] = {}
        dead: list[tuple[int, Malformed]] = []
        for event in events:
            if isinstance(event, Tuples):
                places = range(start, start + event.batch.num_rows)
                batches.setdefault(event.stream.lower(), []).append((event.batch, places))
            elif isinstance(event, Merged):
                for i, (name, batch) in enumerate(zip(event.streams, event.batches, strict=True)):
                    span = np.empty(batch.num_rows + 1, np.int64)
                    places_of(event.which, i, start, span)
                    batches.setdefault(name.lower(), []).append((batch, span[:-1]))
            elif isinstance(event, Malformed):
                dead.append((start, event))
            else:
                control = self._control(event, start)
                controls.setdefault(event.stream.lower(), []).extend(control)
            start += _size(event)
        runs = {}
        for name in dict.fromkeys((*batches, *controls)):
            parts = [Run((b,), p) for b, p in batches.get(name, ())]
            run = parts[0] if len(parts) == 1 else self._together(name, parts)
            between = controls.get(name)
            runs[name] = Run(run.inputs, run.at, tuple(between)) if between else run
        return runs, dead

    def _together(self, name: str, parts: list[Run]) -> Run:
        """The runs of a stream as one; without any, a run without rows."""
        if parts:
            return concatenate(parts)
        stream = self._registry.streams.get(name)
        assert stream is not None
        return empty_run(stream.schema)

    def _control(self, event: Punctuation | End, position: int) -> list[Control]:
        name = event.stream.lower()
        if isinstance(event, End):
            self._registry.ended.add(name)
            return [EndOfStream(position)]
        stream = self._registry.streams.get(name)
        assert stream is not None
        known = self._registry.punctuations.setdefault(name, {})
        if not self.punctuation_order.is_new(event, stream, known):
            return []
        return [ColumnPunctuation(position, column_of(event, stream), event.value)]

    def _send(self, work: Work[Q]) -> Iterator[Q]:
        """Send the runs through every waiting query that reads them, oldest query first."""
        data = work.piece is not None and work.piece.instruction is None
        if self._processor is not None and data and work.waiting:
            yield from self._send_to_topology(work, self._processor)
        while work.waiting:
            query = work.waiting[0]
            reads = query.pipeline.reads
            dead = any(m.stream.lower() in reads for _, m in work.dead)
            if (
                query.failure is not None
                or not query.here
                or not (dead or reads & work.runs.keys())
            ):
                del work.waiting[0]
                continue
            # No call comes between these: the query is waiting, or it is in a step.
            work.at = (query,)
            del work.waiting[0]
            query._begin_step()
            self._give_dead(work, query)
            made: list[Run] = []
            if reads & work.runs.keys():
                yield from self._gather(work, query, self._through(query, work), made)
            if query.derived and made and query.failure is None:
                self._note(query.name.lower(), made, work.runs)
            query._end_step()
            work.at = ()

    def _send_to_topology(self, work: Work[Q], processor: Processor) -> Iterator[Q]:
        """Send the runs to all waiting queries of the topology at once."""
        placed = {q.pipeline.network.number: q for q in work.waiting if q.here}
        others = deque([q for q in work.waiting if q.pipeline.network.number is None])
        placed.pop(None, None)
        at = tuple([query for query in placed.values() if query.failure is None])
        # No call comes between these: the queries are waiting, or they are in a step.
        work.at = at
        work.waiting = others
        for query in at:
            if query.pipeline.holds_tuples:
                query._begin_step()
            if work.dead:
                self._give_dead(work, query)
        try:
            for made in processor.take(work.runs, work.first, self.position):
                if isinstance(made, MadeStream):
                    self._registry.queries[made.stream]._take_run(made.run)
                    self._note(made.stream, [made.run], work.runs)
                elif isinstance(made, SharedRows):
                    for number, run in made.each():
                        query = placed[number]
                        if query.failure is None:
                            if query._is_full():
                                work.full = query
                                yield query
                            query._take_run(run)
                elif placed[made.query].failure is None:
                    yield from self._give(work, placed[made.query], made)
        except Exception as error:  # of any kind: every query must say that it has lost input
            for query in at:
                self._fail(work, query, error)
        for query in at:
            for name, lower in query.pipeline.streams:
                if lower in work.runs:
                    query._count_input(name, len(work.runs[lower]))
                    query.pipeline.count(lower, len(work.runs[lower]))
            if query.pipeline.holds_tuples:
                query._end_step()
        work.at = ()

    def _give(self, work: Work[Q], query: Q, made: PlacedOutput) -> Iterator[Q]:
        """Give a query of the topology what a block has made for it."""
        if made.port == FAILED:
            self._fail(work, query, made.message)
        elif made.port == LETTERS:
            query._take_letters((made.message,))
        else:
            run = made.message.run
            if len(run) and query._is_full():
                work.full = query
                yield query
            query._take_run(run)

    def _fail(self, work: Work[Q], query: Q, error: Exception) -> None:
        if query.failure is None:
            query.failure = failure_of(query, error)
            work.failures.append(query.failure)

    def _give_dead(self, work: Work[Q], query: Q) -> None:
        """Give a query the records of its streams that are no tuples."""
        reads = query.pipeline.reads
        dead = [(at, m) for at, m in work.dead if m.stream.lower() in reads]
        if dead:
            query._take_dead([Letter("dead", at, m.stream, m.text, m.reason) for at, m in dead])

    def _gather(self, work: Work[Q], query: Q, sent: QueryOutput, made: list[Run]) -> Iterator[Q]:
        """Give a query the output of its blocks; an exception is the failure of the query."""
        try:
            for port, message in sent:
                if port == LETTERS:
                    query._take_letters((message,))
                    continue
                if not isinstance(message, Batch):
                    continue
                [run] = message.runs
                assert run is not None
                if len(run) and query._is_full():
                    work.full = query
                    yield query
                query._take_run(run)
                if query.derived:
                    made.append(run)
                if time.monotonic() >= work.until:
                    yield query
        except Exception as error:  # of any kind: the other queries must not miss the input
            self._fail(work, query, error)

    def _through(self, query: Q, work: Work[Q]) -> QueryOutput:
        for name, lower in query.pipeline.streams:
            if lower in work.runs:
                query._count_input(name, len(work.runs[lower]))
        for part in query._admitted(work.runs):
            yield from query.pipeline.process(part, work.first, self.position)

    def _note(self, name: str, made: list[Run], runs: dict[str, Run]) -> None:
        """Add the run of a derived stream for its readers, and record its punctuations."""
        run = concatenate(made)
        for control in run.controls:
            if isinstance(control, EndOfStream):
                self._registry.ended.add(name)
            else:
                known = self._registry.punctuations.setdefault(name, {})
                value: Any = control.value
                if control.column not in known or value > known[control.column]:
                    known[control.column] = value
        if len(run) or run.controls:
            runs[name] = Run(run.inputs, run.positions, run.controls)

    def _instruct(self, work: Work[Q], instruction: Instruction) -> Iterator[Q]:
        """Carry out an instruction, or refuse it."""
        position = self.position
        work.begun = True
        try:
            if isinstance(instruction, CreateStream):
                self._registry.create(instruction)
            elif isinstance(instruction, Install):
                self._start(work, self._registry.install(instruction), position)
            elif isinstance(instruction, Derive):
                self._start(work, self._registry.derive(instruction), position)
            elif isinstance(instruction, Change):
                yield from self._change(work, *self._registry.changed(instruction), position)
            elif isinstance(instruction, Reset):
                work.leaving.extend(self._registry.queries.values())
                self._registry.reset()
            else:
                work.leaving.append(self._registry.query(instruction.query))
                self._registry.drop(instruction)
        except PenstockError:
            work.done = True  # a refused instruction takes no position
            raise
        self.position = position + 1
        work.read = True

    def complete(self) -> Work[Q]:
        """The work of making all pending rows of all queries.

        Only flows that compare tuples after a delay have any.
        """
        return Work(None)

    def _complete(self, work: Work[Q], query: Q) -> Iterator[Q]:
        """Let a query make its pending rows."""
        if query.failure is None and query.here:
            work.at = (query,)
            query._begin_step()
            yield from self._gather(work, query, query.pipeline.complete(self.position), [])
            query._end_step()
            work.at = ()

    def _leave(self, work: Work[Q], query: Q) -> Iterator[Q]:
        """Let a dropped query make its pending rows, then release its blocks."""
        yield from self._complete(work, query)
        query._retire()
        dropped = [one for one in self._registry.dropped if one.undrained and one is not query]
        self._registry.dropped = [*dropped, query] if query.undrained else dropped
        work.leaving.remove(query)

    def _start(self, work: Work[Q], query: Q, position: int) -> None:
        """Start a query here, with the last punctuations and ends of its streams."""
        work.at = (query,)
        known: dict[str, Run] = {}
        for scan in query.program.scans:
            stream = scan.stream.name.lower()
            controls: list[Control] = [
                ColumnPunctuation(position, column, value)
                for column, value in self._registry.punctuations.get(stream, {}).items()
            ]
            if stream in self._registry.ended:
                controls.append(EndOfStream(position))
            if controls:
                known[stream] = Run(
                    empty_run(scan.stream.schema).inputs, np.empty(0, np.int64), tuple(controls)
                )
        work.runs, work.first = known, position
        work.waiting.append(query)
        work.at = ()

    def _change(
        self, work: Work[Q], query: Q, program: Program, flow: Flow, position: int
    ) -> Iterator[Q]:
        """Give a query another program.

        A query that has failed keeps the program it failed under and says so again. The change
        takes its position all the same, as it does in a log.
        """
        if not query.here:
            query.pipeline.note(program, flow)
            return
        yield from self._complete(work, query)
        if query.failure is not None:
            if query.failure not in work.failures:
                work.failures.append(query.failure)
            return
        work.at = (query,)
        query._begin_step()
        made: list[Run] = []
        changing = query.pipeline.change(program, position, flow)
        yield from self._gather(work, query, changing, made)
        if any(len(run) or run.controls for run in made) and query.failure is None:
            self._note(query.name.lower(), made, work.runs)
            work.waiting.extend(self._registry.queries.values())
        query._end_step()
        work.at = ()


def _size(event: Event) -> int:
    """The number of positions that an event takes."""
    if isinstance(event, Tuples):
        return event.batch.num_rows
    return len(event) if isinstance(event, Merged) else 1
