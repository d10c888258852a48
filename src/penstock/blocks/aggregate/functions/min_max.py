"""MIN and MAX, of every type that has an order. NaN is the largest number, -0.0 is 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Columns, Indices, Lifting, Part
from penstock.blocks.aggregate.functions.values import pack, unpack
from penstock.kernels.aggregate.extremes import Extremes
from penstock.sql.plan import Call
from penstock.streams.schema import is_text


class Outermost:
    """The smallest value in each cell, or the largest."""

    def __init__(self, count: int, kind: pa.DataType, largest: bool) -> None:
        self.kind = kind
        self._extremes = Extremes(kind, largest, count)

    def __len__(self) -> int:
        return len(self._extremes)

    @property
    def can_share(self) -> bool:
        """Whether threads may fill such cells at the same time: words are numbered by one."""
        return not is_text(self.kind)

    def _of(self, extremes: Extremes) -> Outermost:
        made = Outermost.__new__(Outermost)
        made.kind, made._extremes = self.kind, extremes
        return made

    def like(self, count: int) -> Outermost:
        """As many empty cells."""
        return self._of(self._extremes.like(count))

    def lift(self, tuples: Lifting) -> None:
        """Take the arguments that are not NULL."""
        assert tuples.vector is not None
        encoded = self._extremes.encode(tuples.vector)
        if isinstance(tuples.cells, int):
            self._extremes.add_at(tuples.cells, encoded, tuples.valid)
        else:
            self._extremes.add(tuples.cells, encoded, tuples.valid)

    def combine(self, other: Outermost) -> None:
        """Keep the smaller value, or the larger."""
        self._extremes.merge_row(0, other._extremes, 0, len(self))

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Let every row of cells have what all up to it have, or all from it on."""
        self._extremes.accumulate(rows, backwards)

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Outermost:
        """The extremes of the cells in whose intervals each row is."""
        return self._of(self._extremes.of_intervals(begins, ends, count))

    def take(self, cells: Indices) -> Outermost:
        """Copies of these cells."""
        taken = self._extremes.like(len(cells))
        taken.merge(np.arange(len(cells), dtype=np.int32), self._extremes, cells)
        return self._of(taken)

    def put(self, cells: Indices, other: Outermost) -> None:
        """Let these cells be the others."""
        self._extremes.clear(cells)
        self._extremes.merge(cells, other._extremes, np.arange(len(cells), dtype=np.int32))

    def results(self) -> Any:
        """The values as an Arrow array, NULL where there is none."""
        return self._extremes.values(np.arange(len(self)))

    def save(self) -> Columns:
        """The values."""
        return pack(self.results())

    def load(self, columns: Columns) -> None:
        """Restore from saved state."""
        values = unpack(columns, self.kind)
        self._extremes = self._extremes.like(len(values))
        every = np.arange(len(values), dtype=np.int32)
        self._extremes.add(every, self._extremes.encode(values), values.valid)

    @property
    def nbytes(self) -> int:
        return self._extremes.nbytes


@dataclass(frozen=True)
class MinMax:
    """MIN or MAX, by the name of the call."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind, largest = self.call.argument.type, self.call.name == "max"
        return (Part(self.call.name, self.call, lambda count: Outermost(count, kind, largest)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The extremes."""
        [extremes] = parts
        return extremes.results()
