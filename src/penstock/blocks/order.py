"""ORDER BY and LIMIT: sort and cut the rows of each window, or all rows once the input has ended.

The order-by unit of Najafi 2019 §7.1.5. Rows of one window come in one run, since an aggregate
never parts them; equal rows keep the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.blocks.contract import (
    OUT,
    Batch,
    BlockId,
    Instructions,
    Measures,
    Message,
    Port,
    Sent,
    Traits,
)
from penstock.blocks.run import EndOfStream, Run
from penstock.blocks.state import BlockState
from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures, Vector, is_text
from penstock.kernels.predicate.keys import comparison_key
from penstock.program.isa.block_instructions import OrderRows
from penstock.sql.plan import SortKey
from penstock.streams.batches import concat, no_rows, take

Indices = npt.NDArray[np.int64]


class OrderBlock:
    """Stores rows until all that are sorted together have come."""

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out",)

    def __init__(self, number: BlockId) -> None:
        self.number = number
        self.name = f"order #{number}"
        self._failures = Failures()
        self._waiting: tuple[pa.RecordBatch, ...] | None = None
        self._numbering = 0
        self._is_programmed = False

    def step(self, port: Port, message: Message) -> Sequence[Sent]:
        """Take a batch, or other keys or another limit from here on."""
        if isinstance(message, Batch) and self._is_programmed:
            return ((OUT, message.made(self._complete(message.run), True)),)
        if isinstance(message, Instructions) and self.number in message.bodies:
            body: OrderRows = message.bodies[self.number]
            self._is_programmed = True
            self._sort, self._limit = body.sort, body.limit
            self._window_column = body.window_column
        return ((OUT, message),)

    @property
    def nbytes(self) -> int:
        """The memory of the rows that it holds."""
        return sum(batch.nbytes for batch in self._waiting or ())

    def _complete(self, run: Run) -> Run:
        """The rows that are complete, in order."""
        if self._window_column is not None:
            return self._each_window(run)
        end = next((c for c in run.controls if isinstance(c, EndOfStream)), None)
        self._store(run.inputs)
        if end is None:
            nothing = tuple(no_rows(batch.schema) for batch in run.inputs)
            return Run(nothing, np.empty(0, np.int64), run.controls)
        assert self._waiting is not None
        inputs = self._sorted(self._waiting)
        self._waiting = None
        positions = np.full(inputs[0].num_rows, end.position, np.int64)
        return Run(inputs, positions, run.controls)

    def _store(self, inputs: tuple[pa.RecordBatch, ...]) -> None:
        """Store the rows; with a limit, only those that can still be among the first."""
        waiting = self._waiting
        if waiting is not None and waiting[0].num_rows:
            inputs = tuple(concat(pair) for pair in zip(waiting, inputs, strict=True))
        if self._limit is not None and inputs[0].num_rows > max(4096, 2 * self._limit):
            inputs = self._sorted(inputs)
            self._numbering += 1
        self._waiting = inputs

    def _sorted(self, inputs: tuple[pa.RecordBatch, ...]) -> tuple[pa.RecordBatch, ...]:
        order = self._order(inputs, None)[: self._limit]
        return tuple(take(batch, order) for batch in inputs)

    def _each_window(self, run: Run) -> Run:
        if not len(run):
            return run
        assert self._window_column is not None
        column = run.inputs[0].column(self._window_column)
        windows = column.dictionary_encode().indices.to_numpy().astype(np.int64)
        order = self._order(run.inputs, windows)
        if self._limit is not None:
            sorted_windows = windows[order]
            starts = np.searchsorted(sorted_windows, sorted_windows)
            order = order[np.arange(len(order)) - starts < self._limit]
        inputs = tuple(take(batch, order) for batch in run.inputs)
        return replace(run, inputs=inputs, at=run.positions[order], ties=None)

    def _order(self, inputs: Sequence[pa.RecordBatch], windows: Indices | None) -> Indices:
        """The rows by window and by the sort keys."""
        if not len(self._sort):
            return np.arange(inputs[0].num_rows)
        columns: list[Any] = [] if windows is None else [windows]
        for key in self._sort:
            columns += _columns(evaluate(key.expression, inputs, self._failures), key)
        return np.lexsort(columns[::-1])

    def measures(self) -> Measures:
        """How often an expression has failed, and the memory of what it holds."""
        return {"expression_failures": self._failures.count, "window_bytes": self.nbytes}

    def traits(self) -> Traits:
        """It holds rows."""
        return Traits(holds="tuples")

    def close(self) -> None:
        """It has no threads."""

    def save(self) -> BlockState:
        """The rows that it holds."""
        waiting = self._waiting
        state = BlockState({"failures": self._failures.count, "sides": len(waiting or ())})
        for side, batch in enumerate(waiting or ()):
            name = f"waiting{side}"
            state.values[name] = {"first": 0, "numbering": self._numbering}
            state.rows[name] = (batch.schema, [batch])
        return state

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self._failures.count = state.values["failures"]
        waiting = []
        for side in range(state.values["sides"]):
            schema, batches = state.rows[f"waiting{side}"]
            waiting.append(concat(batches) if batches else no_rows(schema))
            self._numbering = state.values[f"waiting{side}"]["numbering"]
        self._waiting = tuple(waiting) or None


def _columns(vector: Vector, key: SortKey) -> list[Any]:
    """Arrays that sort as the key does: first whether it is NULL, then its value."""
    values = _ranks(vector)
    if key.descending:
        values = ~values
    if vector.valid is None:
        return [values]
    nulls = vector.valid if key.nulls_first else ~vector.valid
    return [nulls, np.where(vector.valid, values, 0)]


def _ranks(vector: Vector) -> Indices:
    """Integers that order values as SQL does; of NULL any."""
    if is_text(vector.type):
        ranked = pc.rank(vector.values, "ascending", tiebreaker="dense")
        ranks: Indices = ranked.to_numpy().astype(np.int64)
        return ranks
    values = np.asarray(vector.values)
    if values.dtype == object:
        if vector.valid is not None:
            values = np.where(vector.valid, values, 0)
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    return comparison_key(vector).astype(np.int64)
