"""Folding a part of a stream where it is not known which windows are open.

Why merging folded tuples is the same as taking them one by one. The tuples are judged as if no
punctuation had come before them: that gives which of them are late because of others among them,
and which windows they close. A tuple is late by the larger of two punctuations: that of the tuples
before it among these, and that from before them all; so it is late by either. If none is late by
the first, and none of the panes that they fell into has a window that had closed before, none is
late at all: all can be folded first and the windows closed after that (see
:mod:`penstock.blocks.aggregate.block`), and they close the windows that they would close from
nothing, except those closed already. In any other case the block needs the tuples themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.block import AggregateBlock, clock_of
from penstock.blocks.aggregate.clock import Closings
from penstock.blocks.aggregate.group_owners import owners
from penstock.blocks.aggregate.partial_batch import PartialBatch
from penstock.blocks.aggregate.window_rows import Cells
from penstock.blocks.contract import program
from penstock.blocks.run import Run
from penstock.blocks.screen import screen
from penstock.program.isa.block_instructions import AggregateRows, OrderRows, Program, UnionRows
from penstock.streams.windows import Sliding, SlidingRows
from penstock.tuning import TUNING


class Folding:
    """Folds tuples of a stream into panes and groups, and closes nothing."""

    def __init__(self, instruction: AggregateRows, stream: str) -> None:
        self._instruction = instruction
        self._stream = stream
        self._begin()

    def _begin(self) -> None:
        self._block = AggregateBlock(self._instruction.block)
        program(self._block, self._instruction)
        self._tuples = self._dead = 0
        self._highest: int | None = None
        self._seen: dict[int, int] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Fold the tuples of a batch."""
        time = self._instruction.time
        run = Run((batch,), np.arange(batch.num_rows))
        run, _ = screen(run, self._stream, [] if time is None else [time], False)
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
        """How many expressions have failed so far, giving NULL."""
        return self._block.failures.count

    @property
    def is_full(self) -> bool:
        """Whether it has more cells than a folding may have, and should be sent on."""
        return self._block.panes.cell_count > TUNING.most_folded_cells

    def parts(self, cores: int) -> list[PartialBatch]:
        """The partial results so far, a part for each core; then it is empty again.

        A core gets all cells of its groups. All get the highest tick, the first one the counts.
        """
        cells = self._block.panes.cells()
        groups = cells.groups
        made = []
        keys = self._block.group_keys()
        owner = np.zeros(len(groups), np.int64)
        if keys is not None and cores > 1:
            owner = owners(keys.columns, cores)[groups]
        for core in range(cores):
            mine = np.flatnonzero(owner == core) if cores > 1 else np.arange(len(groups))
            made.append(self._part(cells.take(mine), keys))
        seen = np.array(sorted(self._seen), np.int64)
        counts = np.array([self._seen[pane] for pane in seen.tolist()], np.int64)
        made[0] = replace(made[0], tuples=self._tuples, dead=self._dead, seen=seen, counts=counts)
        self._begin()
        return made

    def _part(self, cells: Cells, keys: pa.RecordBatch | None) -> PartialBatch:
        groups = cells.groups
        if keys is not None:
            chosen, groups = np.unique(groups, return_inverse=True)
            indices: Any = pa.array(chosen)
            keys = keys.take(indices)
        columns = cells.partials.save()
        return PartialBatch(
            highest=self._highest, panes=cells.rows, groups=groups, keys=keys, cells=columns
        )


@dataclass(frozen=True)
class FoldedRun:
    """The partial results of neighbouring tuples, and the windows they close.

    Positions count from the first of them. ``disordered``: some are late because of others, if
    punctuations follow the tuples.
    """

    part: PartialBatch
    closings: Closings
    disordered: bool


def foldable(program: Program) -> AggregateRows | None:
    """The aggregate of a program whose tuples may be folded elsewhere; None if there is none.

    Not if it needs more than panes: the order of tuples (FIRST, LAST, EMIT EMPTY, counted
    windows), or of rows.
    """
    aggregates = [i for i in program.instructions if isinstance(i, AggregateRows)]
    ordered = any(isinstance(i, OrderRows | UnionRows) for i in program.instructions)
    if program.joins or ordered or len(aggregates) != 1 or len(program.scans) != 1:
        return None
    [aggregate], [scan] = aggregates, program.scans
    by_arrival = isinstance(aggregate.window, SlidingRows) or aggregate.emit_empty
    reads_rows = scan.stream.derived or aggregate.input != scan.block
    if reads_rows or by_arrival or aggregate.kernel == "wid":
        return None
    return None if any(call.by_arrival for call in aggregate.calls) else aggregate


class RunFolding:
    """Folds neighbouring tuples of a stream, as long as they can be folded."""

    def __init__(self, aggregate: AggregateRows, stream: str) -> None:
        self._aggregate = aggregate
        self._stream = stream
        self._clock = clock_of(aggregate, stream)
        self._folding = Folding(aggregate, stream)
        self._closings: list[Closings] = []
        self._tuples = 0
        self._disordered = False

    def look(self, batch: pa.RecordBatch) -> Callable[[], bool] | None:
        """A function that folds the next tuples; None if they, and any after them, cannot be.

        It returns False if an expression failed for a tuple: then the block must see the tuples, to
        count the failures.
        """
        time = self._aggregate.time
        run = Run((batch,), range(self._tuples, self._tuples + batch.num_rows))
        run, dead = screen(run, self._stream, [] if time is None else [time], False)
        judged = self._clock.judge(run)
        if dead is not None or any(letters.kind == "dead" for letters in judged.letters):
            return None
        disordered = self._disordered or len(judged.behind) > 0
        window = self._aggregate.window
        if disordered and isinstance(window, Sliding) and window.slack is not None:
            return None

        def fold() -> bool:
            self._disordered = disordered
            before = self._tuples
            self._tuples += batch.num_rows
            arrived = before + judged.closings.arrived
            closings = Closings(judged.closings.positions, judged.closings.windows, arrived)
            self._closings.append(closings)
            self._folding.take(batch)
            return not self._folding.failures

        return fold

    @property
    def is_full(self) -> bool:
        """Whether it should be sent on."""
        return self._folding.is_full

    def made(self, cores: int) -> list[FoldedRun]:
        """All tuples so far, for each core those of its groups."""
        names = ("positions", "windows", "arrived")
        empty = np.empty(0, np.int64)
        columns = (
            np.concatenate([empty, *(getattr(one, name) for one in self._closings)])
            for name in names
        )
        closings = Closings(*columns)
        parts = self._folding.parts(cores)
        seen, counts = parts[0].seen, parts[0].counts
        return [
            FoldedRun(replace(part, seen=seen, counts=counts), closings, self._disordered)
            for part in parts
        ]
