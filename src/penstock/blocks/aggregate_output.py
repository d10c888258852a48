"""The rows of windows that have closed, and what their columns promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate_clock import WindowClock
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.attribute import BorderDoesNotFit
from penstock.blocks.emission import Emissions
from penstock.blocks.group_owners import Codes, row_codes
from penstock.blocks.partials import CallDoesNotFit, Partials
from penstock.blocks.run import Promise, Run
from penstock.blocks.time_clock import TimeClock
from penstock.errors import ResultDoesNotFit
from penstock.kernels.groups import Groups
from penstock.kernels.survey import HIGHEST
from penstock.program.blocks import AggregateRows
from penstock.sql.plan import Call
from penstock.streams.schema import type_name


class WindowOutput:
    """Makes rows of partial results, by the schema of an instruction."""

    def __init__(self, instruction: AggregateRows, clock: WindowClock) -> None:
        self._instruction = instruction
        self._clock = clock

    def rows(
        self,
        windows: Indices,
        positions: Indices,
        partials: Partials,
        width: int,
        groups: Groups,
        coded: bool = False,
    ) -> Iterator[Run]:
        """The rows of windows, each a row of ``width`` cells: a run, then an error if one fails.

        A group has a row in the windows in which it has a tuple; without GROUP BY every window has.
        ``coded``: rows tell their order among those of other blocks that share the groups.
        """
        if self._instruction.keys:
            order = groups.in_order()
            cells = np.arange(len(windows))[:, None] * width + order
            present = partials.rows.counts[cells] > 0
            chosen = cells[present]
            which = np.repeat(np.arange(len(windows)), present.sum(axis=1))
            keys = groups.keys_of(chosen - which * width)
            partials = partials.of(partials.all.take(chosen))
        else:
            which, keys = np.arange(len(windows)), []
        try:
            results = partials.results()
        except CallDoesNotFit as error:
            failing = int(which[error.cell])
            ready = int(np.searchsorted(which, failing))
            if ready:
                # The rows of the windows before it are right, and nobody has seen them yet.
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

    def promises(self, events: Emissions) -> Iterator[Promise]:
        """What is promised of where later windows begin and end, after each event."""
        clock = self._clock
        if not isinstance(clock, TimeClock) or clock.attribute is None:
            return
        last = len(self._instruction.schema) - 1
        columns = (events.positions, events.stops, events.opens)
        for position, window, opened in zip(*(c.tolist() for c in columns), strict=True):
            if opened != HIGHEST:
                begin, end = (border(window) for border in (clock.grid.begin, clock.grid.end))
                yield Promise(position, last - 1, clock.attribute.physical(begin))
                yield Promise(position, last, clock.attribute.physical(end))


def _remedy(call: Call) -> str:
    if pa.types.is_integer(call.type):
        return f"Sum a decimal: {call.name.upper()}(CAST({call.argument} AS decimal(38, 0)))."
    return f"Make the values smaller, or fewer, before {call.name.upper()} gets them."
