"""Cutting the input into pieces that are processed at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InputError
from penstock.program.instructions import Instruction
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples
from penstock.streams.schema import Stream, describe, is_text

Event = Tuples | Merged | Malformed | Punctuation | End


@dataclass
class Piece:
    """Events without an instruction among them, or one instruction alone."""

    events: list[Event] = field(default_factory=list)
    instruction: Instruction | None = None
    tuples: int = 0

    @property
    def records(self) -> int:
        """The tuples, and what should have been tuples."""
        return self.tuples + sum(isinstance(event, Malformed) for event in self.events)


def pieces(events: Iterable[Event | Instruction], most: int) -> Iterator[Piece]:
    """Cut at instructions, and where a piece would have more than ``most`` tuples."""
    piece = Piece()
    for event in events:
        if not isinstance(event, Event):
            if piece.events:
                yield piece
            yield Piece(instruction=event)
            piece = Piece()
            continue
        for part in _parts(event, most, most - piece.tuples):
            size = len(part) if isinstance(part, Tuples | Merged) else 0
            if piece.tuples and piece.tuples + size > most:
                yield piece
                piece = Piece()
            piece.events.append(part)
            piece.tuples += size
    if piece.events:
        yield piece


def _parts(event: Event, most: int, first: int) -> Iterator[Event]:
    """The event in parts of at most ``most`` tuples; the first may have ``first``."""
    if not isinstance(event, Tuples | Merged) or len(event) <= first:
        yield event
        return
    start, stop = 0, first if first > 0 else most
    while start < len(event):
        yield cut(event, start, min(stop, len(event)))
        start, stop = stop, stop + most


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
    if batch.schema.names != stream.schema.names:
        return False
    for column, wanted in zip(batch.columns, stream.schema.types, strict=True):
        kind: Any = column.type
        encoded = pa.types.is_dictionary(kind) and is_text(wanted)
        if not (kind.value_type if encoded else kind).equals(wanted):
            return False
    return True


def check_event(stream: Stream, event: Event) -> None:
    """Refuse an event that does not fit its stream; ``push`` and ``punctuate`` make none such."""
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
