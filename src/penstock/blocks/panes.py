"""Panes: the stretches between two borders of windows, each with a partial result per group.

A tuple is folded into its pane, whatever the number of windows that the pane belongs to. A pane is
a row of cells, one per group number, in a table that all panes share; the row of a pane that is
gone is used again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.blocks.aggregates.cells import Array, Indices
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.partials import Arrivals, Bundle, Layout, Partials, cells_of_rows
from penstock.kernels.panes import Panes, cells_of

_FEWEST_ROWS = 8
_SPAN = 1 << 12
"""Panes that are no farther apart are told by a table, others by sorting."""


class PaneStore:
    """Panes by number. ``width`` is how many groups there is room for.

    ``numbers`` are those of panes that have a tuple, rising.
    """

    def __init__(self, layout: Layout, panes: Panes) -> None:
        self.panes = panes
        self.width = 1
        self.partials = Partials(layout, _FEWEST_ROWS)
        self.numbers: Indices = np.empty(0, np.int64)
        self._rows: Indices = np.empty(0, np.int64)
        self._versions: Indices = np.empty(0, np.int64)
        self._free: Indices = np.arange(_FEWEST_ROWS)[::-1]
        self.version = 0
        """The latest version of any pane."""

    @property
    def nbytes(self) -> int:
        return self.partials.nbytes

    def __len__(self) -> int:
        return len(self.numbers)

    def lift(self, ticks: Indices, groups: Indices | None, arrivals: Arrivals) -> None:
        """Fold arrivals, one at least, into the panes of their ticks."""
        extent = int(ticks.min()), int(ticks.max())
        first, last = (self.panes.number(tick) for tick in extent)
        cells: Indices | int
        if last - first > max(_SPAN, len(ticks)):
            distinct, places = np.unique(self.panes.numbers(ticks), return_inverse=True)
            starts = self._rows_of(distinct) * self.width
            cells = starts[places] if groups is None else starts[places] + groups
        else:
            distinct = np.arange(first, last + 1)
            starts = self._rows_of(distinct) * self.width
            if len(starts) == 1 and groups is None:
                cells = int(starts[0])
            elif len(starts) == 1 and groups is not None:
                cells = groups + np.int32(starts[0])
            else:
                cells = cells_of(ticks, extent, self.panes, starts, groups)
        self.partials.lift(cells, arrivals)
        self.touch(distinct)
        self._remove_empty(distinct)

    def _remove_empty(self, panes: Indices) -> None:
        """Forget those of these panes that no tuple fell into; a pane that is there has one."""
        if len(panes) > 2:
            rows = self._rows[np.searchsorted(self.numbers, panes)]
            counts = self.partials.rows.counts.reshape(-1, self.width)
            some = counts[rows, 0] > 0 if self.width == 1 else counts[rows].any(axis=1)
            if not some.all():
                self.remove(panes[~some])

    def touch(self, panes: Indices) -> None:
        """Take note that these panes have changed."""
        self.version += 1
        self._versions[np.searchsorted(self.numbers, panes)] = self.version

    def _rows_of(self, panes: Indices) -> Indices:
        """The row of each of these panes, which rise; a pane that is new gets one."""
        places = np.searchsorted(self.numbers, panes)
        known = np.zeros(len(panes), np.bool_)
        inside = places < len(self.numbers)
        known[inside] = self.numbers[places[inside]] == panes[inside]
        if not known.all():
            fresh = panes[~known]
            self._make_room(len(fresh))
            rows, self._free = self._free[-len(fresh) :], self._free[: -len(fresh)]
            numbers = np.concatenate((self.numbers, fresh))
            order = np.argsort(numbers, kind="stable")
            self.numbers = numbers[order]
            self._rows = np.concatenate((self._rows, rows))[order]
            versions = np.concatenate((self._versions, np.full(len(fresh), self.version)))
            self._versions = versions[order]
        return self._rows[np.searchsorted(self.numbers, panes)]

    def _make_room(self, fresh: int) -> None:
        """Have that many rows that are free."""
        missing = fresh - len(self._free)
        if missing <= 0:
            return
        had = len(self.partials) // self.width
        more = max(missing, had)
        cells = np.arange(had * self.width)
        self.partials.spread((had + more) * self.width, cells, cells)
        self._free = np.concatenate((np.arange(had, had + more)[::-1], self._free))

    def widen(self, width: int) -> None:
        """Have room for that many groups."""
        rows = len(self.partials) // self.width
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
        self.width = width
        self.touch(self.numbers)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some pane."""
        counts = self.partials.rows.counts.reshape(-1, self.width)
        return np.flatnonzero(counts.any(axis=0))

    def gather(self, first: int, stop: int) -> tuple[Indices, Bundle]:
        """The panes from ``first`` to before ``stop`` that have a tuple: numbers and rows."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        return self.numbers[start:end], self.rows_at(start, end)

    def rows_at(self, start: Any, end: Any) -> Bundle:
        """The rows of the panes at these places among :attr:`numbers`."""
        return self.partials.all.take(cells_of_rows(self._rows[start:end], self.width))

    def drop(self, before: int) -> None:
        """Forget the panes before this one."""
        self.remove(self.numbers[: int(np.searchsorted(self.numbers, before))])

    def remove(self, panes: Indices) -> None:
        """Forget these panes, which rise."""
        if not len(panes):
            return
        places = np.searchsorted(self.numbers, panes)
        rows = self._rows[places]
        self.partials.clear(cells_of_rows(rows, self.width))
        self._free = np.concatenate((self._free, rows))
        self.numbers = np.delete(self.numbers, places)
        self._rows = np.delete(self._rows, places)
        self._versions = np.delete(self._versions, places)

    # -- state ------------------------------------------------------------------------------

    def save(self) -> dict[str, Array]:
        """Columns named ``pane.<number>.<version>.<name>``: the groups that have a tuple, and their
        cells.

        What has the same version is the same, so a pane that has not changed need not be written
        again.
        """
        columns: dict[str, Array] = {}
        whose = (self.numbers.tolist(), self._rows.tolist(), self._versions.tolist())
        for number, row, version in zip(*whose, strict=True):
            prefix = f"pane.{number}.{version}"
            counts = self.partials.rows.counts[row * self.width : (row + 1) * self.width]
            groups = np.flatnonzero(counts)
            cells = self.partials.of(self.partials.all.take(row * self.width + groups))
            columns[f"{prefix}.groups"] = groups
            columns.update({f"{prefix}.{name}": c for name, c in cells.save().items()})
        return columns

    def load(self, columns: dict[str, Array], version: int) -> None:
        """Be the panes that were saved; there is room for their groups."""
        panes: dict[tuple[int, int], dict[str, Array]] = {}
        for key, column in columns.items():
            if key.startswith("pane."):
                _, pane, since, name = key.split(".", 3)
                panes.setdefault((int(pane), int(since)), {})[name] = column
        for (number, known), saved in sorted(panes.items()):
            groups = np.asarray(saved.pop("groups"), np.int64)
            row = int(self._rows_of(np.array([number], np.int64))[0])
            cells = self.partials.of(self.partials.all.like(len(groups)))
            cells.load(saved)
            self.partials.all.put(row * self.width + groups, cells.all)
            self._versions[np.searchsorted(self.numbers, number)] = known
        self.version = version

    # -- cells of other panes ---------------------------------------------------------------

    def cells(self) -> tuple[Indices, Indices, Bundle]:
        """Every cell that has a tuple: its pane, its group, and the cells themselves."""
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
