"""What an aggregate is made of, by its instruction: a clock, and what keeps its windows."""

from __future__ import annotations

from penstock.blocks.aggregate_clock import CountClock, EndClock, WindowClock
from penstock.blocks.crew import Crew
from penstock.blocks.partials import Layout
from penstock.blocks.time_clock import TimeClock
from penstock.blocks.wid import WindowModules, modules_of
from penstock.blocks.window_grid import WindowGrid
from penstock.blocks.window_panes import PaneWindows
from penstock.program.blocks import AggregateRows
from penstock.streams.windows import Sliding, SlidingRows


def clock_of(instruction: AggregateRows, stream: str) -> WindowClock:
    """The clock of an aggregate, by its window."""
    if isinstance(instruction.window, Sliding):
        return TimeClock(instruction, stream)
    if isinstance(instruction.window, SlidingRows):
        return CountClock(instruction)
    return EndClock(instruction)


def windows_of(
    instruction: AggregateRows, layout: Layout, grid: WindowGrid, crew: Crew | None
) -> PaneWindows | WindowModules:
    """What keeps the windows of an aggregate, by its kernel."""
    if instruction.kernel == "wid" and isinstance(instruction.window, Sliding):
        return WindowModules(layout, grid, modules_of(instruction.window))
    return PaneWindows(layout, grid, crew)
