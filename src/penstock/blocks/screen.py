"""Rows without a usable time become dead letters, before any window sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.blocks.contract import (
    LETTERS,
    OUT,
    PASSIVE,
    Batch,
    BlockId,
    Instructions,
    Measures,
    Message,
    Port,
    Sent,
    Traits,
)
from penstock.blocks.run import Letters, Run
from penstock.blocks.state import BlockState
from penstock.kernels.expressions.vector import vector_of
from penstock.kernels.merging import all_within
from penstock.program.isa.block_instructions import ScreenRows
from penstock.streams.batches import take
from penstock.streams.literals import format_array
from penstock.streams.windows import TimeAttribute

FARTHEST = 1 << 62
"""Ticks are nearer to zero than this, so that no sum of a time and a window overflows."""


class ScreenBlock:
    """Screens the rows of a block that windows read; those of streams are screened as they enter.

    Has no state but its instruction.
    """

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out", LETTERS)
    nbytes = 0

    def __init__(self, number: BlockId) -> None:
        self.number = number
        self.name = f"screen #{number}"
        self._body: ScreenRows | None = None

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        """Take a batch, or another time attribute from here on."""
        body = self._body
        if isinstance(message, Batch) and body is not None and body.time is not None:
            times = (body.time,)
            usable, letters = screen(message.run, body.stream, times, body.float_clock)
            if letters is not None:
                yield LETTERS, letters
            yield OUT, message.made(usable, True)
            return
        if isinstance(message, Instructions) and self.number in message.bodies:
            self._body = message.bodies[self.number]
        yield OUT, message

    def measures(self) -> Measures:
        """Nothing: letters are counted where they arrive."""
        return {}

    def traits(self) -> Traits:
        """It holds nothing."""
        return PASSIVE

    def save(self) -> BlockState:
        """Nothing: it has no state."""
        return BlockState()

    def restore(self, state: BlockState) -> None:
        """There is nothing to go on from."""

    def close(self) -> None:
        """It has no threads."""


def screen(
    run: Run, stream: str, times: Sequence[TimeAttribute], floating: bool
) -> tuple[Run, Letters | None]:
    """The run without the tuples whose time is NULL, NaN, infinite, or beyond the query's clock.

    Those are dead letters, one each, however many windows use their time.
    """
    if not len(run):
        return run, None
    batch = run.inputs[0]
    reasons: dict[int, str] = {}
    for time in times:
        column = batch.column(time.column)
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            reasons = _because(f"NULL in time attribute {_name(batch, time)}", null) | reasons
        if pa.types.is_floating(column.type):
            odd = pc.invert(pc.is_finite(column)).fill_null(False).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(odd)
            shown = format_array(column.take(rows)) if len(rows) else []
            name = _name(batch, time)
            texts = (f"{value} in time attribute {name}" for value in shown)
            reasons = dict(zip(rows.tolist(), texts, strict=True)) | reasons
        if not floating and not pa.types.is_floating(column.type):
            far = _far(column, -(-FARTHEST // int(time.factor)))
            if far is not None:
                why = f"{_name(batch, time)} does not fit the query's clock"
                reasons = _because(why, far) | reasons
    if not reasons:
        return run, None
    gone = np.array(sorted(reasons), np.int64)
    usable = np.setdiff1d(np.arange(len(run)), gone)
    letters = Letters(
        "dead",
        stream,
        take(batch, gone),
        run.positions[gone],
        [reasons[i] for i in gone.tolist()],
    )
    return Run((take(batch, usable),), run.positions[usable], run.controls), letters


def _name(batch: pa.RecordBatch, time: TimeAttribute) -> str:
    return batch.schema.field(time.column).name


def _far(column: Any, limit: int) -> npt.NDArray[np.bool_] | None:
    """Which values, in units of the column, are ``limit`` or more away from zero; None: none."""
    vector = vector_of(column)
    values = vector.values
    if values.dtype != object:
        if values.itemsize < 8 and limit > np.iinfo(values.dtype).max:
            return None
        if all_within(values, -limit, limit):
            return None
    far: npt.NDArray[np.bool_] = (values >= limit) | (values <= -limit)
    far = far.astype(np.bool_)  # wide decimals are Python integers, and compare as objects
    return far if vector.valid is None else far & vector.valid


def _because(reason: str, rows: npt.NDArray[np.bool_]) -> dict[int, str]:
    return {int(i): reason for i in np.flatnonzero(rows)}
