"""The first block of a query: it passes streams to the blocks that read them.

Tuples without a usable time become dead letters here, once each, before any other block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from penstock.blocks.screen import screen
from penstock.blocks.state import BlockState
from penstock.program.isa.block_instructions import INTAKE, ReadStream, ReadStreams
from penstock.streams.schema import is_text


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
        # Only texts come encoded.
        self._decoded = {
            one.stream.name
            for one in body.streams
            if not one.takes_words and any(map(is_text, one.stream.schema.types))
        }
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
        if one.stream.name in self._decoded:
            run = run.plain
        if self._share is not None:
            run = _part(run, self._share)
        if not one.times:
            return run, None
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
