"""Selection: keep the rows for which a condition is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import Run
from penstock.kernels.evaluate import select
from penstock.kernels.vector import Failures
from penstock.program.blocks import SelectRows
from penstock.sql.expressions import TRUE


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
        kept = tuple(_filter(batch, mask) for batch in run.inputs)
        return replace(run, inputs=kept, positions=run.positions[mask])


def _filter(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    if batch.num_columns == 0:
        # Arrow forgets the length of a batch without columns when it filters it.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * int(mask.sum()), pa.struct([])))
    return batch.filter(pa.array(mask))
