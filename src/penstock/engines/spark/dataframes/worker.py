"""The worker of one core in one trigger: order the tuples, run the blocks, save the state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.engines.shared.failure import load_failure
from penstock.engines.shared.text_difference import difference
from penstock.engines.spark.core.frames import from_ipc, joined, one_batch, unpack_partial
from penstock.engines.spark.core.host import Host
from penstock.engines.spark.core.trigger import CoreOptions, Output, StateStore, Stopwatch
from penstock.engines.spark.dataframes.job import QUERY, Job, differs, is_same_query
from penstock.engines.spark.dataframes.sequencer import Lane, SequenceStep, keys_of
from penstock.errors import StateError
from penstock.program.isa.instructions import CreateStream, Derive, Install, Instruction
from penstock.streams.events import End, Punctuation

_DESCRIPTION = "job"
LETTERS = ("late", "dead")
"""The kinds of tuples that a query leaves out."""


class PackedTuples(NamedTuple):
    """A piece of tuples of one stream on their way to the cores: its lane, and an Arrow stream.

    ``at`` is the time of the trigger in milliseconds, the same when the trigger is replayed. A
    ``mark`` is no tuple for the core: it has the highest time that its stream has come to.
    """

    lane: int
    at: int
    payload: bytes | memoryview
    mark: bool = False


class Worker:
    """The blocks of one core, and the tuples that wait for their place in the order."""

    def __init__(self, job: Job, options: CoreOptions) -> None:
        self._job = job
        self._first = options.core == 0
        self._host = Host(options)
        self._sequencer = job.sequencer()
        self._described = False

    @property
    def position(self) -> int:
        """The position of the next event."""
        return self._host.position

    def take(
        self, inputs: Iterable[PackedTuples], watch: Stopwatch, last: bool = False
    ) -> Iterator[Output]:
        """Take the tuples of a trigger; ``last``: there is no later trigger."""
        packed = _whole(inputs)
        if self._job.partial is not None:
            yield from self._merge(packed, watch, last)
            return
        at = 0
        batches: list[list[pa.RecordBatch]] = [[] for _ in self._job.lanes]
        highest: dict[int, Any] = {}
        for one in packed:
            at = one.at
            batch = one_batch(from_ipc(one.payload))
            if not one.mark:
                batches[one.lane].append(batch)
                continue
            key = keys_of(batch, self._job.lanes[one.lane].column)[0][0].item()
            highest[one.lane] = max(key, highest.get(one.lane, key))
        watch.spent("input_ms")
        if self.position == 0:
            yield from self._made(self._host.process(self._instructions()))
        taken = self._sequencer.take(batches, at, last)
        watch.spent("ordering_ms")
        if self._first or self._job.keys is not None:
            yield from _counted(taken)  # where all cores see the same tuples, one speaks for all
        ends = [End(lane.stream.name) for lane in self._job.lanes] if last else []
        heard = self._watermarks(batches) if self._job.derived else ()
        events = (*taken.events, *self._punctuations(highest), *heard, *ends)
        yield from self._made(self._host.process(events))
        watch.spent("blocks_ms")

    def _merge(
        self, packed: Iterable[PackedTuples], watch: Stopwatch, last: bool
    ) -> Iterator[Output]:
        """Merge the partial results of the partitions of the input."""
        parts = [unpack_partial(one.payload) for one in packed]
        watch.spent("input_ms")
        if self.position == 0:
            yield from self._made(self._host.process(self._instructions()))
        before = dict(self._host.counts(QUERY))
        yield from self._made(self._host.merge(parts, self._job.update))
        if last:
            yield from self._made(self._host.process([End(self._job.lanes[0].stream.name)]))
        after = self._host.counts(QUERY)
        yield Output("taken", sum(part.tuples for part in parts))
        stream = self._job.lanes[0].stream.name
        for kind in LETTERS:
            yield Output(kind, after[kind] - before[kind], stream=stream)
        watch.spent("blocks_ms")

    def _punctuations(self, highest: dict[int, Any]) -> Iterator[Punctuation]:
        """The punctuations that follow from the highest times of the streams on all cores."""
        for number, key in sorted(highest.items()):
            column, keys = self._job.lanes[number].column, self._job.keys
            assert column is not None and keys is not None
            delay = keys[number].delay
            assert delay is not None
            yield column.punctuation(key - delay)

    def _watermarks(self, batches: Sequence[list[pa.RecordBatch]]) -> Iterator[Punctuation]:
        """The punctuations that follow from the user's watermarks, for derived streams to pass on.

        Where a query reads a stream in a window, the window's own punctuator knows as much. A
        selection has none, and windows over what it selects must close too. The delay is the
        largest that anything asks for, and tuples of one trigger are taken by their times: so none
        is late that would not be late without.
        """
        for lane, given in zip(self._job.lanes, batches, strict=True):
            if lane.watermark is None or self._job.by_key:
                continue
            highest = [key for batch in given if (key := _highest(batch, lane)) is not None]
            assert lane.column is not None
            if highest:
                event = lane.column.punctuation(max(highest) - lane.delay)
                if self._host.is_new_punctuation(event):
                    yield event

    def _instructions(self) -> Iterator[Instruction]:
        for lane in self._job.lanes:
            yield CreateStream(lane.stream)
        for name, program in self._job.derived:
            yield Derive(name, program)
        yield Install(QUERY, self._job.program)

    def _made(self, outputs: Iterable[Output]) -> Iterator[Output]:
        for output in outputs:
            if output.kind == "failure":
                raise load_failure(json.loads(bytes(output.payload)))
            if output.kind == "rows":
                yield Output("rows", output.count, output.payload)
            elif output.kind == "letters":
                letters = [
                    (kind, stream, text, why)
                    for kind, _, stream, text, why in json.loads(bytes(output.payload))
                ]
                yield from _letters(letters)

    def save(self, store: StateStore) -> None:
        """Write the changes since the last time."""
        self._host.save(store)
        self._sequencer.save(store)
        if not self._described:
            store.put_text(_DESCRIPTION, json.dumps(self._job.described()))
            self._described = True

    def load(self, position: int, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        """Restore a new worker from saved state; the state of another query is refused."""
        self._described = True
        before, now = json.loads(texts[_DESCRIPTION]), self._job.described()
        if differs(before, now):
            raise StateError(
                _another(before, now),
                "Give the query a checkpointLocation of its own, or run the one that it is of.",
            )
        self._host.load(position, texts, chunks)
        self._sequencer.load(texts, chunks)

    def close(self) -> None:
        """Release the threads of the query."""
        self._host.close()


def _another(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The difference between a checkpoint and the query that was started with it."""
    if not is_same_query(before, now):
        return f"the checkpoint is of another query\n{difference(before['text'], now['text'])}"
    return (
        "the checkpoint is of this query over other columns, or with another order_by, merge, "
        "watermark, letters, idle_timeout or design"
    )


def _highest(batch: pa.RecordBatch, lane: Lane) -> Any:
    """The highest key of a batch; None if it has no tuple with one."""
    keys, missing = keys_of(batch, lane.column)
    there = keys if missing is None else keys[~missing]
    return there.max().item() if len(there) else None


def _whole(packed: Iterable[PackedTuples]) -> Iterator[PackedTuples]:
    """The whole frames, from their rows in any order."""
    for one, payload in joined((one, one.payload) for one in packed):
        yield one._replace(payload=payload)


def _counted(taken: SequenceStep) -> Iterator[Output]:
    yield Output("taken", sum(map(len, taken.events)))
    yield Output("held", taken.held)
    yield from _letters([(one.kind, one.stream, one.text, one.reason) for one in taken.refused])


def _letters(letters: list[tuple[str, str, str, str]]) -> Iterator[Output]:
    """Late tuples and dead letters, those of one kind and stream together."""
    for kind, stream in sorted({letter[:2] for letter in letters}, key=lambda one: one[::-1]):
        found = [letter[1:] for letter in letters if letter[:2] == (kind, stream)]
        yield Output(kind, len(found), json.dumps(found).encode(), stream)
