"""FIRST and LAST: the argument of the tuple that is first or last by its time, then by arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Columns, Indices, Lifting, Part, rows_of
from penstock.blocks.aggregate.functions.values import (
    dtype_of,
    pack,
    unpack,
    values_of,
    vector_from,
)
from penstock.kernels.aggregate.first_last import Firsts
from penstock.sql.plan import Call


class Outer:
    """One tuple's argument per cell, with the tuple's time and number. NULL is an argument too."""

    def __init__(self, count: int, kind: pa.DataType, last: bool) -> None:
        self.kind = kind
        self._firsts = Firsts(last, count)
        self._valid = np.zeros(count, np.bool_)
        self._values = np.zeros(count, dtype_of(kind))

    def __len__(self) -> int:
        return len(self._firsts)

    def _of(self, firsts: Firsts) -> Outer:
        made = Outer.__new__(Outer)
        made.kind, made._firsts = self.kind, firsts
        made._valid = np.zeros(len(firsts), np.bool_)
        made._values = np.zeros(len(firsts), dtype_of(self.kind))
        return made

    def like(self, count: int) -> Outer:
        """As many empty cells."""
        return self._of(self._firsts.like(count))

    def lift(self, tuples: Lifting) -> None:
        """Of each cell's tuples keep the first, or the last."""
        vector, cells = tuples.vector, tuples.every_cell()
        assert vector is not None
        times = np.zeros(len(cells), np.int64) if tuples.times is None else tuples.times
        self._firsts.add(cells, times, tuples.start, tuples.mask)
        numbers = np.arange(tuples.start, tuples.start + len(cells))
        chosen = np.flatnonzero(self._firsts.rows(cells) == numbers)
        self._valid[cells[chosen]] = True if vector.valid is None else vector.valid[chosen]
        self._values[cells[chosen]] = values_of(rows_of(vector, chosen))

    def combine(self, other: Outer) -> None:
        """Keep the earlier tuple, or the later."""
        every = np.arange(len(self), dtype=np.int32)
        self._merge(every, other, every)

    def _merge(self, into: Indices, other: Outer, cells: Indices) -> None:
        before = self._firsts.rows(into)
        self._firsts.merge(into, other._firsts, cells)
        moved = np.flatnonzero(self._firsts.rows(into) != before)
        self._valid[into[moved]] = other._valid[cells[moved]]
        self._values[into[moved]] = other._values[cells[moved]]

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Outer:
        """The earliest tuples, or the latest, of the cells in whose intervals each row is."""
        cells = self._firsts.cells_of_intervals(begins, ends, count)
        known = np.flatnonzero(cells >= 0).astype(np.int32)
        made = self.like(count)
        made._merge(known, self, cells[known].astype(np.int32))
        return made

    def take(self, cells: Indices) -> Outer:
        """Copies of these cells."""
        taken = self.like(len(cells))
        taken._merge(np.arange(len(cells), dtype=np.int32), self, cells)
        return taken

    def put(self, cells: Indices, other: Outer) -> None:
        """Let these cells be the others."""
        self._firsts.clear(cells)
        self._valid[cells] = False
        self._merge(cells, other, np.arange(len(cells), dtype=np.int32))

    def results(self) -> Any:
        """The arguments as an Arrow array."""
        return vector_from(self._values, self._valid, self.kind).to_arrow()

    def save(self) -> Columns:
        """The arguments, times and numbers."""
        return {**self._firsts.state(), **pack(self.results())}

    def load(self, columns: Columns) -> None:
        """Restore from saved state."""
        self._firsts.load(columns)
        values = unpack(columns, self.kind)
        self._valid = np.array(columns["valid"], np.bool_)
        self._values = np.array(values_of(values), dtype_of(self.kind))

    @property
    def nbytes(self) -> int:
        return self._firsts.nbytes + self._valid.nbytes + self._values.nbytes


@dataclass(frozen=True)
class FirstLast:
    """FIRST or LAST, by the name of the call."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind, last = self.call.argument.type, self.call.name == "last"
        return (Part(self.call.name, self.call, lambda count: Outer(count, kind, last)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The arguments."""
        [ends] = parts
        return ends.results()
