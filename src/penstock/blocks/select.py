"""Selection: keep the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.blocks.run import Control, Promise, Run
from penstock.blocks.state import BlockState
from penstock.kernels.evaluate import select
from penstock.kernels.vector import Failures
from penstock.program.blocks import SelectRows
from penstock.sql.expressions import TRUE
from penstock.streams.batches import only, take


class SelectBlock:
    """Has no state but its condition."""

    def __init__(self, instruction: SelectRows) -> None:
        self.failures = Failures()
        self.program(instruction)

    def program(self, instruction: SelectRows) -> None:
        """Take another condition from here on."""
        self._condition = instruction.condition
        self._columns = instruction.columns

    def process(self, run: Run) -> Run:
        """The rows for which the condition is true, in the same order, without idle columns."""
        mask = None
        if self._condition != TRUE and len(run):
            mask = select(run.inputs, self._condition, self.failures)
        if self._columns is not None:
            inputs = (only(run.inputs[0], self._columns),)
            run = replace(run, inputs=inputs, controls=tuple(self._controls(run)))
        if mask is None or mask.all():
            return run
        # Taking by index is several times faster than filtering by a mask that cuts often.
        passed = np.flatnonzero(mask)
        kept = tuple(take(batch, passed) for batch in run.inputs)
        ties = None if run.ties is None else run.ties.take(passed)
        return replace(run, inputs=kept, at=run.positions.take(passed), ties=ties)

    def save(self) -> BlockState:
        """What it has counted; it remembers nothing else."""
        return BlockState({"failures": self.failures.count})

    def load(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self.failures.count = state.values["failures"]

    def _controls(self, run: Run) -> Iterator[Control]:
        """Promises, by the columns that are left; one on any column is one on each of them."""
        assert self._columns is not None
        for control in run.controls:
            if not isinstance(control, Promise) or control.column is None:
                yield control
            elif control.column in self._columns:
                yield replace(control, column=self._columns.index(control.column))
