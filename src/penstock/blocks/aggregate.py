"""Aggregation and GROUP BY: the rows of every window, by group, when the window closes.

Why it is exact whatever the size of the runs. A tuple counts in those of its windows that are open
when it comes. A tuple that misses none of its windows belongs to windows alone that close after it
has come, so all such tuples of a run may be folded into their panes first, and the windows of the
run be closed after that, one event after another. The others, the late ones, are folded in between:
after the windows that they missed have closed, and before any other does. So each window is made of
exactly the tuples that came before the event that closed it.

Windows come oldest first, since promises never go back, and at the position of the event that
closed them. This is the aggregation-GroupBy unit of Najafi 2019 §7.1.5, whose END_MESSAGE is the
end of the stream, with the windows of Oge et al. 2013.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate_clock import Closings, Judged
from penstock.blocks.aggregate_input import arriving, parts_of, passed_rows, turns
from penstock.blocks.aggregate_kinds import clock_of, windows_of
from penstock.blocks.aggregate_output import WindowOutput
from penstock.blocks.aggregates.cells import Indices, rows_of
from penstock.blocks.counting_ahead import CountingAhead
from penstock.blocks.crew import Crew
from penstock.blocks.emission import Emissions, Span
from penstock.blocks.group_owners import owners
from penstock.blocks.partial_batch import Changes, PartialBatch
from penstock.blocks.partials import Arrivals, Layout
from penstock.blocks.run import Control, Ended, Run, Share
from penstock.blocks.state import BlockState
from penstock.blocks.time_clock import TimeClock
from penstock.blocks.wid import WindowModules, modules_of
from penstock.blocks.window_panes import PaneWindows
from penstock.errors import ResultDoesNotFit
from penstock.kernels.groups import Groups
from penstock.kernels.survey import HIGHEST, LOWEST, Extents
from penstock.kernels.vector import Failures
from penstock.program.blocks import AggregateRows
from penstock.streams.batches import no_rows
from penstock.streams.windows import Sliding

MOST_CELLS = 1 << 18
"""Windows are closed in parts of about so many cells."""
MOST_EMPTY = 10_000_000
"""So many windows one event may bring out where empty ones have rows."""
FEWEST_GROUPS = 1024
"""So many groups are kept however few of them are left in any pane."""


class AggregateBlock:
    """Windows of groups. Takes runs of its input and yields runs of rows.

    Parameters
    ----------
    instruction
        The calls, keys and windows; :meth:`program` takes another one later.
    stream
        The name of the input, for letters.
    crew
        Threads that divide a run's tuples among them, if there are any.
    """

    def __init__(self, instruction: AggregateRows, stream: str, crew: Crew | None = None) -> None:
        self.failures = Failures()
        self._crew = crew
        self.promises = True
        """Whether anybody wants to know what is promised of its rows."""
        self.share: Share | None = None
        """The part of the groups that are this block's, where several share them."""
        self.programs = self._numbers = 0
        self._closings = 0
        self._numbering = 0
        self._due = LOWEST
        self._ahead = CountingAhead()
        self._span = Span()
        since = [0] * len(instruction.calls)
        self._layout = Layout(instruction.calls, instruction.counted, since)
        self._groups = Groups([key.type for key in instruction.keys])
        self.clock = clock_of(instruction, stream)
        self.windows = windows_of(instruction, self._layout, self.clock.grid, crew)
        self._configure(instruction)

    def _configure(self, instruction: AggregateRows) -> None:
        self._instruction = instruction
        self._output = WindowOutput(instruction, self.clock)
        self._nothing = no_rows(instruction.schema)

    def program(self, instruction: AggregateRows) -> None:
        """Take other calls, another condition, size or slack; panes and groups are kept."""
        self.programs += 1
        self._layout = self._layout.changed(instruction.calls, instruction.counted, self.programs)
        self.clock.program(instruction)
        self.windows.program(self._layout, self.clock.grid)
        if isinstance(self.windows, WindowModules) and isinstance(instruction.window, Sliding):
            self.windows.resize(modules_of(instruction.window))
        self._configure(instruction)

    @property
    def nbytes(self) -> int:
        """The memory of panes and groups."""
        return self.windows.nbytes + self._groups.nbytes

    def measures(self) -> dict[str, int]:
        """How many groups, panes and open windows there are."""
        return {"groups": len(self._groups), **self.windows.measures(self.clock.open)}

    # -- a run ------------------------------------------------------------------------------

    def process(self, run: Run) -> Iterator[Run]:
        """Yield the rows of the windows that close in this run, oldest first.

        The last run yielded has no rows but the controls and letters of the whole.
        """
        self._compact()
        judged = self.clock.judge(run, self._glance)
        events = Emissions.of(judged.closings)
        if self._instruction.emit_empty:
            events = self._span.emissions(judged, self.clock.grid)
        events, too_many = self._bounded(events)
        yield from self._windows(judged, events)
        if too_many is not None:
            raise too_many
        controls: list[Control] = list(self._output.promises(events)) if self.promises else []
        if judged.ended is not None:
            controls.append(Ended(judged.ended))
        letters = (*run.letters, *judged.letters)
        yield Run((self._nothing,), np.empty(0, np.int64), tuple(controls), letters)

    def settle(self, position: int) -> Iterator[Run]:
        """Close what the program in force lets close, at ``position``.

        What was promised may be more of other columns, or by windows of another size.
        """
        self.clock.open = self.clock.settled()
        if not LOWEST < self.clock.open < HIGHEST:
            return
        events = Emissions.of(Closings.one(position, self.clock.open, 0))
        if self._instruction.emit_empty:
            events = self._span.settled(events)
        events, too_many = self._bounded(events)
        yield from self._closed(events, 0, len(events))
        if too_many is not None:
            raise too_many
        promises = tuple(self._output.promises(events)) if self.promises else ()
        yield Run((self._nothing,), np.empty(0, np.int64), promises)

    def _bounded(self, events: Emissions) -> tuple[Emissions, ResultDoesNotFit | None]:
        """The events before one that brings out too many windows, and the error of that one."""
        emits = self._instruction.emit_empty
        found = self._span.beyond(events, self._due, MOST_EMPTY) if emits else None
        if found is None:
            return events, None
        return events.first_ones(found[0]), self._output.too_many(found[1], MOST_EMPTY)

    def _windows(self, judged: Judged, events: Emissions) -> Iterator[Run]:
        """Fold the tuples in and close windows, in the order that this file's argument asks for."""
        if self._counts_alone(judged):
            yield from self._closed(events, 0, len(events))
            return
        grid = self.clock.grid
        passed = passed_rows(self._instruction, judged, grid, self.failures)
        done = 0
        arrivals, groups, passed = self._arrivals(judged, passed)
        if arrivals.length:
            ticks = judged.ticks if passed is None else judged.ticks[passed]
            parts = parts_of(ticks, grid, self.windows.width)
            if not len(judged.behind) and parts == 1:
                self.windows.lift(ticks, groups, arrivals)
            else:
                rows = np.arange(len(judged.run)) if passed is None else passed
                for stop, late, those in turns(judged, events, rows, ticks, grid, parts):
                    yield from self._closed(events, done, stop)
                    done = stop
                    mine = None if groups is None else groups[those]
                    some = arrivals.only(those, self._numbers)
                    self._numbers += len(those)
                    lift = self.windows.lift_late if late else self.windows.lift
                    lift(ticks[those], mine, some)
        yield from self._closed(events, done, len(events))

    def _counts_alone(self, judged: Judged) -> bool:
        """Count the tuples, if nothing else is asked and none is late; False if not."""
        may = self._may_count_alone and len(judged.run)
        found = self._ahead.found(self._instruction.where, self.panes, judged) if may else None
        if found is None:
            return False
        self.panes.add(found.counted)
        self.failures.count += found.failures
        self._numbers += len(judged.run)
        return True

    @property
    def _may_count_alone(self) -> bool:
        grid = self.clock.grid
        asked = self._layout.counts_alone and not self._instruction.keys
        return asked and isinstance(self.windows, PaneWindows) and grid.size >= grid.slide

    def _glance(self, run: Run, ticks: Indices) -> Extents | None:
        where = self._instruction.where
        return self._ahead.glance(where, self.panes, run, ticks) if self._may_count_alone else None

    def _arrivals(
        self, judged: Judged, passed: Indices | None
    ) -> tuple[Arrivals, Indices | None, Indices | None]:
        """What the calls want to know of the tuples that passed, the group of each, and which
        they are: where blocks share the groups, those of this block.
        """
        start = self._numbers
        arrivals, keys = arriving(self._instruction, judged, passed, start, self.failures)
        self._numbers += arrivals.length
        if not keys or not arrivals.length:
            return arrivals, None, passed
        if self.share is not None:
            owned = owners([key.to_arrow() for key in keys], self.share.cores) == self.share.core
            mine = np.flatnonzero(owned)
            arrivals, keys = arrivals.only(mine, start), [rows_of(key, mine) for key in keys]
            passed = mine if passed is None else passed[mine]
        groups = self._groups.numbers(keys, arrivals.length)
        self._make_room()
        return arrivals, groups, passed

    def _make_room(self) -> None:
        """Let every group have a cell; groups that are gone are forgotten when room is short."""
        if len(self._groups) > self.windows.width:
            self.windows.widen(max(len(self._groups), 2 * self.windows.width))

    # -- closing ----------------------------------------------------------------------------

    def _closed(self, events: Emissions, start: int, stop: int) -> Iterator[Run]:
        """Bring out what the events from ``start`` to before ``stop`` do."""
        changes = start + 1 + np.flatnonzero(np.diff(events.empty[start:stop]))
        for end in (*changes.tolist(), stop) if start < stop else ():
            empty = bool(events.empty[start])
            for windows in self._to_emit(int(events.stops[end - 1])):
                which = np.searchsorted(events.stops[start:end], windows, side="right")
                partials = self.windows.empty(windows) if empty else self.windows.close(windows)
                yield from self._output.rows(
                    windows,
                    events.positions[start:end][which],
                    partials,
                    self.windows.width,
                    self._groups,
                    self.share is not None,
                )
                self._closings += len(windows)
            self._due = max(self._due, int(events.stops[end - 1]))
            self.windows.forget(int(events.opens[end - 1]))
            start = end

    def _to_emit(self, stop: int) -> Iterator[Indices]:
        """The windows before ``stop`` that are due and have rows, in parts of a bounded size."""
        most = max(1, MOST_CELLS // self.windows.width)
        if self._instruction.window is None and not self._instruction.keys:
            if stop == HIGHEST:  # at the end, and not where a change lets close what it may
                yield np.zeros(1, np.int64)
        elif not self._instruction.emit_empty:
            windows = self.windows.filled(self._due, stop)
            for first in range(0, len(windows), most):
                yield windows[first : first + most]
        elif self._span.first is not None:
            for first in range(max(self._due, self._span.first), stop, most):
                yield np.arange(first, min(first + most, stop))

    def _compact(self) -> None:
        """Forget the groups that are in no pane, once they are most of them.

        To be called when no tuple is on its way into a cell. Looking costs as much as closing a
        window for every pane there is, so it is done once in so many windows.
        """
        if len(self._groups) < FEWEST_GROUPS or self._closings < len(self.windows):
            return
        self._closings = 0
        live = self.windows.live_groups()
        if 2 * len(live) < len(self._groups):
            self._groups.keep(live)
            self.windows.renumber(live)
            self._numbering += 1

    def close(self) -> None:
        """Let the threads go."""
        if self._crew is not None:
            self._crew.close()

    # -- state ------------------------------------------------------------------------------

    def save(self) -> BlockState:
        """The panes, the groups, and what was promised."""
        columns = self.windows.save()
        state = BlockState(
            {
                "failures": self.failures.count,
                "programs": self.programs,
                "numbers": self._numbers,
                "since": list(self._layout.since),
                "span": [self._span.first, self._span.last],
                "due": self._due,
                "clock": self.clock.save(),
                "version": self.windows.version,
                "numbering": self._numbering,
                "groups": {"first": 0, "numbering": self._numbering},
            },
            columns=columns,
        )
        if self._instruction.keys:
            batch = self._groups.state()
            state.rows["groups"] = (batch.schema, [batch])
        return state

    def load(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        values = state.values
        self.failures.count = values["failures"]
        self.programs, self._numbers = values["programs"], values["numbers"]
        self._numbering = values["numbering"]
        self._span.first, self._span.last = values["span"]
        self._due = values["due"]
        instruction = self._instruction
        self._layout = Layout(instruction.calls, instruction.counted, values["since"])
        self.clock.load(values["clock"])
        self.windows = windows_of(instruction, self._layout, self.clock.grid, self._crew)
        if self._instruction.keys:
            self._groups = Groups([key.type for key in self._instruction.keys])
            for batch in state.rows["groups"][1]:
                self._groups.load(batch)
            self._make_room()
        self.windows.load(state.columns, values["version"])
        if self.clock.open > LOWEST:
            self.windows.forget(self.clock.open)

    # -- tuples that are folded elsewhere ---------------------------------------------------

    @property
    def panes(self) -> PaneWindows:
        """The windows, which must be of panes."""
        assert isinstance(self.windows, PaneWindows)
        return self.windows

    def fold(self, run: Run) -> Indices:
        """Fold tuples into their panes, whatever was promised; returns the ticks of those."""
        run, ticks = self.clock.placed(run)
        judged = Judged(run, ticks, None, LOWEST)
        passed = passed_rows(self._instruction, judged, self.clock.grid, self.failures)
        arrivals, groups, passed = self._arrivals(judged, passed)
        if arrivals.length:
            self.windows.lift(ticks if passed is None else ticks[passed], groups, arrivals)
        return ticks

    def group_keys(self) -> pa.RecordBatch | None:
        """The keys of all groups, by number; None without GROUP BY."""
        return self._groups.state() if self._instruction.keys else None

    def merge(self, part: PartialBatch) -> int:
        """Add tuples that were folded elsewhere; returns how many of them missed a window.

        They are judged by what was promised before, all of them; nothing closes. Not for EMIT
        EMPTY, whose rows depend on the order in which tuples come.
        """
        opened, grid = self.clock.open, self.clock.grid
        first, last = grid.windows_of_panes(part.seen)
        late = int(part.counts[(first < opened) & (first <= last)].sum())
        groups = part.numbered(self._groups)
        self._make_room()
        self.panes.merge(part, groups, opened)
        return late

    def follow(self, part: PartialBatch, closings: Closings) -> Iterator[Run]:
        """As :meth:`process` of tuples that :func:`penstock.blocks.folded_run.takes` lets in."""
        self._compact()
        self.merge(part)
        if isinstance(self.clock, TimeClock) and part.highest is not None:
            events = Emissions.of(self.clock.follow(closings, part.highest))
            yield from self._closed(events, 0, len(events))

    def updated(self, parts: Sequence[PartialBatch], position: int) -> Iterator[Run]:
        """The rows, as they stand, that parts which were merged have changed in open windows."""
        width, changes = self.windows.width, Changes(self.clock.grid, self.clock.open)
        for part in parts:
            changes.add(part.panes, part.numbered(self._groups))
        windows = changes.windows()
        most = max(1, MOST_CELLS // width)
        for start in range(0, len(windows), most):
            some = windows[start : start + most]
            partials = self.panes.peek(some)
            # What has no tuple has no row: so it is with groups that have not changed.
            partials.rows.counts[~changes.among(some, width)] = 0
            positions = np.full(len(some), position)
            yield from self._output.rows(some, positions, partials, width, self._groups)

    def advance(self, highest: int, position: int) -> Iterator[Run]:
        """Let windows close as after a tuple with that tick."""
        self._compact()
        if isinstance(self.clock, TimeClock):
            self.clock.punctuator.advance(np.array([highest], np.int64))
        yield from self.settle(position)
