"""Processing the input piece by piece: data through the queries, instructions to them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.blocks.run import (
    Control,
    Ended,
    Positions,
    Promise,
    Run,
    concatenate,
    empty_run,
)
from penstock.engines.shared.backwards import Backwards, column_of
from penstock.engines.shared.failure import failure_of
from penstock.engines.shared.memory import keep_freed_memory
from penstock.engines.shared.pieces import Event, Piece
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running import Letter, Running
from penstock.errors import PenstockError, QueryFailed
from penstock.kernels.merging import places_of
from penstock.program.instructions import (
    Change,
    CreateStream,
    Derive,
    Install,
    Instruction,
    Reset,
)
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples

Q = TypeVar("Q", bound=Running)


class Processing(Generic[Q]):
    """Gives every event its position and sends it where it belongs.

    Parameters
    ----------
    registry
        The streams and queries; instructions change it.
    """

    def __init__(self, registry: Registry[Q]) -> None:
        keep_freed_memory()
        self._registry = registry
        self.position = 0
        self.backwards = Backwards()

    def execute(self, piece: Piece) -> Iterator[Q]:
        """Process a piece; yields a query whenever its output is full."""
        if piece.instruction is not None:
            position, self.position = self.position, self.position + 1
            try:
                failure = yield from self._instruct(piece.instruction, position)
            except PenstockError:
                self.position = position  # an instruction that was refused never arrived
                raise
            if failure is not None:
                raise failure
            return
        runs, dead = self._runs(piece.events)
        yield from self._process(runs, dead)

    def _runs(self, events: list[Event]) -> tuple[dict[str, Run], list[tuple[int, Malformed]]]:
        """One run per stream, and the records that are no tuples, with their positions."""
        batches: dict[str, list[tuple[pa.RecordBatch, Positions | range]]] = {}
        controls: dict[str, list[Control]] = {}
        dead: list[tuple[int, Malformed]] = []
        for event in events:
            start = self.position
            if isinstance(event, Tuples):
                self.position += len(event)
                places = range(start, self.position)
                batches.setdefault(event.stream.lower(), []).append((event.batch, places))
            elif isinstance(event, Merged):
                self.position += len(event)
                for i, (name, batch) in enumerate(zip(event.streams, event.batches, strict=True)):
                    span = np.empty(batch.num_rows + 1, np.int64)
                    places_of(event.which, i, start, span)
                    batches.setdefault(name.lower(), []).append((batch, span[:-1]))
            else:
                self.position += 1
                if isinstance(event, Malformed):
                    dead.append((start, event))
                else:
                    control = self._control(event, start)
                    controls.setdefault(event.stream.lower(), []).extend(control)
        runs = {}
        for name in dict.fromkeys((*batches, *controls)):
            stream = self._registry.catalog.get(name)
            assert stream is not None
            parts = [Run((b,), p) for b, p in batches.get(name, [])]
            run = concatenate(parts) if parts else empty_run(stream.schema)
            runs[name] = Run(run.inputs, run.at, tuple(controls.get(name, ())))
        return runs, dead

    def _control(self, event: Punctuation | End, position: int) -> list[Control]:
        name = event.stream.lower()
        if isinstance(event, End):
            self._registry.ended.add(name)
            return [Ended(position)]
        stream = self._registry.catalog.get(name)
        assert stream is not None
        known = self._registry.promises.setdefault(name, {})
        if not self.backwards.is_new(event, stream, known):
            return []
        return [Promise(position, column_of(event, stream), event.value)]

    def _process(
        self, runs: dict[str, Run], dead: list[tuple[int, Malformed]], only: Q | None = None
    ) -> Iterator[Q]:
        """Send the runs through every query that reads them, oldest query first."""
        failed: list[Q] = []
        for query in list(self._registry.queries.values()) if only is None else [only]:
            if query.failure is not None or not query.here:
                continue
            reads = {scan.stream.name.lower() for scan in query.program.scans}
            query._take_dead(
                [
                    Letter("dead", position, m.stream, m.text, m.reason)
                    for position, m in dead
                    if m.stream.lower() in reads
                ]
            )
            if not reads & runs.keys():
                continue
            made = []
            try:
                for run in self._through(query, runs):
                    if len(run) and query._is_full():
                        yield query
                    query._take_run(run)
                    if query.derived:
                        made.append(run)
            except Exception as error:  # whatever it is, the other queries must not miss the input
                query.failure = failure_of(query, error)
                failed.append(query)
                continue
            if query.derived:
                self._note(query.name.lower(), made, runs)
        for query in failed:
            assert query.failure is not None
            raise query.failure

    def _through(self, query: Q, runs: dict[str, Run]) -> Iterator[Run]:
        for name in dict.fromkeys(scan.stream.name for scan in query.program.scans):
            if name.lower() in runs:
                query._saw(name, len(runs[name.lower()]))
        for part in query._admitted(runs):
            yield from query.pipeline.process(part)

    def _note(self, name: str, made: list[Run], runs: dict[str, Run]) -> None:
        """A derived stream has run on: its readers come next, and its promises are kept."""
        run = concatenate(made)
        for control in run.controls:
            if isinstance(control, Ended):
                self._registry.ended.add(name)
            else:
                known = self._registry.promises.setdefault(name, {})
                value: Any = control.value
                if control.column not in known or value > known[control.column]:
                    known[control.column] = value
        if len(run) or run.controls:
            runs[name] = Run(run.inputs, run.positions, run.controls)

    def _instruct(
        self, instruction: Instruction, position: int
    ) -> Generator[Q, None, QueryFailed | None]:
        """Do what is asked, or refuse it; returns the failure of a query that was to end whole."""
        failure: QueryFailed | None = None
        if isinstance(instruction, CreateStream):
            self._registry.create(instruction)
        elif isinstance(instruction, Install):
            yield from self._start(self._registry.install(instruction), position)
        elif isinstance(instruction, Derive):
            yield from self._start(self._registry.derive(instruction), position)
        elif isinstance(instruction, Change):
            yield from self._change(instruction, position)
        else:
            gone = (
                self._registry.reset()
                if isinstance(instruction, Reset)
                else [self._registry.drop(instruction)]
            )
            for query in gone:
                failure = (yield from self._complete(query)) or failure
                query._retire()
            dropped = (*self._registry.dropped, *gone)
            self._registry.dropped = [one for one in dropped if one.undrained]
        return failure

    def complete(self) -> Iterator[Q]:
        """Let every query make the rows of all that has arrived; yields those that are full.

        Only flows whose tuples meet late have any left.
        """
        failure: QueryFailed | None = None
        for query in list(self._registry.queries.values()):
            failure = (yield from self._complete(query)) or failure
        if failure is not None:
            raise failure

    def _complete(self, query: Q) -> Generator[Q, None, QueryFailed | None]:
        """Let a query make the rows that it has left; returns why it cannot."""
        if query.failure is not None or not query.here:
            return None
        try:
            for run in query.pipeline.complete():
                if len(run) and query._is_full():
                    yield query
                query._take_run(run)
        except Exception as error:  # the other queries must not miss theirs
            query.failure = failure_of(query, error)
        return query.failure

    def _start(self, query: Q, position: int) -> Iterator[Q]:
        """Let a query run from here on; it knows what its streams have promised before."""
        known: dict[str, Run] = {}
        for scan in query.program.scans:
            stream = scan.stream.name.lower()
            controls: list[Control] = [
                Promise(position, column, value)
                for column, value in self._registry.promises.get(stream, {}).items()
            ]
            if stream in self._registry.ended:
                controls.append(Ended(position))
            if controls:
                known[stream] = Run(
                    empty_run(scan.stream.schema).inputs, np.empty(0, np.int64), tuple(controls)
                )
        if known:
            yield from self._process(known, [], only=query)

    def _change(self, instruction: Change, position: int) -> Iterator[Q]:
        query, program, flow = self._registry.changed(instruction)
        if not query.here:
            query.pipeline.program, query.pipeline.flow = program, flow
            return
        failure = yield from self._complete(query)
        if failure is not None:
            raise failure
        runs: dict[str, Run] = {}
        made = []
        for run in query.pipeline.change(program, position, flow):
            if len(run) and query._is_full():
                yield query
            query._take_run(run)
            made.append(run)
        if query.derived and any(len(run) or run.controls for run in made):
            self._note(query.name.lower(), made, runs)
            yield from self._process(runs, [])
