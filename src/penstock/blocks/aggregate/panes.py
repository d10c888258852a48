"""Panes: the stretches between two borders of windows, each with a partial result per group.

A tuple is folded into its pane, whatever the number of windows that the pane belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.numbered_rows import NumberedRows
from penstock.blocks.aggregate.partials import Arrivals, Layout
from penstock.blocks.aggregate.sparse_rows import SparseRows
from penstock.blocks.aggregate.window_rows import Cells, merged_pairwise
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.kernels.aggregate.counting import count_in_panes
from penstock.kernels.aggregate.panes import Panes, cells_of
from penstock.kernels.aggregate.survey import STRETCH, Extents
from penstock.kernels.expressions.vector import Mask
from penstock.tuning import TUNING

Selection = tuple[Mask | None, tuple[Any, int] | None]
"""The tuples that count: a mask, and codes with the one that counts; None: all."""

_WORTH_SHARING = 1 << 17
_CELLS_PER_TUPLE = 4
_SPAN = 1 << 12
"""The panes of a run within this span are looked up in a table, others sorted."""


@dataclass(frozen=True)
class PaneCounts:
    """How many tuples are in each pane from ``first`` on, and between which ticks they are."""

    first: int
    counts: Indices
    extents: Extents


class PaneStore:
    """Panes that have a tuple, as rows of cells. ``panes`` maps ticks to panes."""

    def __init__(self, layout: Layout, panes: Panes) -> None:
        self.panes = panes
        self.rows: NumberedRows | SparseRows = NumberedRows(layout)

    def prepare(self, groups: int, extent: tuple[int, int], tuples: int) -> bool:
        """Have room for ``groups`` groups, and for tuples that fall into panes of an extent.

        A table of all groups in all panes is the fastest where it is well filled. Where it would
        be all but empty, its cost would exceed that of the tuples: then only cells that have a
        tuple are stored. Returns whether there is room for more groups than before.
        """
        rows, (first, last) = self.rows, extent
        width = rows.width if groups <= rows.width else max(groups, 2 * rows.width)
        start = int(rows.numbers.searchsorted(first))
        end = int(rows.numbers.searchsorted(last + 1))
        new = last - first + 1 - (end - start)
        cells = (len(rows) + min(new, tuples)) * width
        few = TUNING.few_cells
        if isinstance(rows, SparseRows):
            if cells <= few or cells <= TUNING.dense_factor * (rows.cell_count + tuples):
                self.rows = NumberedRows.of(rows.every_cell(), width, rows.partials)
                self.rows.with_versions(rows.numbers, rows.versions, rows.version)
        # This check costs as much as growing, and is as rare.
        elif cells > max(few, rows.size) and cells > TUNING.sparse_factor * (
            rows.cell_count + tuples
        ):
            self.rows = self._sparse(rows)
        grown = width > self.rows.width
        if grown:
            self.rows.widen(width)
        return grown

    @staticmethod
    def _sparse(rows: NumberedRows) -> SparseRows:
        """The same rows, stored sparsely."""
        made = SparseRows(rows.partials)
        made.width = rows.width
        cells = rows.every_cell()
        if len(cells):
            made.add(cells)
        made.with_versions(rows.numbers, rows.versions, rows.version)
        return made

    def load(self, columns: dict[str, Array], version: int, groups: int) -> None:
        """Restore the rows from saved state; ``groups`` is the number of groups."""
        saved: dict[tuple[int, int], dict[str, Array]] = {}
        for key, column in columns.items():
            if key.startswith("row."):
                _, which, since, name = key.split(".", 3)
                saved.setdefault((int(which), int(since)), {})[name] = column
        model, parts = self.rows.partials, []
        for (number, _), row in sorted(saved.items()):
            known = np.asarray(row.pop("groups"), np.int64)
            partials = model.of(model.all.like(len(known)))
            partials.load(row)
            parts.append(Cells(np.full(len(known), number), known, partials))
        self.rows = SparseRows(model)
        self.rows.width = max(groups, 1)
        if parts:
            numbers, versions = np.array(sorted(saved), np.int64).T
            cells = merged_pairwise(parts)
            self.rows.add(cells)
            self.rows.with_versions(numbers, versions, version)
            self.prepare(groups, (int(numbers[0]), int(numbers[-1])), len(cells))
        else:
            self.rows = NumberedRows.of(self.rows.every_cell(), self.rows.width, model)
        self.rows.version = version

    def count(
        self,
        ticks: Indices,
        extent: tuple[int, int],
        selected: Callable[[int, int], Selection],
        threads: CoreThreads | None,
    ) -> PaneCounts | None:
        """Count tuples, one at least, by pane; nothing is added to the panes yet.

        ``extent`` is that of the ticks, or larger; the result is None if it is smaller, or too
        large. ``selected`` gives the tuples of a range that count.
        """
        first, last = (self.panes.number(tick) for tick in extent)
        if last - first > max(_SPAN, len(ticks) // 16):
            return None
        extents = Extents.of(len(ticks))

        def counted(start: int, stop: int) -> Indices | None:
            counts = np.zeros(last - first + 1, np.int64)
            part = extents.part(start, stop)
            given = ticks[start:stop], extent, self.panes, counts
            return counts if count_in_panes(*given, *selected(start, stop), part) else None

        if threads is None or len(ticks) < _WORTH_SHARING:
            parts = [counted(0, len(ticks))]
        else:
            stretches = -(-len(ticks) // STRETCH)
            cuts = [STRETCH * (stretches * i // threads.cores) for i in range(threads.cores)]
            tasks = [lambda _, a=a, b=b: counted(a, b) for a, b in pairwise((*cuts, len(ticks)))]
            parts = threads.share(tasks)
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        return PaneCounts(first, whole[0] if len(whole) == 1 else np.sum(whole, axis=0), extents)

    def add(self, counted: PaneCounts) -> None:
        """Add counts to the panes; there are no groups."""
        assert isinstance(self.rows, NumberedRows)
        found = np.flatnonzero(counted.counts)
        if len(found):
            self.rows.add_counts(found + counted.first, counted.counts[found])

    def _is_dense(self, panes: int, tuples: int) -> bool:
        """Whether a dense range of panes is worth it, though few of them get a tuple."""
        if self.rows.width == 1:
            return panes <= max(_SPAN, tuples)
        return panes * self.rows.width <= _CELLS_PER_TUPLE * tuples

    def lift(
        self,
        ticks: Indices,
        groups: Indices | None,
        arrivals: Arrivals,
        count: int = 1,
        threads: CoreThreads | None = None,
    ) -> bool:
        """Fold arrivals, one at least, into the panes of their ticks.

        ``count`` is how many groups there are. Returns whether there is room for more than before.
        """
        extent = int(ticks.min()), int(ticks.max())
        first, last = (self.panes.number(tick) for tick in extent)
        grown = groups is not None and self.prepare(count, (first, last), len(ticks))
        if isinstance(self.rows, SparseRows):
            assert groups is not None
            self.rows.fold(self.panes.numbers(ticks), groups, arrivals)
            return grown
        cells: Indices | int
        if last > first and not self._is_dense(last - first + 1, len(ticks)):
            numbers, places = np.unique(self.panes.numbers(ticks), return_inverse=True)
            cells = self.rows.starts(numbers)[places]
            cells = cells if groups is None else cells + groups
        else:
            numbers = np.arange(first, last + 1)
            starts = self.rows.starts(numbers)
            if first < last:
                cells = cells_of(ticks, extent, self.panes, starts, groups)
            else:
                cells = int(starts[0]) if groups is None else groups + np.int32(starts[0])
        self.rows.lift(cells, arrivals, numbers, threads)
        return grown
