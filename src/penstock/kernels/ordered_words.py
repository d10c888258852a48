"""Comparison keys for strings, binaries and wide decimals: integers that order as the values do.

A key is the place of its value among all values that somebody holds a key of. A value that comes
between others moves keys; those who hold some are told. Values that nobody holds are forgotten.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.buckets import gathered
from penstock.kernels.memory import alias
from penstock.kernels.vector import Vector

Array = npt.NDArray[Any]


class Holder(Protocol):
    """Somebody who holds keys."""

    def held(self) -> Array:
        """The keys it holds; some perhaps twice."""

    def moved(self, mapping: Array) -> None:
        """A key ``k`` is now ``mapping[k]``."""


class OrderedWords:
    """The values that keys stand for. Strings order by code point, which is that of their bytes.

    >>> words = OrderedWords(pa.string())
    >>> words.encode(Vector(pa.array(["b", None, "a", "b"]), None, pa.string())).tolist()
    [1, -1, 0, 1]
    >>> words.values(np.array([0, 1])).to_pylist()
    ['a', 'b']
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._words: Any = pa.array([], kind)
        self.holders: WeakSet[Any] = WeakSet()
        """Those to tell when keys move, each a :class:`Holder`."""

    def __len__(self) -> int:
        return len(self._words)

    @property
    def nbytes(self) -> int:
        return int(self._words.nbytes)

    def encode(self, vector: Vector) -> npt.NDArray[np.int64]:
        """The key of each value; -1 for NULL. Keys that holders have may move."""
        text = isinstance(vector.values, pa.Array)
        array: Any = vector.values if text else vector.to_arrow()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        words = array.dictionary
        if len(words) > len(array):
            array = array.dictionary_decode().dictionary_encode()
            words = array.dictionary
        keys = self._find(words)
        new = words.filter(pa.array(keys < 0)).drop_null()
        if len(new):
            self._enter(new.unique(), keys[keys >= 0])
            keys = self._find(words)
        indices = array.indices.cast(pa.int32())
        if indices.null_count:
            indices = indices.fill_null(len(words))
        known = np.append(keys, -1)
        return gathered(known, alias(np.asarray(indices)))

    def _find(self, words: Any) -> npt.NDArray[np.int64]:
        found: Any = pc.index_in(words, value_set=self._words, skip_nulls=True)
        return np.asarray(found.cast(pa.int64()).fill_null(-1))

    def _enter(self, new: Any, met: Array) -> None:
        """Have new values, and those that are held or were met."""
        held = np.zeros(len(self._words), np.bool_)
        held[met] = True
        for holder in self.holders:
            held[holder.held()] = True
        kept = np.flatnonzero(held)
        mapping = np.full(len(held), -1, np.int64)
        both = pa.concat_arrays([self._words.take(pa.array(kept)), new])
        order = np.asarray(pc.sort_indices(both))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        mapping[kept] = places[: len(kept)]
        self._words = both.take(pa.array(order))
        for holder in self.holders:
            holder.moved(mapping)

    def values(self, keys: Array) -> Any:
        """The values that have these keys, NULL for -1."""
        return self._words.take(pa.array(keys, mask=keys < 0))
