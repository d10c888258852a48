"""The sequencer: an arrival order for the tuples of a trigger, from their content.

Spark guarantees neither the order of rows nor the tasks that they come from, and may cut the same
rows into other batches after a restart. So the order follows from the content of the tuples. There
are two ways:

*In order of arrival* every tuple of a trigger is taken at once, by (key, stream, content). A batch
that is replayed has the same tuples, and so the same order.

*In order of the key* a tuple waits until the punctuations of all streams have passed it, and then
tuples are taken by (key, stream, content). A stream's punctuation is the highest key seen less its
delay; a tuple behind it is late. What is taken in a trigger is below the frontier, the smallest
punctuation, and everything below it that was not late has been taken: later tuples of any stream
are at or above their own stream's punctuation, and so at or above the frontier. The whole sequence
is therefore sorted, and the same however the batches were cut, as long as no tuple is late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engines.spark.core.frames import from_ipc, ipc, one_batch
from penstock.engines.spark.core.trigger import StateStore
from penstock.engines.spark.state.column_chunks import ChunkStore
from penstock.streams.batches import concat, no_rows, take
from penstock.streams.events import Merged, Tuples
from penstock.streams.literals import format_array, format_rows, format_value, physical_array
from penstock.streams.order import OrderColumn
from penstock.streams.schema import Stream

_STATE = "sequencer"


@dataclass(frozen=True)
class Lane:
    """A stream as the sequencer sees it.

    ``column`` has its keys, None if nothing does; ``delay`` is how far they may be out of order, in
    units of the keys.
    """

    stream: Stream
    column: OrderColumn | None
    delay: int = 0

    @property
    def watermark(self) -> str | None:
        """The column that the user's watermark is on, if it is the one that has the keys."""
        stream, column = self.stream, self.column
        known = stream.slack is not None and column is not None and column.name == stream.time
        return stream.time if known else None


@dataclass(frozen=True)
class RefusedTuple:
    """A tuple that cannot be put in order. ``kind`` is late or dead."""

    kind: str
    stream: str
    text: str
    reason: str


@dataclass(frozen=True)
class SequenceStep:
    """The tuples that a trigger adds to the sequence, and those that it refuses."""

    events: tuple[Tuples | Merged, ...]
    refused: tuple[RefusedTuple, ...] = ()
    held: int = 0


