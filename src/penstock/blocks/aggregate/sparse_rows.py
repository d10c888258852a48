"""Rows of cells by number, stored sparsely: only the cells that have a tuple.

Cells are in sorted runs. What a batch folds becomes a run of its own, and runs of about the same
size are merged into one, so a cell is moved a logarithmic number of times at most, and there are
few runs. The cost of a cell does not depend on the number of groups: this is how rows are stored
where groups and rows are many, and most groups are in few rows.
:class:`penstock.blocks.aggregate.numbered_rows.NumberedRows` says what all methods do.
"""

from __future__ import annotations

import numpy as np

from penstock.blocks.aggregate.functions.cells import Array, Indices
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.aggregate.partials import Arrivals, Bundle, Layout, Partials
from penstock.blocks.aggregate.window_rows import Cells, merged
from penstock.errors import ResultDoesNotFit
from penstock.kernels.aggregate.int_table import IntTable
from penstock.tuning import TUNING

_MOST_RUNS = 24
_FARTHEST = 1 << 62


class SparseRows:
    """Rows by number. ``width`` is how many groups there are; they need no room.

    ``model`` is partial results that theirs can be combined with.
    """

    def __init__(self, model: Partials) -> None:
        self.width = 1
        self.partials = model.of(model.all.like(0))
        """Empty cells, as a model for those of runs."""
        self.numbers: Indices = np.empty(0, np.int64)
        self.versions: Indices = np.empty(0, np.int64)
        self._runs: list[Cells] = []
        self._before: list[int] = []
        """Of each run, how many of its first cells are of rows that are gone."""
        self.version = 0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def cell_count(self) -> int:
        """How many cells there are."""
        return sum(map(len, self._runs)) - sum(self._before)

    @property
    def size(self) -> int:
        """How many cells take room: those that have a tuple."""
        return self.cell_count

    @property
    def nbytes(self) -> int:
        remaining = (
            run.rows.nbytes + run.groups.nbytes + run.partials.nbytes for run in self._runs
        )
        return sum(remaining)

    def program(self, layout: Layout) -> None:
        """Change to the parts of other calls; parts that stay keep their values."""
        if layout.keys != self.partials.layout.keys:
            self.touch(self.numbers)
        self.partials.program(layout)
        for run in self._runs:
            run.partials.follow(self.partials)

    def fold(self, rows: Indices, groups: Indices, arrivals: Arrivals) -> None:
        """Fold arrivals into the cells of their rows and groups."""
        numbers, cells = distinct_cells(rows, groups, self.width)
        partials = self.partials.of(self.partials.all.like(len(numbers[0])))
        partials.lift_into(partials.all, range(len(partials.all.members)), cells, arrivals)
        self.add(Cells(*numbers, partials))

    def add(self, cells: Cells) -> None:
        """Combine cells with those stored."""
        self._enter(np.unique(cells.rows))
        while self._runs and len(self._runs[-1]) - self._before[-1] <= 2 * len(cells):
            cells = merged(self._pop(), cells)
        if len(cells) >= TUNING.most_cells:
            raise ResultDoesNotFit(
                f"it would need {len(cells)} partial results, and 2^31 or more cannot be held",
                "Give the query a shorter RANGE, a longer SLIDE, or fewer groups.",
            )
        self._runs.append(cells)
        self._before.append(0)
        if len(self._runs) > _MOST_RUNS:
            self._settle()

    def _pop(self) -> Cells:
        """Remove and return the last run."""
        run, before = self._runs.pop(), self._before.pop()
        return run.take(np.arange(before, len(run))) if before else run

    def _settle(self) -> Cells:
        """All cells as one run."""
        if not self._runs:
            return self._nothing()
        cells = self._pop()
        while self._runs:
            cells = merged(self._pop(), cells)
        self._runs, self._before = [cells], [0]
        return cells

    def _nothing(self) -> Cells:
        empty = np.empty(0, np.int64)
        return Cells(empty, empty, self.partials.of(self.partials.all.like(0)))

    def _enter(self, numbers: Indices) -> None:
        """Add these rows, ascending."""
        if not len(self.numbers) or int(numbers[0]) > int(self.numbers[-1]):
            new = numbers
        else:
            places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            new = numbers[self.numbers[places] != numbers]
        if len(new):
            at = np.searchsorted(self.numbers, new)
            self.numbers = np.insert(self.numbers, at, new)
            self.versions = np.insert(self.versions, at, 0)
        self.touch(numbers)

    def touch(self, numbers: Indices) -> None:
        """Give these rows a new version."""
        self.version += 1
        self.versions[np.searchsorted(self.numbers, numbers)] = self.version

    def count_between(self, first: int, stop: int) -> int:
        """How many cells rows from ``first`` to before ``stop`` have; some may be counted twice."""
        borders = (np.searchsorted(run.rows, (first, stop)) for run in self._runs)
        return sum(
            max(0, int(end) - max(int(start), gone))
            for (start, end), gone in zip(borders, self._before, strict=True)
        )

    def cells_between(self, first: int, stop: int) -> Cells:
        """Copies of the cells of the rows from ``first`` to before ``stop``."""
        made: Cells | None = None
        for run, gone in zip(self._runs[::-1], self._before[::-1], strict=True):
            start, end = np.searchsorted(run.rows, (first, stop)).tolist()
            if max(start, gone) < end:
                some = run.take(np.arange(max(start, gone), end))
                made = some if made is None else merged(some, made)
        return self._nothing() if made is None else made

    def every_cell(self) -> Cells:
        """All cells."""
        return self._settle()

    def gather(self, first: int, stop: int) -> tuple[Indices, Bundle]:
        """The rows from ``first`` to before ``stop`` that exist: their numbers, and copies
        with a cell for every group.
        """
        start, end = np.searchsorted(self.numbers, (first, stop))
        numbers = self.numbers[start:end]
        cells = self.cells_between(first, stop)
        made = self.partials.all.like(len(numbers) * self.width)
        if len(cells):
            places = np.searchsorted(numbers, cells.rows) * self.width + cells.groups
            made.put(places, cells.partials.all)
        return numbers, made

    def between(self, first: int, stop: int) -> list[int]:
        """The numbers from ``first`` to before ``stop`` of rows that exist."""
        start, end = np.searchsorted(self.numbers, (first, stop))
        numbers: list[int] = self.numbers[start:end].tolist()
        return numbers

    def packed(self, number: int) -> tuple[Indices, Bundle]:
        """The groups that have a tuple in a row that exists, and a cell for each."""
        cells = self.cells_between(number, number + 1)
        return cells.groups, cells.partials.all

    def groups_in(self, first: int, stop: int) -> Indices:
        """The groups that have a tuple in some row from ``first`` to before ``stop``."""
        return np.unique(self.cells_between(first, stop).groups)

    def live_groups(self) -> Indices:
        """The groups that have a tuple in some row."""
        found = [run.groups[gone:] for run, gone in zip(self._runs, self._before, strict=True)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def renumber(self, remaining: Indices, width: int) -> None:
        """Renumber the groups: ``remaining[i]`` becomes ``i``; no other group has a tuple."""
        for i, run in enumerate(self._runs):
            groups = np.searchsorted(remaining, run.groups)
            self._runs[i] = Cells(run.rows, groups, run.partials)
        self.width = width
        self.touch(self.numbers)

    def widen(self, width: int) -> None:
        """Make room for that many groups."""
        self.width = width

    def drop(self, before: int) -> None:
        """Drop the rows before this one."""
        gone = int(np.searchsorted(self.numbers, before))
        if not gone:
            return
        self.numbers, self.versions = self.numbers[gone:], self.versions[gone:]
        runs, self._runs, self._before = self._runs, [], []
        for run in runs:
            start = int(np.searchsorted(run.rows, before))
            if start == len(run):
                continue
            if 2 * start > len(run):
                run, start = run.take(np.arange(start, len(run))), 0
            self._runs.append(run)
            self._before.append(start)

    def remove(self, numbers: Indices) -> None:
        """Drop these rows, which exist."""
        cells = self._settle()
        remaining = np.flatnonzero(~np.isin(cells.rows, numbers))
        self._runs, self._before = [cells.take(remaining)], [0]
        left = ~np.isin(self.numbers, numbers)
        self.numbers, self.versions = self.numbers[left], self.versions[left]

    def pack(self, before: int) -> None:
        """Only cells that have a tuple are stored."""

    def save(self) -> dict[str, Array]:
        """As :meth:`penstock.blocks.aggregate.numbered_rows.NumberedRows.save`."""
        cells = self._settle()
        borders = np.append(np.searchsorted(cells.rows, self.numbers), len(cells)).tolist()
        columns: dict[str, Array] = {}
        rows = zip(self.numbers.tolist(), self.versions.tolist(), strict=True)
        for i, (number, version) in enumerate(rows):
            some = cells.take(np.arange(borders[i], borders[i + 1]))
            prefix = f"row.{number}.{version}"
            columns[f"{prefix}.groups"] = some.groups
            columns.update({f"{prefix}.{name}": c for name, c in some.partials.save().items()})
        return columns

    def merge(self, part: PartialBatch, groups: Indices, chosen: Indices) -> None:
        """Add the chosen cells to those here; ``groups`` are the numbers of all cells' groups."""
        added = self.partials.of(self.partials.all.like(len(part.panes)))
        added.load(part.cells)
        rows, groups = part.panes[chosen], groups[chosen]
        order = np.lexsort((groups, rows))
        partials = added.of(added.all.take(chosen[order]))
        self.add(Cells(rows[order], groups[order], partials))

    def with_versions(self, numbers: Indices, versions: Indices, latest: int) -> None:
        """Have the versions that rows had elsewhere; all of them are here."""
        self.versions[np.searchsorted(self.numbers, numbers)] = versions
        self.version = latest


def distinct_cells(
    rows: Indices, groups: Indices, width: int
) -> tuple[tuple[Indices, Indices], Indices]:
    """The cells of tuples: the row and group of each, sorted, and the cell of each tuple."""
    first, last = int(rows.min()), int(rows.max())
    known: Indices | None = None
    if (last - first + 1) * width >= _FARTHEST:
        known, rows = np.unique(rows, return_inverse=True)
        first = 0
    table = IntTable()
    found = table.numbers((rows - first) * np.int64(width) + groups)
    keys = np.array(table.keys())
    order = np.argsort(keys)
    places = np.empty(len(keys), np.int32)
    places[order] = np.arange(len(keys), dtype=np.int32)
    numbers, which = np.divmod(keys[order], np.int64(width))
    numbers = numbers + first if known is None else known[numbers]
    return (numbers, which), places[found]
