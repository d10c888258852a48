"""Rows of cells without the cells of groups that have no tuple in them.

A pane that no tuple in time can reach any more is rarely touched again. If few groups have a tuple
in it, its row is packed: their numbers and their cells. Where groups are many and each comes now
and then, most of the memory of panes would be cells with nothing in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.partials import Bundle, Partials


@dataclass(frozen=True)
class Packed:
    """The groups that have a tuple in a row, rising, and a cell for each."""

    groups: Indices
    cells: Partials


class PackedRows:
    """Packed rows by number."""

    def __init__(self) -> None:
        self._rows: dict[int, Packed] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return sum(row.groups.nbytes + row.cells.nbytes for row in self._rows.values())

    def put(self, number: int, row: Packed) -> None:
        """Keep a row."""
        self._rows[number] = row

    def get(self, number: int) -> Packed:
        """A row that is here."""
        return self._rows[number]

    def pop(self, number: int) -> Packed | None:
        """A row that is not to be here any longer; None if it was not."""
        return self._rows.pop(number, None)

    def copy_into(self, cells: Bundle, number: int, start: int) -> None:
        """Put the cells of a row where they belong in a row that starts there and has nothing."""
        row = self._rows[number]
        cells.put(start + row.groups, row.cells.all)

    def program(self, model: Partials) -> None:
        """Have the parts that others have been given."""
        for row in self._rows.values():
            row.cells.follow(model)

    def renumber(self, kept: Indices) -> None:
        """Let group ``kept[i]``, these rise, be number ``i`` from here on."""
        for number, row in self._rows.items():
            self._rows[number] = replace(row, groups=np.searchsorted(kept, row.groups))

    def groups(self) -> Indices:
        """The groups that have a tuple in some row."""
        nothing = np.empty(0, np.int64)
        return np.unique(np.concatenate([nothing, *(row.groups for row in self._rows.values())]))
