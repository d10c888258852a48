"""MIN and MAX, of every type that has an order. NaN is the largest number, -0.0 is 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregates.cells import Array, Columns, Indices, Lifting, Part, Table
from penstock.blocks.aggregates.values import (
    arrow_of,
    is_wide,
    keys_of,
    pack,
    unpack,
    values_of_keys,
)
from penstock.kernels.vector import Mask
from penstock.sql.plan import Call


class Extremes:
    """The smallest (``largest``: the largest) key in each cell. ``any``: whether there is one."""

    def __init__(self, count: int, kind: pa.DataType, largest: bool) -> None:
        self.kind = kind
        self.largest = largest
        edge = np.iinfo(np.int64).min if largest else np.iinfo(np.int64).max
        fill = (object, None) if is_wide(kind) else (np.int64, edge)
        self._table = Table(count, {"key": fill, "any": (np.bool_, False)})

    def __len__(self) -> int:
        return len(self._table)

    def like(self, count: int) -> Extremes:
        """As many cells with nothing in them."""
        return Extremes(count, self.kind, self.largest)

    def lift(self, tuples: Lifting) -> None:
        """Take the arguments that are not NULL."""
        tuples = tuples.not_null()
        assert tuples.vector is not None
        keys, cells = keys_of(tuples.vector), tuples.cells
        if is_wide(self.kind):
            order = np.lexsort((_ranks(keys, self.largest), cells))
            firsts = np.flatnonzero(np.diff(cells[order], prepend=-1))
            best = order[firsts]
            self._improve(cells[best], keys[best])
        else:
            extreme: Any = np.maximum if self.largest else np.minimum
            extreme.at(self._table["key"], cells, keys)
            self._table["any"][cells] = True

    def _improve(self, cells: Indices, keys: Array) -> None:
        """Take one key for each of these cells, all different."""
        old, has = self._table["key"][cells], self._table["any"][cells]
        self._table["key"][cells] = _better(old, has, keys, np.ones(len(keys), bool), self.largest)
        self._table["any"][cells] = True

    def combine(self, other: Extremes) -> None:
        """Keep the smaller key, or the larger."""
        mine, theirs = self._table, other._table
        if is_wide(self.kind):
            mine["key"] = _better(
                mine["key"], mine["any"], theirs["key"], theirs["any"], self.largest
            )
        else:
            extreme: Any = np.maximum if self.largest else np.minimum
            mine["key"] = extreme(mine["key"], theirs["key"])
        mine["any"] = mine["any"] | theirs["any"]

    def take(self, cells: Indices) -> Extremes:
        """Copies of these cells."""
        taken = self.like(0)
        taken._table = self._table.take(cells)
        return taken

    def put(self, cells: Indices, other: Extremes) -> None:
        """Let these cells be the others."""
        self._table.put(cells, other._table)

    def results(self) -> Any:
        """The extremes as an Arrow array, NULL where there is none."""
        valid = self._table["any"]
        return arrow_of(values_of_keys(self._table["key"], self.kind), valid, self.kind)

    def save(self) -> Columns:
        """The keys."""
        valid = self._table["any"]
        if is_wide(self.kind):
            return {"any": valid, **pack(self._table["key"], valid, self.kind)}
        return {"any": valid, "key": self._table["key"]}

    def load(self, columns: Columns) -> None:
        """Be what was saved."""
        valid = np.array(columns["any"], np.bool_)
        wide = is_wide(self.kind)
        self._table["key"] = (
            unpack(columns, valid, self.kind) if wide else np.array(columns["key"], np.int64)
        )
        self._table["any"] = valid

    @property
    def nbytes(self) -> int:
        return self._table.nbytes


def _ranks(keys: Array, falling: bool) -> Indices:
    """Numbers that order objects as they order themselves, or the other way round."""
    _, ranks = np.unique(keys, return_inverse=True)
    return -ranks if falling else ranks


def _better(old: Array, has_old: Mask, new: Array, has_new: Mask, largest: bool) -> Array:
    """Of two objects the smaller, or the larger; of one that one."""
    kept = old.copy()
    kept[has_new & ~has_old] = new[has_new & ~has_old]
    both = np.flatnonzero(has_new & has_old)
    extreme: Any = np.maximum if largest else np.minimum
    kept[both] = extreme(old[both], new[both])
    return kept


@dataclass(frozen=True)
class MinMax:
    """MIN or MAX, by the name of the call."""

    call: Call

    @property
    def parts(self) -> tuple[Part, ...]:
        assert self.call.argument is not None
        kind, largest = self.call.argument.type, self.call.name == "max"
        return (Part(self.call.name, self.call, lambda count: Extremes(count, kind, largest)),)

    def lower(self, parts: tuple[Any, ...]) -> Any:
        """The extremes."""
        [extremes] = parts
        return extremes.results()
