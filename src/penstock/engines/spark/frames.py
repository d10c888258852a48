"""Frames: events and instructions as rows of a fixed schema, up to 65,536 tuples in each.

A frame is what crosses between Python and the JVM, and what the log holds. Its payload is Arrow
IPC, so a tuple costs no object on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.state import physical, plain
from penstock.engines.shared.pieces import Event, Piece
from penstock.engines.shared.saved import load_choice, load_stream, save_choice, save_stream
from penstock.program.instructions import (
    Change,
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
    Reset,
)
from penstock.streams.batches import no_rows
from penstock.streams.events import End, Malformed, Merged, Punctuation, Tuples

MOST_TUPLES = 65_536
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("first", pa.int64()),
    ("count", pa.int64()),
    ("kind", pa.string()),
    ("header", pa.string()),
    ("payload", pa.binary()),
]
SCHEMA = pa.schema(_COLUMNS)
SPARK_SCHEMA = "first long, count long, kind string, header string, payload binary"


@dataclass(frozen=True)
class Frame:
    """Events that take the positions ``first .. first + count - 1``."""

    first: int
    count: int
    kind: str
    header: str
    payload: bytes = b""


def pack(pieces: Iterable[Piece], position: int) -> Iterator[Frame]:
    """Frames of the pieces' events, the first at ``position``."""
    for piece in pieces:
        events: list[Event | Instruction] = [*piece.events]
        for event in events if piece.instruction is None else [piece.instruction]:
            count = len(event) if isinstance(event, Tuples | Merged) else 1
            if count:
                yield Frame(position, count, *_encode(event))
                position += count


def to_batch(frames: list[Frame]) -> pa.RecordBatch:
    """Frames as rows."""
    columns: list[list[Any]] = [[getattr(f, name) for f in frames] for name in SCHEMA.names]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def ipc(batch: pa.RecordBatch | pa.Table) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return sink.getvalue().to_pybytes()


def from_ipc(data: bytes | memoryview) -> pa.Table:
    """The table of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table that was written as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else no_rows(table.schema)


def _encode(event: Event | Instruction) -> tuple[str, str, bytes]:
    if isinstance(event, Tuples):
        return "tuples", event.stream, ipc(event.batch)
    if isinstance(event, Merged):
        parts = [ipc(batch) for batch in event.batches]
        header = {"streams": event.streams, "sizes": [len(part) for part in parts]}
        which = event.which.astype(np.int8).tobytes()
        return "merged", json.dumps(header), b"".join((*parts, which))
    if isinstance(event, CreateStream):
        return "create", json.dumps(save_stream(event.stream)), b""
    if isinstance(event, Punctuation):
        return "punctuation", json.dumps([event.stream, plain(event.value), event.attribute]), b""
    if isinstance(event, Install):
        said = [event.query, event.text, event.order, event.kernel, save_choice(event.flow)]
        return "install", json.dumps(said), b""
    kind = type(event).__name__.lower()
    return kind, json.dumps(list(vars(event).values())), b""


_PLAIN: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Malformed, End, Derive, Change, Drop, Reset)
}


def unpack(frame: Frame) -> Event | Instruction:
    """The event of a frame."""
    if frame.kind == "tuples":
        return Tuples(frame.header, one_batch(from_ipc(frame.payload)))
    if frame.kind == "merged":
        header, batches, start = json.loads(frame.header), [], 0
        for size in header["sizes"]:
            batches.append(one_batch(from_ipc(memoryview(frame.payload)[start : start + size])))
            start += size
        which = np.frombuffer(frame.payload, np.int8, offset=start)
        return Merged(tuple(header["streams"]), tuple(batches), which)
    header = json.loads(frame.header)
    if frame.kind == "create":
        return CreateStream(load_stream(header))
    if frame.kind == "punctuation":
        return Punctuation(header[0], physical(header[1]), header[2])
    if frame.kind == "install":
        query, text, order, kernel, *flow = header
        return Install(query, text, order, kernel, load_choice(flow[0] if flow else None))
    event: Event | Instruction = _PLAIN[frame.kind](*header)
    return event
