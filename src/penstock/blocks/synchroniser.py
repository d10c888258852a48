"""Where several blocks feed one, the synchroniser merges their batches by position.

The last part of a batch has the token ``next`` (Najafi 2019 §7.2); instructions are a token too. An
input that has come to a token is ahead, and nothing is taken from it until all have come to theirs:
these are of the same positions, since every path has taken the same messages in the same order. So
the parts of a batch leave as one, with a slot for each input. Instructions leave once they have
come over every input: after all rows that came before them, and before all that come after them.
The rows that they bring out over several inputs are of one position, and leave together, with the
barrier that closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.blocks.contract import OUT, Batch, Instructions, Measures, Message, Port, Sent
from penstock.blocks.run import Run, concatenate


class Synchroniser:
    """Merges ports, named by their number, for a block that has as many inputs.

    ``nothing`` has for each what its slot holds if it has no rows.
    """

    def __init__(self, name: str, nothing: Sequence[Run | None]) -> None:
        self.name = name
        self.inputs: Sequence[Port] = tuple(map(str, range(len(nothing))))
        self._nothing = tuple(nothing)
        self._waiting: dict[Port, list[Run]] = {port: [] for port in self.inputs}
        self._ahead: set[Port] = set()

    def needs(self, port: Port) -> Sequence[Port] | None:
        """Nothing is taken from an input that is ahead."""
        return None if port in self._ahead else (OUT,)

    def step(self, port: Port, message: Message) -> Iterator[Sent]:
        """Take a message of one input; at its token, and if the others are there, all go on."""
        if isinstance(message, Batch):
            self._waiting[port].append(message.run)
            if not message.is_last:
                return
        self._ahead.add(port)
        if len(self._ahead) < len(self.inputs):
            return
        self._ahead.clear()
        if isinstance(message, Batch):
            yield from self._let_out(message.first, message.next)
        else:
            assert isinstance(message, Instructions)
            yield from self._let_out(message.position, message.position)
            yield OUT, message

    def _let_out(self, first: int, after: int) -> Iterator[Sent]:
        waiting = self._waiting.values()
        if any(waiting):
            pairs = zip(waiting, self._nothing, strict=True)
            runs = tuple(concatenate(runs) if runs else nothing for runs, nothing in pairs)
            for one in waiting:
                one.clear()
            yield OUT, Batch(first, after, runs)

    def forward(self, has_room: Callable[[Port], bool]) -> Sequence[Sent]:
        """Nothing: it moves when a message comes."""
        return ()

    def measures(self) -> Measures:
        """It counts nothing."""
        return {}
