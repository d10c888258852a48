"""COUNT(*) and COUNT(x): how many tuples, or how many of which the argument is not NULL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.functions.cells import Columns, Indices, Lifting, Part
from penstock.kernels.aggregate.counting import count
from penstock.kernels.aggregate.exact_sum import as_slice
from penstock.sql.plan import Call


class Counts:
    """A number per cell."""

    can_share = True

    def __init__(self, count: int) -> None:
        self.counts = np.zeros(count, np.int64)

    def __len__(self) -> int:
        return len(self.counts)

    def like(self, count: int) -> Counts:
        """As many empty cells."""
        return Counts(count)

    def lift(self, tuples: Lifting) -> None:
        """Count every tuple whose argument is not NULL."""
        valid = tuples.valid
        if isinstance(tuples.cells, int):
            many = tuples.length if valid is None else int(np.count_nonzero(valid))
            self.counts[tuples.cells] += many
        else:
            count(tuples.cells, self.counts, valid)

    def accumulate(self, rows: int, backwards: bool) -> None:
        """Let every row of cells be the sum of all up to it, or from it on."""
        table = self.counts.reshape(rows, -1)
        table = table[::-1] if backwards else table
        np.cumsum(table, axis=0, out=table)

    def of_intervals(self, begins: Indices, ends: Indices, count: int) -> Counts:
        """The sums of the cells in whose intervals each row is."""
        changes = np.zeros(count + 1, np.int64)
        np.add.at(changes, begins, self.counts)
        np.subtract.at(changes, ends, self.counts)
        made = Counts(0)
        made.counts = np.cumsum(changes[:-1])
        return made

    def combine(self, other: Counts) -> None:
        """Add."""
        self.counts += other.counts

    def invert(self, other: Counts) -> None:
        """Subtract."""
        self.counts -= other.counts

    def take(self, cells: Indices) -> Counts:
        """Copies of these cells."""
        taken = Counts(0)
        taken.counts = np.array(self.counts[as_slice(cells)])
        return taken

    def put(self, cells: Indices, other: Counts) -> None:
        """Let these cells be the others."""
        self.counts[as_slice(cells)] = other.counts

    def save(self) -> Columns:
        """The numbers."""
        return {"count": self.counts}

    def load(self, columns: Columns) -> None:
        """Restore from saved state."""
        self.counts = np.array(columns["count"])

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes


def count_part(call: Call) -> Part:
    """How many tuples of the call have an argument that is not NULL."""
    return Part("count", call, Counts)


@dataclass(frozen=True)
class Count:
    """COUNT."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        return (count_part(self.call),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The numbers."""
        [counts] = parts
        return pa.array(counts.counts, pa.int64())
