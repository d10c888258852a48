"""Aggregation and GROUP BY: the rows of every window, by group, when the window closes.

Why it is exact whatever the size of the runs. A tuple counts in those of its windows that are open
when it comes. A tuple that misses none of its windows belongs to windows alone that close after it
has come, so all such tuples of a run may be folded into their panes first, and the windows of the
run be closed after that, one event after another. The others, the late ones, count in an interval
of windows too, which begins with the first that is open when they come. Either they are held apart
with that window until the run's windows have closed, and each window is made of panes and of those
in whose intervals it is. Or they are folded in between: after the windows that they missed have
closed, and before any other does. So each window is made of exactly the tuples that came before the
event that closed it.

Windows come oldest first, since punctuations never go back, and at the position of the event that
closed them. This is the aggregation-GroupBy unit of Najafi 2019 §7.1.5, whose END_MESSAGE is the
end of the stream, with the windows of Oge et al. 2013.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.aggregate.clock import (
    Closings,
    CountClock,
    EndClock,
    JudgedRun,
    TimeClock,
    WindowClock,
)
from penstock.blocks.aggregate.functions.cells import Indices, rows_of
from penstock.blocks.aggregate.group_owners import owners
from penstock.blocks.aggregate.output import Emissions, Span, WindowOutput
from penstock.blocks.aggregate.panes import PaneCounts, Selection
from penstock.blocks.aggregate.partial_batch import Changes, PartialBatch
from penstock.blocks.aggregate.partials import Arrivals, Layout
from penstock.blocks.aggregate.wid import WindowModules, modules_of
from penstock.blocks.aggregate.window_grid import WindowGrid
from penstock.blocks.aggregate.window_panes import PaneWindows
from penstock.blocks.aggregate.window_rows import WindowRows
from penstock.blocks.contract import (
    LETTERS,
    OUT,
    Account,
    Batch,
    BlockId,
    Instructions,
    Measures,
    Message,
    Partials,
    Port,
    Sent,
    Site,
    Traits,
)
from penstock.blocks.join.parallel_probe import CoreThreads
from penstock.blocks.run import Control, EndOfStream, MissedTuples, Run, Share
from penstock.blocks.state import BlockState
from penstock.errors import ResultDoesNotFit
from penstock.kernels.aggregate.groups import Groups
from penstock.kernels.aggregate.survey import HIGHEST, LOWEST, Extents
from penstock.kernels.expressions.dictionary_encoded import code_of
from penstock.kernels.expressions.evaluate import evaluate, select
from penstock.kernels.expressions.vector import Failures, Mask, Vector, valid_of
from penstock.program.isa.block_instructions import AggregateRows
from penstock.program.isa.flow import Flow
from penstock.sql.expressions import TRUE, Column, Expression
from penstock.streams.batches import no_rows
from penstock.streams.windows import Sliding, SlidingRows
from penstock.tuning import TUNING

Placed: TypeAlias = tuple[Indices, Indices | None, Arrivals]
"""Tuples, and the tick and the group of each; None without GROUP BY."""
_RUNS_TO_SKIP = 16
"""Runs that are not counted ahead after one in which a tuple was late."""


class AggregateBlock:
    """Windows of groups. Takes runs of its input and yields runs of rows.

    With a share, it has its part of the groups. ``core_threads_of`` makes the threads of a flow,
    which divide a run's tuples among them.
    """

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out", "letters")

    def __init__(
        self,
        number: BlockId,
        core_threads_of: Callable[[Flow | None], CoreThreads | None] = lambda _: None,
    ) -> None:
        self.number = number
        self.name = f"aggregate #{number}"
        self.failures = Failures()
        self._core_threads_of = core_threads_of
        self._threads: CoreThreads | None = None
        self._share: Share | None = None
        self._is_read = True
        self._is_programmed = False
        self._has_settled = True
        self.set_aside = {"late": 0, "dead": 0}
        """Tuples that came too late for a window, and those for which there is none."""
        self.programs = self._numbers = 0
        self._closings = 0
        self._numbering = 0
        self._due = LOWEST
        self._ahead = CountingAhead()
        self._span = Span()

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        """Take a batch, tuples that were folded elsewhere, or an instruction."""
        if isinstance(message, Instructions):
            if self.number in message.bodies:
                self._take_instruction(message.bodies[self.number], message.site)
            elif not self._has_settled:
                # Not at once: what the change of a join before it makes expire counts here.
                for run in self._settle(message.position):
                    yield OUT, message.made(run)
                self._has_settled = True
            yield OUT, message
        elif not self._is_programmed:
            yield OUT, message
        elif isinstance(message, Batch):
            yield from self._take(message)
        else:
            yield from self._take_partials(message)

    def _take_instruction(self, instruction: AggregateRows, site: Site) -> None:
        self._is_read, self._share = site.is_read, site.share
        if self._is_programmed:
            self._program(instruction)
            self._has_settled = False
            return
        self._threads = self._core_threads_of(site.flow)
        since = [0] * len(instruction.calls)
        self._layout = Layout(instruction.calls, instruction.counted, since)
        self._groups = Groups([key.type for key in instruction.keys])
        self.clock = clock_of(instruction, instruction.stream)
        self.windows = windows_of(instruction, self._layout, self.clock.grid, self._threads)
        self._configure(instruction)
        self._is_programmed = True

    def _configure(self, instruction: AggregateRows) -> None:
        self._instruction = instruction
        self._output = WindowOutput(instruction, self.clock)
        self._nothing = no_rows(instruction.schema)
        self._may_count = self._may_count_alone()

    def _program(self, instruction: AggregateRows) -> None:
        """Take other calls, another condition, size or slack; panes and groups stay."""
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

    def measures(self) -> Measures:
        """How many groups, panes or window modules, and open windows it has."""
        figures = {"groups": len(self._groups), **self.windows.measures(self.clock.open)}
        return {
            "expression_failures": self.failures.count,
            "window_bytes": self.nbytes,
            **{name: [figure] for name, figure in figures.items()},
        }

    def traits(self) -> Traits:
        """It holds groups, and may take tuples that were folded elsewhere."""
        return Traits("groups", self._account, self._takes)

    def _account(self, slot: int) -> Account:
        return Account(late=self.set_aside["late"], dead=self.set_aside["dead"])

    # -- a run ------------------------------------------------------------------------------

    def _take(self, message: Batch) -> Iterator[Sent]:
        """Give the rows of the windows that close in this batch, oldest first.

        The last run has no rows but the controls of the whole.
        """
        run = message.run
        self._compact()
        judged = self.clock.judge(run, self._glance)
        events = Emissions.of(judged.closings)
        if self._instruction.emit_empty:
            events = self._span.emissions(judged, self.clock.grid)
        events, too_many = self._bounded(events)
        for made in self._windows(judged, events):
            yield OUT, message.made(made, False)
        if too_many is not None:
            raise too_many
        controls: list[Control] = list(self._output.punctuations(events)) if self._is_read else []
        if judged.ended is not None:
            controls.append(EndOfStream(judged.ended))
        for letter in judged.letters:
            self.set_aside[letter.kind] += len(letter.positions)
            yield LETTERS, letter
        nothing = Run((self._nothing,), np.empty(0, np.int64), tuple(controls))
        yield OUT, message.made(nothing, True)

    def _settle(self, position: int) -> Iterator[Run]:
        """Close what the program in force lets close, at ``position``.

        Under other columns, or windows of another size, the same punctuation may close more.
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
        punctuations = tuple(self._output.punctuations(events)) if self._is_read else ()
        yield Run((self._nothing,), np.empty(0, np.int64), punctuations)

    def _bounded(self, events: Emissions) -> tuple[Emissions, ResultDoesNotFit | None]:
        """The events before one that brings out too many windows, and the error of that one."""
        emits = self._instruction.emit_empty
        most = TUNING.most_empty_windows
        found = self._span.beyond(events, self._due, most) if emits else None
        if found is None:
            return events, None
        return events.first_ones(found[0]), self._output.too_many(found[1], most)

    def _windows(self, judged: JudgedRun, events: Emissions) -> Iterator[Run]:
        """Fold the tuples in and close windows, in the order that this file's argument asks for."""
        if self._counts_alone(judged):
            yield from self._closed(events, 0, len(events))
            return
        grid = self.clock.grid
        passed = passed_rows(self._instruction, judged, grid, self.failures)
        arrivals, groups, passed = self._arrivals(judged, passed)
        done = 0
        if arrivals.length:
            ticks = judged.ticks if passed is None else judged.ticks[passed]
            if not len(judged.behind):
                self.windows.lift(ticks, groups, arrivals, len(self._groups))
            else:
                rows = np.arange(len(judged.run)) if passed is None else passed
                done = yield from self._lift_with_late(
                    judged, events, rows, (ticks, groups, arrivals)
                )
        yield from self._closed(events, done, len(events))

    def _lift_with_late(
        self, judged: JudgedRun, events: Emissions, rows: Indices, tuples: Placed
    ) -> Generator[Run, None, int]:
        """Fold tuples in of which some are late; returns for how many events windows are closed.

        Those in time come first. So of a late tuple and one in time that have the same tick, the
        late one, which came later, is folded in later. A late tuple all of whose windows are closed
        is not folded in at all.
        """
        ticks = tuples[0]
        behind = np.isin(rows, judged.behind)
        in_time = np.flatnonzero(~behind)
        if len(in_time):
            self.windows.lift(*self._numbered(tuples, in_time))
        opens = judged.open_at(rows)
        late = np.flatnonzero(behind & (self.clock.grid.last_of(ticks) >= opens))
        if not len(late):
            return 0
        before = events.before_row(rows[late])
        starts = np.append(0, np.flatnonzero(np.diff(before)) + 1)
        if self.windows.should_hold(len(starts)):
            self.windows.hold_late(*self._numbered(tuples, late), opens[late])
            return 0
        done = 0
        for those, stop in zip(np.split(late, starts[1:]), before[starts].tolist(), strict=True):
            yield from self._closed(events, done, stop)
            done = stop
            self.panes.lift_late(*self._numbered(tuples, those))
        return done

    def _numbered(
        self, tuples: Placed, those: Indices
    ) -> tuple[Indices, Indices | None, Arrivals, int]:
        """Some tuples with numbers that follow all others', as the windows take them."""
        ticks, groups, arrivals = tuples
        some = arrivals.only(those, self._numbers)
        self._numbers += len(those)
        mine = None if groups is None else groups[those]
        return ticks[those], mine, some, len(self._groups)

    def _counts_alone(self, judged: JudgedRun) -> bool:
        """Count the tuples, if nothing else is asked and none is late; False if not."""
        may = self._may_count and len(judged.run)
        found = self._ahead.found(self._instruction.where, self.panes, judged) if may else None
        if found is None:
            return False
        self.panes.add(found.counted)
        self.failures.count += found.failures
        self._numbers += len(judged.run)
        return True

    def _may_count_alone(self) -> bool:
        grid = self.clock.grid
        asked = self._layout.counts_alone and not self._instruction.keys
        return asked and isinstance(self.windows, PaneWindows) and grid.size >= grid.slide

    def _glance(self, run: Run, ticks: Indices) -> Extents | None:
        where = self._instruction.where
        return self._ahead.glance(where, self.panes, run, ticks) if self._may_count else None

    def _arrivals(
        self, judged: JudgedRun, passed: Indices | None
    ) -> tuple[Arrivals, Indices | None, Indices | None]:
        """The arguments of the tuples that passed, the group of each, and their rows; where blocks
        share the groups, those of this block.
        """
        start = self._numbers
        arrivals, keys = arriving(self._instruction, judged, passed, start, self.failures)
        self._numbers += arrivals.length
        if not keys or not arrivals.length:
            return arrivals, None, passed
        if self._share is not None:
            owned = owners([key.to_arrow() for key in keys], self._share.cores) == self._share.core
            mine = np.flatnonzero(owned)
            arrivals, keys = arrivals.only(mine, start), [rows_of(key, mine) for key in keys]
            passed = mine if passed is None else passed[mine]
        return arrivals, self._groups.numbers(keys, arrivals.length), passed

    # -- closing ----------------------------------------------------------------------------

    def _closed(self, events: Emissions, start: int, stop: int) -> Iterator[Run]:
        """Bring out what the events from ``start`` to before ``stop`` do."""
        if start == stop:
            return
        coded = self._share is not None
        for windows in self._to_emit(int(events.stops[stop - 1])):
            which = np.searchsorted(events.stops[start:stop], windows, side="right")
            positions = events.positions[start:stop][which]
            for rows in self._rows_of(windows, events.empty[start:stop][which]):
                yield from self._output.rows(windows, positions, rows, self._groups, coded)
            self._closings += len(windows)
        self._due = max(self._due, int(events.stops[stop - 1]))
        self.windows.forget(int(events.opens[stop - 1]))

    def _rows_of(self, windows: Indices, empty: Mask) -> Iterator[WindowRows]:
        """The rows of windows, of which some come out as empty ones."""
        if not empty.any():
            groups = self._groups if self._instruction.keys else None
            yield from self.windows.close(windows, groups)
            return
        made = self.windows.empty(windows)
        others = np.flatnonzero(~empty)
        if len(others):
            [rows] = self.windows.close(windows[others], None)
            made = replace(made, partials=rows.partials.of(rows.partials.all.like(len(windows))))
            made.partials.all.put(others, rows.partials.all)
        yield made

    def _to_emit(self, stop: int) -> Iterator[Indices]:
        """The windows before ``stop`` that are due and have rows, in parts of a bounded size."""
        most = TUNING.cells_per_part
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
        window for every pane there is, so it is done once per that many closed windows.
        """
        if len(self._groups) < TUNING.fewest_groups or self._closings < len(self.windows):
            return
        self._closings = 0
        live = self.windows.live_groups()
        if 2 * len(live) < len(self._groups):
            self._groups.keep(live)
            self.windows.renumber(live)
            self._numbering += 1

    def close(self) -> None:
        """Let the threads go."""
        if self._threads is not None:
            self._threads.close()

    # -- state ------------------------------------------------------------------------------

    def save(self) -> BlockState:
        """The panes, the groups, and the punctuation."""
        columns = self.windows.save()
        state = BlockState(
            {
                "failures": self.failures.count,
                "set_aside": dict(self.set_aside),
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

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state, under the program that the block has."""
        values = state.values
        self.failures.count = values["failures"]
        self.set_aside = dict(values.get("set_aside", self.set_aside))
        self.programs, self._numbers = values["programs"], values["numbers"]
        self._numbering = values["numbering"]
        self._span.first, self._span.last = values["span"]
        self._due = values["due"]
        instruction = self._instruction
        self._layout = Layout(instruction.calls, instruction.counted, values["since"])
        self.clock.load(values["clock"])
        self.windows = windows_of(instruction, self._layout, self.clock.grid, self._threads)
        if self._instruction.keys:
            self._groups = Groups([key.type for key in self._instruction.keys])
            for batch in state.rows["groups"][1]:
                self._groups.load(batch)
        self.windows.load(state.columns, values["version"], len(self._groups))
        if self.clock.open > LOWEST:
            self.windows.forget(self.clock.open)

    # -- tuples that are folded elsewhere ---------------------------------------------------

    @property
    def panes(self) -> PaneWindows:
        """The windows, which must be of panes."""
        assert isinstance(self.windows, PaneWindows)
        return self.windows

    def fold(self, run: Run) -> Indices:
        """Fold tuples into their panes, whatever the punctuation; returns their ticks."""
        run, ticks = self.clock.placed(run)
        judged = JudgedRun(run, ticks, None, LOWEST)
        passed = passed_rows(self._instruction, judged, self.clock.grid, self.failures)
        arrivals, groups, passed = self._arrivals(judged, passed)
        if arrivals.length:
            passed_ticks = ticks if passed is None else ticks[passed]
            self.windows.lift(passed_ticks, groups, arrivals, len(self._groups))
        return ticks

    def group_keys(self) -> pa.RecordBatch | None:
        """The keys of all groups, by number; None without GROUP BY."""
        return self._groups.state() if self._instruction.keys else None

    def _takes(self, message: Partials) -> bool:
        """Whether it may merge the tuples, which came in their order; if not, it must see them.

        The argument is in :mod:`penstock.blocks.aggregate.folding`.
        """
        if self.programs or not isinstance(self.windows, PaneWindows):
            return False  # calls that came with a change count from there, in cells of their own
        clock = self.clock
        if isinstance(clock, EndClock):
            return True
        if not isinstance(clock, TimeClock):
            return False
        if message.is_disordered and clock.punctuator.slack is not None:
            return False
        bounds = (clock.grid.windows_of_panes(part.seen) for part in message.parts)
        return not any(((first < clock.open) & (first <= last)).any() for first, last in bounds)

    def _take_partials(self, message: Partials) -> Iterator[Sent]:
        if message.closings is None:
            runs = self._merged(message)
            yield LETTERS, MissedTuples("late", sum(self._merge(part) for part in message.parts))
            yield LETTERS, MissedTuples("dead", sum(part.dead for part in message.parts))
        else:
            runs = self._followed(message.parts, message.closings)
        for run in runs:
            yield OUT, Batch(message.first, message.first, (run,), False)

    def _merged(self, message: Partials) -> Iterator[Run]:
        """The rows of parts that were merged at one position: of windows that close, or all."""
        highest = [part.highest for part in message.parts if part.highest is not None]
        if not highest:
            return
        if message.update:
            yield from self._updated(message.parts, message.first)
        for run in self._advance(max(highest), message.first):
            yield _without_rows(run) if message.update else run

    def _merge(self, part: PartialBatch) -> int:
        """Add tuples that were folded elsewhere; returns how many of them missed a window.

        All are judged by the punctuation before them; nothing closes. Not for EMIT
        EMPTY, whose rows depend on the order in which tuples come.
        """
        opened, grid = self.clock.open, self.clock.grid
        first, last = grid.windows_of_panes(part.seen)
        late = int(part.counts[(first < opened) & (first <= last)].sum())
        groups = part.numbered(self._groups)
        self.panes.merge(part, groups, len(self._groups), opened)
        return late

    def _followed(self, parts: Sequence[PartialBatch], closings: Closings) -> Iterator[Run]:
        """The rows of tuples that :meth:`_takes` lets in, as if they were taken one by one."""
        self._compact()
        for part in parts:
            self._merge(part)
        highest = [part.highest for part in parts if part.highest is not None]
        if isinstance(self.clock, TimeClock) and highest:
            events = Emissions.of(self.clock.follow(closings, max(highest)))
            yield from self._closed(events, 0, len(events))

    def _updated(self, parts: Sequence[PartialBatch], position: int) -> Iterator[Run]:
        """The current rows of open windows that merged parts have changed."""
        changes = Changes(self.clock.grid, self.clock.open)
        for part in parts:
            changes.add(part.panes, part.numbered(self._groups))
        windows = changes.windows()
        if not len(windows):
            return
        keyed = bool(self._instruction.keys)
        changed, groups = (changes.groups(), self._groups) if keyed else (None, None)
        positions = np.full(len(windows), position)
        for rows in self.panes.peek(windows, changed, groups):
            some = rows.only(changes.among(windows[rows.which], rows.groups))
            yield from self._output.rows(windows, positions, some, self._groups)

    def _advance(self, highest: int, position: int) -> Iterator[Run]:
        """Let windows close as after a tuple with that tick."""
        self._compact()
        if isinstance(self.clock, TimeClock):
            self.clock.punctuator.advance(np.array([highest], np.int64))
        yield from self._settle(position)


