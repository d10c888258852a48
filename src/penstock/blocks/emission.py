"""When which rows of an aggregate come out: the events of a run, in their order.

Without EMIT EMPTY, an event that closes windows brings out those of them that have rows. With it,
all windows between the first and the last that a tuple fell into have rows; that an empty one lies
between two others may be known only when, after it has closed, a tuple falls into a later one. Then
its row comes with that tuple, and whatever has been folded into its panes meanwhile, it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.blocks.aggregate_clock import Closings, Judged
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.survey import LOWEST
from penstock.kernels.vector import Mask


@dataclass(frozen=True)
class Emissions:
    """Events, in their order: positions, and the first window whose rows do not come by then.

    ``opens`` is the first window that is open after each, ``keys`` orders the events among the
    tuples (the ``i``-th has ``2·i + 1``), and ``empty`` tells the events that bring out windows as
    empty ones.
    """

    positions: Indices
    stops: Indices
    opens: Indices
    keys: Indices
    empty: Mask

    @classmethod
    def of(cls, closings: Closings) -> Emissions:
        """Every closing brings out the windows that it closes."""
        windows, keys = closings.windows, 2 * closings.arrived
        return cls(closings.positions, windows, windows, keys, np.zeros(len(closings), np.bool_))

    def __len__(self) -> int:
        return len(self.positions)

    def first_ones(self, count: int) -> Emissions:
        """The first so many of them."""
        columns = (self.positions, self.stops, self.opens, self.keys, self.empty)
        return Emissions(*(column[:count] for column in columns))

    def before_row(self, rows: Indices) -> Indices:
        """How many events come before what each of these tuples closes."""
        return np.searchsorted(self.keys, 2 * rows + 1, side="right")


class Span:
    """The windows from the first to the last that any tuple fell into while they were open."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None

    def emissions(self, judged: Judged, grid: WindowGrid) -> Emissions:
        """Take the tuples of a run; the events that bring out windows, with EMIT EMPTY."""
        closings = judged.closings
        latest = self._latest(judged, grid)
        forced = self._rises(judged, latest)
        last = np.concatenate((latest[closings.arrived], latest[forced + 1]))
        opens = np.concatenate((closings.windows, judged.open_at(forced)))
        keys = np.concatenate((2 * closings.arrived, 2 * forced + 1))
        positions = np.concatenate((closings.positions, judged.run.positions[forced]))
        empty = np.arange(len(keys)) >= len(closings)
        order = np.argsort(keys, kind="stable")
        stops = np.where(last == LOWEST, opens, np.minimum(opens, last + 1))
        return Emissions(positions[order], stops[order], opens[order], keys[order], empty[order])

    def settled(self, made: Emissions) -> Emissions:
        """What closings without tuples bring out."""
        if self.last is None:
            return made
        stops = np.minimum(made.stops, self.last + 1)
        return Emissions(made.positions, stops, made.opens, made.keys, made.empty)

    def beyond(self, events: Emissions, due: int, most: int) -> tuple[int, range] | None:
        """The first event that brings out more windows than ``most``, and these windows.

        Those before ``due`` are out already. None if there is no such event. What happens at one
        position is one event, though it may be two here.
        """
        if self.first is None or not len(events):
            return None
        begin = max(due, self.first)
        last = np.append(np.flatnonzero(np.diff(events.positions)), len(events) - 1)
        stops = np.maximum.accumulate(np.maximum(events.stops[last], begin))
        before = np.concatenate((np.array([begin]), stops[:-1]))
        far = np.flatnonzero(stops - before > most)
        if not len(far):
            return None
        at = int(far[0])
        return int(last[at - 1]) + 1 if at else 0, range(int(before[at]), int(stops[at]))

    def _latest(self, judged: Judged, grid: WindowGrid) -> Indices:
        """The last window that any tuple fell into, before the run and after each of its tuples."""
        before = LOWEST if self.last is None else self.last
        if not len(judged.ticks):
            return np.array([before])
        opens = judged.open_at(np.arange(len(judged.ticks)))
        first = np.maximum(grid.first_of(judged.ticks), opens)
        last = grid.last_of(judged.ticks)
        inside = first <= last
        latest = np.concatenate((np.array([before]), np.where(inside, last, before)))
        latest = np.maximum.accumulate(latest)
        if inside.any():
            low = int(first[inside].min())
            self.first = low if self.first is None else min(self.first, low)
            self.last = int(latest[-1])
        return latest

    def _rises(self, judged: Judged, latest: Indices) -> Indices:
        """The tuples that show windows that closed before them to lie between two others."""
        rises = (latest[1:] > latest[:-1]) & (latest[:-1] > LOWEST)
        rows = np.flatnonzero(rises)
        return rows[latest[rows] + 1 < judged.open_at(rows)]