def keys_of(batch: pa.RecordBatch, column: OrderColumn | None) -> tuple[Keys, Any]:
    """The key of every row, and which rows have none (None if all have one).

    What has no key gets that of zero: any will do that is the same for the same tuple.
    """
    if column is None:
        return np.zeros(batch.num_rows, np.int8), None
    values: Any = batch.column(column.index)
    floats = pa.types.is_floating(values.type)
    missing = pc.is_null(values, nan_is_null=floats) if values.null_count or floats else None
    if missing is None or not pc.any(missing).as_py():
        return column.keys(batch), None
    zero = physical_array([Decimal(0) if pa.types.is_decimal(values.type) else 0], values.type)
    filled = pc.if_else(missing, zero[0], values)
    arrays = [filled if i == column.index else c for i, c in enumerate(batch.columns)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
    return column.keys(whole), missing.to_numpy(zero_copy_only=False)


def joined(batches: list[pa.RecordBatch], lane: Lane) -> pa.RecordBatch:
    """All tuples of a lane as one batch; sorted batches stay in order."""
    filled = [batch for batch in batches if batch.num_rows]
    if lane.column is not None and len(filled) > 1:
        firsts = [keys_of(batch.slice(0, 1), lane.column)[0][0] for batch in filled]
        filled = [filled[i] for i in np.argsort(firsts, kind="stable")]
    return concat(filled) if filled else no_rows(lane.stream.schema)


class ArrivalOrder:
    """Takes every tuple in the trigger that brings it. Has no state."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes

    def take(self, batches: Sequence[list[pa.RecordBatch]], at: int, last: bool) -> SequenceStep:
        """One list of batches per lane; ``at`` is the time of the trigger in milliseconds."""
        parts = []
        for lane, given in zip(self._lanes, batches, strict=True):
            batch = joined(given, lane)
            keys, _ = keys_of(batch, lane.column)
            parts.append((batch, keys))
        return SequenceStep(_events(self._lanes, parts))

    def save(self, store: StateStore) -> None:
        pass

    def load(self, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        pass


@dataclass
class _Progress:
    """The progress of a stream: its highest key, and the time of its last tuple."""

    highest: Any = None
    seen: int | None = None


@dataclass
class KeyOrder:
    """Lets tuples wait until the punctuations of all streams have passed them.

    A stream that has brought nothing for ``idle`` milliseconds, as the triggers tell the time,
    holds the others up no longer; what it then brings behind the frontier is late.
    """

    lanes: Sequence[Lane]
    idle: int | None = None
    frontier: Any = None
    _saved: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._progress = [_Progress() for _ in self.lanes]
        self._held = [WaitingTuples(str(i)) for i in range(len(self.lanes))]

    def take(self, batches: Sequence[list[pa.RecordBatch]], at: int, last: bool) -> SequenceStep:
        """As :meth:`ArrivalOrder.take`; ``last`` releases all waiting tuples."""
        refused: list[RefusedTuple] = []
        fresh: list[Part] = []
        for i, (lane, given) in enumerate(zip(self.lanes, batches, strict=True)):
            batch = joined(given, lane)
            fresh.append(self._admit(i, lane, batch, at, refused))
        self._advance(at)
        if not last and self.frontier is None:
            for held, part in zip(self._held, fresh, strict=True):
                held.add(*part)
            return SequenceStep((), tuple(refused), sum(map(len, self._held)))
        parts = []
        for held, (batch, keys) in zip(self._held, fresh, strict=True):
            released = held.release(None if last else self.frontier)
            passed, rest = ((batch, keys), None) if last else _cut(batch, keys, self.frontier)
            if rest is not None:
                held.add(*rest)
            parts.append(join([*released, passed]))
        return SequenceStep(_events(self.lanes, parts), tuple(refused), sum(map(len, self._held)))

    def _admit(
        self, i: int, lane: Lane, batch: pa.RecordBatch, at: int, refused: list[RefusedTuple]
    ) -> Part:
        """The tuples that can be put in order; the stream's punctuation moves on after them."""
        assert lane.column is not None
        progress = self._progress[i]
        keys, missing = keys_of(batch, lane.column)
        if missing is not None:
            dead = take(batch, np.flatnonzero(missing))
            values = format_array(dead.column(lane.column.index))
            reasons = [f"{value} in order column {lane.column.name}" for value in values]
            _refuse("dead", lane, dead, reasons, refused)
            there = np.flatnonzero(~missing)
            batch, keys = take(batch, there), keys[there]
        if progress.seen is None or batch.num_rows:
            progress.seen = at
        late = self._late(progress, lane)
        if late is not None and len(keys) and (keys < late).any():
            gone = take(batch, np.flatnonzero(keys < late))
            name, mark = lane.column.name, _shown(late, lane.column)
            values = format_array(gone.column(lane.column.index))
            reasons = [f"{name} = {value} is before the punctuation {mark}" for value in values]
            _refuse("late", lane, gone, reasons, refused)
            there = np.flatnonzero(keys >= late)
            batch, keys = take(batch, there), keys[there]
        if len(keys):
            highest = keys.max()
            highest = highest.item() if isinstance(highest, np.generic) else highest
            known = progress.highest
            progress.highest = highest if known is None else max(known, highest)
        return batch, keys

    def _late(self, progress: _Progress, lane: Lane) -> Any:
        """The lateness bound of a tuple: its own stream's punctuation, and the frontier."""
        bounds = [] if progress.highest is None else [progress.highest - lane.delay]
        if self.frontier is not None:
            bounds.append(self.frontier)
        return max(bounds, default=None)

    def _advance(self, at: int) -> None:
        """Move the frontier to the smallest punctuation of the streams that are not idle."""
        active = [
            (progress, lane)
            for progress, lane in zip(self._progress, self.lanes, strict=True)
            if self.idle is None or progress.seen is None or at - progress.seen < self.idle
        ]
        if not active or any(progress.highest is None for progress, _ in active):
            return
        smallest = min(progress.highest - lane.delay for progress, lane in active)
        self.frontier = smallest if self.frontier is None else max(self.frontier, smallest)

    # -- state ------------------------------------------------------------------------------

    def save(self, store: StateStore) -> None:
        """Write the changes since the last time."""
        text = json.dumps(
            {
                "frontier": self.frontier,
                "progress": [[one.highest, one.seen] for one in self._progress],
                "held": [held.save(store) for held in self._held],
            }
        )
        if text != self._saved:
            store.put_text(_STATE, text)
            self._saved = text

    def load(self, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        """Restore from saved state."""
        self._saved = texts[_STATE]
        saved = json.loads(self._saved)
        self.frontier = saved["frontier"]
        self._progress = [_Progress(*one) for one in saved["progress"]]
        for held, lane, one in zip(self._held, self.lanes, saved["held"], strict=True):
            assert lane.column is not None
            held.load(one, chunks, lane.column, self.frontier)


Sequencer = ArrivalOrder | KeyOrder


def _cut(batch: pa.RecordBatch, keys: Keys, frontier: Any) -> tuple[Part, Part | None]:
    """The tuples below the frontier, and the others, if there are any."""
    if is_ordered(keys):
        cut = int(np.searchsorted(keys, frontier, "left"))
        if cut == len(keys):
            return (batch, keys), None
        return (batch.slice(0, cut), keys[:cut]), (batch.slice(cut), keys[cut:])
    below = keys < frontier
    if below.all():
        return (batch, keys), None
    passed, rest = np.flatnonzero(below), np.flatnonzero(~below)
    return (take(batch, passed), keys[passed]), (take(batch, rest), keys[rest])


def _events(lanes: Sequence[Lane], parts: Sequence[Part]) -> tuple[Tuples | Merged, ...]:
    """The tuples of all lanes in one order: by key, then by lane, then by content."""
    found: list[tuple[str, pa.RecordBatch, Keys]] = []
    for lane, (batch, keys) in zip(lanes, parts, strict=True):
        if not len(keys):
            continue
        if not is_ordered(keys):
            order = canonical_order(batch, keys)
            batch, keys = take(batch, order), keys[order]
        found.append((lane.stream.name, batch, keys))
    if not found:
        return ()
    names, batches, sorted_keys = zip(*found, strict=True)
    if len(found) == 1:
        return (Tuples(names[0], batches[0]),)
    owner = np.repeat(np.arange(len(found), dtype=np.int8), [len(keys) for keys in sorted_keys])
    order = np.argsort(np.concatenate(sorted_keys), kind="stable")
    return (Merged(names, batches, owner[order]),)


def _refuse(
    kind: str, lane: Lane, batch: pa.RecordBatch, reasons: list[str], refused: list[RefusedTuple]
) -> None:
    """Record refused tuples, in an order that does not depend on their arrival."""
    found = sorted(zip(format_rows(batch), reasons, strict=True))
    refused.extend(RefusedTuple(kind, lane.stream.name, text, why) for text, why in found)


def _shown(key: Any, column: OrderColumn) -> str:
    """A key as a literal of the column's type."""
    value: Any = column.punctuation(key).value
    return format_value(value, column.type)


Keys = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


def canonical_order(batch: pa.RecordBatch, keys: Keys) -> Indices:
    """The indices of the rows by key, and by content where keys are the same.

    Rows with the same key are ordered by the bits of their values, column by column, NULL first.
    Rows that are still equal are the same tuple twice, in any order. So the same tuples, cut into
    batches in any way, are sorted the same.

    >>> batch = pa.record_batch({"k": [2, 1, 1], "x": ["c", "b", "a"]})
    >>> canonical_order(batch, np.array([2, 1, 1])).tolist()
    [2, 1, 0]
    """
    order: Indices = np.argsort(keys, kind="stable").astype(np.int64, copy=False)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    # Few tuples tie as a rule, and only those are compared further.
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    group = np.cumsum(np.concatenate(([True], ~same)))[places]
    rows = take(batch, order[places])
    codes = [code for column in rows.columns for code in _codes(column)]
    order[places] = order[places][np.lexsort((*reversed(codes), group))]
    return order


def is_ordered(keys: Keys) -> bool:
    """Whether the keys strictly increase: there are no ties."""
    return bool((keys[1:] > keys[:-1]).all())


def _codes(column: Any) -> list[Keys]:
    """Arrays of numbers that compare as the values do: whether it is there, and what it is."""
    kind = column.type
    codes: list[Keys] = []
    if column.null_count:
        codes.append(column.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_null(kind):
        return codes
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind):
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return [*codes, ranks.to_numpy(zero_copy_only=False)]
    if pa.types.is_boolean(kind):
        return [*codes, column.fill_null(False).to_numpy(zero_copy_only=False)]
    if pa.types.is_primitive(kind):
        return [*codes, _bits(column)]
    # Nested values have no order in Arrow; their text is as good as any.
    texts = [repr(value) for value in column.to_pylist()]
    return [*codes, np.unique(np.array(texts, dtype=object), return_inverse=True)[1]]


def _bits(column: Any) -> Keys:
    """Fixed-width values as integers of their width: minus zero and zero differ, NaN is itself."""
    width = column.type.bit_width
    whole = column.view(getattr(pa, f"int{width}")())
    bits: Keys = whole.fill_null(0).to_numpy(zero_copy_only=False)
    return bits


Part = tuple[pa.RecordBatch, Keys]


@dataclass
class _Chunk:
    """Tuples by key; those before ``first`` have been released."""

    number: int
    batch: pa.RecordBatch
    keys: Keys
    first: int = 0
    written: bool = False

    def rest(self) -> Part:
        return self.batch.slice(self.first), self.keys[self.first :]

    def __len__(self) -> int:
        return len(self.keys) - self.first


class WaitingTuples:
    """The waiting tuples of one stream, in chunks. ``name`` is the prefix of the chunks' keys.

    A chunk is sorted by key and never changed: the frontier alone tells which of its tuples were
    released. So a trigger writes the new tuples, and deletes chunks without waiting tuples. A chunk
    that is not larger than its successor is merged with it, as a binary counter carries, so that a
    stream which waits long does not accumulate small chunks.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: list[_Chunk] = []
        self._gone: list[int] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, batch: pa.RecordBatch, keys: Keys) -> None:
        """Add tuples, in any order."""
        if not len(keys):
            return
        parts = [(batch, keys)]
        size = len(keys)
        while self._chunks and len(self._chunks[-1]) <= size:
            last = self._chunks.pop()
            parts.append(last.rest())
            size += len(last)
            self._forget(last)
        order = canonical_order(*(joined := join(parts)))
        self._chunks.append(_Chunk(self._next, take(joined[0], order), joined[1][order]))
        self._next += 1

    def release(self, frontier: Any) -> list[Part]:
        """Remove and return the tuples below the frontier; None: all tuples."""
        released = []
        for chunk in self._chunks:
            end = len(chunk.keys)
            cut = end if frontier is None else int(np.searchsorted(chunk.keys, frontier, "left"))
            if cut > chunk.first:
                span = cut - chunk.first
                released.append(
                    (chunk.batch.slice(chunk.first, span), chunk.keys[chunk.first : cut])
                )
                chunk.first = cut
        for chunk in self._chunks:
            if not len(chunk):
                self._forget(chunk)
        self._chunks = [chunk for chunk in self._chunks if len(chunk)]
        return released

    def _forget(self, chunk: _Chunk) -> None:
        if chunk.written:
            self._gone.append(chunk.number)

    def save(self, store: ChunkStore) -> dict[str, Any]:
        """Write new chunks, delete old ones; returns the summary."""
        for number in self._gone:
            store.delete(self._key(number))
        self._gone = []
        for chunk in self._chunks:
            if not chunk.written:
                store.put(self._key(chunk.number), ipc(chunk.rest()[0]))
                chunk.written = True
        return {"next": self._next, "chunks": [chunk.number for chunk in self._chunks]}

    def load(
        self,
        saved: dict[str, Any],
        chunks: Mapping[str, bytes],
        column: OrderColumn,
        frontier: Any,
    ) -> None:
        """Restore from saved state; tuples below the frontier were released."""
        self._next = saved["next"]
        for number in saved["chunks"]:
            batch = one_batch(from_ipc(chunks[self._key(number)]))
            keys = column.keys(batch)
            first = 0 if frontier is None else int(np.searchsorted(keys, frontier, "left"))
            self._chunks.append(_Chunk(number, batch, keys, first, written=True))

    def _key(self, number: int) -> str:
        return f"held/{self._name}/{number}"


def join(parts: list[Part]) -> Part:
    """Concatenate parts."""
    parts = [part for part in parts if len(part[1])] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return concat([batch for batch, _ in parts]), np.concatenate([keys for _, keys in parts])
