"""Dense numbers for groups: one for each combination of the values of key columns.

Every column numbers its own values, in the order in which they are first seen. The numbers of two
columns make one integer, which is numbered in turn; a third column makes a pair with that number,
and so on. Equal values have equal numbers: NaN equals NaN, -0.0 equals 0.0, and NULL is a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.addresses import alias
from penstock.kernels.aggregate.int_table import IntTable
from penstock.kernels.expressions.vector import Vector, is_text, physical_dtype, vector_of
from penstock.kernels.machine_code import njit
from penstock.kernels.predicate.keys import comparison_key, float_values, unsigned_values
from penstock.kernels.probe.buckets import gathered

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int32]


@njit()
def _pairs(left: Array, right: Array, out: Array) -> None:
    for i in range(left.shape[0]):
        out[i] = (np.int64(left[i]) << 32) | np.int64(right[i])


class Groups:
    """The groups of a ``GROUP BY``, numbered 0, 1, 2, … in the order they are first seen.

    ``types`` are those of the key columns; without any there is one group, number 0. A column may
    be dictionary-encoded; then a tuple costs no more than an integer key would.

    >>> from penstock.kernels.expressions.vector import vector_of
    >>> groups = Groups([pa.string(), pa.int64()])
    >>> columns = [vector_of(pa.array(["b", None, "b"])), vector_of(pa.array([1, 2, 1]))]
    >>> groups.numbers(columns, 3).tolist(), len(groups)
    ([0, 1, 0], 2)
    >>> [column.to_pylist() for column in groups.keys_of(np.array([1, 0]))]
    [[None, 'b'], [2, 1]]
    >>> groups.order(np.array([0, 1])).tolist()
    [1, 0]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self._ranks: Array | None = None
        """The rank of each group; None if there are new groups."""
        self._order: npt.NDArray[np.int64] | None = None
        self._forget()

    def _forget(self) -> None:
        self._columns: list[KeyColumn] = [key_column(kind) for kind in self._types]
        self._joined = [IntTable() for _ in self._columns[1:]]
        self._ranks = self._order = None

    def __len__(self) -> int:
        if self._joined:
            return len(self._joined[-1])
        return len(self._columns[0]) if self._columns else 1

    @property
    def nbytes(self) -> int:
        ranks = sum(kept.nbytes for kept in (self._ranks, self._order) if kept is not None)
        return ranks + sum(c.nbytes for c in self._columns) + sum(t.nbytes for t in self._joined)

    def numbers(self, columns: Sequence[Vector], length: int) -> Numbers:
        """The group of each of ``length`` tuples; new groups are added."""
        if not columns:
            return np.zeros(length, np.int32)
        before = len(self)
        found = self._columns[0].numbers(columns[0])
        for table, keys, vector in zip(self._joined, self._columns[1:], columns[1:], strict=True):
            pairs = np.empty(length, np.int64)
            _pairs(found, keys.numbers(vector), pairs)
            found = table.numbers(pairs)
        if len(self) > before:
            self._ranks = self._order = None
        return found

    def keys_of(self, numbers: Array) -> list[pa.Array[Any]]:
        """The key columns of these groups."""
        parts = self._parts(np.asarray(numbers))
        return [keys.values(part) for keys, part in zip(self._columns, parts, strict=True)]

    def _parts(self, numbers: Array) -> list[Array]:
        """For each column, the numbers of these groups' values."""
        parts: list[Array] = []
        for table in reversed(self._joined):
            pairs = table.keys()[numbers]
            parts.append(pairs & 0xFFFFFFFF)
            numbers = pairs >> 32
        return [numbers, *reversed(parts)] if self._columns else []

    def order(self, numbers: Array) -> npt.NDArray[np.int64]:
        """The permutation that puts these groups, each named once, in the order of their keys.

        Ascending by one key after another; NULL is first, NaN last, strings go by code point.
        """
        if len(numbers) < 2:
            return np.arange(len(numbers))
        if self._order is None and 2 * len(numbers) < len(self):
            return self._sorted(np.asarray(numbers))
        order = self.in_order()
        if self._ranks is None:
            self._ranks = np.empty(len(self), np.int64)
            self._ranks[order] = np.arange(len(self))
        ranks = self._ranks[numbers]
        if 8 * len(numbers) < len(self):
            return np.argsort(ranks)
        at = np.full(len(self), -1, np.int64)
        at[ranks] = np.arange(len(numbers))
        return at[at >= 0]

    def _sorted(self, numbers: Array) -> npt.NDArray[np.int64]:
        """As :meth:`order`, at a cost that depends on these groups only."""
        parts = self._parts(numbers)
        ranked = [k.ranks_of(part) for k, part in zip(self._columns, parts, strict=True)]
        return np.lexsort(ranked[::-1])

    def in_order(self) -> npt.NDArray[np.int64]:
        """All groups in the order of their keys; see :meth:`order`."""
        if self._order is None:
            parts = self._parts(np.arange(len(self)))
            ranked = [k.ranks()[part] for k, part in zip(self._columns, parts, strict=True)]
            self._order = np.lexsort(ranked[::-1]) if ranked else np.arange(len(self))
        return self._order

    def keep(self, numbers: Array) -> Numbers:
        """Drop all other groups; returns the new number for each old one, -1 if it is gone.

        The remaining groups keep their order.
        """
        kept = np.unique(np.asarray(numbers, np.int64))
        mapping = np.full(len(self), -1, np.int32)
        mapping[kept] = np.arange(len(kept))
        if self._columns:
            batch = self._batch(kept)
            self._forget()
            self.load(batch)
        return mapping

    def state(self) -> pa.RecordBatch:
        """The state that :meth:`load` restores: the keys of all groups, by number."""
        return self._batch(np.arange(len(self)))

    def _batch(self, numbers: Array) -> pa.RecordBatch:
        names = [f"k{place}" for place in range(len(self._columns))]
        return pa.RecordBatch.from_arrays(self.keys_of(numbers), names=names)

    def load(self, state: pa.RecordBatch) -> None:
        """Restore from :meth:`state`; there must be no groups yet."""
        self.numbers([vector_of(column) for column in state.columns], state.num_rows)


