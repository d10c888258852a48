"""Setting aside tuples that have no usable time, before anything of a query sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.blocks.run import Letters, Run
from penstock.kernels.vector import vector_of
from penstock.streams.batches import take
from penstock.streams.windows import TimeAttribute

FARTHEST = 1 << 62
"""Ticks lie nearer to zero than this, so that no sum of a time and a window overflows."""


def screen(run: Run, stream: str, times: Sequence[TimeAttribute], floating: bool) -> Run:
    """The run without the tuples whose time is NULL, NaN, or too far away for the query's clock.

    Those are dead letters, one each, whatever the number of windows that wanted their time.
    """
    batch = run.inputs[0]
    reasons: dict[int, str] = {}
    for time in times:
        column, name = batch.column(time.column), batch.schema.field(time.column).name
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            reasons = _because(f"NULL in time attribute {name}", null) | reasons
        if pa.types.is_floating(column.type):
            nan = pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False)
            reasons = _because(f"NaN in time attribute {name}", nan) | reasons
        if not floating and len(column) and not pa.types.is_floating(column.type):
            far = _far(column, -(-FARTHEST // int(time.factor)))
            if far is not None:
                reasons = _because(f"{name} does not fit the query's clock", far) | reasons
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


def _far(column: Any, limit: int) -> npt.NDArray[np.bool_] | None:
    """Which values, in units of the column, are ``limit`` or more away from zero; None: none."""
    vector = vector_of(column)
    values = np.asarray(vector.values)
    if values.dtype != object and limit > np.iinfo(values.dtype).max:
        return None
    if values.dtype != object and values.min() > -limit and values.max() < limit:
        return None
    far: npt.NDArray[np.bool_] = (values >= limit) | (values <= -limit)
    far = far.astype(np.bool_)  # wide decimals are Python integers, and compare as objects
    return far if vector.valid is None else far & vector.valid


def _because(reason: str, rows: npt.NDArray[np.bool_]) -> dict[int, str]:
    return {int(i): reason for i in np.flatnonzero(rows)}
