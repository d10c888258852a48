"""Bytes on their way through Spark, cut into rows of a few kilobytes.

Spark hands rows to Python in batches, and can end a batch by the number of its rows or by the
number of its bytes; to know the bytes it measures the batch after every row, which takes it as long
as to write the row. A batch of so many small rows as it may have is never too large.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator
from typing import TypeVar

PIECE = 4096
"""Bytes in a row, at most, behind its place."""
_PLACE = struct.Struct("<16sII")
"""In front of a piece: what it is a piece of, which one, and of how many."""

T = TypeVar("T")


def cut(data: bytes | memoryview) -> Iterator[bytes]:
    """Some bytes in pieces, one at least."""
    name = uuid.uuid4().bytes
    count = max(1, -(-len(data) // PIECE))
    view = memoryview(data)
    for number in range(count):
        part = view[number * PIECE : (number + 1) * PIECE]
        yield b"".join((_PLACE.pack(name, number, count), part))


def joined(
    pieces: Iterable[tuple[T, bytes | memoryview]],
) -> Iterator[tuple[T, bytes | memoryview]]:
    """What :func:`cut` was given, each with what came along with its first piece.

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
