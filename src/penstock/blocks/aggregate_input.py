"""What an aggregate takes of a run: which tuples count, what is known of them, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.aggregate_clock import Judged
from penstock.blocks.aggregates.cells import Indices
from penstock.blocks.emission import Emissions
from penstock.blocks.partials import Arrivals
from penstock.blocks.picked import picked
from penstock.blocks.window_grid import WindowGrid
from penstock.kernels.evaluate import evaluate, select
from penstock.kernels.vector import Failures, Mask, Vector, valid_of
from penstock.program.blocks import AggregateRows
from penstock.sql.expressions import TRUE, Column, Expression

MOST_FOLDED = 1 << 22
"""So many cells of panes may be new before windows are closed."""


def passed_rows(
    instruction: AggregateRows, judged: Judged, grid: WindowGrid, failures: Failures
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
    judged: Judged,
    passed: Indices | None,
    start: int,
    failures: Failures,
) -> tuple[Arrivals, list[Vector]]:
    """What the calls want to know of the rows that passed (None: all), and their keys.

    ``start`` is the number of the first of them.
    """
    inputs, times, length = judged.run.inputs, judged.times, len(judged.run)
    if passed is not None:
        inputs = tuple(picked(batch, passed) for batch in inputs)
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


def parts_of(ticks: Indices, grid: WindowGrid, width: int) -> int:
    """In how many parts tuples are folded, so that panes are not all there at once.

    A run may reach over many more panes than windows that are open at a time; each has ``width``
    cells.
    """
    if width == 1:
        return 1
    panes = grid.panes_of_ticks
    span = panes.number(int(ticks.max())) - panes.number(int(ticks.min())) + 1
    return min(len(ticks), min(span, len(ticks)) * width // MOST_FOLDED + 1)


def turns(
    judged: Judged,
    events: Emissions,
    rows: Indices,
    ticks: Indices,
    grid: WindowGrid,
    parts: int,
) -> Iterator[tuple[int, bool, Indices]]:
    """Tuples to fold in: after how many of the events, whether they are late, and which they are.

    Those in time come in as many parts, each after what closed before its first tuple. Those that
    missed windows follow those windows; the others of theirs are still open, or they are not folded
    in at all. Where both follow the same event, those in time are first: of a late tuple and one in
    time that have the same tick, the late one came later.
    """
    behind = np.isin(rows, judged.behind)
    made: list[tuple[int, bool, Indices]] = []
    for part in np.array_split(np.flatnonzero(~behind), parts):
        if len(part):
            made.append((int(events.before_row(rows[part[:1]])[0]) if made else 0, False, part))
    late = np.flatnonzero(behind & (grid.last_of(ticks) >= judged.open_at(rows)))
    before = events.before_row(rows[late])
    made += [(stop, True, late[before == stop]) for stop in np.unique(before).tolist()]
    yield from sorted(made, key=lambda turn: turn[:2])
