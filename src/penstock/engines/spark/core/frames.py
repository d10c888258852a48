"""Frames: events and instructions as rows of a fixed schema, up to 65,536 tuples in each.

A frame is what crosses between Python and the JVM, and what the log holds. Its payload is Arrow
IPC, so a tuple costs no object on the way. Partial results cross as bytes.

Large payloads are cut into rows of a few kilobytes. Spark hands rows to Python in batches, and can
end a batch by its number of rows or by its number of bytes; for the bytes it measures the batch
after every row, which takes as long as writing the row. With small rows, a limit on their number is
enough.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.state import physical, plain
from penstock.engines.shared.input_slices import Event, InputSlice
from penstock.engines.spark.state.column_chunks import packed_columns, unpacked_columns
from penstock.program.isa.encoding import instruction_from_json, to_json
from penstock.program.isa.instructions import (
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
INSTRUCTION = "instruction"
"""The kind of a frame whose header is an encoded instruction."""
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


def pack(pieces: Iterable[InputSlice], position: int) -> Iterator[Frame]:
    """Frames of the events of slices, the first at ``position``."""
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


def ipc_buffer(batch: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return sink.getvalue()


def ipc(batch: pa.RecordBatch | pa.Table) -> bytes:
    """A batch as an Arrow stream, as bytes."""
    return ipc_buffer(batch).to_pybytes()


def from_ipc(data: bytes | memoryview | pa.Buffer) -> pa.Table:
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
    if isinstance(event, CreateStream | Derive | Install | Change | Drop | Reset):
        return INSTRUCTION, to_json(event), b""
    if isinstance(event, Punctuation):
        return "punctuation", json.dumps([event.stream, plain(event.value), event.attribute]), b""
    kind = type(event).__name__.lower()
    return kind, json.dumps(list(vars(event).values())), b""


_PLAIN: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in (Malformed, End)}


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
    if frame.kind == INSTRUCTION:
        return instruction_from_json(frame.header)
    header = json.loads(frame.header)
    if frame.kind == "punctuation":
        return Punctuation(header[0], physical(header[1]), header[2])
    event: Event = _PLAIN[frame.kind](*header)
    return event


_CELL = "cell."


def pack_partial(part: PartialBatch) -> bytes:
    """The partial results as bytes: arrays, and an Arrow stream of the keys of the groups."""
    known = part.highest is not None
    columns = {
        "numbers": np.array([part.tuples, part.dead, known, part.highest or 0], np.int64),
        "seen": part.seen,
        "counts": part.counts,
        "panes": part.panes,
        "groups": part.groups,
        **{f"{_CELL}{name}": column for name, column in part.cells.items()},
    }
    if part.keys is not None:
        columns["keys"] = np.frombuffer(ipc(part.keys), np.uint8)
    return packed_columns(columns)


def unpack_partial(data: bytes | memoryview) -> PartialBatch:
    """Restore partial results from :func:`pack_partial`."""
    columns = unpacked_columns(data)
    tuples, dead, known, highest = columns["numbers"].tolist()
    keys = columns.get("keys")
    return PartialBatch(
        tuples=tuples,
        dead=dead,
        highest=highest if known else None,
        seen=columns["seen"],
        counts=columns["counts"],
        panes=columns["panes"],
        groups=columns["groups"],
        keys=None if keys is None else one_batch(from_ipc(keys.data)),
        cells={k[len(_CELL) :]: c for k, c in columns.items() if k.startswith(_CELL)},
    )


def tie_column(ties: npt.NDArray[Any]) -> Any:
    r"""What orders the rows of one position (:class:`penstock.blocks.run.Run`), as a column.

    >>> ties_in(tie_column(np.array([b"a", b"a\0b", b""], "S"))).tolist()
    [b'a', b'a\x00b', b'']
    """
    if ties.dtype.kind != "S":
        return pa.array(ties)
    # The whole width of each: Arrow would cut bytes at a zero.
    places = np.arange(len(ties) + 1, dtype=np.int32) * ties.dtype.itemsize
    parts = [None, pa.py_buffer(places.tobytes()), pa.py_buffer(ties.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(ties), parts)


def ties_in(column: Any) -> npt.NDArray[Any]:
    """What :func:`tie_column` has made a column of; bytes may be of columns of several widths."""
    if not pa.types.is_binary(column.type):
        return np.asarray(column, np.int64)
    return np.array(column.to_pylist(), "S")


PIECE = 4096
"""The largest number of bytes in a row, after its place."""
_PLACE = struct.Struct("<16sII")
"""The place of a piece, before it: the id of the whole, its index, and the number of pieces."""

T = TypeVar("T")


def cut(data: bytes | memoryview) -> Iterator[bytes]:
    """Cut bytes into rows of a few kilobytes, at least one."""
    name = uuid.uuid4().bytes
    count = max(1, -(-len(data) // PIECE))
    view = memoryview(data)
    for number in range(count):
        part = view[number * PIECE : (number + 1) * PIECE]
        yield b"".join((_PLACE.pack(name, number, count), part))


def joined(
    pieces: Iterable[tuple[T, bytes | memoryview]],
) -> Iterator[tuple[T, bytes | memoryview]]:
    """Join the rows of :func:`cut`; each result has the tag of its first row.

    The pieces come in any order.

    >>> [first, second], [whole] = cut(bytes(PIECE) + b"end"), cut(b"one")
    >>> found = joined([(2, second), (3, whole), (1, first)])
    >>> [(along, bytes(data[-3:])) for along, data in found]
    [(3, b'one'), (1, b'end')]
    """
    waiting: dict[bytes, dict[int, tuple[T, memoryview]]] = {}
    for along, piece in pieces:
        view = memoryview(piece)
        name, number, count = _PLACE.unpack_from(view)
        rest = view[_PLACE.size :]
        if count == 1:
            yield along, rest
            continue
        found = waiting.setdefault(name, {})
        found[number] = (along, rest)
        if len(found) == count:
            yield found[0][0], b"".join(found[one][1] for one in range(count))
            del waiting[name]
    assert not waiting, f"{len(waiting)} frames have come without some of their pieces"
