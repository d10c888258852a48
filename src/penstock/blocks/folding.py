"""Folding a part of a stream, before it is known which windows are open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate import AggregateBlock
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.group_owners import owners
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.partials import Bundle
from penstock.blocks.run import Run
from penstock.blocks.screen import screen
from penstock.program.blocks import AggregateRows

MOST_CELLS = 1 << 21
"""A folding that has more cells is handed on, and the next tuples begin with none."""


class Folding:
    """Folds tuples of a stream into panes and groups, and closes nothing."""

    def __init__(self, instruction: AggregateRows, stream: str) -> None:
        self._instruction = instruction
        self._stream = stream
        self._begin()

    def _begin(self) -> None:
        self._block = AggregateBlock(self._instruction, self._stream)
        self._tuples = self._dead = 0
        self._highest: int | None = None
        self._seen: dict[int, int] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Fold the tuples of a batch."""
        time = self._instruction.time
        run = Run((batch,), np.arange(batch.num_rows))
        run = screen(run, self._stream, [] if time is None else [time], False)
        ticks = self._block.fold(run)
        self._tuples += batch.num_rows
        self._dead += batch.num_rows - len(ticks)
        if not len(ticks):
            return
        highest = int(ticks.max())
        self._highest = highest if self._highest is None else max(self._highest, highest)
        panes = self._block.clock.grid.pane_of(ticks)
        low, high = int(panes.min()), int(panes.max())
        if high - low <= 4 * len(panes):
            counts = np.bincount(panes - low)
            found = np.flatnonzero(counts)
            pairs = zip((found + low).tolist(), counts[found].tolist(), strict=True)
        else:
            distinct, counts = np.unique(panes, return_counts=True)
            pairs = zip(distinct.tolist(), counts.tolist(), strict=True)
        for pane, count in pairs:
            self._seen[pane] = self._seen.get(pane, 0) + count

    @property
    def failures(self) -> int:
        """How many expressions have failed for the tuples so far, and are NULL."""
        return self._block.failures.count

    @property
    def is_full(self) -> bool:
        """Whether there are so many cells that they had better be handed on."""
        return self._block.panes.cell_count > MOST_CELLS

    def parts(self, cores: int) -> list[PartialBatch]:
        """What the tuples so far add, a part for each core; the next ones begin anew.

        A core has all cells of its groups. All are told the highest tick, one of them the rest.
        """
        panes, groups, cells = self._block.panes.cells()
        made = []
        keys = self._block.group_keys()
        owner = np.zeros(len(groups), np.int64)
        if keys is not None and cores > 1:
            owner = owners(keys.columns, cores)[groups]
        for core in range(cores):
            mine = np.flatnonzero(owner == core) if cores > 1 else np.arange(len(groups))
            made.append(self._part(panes[mine], groups[mine], cells.take(mine), keys))
        seen = np.array(sorted(self._seen), np.int64)
        counts = np.array([self._seen[pane] for pane in seen.tolist()], np.int64)
        made[0] = replace(made[0], tuples=self._tuples, dead=self._dead, seen=seen, counts=counts)
        self._begin()
        return made

    def _part(
        self, panes: Indices, groups: Indices, cells: Bundle, keys: pa.RecordBatch | None
    ) -> PartialBatch:
        if keys is not None:
            chosen, groups = np.unique(groups, return_inverse=True)
            indices: Any = pa.array(chosen)
            keys = keys.take(indices)
        columns = self._block.panes.saved(cells)
        return PartialBatch(
            highest=self._highest, panes=panes, groups=groups, keys=keys, cells=columns
        )
