"""COUNT(DISTINCT x): how many different values, NULL not among them; NaN = NaN and -0.0 = 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Columns, Indices, Lifting, Part, rows_of
from penstock.blocks.aggregate.functions.values import pack, unpack
from penstock.kernels.aggregate.groups import key_column
from penstock.kernels.aggregate.int_table import IntTable
from penstock.kernels.expressions.vector import Vector, vector_of
from penstock.sql.plan import Call
from penstock.tuning import TUNING

_CODE = (1 << 32) - 1


class Codes:
    """Codes for values. The codes of values that no cell holds any more are reused."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._known = key_column(kind)
        self.holders: WeakSet[Distincts] = WeakSet()

    def codes(self, vector: Vector) -> Indices:
        """The code of each value."""
        if len(self._known) > TUNING.distinct_values:
            self._tidy()
        return self._known.numbers(vector)

    def values(self, codes: Indices) -> Any:
        """The values with these codes, as an Arrow array."""
        return self._known.values(codes)

    def _tidy(self) -> None:
        """Drop values that no cell holds, once they are most of them."""
        in_use = np.unique(np.concatenate([holder.codes_in_use() for holder in self.holders]))
        if 2 * len(in_use) > len(self._known):
            return
        values = vector_of(self._known.values(in_use))
        moved = np.zeros(len(self._known), np.int64)
        self._known = key_column(self._kind)
        moved[in_use] = self._known.numbers(values)  # as they come, so their order is the same
        for holder in self.holders:
            holder.moved(moved)


