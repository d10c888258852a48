"""Selection: keep the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

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
from penstock.blocks.loose_rows import ColumnSources
from penstock.blocks.run import ColumnPunctuation, Control, Run
from penstock.blocks.state import BlockState
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures, Mask
from penstock.program.isa.block_instructions import SelectRows
from penstock.sql.expressions import TRUE, Expression
from penstock.streams.batches import only, take

Evaluate = Callable[[Sequence[pa.RecordBatch], Expression, Failures], Mask]
"""Finds the rows for which a condition is true, and counts failures."""


class SelectBlock:
    """Has no state but its condition, which ``evaluate`` finds the rows of."""

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out",)
    nbytes = 0

    def __init__(self, number: BlockId, evaluate: Evaluate = select) -> None:
        self.number = number
        self.name = f"select #{number}"
        self._evaluate = evaluate
        self._failures = Failures()
        self._condition: Expression | None = None
        """None: every row is kept."""
        self._columns: tuple[int, ...] | None = None

    def step(self, port: Port, message: Message) -> Sequence[Sent]:
        """Take a batch, or another condition from here on."""
        if isinstance(message, Batch):
            return ((OUT, message.made(self._selected(message.run), True)),)
        if isinstance(message, Instructions) and self.number in message.bodies:
            body: SelectRows = message.bodies[self.number]
            self._condition = None if body.condition == TRUE else body.condition
            self._columns = body.columns
        return ((OUT, message),)

    def _selected(self, run: Run) -> Run:
        """The rows for which the condition is true, in the same order, without idle columns."""
        mask = None
        if self._condition is not None and len(run):
            mask = self._evaluate(run.inputs, self._condition, self._failures)
        if self._columns is not None:
            inputs = (only(run.inputs[0], self._columns),)
            run = replace(run, inputs=inputs, controls=tuple(self._controls(run)))
        if mask is None or mask.all():
            return run
        # Taking by index is several times faster than filtering by a mask that cuts often.
        passed = np.flatnonzero(mask)
        selected = tuple(take(batch, passed) for batch in run.inputs)
        ties = None if run.ties is None else run.ties.take(passed)
        return replace(run, inputs=selected, at=run.positions.take(passed), ties=ties)

    def measures(self) -> Measures:
        """How often an expression has failed."""
        return {"expression_failures": self._failures.count}

    def traits(self) -> Traits:
        """It holds nothing; if every row passes whole, it copies."""
        return Traits(fuses=self._copied)

    def _copied(self, sources: ColumnSources) -> ColumnSources | None:
        every = self._condition is None and self._columns is None
        return sources if every else None

    def save(self) -> BlockState:
        """Its counts; it has no other state."""
        return BlockState({"failures": self._failures.count})

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self._failures.count = state.values["failures"]

    def close(self) -> None:
        """It has no threads."""

    def _controls(self, run: Run) -> Iterator[Control]:
        """Punctuations, by the output columns; one on any column becomes one on each of them."""
        assert self._columns is not None
        for control in run.controls:
            if not isinstance(control, ColumnPunctuation) or control.column is None:
                yield control
            elif control.column in self._columns:
                yield replace(control, column=self._columns.index(control.column))
