"""What lives in one core: a registry, the blocks of its queries, and their state in chunks.

The same registry, processing and blocks as in the embedded engine. Input comes as frames, each at
the position the log gave it; output goes as rows of a fixed schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.blocks.folded_run import FoldedRun, foldable, takes
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.run import Letters, Run
from penstock.engines.shared.failure import failure_of, load_failure, save_failure
from penstock.engines.shared.pieces import Event, pieces
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.processing import Processing
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running import Letter, count, written
from penstock.engines.shared.saved import load_registry, save_registry
from penstock.engines.spark.chunk_store import ChunkStore
from penstock.engines.spark.distribution import Placement, placement
from penstock.engines.spark.flow import decide_on_spark
from penstock.engines.spark.folding import FOLDED, FoldedFrame
from penstock.engines.spark.frames import Frame, ipc, unpack
from penstock.engines.spark.state import BlockChunks
from penstock.errors import PenstockError, QueryFailed, StateError
from penstock.program.blocks import Program
from penstock.program.flow_choice import ANY_FLOW, Flow, FlowChoice
from penstock.program.instructions import Instruction

POSITION = "position"
TIE = "tie"
"""The last two columns of rows on their way: see :class:`penstock.blocks.run.Run`."""


@dataclass(frozen=True)
class HostOptions:
    """What a core is told when it starts; the same for all cores of an engine but ``core``."""

    checkpoint: str
    cores: int = 1
    core: int = 0
    batch_rows: int = 65_536
    compile_predicates: bool = True
    windows_required: bool = True
    order_column: str | None = None
    divided: bool = False
    """Whether a core sees the tuples of its keys alone, and all of those."""


@dataclass(frozen=True)
class Output:
    """A row on the way out: ``kind`` is rows, letters, failure, metrics or done.

    ``query`` is the number that its install gave it, since its name may be used again.
    """

    kind: str
    query: int
    position: int
    rows: int
    schema: str
    payload: bytes


def schema_id(schema: pa.Schema) -> str:
    """A name for a schema; rows of one query that have the same name have the same columns."""
    return hashlib.sha256(schema.serialize().to_pybytes()).hexdigest()[:16]


class StateStore(ChunkStore, Protocol):
    """Chunks by key, and small texts by key."""

    def put_text(self, key: str, text: str) -> None: ...

    def delete_text(self, key: str) -> None: ...


class HostedQuery:
    """A query in a core. What it makes goes into ``made`` until the core has sent it."""

    def __init__(
        self, number: int, name: str, pipeline: Pipeline, derived: bool, placement: Placement
    ) -> None:
        self.number = number
        self.name = name
        self.pipeline = pipeline
        self.derived = derived
        self.order: str | None = None
        self.kernel: str | None = None
        self.flow: FlowChoice = ANY_FLOW
        self.here = placement.here
        self._writes_letters = placement.writes_letters
        self.failure: QueryFailed | None = None
        self.failed_at = 0
        self.undrained = 0
        self.counts: dict[str, int] = {"rows_out": 0, "late": 0, "dead": 0}
        self.tuples_in: dict[str, int] = {}
        self.made: list[Output] = []
        self.chunks: dict[int, BlockChunks] = {}
        self.summary = ""

    @property
    def program(self) -> Program:
        return self.pipeline.program

    @property
    def schema(self) -> pa.Schema:
        return self.program.schema

    def _take_run(self, run: Run) -> None:
        self._take_letters(run.letters)
        self.counts["rows_out"] += len(run)
        if len(run) and not self.derived:
            ties = np.zeros(len(run), np.int64) if run.ties is None else run.ties
            batch = run.inputs[0].append_column(POSITION, pa.array(run.positions))
            codes = ties.dtype.kind == "S"  # Arrow would cut bytes at a zero
            tied = pa.array(ties.tolist(), pa.binary()) if codes else pa.array(ties)
            batch = batch.append_column(TIE, tied)
            position = int(run.positions[0])
            self.made.append(
                Output("rows", self.number, position, len(run), schema_id(batch.schema), ipc(batch))
            )

    def _take_letters(self, letters: Iterable[Letter | Letters]) -> None:
        for letter in letters:
            self.counts[letter.kind] += count(letter)
            rows = [list(vars(one).values()) for one in written(letter)]
            if rows and self._writes_letters:
                text = json.dumps(rows).encode()
                position = rows[0][1]
                self.made.append(Output("letters", self.number, position, len(rows), "", text))

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        self._take_letters(letters)

    def _is_full(self) -> bool:
        return False  # the log, not the core, holds the input back

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        return (runs,)

    def _saw(self, stream: str, tuples: int) -> None:
        self.tuples_in[stream] = self.tuples_in.get(stream, 0) + tuples

    def _retire(self) -> None:
        self.pipeline.clear()

    def measures(self) -> dict[str, Any]:
        """What the driver shows as metrics."""
        return {
            "tuples_in": self.tuples_in,
            "counts": self.counts,
            **(self.pipeline.measures() if self.pipeline.blocks else {}),
        }


class Host:
    """The queries of one core. Takes frames in the order of their positions."""

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._numbers = 0
        self._all: dict[int, HostedQuery] = {}
        self._registry: Registry[HostedQuery] = Registry(
            options.windows_required,
            options.order_column,
            self._new_query,
            lambda choice, program: decide_on_spark(choice, program, options.cores),
        )
        self._processing = Processing(self._registry)
        self._loading: Iterator[int] = iter(())
        self._saved_registry = ""

    def _new_query(self, name: str, program: Program, derived: bool, flow: Flow) -> HostedQuery:
        options = self._options
        number = next(self._loading, self._numbers)
        cores = 1 if options.divided else options.cores
        place = placement(number, program, derived, cores, options.core)
        # No flow for the pipeline: the share says what this core does, and the tasks are the flow.
        pipeline = Pipeline(program, options.compile_predicates, place.share, promises=derived)
        if not place.here:
            pipeline.clear()
        query = HostedQuery(number, name, pipeline, derived, place)
        self._numbers = max(self._numbers, number + 1)
        self._all[query.number] = query
        return query

    @property
    def position(self) -> int:
        """The position of the next event."""
        return self._processing.position

    def take(self, frames: Iterable[Frame]) -> Iterator[Output]:
        """Process frames in order; yields what the queries make, as they make it."""
        for folded, some in groupby(self._checked(frames), lambda one: one.kind == FOLDED):
            if not folded:
                yield from self._run(map(unpack, some))
                continue
            for frame in some:
                if not self._follow(FoldedFrame(frame), frame.count):
                    yield from self._run(map(unpack, FoldedFrame(frame).frames()))
                yield from self._made()
        yield from self._said()

    def process(self, events: Iterable[Event | Instruction]) -> Iterator[Output]:
        """Process events from the next position on; yields what the queries make."""
        yield from self._run(events)
        yield from self._said()

    def _run(self, events: Iterable[Event | Instruction]) -> Iterator[Output]:
        for piece in pieces(events, self._options.batch_rows):
            start = self.position
            try:
                for _ in self._processing.execute(piece):
                    pass  # a hosted query is never full
            except PenstockError as error:
                self._fail(error, start)
            yield from self._made()

    def _made(self) -> Iterator[Output]:
        for query in self._all.values():
            made, query.made = query.made, []
            yield from made

    def _follow(self, frame: FoldedFrame, count: int) -> bool:
        """Merge tuples that were folded where the log is read; False if they must be looked at."""
        runs: list[tuple[HostedQuery, FoldedRun]] = []
        for query in self._registry.queries.values():
            reads = {scan.stream.name.lower() for scan in query.program.scans}
            if frame.stream.lower() not in reads or query.failure is not None or not query.here:
                continue
            aggregate = None if query.derived else foldable(query.program)
            run = None if aggregate is None else frame.run(aggregate, self._options.core)
            if run is None or not takes(query.pipeline.aggregates[0], run):
                return False
            runs.append((query, run))
        position = self.position
        self._processing.position += count
        for query, run in runs:
            query._saw(query.program.scans[0].stream.name, count)
            try:
                for made in query.pipeline.follow(run.part, run.closings):
                    query._take_run(made)
            except Exception as error:  # as Processing: the other queries must not miss the input
                query.failure = failure_of(query, error)
                self._fail(query.failure, position)
        return True

    def _said(self) -> Iterator[Output]:
        """What is said after every trigger, and after all events."""
        for query in self._registry.queries.values():
            if not query.here:
                continue
            if query.failure is not None:
                yield _failure(query, query.failure)
            text = json.dumps(query.measures()).encode()
            yield Output("metrics", query.number, self.position, 0, "", text)
        yield Output("done", -1, self.position, 0, "", b"")

    def merge(self, parts: Sequence[PartialBatch], update: bool) -> Iterator[Output]:
        """Take tuples that were folded elsewhere, at one position, into the one query there is.

        With ``update`` the rows that they change come out, else those of windows that close.
        """
        [query] = self._registry.queries.values()
        position = self.position
        self._processing.position += 1
        query._saw(query.program.scans[0].stream.name, sum(part.tuples for part in parts))
        late, made = query.pipeline.merge(parts, position, update)
        query.counts["late"] += late
        query.counts["dead"] += sum(part.dead for part in parts)
        for run in made:
            query._take_run(run)
            outputs, query.made = query.made, []
            yield from outputs

    def counts(self, name: str) -> Mapping[str, int]:
        """How many rows, late tuples and dead letters a query has had."""
        return self._registry.queries[name].counts

    def _checked(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        expected = self.position
        for frame in frames:
            if frame.first != expected:
                raise StateError(
                    f"core {self._options.core} is at position {expected} and is handed "
                    f"{frame.first}",
                    "The checkpoint and the log are not of one engine; use a checkpoint folder "
                    "as it was left.",
                )
            expected += frame.count
            yield frame

    def _fail(self, error: PenstockError, position: int) -> None:
        """Note where the queries that have just failed stopped; an error of no query is raised."""
        failed = [query for query in self._all.values() if query.failure is error]
        if not failed:
            raise error
        for query in self._all.values():
            if query.failure is not None and not query.failed_at:
                query.failed_at = position

    # -- state ------------------------------------------------------------------------------

    def save(self, store: StateStore) -> None:
        """Write what has changed since the last time."""
        running = {query.number for query in self._registry.queries.values()}
        for number in [number for number in self._all if number not in running]:
            query = self._all.pop(number)
            for chunks in query.chunks.values():
                chunks.forget(store)
            if query.summary:
                store.delete_text(f"query {number}")
        registry = json.dumps(
            {
                **save_registry(self._registry),
                "numbers": self._numbers,
                "numbered": [query.number for query in self._registry.queries.values()],
                "ignored": self._processing.backwards.count,
            }
        )
        if registry != self._saved_registry:
            store.put_text("registry", registry)
            self._saved_registry = registry
        for query in self._registry.queries.values():
            summary = json.dumps(_save_query(query, store))
            if summary != query.summary:
                store.put_text(f"query {query.number}", summary)
                query.summary = summary

    def load(self, position: int, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        """Bring a new host to what was saved."""
        saved = json.loads(texts["registry"])
        self._loading = iter(saved["numbered"])
        load_registry(self._registry, saved)
        self._loading = iter(())
        self._saved_registry = texts["registry"]
        self._all = {}
        queries = list(self._registry.queries.values())
        for query, number in zip(queries, saved["numbered"], strict=True):
            self._all[number] = query
            query.summary = texts[f"query {number}"]
            _load_query(query, json.loads(query.summary), chunks)
        self._numbers = saved["numbers"]
        self._processing.position = position
        self._processing.backwards.count = saved["ignored"]


def _failure(query: HostedQuery, error: QueryFailed) -> Output:
    """Said again in every batch: other cores may go on with their share of the query, and the
    driver must know, after a restart too, that rows from this position on are not whole.
    """
    text = json.dumps(save_failure(error)).encode()
    return Output("failure", query.number, query.failed_at, 0, "", text)


def _save_query(query: HostedQuery, store: StateStore) -> dict[str, Any]:
    blocks = {}
    if query.failure is None:
        for number, block in query.pipeline.blocks.items():
            chunks = query.chunks.setdefault(number, BlockChunks(f"{query.number}/{number}"))
            blocks[str(number)] = chunks.save(block.save(), store)
    failure = query.failure
    return {
        "counts": query.counts,
        "tuples_in": query.tuples_in,
        "failure": None if failure is None else save_failure(failure),
        "failed_at": query.failed_at,
        "blocks": blocks,
    }


def _load_query(query: HostedQuery, saved: dict[str, Any], chunks: Mapping[str, bytes]) -> None:
    query.counts, query.tuples_in = saved["counts"], saved["tuples_in"]
    if saved["failure"] is not None:
        query.failure = load_failure(saved["failure"])
        query.failed_at = saved["failed_at"]
        return
    for number, block in query.pipeline.blocks.items():
        kept = query.chunks[number] = BlockChunks(f"{query.number}/{number}")
        summary = saved["blocks"][str(number)]
        block.load(kept.load(block.save(), summary, chunks))
