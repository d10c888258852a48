"""Projection: compute the select list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures
from penstock.program.isa.block_instructions import ProjectColumns
from penstock.sql.expressions import Column, Expression
from penstock.sql.plan import Output
from penstock.streams.batches import no_rows


class ProjectBlock:
    """Has no state but its select list.

    A punctuation on a column of the input is one on every output column that is that column
    unchanged.
    """

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out",)
    nbytes = 0

    def __init__(self, number: BlockId) -> None:
        self.number = number
        self.name = f"project #{number}"
        self._failures = Failures()
        self._columns: tuple[Output, ...] | None = None
        self._schema = pa.schema([])
        self._nothing = no_rows(self._schema)

    def step(self, port: Port, message: Message) -> Sequence[Sent]:
        """Take a batch, or another select list from here on."""
        if isinstance(message, Batch) and self._columns is not None:
            return ((OUT, message.made(self._projected(message.run, self._columns), True)),)
        if isinstance(message, Instructions) and self.number in message.bodies:
            body: ProjectColumns = message.bodies[self.number]
            self._columns = body.columns
            self._schema = pa.schema([pa.field(c.name, c.type) for c in body.columns])
            self._nothing = no_rows(self._schema)
        return ((OUT, message),)

    def _projected(self, run: Run, columns: tuple[Output, ...]) -> Run:
        """One output row per input row."""
        batch = self._nothing
        if len(run):
            arrays = [self._array(output.expression, run) for output in columns]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        controls = tuple(made for given in run.controls for made in _controls(given, columns))
        return Run((batch,), run.at, controls, run.ties)

    def measures(self) -> Measures:
        """How often an expression has failed."""
        return {"expression_failures": self._failures.count}

    def traits(self) -> Traits:
        """It holds nothing; if it computes nothing, it copies."""
        return Traits(fuses=self._copied)

    def _copied(self, sources: ColumnSources) -> ColumnSources | None:
        picked = [output.expression for output in self._columns or ()]
        columns = [column for column in picked if isinstance(column, Column)]
        if len(columns) < len(picked):
            return None
        return ([sources[column.side][column.index] for column in columns],)

    def save(self) -> BlockState:
        """What it has counted; it remembers nothing else."""
        return BlockState({"failures": self._failures.count})

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self._failures.count = state.values["failures"]

    def close(self) -> None:
        """It has no threads."""

    def _array(self, expression: Expression, run: Run) -> Any:
        if isinstance(expression, Column):
            return run.inputs[expression.side].column(expression.index)
        return evaluate(expression, run.inputs, self._failures).to_arrow()


def _controls(control: Control, columns: Sequence[Output]) -> list[Control]:
    if not isinstance(control, ColumnPunctuation):
        return [control]
    return [
        ColumnPunctuation(control.position, index, control.value)
        for index, output in enumerate(columns)
        if isinstance(output.expression, Column)
        and output.expression.side == control.side
        and control.column in (None, output.expression.index)
    ]
