"""UNION ALL: the rows of several inputs in one, by position and at one position by input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.blocks.contract import (
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
from penstock.blocks.run import ColumnPunctuation, Control, EndOfStream, Run
from penstock.blocks.state import BlockState, physical, plain
from penstock.program.isa.block_instructions import UnionRows
from penstock.streams.batches import concat, take


class UnionBlock:
    """Keeps the punctuations of each input, since the output has the smallest."""

    inputs: Sequence[Port] = ("in",)
    outputs: Sequence[Port] = ("out",)
    nbytes = 0

    def __init__(self, number: BlockId) -> None:
        self.number = number
        self.name = f"union #{number}"
        self.punctuations: list[dict[int, object]] = []
        self.ended: list[bool] = []

    def step(self, port: Port, message: Message) -> Sequence[Sent]:
        """Take a batch with one run of every input; a union has nothing to change."""
        if isinstance(message, Batch) and self.ended:
            return ((OUT, message.made(self._merged(message.runs), True)),)
        if isinstance(message, Instructions) and self.number in message.bodies and not self.ended:
            body: UnionRows = message.bodies[self.number]
            self.punctuations = [{} for _ in body.inputs]
            self.ended = [False for _ in body.inputs]
        return ((OUT, message),)

    def _merged(self, runs: Sequence[Run | None]) -> Run:
        given = [run for run in runs if run is not None]
        positions = np.concatenate([run.positions for run in given])
        order = np.argsort(positions, kind="stable")
        batch = concat([run.inputs[0] for run in given])
        if sum(1 for run in given if len(run)) > 1:
            batch, positions = take(batch, order), positions[order]
        return Run((batch,), positions, tuple(self._controls(runs)))

    def measures(self) -> Measures:
        """It counts nothing."""
        return {}

    def traits(self) -> Traits:
        """It holds nothing."""
        return PASSIVE

    def close(self) -> None:
        """It has no threads."""

    def save(self) -> BlockState:
        """The punctuations of its inputs, and which of them have ended."""
        punctuations = [[[c, plain(v)] for c, v in known.items()] for known in self.punctuations]
        return BlockState({"punctuations": punctuations, "ended": self.ended})

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        saved = state.values["punctuations"]
        self.punctuations = [{c: physical(v) for c, v in known} for known in saved]
        self.ended = list(state.values["ended"])

    def _controls(self, runs: Sequence[Run | None]) -> list[Control]:
        given = [(i, run) for i, run in enumerate(runs) if run is not None]
        arriving = [(c.position, i, c) for i, run in given for c in run.controls]
        arriving.sort(key=lambda item: item[:2])
        made: list[Control] = []
        for position, index, control in arriving:
            if isinstance(control, EndOfStream):
                made.extend(self._end(position, index))
            elif control.column is not None:
                made.extend(self._punctuate(position, index, control))
        return made

    def _punctuate(
        self, position: int, index: int, punctuation: ColumnPunctuation
    ) -> list[Control]:
        column = punctuation.column
        assert column is not None
        before = self._smallest(column)
        known: Any = self.punctuations[index].get(column)
        if known is None or punctuation.value > known:
            self.punctuations[index][column] = punctuation.value
        return self._risen(position, column, before)

    def _end(self, position: int, index: int) -> list[Control]:
        """An input that has ended holds the punctuations of the others back no longer."""
        columns = sorted({column for known in self.punctuations for column in known})
        before = [self._smallest(column) for column in columns]
        self.ended[index] = True
        if all(self.ended):
            return [EndOfStream(position)]
        pairs = zip(columns, before, strict=True)
        return [made for column, was in pairs for made in self._risen(position, column, was)]

    def _risen(self, position: int, column: int, before: object | None) -> list[Control]:
        after = self._smallest(column)
        if after is None or after == before:
            return []
        return [ColumnPunctuation(position, column, after)]

    def _smallest(self, column: int) -> object | None:
        """The smallest punctuation of a column; inputs that have ended do not count."""
        known: list[Any] = [
            p.get(column)
            for p, ended in zip(self.punctuations, self.ended, strict=True)
            if not ended
        ]
        if not known or any(value is None for value in known):
            return None
        smallest: object = min(known)
        return smallest
