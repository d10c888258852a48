"""Replays a script on Spark: its events go to the log, outputs come from the streaming query.

A script that was killed is run again from its first line. The log knows how many of its positions
it holds, so events that are there are skipped, and their outputs are read from the batches that the
checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.cli.checkpoint_match import CommandRecord
from penstock.cli.run.on_spark import SparkOptions, events_from
from penstock.engines.spark.core.output_batch import Batch
from penstock.program.isa.instructions import Derive, Install
from penstock.streams.events import Merged, Tuples
from penstock.streams.literals import format_rows
from penstock.testing.expectations import Output
from penstock.testing.replay import Event


class SparkTarget:
    """Spark as a target of scripts. ``command`` has the arguments of the command."""

    def __init__(self, options: SparkOptions, command: dict[str, Any]) -> None:
        CommandRecord(options.checkpoint, options.cores, command).begin()
        self._engine = options.connect()
        self._position = 0
        self._names: list[str] = []
        self._next = 0
        self._ahead: list[tuple[int, Output]] = []

    @property
    def position(self) -> int:
        return self._position

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Install):
                self._names.append(event.query)
            elif isinstance(event, Derive):
                self._names.append(event.name)
        known = self._engine.position - self._position
        try:
            self._engine.feed(events_from(events, known))
        except BaseException:
            self._position = self._engine.position
            raise
        sizes = [len(e) if isinstance(e, Tuples | Merged) else 1 for e in events]
        self._position += sum(sizes)

    def outputs(self) -> list[Output]:
        self._engine.wait()
        for batch in self._engine.made(self._next):
            for failure in batch.failures.values():
                raise failure
            self._ahead += _outputs(batch)
            self._next = batch.number + 1
        # An earlier run may have come further than this one.
        now = [
            (number, output) for number, output in self._ahead if output.position < self.position
        ]
        self._ahead = [one for one in self._ahead if one[1].position >= self.position]
        return [
            Output(o.position, self._names[number], o.kind, o.values, o.stream, o.reason)
            for number, o in now
        ]

    def __enter__(self) -> SparkTarget:
        return self

    def __exit__(self, *error: object) -> None:
        self._engine.close()


def _outputs(batch: Batch) -> Iterator[tuple[int, Output]]:
    """The outputs of a batch, by query number; query names are not known here."""
    for number, results in batch.rows.items():
        for result in results:
            texts = zip(result.positions.tolist(), format_rows(result.batch), strict=True)
            for position, text in texts:
                yield number, Output(position, "", "rows", text)
    for number, letters in batch.letters.items():
        for letter in letters:
            fields = (letter.text, letter.stream, letter.reason)
            yield number, Output(letter.position, "", letter.kind, *fields)
