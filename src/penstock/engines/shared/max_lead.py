"""MAX LEAD: a tuple too far ahead of its stream is a dead letter.

In a stream with a ``MAX LEAD``, a tuple's time may be that far ahead of the *furthest*: the largest
time of the stream so far, or its largest punctuation if that is larger. A tuple that is further
ahead becomes a dead letter and does not move the furthest; the first tuple, and one without a time,
always pass. The decision is made once for all queries, where the input is taken, so it depends on
the order of arrival alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engines.shared.input_slices import Event, InputSlice, cut
from penstock.kernels.expressions.vector import vector_of
from penstock.streams.batches import plain
from penstock.streams.by_name import StreamsByName
from penstock.streams.events import Malformed, Merged, Punctuation, Tuples
from penstock.streams.lead import lead_units
from penstock.streams.literals import format_array, format_rows, format_value
from penstock.streams.schema import Stream

Furthest = dict[str, int | float]
"""The furthest of each stream, by name in lower case, in units of its time attribute."""

_LAST = int(np.iinfo(np.int64).max)


def within_lead(
    piece: InputSlice, streams: StreamsByName, furthest: Furthest
) -> tuple[InputSlice, Furthest]:
    """The slice with dead letters for tuples that are too far ahead, and the furthest after it.

    The arguments stay as they are, so a slice that was not taken can be judged again. To judge a
    result again changes nothing.
    """
    named = {name for event in piece.events for name in _streams(event)}
    leading = [s for s in map(streams.get, named) if s is not None and s.max_lead is not None]
    if not leading:
        return piece, furthest
    judges = {stream.name.lower(): _Judge(stream) for stream in leading}
    furthest = dict(furthest)
    events: list[Event] = []
    for event in piece.events:
        events.extend(_judged(event, judges, furthest))
    tuples = sum(len(event) for event in events if isinstance(event, Tuples | Merged))
    return InputSlice(events, piece.instruction, tuples), furthest


def _streams(event: Event) -> Iterable[str]:
    return event.streams if isinstance(event, Merged) else (event.stream,)


def _judged(event: Event, judges: dict[str, _Judge], furthest: Furthest) -> Iterable[Event]:
    if isinstance(event, Punctuation) and event.stream.lower() in judges:
        judges[event.stream.lower()].punctuated(event, furthest)
    if not isinstance(event, Tuples | Merged):
        return [event]
    dead: dict[int, Malformed] = {}
    streams = event.streams if isinstance(event, Merged) else (event.stream,)
    batches = event.batches if isinstance(event, Merged) else (event.batch,)
    for number, (name, batch) in enumerate(zip(streams, batches, strict=True)):
        judge = judges.get(name.lower())
        if judge is None:
            continue
        letters = judge.beyond(batch, furthest)
        if letters and isinstance(event, Merged):
            arrivals = np.flatnonzero(event.which == number)
            letters = {int(arrivals[row]): letter for row, letter in letters.items()}
        dead |= letters
    return _cut_at(event, dead) if dead else [event]


def _cut_at(event: Tuples | Merged, dead: dict[int, Malformed]) -> Iterable[Event]:
    """The event with letters in place of some of its tuples."""
    start = 0
    for row in sorted(dead):
        if row > start:
            yield cut(event, start, row)
        yield dead[row]
        start = row + 1
    if start < len(event):
        yield cut(event, start, len(event))


class _Judge:
    """Decides which tuples of one stream are too far ahead."""

    def __init__(self, stream: Stream) -> None:
        assert stream.time is not None and stream.max_lead is not None
        self.stream = stream
        self.column = stream.index_of(stream.time) or 0
        self.kind: Any = stream.schema.field(self.column).type
        self.lead = lead_units(stream.max_lead, self.kind)

    def punctuated(self, event: Punctuation, furthest: Furthest) -> None:
        """Move the furthest to a punctuation of the time attribute."""
        named = event.attribute or self.stream.time
        assert named is not None and self.stream.time is not None
        if named.lower() != self.stream.time.lower():
            return
        value: Any = event.value
        if not pa.types.is_floating(self.kind) and not (
            isinstance(value, float) and math.isinf(value)
        ):
            scale = 10**self.kind.scale if pa.types.is_decimal(self.kind) else 1
            value = math.floor(Fraction(value) * scale)
        self._move(value, furthest)

    def _move(self, value: int | float, furthest: Furthest) -> None:
        name = self.stream.name.lower()
        if value != -math.inf:
            furthest[name] = max(value, furthest.get(name, value))

    def beyond(self, batch: pa.RecordBatch, furthest: Furthest) -> dict[int, Malformed]:
        """Letters for the rows that are too far ahead; the others move the furthest on."""
        vector = vector_of(batch.column(self.column))
        floating = pa.types.is_floating(self.kind)
        times = np.asarray(vector.values).astype(np.float64 if floating else np.int64)
        usable = np.ones(len(times), np.bool_) if vector.valid is None else vector.valid
        if floating:
            usable = usable & np.isfinite(times)
        rows = np.flatnonzero(usable)
        if not len(rows):
            return {}
        times = times[rows]
        known = furthest.get(self.stream.name.lower(), times[0].item())
        if not self._some_beyond(times, known):
            self._move(max(known, times.max().item()), furthest)
            return {}
        letters: dict[int, Malformed] = {}
        for row, time in zip(rows.tolist(), times.tolist(), strict=True):
            if time > known + self.lead:
                letters[row] = self._letter(batch, row, known)
            elif time > known:
                known = time
        self._move(known, furthest)
        return letters

    def _some_beyond(self, times: npt.NDArray[Any], known: int | float) -> bool:
        """Whether any tuple is too far ahead of those before it."""
        if known == math.inf:
            return False
        before = np.maximum.accumulate(np.concatenate((np.array([known], times.dtype), times)))
        limits = before[:-1] + self.lead if times.dtype.kind == "f" else self._limits(before[:-1])
        return bool((times > limits).any())

    def _limits(self, before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        lead = min(int(self.lead), _LAST)
        return np.where(before > _LAST - lead, _LAST, np.minimum(before, _LAST - lead) + lead)

    def _letter(self, batch: pa.RecordBatch, row: int, known: int | float) -> Malformed:
        whole = plain(batch.slice(row, 1))
        time = format_array(whole.column(self.column))[0]
        shown: Any = known
        if pa.types.is_decimal(self.kind):
            shown = Decimal(known).scaleb(-self.kind.scale)
        reason = (
            f"{self.stream.time} = {time} is more than {self.stream.lead_clause} ahead of "
            f"{format_value(shown, self.kind)}"
        )
        return Malformed(self.stream.name, format_rows(whole)[0], reason)
