"""Setting aside tuples that have no time, before anything of a query sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.blocks.run import Letters, Run
from penstock.streams.batches import take


def screen(run: Run, stream: str, columns: Sequence[int]) -> Run:
    """The run without the tuples whose value in one of the columns is NULL or NaN.

    Those are dead letters, one each, whatever the number of windows that wanted their time.
    """
    batch = run.inputs[0]
    reasons: dict[int, str] = {}
    for index in columns:
        column, name = batch.column(index), batch.schema.field(index).name
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            reasons = _because(f"NULL in time attribute {name}", null) | reasons
        if pa.types.is_floating(column.type):
            nan = pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False)
            reasons = _because(f"NaN in time attribute {name}", nan) | reasons
    if not reasons:
        return run
    gone = np.array(sorted(reasons), np.int64)
    kept = np.setdiff1d(np.arange(len(run)), gone)
    letters = Letters(
        "dead",
        stream,
        take(batch, gone),
        run.positions[gone],
        [reasons[i] for i in gone.tolist()],
    )
    return Run(
        (take(batch, kept),),
        run.positions[kept],
        run.controls,
        (*run.letters, letters),
    )


def _because(reason: str, rows: npt.NDArray[np.bool_]) -> dict[int, str]:
    return {int(i): reason for i in np.flatnonzero(rows)}