# -- key columns -------------------------------------------------------------------------

_ENTRY = 150
"""About the bytes that Python takes for a short string, a number and a dict entry."""


@njit()
def _unknown(places: Array, known: Array, out: Array) -> int:
    """The distinct places without a number, in order of appearance; returns their count."""
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
        """The number of values."""

    @property
    def nbytes(self) -> int: ...

    def numbers(self, vector: Vector) -> Numbers:
        """The number of each value; new values are added."""

    def values(self, numbers: Array) -> pa.Array[Any]:
        """The values that have these numbers."""

    def ranks(self) -> Array:
        """The rank of each number's value: NULL is first, NaN is last."""

    def ranks_of(self, numbers: Array) -> Array:
        """As :meth:`ranks`, among these numbers only; not comparable with other calls."""


def key_column(kind: pa.DataType) -> KeyColumn:
    """A key column for values of a type; for a dictionary type, of its value type."""
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

    def ranks_of(self, numbers: Array) -> Array:
        ranks = np.unique(self._table.keys()[numbers], return_inverse=True)[1]
        return np.where(numbers == self._table.null, -1, ranks)


class WordKeys:
    """Values of any length: strings, binaries, decimals of more than 18 digits."""

    def __init__(self, kind: pa.DataType) -> None:
        self._type = kind
        self._numbers: dict[Any, int] = {}
        self._words: pa.Array[Any] = pa.array([], kind)
        """The values by number; extended when values are read."""
        self._bytes = 0
        self._latest: tuple[pa.Array[Any], Array] | None = None
        """The last Arrow dictionary, and the numbers of its values and of NULL; -1 if unknown."""

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
            missing = missing[: _unknown(places, known, missing)]
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

    def ranks_of(self, numbers: Array) -> Array:
        ranks = np.asarray(pc.rank(self.values(numbers), tiebreaker="dense"), np.int64)
        return np.where(numbers == self._numbers.get(None, -1), -1, ranks)


def _same(one: pa.Array[Any], other: pa.Array[Any]) -> bool:
    """Whether two arrays have the same values in the same places.

    Comparing addresses takes no time, and is safe since the second array is alive. Comparing values
    costs far less than looking them up, and often succeeds: dictionaries come again as copies.
    """

    def memory(array: pa.Array[Any]) -> tuple[object, ...]:
        addresses = [buffer and (buffer.address, buffer.size) for buffer in array.buffers()]
        return len(array), array.offset, array.type, *addresses

    return memory(one) == memory(other) or one.equals(other)
