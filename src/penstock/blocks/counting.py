"""Counting tuples by pane, where nothing else is asked of them: their columns are not looked at."""

from __future__ import annotations

from penstock.blocks.aggregate_clock import Judged
from penstock.blocks.panes import Kept
from penstock.blocks.window_grid import WindowGrid
from penstock.blocks.window_panes import PaneWindows
from penstock.kernels.evaluate import select
from penstock.kernels.vector import Failures
from penstock.kernels.words import code_of
from penstock.program.blocks import AggregateRows
from penstock.sql.expressions import TRUE


def count_run(
    windows: object,
    grid: WindowGrid,
    instruction: AggregateRows,
    judged: Judged,
    failures: Failures,
) -> bool:
    """Count the tuples of a run, if none is late, for calls that ask no more; False if not."""
    run = judged.run
    if instruction.keys or not isinstance(windows, PaneWindows):
        return False
    if not len(run) or len(judged.behind) or grid.size < grid.slide:
        return False
    found: list[Failures] = []

    def kept(start: int, stop: int) -> Kept:
        if instruction.where == TRUE:
            return None, None
        inputs = [batch.slice(start, stop - start) for batch in run.inputs]
        equal = code_of(instruction.where, inputs[0]) if len(inputs) == 1 else None
        if equal is not None:
            return None, equal
        found.append(Failures())
        return select(inputs, instruction.where, found[-1]), None

    if not windows.count(judged.ticks, kept):
        return False
    failures.count += sum(each.count for each in found)
    return True
