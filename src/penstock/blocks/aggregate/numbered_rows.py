"""Rows of cells by number, one cell per group: the panes of an aggregate, or its windows.

Rows are in one table, and the place of a dropped row is used again. A pane that no tuple in time
can reach any more is rarely touched. If few groups have a tuple in it, its row is packed: only the
numbers and the cells of those groups are stored. Where there are many groups and each comes now and
then, most of the panes' memory would be empty cells. A packed row returns to the table when a tuple
is folded into it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.aggregate.partials import Arrivals, Bundle, Layout, Partials, cells_of_rows
from penstock.blocks.aggregate.window_rows import Cells, merged_pairwise
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.errors import ResultDoesNotFit
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST
from penstock.tuning import TUNING

_FEWEST = 8
_WASTEFUL = 8
"""Memory is given back when there is room for this many times the rows."""


PACKED = -1
"""The place of a packed row."""


def _check(rows: int, width: int) -> None:
    """Refuse more cells than can be numbered."""
    if rows * width >= TUNING.most_cells:
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
        self.versions: Indices = np.empty(0, np.int64)
        """The version of each row."""
        self._free: Indices = np.arange(_FEWEST)[::-1]
        self._packed = PackedRows()
        self._looked_at = LOWEST
        """Rows before this one are packed, or not worth it."""
        self.version = 0
        """The latest version of any row."""

    @classmethod
    def of(cls, cells: Cells, width: int, model: Partials) -> NumberedRows:
        """Rows that have these cells, and room for ``width`` groups; see :meth:`with_versions`.

        ``model`` is partial results that they can be combined with.
        """
        made = cls(model.layout)
        made.width = width
        made.partials = model.of(model.all.like(_FEWEST * width))
        if len(cells):
            numbers, places = np.unique(cells.rows, return_inverse=True)
            starts = made.starts(numbers)
            made.partials.all.put(starts[places] + cells.groups, cells.partials.all)
        return made

    def with_versions(self, numbers: Indices, versions: Indices, latest: int) -> None:
        """Set the versions of all rows."""
        self.versions[np.searchsorted(self.numbers, numbers)] = versions
        self.version = latest

    @property
    def size(self) -> int:
        """How many cells there is room for."""
        return len(self.partials)

    @property
    def cell_count(self) -> int:
        """How many cells have a tuple."""
        return int(np.count_nonzero(self.partials.rows.counts)) + self._packed.cell_count

    @property
    def nbytes(self) -> int:
        return self.partials.nbytes + self._packed.nbytes

    def program(self, layout: Layout) -> None:
        """Change to the parts of other calls; parts that stay keep their values."""
        if layout.keys != self.partials.layout.keys:
            self.touch(self.numbers)
        self.partials.program(layout)
        self._packed.program(self.partials)

    def __len__(self) -> int:
        return len(self.numbers)

    def add_counts(self, numbers: Indices, counts: Indices) -> None:
        """Count tuples into the first cells of these rows, ascending."""
        starts = self.starts(numbers)
        for cells in self.partials.all.members:
            cells.counts[starts] += counts
        self.touch(numbers)

    def lift(
        self,
        cells: Indices | int,
        arrivals: Arrivals,
        numbers: Indices,
        threads: CoreThreads | None = None,
    ) -> None:
        """Fold arrivals, one at least, into cells of these rows; some may get no tuple."""
        self.partials.lift(cells, arrivals, threads)
        self.touch(numbers)
        if len(numbers) == 1:
            return
        rows = self._rows[np.searchsorted(self.numbers, numbers)]
        counts = self.partials.rows.counts.reshape(-1, self.width)
        some = counts[rows, 0] > 0 if self.width == 1 else counts[rows].any(axis=1)
        if not some.all():
            self.remove(numbers[~some])

    def starts(self, numbers: Indices) -> Indices:
        """The first cell of each of these rows, ascending; one that is new gets its cells."""
        return self._rows_of(numbers) * self.width

    def touch(self, numbers: Indices) -> None:
        """Give these rows a new version."""
        self.version += 1
        self.versions[self.numbers.searchsorted(numbers)] = self.version

    def _rows_of(self, wanted: Indices) -> Indices:
        places = self.numbers.searchsorted(wanted)
        if len(wanted) == 1 and not len(self._packed):
            place = places.item(0)
            if place < len(self.numbers) and self.numbers.item(place) == wanted.item(0):
                return self._rows[place : place + 1]
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
        self.versions = np.concatenate((self.versions, np.full(len(fresh), self.version)))
        if not follow:
            order = np.argsort(self.numbers, kind="stable")
            self.numbers, self._rows = self.numbers[order], self._rows[order]
            self.versions = self.versions[order]
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
        if self.width < TUNING.narrow_row or before <= self._looked_at:
            return
        start, end = np.searchsorted(self.numbers, (self._looked_at, before))
        self._looked_at = before
        places = start + np.flatnonzero(self._rows[start:end] >= 0)
        counts = self.partials.rows.counts.reshape(-1, self.width)
        for place in places.tolist():
            row = int(self._rows[place])
            if TUNING.packed_share * int(np.count_nonzero(counts[row])) <= self.width:
                packed = self._pack_up(row)
                self._packed.put(int(self.numbers[place]), packed)
                self.partials.clear(row * self.width + packed.groups)
                self._free = np.append(self._free, row)
                self._rows[place] = PACKED
        self._fit()

    def _unpack(self, numbers: Indices) -> None:
        """Move these rows into the table."""
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
        """Make room for that many groups."""
        rows = len(self.partials) // self.width
        _check(rows, width)
        cells = np.arange(rows * self.width)
        new = cells // self.width * width + cells % self.width
        self.partials.spread(rows * width, new, cells)
        self.width = width

    def renumber(self, remaining: Indices, width: int) -> None:
        """Renumber the groups: ``remaining[i]`` becomes ``i``; no other group has a tuple."""
        rows = len(self.partials) // self.width
        every = np.arange(rows)
        old = (every[:, None] * self.width + remaining).reshape(-1)
        new = (every[:, None] * width + np.arange(len(remaining))).reshape(-1)
        self.partials.spread(rows * width, new, old)
        self._packed.renumber(remaining)
        self.width = width
        self.touch(self.numbers)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some row."""
        counts = self.partials.rows.counts.reshape(-1, self.width)
        return np.union1d(np.flatnonzero(counts.any(axis=0)), self._packed.groups())

    def gather(self, first: int, stop: int) -> tuple[Indices, Bundle]:
        """The rows from ``first`` to before ``stop`` that exist: their numbers, and copies."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        return self.numbers[start:end], self._copies(np.arange(start, end))

    def only(self, numbers: Indices) -> Bundle:
        """Copies of these rows, which exist."""
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
        """The numbers from ``first`` to before ``stop`` of rows that exist."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        numbers: list[int] = self.numbers[start:end].tolist()
        return numbers

    def packed(self, number: int) -> tuple[Indices, Bundle]:
        """The groups that have a tuple in a row that exists, and a cell for each."""
        row = int(self._rows[np.searchsorted(self.numbers, number)])
        packed = self._packed.get(number) if row == PACKED else self._pack_up(row)
        return packed.groups, packed.cells.all

    def groups_in(self, first: int, stop: int) -> Indices:
        """The groups that have a tuple in some row from ``first`` to before ``stop``."""
        found = [self.packed(number)[0] for number in self.between(first, stop)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def drop(self, before: int) -> None:
        """Drop the rows before this one."""
        self.remove(self.numbers[: int(np.searchsorted(self.numbers, before))])

    def remove(self, numbers: Indices) -> None:
        """Drop these rows, which exist."""
        if not len(numbers):
            return
        places = np.searchsorted(self.numbers, numbers)
        rows = self._rows[places]
        rows = rows[rows != PACKED]
        for number in numbers.tolist() if len(self._packed) else ():
            self._packed.pop(number)
        self.partials.clear(cells_of_rows(rows, self.width))
        self._free = np.concatenate((self._free, rows))
        remaining: Any = slice(len(places), None)
        if places[-1] >= len(places):  # they are not the first ones
            remaining = np.delete(np.arange(len(self.numbers)), places)
        self.numbers, self._rows = self.numbers[remaining], self._rows[remaining]
        self.versions = self.versions[remaining]
        self._fit()

    def _fit(self) -> None:
        """Give back the memory of dropped rows, if it is most of it."""
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
        rows = (self.numbers.tolist(), self._rows.tolist(), self.versions.tolist())
        for number, row, version in zip(*rows, strict=True):
            prefix = f"row.{number}.{version}"
            packed = self._packed.get(number) if row == PACKED else self._pack_up(row)
            columns[f"{prefix}.groups"] = packed.groups
            columns.update({f"{prefix}.{name}": c for name, c in packed.cells.save().items()})
        return columns

    def _pack_up(self, row: int) -> PackedRow:
        """The cells of a row of the table."""
        groups = np.flatnonzero(self.partials.rows.counts[row * self.width :][: self.width])
        cells = self.partials.of(self.partials.all.take(row * self.width + groups))
        return PackedRow(groups, cells)

    # -- cells ------------------------------------------------------------------------------

    def cells_between(self, first: int, stop: int) -> Cells:
        """Copies of the cells of the rows from ``first`` to before ``stop`` that have a tuple."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        numbers, rows = self.numbers[start:end], self._rows[start:end]
        if (rows == PACKED).any():
            table = self._copies(np.arange(start, end))
            counts = table.members[0].counts
            chosen = np.flatnonzero(counts)
            which, groups = np.divmod(chosen, self.width)
            return Cells(numbers[which], groups, self.partials.of(table.take(chosen)))
        counts = self.partials.rows.counts.reshape(-1, self.width)[rows]
        which, groups = np.nonzero(counts)
        chosen = rows[which] * self.width + groups
        return Cells(numbers[which], groups, self.partials.of(self.partials.all.take(chosen)))

    def every_cell(self) -> Cells:
        """Every cell that has a tuple."""
        packed = np.flatnonzero(self._rows == PACKED)
        if not len(packed):
            return self.cells_between(LOWEST, HIGHEST)
        here = np.flatnonzero(self._rows != PACKED)
        counts = self.partials.rows.counts.reshape(-1, self.width)[self._rows[here]]
        which, groups = np.nonzero(counts)
        chosen = self._rows[here][which] * self.width + groups
        rows, cells = self.numbers[here][which], self.partials.all.take(chosen)
        return self._packed.with_cells(Cells(rows, groups, self.partials.of(cells)))

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


@dataclass(frozen=True)
class PackedRow:
    """The groups that have a tuple in a row, rising, and a cell for each."""

    groups: Indices
    cells: Partials


class PackedRows:
    """Packed rows by number."""

    def __init__(self) -> None:
        self._rows: dict[int, PackedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return sum(row.groups.nbytes + row.cells.nbytes for row in self._rows.values())

    @property
    def cell_count(self) -> int:
        """How many cells there are."""
        return sum(len(row.groups) for row in self._rows.values())

    def put(self, number: int, row: PackedRow) -> None:
        """Add a row."""
        self._rows[number] = row

    def get(self, number: int) -> PackedRow:
        """The row with this number."""
        return self._rows[number]

    def pop(self, number: int) -> PackedRow | None:
        """Remove and return a row; None if it is not packed."""
        return self._rows.pop(number, None)

    def copy_into(self, cells: Bundle, number: int, start: int) -> None:
        """Copy the cells of a row into an empty row of the table that starts there."""
        row = self._rows[number]
        cells.put(start + row.groups, row.cells.all)

    def program(self, model: Partials) -> None:
        """Change to the parts of other calls."""
        for row in self._rows.values():
            row.cells.follow(model)

    def renumber(self, remaining: Indices) -> None:
        """Renumber the groups: ``remaining[i]`` becomes ``i``; they ascend."""
        for number, row in self._rows.items():
            self._rows[number] = replace(row, groups=np.searchsorted(remaining, row.groups))

    def with_cells(self, cells: Cells) -> Cells:
        """The cells of all packed rows, and those of other rows."""
        parts = [cells]
        for number, row in sorted(self._rows.items()):
            parts.append(Cells(np.full(len(row.groups), number), row.groups, row.cells))
        return merged_pairwise(parts)

    def groups(self) -> Indices:
        """The groups that have a tuple in some row."""
        nothing = np.empty(0, np.int64)
        return np.unique(np.concatenate([nothing, *(row.groups for row in self._rows.values())]))