def _without_rows(run: Run) -> Run:
    inputs = tuple(batch.slice(0, 0) for batch in run.inputs)
    return replace(run, inputs=inputs, at=run.positions[:0])


class _LazyRows:
    """Some rows of a batch, whose columns are gathered on demand: as much as expressions read."""

    def __init__(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> None:
        self._batch = batch
        self._rows: Any = pa.array(rows)
        self._columns: dict[int, Any] = {}
        self.num_rows = len(rows)

    def column(self, index: int) -> Any:
        """A column of the rows."""
        found = self._columns.get(index)
        if found is None:
            found = self._columns[index] = self._batch.column(index).take(self._rows)
        return found


def lazy_rows(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows, for expressions to be evaluated over and for nothing else."""
    return cast(pa.RecordBatch, _LazyRows(batch, rows))


def passed_rows(
    instruction: AggregateRows, judged: JudgedRun, grid: WindowGrid, failures: Failures
) -> Indices | None:
    """The rows for which WHERE is true and that are in some window; None if all are."""
    if not len(judged.run):
        return np.empty(0, np.int64)
    mask = None
    if instruction.where != TRUE:
        mask = select(judged.run.inputs, instruction.where, failures)
    if grid.size < grid.slide:
        inside = grid.first_of(judged.ticks) <= grid.last_of(judged.ticks)
        mask = inside if mask is None else mask & inside
    return None if mask is None or mask.all() else np.flatnonzero(mask)


def arriving(
    instruction: AggregateRows,
    judged: JudgedRun,
    passed: Indices | None,
    start: int,
    failures: Failures,
) -> tuple[Arrivals, list[Vector]]:
    """The arguments and filters of the calls for rows that passed (None: all), and their keys.

    ``start`` is the number of the first of them.
    """
    inputs, times, length = judged.run.inputs, judged.times, len(judged.run)
    if passed is not None:
        inputs = tuple(lazy_rows(batch, passed) for batch in inputs)
        times = None if times is None else times[passed]
        length = len(passed)
    arguments: dict[Expression, Vector] = {}
    filters: dict[Expression, Mask] = {}
    for call in instruction.calls:
        if call.condition != TRUE and call.condition not in filters:
            filters[call.condition] = select(inputs, call.condition, failures)
        if call.argument is not None and call.argument not in arguments:
            arguments[call.argument] = evaluate(call.argument, inputs, failures)
    keys = [_key(key.expression, inputs, failures) for key in instruction.keys]
    return Arrivals(length, start, arguments, filters, times), keys


def _key(expression: Expression, inputs: Sequence[pa.RecordBatch], failures: Failures) -> Vector:
    """The values of a key; a column of dictionary-encoded words stays so."""
    if isinstance(expression, Column):
        column: Any = inputs[expression.side].column(expression.index)
        if pa.types.is_dictionary(column.type):
            return Vector(column, valid_of(column), expression.type)
    return evaluate(expression, inputs, failures)


def clock_of(instruction: AggregateRows, stream: str) -> WindowClock:
    """The clock of an aggregate, by its window."""
    if isinstance(instruction.window, Sliding):
        return TimeClock(instruction, stream)
    if isinstance(instruction.window, SlidingRows):
        return CountClock(instruction)
    return EndClock(instruction)


def windows_of(
    instruction: AggregateRows, layout: Layout, grid: WindowGrid, threads: CoreThreads | None
) -> PaneWindows | WindowModules:
    """The store of an aggregate's windows, by its kernel."""
    if instruction.kernel == "wid" and isinstance(instruction.window, Sliding):
        return WindowModules(layout, grid, modules_of(instruction.window))
    return PaneWindows(layout, grid, threads)


@dataclass(frozen=True)
class AheadCounts:
    """The tuples of each pane for which WHERE is true, and for how many it failed."""

    counted: PaneCounts
    failures: int


class CountingAhead:
    """Counts the tuples of a run before it is known whether any of them is late.

    For COUNT(*) alone, counting is as fast as reading the times, so both are done in one pass. If a
    tuple turns out to be late, the counts are dropped, and the run is folded as for other calls.
    """

    def __init__(self) -> None:
        self._found: AheadCounts | None = None
        self._runs_to_skip = 0

    def glance(
        self, where: Expression, panes: PaneWindows, run: Run, ticks: Indices
    ) -> Extents | None:
        """Count a run as if no tuple were late, if that is likely to be of use.

        Returns the extent of its ticks, so that they are not read again.
        """
        self._found = None
        self._runs_to_skip = max(0, self._runs_to_skip - 1)
        if not self._runs_to_skip:
            self._found = count(where, panes, run, ticks, None)
        return None if self._found is None else self._found.counted.extents

    def found(self, where: Expression, panes: PaneWindows, judged: JudgedRun) -> AheadCounts | None:
        """The counts of the run that was glanced at; None if it cannot be counted like this."""
        found, self._found = self._found, None
        if len(judged.behind):
            self._runs_to_skip = _RUNS_TO_SKIP
            return None
        if found is None:
            ticks = judged.ticks
            extent = judged.extent or (int(ticks.min()), int(ticks.max()))
            found = count(where, panes, judged.run, ticks, extent)
        return found


def count(
    where: Expression,
    panes: PaneWindows,
    run: Run,
    ticks: Indices,
    extent: tuple[int, int] | None,
) -> AheadCounts | None:
    """Count the tuples of a run by pane; None if they are too far apart, or not in the extent."""
    failures: list[Failures] = []
    equal = code_of(where, run.inputs[0]) if len(run.inputs) == 1 else None

    def selected(start: int, stop: int) -> Selection:
        if where == TRUE:
            return None, None
        if equal is not None:
            return None, (equal[0][start:stop], equal[1])
        inputs = [batch.slice(start, stop - start) for batch in run.inputs]
        failures.append(Failures())
        return select(inputs, where, failures[-1]), None

    counted = panes.count(ticks, extent, selected)
    if counted is None:
        return None
    return AheadCounts(counted, sum(each.count for each in failures))