class Distincts:
    """Of each cell, the codes of its values and how many tuples have each.

    A cell and a code are one number, an entry, and entries are sorted; new ones are sorted in when
    the cells are read. Counting tuples makes it invertible.
    """

    def __init__(self, count: int, kind: pa.DataType, codes: Codes) -> None:
        self.kind = kind
        self._codes = codes
        codes.holders.add(self)
        self._count = count
        self._entries: Indices = np.empty(0, np.int64)
        self._tuples: Indices = np.empty(0, np.int64)
        self._waiting: list[tuple[Indices, Indices]] = []

    def __len__(self) -> int:
        return self._count

    def like(self, count: int) -> Distincts:
        """As many empty cells."""
        return Distincts(count, self.kind, self._codes)

    def lift(self, tuples: Lifting) -> None:
        """Take the arguments that are not NULL."""
        vector, cells = tuples.vector, tuples.every_cell()
        assert vector is not None
        if tuples.valid is not None:
            rows = np.flatnonzero(tuples.valid)
            vector, cells = rows_of(vector, rows), cells[rows]
        table = IntTable()
        places = table.numbers((cells.astype(np.int64) << 32) | self._codes.codes(vector))
        self._add(table.keys(), np.bincount(places, minlength=len(table)))

    def combine(self, other: Distincts) -> None:
        """Add up the tuples of each value."""
        other._sort()
        self._add(other._entries, other._tuples)

    def invert(self, other: Distincts) -> None:
        """Take off the tuples of each value."""
        other._sort()
        self._add(other._entries, -other._tuples)

    def _add(self, entries: Indices, tuples: Indices) -> None:
        self._waiting.append((np.array(entries), tuples))
        waiting = sum(len(new) for new, _ in self._waiting)
        if waiting > max(TUNING.distinct_values, len(self._entries)):
            self._sort()

    def _sort(self) -> None:
        """Sort new entries in; entries of no tuples go."""
        if not self._waiting:
            return
        entries = np.concatenate([self._entries, *(new for new, _ in self._waiting)])
        tuples = np.concatenate([self._tuples, *(counts for _, counts in self._waiting)])
        self._waiting.clear()
        order = np.argsort(entries, kind="stable")  # which makes use of what is sorted already
        entries, tuples = entries[order], tuples[order]
        starts = np.flatnonzero(np.diff(entries, prepend=-1))
        if len(starts):
            tuples = np.add.reduceat(tuples, starts)
        left = tuples != 0
        self._entries, self._tuples = entries[starts][left], tuples[left]

    def take(self, cells: Indices) -> Distincts:
        """Copies of these cells."""
        self._sort()
        wide = cells.astype(np.int64)
        starts = np.searchsorted(self._entries, wide << 32)
        lengths = np.searchsorted(self._entries, (wide + 1) << 32) - starts
        places = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        places += np.arange(len(places))
        taken = self.like(len(cells))
        owners = np.repeat(np.arange(len(cells)), lengths)
        taken._entries = (owners << 32) | (self._entries[places] & _CODE)
        taken._tuples = self._tuples[places]
        return taken

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> DistinctCounts:
        """How many values the cells have in whose intervals each row is.

        A row has a value if it is in the interval of one of the value's cells. What is left of an
        interval after those of the value's earlier cells is one interval too, since they rise.
        """
        self._sort()
        cells, codes = self._entries >> 32, self._entries & _CODE
        order = np.argsort(codes, kind="stable")
        cells, codes = cells[order], codes[order]
        first, stop = begins[cells], ends[cells]
        # The rows of each value count from another start, after all rows of those before it.
        same = codes[1:] == codes[:-1]
        start = np.cumsum(np.append(0, ~same)[: len(codes)]) * (count + 1)
        again = np.flatnonzero(same) + 1
        reach = np.maximum.accumulate(stop + start)[again - 1] - start[again]
        first[again] = np.maximum(first[again], reach)
        inside = first < stop
        changes = np.bincount(first[inside], minlength=count + 1)
        changes -= np.bincount(stop[inside], minlength=count + 1)
        return DistinctCounts(np.cumsum(changes[:-1]))

    def put(self, cells: Indices, other: Distincts) -> None:
        """Let these cells be the others."""
        self._sort()
        other._sort()
        others = np.flatnonzero(~np.isin(self._entries >> 32, cells))
        self._entries, self._tuples = self._entries[others], self._tuples[others]
        owners = cells.astype(np.int64)[other._entries >> 32]
        self._add((owners << 32) | (other._entries & _CODE), other._tuples)

    def results(self) -> Any:
        """How many values each cell has."""
        self._sort()
        return pa.array(np.bincount(self._entries >> 32, minlength=self._count))

    def codes_in_use(self) -> Indices:
        """The codes of its values."""
        self._sort()
        return np.unique(self._entries & _CODE)

    def moved(self, codes: Indices) -> None:
        """Code ``c`` is ``codes[c]`` from here on; their order is the same."""
        self._entries = (self._entries & ~_CODE) | codes[self._entries & _CODE]

    def save(self) -> Columns:
        """The values themselves: codes mean nothing elsewhere."""
        self._sort()
        saved = {"cell": self._entries >> 32, "tuples": self._tuples}
        return {**saved, **pack(self._codes.values(self._entries & _CODE))}

    def load(self, columns: Columns) -> None:
        """Restore from saved state."""
        self._waiting.clear()
        self._entries, self._tuples = np.empty(0, np.int64), np.empty(0, np.int64)
        cells = np.array(columns["cell"], np.int64)
        codes = self._codes.codes(unpack(columns, self.kind))
        self._add((cells << 32) | codes, np.array(columns["tuples"], np.int64))

    @property
    def nbytes(self) -> int:
        waiting = sum(2 * new.nbytes for new, _ in self._waiting)
        return self._entries.nbytes + self._tuples.nbytes + waiting


@dataclass(frozen=True)
class DistinctCounts:
    """How many different values each cell has, which are not known any more."""

    counts: Indices

    def like(self, count: int) -> DistinctCounts:
        """As many cells without a value."""
        return DistinctCounts(np.zeros(count, np.int64))

    def take(self, cells: Indices) -> DistinctCounts:
        """Copies of these cells."""
        return DistinctCounts(self.counts[cells])

    def put(self, cells: Indices, other: DistinctCounts) -> None:
        """Let these cells be the others."""
        self.counts[cells] = other.counts

    def results(self) -> Any:
        """How many values each cell has."""
        return pa.array(self.counts, pa.int64())


@dataclass(frozen=True)
class CountDistinct:
    """COUNT(DISTINCT x)."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind = self.call.argument.type
        codes = Codes(kind)
        return (Part("distinct", self.call, lambda count: Distincts(count, kind, codes)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """How many different values."""
        [distincts] = parts
        return distincts.results()
