"""A block of a user's own: drop a row equal to the one before it by a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.contract import PASSIVE, Batch, Instructions, Measures, Message, Sent, Traits
from penstock.blocks.run import Run
from penstock.blocks.state import BlockState
from penstock.sql.expressions import Column


class DedupBlock:
    """``dedup(R, key => id)``: of neighbouring rows with the same key, the first.

    The key of the last row is what it remembers; after a change of the key, any row is a new one.
    """

    parameters = ("key",)
    inputs: Sequence[str] = ("in",)
    outputs: Sequence[str] = ("out",)
    nbytes = 0

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"dedup #{number}"
        self._key: int | None = None
        self._last: list[Any] = []
        self._dropped = 0

    def step(self, port: str, message: Message) -> Iterator[Sent]:
        """Drop repeated rows, or take another key from here on."""
        if isinstance(message, Batch) and self._key is not None:
            yield "out", message.made(self._kept(message.run, self._key), True)
            return
        if isinstance(message, Instructions) and self.number in message.bodies:
            key = message.bodies[self.number].argument("key")
            assert isinstance(key, Column)
            if key.index != self._key:
                self._key, self._last = key.index, []
        yield "out", message

    def _kept(self, run: Run, key: int) -> Run:
        [batch] = run.inputs
        keys = batch.column(key).to_pylist()
        before = [*(self._last or [object()]), *keys]
        kept = np.array([i for i, one in enumerate(keys) if one != before[i]], np.int64)
        self._last = keys[-1:] or self._last
        self._dropped += len(keys) - len(kept)
        indices: Any = pa.array(kept)
        return replace(run, inputs=(batch.take(indices),), at=run.positions[kept])

    def measures(self) -> Measures:
        """How many rows it has dropped."""
        return {"duplicates": self._dropped}

    def traits(self) -> Traits:
        """It holds nothing that grows."""
        return PASSIVE

    def save(self) -> BlockState:
        """The key of the last row."""
        return BlockState({"key": self._key, "last": self._last, "dropped": self._dropped})

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        values = state.values
        self._key, self._last, self._dropped = values["key"], values["last"], values["dropped"]

    def close(self) -> None:
        """It has no threads."""
