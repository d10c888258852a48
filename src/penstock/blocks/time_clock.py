"""The clock of windows on a time attribute: who is late, and what a run closes.

A window closes at the event that brings the promise to its end: the tuple that moves the promise (a
tuple is judged by the promise before it, counts, and closes windows after that), a punctuation, or
the end of the stream. Promises never go back, so a whole run can be judged at once.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from penstock.blocks.aggregate_clock import NOTHING, Closings, Glance, Judged
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.attribute import Attribute
from penstock.blocks.punctuator import Clock, Punctuator
from penstock.blocks.run import Ended, Letters, Promise, Run
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.survey import HIGHEST, LOWEST, Extents, survey
from penstock.program.blocks import AggregateRows
from penstock.streams.batches import take
from penstock.streams.windows import Sliding


class TimeClock:
    """The windows of a :class:`Sliding`: time is an attribute of the tuples."""

    def __init__(self, instruction: AggregateRows, stream: str) -> None:
        self._stream = stream
        self._clock = Clock(False)
        self.punctuator = Punctuator(self._clock)
        self.open = LOWEST
        self.attribute: Attribute | None = None
        self.program(instruction)

    def program(self, instruction: AggregateRows) -> None:
        """Take another size or slack; windows that have been closed stay so."""
        window, time = instruction.window, instruction.time
        assert isinstance(window, Sliding) and time is not None
        kind = instruction.schema.field(len(instruction.schema) - 1).type
        before, self.attribute = self.attribute, Attribute(time, kind)
        kept = None if before is None else self._rescaled(before)
        self.grid = WindowGrid.of(window, kept)
        self._start = window.start
        limits = self.attribute.limits
        self._limits = None if limits is None else self.grid.fitting(*limits)
        self.punctuator.program(window)

    def _rescaled(self, before: Attribute) -> int:
        """Where panes are cut, on a clock that may tick otherwise than it did."""
        assert self.attribute is not None
        ratio = Fraction(self.attribute.factor, before.factor)
        if ratio != 1:
            self.punctuator.rescale(ratio)
        return int(self.grid.cut * ratio)

    def settled(self) -> int:
        """The first window that is open under the program in force."""
        if self.punctuator.promise == LOWEST:
            return self.open
        return max(self.open, self.grid.closed(int(self.punctuator.promise)))

    def placed(self, run: Run) -> tuple[Run, Indices]:
        """The tuples that take part, whatever was promised, and their ticks."""
        run, ticks, _ = self._fitting(run)
        return run, ticks

    def judge(self, run: Run, glance: Glance | None = None) -> Judged:
        """Judge every tuple, in order, and move the promise along."""
        assert self.attribute is not None
        run, ticks, letters = self._fitting(run)
        extents = glance(run, ticks) if glance is not None and len(run) else None
        opened, events = self.open, _Events(self.open)
        behind: list[Indices] = [NOTHING]
        promised: list[Indices] = [NOTHING]
        done, ended = 0, None
        for control in (*run.controls, None):
            stop = len(run)
            if control is not None:
                stop = int(np.searchsorted(run.positions, control.position, side="right"))
            if stop > done:
                known = extents if stop - done == len(run) else None
                late, promises = self._take(ticks[done:stop], run, done, events, known)
                behind.append(late)
                promised.append(promises)
            done = stop
            if isinstance(control, Ended):
                self.punctuator.end()
                ended = control.position
                events.add([ended], [HIGHEST], [done])
            elif control is not None and control.column in (None, self.attribute.column):
                events.rise(control.position, self._punctuated(control), done)
        self.open = events.open
        rows = np.concatenate(behind)
        letters += self._late(run, ticks, rows, np.concatenate(promised))
        extent = None if extents is None else (extents.low, extents.high)
        closings = events.closings()
        return Judged(run, ticks, ticks, opened, closings, rows, letters, ended, extent)

    def follow(self, closings: Closings, highest: int) -> Closings:
        """Take tuples, none of them late, that were judged where nothing had been promised.

        ``closings`` is what they close there, ``highest`` their highest tick; returns what they
        close here, which is what was open until then.
        """
        if self.punctuator.slack is None:
            closings = Closings()  # the promise does not follow them
        mine = np.flatnonzero(closings.windows > self.open)
        if len(mine):
            self.open = int(closings.windows[mine[-1]])
        self.punctuator.pass_by(highest)
        return Closings(closings.positions[mine], closings.windows[mine], closings.arrived[mine])

    def _take(
        self, ticks: Indices, run: Run, start: int, events: _Events, extents: Extents | None
    ) -> tuple[Indices, Indices]:
        """Let tuples close windows; rows that belong to a closed one, and what was promised then.

        The tuples are those of the run from row ``start`` on.
        """
        slack = self.punctuator.slack
        if events.open == LOWEST and self.grid.first is not None and slack is not None:
            events.add(run.positions_of(np.array([start])), [self.grid.first], [start + 1])
        border = LOWEST
        if events.open > (LOWEST if self.grid.first is None else self.grid.first):
            border = max(LOWEST, self.grid.end(events.open - 1))
        seen = int(self.punctuator.seen)
        behind = None if slack is None else int(slack)
        found = survey(ticks, seen, border, behind, self.grid.ends, extents)
        windows = (found.borders - self.grid.end(0)) // self.grid.slide + 1
        rows = start + found.closings
        events.add(run.positions_of(rows), windows, rows + 1)
        late: Indices = found.late
        if self.grid.size < self.grid.slide and len(late):
            late = late[self.grid.first_of(ticks[late]) <= self.grid.last_of(ticks[late])]
        if not len(late):
            self.punctuator.pass_by(found.high)
            return late, late
        return start + late, self.punctuator.advance(ticks)[late]

    def _fitting(self, run: Run) -> tuple[Run, Indices, tuple[Letters, ...]]:
        """The tuples for which there are windows, their ticks, and letters for the others.

        Those are before the first window there is, or in one with a border that cannot be shown.
        """
        assert self.attribute is not None
        ticks = self.attribute.ticks(run.inputs[0])
        if not len(ticks) or (self._start is None and self._limits is None):
            return run, ticks, ()
        start = LOWEST if self._start is None else self._start
        low, stop = self._limits or (start, HIGHEST)
        low = max(low, start)
        if low <= int(ticks.min()) and int(ticks.max()) < stop:
            return run, ticks, ()
        out = (ticks < low) | (ticks >= stop)
        # Where windows leave gaps, a tuple out there may be in none.
        out &= (ticks < start) | (self.grid.first_of(ticks) <= self.grid.last_of(ticks))
        gone, kept = np.flatnonzero(out), np.flatnonzero(~out)
        batch = take(run.inputs[0], gone)
        whys = [self._why_not(tick) for tick in ticks[gone].tolist()]
        shown = zip(self.attribute.shown(batch), whys, strict=True)
        reasons = [f"{self.attribute.name} = {value} is {why}" for value, why in shown]
        letters = (Letters("dead", self._stream, batch, run.positions[gone], reasons),)
        run = Run((take(run.inputs[0], kept),), run.positions[kept], run.controls, run.letters)
        return run, ticks[kept], letters if len(gone) else ()

    def _why_not(self, tick: int) -> str:
        """Why there are no windows for a tick."""
        assert self.attribute is not None
        if self._start is not None and tick < self._start:
            return f"before START AT {self.attribute.show(self._start)}"
        assert self._limits is not None
        return f"in a window {self.attribute.beyond(tick >= self._limits[1])}"

    def _punctuated(self, control: Promise) -> int:
        assert self.attribute is not None
        self.punctuator.from_source(self.attribute.tick(control.value))
        promise = int(self.punctuator.promise)
        return self.grid.closed(promise) if promise != LOWEST else LOWEST

    def _late(
        self, run: Run, ticks: Indices, behind: Indices, promised: Indices
    ) -> tuple[Letters, ...]:
        """Of the tuples behind, those that missed a window: it ended before what was promised.

        Since the size may have been changed, a window may be closed that has not ended.
        """
        assert self.attribute is not None
        attribute, grid = self.attribute, self.grid
        if not len(behind):
            return ()
        first, after = grid.first_of(ticks[behind]), grid.closed_by(promised)
        missed = np.flatnonzero(first < after)
        if not len(missed):
            return ()
        rows = behind[missed]
        batch = take(run.inputs[0], rows)
        last = np.minimum(grid.last_of(ticks[rows]), after[missed] - 1)
        columns = (first[missed].tolist(), last.tolist(), promised[missed].tolist())
        # Tuples are many, but windows and promises that they missed are few.
        missing = cache(self._missed)
        show = cache(attribute.show_promise)
        reasons = [
            f"{attribute.name} = {value} is before the punctuation {show(promise)}: it missed "
            f"{missing(low, high)}"
            for value, low, high, promise in zip(attribute.shown(batch), *columns, strict=True)
        ]
        return (Letters("late", self._stream, batch, run.positions[rows], reasons),)

    def _missed(self, first: int, last: int) -> str:
        low, high = self.show(first), self.show(last)
        return (
            f"the window {low}" if first == last else f"{last - first + 1} windows, {low} to {high}"
        )

    def show(self, window: int) -> str:
        """A window as a reader writes it."""
        assert self.attribute is not None
        begin, end = self.grid.begin(window), self.grid.end(window)
        return f"[{self.attribute.show(begin)}, {self.attribute.show(end)})"

    def save(self) -> dict[str, Any]:
        """What was promised and which windows are closed."""
        known = self.punctuator
        return {
            "open": self.open,
            "cut": self.grid.cut,
            "seen": known.seen,
            "promise": known.promise,
            "has_source": known.has_source,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.open = saved["open"]
        self.grid = self.grid.with_cut(saved["cut"])
        self.punctuator.seen, self.punctuator.promise = saved["seen"], saved["promise"]
        self.punctuator.has_source = saved["has_source"]


class _Events:
    """The events of a run that close windows; ``open`` is the first window that is open by now."""

    def __init__(self, window: int) -> None:
        self.open = window
        self._columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def add(self, *columns: Any) -> None:
        """Events at positions, after which these windows are open, of so many tuples."""
        for known, new in zip(self._columns, columns, strict=True):
            known.append(np.asarray(new, np.int64))
        if len(columns[1]):
            self.open = int(columns[1][-1])

    def rise(self, position: int, window: int, arrived: int) -> None:
        """An event that may close windows."""
        if window > self.open:
            self.add([position], [window], [arrived])

    def closings(self) -> Closings:
        """All events."""
        return Closings(*(np.concatenate([NOTHING, *column]) for column in self._columns))
