"""Processing the input piece by piece: data through the queries, instructions to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.run import Control, Ended, Promise, Run, concatenate, empty_run
from penstock.engines.local.pieces import Event, Piece
from penstock.engines.local.query import Letter, Query
from penstock.engines.local.registry import Registry
from penstock.errors import InputError, PenstockError
from penstock.program.blocks import Program
from penstock.program.compile import check_change, compile_plan
from penstock.program.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
)
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.schema import Stream, describe


class Processing:
    """Gives every event its position and sends it where it belongs.

    Parameters
    ----------
    registry
        The streams and queries; instructions change it.
    new_query
        Makes a query of a name and a program; the last argument says whether it is a derived
        stream.
    """

    def __init__(
        self, registry: Registry, new_query: Callable[[str, Program, bool], Query]
    ) -> None:
        self._registry = registry
        self._new_query = new_query
        self.position = 0
        self.ignored_punctuations = 0

    def execute(self, piece: Piece) -> Iterator[Query]:
        """Process a piece; yields a query whenever its output is full."""
        if piece.instruction is not None:
            position, self.position = self.position, self.position + 1
            try:
                yield from self._instruct(piece.instruction, position)
            except PenstockError:
                self.position = position  # an instruction that was refused never arrived
                raise
            return
        runs, dead = self._runs(piece.events)
        yield from self._process(runs, dead)

    def _runs(self, events: list[Event]) -> tuple[dict[str, Run], list[tuple[int, Malformed]]]:
        """One run per stream, and the records that are no tuples, with their positions."""
        batches: dict[str, list[tuple[pa.RecordBatch, np.ndarray[Any, Any]]]] = {}
        controls: dict[str, list[Control]] = {}
        dead: list[tuple[int, Malformed]] = []
        for event in events:
            start = self.position
            if isinstance(event, Tuples):
                self.position += len(event)
                span = np.arange(start, self.position, dtype=np.int64)
                batches.setdefault(event.stream.lower(), []).append((event.batch, span))
            elif isinstance(event, Merged):
                self.position += len(event)
                for i, (name, batch) in enumerate(zip(event.streams, event.batches, strict=True)):
                    span = start + np.flatnonzero(event.which == i)
                    batches.setdefault(name.lower(), []).append((batch, span))
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
            runs[name] = Run(run.inputs, run.positions, tuple(controls.get(name, ())))
        return runs, dead

    def _control(self, event: Punctuation | End, position: int) -> list[Control]:
        name = event.stream.lower()
        if isinstance(event, End):
            self._registry.ended.add(name)
            return [Ended(position)]
        stream = self._registry.catalog.get(name)
        assert stream is not None
        attribute = event.attribute or stream.time
        column = stream.index_of(attribute) if attribute is not None else None
        known = self._registry.promises.setdefault(name, {})
        value: Any = event.value
        if column in known and value <= known[column]:
            self.ignored_punctuations += int(value < known[column])
            return []
        known[column] = event.value
        return [Promise(position, column, event.value)]

    def _process(
        self, runs: dict[str, Run], dead: list[tuple[int, Malformed]], only: Query | None = None
    ) -> Iterator[Query]:
        """Send the runs through every query that reads them, oldest query first."""
        failed: list[Query] = []
        for query in list(self._registry.queries.values()) if only is None else [only]:
            if query.failure is not None:
                continue
            reads = {scan.stream.name.lower() for scan in query.program.scans}
            query._take_letters(
                Letter("dead", position, m.stream, m.text, m.reason)
                for position, m in dead
                if m.stream.lower() in reads
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

    def _through(self, query: Query, runs: dict[str, Run]) -> Iterator[Run]:
        for name in dict.fromkeys(scan.stream.name for scan in query.program.scans):
            if name.lower() in runs:
                query._saw(name, len(runs[name.lower()]))
        return query.pipeline.process(runs)

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

    def _instruct(self, instruction: Instruction, position: int) -> Iterator[Query]:
        if isinstance(instruction, CreateStream):
            self._registry.check_free(instruction.stream.name)
            self._registry.catalog.add(instruction.stream)
        elif isinstance(instruction, Install):
            self._registry.check_free(instruction.query)
            program = self._registry.program(
                instruction.text, instruction.order, instruction.kernel
            )
            query = self._new_query(instruction.query, program, False)
            query.order, query.kernel = instruction.order, instruction.kernel
            yield from self._start(query, position)
        elif isinstance(instruction, Derive):
            self._registry.check_free(instruction.name)
            plan = self._registry.bind(instruction.text)
            bounded = all(scan.stream.bounded for scan in plan.scans)
            stream = Stream.of(instruction.name, plan.schema, bounded=bounded, derived=True)
            query = self._new_query(stream.name, compile_plan(plan), True)
            yield from self._start(query, position)
            self._registry.catalog.add(stream)
        elif isinstance(instruction, Change):
            yield from self._change(instruction, position)
        else:
            self._drop(instruction)

    def _start(self, query: Query, position: int) -> Iterator[Query]:
        """Let a query run from here on; it knows what its streams have promised before."""
        self._registry.queries[query.name.lower()] = query
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

    def _change(self, instruction: Change, position: int) -> Iterator[Query]:
        query = self._registry.query(instruction.query)
        program = self._registry.program(instruction.text, query.order, query.kernel)
        check_change(query.name, query.program, program)
        if query.derived and not program.schema.equals(query.schema):
            raise PenstockError(
                f"stream {query.name} has the columns {describe(query.schema)}; a change cannot "
                f"make them {describe(program.schema)}, since queries may read it",
                "Keep its columns, or derive a new stream.",
            )
        runs: dict[str, Run] = {}
        made = []
        for run in query.pipeline.change(program, position):
            if len(run) and query._is_full():
                yield query
            query._take_run(run)
            made.append(run)
        if query.derived and any(len(run) or run.controls for run in made):
            self._note(query.name.lower(), made, runs)
            yield from self._process(runs, [])

    def _drop(self, instruction: Drop) -> None:
        query = self._registry.query(instruction.query)
        name = query.name.lower()
        readers = [
            reader.name
            for reader in self._registry.queries.values()
            if any(scan.stream.name.lower() == name for scan in reader.program.scans)
        ]
        if query.derived and readers:
            raise InputError(
                f"stream {query.name} is read by {', '.join(readers)}",
                "Drop the queries that read it first.",
            )
        del self._registry.queries[name]
        query._retire()
        self._registry.dropped = [q for q in (*self._registry.dropped, query) if q.undrained]
        if query.derived:
            self._registry.catalog.remove(query.name)
            self._registry.promises.pop(name, None)
            self._registry.ended.discard(name)


def failure_of(query: Query, error: Exception) -> PenstockError:
    """The error of a query that cannot go on; it names what happened inside."""
    failure = PenstockError(
        f"query {query.name!r} has failed and is stopped ({type(error).__name__}: {error}); "
        "every other query has taken the input",
        "Drop it, and install it again once its cause is mended; this is a defect of Penstock.",
    )
    failure.__cause__ = error
    return failure
