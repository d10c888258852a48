"""The first block of a query: it passes streams to the blocks that read them.

Tuples without a usable time become dead letters here, once each, before any other block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.blocks.contract import (
    LETTERS,
    PASSIVE,
    Batch,
    Instructions,
    Measures,
    Message,
    Port,
    Sent,
    Traits,
)
from penstock.blocks.run import Letters, Run, Share, empty_run
from penstock.blocks.state import BlockState
from penstock.kernels.expressions.vector import vector_of
from penstock.kernels.merging import all_within
from penstock.program.isa.block_instructions import INTAKE, ReadStream, ReadStreams
from penstock.streams.batches import take
from penstock.streams.literals import format_array
from penstock.streams.windows import TimeAttribute

FARTHEST = 1 << 62
"""Ticks are nearer to zero than this, so that no sum of a time and a window overflows."""


class Intake:
    """Takes a batch with a slot for every stream; has an output port for every reader, by number.

    ``passed`` counts by scan the tuples that were passed on, ``dead`` by stream those without a
    usable time.
    """

    inputs: Sequence[Port] = ("in",)
    number = INTAKE
    name = "intake"
    nbytes = 0

    def __init__(self, readers: Sequence[Port]) -> None:
        self.outputs: Sequence[Port] = (*readers, LETTERS)
        self.passed: dict[int, int] = {}
        self.dead: dict[str, int] = {}

    def step(self, port: Port, message: Message) -> Sequence[Sent]:
        """Take a batch, or another program from here on."""
        if isinstance(message, Batch):
            return self._take(message)
        if isinstance(message, Instructions) and self.number in message.bodies:
            self._program(message.bodies[self.number], message.site.share)
        return [(reader, message) for reader in self.outputs[:-1]]

    def _program(self, body: ReadStreams, share: Share | None) -> None:
        self._streams = [
            (one, one.stream.name.lower(), empty_run(one.stream.schema)) for one in body.streams
        ]
        self._floating = body.float_clock
        self._share = share if body.is_divided else None
        self._slots = list(body.scans.items())
        self._readers = [
            (str(number), [body.scans[scan] for scan in scans]) for number, scans in body.readers
        ]

    def _take(self, message: Batch) -> Sequence[Sent]:
        made: list[Sent] = []
        screened: list[Run] = []
        for (one, name, nothing), run in zip(self._streams, message.runs, strict=True):
            if run is None:
                screened.append(nothing)
                continue
            usable, letters = self._screened(one, run)
            screened.append(usable)
            if letters is not None:
                self.dead[name] = self.dead.get(name, 0) + len(letters.positions)
                made.append((LETTERS, letters))
        for scan, stream in self._slots:
            self.passed[scan] = self.passed.get(scan, 0) + len(screened[stream])
        for reader, streams in self._readers:
            runs = tuple([screened[stream] for stream in streams])
            made.append((reader, Batch(message.first, message.next, runs, message.is_last)))
        return made

    def _screened(self, one: ReadStream, run: Run) -> tuple[Run, Letters | None]:
        run = run if one.takes_words else run.plain
        if self._share is not None:
            run = _part(run, self._share)
        return screen(run, one.stream.name, one.times, self._floating)

    def measures(self) -> Measures:
        """Nothing: its counts are shown with the tuples of each stream."""
        return {}

    def traits(self) -> Traits:
        """It holds nothing."""
        return PASSIVE

    def save(self) -> BlockState:
        """What it has counted."""
        return BlockState(
            {"passed": {str(n): c for n, c in self.passed.items()}, "dead": self.dead}
        )

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self.passed = {int(scan): count for scan, count in state.values["passed"].items()}
        self.dead = dict(state.values["dead"])

    def close(self) -> None:
        """It has no threads."""


def _part(run: Run, share: Share) -> Run:
    """One of as many neighbouring parts of a run as there are cores. Controls go to all."""
    start, stop = (len(run) * i // share.cores for i in (share.core, share.core + 1))
    inputs = tuple(batch.slice(start, stop - start) for batch in run.inputs)
    return replace(run, inputs=inputs, at=run.positions[start:stop])


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
