"""The rows of closed windows, the events that bring them out, and punctuations of their columns.

Without EMIT EMPTY, an event that closes windows brings out those of them that have rows. With it,
all windows between the first and the last that a tuple fell into have rows. That an empty window
lies between two others may be known only when, after it has closed, a tuple falls into a later one.
Then its row comes with that tuple and is empty, whatever has been folded into its panes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate.clock import (
    BorderDoesNotFit,
    Closings,
    JudgedRun,
    TimeClock,
    WindowClock,
)
from penstock.blocks.aggregate.functions.cells import Indices
from penstock.blocks.aggregate.group_owners import Codes, row_codes
from penstock.blocks.aggregate.partials import CallDoesNotFit
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.aggregate.window_rows import WindowRows
from penstock.blocks.run import ColumnPunctuation, Run
from penstock.errors import ResultDoesNotFit
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST
from penstock.kernels.expressions.vector import Mask
from penstock.program.isa.block_instructions import AggregateRows
from penstock.sql.plan import Call
from penstock.streams.schema import type_name


@dataclass(frozen=True)
class Emissions:
    """Events, in order: their positions, and the first window whose rows come later.

    ``opens`` is the first window that is open after each, ``keys`` orders the events among the
    tuples (the ``i``-th has ``2·i + 1``), and ``empty`` marks the events that bring out windows as
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
        """The first ``count`` events."""
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

    def emissions(self, judged: JudgedRun, grid: WindowGrid) -> Emissions:
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

    def _latest(self, judged: JudgedRun, grid: WindowGrid) -> Indices:
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

    def _rises(self, judged: JudgedRun, latest: Indices) -> Indices:
        """The tuples that show windows that closed before them to lie between two others."""
        rises = (latest[1:] > latest[:-1]) & (latest[:-1] > LOWEST)
        rows = np.flatnonzero(rises)
        return rows[latest[rows] + 1 < judged.open_at(rows)]


class WindowOutput:
    """Makes rows of partial results, by the schema of an instruction."""

    def __init__(self, instruction: AggregateRows, clock: WindowClock) -> None:
        self._instruction = instruction
        self._clock = clock

    def rows(
        self,
        windows: Indices,
        positions: Indices,
        made: WindowRows,
        groups: Groups,
        coded: bool = False,
    ) -> Iterator[Run]:
        """The rows of windows, each with its position: a run, then an error if one fails.

        ``coded``: rows carry their order among those of other blocks that share the groups.
        """
        which, partials = made.which, made.partials
        keys = [] if made.groups is None else groups.keys_of(made.groups)
        try:
            results = partials.results()
        except CallDoesNotFit as error:
            failing = int(which[error.cell])
            ready = int(np.searchsorted(which, failing))
            if ready:
                # The rows of the windows before it are right, and have not come out yet.
                fine = partials.of(partials.all.take(np.arange(ready)))
                columns = [*(key.slice(0, ready) for key in keys), *fine.results()]
                ties = row_codes(windows[which[:ready]], columns[: len(keys)]) if coded else None
                yield self._run(columns, windows[which[:ready]], positions[which[:ready]], ties)
            raise self._failure(error, int(windows[failing])) from error
        ties = row_codes(windows[which], keys) if coded else None
        yield self._run([*keys, *results], windows[which], positions[which], ties)

    def _run(
        self, columns: list[Any], windows: Indices, positions: Indices, ties: Codes | None
    ) -> Run:
        columns = [*columns, *self._borders(windows)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._instruction.schema)
        return Run((batch,), positions, ties=ties)

    def _borders(self, windows: Indices) -> list[Any]:
        """Where windows begin and end, in the type of the window attribute."""
        if self._instruction.window is None:
            return []
        grid, clock = self._clock.grid, self._clock
        begins = windows * grid.slide + grid.begin(0)
        ends = begins + grid.size
        if not isinstance(clock, TimeClock):
            return [pa.array(np.maximum(begins, 0)), pa.array(ends)]
        assert clock.attribute is not None
        try:
            return [clock.attribute.array(begins), clock.attribute.array(ends)]
        except BorderDoesNotFit as error:
            name, kind = clock.attribute.name, type_name(error.kind)
            raise ResultDoesNotFit(
                f"a window has a border at {error.border}, which does not fit {kind}, the type of "
                f"{name}",
                f"Cast {name} to a wider type in a derived stream.",
            ) from error

    def _failure(self, error: CallDoesNotFit, window: int) -> ResultDoesNotFit:
        call = error.call
        of = "" if self._instruction.window is None else f" of the window {self._shown(window)}"
        return ResultDoesNotFit(
            f"{call}{of} is {error.value}, which does not fit {type_name(call.type)}",
            _remedy(call),
        )

    def _shown(self, window: int) -> str:
        clock = self._clock
        if isinstance(clock, TimeClock):
            return clock.show(window)
        return f"[{max(0, clock.grid.begin(window))}, {clock.grid.end(window)})"

    def too_many(self, windows: range, most: int) -> ResultDoesNotFit:
        """The error of an event that would bring out all of these, with the empty ones."""
        first, last = self._shown(windows[0]), self._shown(windows[-1])
        return ResultDoesNotFit(
            f"EMIT EMPTY would bring out {len(windows)} windows at once, {first} to {last}; no "
            f"more than {most} are",
            "Leave EMIT EMPTY out, write a longer SLIDE, or keep tuples that are far ahead of the "
            "others out of the stream: derive one with a WHERE.",
        )

    def punctuations(self, events: Emissions) -> Iterator[ColumnPunctuation]:
        """The punctuations of the window borders after each event."""
        clock = self._clock
        if not isinstance(clock, TimeClock) or clock.attribute is None:
            return
        last = len(self._instruction.schema) - 1
        columns = (events.positions, events.stops, events.opens)
        for position, window, opened in zip(*(c.tolist() for c in columns), strict=True):
            if opened != HIGHEST:
                begin, end = (border(window) for border in (clock.grid.begin, clock.grid.end))
                yield ColumnPunctuation(position, last - 1, clock.attribute.physical(begin))
                yield ColumnPunctuation(position, last, clock.attribute.physical(end))


def _remedy(call: Call) -> str:
    if pa.types.is_integer(call.type):
        return f"Sum a decimal: {call.name.upper()}(CAST({call.argument} AS decimal(38, 0)))."
    return f"Make the values smaller, or fewer, before {call.name.upper()} gets them."
