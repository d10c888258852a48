"""Dense numbers for the values of one key column, in the order in which they are first seen.

Equal values have equal numbers: NaN is NaN, -0.0 is 0.0, and NULL is a value of its own.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Protocol

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.buckets import gathered
from penstock.kernels.int_table import IntTable
from penstock.kernels.keys import comparison_key, float_values, unsigned_values
from penstock.kernels.memory import alias
from penstock.kernels.vector import Vector, is_text, physical_dtype

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int32]

_ENTRY = 150
"""About how many bytes Python takes for a short string, a number and their place in a dict."""


@nb.njit(nogil=True, cache=True)
def _unmet(places: Array, known: Array, out: Array) -> int:
    """The places that are not known yet, as they come, each once; how many there are."""
    count = 0
    for i in range(places.shape[0]):
        if known[places[i]] == -1:
            known[places[i]] = -2
            out[count] = places[i]
            count += 1
    return count


class KeyColumn(Protocol):
    """A key column of a table of groups."""

    def __len__(self) -> int:
        """How many values it has numbers for."""

    @property
    def nbytes(self) -> int: ...

    def numbers(self, vector: Vector) -> Numbers:
        """The number of each value; new values are entered."""

    def values(self, numbers: Array) -> pa.Array[Any]:
        """The values that have these numbers."""

    def ranks(self) -> Array:
        """For each number, a number that is larger if the value is: NULL is first, NaN is last."""


def key_column(kind: pa.DataType) -> KeyColumn:
    """A key column of values of a type; of a dictionary, its values' type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind) or physical_dtype(kind).kind == "O":
        return WordKeys(kind)
    return NumberKeys(kind)


class NumberKeys:
    """Values that fit 64 bits: numbers, bools, dates, timestamps, decimals of up to 18 digits."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._table = IntTable()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    def numbers(self, vector: Vector) -> Numbers:
        return self._table.numbers(comparison_key(vector), vector.valid)

    def values(self, numbers: Array) -> pa.Array[Any]:
        valid = None if self._table.null < 0 else np.asarray(numbers != self._table.null)
        keys = self._table.keys()[numbers]
        found: pa.Array[Any] = Vector(self._physical(keys), valid, self._type).to_arrow()
        return found

    def _physical(self, keys: Array) -> Array:
        dtype = physical_dtype(self._type)
        if dtype.kind == "f":
            return float_values(keys.astype(f"i{dtype.itemsize}"), dtype)
        return unsigned_values(keys) if dtype == np.uint64 else keys.astype(dtype)

    def ranks(self) -> Array:
        keys = self._table.keys()
        ranks = np.empty(len(keys), np.int64)
        ranks[np.argsort(keys)] = np.arange(len(keys))
        if self._table.null >= 0:
            ranks[self._table.null] = -1
        return ranks


class WordKeys:
    """Values of any length: strings, binaries, decimals of more than 18 digits."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._numbers: dict[Any, int] = {}
        self._words: pa.Array[Any] = pa.array([], kind)
        """The values by number, as far as somebody has asked for them."""
        self._bytes = 0
        self._latest: tuple[pa.Array[Any], Array] | None = None
        """A dictionary of Arrow's, and the numbers of its values and of NULL; -1 if not met yet."""

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return self._bytes

    def numbers(self, vector: Vector) -> Numbers:
        text = isinstance(vector.values, pa.Array)
        array: Any = vector.values if text else vector.to_arrow()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        known = self._known(array.dictionary)
        indices = array.indices.cast(pa.int32())
        if indices.null_count:
            indices = indices.fill_null(len(array.dictionary))
        places = alias(np.asarray(indices))
        found = gathered(known, places)
        if len(found) and found.min() < 0:
            missing = np.empty(len(known), np.int32)
            missing = missing[: _unmet(places, known, missing)]
            absent = pa.array(missing, mask=missing == len(known) - 1)
            words = array.dictionary.take(absent).to_pylist()
            known[missing] = [self._number(word) for word in words]
            found = gathered(known, places)
        return found

    def _known(self, dictionary: pa.Array[Any]) -> Array:
        if self._latest is not None and _same(dictionary, self._latest[0]):
            return self._latest[1]
        known = np.full(len(dictionary) + 1, -1, np.int32)
        self._latest = dictionary, known
        return known

    def _number(self, word: Any) -> int:
        found = self._numbers.get(word)
        if found is None:
            found = self._numbers[word] = len(self._numbers)
            self._bytes += _ENTRY + (len(word) if isinstance(word, str | bytes) else 0)
        return found

    def _all(self) -> pa.Array[Any]:
        known = len(self._words)
        if known < len(self._numbers):
            more = pa.array(list(islice(self._numbers, known, None)), self._type)
            self._words = pa.concat_arrays([self._words, more])
        return self._words

    def values(self, numbers: Array) -> pa.Array[Any]:
        indices: Any = pa.array(numbers)
        return self._all().take(indices)

    def ranks(self) -> Array:
        words = self._all()
        ranks = np.empty(len(words), np.int64)
        ranks[np.asarray(pc.sort_indices(words))] = np.arange(len(words))
        null = self._numbers.get(None)
        if null is not None:
            ranks[null] = -1
        return ranks


def _same(one: pa.Array[Any], other: pa.Array[Any]) -> bool:
    """Whether two arrays have the same values in the same places.

    If they are the same memory, that takes no time; the second is still there, so nobody reused it.
    Else it takes far less than to look the values up: a dictionary often comes again as a copy.
    """

    def memory(array: pa.Array[Any]) -> tuple[object, ...]:
        addresses = [buffer and (buffer.address, buffer.size) for buffer in array.buffers()]
        return len(array), array.offset, array.type, *addresses

    return memory(one) == memory(other) or one.equals(other)
