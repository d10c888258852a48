"""COUNT(DISTINCT x): how many different values, NULL not among them; NaN = NaN and -0.0 = 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Columns, Indices, Lifting, Part, rows_of
from penstock.blocks.aggregates.values import is_wide, pack, unpack, values_of, vector_from
from penstock.kernels.keys import comparison_key
from penstock.kernels.vector import Vector
from penstock.sql.plan import Call


class Words:
    """Numbers for values that are objects; those that have been given stay as they are."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._values: list[object] = []

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self, values: Array) -> Indices:
        """The number of each value."""
        distinct, places = np.unique(values, return_inverse=True)
        numbers = np.empty(len(distinct), np.int64)
        for i, value in enumerate(distinct.tolist()):
            number = self._numbers.setdefault(value, len(self._values))
            if number == len(self._values):
                self._values.append(value)
            numbers[i] = number
        return numbers[places]

    def values(self, numbers: Indices) -> Array:
        """The values with these numbers."""
        values = np.empty(len(numbers), object)
        values[:] = [self._values[number] for number in numbers.tolist()]
        return values


class Distincts:
    """Of each cell, the keys of its values and how many tuples have each.

    Entries are sorted by cell and key. Counting tuples is what makes it invertible.
    """

    def __init__(self, count: int, kind: pa.DataType, words: Words) -> None:
        self.kind = kind
        self._words = words
        self._count = count
        nothing = np.empty(0, np.int64)
        self._cell, self._key, self._tuples = nothing, nothing, nothing

    def __len__(self) -> int:
        return self._count

    def like(self, count: int) -> Distincts:
        """As many cells with nothing in them."""
        return Distincts(count, self.kind, self._words)

    def lift(self, tuples: Lifting) -> None:
        """Take the arguments that are not NULL."""
        vector, cells = tuples.vector, tuples.every_cell()
        assert vector is not None
        if tuples.valid is not None:
            rows = np.flatnonzero(tuples.valid)
            vector, cells = rows_of(vector, rows), cells[rows]
        keys = self._keys(vector)
        self._merge(cells, keys, np.ones(len(keys), np.int64))

    def _keys(self, vector: Vector) -> Indices:
        """Equal numbers for equal values."""
        if is_wide(self.kind):
            return self._words.numbers(values_of(vector))
        return comparison_key(vector).astype(np.int64, copy=False)

    def combine(self, other: Distincts) -> None:
        """Add up the tuples of each value."""
        self._merge(other._cell, other._key, other._tuples)

    def invert(self, other: Distincts) -> None:
        """Take off the tuples of each value."""
        self._merge(other._cell, other._key, -other._tuples)

    def _merge(self, cells: Indices, keys: Array, tuples: Indices) -> None:
        cells = np.concatenate((self._cell, cells))
        keys = np.concatenate((self._key, keys))
        tuples = np.concatenate((self._tuples, tuples))
        order = np.lexsort((keys, cells))
        cells, keys, tuples = cells[order], keys[order], tuples[order]
        first = np.ones(len(cells), np.bool_)
        first[1:] = (cells[1:] != cells[:-1]) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(first)
        if len(starts):
            tuples = np.add.reduceat(tuples, starts)
        left = tuples != 0
        self._cell, self._key = cells[starts][left], keys[starts][left]
        self._tuples = tuples[left]

    def take(self, cells: Indices) -> Distincts:
        """Copies of these cells."""
        taken = self.like(len(cells))
        starts = np.searchsorted(self._cell, cells)
        lengths = np.searchsorted(self._cell, cells, side="right") - starts
        ends = np.cumsum(lengths)
        entries = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        taken._cell = np.repeat(np.arange(len(cells)), lengths)
        taken._key, taken._tuples = self._key[entries], self._tuples[entries]
        return taken

    def put(self, cells: Indices, other: Distincts) -> None:
        """Let these cells be the others."""
        kept = ~np.isin(self._cell, cells)
        self._cell, self._key = self._cell[kept], self._key[kept]
        self._tuples = self._tuples[kept]
        self._merge(cells[other._cell], other._key, other._tuples)

    def results(self) -> Any:
        """How many values each cell has."""
        return pa.array(np.bincount(self._cell, minlength=self._count).astype(np.int64))

    def save(self) -> Columns:
        """The values themselves where keys are but numbers given to them."""
        saved = {"cell": self._cell, "tuples": self._tuples}
        if is_wide(self.kind):
            values = self._words.values(self._key)
            vector = vector_from(values, np.ones(len(values), np.bool_), self.kind)
            return {**saved, **pack(vector.to_arrow())}
        return {**saved, "key": self._key}

    def load(self, columns: Columns) -> None:
        """Be what was saved."""
        nothing = np.empty(0, np.int64)
        self._cell, self._key, self._tuples = nothing, nothing, nothing
        cells, tuples = np.array(columns["cell"]), np.array(columns["tuples"])
        if is_wide(self.kind):
            self._merge(cells, self._keys(unpack(columns, self.kind)), tuples)
        else:
            self._merge(cells, np.array(columns["key"]), tuples)

    @property
    def nbytes(self) -> int:
        return self._cell.nbytes + self._key.nbytes + self._tuples.nbytes


@dataclass(frozen=True)
class CountDistinct:
    """COUNT(DISTINCT x)."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind, words = self.call.argument.type, Words()
        return (Part("distinct", self.call, lambda count: Distincts(count, kind, words)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """How many different values."""
        [distincts] = parts
        return distincts.results()
