"""Partial results on their way from the partitions of the input to the cores, as bytes.

They travel in pieces. Spark hands rows to Python in batches, and can end a batch by the number of
its rows or by the number of its bytes; to know the bytes it measures the batch after every row,
which takes it as long as to write the row. A batch of so many small pieces as it may have rows is
never too large.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator

import numpy as np

from penstock.blocks.partial_batch import PartialBatch
from penstock.engines.spark.column_chunks import packed_columns, unpacked_columns
from penstock.engines.spark.frames import from_ipc, ipc, one_batch

_CELL = "cell."
PIECE = 4096
"""Bytes of partial results in a row, at most."""
_PLACE = struct.Struct("<16sII")
"""In front of a piece: what it is a piece of, which one, and of how many."""


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
    """What :func:`pack_partial` was given."""
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


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Some bytes in rows that are small, however many bytes there are."""
    name = uuid.uuid4().bytes
    count = max(1, -(-len(data) // PIECE))
    for number in range(count):
        part = data[number * PIECE : (number + 1) * PIECE]
        yield _PLACE.pack(name, number, count) + part


def joined_pieces(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """What :func:`pieces_of` was given, each once; the pieces come in any order.

    >>> [first, second] = pieces_of(bytes(PIECE) + b"end")
    >>> [data[-3:] for data in joined_pieces([second, *pieces_of(b"one"), first])]
    [b'one', b'end']
    """
    waiting: dict[bytes, dict[int, memoryview]] = {}
    for piece in pieces:
        view = memoryview(piece)
        name, number, count = _PLACE.unpack_from(view)
        found = waiting.setdefault(name, {})
        found[number] = view[_PLACE.size :]
        if len(found) == count:
            yield b"".join(found[one] for one in range(count))
            del waiting[name]
    assert not waiting, f"{len(waiting)} partial results have come without some of their pieces"
