"""The driver's registry: recording input in the log, and recovery after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.engines.shared.engine import warn_of
from penstock.engines.shared.input_slices import InputSlice
from penstock.engines.shared.max_lead import Furthest
from penstock.engines.shared.query import Query, QueryEngine
from penstock.engines.shared.registry import PunctuationOrder, Registry
from penstock.engines.shared.saved_registry import SavedRegistry, load_registry, made_by
from penstock.engines.shared.silent_windows import warn_of_silent_windows
from penstock.engines.spark.core.frames import Frame, pack, unpack
from penstock.engines.spark.resident.checkpoint import Checkpoint
from penstock.engines.spark.resident.distribution import why_one_core
from penstock.engines.spark.resident.log import MEND, REGISTRY
from penstock.engines.spark.resident.query import RemoteBlocks
from penstock.errors import PenstockError, StateError, warn
from penstock.program.choose.probe_order import cross_products
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import Flow
from penstock.program.isa.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
)
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples


class Recorder:
    """Checks input slices, gives them positions, and writes them to the log.

    ``handles`` are the queries by the number of their install, which the cores count alike.
    """

    def __init__(
        self,
        engine: QueryEngine,
        registry: Registry[Query[RemoteBlocks]],
        checkpoint: Checkpoint,
        buffer_rows: int,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._saving = SavedRegistry(registry)
        self._checkpoint = checkpoint
        self._buffer_rows = buffer_rows
        self._numbers = 0
        self.position = 0
        self.written = 0
        self.handles: dict[int, Query[RemoteBlocks]] = {}
        self.punctuation_order = PunctuationOrder()
        self._furthest: Furthest = {}

    def new_query(
        self, name: str, program: Program, derived: bool, flow: Flow
    ) -> Query[RemoteBlocks]:
        """A handle for a query that the cores will run."""
        placed = RemoteBlocks(self._numbers, program, flow)
        self._numbers += 1
        query = Query(self._engine, name, placed, derived, self._buffer_rows)
        self.handles[placed.number] = query
        return query

    def record(self, piece: InputSlice) -> Iterator[Frame]:
        """Check a slice, apply its instruction or punctuations, and return its frames."""
        if piece.instruction is not None:
            piece = InputSlice([], self._instruct(piece.instruction))
        else:
            self._registry.check(piece)
            piece, self._registry.furthest = self._registry.within_lead(piece)
            for event in piece.events:
                if isinstance(event, End):
                    self._registry.ended.add(event.stream.lower())
                elif isinstance(event, Punctuation):
                    self._warn_of_backward(event)
        for frame in pack([piece], self.position):
            self.position = frame.first + frame.count
            yield frame

    def _warn_of_backward(self, event: Punctuation) -> None:
        """Warn here of a punctuation that goes back: a warning in a core would not be seen."""
        stream = self._registry.stream(event.stream)
        known = self._registry.punctuations.setdefault(stream.name.lower(), {})
        self.punctuation_order.is_new(event, stream, known)

    def _instruct(self, instruction: Instruction) -> Instruction:
        """Apply an instruction to the registry; returns it with its SQL compiled to a program."""
        if isinstance(instruction, CreateStream):
            self._registry.create(instruction)
        elif isinstance(instruction, Install | Derive):
            query = (
                self._registry.install(instruction)
                if isinstance(instruction, Install)
                else self._registry.derive(instruction)
            )
            warn_of_silent_windows(self._registry, query.name, query.program)
            return made_by(query)
        elif isinstance(instruction, Change):
            query, program, flow = self._registry.changed(instruction)
            query.pipeline.program, query.pipeline.flow = program, flow
            return Change(instruction.query, program)
        elif isinstance(instruction, Drop):
            query = self._registry.drop(instruction)
            self._registry.dropped = [*self._registry.dropped, query]
        else:
            self._registry.dropped = [*self._registry.dropped, *self._registry.reset()]
        return instruction

    def append(self, frames: list[Frame]) -> None:
        """Write frames to the log; they are on disk on return."""
        if not frames:
            return
        segment = self._checkpoint.log.append(frames)
        self.written = segment.next
        if segment.has_instructions or self._registry.furthest != self._furthest:
            self._write()

    def _write(self) -> None:
        self._furthest = dict(self._registry.furthest)
        self._checkpoint.log.write_registry(
            {
                **self._saving.save(),
                "position": self.position,
                "names": self._registry.names,
                "numbers": self._numbers,
                "numbered": [q.pipeline.number for q in self._registry.queries.values()],
            }
        )

    def recover(self) -> None:
        """Restore the registry of an earlier engine at the end of its log."""
        log = self._checkpoint.log
        saved = log.read_registry()
        try:
            if saved:
                self._load(saved)
        except (
            Exception
        ) as error:  # a file that was edited and sealed again can be wrong in any way
            what = error.what if isinstance(error, PenstockError) else error
            raise StateError(
                f"{log.folder / REGISTRY} holds no registry ({type(error).__name__}: {what})", MEND
            ) from error
        segments = log.segments()
        start, known = self.position, True
        for segment in segments:
            # Without instructions, tuples tell no more than how far a stream has come.
            leads = any(stream.max_lead is not None for stream in self._registry.streams)
            if segment.first >= start and (segment.has_instructions or leads):
                known = False
                for frame in log.frames(segment):
                    self._replay(frame)
        self.position = max([self.position, *(segment.next for segment in segments)])
        self.written = self.position
        self._furthest = dict(self._registry.furthest)
        if not known:
            self._write()

    def _load(self, saved: dict[str, Any]) -> None:
        load_registry(self._registry, saved)
        queries = list(self._registry.queries.values())
        self.handles = {}
        for query, number in zip(queries, saved["numbered"], strict=True):
            query.pipeline.number = number
            self.handles[number] = query
        self.position, self._registry.names = saved["position"], saved["names"]
        self._numbers = saved["numbers"]

    def _replay(self, frame: Frame) -> None:
        event = unpack(frame)
        if isinstance(event, End):
            self._registry.ended.add(event.stream.lower())
        elif isinstance(event, Tuples | Merged | Punctuation):
            _, self._registry.furthest = self._registry.within_lead(InputSlice([event]))
        elif not isinstance(event, Malformed):
            self._instruct(event)


def warn_of_installed(query: Query[RemoteBlocks]) -> None:
    """Warn of a query that can use only one of several cores, or makes every combination."""
    warn_of(query.name, cross_products(query.program))
    why = why_one_core(query.program)
    if query.pipeline.flow.cores > 1 and why is not None:
        warn(f"query {query.name!r} runs on one of {query.pipeline.flow.cores} cores: {why}")
