"""FIRST and LAST: the argument of the tuple that is first or last by its time, then by arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Columns, Indices, Lifting, Part, Table
from penstock.blocks.aggregates.values import arrow_of, dtype_of, is_wide, pack, unpack, values_of
from penstock.kernels.vector import Mask
from penstock.sql.plan import Call


class Ends:
    """One tuple's argument per cell, with the tuple's time and number. NULL is an argument too."""

    def __init__(self, count: int, kind: pa.DataType, last: bool) -> None:
        self.kind = kind
        self.last = last
        dtype = dtype_of(kind)
        self._table = Table(
            count,
            {
                "any": (np.bool_, False),
                "time": (np.int64, 0),
                "number": (np.int64, 0),
                "valid": (np.bool_, False),
                "value": (dtype, None if is_wide(kind) else 0),
            },
        )

    def __len__(self) -> int:
        return len(self._table)

    def like(self, count: int) -> Ends:
        """As many cells with nothing in them."""
        return Ends(count, self.kind, self.last)

    def lift(self, tuples: Lifting) -> None:
        """Of each cell's tuples keep the first, or the last."""
        vector, cells = tuples.vector, tuples.cells
        assert vector is not None
        times = np.zeros(len(cells), np.int64) if tuples.times is None else tuples.times
        order = np.lexsort((tuples.numbers, times, cells))
        borders = np.flatnonzero(np.diff(cells[order], prepend=-1))
        ends = np.append(borders[1:], len(order)) - 1 if self.last else borders
        best = order[ends] if len(order) else order
        chosen = self.like(len(best))
        valid = np.ones(len(cells), np.bool_) if vector.valid is None else vector.valid
        columns: dict[str, Array] = {
            "any": np.ones(len(best), np.bool_),
            "time": times[best],
            "number": tuples.numbers[best],
            "valid": valid[best],
            "value": values_of(vector)[best],
        }
        chosen._table.arrays.update(columns)
        held = self.take(cells[best])
        held.combine(chosen)
        self.put(cells[best], held)

    def combine(self, other: Ends) -> None:
        """Keep the earlier tuple, or the later."""
        mine, theirs = self._table, other._table
        later = (theirs["time"] > mine["time"]) | (
            (theirs["time"] == mine["time"]) & (theirs["number"] > mine["number"])
        )
        better: Mask = later if self.last else ~later
        moves = np.flatnonzero(theirs["any"] & (~mine["any"] | better))
        mine.put(moves, theirs.take(moves))

    def take(self, cells: Indices) -> Ends:
        """Copies of these cells."""
        taken = self.like(0)
        taken._table = self._table.take(cells)
        return taken

    def put(self, cells: Indices, other: Ends) -> None:
        """Let these cells be the others."""
        self._table.put(cells, other._table)

    def results(self) -> Any:
        """The arguments as an Arrow array."""
        return arrow_of(self._table["value"], self._table["valid"], self.kind)

    def save(self) -> Columns:
        """The arguments, times and numbers."""
        table = self._table
        plain = {name: table[name] for name in ("any", "time", "number", "valid")}
        return {**plain, **pack(table["value"], table["valid"], self.kind)}

    def load(self, columns: Columns) -> None:
        """Be what was saved."""
        for name in ("any", "time", "number", "valid"):
            self._table[name] = np.array(columns[name])
        self._table["value"] = unpack(columns, self._table["valid"], self.kind)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes


@dataclass(frozen=True)
class FirstLast:
    """FIRST or LAST, by the name of the call."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind, last = self.call.argument.type, self.call.name == "last"
        return (Part(self.call.name, self.call, lambda count: Ends(count, kind, last)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The arguments."""
        [ends] = parts
        return ends.results()
