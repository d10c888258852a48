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

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate_clock import HIGHEST, Closings, Judged, clock_of
from penstock.blocks.aggregate_output import WindowOutput
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.partials import Arrivals, Layout
from penstock.blocks.plain_groups import Groups
from penstock.blocks.run import Control, Ended, Run
from penstock.blocks.state import BlockState
from penstock.blocks.window_panes import PaneWindows
from penstock.kernels.evaluate import evaluate, select
from penstock.kernels.vector import Failures, Mask, Vector, vector_of
from penstock.program.blocks import AggregateRows
from penstock.sql.expressions import TRUE, Expression
from penstock.streams.batches import no_rows, take

MOST_CELLS = 1 << 18
"""Windows are closed in parts of about so many cells."""
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
    """

    def __init__(self, instruction: AggregateRows, stream: str) -> None:
        self.failures = Failures()
        self._programs = 0
        self._numbers = 0
        self._closings = 0
        self._numbering = 0
        self._layout = Layout(instruction.calls, [0] * len(instruction.calls))
        self._groups = Groups([key.type for key in instruction.keys])
        self.clock = clock_of(instruction, stream)
        self.windows = PaneWindows(self._layout, self.clock.grid)
        self._seen: tuple[int, int] | None = None
        self._configure(instruction)

    def _configure(self, instruction: AggregateRows) -> None:
        self._instruction = instruction
        self._output = WindowOutput(instruction, self.clock)

    def program(self, instruction: AggregateRows) -> None:
        """Take other calls, another condition, size or slack; panes and groups are kept."""
        self._programs += 1
        self._layout = self._layout.changed(instruction.calls, self._programs)
        self.clock.program(instruction)
        self.windows.program(self._layout, self.clock.grid)
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
        opened = self.clock.open
        judged = self.clock.judge(run)
        yield from self._windows(judged, opened)
        controls: list[Control] = list(self._output.promises(judged.closings))
        if judged.ended is not None:
            controls.append(Ended(judged.ended))
        nothing = no_rows(self._instruction.schema)
        letters = (*run.letters, *judged.letters)
        yield Run((nothing,), np.empty(0, np.int64), tuple(controls), letters)

    def settle(self, position: int) -> Iterator[Run]:
        """Close what the program in force lets close, at ``position``."""
        opened, self.clock.open = self.clock.open, self.clock.settled()
        if self.clock.open > opened:
            closings = Closings.one(position, self.clock.open, 0)
            seen = None
            if self._instruction.emit_empty and self._seen is not None:
                seen = np.array([self._seen[1]])
            yield from self._closed(closings, opened, self.clock.open, seen)
            promises = tuple(self._output.promises(closings))
            nothing = no_rows(self._instruction.schema)
            yield Run((nothing,), np.empty(0, np.int64), promises)

    def _windows(self, judged: Judged, opened: int) -> Iterator[Run]:
        """Fold the tuples in and close windows, in the order that this file's argument asks for."""
        last_seen = self._see(judged) if self._instruction.emit_empty else None
        passed = self._passed(judged.run)
        stop = int(judged.closings.windows[-1]) if len(judged.closings) else opened
        if passed is not None and not len(passed):
            yield from self._closed(judged.closings, opened, stop, last_seen)
            return
        arrivals, groups = self._arrivals(judged, passed)
        if not len(judged.late):
            if len(arrivals.numbers):
                ticks = judged.ticks if passed is None else judged.ticks[passed]
                self.windows.lift(ticks, groups, arrivals)
            yield from self._closed(judged.closings, opened, stop, last_seen)
            return
        yield from self._interleaved(judged, opened, passed, arrivals, groups, last_seen)

    def _interleaved(
        self,
        judged: Judged,
        opened: int,
        passed: Indices | None,
        arrivals: Arrivals,
        groups: Indices | None,
        last_seen: Indices | None,
    ) -> Iterator[Run]:
        """The tuples that are in time, then windows and the tuples that missed them, by turns."""
        ticks = judged.ticks if passed is None else judged.ticks[passed]
        assert not isinstance(judged.open, int)
        opens = judged.open if passed is None else judged.open[passed]
        late = np.zeros(len(judged.run), np.bool_)
        late[judged.late] = True
        late = late if passed is None else late[passed]
        on_time = np.flatnonzero(~late)
        if len(on_time):
            mine = None if groups is None else groups[on_time]
            self.windows.lift(ticks[on_time], mine, arrivals, on_time)
        rows = np.flatnonzero(late & (self.clock.grid.last_of(ticks) >= opens))
        for window in np.unique(opens[rows]).tolist():
            yield from self._closed(judged.closings, opened, window, last_seen)
            opened = window
            those = rows[opens[rows] == window]
            mine = None if groups is None else groups[those]
            self.windows.lift_late(ticks[those], mine, arrivals, those)
        stop = int(judged.closings.windows[-1]) if len(judged.closings) else opened
        yield from self._closed(judged.closings, opened, stop, last_seen)

    def _passed(self, run: Run) -> Indices | None:
        """The rows for which WHERE is true; None if that is all of them."""
        where = self._instruction.where
        if not len(run):
            return np.empty(0, np.int64)
        if where == TRUE:
            return None
        mask = select(run.inputs, where, self.failures)
        return None if mask.all() else np.flatnonzero(mask)

    def _arrivals(self, judged: Judged, passed: Indices | None) -> tuple[Arrivals, Indices | None]:
        """What the calls want to know of the tuples that passed, and the group of each."""
        run = judged.run
        numbers = np.arange(self._numbers, self._numbers + len(run))
        self._numbers += len(run)
        inputs, times = run.inputs, judged.times
        if passed is not None:
            inputs = tuple(take(batch, passed) for batch in inputs)
            numbers = numbers[passed]
            times = None if times is None else times[passed]
        arguments: dict[Expression, Vector] = {}
        filters: dict[Expression, Mask] = {}
        for call in self._instruction.calls:
            if call.condition != TRUE and call.condition not in filters:
                filters[call.condition] = select(inputs, call.condition, self.failures)
            if call.argument is not None and call.argument not in arguments:
                arguments[call.argument] = evaluate(call.argument, inputs, self.failures)
        groups = None
        if self._instruction.keys:
            keys = [evaluate(k.expression, inputs, self.failures) for k in self._instruction.keys]
            groups = self._groups.number(keys)
            self._make_room()
        return Arrivals(arguments, filters, times, numbers), groups

    def _make_room(self) -> None:
        """Let every group have a cell; groups that are gone are forgotten when room is short."""
        if len(self._groups) > self.windows.width:
            self.windows.widen(max(len(self._groups), 2 * self.windows.width))

    def _see(self, judged: Judged) -> Indices:
        """Take note of the windows that tuples fall into; the last one by each event."""
        grid, ticks = self.clock.grid, judged.ticks
        before = self._seen[1] if self._seen is not None else -HIGHEST - 1
        if not len(ticks):
            return np.full(len(judged.closings), before, np.int64)
        first = np.maximum(grid.first_of(ticks), judged.open)
        last = grid.last_of(ticks)
        inside = last >= first
        latest = np.maximum.accumulate(np.where(inside, last, before))
        latest = np.maximum(np.concatenate((np.array([before]), latest)), before)
        if inside.any():
            low, high = int(first[inside].min()), int(latest[-1])
            known = self._seen
            self._seen = (low, high) if known is None else (min(low, known[0]), high)
        seen: Indices = latest[judged.closings.arrived]
        return seen

    # -- closing ----------------------------------------------------------------------------

    def _closed(
        self, closings: Closings, opened: int, stop: int, last_seen: Indices | None = None
    ) -> Iterator[Run]:
        """Close the windows from ``opened`` to before ``stop``."""
        if stop <= opened:
            return
        for windows in self._to_emit(closings, opened, stop, last_seen):
            events = np.searchsorted(closings.windows, windows, side="right")
            partials = self.windows.close(windows)
            yield from self._output.rows(
                windows, closings.positions[events], partials, self.windows.width, self._groups
            )
            self._closings += len(windows)
        self.windows.forget(stop)

    def _to_emit(
        self, closings: Closings, opened: int, stop: int, last_seen: Indices | None
    ) -> Iterator[Indices]:
        """The windows that have rows, in parts of a bounded size."""
        most = max(1, MOST_CELLS // self.windows.width)
        if self._instruction.window is None and not self._instruction.keys:
            yield np.zeros(1, np.int64)
            return
        if last_seen is None:
            windows = self.windows.filled(opened, stop)
            for start in range(0, len(windows), most):
                yield windows[start : start + most]
            return
        if self._seen is None:
            return
        low = max(opened, self._seen[0])
        for window, last in zip(closings.windows.tolist(), last_seen.tolist(), strict=True):
            high = min(window, stop, last + 1)
            for start in range(low, high, most):
                yield np.arange(start, min(start + most, high))
            low = max(low, window)

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

    # -- state ------------------------------------------------------------------------------

    def save(self) -> BlockState:
        """The panes, the groups, and what was promised."""
        columns = self.windows.save()
        state = BlockState(
            {
                "failures": self.failures.count,
                "programs": self._programs,
                "numbers": self._numbers,
                "since": list(self._layout.since),
                "seen": self._seen,
                "clock": self.clock.save(),
                "version": self.windows.version,
                "numbering": self._numbering,
                "groups": {"first": 0, "numbering": self._numbering},
            },
            columns=columns,
        )
        if self._instruction.keys:
            fields = [pa.field(f"k{i}", k.type) for i, k in enumerate(self._instruction.keys)]
            keys = self._groups.keys(np.arange(len(self._groups)))
            batch = pa.RecordBatch.from_arrays(keys, schema=pa.schema(fields))
            state.rows["groups"] = (batch.schema, [batch])
        return state

    def load(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        values = state.values
        self.failures.count = values["failures"]
        self._programs, self._numbers = values["programs"], values["numbers"]
        self._numbering = values["numbering"]
        self._seen = None if values["seen"] is None else tuple(values["seen"])
        self._layout = Layout(self._instruction.calls, values["since"])
        self.clock.load(values["clock"])
        self.windows = PaneWindows(self._layout, self.clock.grid)
        if self._instruction.keys:
            self._groups = Groups([key.type for key in self._instruction.keys])
            for batch in state.rows["groups"][1]:
                self._groups.number([vector_of(column) for column in batch.columns])
            self._make_room()
        self.windows.load(state.columns, values["version"])
