"""UNION ALL: the rows of several inputs in one, by position and at one position by input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.blocks.run import Control, Ended, Promise, Run
from penstock.blocks.state import BlockState, physical, plain
from penstock.program.blocks import UnionRows
from penstock.streams.batches import concat, take


class UnionBlock:
    """Remembers what each input has promised, since the union promises the smallest of it."""

    def __init__(self, instruction: UnionRows) -> None:
        self._inputs = len(instruction.inputs)
        self.promises: list[dict[int, object]] = [{} for _ in range(self._inputs)]
        self.ended = [False] * self._inputs

    def program(self, instruction: UnionRows) -> None:
        """A union has nothing to change."""

    def process(self, runs: Sequence[Run]) -> Run:
        """Merge one run of every input."""
        positions = np.concatenate([run.positions for run in runs])
        order = np.argsort(positions, kind="stable")
        batch = concat([run.inputs[0] for run in runs])
        if sum(1 for run in runs if len(run)) > 1:
            batch, positions = take(batch, order), positions[order]
        letters = tuple(letter for run in runs for letter in run.letters)
        return Run((batch,), positions, tuple(self._controls(runs)), letters)

    def save(self) -> BlockState:
        """What its inputs have promised, and which of them have ended."""
        promises = [[[c, plain(v)] for c, v in known.items()] for known in self.promises]
        return BlockState({"promises": promises, "ended": self.ended})

    def load(self, state: BlockState) -> None:
        """Go on from a saved state."""
        saved = state.values["promises"]
        self.promises = [{c: physical(v) for c, v in known} for known in saved]
        self.ended = list(state.values["ended"])

    def _controls(self, runs: Sequence[Run]) -> list[Control]:
        arriving = [(c.position, i, c) for i, run in enumerate(runs) for c in run.controls]
        arriving.sort(key=lambda item: item[:2])
        made: list[Control] = []
        for position, index, control in arriving:
            if isinstance(control, Ended):
                made.extend(self._end(position, index))
            elif control.column is not None:
                made.extend(self._promise(position, index, control))
        return made

    def _promise(self, position: int, index: int, promise: Promise) -> list[Control]:
        column = promise.column
        assert column is not None
        before = self._smallest(column)
        known: Any = self.promises[index].get(column)
        if known is None or promise.value > known:
            self.promises[index][column] = promise.value
        return self._risen(position, column, before)

    def _end(self, position: int, index: int) -> list[Control]:
        """An input that has ended holds the promises of the others back no longer."""
        columns = sorted({column for known in self.promises for column in known})
        before = [self._smallest(column) for column in columns]
        self.ended[index] = True
        if all(self.ended):
            return [Ended(position)]
        pairs = zip(columns, before, strict=True)
        return [made for column, was in pairs for made in self._risen(position, column, was)]

    def _risen(self, position: int, column: int, before: object | None) -> list[Control]:
        after = self._smallest(column)
        return [] if after is None or after == before else [Promise(position, column, after)]

    def _smallest(self, column: int) -> object | None:
        """What all inputs promise of a column; an input that has ended promises everything."""
        known: list[Any] = [
            p.get(column) for p, ended in zip(self.promises, self.ended, strict=True) if not ended
        ]
        if not known or any(value is None for value in known):
            return None
        smallest: object = min(known)
        return smallest
