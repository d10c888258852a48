"""Projection: compute the select list."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.blocks.run import Control, Promise, Run
from penstock.blocks.state import BlockState
from penstock.kernels.evaluate import evaluate
from penstock.kernels.vector import Failures
from penstock.program.blocks import ProjectColumns
from penstock.sql.expressions import Column, Expression


class ProjectBlock:
    """Has no state but its select list.

    A promise on a column of the input is one on every output column that is that column unchanged.
    """

    def __init__(self, instruction: ProjectColumns) -> None:
        self.failures = Failures()
        self.program(instruction)

    def program(self, instruction: ProjectColumns) -> None:
        """Take another select list from here on."""
        self._columns = instruction.columns
        self._schema = pa.schema([pa.field(c.name, c.type) for c in instruction.columns])

    def process(self, run: Run) -> Run:
        """One output row per input row."""
        arrays = [self._array(output.expression, run) for output in self._columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        controls = tuple(made for control in run.controls for made in self._control(control))
        return Run((batch,), run.positions, controls, run.letters, run.ties)

    def save(self) -> BlockState:
        """What it has counted; it remembers nothing else."""
        return BlockState({"failures": self.failures.count})

    def load(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self.failures.count = state.values["failures"]

    def _array(self, expression: Expression, run: Run) -> Any:
        if isinstance(expression, Column):
            return run.inputs[expression.side].column(expression.index)
        return evaluate(expression, run.inputs, self.failures).to_arrow()

    def _control(self, control: Control) -> list[Control]:
        if not isinstance(control, Promise):
            return [control]
        return [
            Promise(control.position, index, control.value)
            for index, output in enumerate(self._columns)
            if isinstance(output.expression, Column)
            and output.expression.side == control.side
            and control.column in (None, output.expression.index)
        ]
