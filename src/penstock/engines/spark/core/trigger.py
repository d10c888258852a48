"""One trigger of one core: take the core from memory or load it, let it work, write what changed.

The state store is the truth. A worker process keeps the core it has just used in memory, under a
random token that it wrote with the same state commit, and uses it again only if the state has that
token. A batch number would not do: an attempt that failed has one too. A core is taken out of the
memory while an attempt uses it, so that one that fails leaves nothing behind; and an attempt that
ends but is never committed leaves a token that no state has.

The resident processor and queries over DataFrames share this. They differ in what their cores take,
which a :class:`Task` says.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import pandas as pd

from penstock.engines.spark.state.chunks import FORMAT, VERSIONS
from penstock.engines.spark.state.column_chunks import ChunkStore
from penstock.errors import StateError
from penstock.processor.topology.topology import Topology
from penstock.version import VERSION

PARTS = ("input_ms", "ordering_ms", "blocks_ms", "state_ms")
"""What a core's time goes into: frames come and are opened, tuples are put in order, the blocks
work, chunks of state are read and written."""

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True)
class CoreOptions:
    """The options of a core; the same for all cores of an engine except ``core``."""

    checkpoint: str
    """A name that no other Spark query has."""
    cores: int = 1
    core: int = 0
    batch_rows: int = 65_536
    compile_predicates: bool = True
    divided: bool = False
    """Whether a core sees the tuples of its keys alone, and all of those."""
    topology: Topology | None = None
    """The topology that queries stand on."""


@dataclass(frozen=True)
class Output:
    """What a core hands on.

    Parameters
    ----------
    kind
        ``rows``, letters (``letters``, ``late``, ``dead``), ``failure``, ``metrics``, ``done``, or
        the name of a count.
    count
        How many rows, letters, tuples or milliseconds.
    payload
        Rows as Arrow, the rest as JSON.
    stream
        The stream that letters are of, where they are of one.
    query
        The number that its install gave the query, since its name may be used again.
    position
        The first position that it is of.
    schema
        The name of the columns of rows.
    """

    kind: str
    count: int = 0
    payload: bytes | memoryview = b""
    stream: str = ""
    query: int = -1
    position: int = 0
    schema: str = ""


class Stopwatch:
    """Where the time of a trigger goes. The time between two calls is of the part named then."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._last = time.perf_counter()

    def spent(self, part: str) -> None:
        """The time since the last call went into this part."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def outputs(self) -> Iterator[Output]:
        """The milliseconds so far, as counts."""
        for part, seconds in self._seconds.items():
            yield Output(part, round(seconds * 1000))


class Head(NamedTuple):
    """The header of a core's state: its format, its place, its token."""

    format: int
    cores: int
    position: int
    token: str


class StateStore(ChunkStore, Protocol):
    """Chunks by key, and small texts by key."""

    def put_text(self, key: str, text: str) -> None: ...

    def delete_text(self, key: str) -> None: ...


class CoreStore(StateStore, Protocol):
    """All the state of a core."""

    def head(self) -> Head | None:
        """The header; None if nothing was written yet."""

    def set_head(self, head: Head) -> None: ...

    def texts(self) -> dict[str, str]: ...

    def chunks(self) -> dict[str, bytes]: ...


class Core(Protocol[T_contra]):
    """What works in one core and has its state."""

    @property
    def position(self) -> int:
        """The position of the next event."""

    def take(self, inputs: Iterable[T_contra], watch: Stopwatch) -> Iterator[Output]:
        """Take all input of a trigger, in whatever order it comes."""

    def save(self, store: StateStore) -> None:
        """Write what has changed since the last time."""

    def load(self, position: int, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        """Restore a new core from saved state."""

    def close(self) -> None:
        """Release the threads of its queries; it takes nothing more."""


class Task(Protocol[T]):
    """What all cores of one Spark query have to do; it is sent to the worker processes."""

    @property
    def options(self) -> CoreOptions:
        """The options of its cores."""

    @property
    def state_place(self) -> str:
        """What a user calls the place where the state is."""

    def start(self, options: CoreOptions) -> Core[T]:
        """A new core."""

    def refuse_cores(self, cores: int) -> StateError:
        """The error for state that this many cores have written."""

    def inputs(self, rows: pd.DataFrame) -> Iterator[T]:
        """Rows of Spark as input of a core."""

    def rows(self, core: int, outputs: Iterator[Output]) -> Iterator[pd.DataFrame]:
        """Outputs of a core as rows of Spark."""

    def report(self, watch: Stopwatch, was_loaded: bool) -> Iterable[Output]:
        """What a core tells of the trigger itself."""


class CoreMemory:
    """The cores that this process has used last, each with the token of the state it is at."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cores: OrderedDict[CoreOptions, tuple[str, Any]] = OrderedDict()

    def take(self, options: CoreOptions, token: str) -> Any:
        """The core if it is at that token, else None; it is in the memory no longer either way."""
        known, core = self._cores.get(options, ("", None))
        if known == token:
            del self._cores[options]
            return core
        self._forget(options)
        return None

    def put(self, options: CoreOptions, token: str, core: Core[Any]) -> None:
        """Remember a core that is at that token."""
        self._forget(options)
        self._cores[options] = (token, core)
        while len(self._cores) > self._most:
            self._forget(next(iter(self._cores)))

    def clear(self) -> None:
        """Forget all cores."""
        for options in list(self._cores):
            self._forget(options)

    def _forget(self, options: CoreOptions) -> None:
        _, core = self._cores.pop(options, ("", None))
        if core is not None:
            core.close()


def trigger(
    task: Task[T], core: int, inputs: Iterable[T], store: CoreStore, memory: CoreMemory
) -> Iterator[Output]:
    """Let a core take its input of one trigger, and write its state."""
    watch = Stopwatch()
    options = replace(task.options, core=core)
    working, was_loaded = _at_state(task, options, store, memory)
    try:
        watch.spent("state_ms")
        yield from working.take(inputs, watch)
        working.save(store)
        watch.spent("state_ms")
        yield from task.report(watch, was_loaded)
        token = uuid.uuid4().hex
        store.set_head(Head(FORMAT, options.cores, working.position, token))
    except BaseException:  # an attempt that is given up too: it must leave no thread behind
        working.close()
        raise
    memory.put(options, token, working)


def _at_state(
    task: Task[T], options: CoreOptions, store: CoreStore, memory: CoreMemory
) -> tuple[Core[T], bool]:
    """The core at the state of the store, and whether it had to be loaded from there."""
    head = store.head()
    if head is None:
        return task.start(options), False
    check_format(head, task.state_place)
    if head.cores != options.cores:
        raise task.refuse_cores(head.cores)
    known: Core[T] | None = memory.take(options, head.token)
    if known is not None:
        return known, False
    core = task.start(options)
    try:
        core.load(head.position, store.texts(), store.chunks())
    except BaseException:
        core.close()
        raise
    return core, True


def check_format(head: Head, place: str) -> None:
    """Refuse a state that another version has written; ``place`` is where a new one could be."""
    if head.format != FORMAT:
        version = VERSIONS.get(head.format, "of another version")
        raise StateError(
            f"the checkpoint was written by Penstock {version} in the format {head.format}; this "
            f"is Penstock {VERSION}, which reads the format {FORMAT}",
            f"Continue it with the version that wrote it, or start with an empty {place}.",
        )
