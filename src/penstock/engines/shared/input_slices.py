"""Input slices: the input cut into parts that are processed at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from penstock.errors import InputError
from penstock.program.isa.instructions import Instruction
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.schema import Stream, describe, is_text

Event = Tuples | Merged | Malformed | Punctuation | End
_EVENTS = get_args(Event)
_FED = (*_EVENTS, *get_args(Instruction))
_BATCHES = (Tuples, Merged)


@dataclass
class InputSlice:
    """Events without an instruction among them, or one instruction alone."""

    events: list[Event] = field(default_factory=list)
    instruction: Instruction | None = None
    tuples: int = 0

    @property
    def records(self) -> int:
        """The number of tuples and malformed records."""
        return self.tuples + sum(isinstance(event, Malformed) for event in self.events)

    @property
    def positions(self) -> int:
        """The number of positions that it takes."""
        others = sum(not isinstance(event, Tuples | Merged) for event in self.events)
        return self.tuples + others + (self.instruction is not None)


def slices(events: Iterable[Event | Instruction], most: int) -> Iterator[InputSlice]:
    """Cut the input at instructions, and where a slice would have more than ``most`` tuples."""
    if not isinstance(events, Iterable):
        raise InputError(
            f"feed takes events and instructions, not {type(events).__name__}", "Give a list."
        )
    piece = InputSlice()
    for event in events:
        if not isinstance(event, _FED):
            raise InputError(
                f"{type(event).__name__} is neither an event nor an instruction",
                "Feed events of penstock.streams.events, or use push(), which makes them.",
            )
        if not isinstance(event, _EVENTS):
            if piece.events:
                yield piece
            yield InputSlice(instruction=event)
            piece = InputSlice()
            continue
        for part in _parts(event, most, most - piece.tuples):
            size = len(part) if isinstance(part, _BATCHES) else 0
            if piece.tuples and piece.tuples + size > most:
                yield piece
                piece = InputSlice()
            piece.events.append(part)
            piece.tuples += size
    if piece.events:
        yield piece


def _parts(event: Event, most: int, first: int) -> Iterator[Event]:
    """An event in parts of at most ``most`` tuples, the first of at most ``first``."""
    if not isinstance(event, _BATCHES) or len(event) <= first:
        yield event
        return
    start, stop = 0, first if first > 0 else most
    while start < len(event):
        yield cut(event, start, min(stop, len(event)))
        start, stop = stop, stop + most


def streams_of(event: Event) -> tuple[str, ...]:
    """The streams of an event."""
    return tuple(event.streams) if isinstance(event, Merged) else (event.stream,)


def cut(event: Tuples | Merged, start: int, stop: int) -> Event:
    """The tuples ``start .. stop - 1`` of an event."""
    if isinstance(event, Tuples):
        return Tuples(event.stream, event.batch.slice(start, stop - start))
    before, which = event.which[:start], event.which[start:stop]
    batches = tuple(
        batch.slice(int(np.count_nonzero(before == i)), int(np.count_nonzero(which == i)))
        for i, batch in enumerate(event.batches)
    )
    return Merged(event.streams, batches, which)


def _fits(batch: pa.RecordBatch, stream: Stream) -> bool:
    """Whether a batch has the stream's columns; strings and binaries may be dictionary-encoded."""
    if batch.schema.equals(stream.schema):
        return True
    if batch.schema.names != stream.schema.names:
        return False
    for column, wanted in zip(batch.columns, stream.schema.types, strict=True):
        kind: Any = column.type
        encoded = pa.types.is_dictionary(kind) and is_text(wanted)
        if not (kind.value_type if encoded else kind).equals(wanted):
            return False
    return True


def check_event(stream: Stream, event: Event) -> None:
    """Refuse an event that does not fit its stream; ``push`` and ``punctuate`` make none."""
    batches: tuple[pa.RecordBatch, ...] = ()
    if isinstance(event, Tuples):
        batches = (event.batch,)
    elif isinstance(event, Merged):
        places = enumerate(event.streams)
        batches = tuple(event.batches[i] for i, n in places if n.lower() == stream.name.lower())
    for batch in batches:
        if not _fits(batch, stream):
            raise InputError(
                f"a batch has the columns {describe(batch.schema)}, "
                f"but stream {stream.name} has {describe(stream.schema)}",
                "Use push(), which converts, or make the batch with the stream's schema.",
            )
    if isinstance(event, Punctuation) and (
        isinstance(event.value, bool) or not isinstance(event.value, int | float | Decimal)
    ):
        raise InputError(
            f"the punctuation {event.value!r} of stream {stream.name} is no physical value",
            "Use punctuate(), which converts, or give a number.",
        )
