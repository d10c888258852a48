"""The left end of a branch, where R enters, and where S and the instructions leave.

Behind the positions of instructions R waits here for their token: for the instructions themselves,
which have come through all blocks from the other end. So no tuple of R meets a block that lacks
the instructions of an earlier position. Instructions that are still there when they leave were
addressed to blocks that the branch does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penstock.blocks.contract import Measures, Port, Sent
from penstock.processor.op_block.messages import Programming, Slice, Token
from penstock.processor.op_block.op_block import R_OUT
from penstock.processor.op_block.query_buffer import R, S

STRAYS: Port = "strays"


class LeftEnd:
    """Lets R in behind the instructions that it must not overtake."""

    inputs: Sequence[Port] = (R, S)

    def __init__(self, name: str) -> None:
        self.name = name
        self._waits_for: int | None = None
        self._arrived = -1

    def needs(self, port: Port) -> Sequence[Port] | None:
        """R waits while instructions are on their way."""
        if port == R:
            return (R_OUT,) if self._waits_for is None else None
        return (R_OUT, STRAYS)

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Let a message of R in; take what leaves by S."""
        if port == S:
            return self._left(message)
        if isinstance(message, Token) and message.serial > self._arrived:
            self._waits_for = message.serial
            return ()
        return ((R_OUT, message),)

    def _left(self, message: Any) -> Iterator[Sent]:
        assert isinstance(message, Slice | Programming), message
        if isinstance(message, Slice):
            return
        if message.words:
            yield STRAYS, message
        self._arrived = message.serial
        if self._waits_for == message.serial:
            self._waits_for = None
            yield R_OUT, Token(message.serial)

    def forward(self, has_room: Callable[[Port], bool]) -> Sequence[Sent]:
        """Nothing: it moves when a message comes."""
        return ()

    def restart(self) -> None:
        """Forget what was on its way."""
        self._waits_for = None

    def measures(self) -> Measures:
        """It counts nothing."""
        return {}
