"""Tuples of a stream, one after another, folded where nobody knows what was promised before them.

Why merging them is the same as taking them one by one. Whoever folds them judges them as if nothing
had been promised: he finds which of them are late because of others among them, and which close
windows. A tuple is late by the larger of two promises, that of the tuples before it among these and
that from before them all; so it is late by either. If none is late by the first, and none of the
panes that they fell into has a window that had closed before, none is late at all: all of them can
be folded in first and the windows be closed after that (see :mod:`penstock.blocks.aggregate`), and
what they close is what they would close from nothing, less what was closed already. In any other
case the tuples themselves have to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate import AggregateBlock
from penstock.blocks.aggregate_clock import Closings, EndClock
from penstock.blocks.aggregate_kinds import clock_of
from penstock.blocks.folding import Folding
from penstock.blocks.partial_batch import PARTIAL_CALLS, PartialBatch
from penstock.blocks.run import Run
from penstock.blocks.screen import screen
from penstock.blocks.time_clock import TimeClock
from penstock.blocks.window_panes import PaneWindows
from penstock.program.blocks import AggregateRows, OrderRows, Program, UnionRows
from penstock.streams.windows import Sliding, SlidingRows


@dataclass(frozen=True)
class FoldedRun:
    """What neighbouring tuples add and close; positions count from the first of them.

    ``disordered`` tells that some are late because of others, if promises follow the tuples.
    """

    part: PartialBatch
    closings: Closings
    disordered: bool


def foldable(program: Program) -> AggregateRows | None:
    """The aggregate of a program whose tuples may be folded elsewhere; None if there is none.

    Not if it asks for more than panes tell: the order of tuples (FIRST, LAST, EMIT EMPTY, counted
    windows), or of rows.
    """
    aggregates = [i for i in program.instructions if isinstance(i, AggregateRows)]
    ordered = any(isinstance(i, OrderRows | UnionRows) for i in program.instructions)
    if program.joins or ordered or len(aggregates) != 1 or len(program.scans) != 1:
        return None
    [aggregate], [scan] = aggregates, program.scans
    by_arrival = isinstance(aggregate.window, SlidingRows) or aggregate.emit_empty
    if scan.stream.derived or by_arrival or aggregate.kernel == "wid":
        return None
    return aggregate if all(call.name in PARTIAL_CALLS for call in aggregate.calls) else None


class RunFolding:
    """Folds neighbouring tuples of a stream, as long as they are such as can be folded."""

    def __init__(self, aggregate: AggregateRows, stream: str) -> None:
        self._aggregate = aggregate
        self._stream = stream
        self._clock = clock_of(aggregate, stream)
        self._folding = Folding(aggregate, stream)
        self._closings: list[Closings] = []
        self._tuples = 0
        self._disordered = False

    def look(self, batch: pa.RecordBatch) -> Callable[[], bool] | None:
        """What folds the next tuples in; None if they, and any after them, cannot be.

        That again is False if they should not have been: their expressions fail, and nobody else
        would count that.
        """
        time = self._aggregate.time
        run = Run((batch,), range(self._tuples, self._tuples + batch.num_rows))
        run = screen(run, self._stream, [] if time is None else [time], False)
        judged = self._clock.judge(run)
        if run.letters or any(letters.kind == "dead" for letters in judged.letters):
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
        """Whether what there is had better be handed on."""
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


def takes(block: AggregateBlock, folded: FoldedRun) -> bool:
    """Whether a block may merge the tuples; if not, it has to see them."""
    if block.programs or not isinstance(block.windows, PaneWindows):
        return False  # calls that came with a change count from there, in cells of their own
    clock = block.clock
    if isinstance(clock, EndClock):
        return True
    if not isinstance(clock, TimeClock):
        return False
    if folded.disordered and clock.punctuator.slack is not None:
        return False
    first, last = clock.grid.windows_of_panes(folded.part.seen)
    return not bool(((first < clock.open) & (first <= last)).any())
