"""The host in one core: a registry, the blocks of its queries, and their state in chunks.

The same registry, processing and blocks as in the embedded engine. Input comes as frames, each at
the position the log gave it; output goes as rows of a fixed schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock.blocks.aggregate.folding import foldable
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.contract import LETTERS, Batch, Partials, Site
from penstock.blocks.run import Letters, MissedTuples, Run
from penstock.engines.shared.failure import failure_of, load_failure, save_failure
from penstock.engines.shared.input_slices import Event, slices
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.placed_network import network_maker
from penstock.engines.shared.processing import Processing
from penstock.engines.shared.registry import Registry, column_of
from penstock.engines.shared.running_query import Letter, count, written
from penstock.engines.shared.saved_registry import SavedRegistry, load_registry
from penstock.engines.spark.core.fold_at_source import FOLDED, FoldedFrame
from penstock.engines.spark.core.frames import Frame, ipc, tie_column, unpack
from penstock.engines.spark.core.trigger import CoreOptions, Output, StateStore, Stopwatch
from penstock.engines.spark.flow import decide_on_spark, inside_core
from penstock.engines.spark.resident.distribution import Placement, placement
from penstock.engines.spark.resident.log import opened
from penstock.engines.spark.state.chunks import BlockChunks
from penstock.errors import PenstockError, QueryFailed, StateError
from penstock.processor.fqp.processor import Processor
from penstock.processor.query_assigner.query_assigner import QueryAssigner
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import Flow
from penstock.program.isa.instructions import Instruction
from penstock.streams.events import Punctuation

POSITION = "position"
TIE = "tie"
"""The last two columns of rows on their way: see :class:`penstock.blocks.run.Run`."""


def schema_id(schema: pa.Schema) -> str:
    """A name for a schema; rows of one query that have the same name have the same columns."""
    return hashlib.sha256(schema.serialize().to_pybytes()).hexdigest()[:16]


class HostedQuery:
    """A query in a core. Its output waits in ``made`` until the core has sent it."""

    def __init__(
        self, number: int, name: str, pipeline: Pipeline, derived: bool, placement: Placement
    ) -> None:
        self.number = number
        self.name = name
        self.pipeline = pipeline
        self.derived = derived
        self.order: str | None = None
        self.kernel: str | None = None
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
        if self._writes_letters or not self.derived:
            self.counts["rows_out"] += len(run)
        if len(run) and not self.derived:
            ties = np.zeros(len(run), np.int64) if run.ties is None else run.ties
            batch = run.inputs[0].append_column(POSITION, pa.array(run.positions))
            batch = batch.append_column(TIE, tie_column(ties))
            position = int(run.positions[0])
            self.made.append(
                Output(
                    "rows",
                    len(run),
                    ipc(batch),
                    query=self.number,
                    position=position,
                    schema=schema_id(batch.schema),
                )
            )

    def _take(self, port: str, message: Any) -> None:
        if port == LETTERS:
            self._take_letters((message,))
        elif isinstance(message, Batch):
            self._take_run(message.run)

    def _take_letters(self, letters: Iterable[Letter | Letters | MissedTuples]) -> None:
        for letter in letters:
            self.counts[letter.kind] += count(letter)
            rows = [list(vars(one).values()) for one in written(letter)]
            if rows and self._writes_letters:
                text = json.dumps(rows).encode()
                position = rows[0][1]
                self.made.append(
                    Output("letters", len(rows), text, query=self.number, position=position)
                )

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        self._take_letters(letters)

    def _is_full(self) -> bool:
        return False  # the log, not the core, holds the input back

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        return (runs,)

    def _begin_step(self) -> None:
        pass  # a core reports its measures between triggers

    def _end_step(self) -> None:
        pass

    def _count_input(self, stream: str, tuples: int) -> None:
        self.tuples_in[stream] = self.tuples_in.get(stream, 0) + tuples

    def _retire(self) -> None:
        self.pipeline.clear()

    def measures(self) -> dict[str, Any]:
        """The measures for the driver; of latencies, only those since the last call."""
        return {
            "tuples_in": self.tuples_in,
            "counts": self.counts,
            **(self.pipeline.measures() if self.pipeline.blocks else {}),
            "latency": [
                [one.processing.take_counts(), one.visiting.take_counts()]
                for one in self.pipeline.latencies
            ],
        }


class Host:
    """The queries of one core. Takes frames in the order of their positions."""

    def __init__(self, options: CoreOptions) -> None:
        self._options = options
        self._numbers = 0
        self._all: dict[int, HostedQuery] = {}
        topology = options.topology
        self._processor = None if topology is None else Processor(topology)
        self._registry: Registry[HostedQuery] = Registry(
            self._new_query,
            lambda program: inside_core(decide_on_spark(program, self._sharing)),
            assigner=None if topology is None else QueryAssigner(topology),
        )
        self._saving = SavedRegistry(self._registry)
        self._processing = Processing(self._registry, self._processor)
        self._loading: Iterator[int] = iter(())
        self._saved_registry = ""

    def _new_query(self, name: str, program: Program, derived: bool, flow: Flow) -> HostedQuery:
        options = self._options
        number = next(self._loading, self._numbers)
        place = placement(number, program, derived, self._sharing, options.core, options.topology)
        site = Site(flow, place.share, options.compile_predicates, derived)
        network = network_maker(self._processor, name if derived else None)
        pipeline = Pipeline(program, site, network)
        if not place.here:
            pipeline.clear()
        query = HostedQuery(number, name, pipeline, derived, place)
        self._numbers = max(self._numbers, number + 1)
        self._all[query.number] = query
        return query

    @property
    def _sharing(self) -> int:
        """How many cores share a query; one where each has the tuples of its keys alone."""
        return 1 if self._options.divided else self._options.cores

    @property
    def position(self) -> int:
        """The position of the next event."""
        return self._processing.position

    def take(self, inputs: Iterable[Frame], watch: Stopwatch) -> Iterator[Output]:
        """Process frames by position; yields the output of the queries."""
        frames = opened(sorted(inputs, key=lambda frame: frame.first))
        watch.spent("input_ms")
        for folded, some in groupby(self._checked(frames), lambda one: one.kind == FOLDED):
            if not folded:
                yield from self._run(map(unpack, some))
                continue
            for frame in some:
                if not self._follow(FoldedFrame(frame), frame.count):
                    yield from self._run(map(unpack, FoldedFrame(frame).frames()))
                yield from self._made()
        yield from self._report()
        watch.spent("blocks_ms")

    def process(self, events: Iterable[Event | Instruction]) -> Iterator[Output]:
        """Process events from the next position on; yields the output of the queries."""
        yield from self._run(events)
        yield from self._report()

    def _run(self, events: Iterable[Event | Instruction]) -> Iterator[Output]:
        for piece in slices(events, self._options.batch_rows):
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
        """Merge partial results of the log's readers; False if the tuples are needed."""
        runs: list[tuple[HostedQuery, Partials]] = []
        for query in self._registry.queries.values():
            reads = frame.stream.lower() in query.pipeline.reads
            if not reads or query.failure is not None or not query.here:
                continue
            folds = not query.derived and foldable(query.program) is not None
            run = frame.run(query.program, self._options.core) if folds else None
            if run is None:
                return False
            parts = Partials(self.position, (run.part,), run.closings, run.disordered)
            if not query.pipeline.takes_partials(parts):
                return False
            runs.append((query, parts))
        position = self.position
        self._processing.position += count
        for query, parts in runs:
            query._count_input(query.program.scans[0].stream.name, count)
            try:
                for port, message in query.pipeline.take_partials(parts):
                    query._take(port, message)
            except Exception as error:  # as Processing: the other queries must not miss the input
                query.failure = failure_of(query, error)
                self._fail(query.failure, position)
        return True

    def _report(self) -> Iterator[Output]:
        """The measures of all queries, and the position: the end of a trigger's output."""
        for query in self._registry.queries.values():
            if not query.here:
                continue
            if query.failure is not None:
                yield _failure(query, query.failure)
            text = json.dumps(query.measures()).encode()
            yield Output("metrics", payload=text, query=query.number, position=self.position)
        yield Output("done", position=self.position)

    def merge(self, parts: Sequence[PartialBatch], update: bool) -> Iterator[Output]:
        """Take tuples that were folded elsewhere, at one position, into the one query there is.

        With ``update`` the rows that they change come out, else those of windows that close.
        """
        [query] = self._registry.queries.values()
        position = self.position
        self._processing.position += 1
        query._count_input(query.program.scans[0].stream.name, sum(part.tuples for part in parts))
        message = Partials(position, tuple(parts), update=update)
        for port, made in query.pipeline.take_partials(message):
            query._take(port, made)
            outputs, query.made = query.made, []
            yield from outputs

    def is_new_punctuation(self, event: Punctuation) -> bool:
        """Whether a punctuation is greater than the last one of its stream."""
        stream = self._registry.streams.get(event.stream)
        assert stream is not None
        known = self._registry.punctuations.get(event.stream.lower(), {})
        column, value = column_of(event, stream), event.value
        return column not in known or bool(value > known[column])

    def counts(self, name: str) -> Mapping[str, int]:
        """The numbers of rows, late tuples and dead letters of a query."""
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
        """Record the positions at which queries have just failed; raise any other error."""
        failed = [query for query in self._all.values() if query.failure is error]
        if not failed:
            raise error
        for query in self._all.values():
            if query.failure is not None and not query.failed_at:
                query.failed_at = position

    # -- state ------------------------------------------------------------------------------

    def save(self, store: StateStore) -> None:
        """Write the changes since the last time."""
        running = {query.number for query in self._registry.queries.values()}
        for number in [number for number in self._all if number not in running]:
            query = self._all.pop(number)
            for chunks in query.chunks.values():
                chunks.forget(store)
            if query.summary:
                store.delete_text(f"query {number}")
        registry = json.dumps(
            {
                **self._saving.save(),
                "numbers": self._numbers,
                "numbered": [query.number for query in self._registry.queries.values()],
                "ignored": self._processing.punctuation_order.count,
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
        """Restore a new host from saved state."""
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
        self._processing.punctuation_order.count = saved["ignored"]

    def close(self) -> None:
        """Release the threads of all queries."""
        for query in self._all.values():
            query.pipeline.close()


def _failure(query: HostedQuery, error: QueryFailed) -> Output:
    """Said again in every batch: other cores may go on with their share of the query, and the
    driver must know, after a restart too, that rows from this position on are not whole.
    """
    text = json.dumps(save_failure(error)).encode()
    return Output("failure", payload=text, query=query.number, position=query.failed_at)


def _save_query(query: HostedQuery, store: StateStore) -> dict[str, Any]:
    blocks = {}
    if query.failure is None:
        for number, block in query.pipeline.units.items():
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
    for number, block in query.pipeline.units.items():
        kept = query.chunks[number] = BlockChunks(f"{query.number}/{number}")
        summary = saved["blocks"][str(number)]
        block.restore(kept.load(block.save(), summary, chunks))


OUTPUT_SCHEMA = (
    "core int, kind string, query long, position long, rows long, schema string, payload binary"
)
"""The columns of what the cores of the resident processor hand on."""


@dataclass(frozen=True)
class HostTask:
    """The task of the resident processor's cores: frames of the log in, outputs by query out."""

    options: CoreOptions

    state_place = "folder"

    def start(self, options: CoreOptions) -> Host:
        """A new host."""
        return Host(options)

    def refuse_cores(self, cores: int) -> StateError:
        """The error for state that another number of cores has written."""
        return StateError(
            f"the checkpoint has state for {cores} cores; this engine has {self.options.cores}",
            f"Run it with cores={cores}.",
        )

    def inputs(self, rows: pd.DataFrame) -> Iterator[Frame]:
        """Frames of the log."""
        columns = [rows[name] for name in ("first", "count", "kind", "header", "payload")]
        for first, events, kind, header, payload in zip(*columns, strict=True):
            yield Frame(int(first), int(events), kind, header, bytes(payload))

    def rows(self, core: int, outputs: Iterator[Output]) -> Iterator[pd.DataFrame]:
        """A row of :data:`OUTPUT_SCHEMA` for each output."""
        for output in outputs:
            yield pd.DataFrame(
                {
                    "core": [core],
                    "kind": [output.kind],
                    "query": [output.query],
                    "position": [output.position],
                    "rows": [output.count],
                    "schema": [output.schema],
                    "payload": [output.payload],
                }
            )

    def report(self, watch: Stopwatch, was_loaded: bool) -> tuple[Output, ...]:
        """Nothing: a host tells its figures query by query."""
        return ()
