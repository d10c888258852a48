"""Selection: keep the rows for which a condition is true."""

from __future__ import annotations

from dataclasses import replace

from penstock.blocks.run import Run
from penstock.kernels.evaluate import select
from penstock.kernels.vector import Failures
from penstock.program.blocks import SelectRows
from penstock.sql.expressions import TRUE
from penstock.streams.batches import keep


class SelectBlock:
    """Has no state but its condition."""

    def __init__(self, instruction: SelectRows) -> None:
        self.failures = Failures()
        self.program(instruction)

    def program(self, instruction: SelectRows) -> None:
        """Take another condition from here on."""
        self._condition = instruction.condition

    def process(self, run: Run) -> Run:
        """The rows for which the condition is true, in the same order."""
        if self._condition == TRUE or not len(run):
            return run
        mask = select(run.inputs, self._condition, self.failures)
        if mask.all():
            return run
        kept = tuple(keep(batch, mask) for batch in run.inputs)
        return replace(run, inputs=kept, positions=run.positions[mask])
