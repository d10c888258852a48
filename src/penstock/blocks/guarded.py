"""A block of a user's own, whose errors say that they are of its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.blocks.contract import Block, BlockId, Instructions, Measures, Port, Sent, Traits
from penstock.blocks.state import BlockState
from penstock.errors import OwnBlockFailed, PenstockError, ResultDoesNotFit


class GuardedBlock:
    """A user's block as networks have it: what its ``step`` raises is an OwnBlockFailed.

    A PenstockError goes on as it is where the block takes an instruction, which it may refuse;
    so does a ResultDoesNotFit, with which a block stops its query.
    """

    def __init__(self, kind: str, make: Callable[[BlockId], Block], number: BlockId) -> None:
        self._kind = kind
        self._block = make(number)
        self.name = self._block.name

    @property
    def number(self) -> BlockId:
        """The address of its instructions."""
        return self._block.number

    @property
    def inputs(self) -> Sequence[Port]:
        """Its input ports."""
        return self._block.inputs

    @property
    def outputs(self) -> Sequence[Port]:
        """Its output ports."""
        return self._block.outputs

    @property
    def nbytes(self) -> int:
        """The memory of its state."""
        return self._block.nbytes

    def step(self, port: Port, message: Any) -> Iterator[Sent]:
        """Take one message."""
        try:
            yield from self._block.step(port, message)
        except ResultDoesNotFit:
            raise
        except Exception as error:
            if isinstance(error, PenstockError) and isinstance(message, Instructions):
                raise
            what = error.what if isinstance(error, PenstockError) else error
            raise OwnBlockFailed(
                f"the code of the block {self._kind} raised {type(error).__name__}: {what}",
                "Correct the code of the block.",
            ) from error

    def measures(self) -> Measures:
        """Its counts."""
        return self._block.measures()

    def traits(self) -> Traits:
        """Its properties."""
        return self._block.traits()

    def save(self) -> BlockState:
        """Its state."""
        return self._block.save()

    def restore(self, state: BlockState) -> None:
        """Go on from a saved state."""
        self._block.restore(state)

    def close(self) -> None:
        """Let go of threads, if it has any."""
        self._block.close()
