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
from penstock.streams.batches import only

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
        run = without_idle_columns(run, self._columns)
        if mask is None or mask.all():
            return run
        # Taking by index is several times faster than filtering by a mask that cuts often.
        return run.take(np.flatnonzero(mask))

    @property
    def takes_whole_tuples(self) -> bool:
        """Whether it evaluates its condition on whole tuples, as others may do in its place."""
        return self._evaluate is select

    def count_failures(self, failures: int) -> None:
        """Count failures of its condition, where that has been evaluated elsewhere."""
        self._failures.count += failures

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


def without_idle_columns(run: Run, columns: Sequence[int] | None) -> Run:
    """The run with these columns of its one input; None: with all columns of all inputs."""
    if columns is None:
        return run
    inputs = (only(run.inputs[0], columns),)
    return replace(run, inputs=inputs, controls=tuple(_controls(run, columns)))


def _controls(run: Run, columns: Sequence[int]) -> Iterator[Control]:
    """Punctuations, by the output columns; one on any column becomes one on each of them."""
    for control in run.controls:
        if not isinstance(control, ColumnPunctuation) or control.column is None:
            yield control
        elif control.column in columns:
            yield replace(control, column=columns.index(control.column))
