"""What one core does in one trigger: order the tuples, let the blocks work, keep the state."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.engines.shared.failure import load_failure
from penstock.engines.spark.cutting import joined
from penstock.engines.spark.dataframes.job import QUERY, Job, text_of
from penstock.engines.spark.dataframes.sequencer import Taken, keys_of
from penstock.engines.spark.frames import from_ipc, one_batch
from penstock.engines.spark.host import Host, HostOptions, Output
from penstock.engines.spark.partial_frames import unpack_partial
from penstock.engines.spark.state import FORMAT
from penstock.engines.spark.trigger import CoreStore, Head, HostMemory
from penstock.errors import StateError
from penstock.program.instructions import CreateStream, Install, Instruction
from penstock.streams.events import End, Punctuation

_DESCRIPTION = "job"
PARTS = ("input_ms", "ordering_ms", "blocks_ms", "state_ms")
"""What a core's time goes into: frames come and are opened, tuples are put in order, the blocks
work, chunks of state are read and written."""


class Watch:
    """Where the time of a trigger goes. The time between two calls is of the part named then."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._last = time.perf_counter()

    def spent(self, part: str) -> None:
        """What has passed since the last call went into this part."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def made(self) -> Iterator[Made]:
        """The milliseconds so far, as counts."""
        for part, seconds in self._seconds.items():
            yield Made(part, round(seconds * 1000))


class Packed(NamedTuple):
    """A piece of tuples of one stream on their way to the cores: its lane, and an Arrow stream.

    ``at`` is the time of the trigger in milliseconds, the same when the trigger is replayed. A
    ``mark`` is no tuple for the core: it has the highest time that its stream has come to.
    """

    lane: int
    at: int
    payload: bytes | memoryview
    mark: bool = False


@dataclass(frozen=True)
class Made:
    """What a core hands on: rows, letters, or a count (``taken``, ``held``, ``loads``).

    Counts of milliseconds, one for each of :data:`PARTS`, are among them.
    """

    kind: str
    count: int
    payload: bytes | memoryview = b""


class Worker:
    """The blocks of one core with the tuples that wait before them."""

    def __init__(self, job: Job, options: HostOptions) -> None:
        self._job = job
        self._first = options.core == 0
        self._host = Host(options)
        self._sequencer = job.sequencer()
        self._described = ""

    @property
    def position(self) -> int:
        """The position of the next event."""
        return self._host.position

    def take(self, packed: Iterable[Packed], watch: Watch, last: bool = False) -> Iterator[Made]:
        """Take the tuples of a trigger; ``last`` if there will never be another one."""
        packed = _whole(packed)
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
        events = (*taken.events, *self._promises(highest), *ends)
        yield from self._made(self._host.process(events))
        watch.spent("blocks_ms")

    def _merge(self, packed: Iterable[Packed], watch: Watch, last: bool) -> Iterator[Made]:
        """Take partial results, which the partitions of the input have made."""
        parts = [unpack_partial(one.payload) for one in packed]
        watch.spent("input_ms")
        if self.position == 0:
            yield from self._made(self._host.process(self._instructions()))
        before = dict(self._host.counts(QUERY))
        yield from self._made(self._host.merge(parts, self._job.update))
        if last:
            yield from self._made(self._host.process([End(self._job.lanes[0].stream.name)]))
        after = self._host.counts(QUERY)
        yield Made("taken", sum(part.tuples for part in parts))
        yield from (Made(kind, after[kind] - before[kind]) for kind in ("late", "dead"))
        watch.spent("blocks_ms")

    def _promises(self, highest: dict[int, Any]) -> Iterator[Punctuation]:
        """What the highest times of the streams promise, those on other cores included."""
        for number, key in sorted(highest.items()):
            column, keys = self._job.lanes[number].column, self._job.keys
            assert column is not None and keys is not None
            delay = keys[number].delay
            assert delay is not None
            yield column.punctuation(key - delay)

    def _instructions(self) -> Iterator[Instruction]:
        for lane in self._job.lanes:
            yield CreateStream(lane.stream)
        yield Install(QUERY, self._job.text)

    def _made(self, outputs: Iterable[Output]) -> Iterator[Made]:
        for output in outputs:
            if output.kind == "failure":
                raise load_failure(json.loads(output.payload))
            if output.kind == "rows":
                yield Made("rows", output.rows, output.payload)
            elif output.kind == "letters":
                letters = [
                    (kind, stream, text, why)
                    for kind, _, stream, text, why in json.loads(output.payload)
                ]
                yield from _letters(letters)

    def save(self, store: CoreStore) -> None:
        """Write what has changed since the last time."""
        self._host.save(store)
        self._sequencer.save(store)
        if not self._described:
            self._described = self._job.described()
            store.put_text(_DESCRIPTION, self._described)

    def load(self, position: int, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        """Bring a new worker to what was saved; a state of another query is refused."""
        self._described = texts[_DESCRIPTION]
        if self._described != self._job.described():
            other = " ".join(text_of(self._described).split())
            mine = " ".join(self._job.text.split())
            differs = (
                f"of another query: {other}"
                if other != mine
                else (
                    "of this query over other columns, or with another order_by, merge, watermark, "
                    "letters or idle_timeout"
                )
            )
            raise StateError(
                f"the checkpoint is {differs}",
                "Give the query a checkpointLocation of its own, or run the one that it is of.",
            )
        self._host.load(position, texts, chunks)
        self._sequencer.load(texts, chunks)


def _whole(packed: Iterable[Packed]) -> Iterator[Packed]:
    """The frames, of pieces in any order."""
    for one, payload in joined((one, one.payload) for one in packed):
        yield one._replace(payload=payload)


def _counted(taken: Taken) -> Iterator[Made]:
    yield Made("taken", sum(map(len, taken.events)))
    yield Made("held", taken.held)
    yield from _letters([(one.kind, one.stream, one.text, one.reason) for one in taken.refused])


def _letters(letters: list[tuple[str, str, str, str]]) -> Iterator[Made]:
    """Late tuples and dead letters, those of one kind together."""
    for kind in ("late", "dead"):
        found = [letter[1:] for letter in letters if letter[0] == kind]
        if found:
            yield Made(kind, len(found), json.dumps(found).encode())


def trigger(
    job: Job,
    options: HostOptions,
    packed: Iterable[Packed],
    store: CoreStore,
    memory: HostMemory[Worker],
) -> Iterator[Made]:
    """One trigger of one core; the state is the truth, as in the resident processor."""
    watch = Watch()
    worker, loaded = _worker(job, options, store, memory)
    watch.spent("state_ms")
    yield from worker.take(packed, watch)
    worker.save(store)
    watch.spent("state_ms")
    yield from watch.made()
    yield Made("loads", int(loaded))
    token = uuid.uuid4().hex
    store.set_head(Head(FORMAT, options.cores, worker.position, token))
    memory.put(options, token, worker)


def _worker(
    job: Job, options: HostOptions, store: CoreStore, memory: HostMemory[Worker]
) -> tuple[Worker, bool]:
    """The worker at the state of the store, and whether it had to be loaded from there."""
    head = store.head()
    if head is None:
        return Worker(job, options), False
    if head.format != FORMAT:
        raise StateError(
            f"the checkpoint has state of format {head.format}, this is format {FORMAT}",
            "Continue it with the version of Penstock that wrote it, or start with an empty "
            "checkpointLocation.",
        )
    if head.cores != options.cores:
        raise StateError(
            f"the checkpoint was written with cores={head.cores}, and its windows are divided "
            f"among so many; cores={options.cores} cannot read them",
            f"Pass cores={head.cores}, or start with an empty checkpointLocation.",
        )
    worker = memory.take(options, head.token)
    if worker is not None:
        return worker, False
    worker = Worker(job, options)
    worker.load(head.position, store.texts(), store.chunks())
    return worker, True
