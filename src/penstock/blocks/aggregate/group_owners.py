"""Groups that several blocks share: the owner of each, and the order of all rows.

A block that shares an aggregate has all tuples of its groups and takes no others; it sees how far
the stream has come as it would alone. What it cannot know is where the rows of others' groups stand
among its own: so every row has a code of bytes that order as its window and its keys do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Indices
from penstock.kernels.aggregate.key_hash import cores_of
from penstock.kernels.expressions.vector import is_text, physical_dtype, vector_of
from penstock.kernels.predicate.keys import comparison_key

_HASHES = 1 << 24
_SIGN_BIT = np.uint64(1 << 63)
_HALF = 1 << 127
Codes = npt.NDArray[Any]


def owners(keys: Sequence[Any], cores: int) -> Indices:
    """The core of each group, by its key columns; the same wherever and whenever it is asked.

    >>> words = pa.array(["a", None, "d"])
    >>> owners([words], 2).tolist(), owners([words.dictionary_encode()], 2).tolist()
    ([0, 0, 1], [0, 0, 1])
    """
    hashes = np.zeros(len(keys[0]), np.int64)
    for column in keys:
        hashes = (hashes * 31 + _hashes(column)) % _HASHES
    return hashes % cores


def _hashes(column: Any) -> Indices:
    if pa.types.is_dictionary(column.type):
        words = np.append(_hashes(column.dictionary), 0)
        places = column.indices.cast(pa.int64()).fill_null(len(words) - 1)
        found: Indices = words[places.to_numpy(zero_copy_only=False)]
        return found
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return np.asarray(cores_of(vector_of(column), _HASHES), np.int64)


def row_codes(windows: Indices, keys: Sequence[Any]) -> Codes:
    """A code of each row, which orders as its window and its keys: NULL first, NaN last.

    >>> codes = row_codes(np.array([0, 0, -1]), [pa.array(["b", "a", None])])
    >>> np.argsort(codes).tolist()
    [2, 1, 0]
    """
    octets: list[Codes] = [_number_codes(windows)]
    words: list[list[bytes]] = []
    for column in keys:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        octets.append(there.astype(np.uint8).reshape(-1, 1))
        if is_text(column.type) or physical_dtype(column.type).kind == "O":
            # A word is as long as it is, so what comes after it has no place of its own.
            words += [_rows(octets), _words(column)]
            octets = [np.empty((len(windows), 0), np.uint8)]
        else:
            codes = _number_codes(comparison_key(vector_of(column)).astype(np.int64))
            octets.append(np.where(there[:, None], codes, 0).astype(np.uint8))
    if not words:
        return _as_bytes(np.concatenate(octets, axis=1))
    joined = [b"".join(row) for row in zip(*words, _rows(octets), strict=True)]
    return np.array(joined, f"S{max(map(len, joined), default=1)}")


def _words(column: Any) -> list[bytes]:
    """Codes of words and of wide decimals, none of which begins with another one."""
    if is_text(column.type):
        return [_word(value) for value in column.to_pylist()]
    numbers: list[Any] = vector_of(column).values.tolist()
    return [(0 if n is None else n + _HALF).to_bytes(16, "big") for n in numbers]


def _word(value: str | bytes | None) -> bytes:
    """A word that ends before any longer one: zeros in it are followed by a one, its end is not."""
    octets = value.encode() if isinstance(value, str) else value or b""
    return octets.replace(b"\0", b"\0\1") + b"\0\0"


def _number_codes(numbers: Indices) -> Codes:
    flipped = np.asarray(numbers, np.int64).view(np.uint64) ^ _SIGN_BIT
    return flipped.astype(">u8").view(np.uint8).reshape(-1, 8)


def _rows(octets: list[Codes]) -> list[bytes]:
    """Each row of octets as bytes, zeros at its end included."""
    return [row.tobytes() for row in np.concatenate(octets, axis=1)]


def _as_bytes(octets: npt.NDArray[np.uint8]) -> Codes:
    """Each row of octets as one value; bytes compare from the first on."""
    rows, width = octets.shape
    return np.ascontiguousarray(octets).view(f"S{width}").reshape(rows)
