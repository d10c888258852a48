"""Rows of cells by number, one cell per group: the panes of an aggregate, or its windows.

Rows are in one table, and the place of a row that is gone is used again; rows that are packed are
not in the table until somebody folds a tuple into them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.crew import Crew
from penstock.blocks.packed_rows import Packed, PackedRows
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.partials import Arrivals, Bundle, Layout, Partials, cells_of_rows
from penstock.errors import ResultDoesNotFit
from penstock.kernels.survey import LOWEST

_FEWEST = 8
_WASTEFUL = 8
"""Times as many rows as there could be, from which on room is given back."""
_MOST_CELLS = 1 << 31
NARROW = 256
"""Rows of fewer cells are not worth packing."""
_PACKED = 4
"""A row is packed if one in so many of its cells, or fewer, has a tuple."""


PACKED = -1
"""Where a row is that is packed."""


def _check(rows: int, width: int) -> None:
    """Refuse more cells than can be numbered."""
    if rows * width >= _MOST_CELLS:
        raise ResultDoesNotFit(
            f"it would need partial results of {width} groups in {rows} panes or windows, and 2^31 "
            "or more cannot be held",
            "Give the query a shorter RANGE, a longer SLIDE, or fewer groups.",
        )


class NumberedRows:
    """Rows by number. ``width`` is how many groups there is room for.

    ``numbers`` are those of the rows that there are, rising; each has a tuple in some cell.
    """

    def __init__(self, layout: Layout) -> None:
        self.width = 1
        self.partials = Partials(layout, _FEWEST)
        self.numbers: Indices = np.empty(0, np.int64)
        self._rows: Indices = np.empty(0, np.int64)
        self._versions: Indices = np.empty(0, np.int64)
        self._free: Indices = np.arange(_FEWEST)[::-1]
        self._packed = PackedRows()
        self._looked_at = LOWEST
        """Rows before this one are packed, or not worth it."""
        self.version = 0
        """The latest version of any row."""

    @property
    def nbytes(self) -> int:
        return self.partials.nbytes + self._packed.nbytes

    def program(self, layout: Layout) -> None:
        """Have the parts of other calls; those that stay keep what they have."""
        if layout.keys != self.partials.layout.keys:
            self.touch(self.numbers)
        self.partials.program(layout)
        self._packed.program(self.partials)

    def __len__(self) -> int:
        return len(self.numbers)

    def add_counts(self, numbers: Indices, counts: Indices) -> None:
        """Count tuples into the first cells of these rows, which rise."""
        starts = self.starts(numbers)
        for cells in self.partials.all.members:
            cells.counts[starts] += counts
        self.touch(numbers)

    def lift(
        self,
        cells: Indices | int,
        arrivals: Arrivals,
        numbers: Indices,
        crew: Crew | None = None,
    ) -> None:
        """Fold arrivals into cells of these rows, of which some may get no tuple."""
        self.partials.lift(cells, arrivals, crew)
        self.touch(numbers)
        rows = self._rows[np.searchsorted(self.numbers, numbers)]
        counts = self.partials.rows.counts.reshape(-1, self.width)
        some = counts[rows, 0] > 0 if self.width == 1 else counts[rows].any(axis=1)
        if not some.all():
            self.remove(numbers[~some])

    def starts(self, numbers: Indices) -> Indices:
        """The first cell of each of these rows, which rise; one that is new gets its cells."""
        return self._rows_of(numbers) * self.width

    def touch(self, numbers: Indices) -> None:
        """Take note that these rows have changed."""
        self.version += 1
        self._versions[np.searchsorted(self.numbers, numbers)] = self.version

    def _rows_of(self, wanted: Indices) -> Indices:
        places = np.searchsorted(self.numbers, wanted)
        known = np.zeros(len(wanted), np.bool_)
        inside = places < len(self.numbers)
        known[inside] = self.numbers[places[inside]] == wanted[inside]
        if len(self._packed):
            self._unpack(wanted[known])
        if known.all():
            return self._rows[places]
        fresh = wanted[~known]
        rows = self._take_free(len(fresh))
        follow = not len(self.numbers) or bool(fresh[0] > self.numbers[-1])
        self.numbers = np.concatenate((self.numbers, fresh))
        self._rows = np.concatenate((self._rows, rows))
        self._versions = np.concatenate((self._versions, np.full(len(fresh), self.version)))
        if not follow:
            order = np.argsort(self.numbers, kind="stable")
            self.numbers, self._rows = self.numbers[order], self._rows[order]
            self._versions = self._versions[order]
        return self._rows[np.searchsorted(self.numbers, wanted)]

    def _take_free(self, count: int) -> Indices:
        """Places in the table for that many rows."""
        missing = count - len(self._free)
        if missing > 0:
            had = len(self.partials) // self.width
            more = max(missing, had)
            _check(had + more, self.width)
            cells = np.arange(had * self.width)
            self.partials.spread((had + more) * self.width, cells, cells)
            self._free = np.concatenate((np.arange(had, had + more)[::-1], self._free))
        rows, self._free = self._free[-count:], self._free[:-count]
        return rows

    def pack(self, before: int) -> None:
        """Pack rows before this one in which few groups have a tuple."""
        if self.width < NARROW or before <= self._looked_at:
            return
        start, end = np.searchsorted(self.numbers, (self._looked_at, before))
        self._looked_at = before
        places = start + np.flatnonzero(self._rows[start:end] >= 0)
        counts = self.partials.rows.counts.reshape(-1, self.width)
        for place in places.tolist():
            row = int(self._rows[place])
            if _PACKED * int(np.count_nonzero(counts[row])) <= self.width:
                packed = self._pack_up(row)
                self._packed.put(int(self.numbers[place]), packed)
                self.partials.clear(row * self.width + packed.groups)
                self._free = np.append(self._free, row)
                self._rows[place] = PACKED
        self._fit()

    def _unpack(self, numbers: Indices) -> None:
        """Have these rows in the table."""
        places = np.searchsorted(self.numbers, numbers)
        places = places[self._rows[places] == PACKED]
        if not len(places):
            return
        rows = self._take_free(len(places))
        self._rows[places] = rows
        for number, row in zip(self.numbers[places].tolist(), rows.tolist(), strict=True):
            self._packed.copy_into(self.partials.all, number, row * self.width)
            self._packed.pop(number)
            self._looked_at = min(self._looked_at, number)

    def widen(self, width: int) -> None:
        """Have room for that many groups."""
        rows = len(self.partials) // self.width
        _check(rows, width)
        cells = np.arange(rows * self.width)
        new = cells // self.width * width + cells % self.width
        self.partials.spread(rows * width, new, cells)
        self.width = width

    def renumber(self, kept: Indices, width: int) -> None:
        """Let group ``kept[i]`` be number ``i`` from here on; nothing is of any other."""
        rows = len(self.partials) // self.width
        every = np.arange(rows)
        old = (every[:, None] * self.width + kept).reshape(-1)
        new = (every[:, None] * width + np.arange(len(kept))).reshape(-1)
        self.partials.spread(rows * width, new, old)
        self._packed.renumber(kept)
        self.width = width
        self.touch(self.numbers)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some row."""
        counts = self.partials.rows.counts.reshape(-1, self.width)
        return np.union1d(np.flatnonzero(counts.any(axis=0)), self._packed.groups())

    def gather(self, first: int, stop: int) -> tuple[Indices, Bundle]:
        """The rows from ``first`` to before ``stop`` that there are: their numbers, and copies."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        return self.numbers[start:end], self._copies(np.arange(start, end))

    def only(self, numbers: Indices) -> Bundle:
        """Copies of these rows, which there are."""
        return self._copies(np.searchsorted(self.numbers, numbers))

    def _copies(self, places: Indices) -> Bundle:
        rows = self._rows[places]
        here = rows != PACKED
        if here.all():
            return self.partials.all.take(cells_of_rows(rows, self.width))
        made = self.partials.all.like(len(places) * self.width)
        cells = cells_of_rows(rows[here], self.width)
        made.put(cells_of_rows(np.flatnonzero(here), self.width), self.partials.all.take(cells))
        for i in np.flatnonzero(~here).tolist():
            self._packed.copy_into(made, int(self.numbers[places[i]]), i * self.width)
        return made

    def between(self, first: int, stop: int) -> list[int]:
        """The numbers from ``first`` to before ``stop`` of rows that there are."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        numbers: list[int] = self.numbers[start:end].tolist()
        return numbers

    def packed(self, number: int) -> tuple[Indices, Bundle]:
        """The groups that have a tuple in a row that there is, and a cell for each."""
        row = int(self._rows[np.searchsorted(self.numbers, number)])
        packed = self._packed.get(number) if row == PACKED else self._pack_up(row)
        return packed.groups, packed.cells.all

    def groups_in(self, first: int, stop: int) -> Indices:
        """The groups that have a tuple in some row from ``first`` to before ``stop``."""
        found = [self.packed(number)[0] for number in self.between(first, stop)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def drop(self, before: int) -> None:
        """Forget the rows before this one."""
        self.remove(self.numbers[: int(np.searchsorted(self.numbers, before))])

    def remove(self, numbers: Indices) -> None:
        """Forget these rows, which there are."""
        if not len(numbers):
            return
        places = np.searchsorted(self.numbers, numbers)
        rows = self._rows[places]
        rows = rows[rows != PACKED]
        for number in numbers.tolist() if len(self._packed) else ():
            self._packed.pop(number)
        self.partials.clear(cells_of_rows(rows, self.width))
        self._free = np.concatenate((self._free, rows))
        kept: Any = slice(len(places), None)
        if places[-1] >= len(places):  # they are not the first ones
            kept = np.delete(np.arange(len(self.numbers)), places)
        self.numbers, self._rows = self.numbers[kept], self._rows[kept]
        self._versions = self._versions[kept]
        self._fit()

    def _fit(self) -> None:
        """Give back the room of rows that are gone, if it is most of it."""
        here = self._rows != PACKED
        count = int(np.count_nonzero(here))
        had, wanted = len(self.partials) // self.width, max(_FEWEST, 2 * count)
        if had <= _WASTEFUL * wanted:
            return
        cells = cells_of_rows(self._rows[here], self.width)
        self.partials.spread(wanted * self.width, np.arange(len(cells)), cells)
        self._rows[here] = np.arange(count)
        self._free = np.arange(count, wanted)[::-1]

    # -- state ------------------------------------------------------------------------------

    def save(self) -> dict[str, Array]:
        """Columns named ``row.<number>.<version>.<name>``: the groups that have a tuple, and their
        cells.

        What has the same version is the same, so a row that has not changed need not be written
        again.
        """
        columns: dict[str, Array] = {}
        whose = (self.numbers.tolist(), self._rows.tolist(), self._versions.tolist())
        for number, row, version in zip(*whose, strict=True):
            prefix = f"row.{number}.{version}"
            packed = self._packed.get(number) if row == PACKED else self._pack_up(row)
            columns[f"{prefix}.groups"] = packed.groups
            columns.update({f"{prefix}.{name}": c for name, c in packed.cells.save().items()})
        return columns

    def _pack_up(self, row: int) -> Packed:
        """What a row of the table has."""
        groups = np.flatnonzero(self.partials.rows.counts[row * self.width :][: self.width])
        cells = self.partials.of(self.partials.all.take(row * self.width + groups))
        return Packed(groups, cells)

    def load(self, columns: dict[str, Array], version: int) -> None:
        """Be the rows that were saved; there is room for their groups."""
        rows: dict[tuple[int, int], dict[str, Array]] = {}
        for key, column in columns.items():
            if key.startswith("row."):
                _, which, since, name = key.split(".", 3)
                rows.setdefault((int(which), int(since)), {})[name] = column
        for (number, known), saved in sorted(rows.items()):
            groups = np.asarray(saved.pop("groups"), np.int64)
            row = int(self._rows_of(np.array([number], np.int64))[0])
            cells = self.partials.of(self.partials.all.like(len(groups)))
            cells.load(saved)
            self.partials.all.put(row * self.width + groups, cells.all)
            self._versions[np.searchsorted(self.numbers, number)] = known
        self.version = version

    # -- cells of other rows  ---------------------------------------------------------------

    def cells(self) -> tuple[Indices, Indices, Bundle]:
        """Every cell that has a tuple: its row, its group, and the cells themselves."""
        self._unpack(self.numbers)
        numbers = np.zeros(len(self.partials) // self.width, np.int64)
        numbers[self._rows] = self.numbers
        filled = np.flatnonzero(self.partials.rows.counts)
        rows, groups = np.divmod(filled, self.width)
        return numbers[rows], groups, self.partials.all.take(filled)

    def merge(self, part: PartialBatch, groups: Indices, chosen: Indices) -> None:
        """Add the chosen cells to those here; ``groups`` are the numbers of all cells' groups."""
        distinct, places = np.unique(part.panes[chosen], return_inverse=True)
        cells = self._rows_of(distinct)[places] * self.width + groups[chosen]
        added = self.partials.of(self.partials.all.like(len(part.panes)))
        added.load(part.cells)
        mine = self.partials.all.take(cells)
        mine.combine(added.all if len(chosen) == len(added) else added.all.take(chosen))
        self.partials.all.put(cells, mine)
        self.touch(distinct)
