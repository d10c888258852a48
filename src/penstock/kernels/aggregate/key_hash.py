"""The hash that assigns keys to cores.

It is the same in every process and on every machine, because the tasks of one query must agree, and
so must two runs of it that share a checkpoint.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.expressions.vector import Vector, is_text
from penstock.kernels.machine_code import njit
from penstock.kernels.predicate.keys import comparison_key

Array = npt.NDArray[Any]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def cores_of(keys: Vector, cores: int) -> Array:
    """The core of each key, from 0; NULL, which equals nothing, goes to the first.

    >>> import pyarrow as pa
    >>> from penstock.kernels.expressions.vector import vector_of
    >>> cores_of(vector_of(pa.array(["a", "d", None, "a"])), 2).tolist()
    [0, 1, 0, 0]
    """
    hashes = np.empty(len(keys), np.uint64)
    if is_text(keys.type):
        texts = keys.to_arrow()
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, np.int32) if offsets is not None else np.zeros(1, np.int32)
        octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        _hash_texts(starts, octets, texts.offset, hashes)
        valid = texts.is_valid().to_numpy(zero_copy_only=False) if texts.null_count else None
    else:
        hashes[:] = comparison_key(keys).astype(np.int64).view(np.uint64)
        valid = keys.valid
    hashes ^= hashes >> np.uint64(33)
    hashes *= _ODD
    hashes ^= hashes >> np.uint64(29)
    if valid is not None:
        hashes[~valid] = 0
    assigned: Array = (hashes % np.uint64(cores)).astype(np.int64)
    return assigned


@njit()
def _hash_texts(offsets: Array, octets: Array, first: int, out: Array) -> None:
    """The 64-bit hash of Fowler, Noll and Vo of each text."""
    for i in range(out.shape[0]):
        value = _BASIS
        for j in range(offsets[first + i], offsets[first + i + 1]):
            value = (value ^ np.uint64(octets[j])) * _PRIME
        out[i] = value
