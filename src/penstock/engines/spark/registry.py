"""The driver's registry, and its way into the log and out of it after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.engines.shared.backwards import Backwards
from penstock.engines.shared.pieces import Piece
from penstock.engines.shared.query import Query, Steering
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.saved import load_registry, save_registry
from penstock.engines.spark import log
from penstock.engines.spark.checkpoint import Checkpoint
from penstock.engines.spark.frames import Frame, pack, unpack
from penstock.engines.spark.query import Placed
from penstock.program.blocks import Program
from penstock.program.flow_choice import Flow
from penstock.program.instructions import Change, CreateStream, Derive, Drop, Install, Instruction
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples


class Recorder:
    """Checks pieces, gives them their positions, and writes them to the log.

    ``handles`` are the queries by the number of their install, which the cores count alike.
    """

    def __init__(
        self,
        engine: Steering,
        registry: Registry[Query[Placed]],
        checkpoint: Checkpoint,
        buffer_rows: int,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._checkpoint = checkpoint
        self._buffer_rows = buffer_rows
        self._numbers = 0
        self.names = 0
        self.position = 0
        self.handles: dict[int, Query[Placed]] = {}
        self.backwards = Backwards()

    def new_query(self, name: str, program: Program, derived: bool, flow: Flow) -> Query[Placed]:
        """A handle for a query that the cores will run."""
        placed = Placed(self._numbers, program, flow)
        self._numbers += 1
        query = Query(self._engine, name, placed, derived, self._buffer_rows)
        self.handles[placed.number] = query
        return query

    def record(self, piece: Piece) -> Iterator[Frame]:
        """Check a piece, note what it says, and give its frames."""
        if piece.instruction is not None:
            self._instruct(piece.instruction)
        else:
            self._registry.check(piece)
            for event in piece.events:
                if isinstance(event, End):
                    self._registry.ended.add(event.stream.lower())
                elif isinstance(event, Punctuation):
                    self._look_back(event)
        for frame in pack([piece], self.position):
            self.position = frame.first + frame.count
            yield frame

    def _look_back(self, event: Punctuation) -> None:
        """The cores ignore a punctuation that goes back, where nobody would see a warning."""
        stream = self._registry.stream(event.stream)
        known = self._registry.promises.setdefault(stream.name.lower(), {})
        self.backwards.is_new(event, stream, known)

    def _instruct(self, instruction: Instruction) -> None:
        if isinstance(instruction, CreateStream):
            self._registry.create(instruction)
        elif isinstance(instruction, Install):
            self._registry.install(instruction)
        elif isinstance(instruction, Derive):
            self._registry.derive(instruction)
        elif isinstance(instruction, Change):
            query, program, flow = self._registry.changed(instruction)
            query.pipeline.program, query.pipeline.flow = program, flow
        elif isinstance(instruction, Drop):
            query = self._registry.drop(instruction)
            self._registry.dropped = [*self._registry.dropped, query]
        else:
            self._registry.dropped = [*self._registry.dropped, *self._registry.reset()]

    def append(self, frames: list[Frame]) -> None:
        """Write frames to the log; on return they are safe."""
        if frames and log.append(self._checkpoint.log, frames).kept:
            self._write()

    def _write(self) -> None:
        self._checkpoint.write_registry(
            {
                **save_registry(self._registry),
                "position": self.position,
                "names": self.names,
                "numbers": self._numbers,
                "numbered": [q.pipeline.number for q in self._registry.queries.values()],
                "windows_required": self._registry.catalog.windows_required,
                "order_column": self._registry.order_column,
            }
        )

    def recover(self) -> None:
        """Know again what an earlier engine knew when its log ended."""
        saved = self._checkpoint.read_registry()
        if saved is not None:
            self._load(saved)
        start = self.position
        for segment in log.segments(self._checkpoint.log):
            if segment.kept and segment.first >= start:
                for batch in log.read(self._checkpoint.log, segment):
                    self._replay(batch)
            self.position = max(self.position, segment.next)

    def _load(self, saved: dict[str, Any]) -> None:
        load_registry(self._registry, saved)
        queries = list(self._registry.queries.values())
        self.handles = {}
        for query, number in zip(queries, saved["numbered"], strict=True):
            query.pipeline.number = number
            self.handles[number] = query
        self.position, self.names = saved["position"], saved["names"]
        self._numbers = saved["numbers"]

    def _replay(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            event = unpack(Frame(**row))
            if isinstance(event, End):
                self._registry.ended.add(event.stream.lower())
            elif not isinstance(event, Tuples | Merged | Malformed | Punctuation):
                self._instruct(event)
