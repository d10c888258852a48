"""Arrival order for tuples that have none: what a trigger brought, put in order by its content.

Spark promises nothing about the order in which it delivers rows, nor about the tasks that they come
from, and may cut the same rows into other batches after a restart. So the order is made of what the
tuples hold. There are two ways:

*In order of arrival* every tuple of a trigger is taken at once, by (key, stream, content). A batch
that is replayed has the same tuples, and so the same order.

*In order of the key* a tuple is held until the punctuations of all streams have passed it, and then
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
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engines.spark.dataframes.canonical import Keys, canonical_order, is_ordered
from penstock.engines.spark.dataframes.held import Held, Part, join
from penstock.engines.spark.host import StateStore
from penstock.streams.batches import concat, no_rows, take
from penstock.streams.events import Merged, Tuples
from penstock.streams.literals import format_array, format_rows, format_value, physical_array
from penstock.streams.order import OrderColumn
from penstock.streams.schema import Stream

_STATE = "sequencer"


@dataclass(frozen=True)
class Lane:
    """A stream on its way into the order.

    ``column`` has its keys, None if nothing does; ``delay`` is how far they may be out of order, in
    units of the keys.
    """

    stream: Stream
    column: OrderColumn | None
    delay: int = 0


@dataclass(frozen=True)
class Refused:
    """A tuple that cannot be put in order. ``kind`` is late or dead."""

    kind: str
    stream: str
    text: str
    reason: str


@dataclass(frozen=True)
class Taken:
    """What a trigger adds to the sequence, and what it cannot add."""

    events: tuple[Tuples | Merged, ...]
    refused: tuple[Refused, ...] = ()
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
    """All tuples of a lane. Batches that are in order by themselves come out so as a whole."""
    filled = [batch for batch in batches if batch.num_rows]
    if lane.column is not None and len(filled) > 1:
        firsts = [keys_of(batch.slice(0, 1), lane.column)[0][0] for batch in filled]
        filled = [filled[i] for i in np.argsort(firsts, kind="stable")]
    return concat(filled) if filled else no_rows(lane.stream.schema)


class ArrivalOrder:
    """Takes every tuple in the trigger that brings it. Remembers nothing."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes

    def take(self, batches: Sequence[list[pa.RecordBatch]], at: int, last: bool) -> Taken:
        """One list of batches per lane; ``at`` is the time of the trigger in milliseconds."""
        parts = []
        for lane, given in zip(self._lanes, batches, strict=True):
            batch = joined(given, lane)
            keys, _ = keys_of(batch, lane.column)
            parts.append((batch, keys))
        return Taken(_events(self._lanes, parts))

    def save(self, store: StateStore) -> None:
        pass

    def load(self, texts: Mapping[str, str], chunks: Mapping[str, bytes]) -> None:
        pass


@dataclass
class _Progress:
    """How far a stream has come: its highest key, and when it last brought a tuple."""

    highest: Any = None
    seen: int | None = None


@dataclass
class KeyOrder:
    """Holds tuples until the punctuations of all streams have passed them.

    A stream that has brought nothing for ``idle`` milliseconds, as the triggers tell the time,
    holds the others up no longer; what it then brings behind the frontier is late.
    """

    lanes: Sequence[Lane]
    idle: int | None = None
    frontier: Any = None
    _saved: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._progress = [_Progress() for _ in self.lanes]
        self._held = [Held(str(i)) for i in range(len(self.lanes))]

    def take(self, batches: Sequence[list[pa.RecordBatch]], at: int, last: bool) -> Taken:
        """As :meth:`ArrivalOrder.take`; ``last`` lets everything go that is held."""
        refused: list[Refused] = []
        fresh: list[Part] = []
        for i, (lane, given) in enumerate(zip(self.lanes, batches, strict=True)):
            batch = joined(given, lane)
            fresh.append(self._admit(i, lane, batch, at, refused))
        self._advance(at)
        if not last and self.frontier is None:
            for held, part in zip(self._held, fresh, strict=True):
                held.add(*part)
            return Taken((), tuple(refused), sum(map(len, self._held)))
        parts = []
        for held, (batch, keys) in zip(self._held, fresh, strict=True):
            released = held.release(None if last else self.frontier)
            passed, rest = ((batch, keys), None) if last else _cut(batch, keys, self.frontier)
            if rest is not None:
                held.add(*rest)
            parts.append(join([*released, passed]))
        return Taken(_events(self.lanes, parts), tuple(refused), sum(map(len, self._held)))

    def _admit(
        self, i: int, lane: Lane, batch: pa.RecordBatch, at: int, refused: list[Refused]
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
        """What a tuple must not be below: its own stream's punctuation, and what has been taken."""
        bounds = [] if progress.highest is None else [progress.highest - lane.delay]
        if self.frontier is not None:
            bounds.append(self.frontier)
        return max(bounds, default=None)

    def _advance(self, at: int) -> None:
        """Move the frontier to the smallest punctuation of those who may hold the others up."""
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
        """Write what has changed since the last time."""
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
        """Bring a new one to what was saved."""
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
    kind: str, lane: Lane, batch: pa.RecordBatch, reasons: list[str], refused: list[Refused]
) -> None:
    """Note tuples as refused, in an order that does not depend on how they came."""
    found = sorted(zip(format_rows(batch), reasons, strict=True))
    refused.extend(Refused(kind, lane.stream.name, text, why) for text, why in found)


def _shown(key: Any, column: OrderColumn) -> str:
    """A key as a literal of the column's type."""
    value: Any = column.punctuation(key).value
    return format_value(value, column.type)
