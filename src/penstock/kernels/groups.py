"""Dense numbers for groups: for each combination of the values of key columns, one number.

Every column numbers its own values. Of two columns, the two numbers make one integer, and its
number is that of the pair; a third column makes a pair with that, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.int_table import IntTable
from penstock.kernels.key_columns import KeyColumn, key_column
from penstock.kernels.vector import Vector, vector_of

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int32]


@nb.njit(nogil=True, cache=True)
def _pairs(left: Array, right: Array, out: Array) -> None:
    for i in range(left.shape[0]):
        out[i] = (np.int64(left[i]) << 32) | np.int64(right[i])


class Groups:
    """The groups of a ``GROUP BY``, numbered 0, 1, 2, … in the order they are first seen.

    ``types`` are those of the key columns; without any there is one group, number 0. NULL is a
    value like others, NaN equals itself and -0.0 is 0.0. A column may come as a dictionary of
    Arrow's; then a tuple costs no more than an integer would.

    >>> from penstock.kernels.vector import vector_of
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
        """Of each group, how many come before it; None if there is a group it does not know."""
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
        """The group of each of ``length`` tuples; new groups are entered."""
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
        """What number each column has for its value, of these groups."""
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

    def in_order(self) -> npt.NDArray[np.int64]:
        """All groups in the order of their keys; see :meth:`order`."""
        if self._order is None:
            parts = self._parts(np.arange(len(self)))
            ranked = [k.ranks()[part] for k, part in zip(self._columns, parts, strict=True)]
            self._order = np.lexsort(ranked[::-1]) if ranked else np.arange(len(self))
        return self._order

    def keep(self, numbers: Array) -> Numbers:
        """Forget all groups but these; for each old number the new one, -1 if it is gone.

        Those that stay keep their order.
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
        """The keys of all groups, by number: what :meth:`load` takes."""
        return self._batch(np.arange(len(self)))

    def _batch(self, numbers: Array) -> pa.RecordBatch:
        names = [f"k{place}" for place in range(len(self._columns))]
        return pa.RecordBatch.from_arrays(self.keys_of(numbers), names=names)

    def load(self, state: pa.RecordBatch) -> None:
        """Number the groups of a state as they were; there are none yet."""
        self.numbers([vector_of(column) for column in state.columns], state.num_rows)
